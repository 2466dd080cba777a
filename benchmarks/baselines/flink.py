"""Flink SQL in a Python of its own: its input, its job and the rows that it wrote."""

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
LIMIT_SECONDS = 600.0


def write(workload: Workload, size: str, folder: Path) -> None:
    """The CSV of both: `batches` has two files a micro-batch, `readers` the same lines in two files.

    The last line of either file of the last micro-batch is a window, and an hour, after the end.
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
    """Flink's event time has no microseconds."""
    times = pc.divide(table["ts"].cast(pa.int64()), 1000)
    return pa.table({"key": table["key"], "ms": times, "v": table["v"]})


def _csv(tables: Sequence[pa.Table], path: Path) -> None:
    with pcsv.CSVWriter(path, tables[0].schema, write_options=pcsv.WriteOptions(include_header=False)) as writer:
        for table in tables:
            writer.write_table(table)


def run(workload: Workload, size: str, advance: str, backend: str, folder: Path, python: str) -> tuple[Run, str]:
    """Its timed run, and its version. What it wrote in the other run is in `theirs`."""
    window = [str(microseconds(each, each) // 10**6) for each in (size, advance)]
    places = [str(folder / name) for name in ("readers", "theirs")]
    command = [python, "-P", str(JOB), *places, *window, backend, str(folder / "scratch")]
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
    schema = "key bigint, start timestamp, end timestamp, records bigint, total bigint"
    """What it wrote, without the record that closes all windows."""
    written = session().read.schema(schema).csv(f"{folder}/theirs").where("key >= 0")
    return written.select("key", F.struct("start", "end").alias("window"), "records", "total")


def note(processor: float) -> str:
    """Seconds of processor time."""
    return f"{processor:.1f} s of processor time"
