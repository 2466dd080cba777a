"""Ours against `HOP` windows of Flink SQL, run by hand.

    python -m benchmarks.comparisons.flink FLINK_PYTHON [--only NAME]

FLINK_PYTHON is the Python of an environment of its own, which has Flink and need not have anything of ours:

    python3.11 -m venv /tmp/flink && /tmp/flink/bin/pip install apache-flink==2.3.0

Both sides read the same records to the end from the same CSV, with a watermark 5 seconds behind, 2 cores, 6 GB of heap
and durable checkpoints: Flink every 10 seconds, ours with every micro-batch. Each file of ours is half a micro-batch.
Flink does not promise to read files in the order of time, so each of its two readers gets one file with what ours has
in ten. A last record, hours later, makes both sides close all windows; its own windows are not compared.

Each side runs four times. The first run warms up and writes its rows, and if they are not equal there is no ratio. The
others, into a sink that drops them, are timed to the end of the records: ours from `start()`, Flink's without the start
of its cluster. The fastest of three counts. A last run of ours has the same stages and as many rows without any work,
which is the floor. Processor time is that of all processes of a side meanwhile. Results are kept in the tree, where
`make bench` finds them, as it does not run this.
"""

import argparse
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.baselines import flink
from benchmarks.baselines.floor import Floor
from benchmarks.baselines.ours import Ours
from benchmarks.comparisons.comparison import Comparison
from benchmarks.report import page, results
from benchmarks.running.processes import processor_seconds
from benchmarks.running.run import Run
from benchmarks.running.session import session, stop
from benchmarks.workloads.inputs import DAY, DENSE, HOUR, MINUTE, TEN_SECONDS
from benchmarks.workloads.rows import difference
from benchmarks.workloads.workload import Workload, scratch

HOURS = replace(DAY, name="day's first 2 M records", batches=2)


@dataclass(frozen=True)
class Flink:
    """One line of the performance page. `backend` is Flink's state backend: hashmap (on the heap) or rocksdb."""

    name: str
    title: str
    workload: Workload
    size: str
    advance: str
    backend: str
    goal: float | None = None

    def measured(self, python: str) -> results.Ratio:
        """Run both sides, Flink first, and return their ratio."""
        with scratch() as folder:
            flink.write(self.workload, self.size, folder)
            baseline, version = flink.run(self.workload, self.size, self.advance, self.backend, folder, python)
            ours, differs = _ours(self, folder), None
            if not baseline.stopped:
                rows, theirs = session().read.parquet(f"{folder}/ours").where("key >= 0"), flink.rows(folder)
                differs = difference(rows, theirs)
                baseline, ours = replace(baseline, rows=theirs.count()), replace(ours, rows=rows.count())
        comparison = Comparison(self.name, self.title, sides=lambda: (baseline, ours), checks=(), goal=self.goal)
        found = comparison.ratio_of(baseline, ours, differs)
        return replace(found, machine=f"{found.machine}, apache-flink {version}")


COMPARISONS = (
    Flink("FlinkDay", "day, R = 60 / Flink, hashmap", HOURS, HOUR, MINUTE, "hashmap"),
    Flink("FlinkDayRocks", "a 20th of day, R = 60 / Flink, RocksDB", HOURS.cut(0.05), HOUR, MINUTE, "rocksdb"),
    Flink("FlinkDense", "half of dense, R = 360 / Flink, hashmap", DENSE.cut(0.5), HOUR, TEN_SECONDS, "hashmap"),
    Flink(
        "FlinkDenseRocks", "a 20th of dense, R = 360 / Flink, RocksDB", DENSE.cut(0.05), HOUR, TEN_SECONDS, "rocksdb"
    ),
    Flink("FlinkTumbling", "day, tumbling (R = 1) / Flink, hashmap", HOURS, MINUTE, MINUTE, "hashmap", goal=1.0),
)


def main() -> int:
    """Measure the named comparisons, or all; return 1 if rows differ in any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("python", help="the Python that has Flink")
    parser.add_argument("--only", action="append", choices=[each.name for each in COMPARISONS], help="repeatable")
    options = parser.parse_args()
    wrong = 0
    for comparison in COMPARISONS:
        if not options.only or comparison.name in options.only:
            found = comparison.measured(options.python)
            results.keep(found, results.BY_HAND)
            print(f"{found.title}: {page.in_short(found)}; {found.machine}", flush=True)
            wrong += found.differs is not None
    stop()
    return min(wrong, 1)


def _ours(comparison: Flink, folder: Path) -> Run:
    """The fastest of our timed runs. The rows of our first run are in the folder `ours`."""
    source = session().readStream.schema("key bigint, ms bigint, v bigint")
    records = source.option("maxFilesPerTrigger", comparison.workload.parts).csv(f"{folder}/batches")
    timed = records.withColumn("ts", F.timestamp_millis("ms")).withWatermark("ts", "5 seconds")
    window, batches = (comparison.size, comparison.advance), comparison.workload.batches

    def append(rows: DataFrame, _: int) -> None:
        rows.write.mode("append").parquet(f"{folder}/ours")

    out = Ours()(timed, *window)
    _timed(out.writeStream.foreachBatch(append), folder / "checkpoint 0")
    runs = (_timed(out.writeStream.format("noop"), folder / f"checkpoint {at + 1}") for at in range(flink.RUNS))
    seconds, processor = min(runs)
    # The last micro-batch of a stream has no records and fires too.
    each = session().read.parquet(f"{folder}/ours").count() // (batches + 1)
    floor, _ = _timed(Floor(each)(timed, *window).writeStream.format("noop"), folder / "checkpoint of the floor")
    note = f"{flink.note(processor)}; the same stages and as many rows without any work {floor:.2f} s"
    return Run(seconds, comparison.workload.total, store="RocksDB", batches=batches, note=note)


def _timed(writer: DataStreamWriter, checkpoint: Path) -> tuple[float, float]:
    """Run a stream to the end of its records; return its seconds, and those of all processors."""
    start, before = time.monotonic(), processor_seconds()
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return time.monotonic() - start, processor_seconds() - before


if __name__ == "__main__":
    sys.exit(main())
