"""Ours against `HOP` windows of Flink SQL, run by hand: `python -m benchmarks.flink FLINK_PYTHON [--only NAME]`.

FLINK_PYTHON is the Python of an environment of its own, which has Flink and need not have anything of ours:

    python3.11 -m venv /tmp/flink && /tmp/flink/bin/pip install apache-flink==2.3.0

Both sides read the same records to the end from the same CSV, with a watermark 5 seconds behind, 2 cores, 6 GB of heap
and durable checkpoints: Flink every 10 seconds, ours with every micro-batch. Each file of ours is half a micro-batch.
Flink does not promise to read files in the order of time, so each of its two readers gets one file with what ours has
in ten. A last record, hours later, makes both sides close all windows; its own windows are not compared.

Each side runs twice. The first run warms up and writes its rows, and if they are not equal there is no ratio. The
second, into a sink that drops them, is timed to the end of the records: ours from `start()`, Flink's without the start
of its cluster. Processor time is that of all processes of a side meanwhile. Results are kept in the tree, where
`make bench` finds them, as it does not run this.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks import measure, page, results
from benchmarks.goals import HOUR, MINUTE, TEN_SECONDS
from benchmarks.measure import Run
from benchmarks.queries import Ours
from benchmarks.rows import difference
from benchmarks.workloads import DAY, DENSE, FOLDER, START, Workload
from slicing.durations import microseconds

SIDE = Path(__file__).with_name("flink_side.py")
HOURS = replace(DAY, name="day's first 2 M records", batches=2)
LIMIT_SECONDS = 600.0


@dataclass(frozen=True)
class Comparison:
    """One line of the page. `backend` is Flink's: hashmap, on its heap, or rocksdb."""

    name: str
    title: str
    workload: Workload
    size: str
    advance: str
    backend: str


COMPARISONS = (
    Comparison("FlinkDay", "day, R = 60 / Flink, hashmap", HOURS, HOUR, MINUTE, "hashmap"),
    Comparison("FlinkDayRocks", "a 20th of day, R = 60 / Flink, RocksDB", HOURS.cut(0.05), HOUR, MINUTE, "rocksdb"),
    Comparison("FlinkDense", "half of dense, R = 360 / Flink, hashmap", DENSE.cut(0.5), HOUR, TEN_SECONDS, "hashmap"),
    Comparison(
        "FlinkDenseRocks", "a 20th of dense, R = 360 / Flink, RocksDB", DENSE.cut(0.05), HOUR, TEN_SECONDS, "rocksdb"
    ),
    Comparison("FlinkTumbling", "day, tumbling (R = 1) / Flink, hashmap", HOURS, MINUTE, MINUTE, "hashmap"),
)


def main() -> int:
    """Measure what is asked for, or all. 1 if rows differed somewhere."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("python", help="the Python that has Flink")
    parser.add_argument("--only", action="append", choices=[each.name for each in COMPARISONS], help="repeatable")
    options = parser.parse_args()
    wrong = 0
    for comparison in COMPARISONS:
        if not options.only or comparison.name in options.only:
            found = measured(comparison, options.python)
            print(f"{found.title}: {page.in_short(found)}; {found.machine}", flush=True)
            wrong += found.differs is not None
    measure.stop()
    return min(wrong, 1)


def measured(comparison: Comparison, python: str) -> results.Ratio:
    """Both sides, Flink first, and their ratio, kept for the page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir=FOLDER) as scratch:
        folder = Path(scratch)
        write(comparison.workload, microseconds(comparison.size, "size"), folder)
        baseline, version = _flink(comparison, folder, python)
        ours = _ours(comparison, folder)
        differs = None
        if not baseline.stopped:
            rows, theirs = measure.session().read.parquet(f"{folder}/ours"), _theirs(folder)
            differs = difference(rows.where("key >= 0"), theirs)
            baseline, ours = replace(baseline, rows=theirs.count()), replace(ours, rows=rows.count())
    found = results.Ratio(
        comparison.name,
        comparison.title,
        "times faster",
        None,
        True,
        None if baseline.stopped or differs else baseline.per_record / ours.per_record,
        differs,
        baseline,
        ours,
        f"{results.machine(measure.CORES)}, apache-flink {version}",
    )
    results.keep(found, page.BY_HAND)
    return found


def write(workload: Workload, beyond: int, folder: Path) -> None:
    """The CSV of both: `batches` has two files a micro-batch, `readers` the same lines in two files.

    The last line of either file of the last micro-batch is `beyond` microseconds, and an hour, after the end.
    """
    last = START + round(workload.seconds * workload.batches * 1e6) + beyond + 3_600_000_000
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


def _flink(comparison: Comparison, folder: Path, python: str) -> tuple[Run, str]:
    """Its timed run, and its version. What it wrote in the other run is in `theirs`."""
    window = [str(microseconds(each, each) // 10**6) for each in (comparison.size, comparison.advance)]
    places = [str(folder / name) for name in ("readers", "theirs")]
    command = [python, "-P", str(SIDE), *places, *window, comparison.backend, str(folder / "scratch")]
    (folder / "scratch").mkdir()
    environment = os.environ | {"JVM_ARGS": f"-Xmx6g -Djava.io.tmpdir={folder / 'scratch'}"}
    environment.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return Run(LIMIT_SECONDS, comparison.workload.total, stopped=True), "unknown"
    said = json.loads(done.stdout.splitlines()[-1])
    run = Run(said["seconds"], comparison.workload.total, store=comparison.backend, note=_note(said["processor"]))
    return run, said["version"]


def _theirs(folder: Path) -> DataFrame:
    schema = "key bigint, start timestamp, end timestamp, records bigint, total bigint"
    rows = measure.session().read.schema(schema).csv(f"{folder}/theirs").where("key >= 0")
    return rows.select("key", F.struct("start", "end").alias("window"), "records", "total")


def _ours(comparison: Comparison, folder: Path) -> Run:
    """Our timed run. What the other wrote is in `ours`."""
    source = measure.session().readStream.schema("key bigint, ms bigint, v bigint")
    records = source.option("maxFilesPerTrigger", comparison.workload.parts).csv(f"{folder}/batches")
    timed = records.withColumn("ts", F.timestamp_millis("ms")).withWatermark("ts", "5 seconds")
    out = Ours()(timed, comparison.size, comparison.advance)

    def append(rows: DataFrame, _: int) -> None:
        rows.write.mode("append").parquet(f"{folder}/ours")

    seconds = processor = 0.0
    for number, writer in enumerate((out.writeStream.foreachBatch(append), out.writeStream.format("noop"))):
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint {number}").trigger(availableNow=True)
        start, before = time.monotonic(), measure.processor_seconds()
        writer.start().awaitTermination()
        seconds, processor = time.monotonic() - start, measure.processor_seconds() - before
    batches = comparison.workload.batches
    return Run(seconds, comparison.workload.total, store="RocksDB", batches=batches, note=_note(processor))


def _note(processor: float) -> str:
    return f"{processor:.1f} s of processor time"


if __name__ == "__main__":
    sys.exit(main())
