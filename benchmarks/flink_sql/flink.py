"""A line on Flink SQL: windows of its own in one JVM with two cores, over the same records.

Each of Flink's two readers has a CSV file with the columns of the query, in the order of time, because Flink does not
promise to read files in their order.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.baselines.flink_job import SETTINGS
from benchmarks.public import judge
from benchmarks.public.line import Line
from benchmarks.public.query import FlinkQuery
from benchmarks.running.run import Run
from benchmarks.running.session import session
from benchmarks.running.side import CORES
from benchmarks.workloads.workload import Workload, scratch
from servers import maven
from slicing.windows.time.durations import microseconds

PROJECT = Path(__file__).parent
LIMIT_SECONDS = 400.0
JAVA = (
    "-Xmx6g",
    f"-XX:ActiveProcessorCount={CORES}",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util", "time", "net", "io", "nio")),
)
CSV = "'connector' = 'filesystem', 'format' = 'csv', 'path' = 'file://{}'"
DROPPED = "'connector' = 'blackhole'"
REPORTER = {"metrics.reporters": "read", "metrics.reporter.read.factory.class": "SourceRecords"}


@dataclass(frozen=True)
class Flink:
    """Flink with a state backend."""

    backend: str
    closes_all = True

    def run(self, line: Line) -> Run:
        """Return what the last micro-batches of a line take; the others warm up."""
        with scratch() as folder:
            records = _write(line, line.workload, line.batches, folder)
            batches, steady = line.batches, line.steady
            try:
                said = self._job(line, folder, (records * (batches - steady) // batches, records), DROPPED)
            except subprocess.TimeoutExpired:
                return Run(LIMIT_SECONDS, line.workload.records, stopped=True, store=self.backend)
        return Run(
            said["seconds"] / steady,
            line.workload.records,
            batches=steady,
            store=self.backend,
            state_bytes=said["state"],
            peak_mib=said["peak"] / 1024,
            processor=said["processor"] / steady,
        )

    @contextmanager
    def rows(self, line: Line, workload: Workload) -> Iterator[DataFrame]:
        """Yield all rows over a workload. At the end of its input, Flink closes all windows."""
        with scratch() as folder:
            _write(line, workload, workload.batches, folder)
            self._job(line, folder, (0, 0), CSV.format(folder / "rows"))
            yield _windowed(session().read.schema(_columns(line.query.flink, "timestamp")).csv(f"{folder}/rows"))

    def _job(self, line: Line, folder: Path, counted: tuple[int, int], sink: str) -> dict[str, float]:
        """Run a job in a JVM of its own and return what it says."""
        (folder / "scratch").mkdir()
        places = {"execution.checkpointing.dir": f"file://{folder}/checkpoints", "io.tmp.dirs": f"{folder}/scratch"}
        settings = SETTINGS | REPORTER | places | {"state.backend.type": self.backend}
        command = ["java", *JAVA, f"-Djava.io.tmpdir={folder}/scratch", "-cp", maven.classpath(PROJECT), "Job"]
        command += [*map(str, counted), *map("=".join, settings.items()), "--", *_statements(line, folder, sink)]
        environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        if done.returncode:
            raise RuntimeError(f"Flink has failed, and said last: {_causes(done.stderr)}")
        return json.loads(done.stdout.splitlines()[-1]) if counted[0] else {}


def _causes(stderr: str) -> str:
    return "\n".join(line for line in stderr.splitlines() if not line.lstrip().startswith(("at ", "...", "SLF4J")))


def _statements(line: Line, folder: Path, sink: str) -> Iterator[str]:
    query = line.query.flink
    event_time = f"ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - {_interval(line.delay)}"
    yield f"CREATE TABLE records ({query.columns}, ms BIGINT, {event_time}) WITH ({CSV.format(folder / 'records')})"
    yield f"CREATE TABLE found ({_columns(query, 'TIMESTAMP(3)')}) WITH ({sink})"
    yield f"INSERT INTO found {query.sql(*map(_interval, line.window))}"


def _columns(query: FlinkQuery, time: str) -> str:
    return ", ".join(filter(None, [query.keys, f"window_start {time}, window_end {time}", query.results]))


def _interval(duration: str) -> str:
    seconds = microseconds(duration, duration) // 10**6
    return f"INTERVAL '{seconds // 86_400} {time.strftime('%H:%M:%S', time.gmtime(seconds))}' DAY TO SECOND"


def _windowed(rows: DataFrame) -> DataFrame:
    at = rows.columns.index("window_start")
    window = F.struct(F.col("window_start").alias("start"), F.col("window_end").alias("end")).alias("window")
    return rows.select(*rows.columns[:at], window, *rows.columns[at + 2 :])


def _write(line: Line, workload: Workload, batches: int, folder: Path) -> int:
    """Write the input and return its number of records."""
    import duckdb  # imported here, because only this side needs it

    (folder / "records").mkdir()
    written = 0
    for part in range(workload.parts):
        files = [str(path) for path in workload.files() if path.stem.endswith(f"-{part}")][:batches]
        with duckdb.connect() as connection:
            judge.views(connection, line.query, files)
            file = f"{folder}/records/{part}.csv"
            written += connection.execute(f"copy ({line.query.flink.input}) to '{file}' (header false)").fetchall()[0][
                0
            ]
    return written
