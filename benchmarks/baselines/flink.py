"""Flink SQL in a separate Python environment: its input, its job and its output rows."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.running.run import Run
from benchmarks.running.session import session
from benchmarks.workloads.workload import START, Workload
from slicing.windows.time.durations import microseconds

JOB = Path(__file__).with_name("flink_job.py")
LIMIT_SECONDS = 900.0
RUNS = 3
"""The number of timed runs of each side; the fastest counts."""


def write(workload: Workload, size: str, folder: Path) -> None:
    """Write the CSV input of both: `batches` has two files per micro-batch, `readers` the same lines in two files.

    The last line of each file of the last micro-batch has a time of one window and one hour after the end.
    """
    last = START + round(workload.seconds * workload.batches * 1e6) + microseconds(size, "size") + 3_600_000_000
    end = pa.table({"key": [-1], "ms": [last // 1000], "v": [0]})
    for name in ("batches", "readers"):
        (folder / name).mkdir()
    for part in range(workload.parts):
        paths = sorted(workload.path().glob(f"*-{part}.parquet"))
        tables = [_milliseconds(pq.read_table(path)) for path in paths]
        tables[-1] = pa.concat_tables([tables[-1], end])
        _csv(tables, folder / "readers" / f"{part}.csv")
        for path, table in zip(paths, tables, strict=True):
            file = folder / "batches" / f"{path.stem}.csv"
            _csv([table], file)
            os.utime(file, (path.stat().st_atime, path.stat().st_mtime))  # by which Spark orders them


def _milliseconds(table: pa.Table) -> pa.Table:
    """The table with times in milliseconds: Flink's event time has no microseconds."""
    times = pc.divide(table["ts"].cast(pa.int64()), 1000)
    return pa.table({"key": table["key"], "ms": times, "v": table["v"]})


def _csv(tables: Sequence[pa.Table], path: Path) -> None:
    with pcsv.CSVWriter(path, tables[0].schema, write_options=pcsv.WriteOptions(include_header=False)) as writer:
        for table in tables:
            writer.write_table(table)


def run(workload: Workload, size: str, advance: str, backend: str, folder: Path, python: str) -> tuple[Run, str]:
    """Return the fastest of Flink's timed runs, and its version. The rows of its first run are in `theirs`."""
    window = [str(microseconds(each, each) // 10**6) for each in (size, advance)]
    places = [str(folder / name) for name in ("readers", "theirs")]
    command = [python, "-P", str(JOB), *places, *window, backend, str(folder / "scratch"), str(RUNS)]
    (folder / "scratch").mkdir()
    environment = os.environ | {"JVM_ARGS": f"-Xmx6g -Djava.io.tmpdir={folder / 'scratch'}"}
    environment.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return Run(LIMIT_SECONDS, workload.total, stopped=True), "unknown"
    said = json.loads(done.stdout.splitlines()[-1])
    run = Run(said["seconds"], workload.total, store=backend, note=note(said["processor"]))
    return run, said["version"]


def rows(folder: Path) -> DataFrame:
    """Return the rows that Flink wrote, without those of the record that closes all windows."""
    schema = "key bigint, start timestamp, end timestamp, records bigint, total bigint"
    written = session().read.schema(schema).csv(f"{folder}/theirs").where("key >= 0")
    return written.select("key", F.struct("start", "end").alias("window"), "records", "total")


def note(processor: float) -> str:
    """Return the processor seconds as a note."""
    return f"{processor:.1f} s of processor time"
