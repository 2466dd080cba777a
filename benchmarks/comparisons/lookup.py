"""A lookup of one of a million keys, against Spark's state reader over the whole checkpoint."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import combinators as C
from benchmarks.comparisons.comparison import Comparison
from benchmarks.running.run import Run
from benchmarks.running.session import configured
from benchmarks.running.side import SLOWER
from benchmarks.workloads import workload
from slicing import group_by, hopping
from slicing.definition import Definition

KEYS, PARTITIONS, MANY, TURNS, SLICES = 1_000_000, 8, 64, 5, 12
VARIABLES = ("header", "pages")
"""The state variables of the operator; Spark's reader reads one at a time."""
START = 1_700_006_400
SCHEMA = "key bigint, ts timestamp, v bigint"


def records(spark: SparkSession, keys: int) -> DataFrame:
    """Return one record per key and minute, for 12 minutes."""
    rows = spark.range(keys * SLICES).select(
        (F.col("id") % keys).alias("key"),
        F.timestamp_seconds(F.lit(START) + 60 * F.floor(F.col("id") / keys)).alias("ts"),
        (F.col("id") % 97).alias("v"),
    )
    return rows.repartition(SLICES)


def definition(spark: SparkSession, source: str) -> Definition:
    """Return the definition of hourly sums, advancing by a minute, of a stream of files."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(source)
    window = hopping("1 hour", "1 minute")
    return (
        group_by(stream.withWatermark("ts", "1 minute"), "key").window(window, time="ts")
        .define(records=C.count(), total=C.sum("v"))
    )  # fmt: skip


def filled(spark: SparkSession, folder: Path, keys: int) -> tuple[Definition, str]:
    """Run a stream to its end; return its definition and its checkpoint."""
    source, checkpoint = str(folder / "records"), str(folder / "checkpoint")
    records(spark, keys).write.parquet(source)
    made = definition(spark, source)
    writer = made.dataframe().writeStream.format("noop").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    return made, checkpoint


def _in_turns(*do: Callable[[], object]) -> list[float]:
    """The median seconds of each action, which alternate."""
    found: list[list[float]] = [[] for _ in do]
    for _ in range(1 + TURNS):
        for each, seconds in zip(do, found, strict=True):
            begin = time.perf_counter()
            each()
            seconds.append(time.perf_counter() - begin)
    return [statistics.median(seconds[1:]) for seconds in found]


def timed(keys: int, partitions: int) -> tuple[Run, Run]:
    """Return the run of Spark's reader over the whole state, and that of a lookup of one key."""
    settings = replace(SLOWER, partitions=partitions)
    folder = Path(tempfile.mkdtemp(dir=workload.FOLDER))
    try:
        with configured(settings) as spark:
            made, checkpoint = filled(spark, folder, keys)

            def read() -> None:
                for name in VARIABLES:
                    found = spark.read.format("statestore").option("stateVarName", name).load(checkpoint)
                    found.write.format("noop").mode("overwrite").save()

            def ask() -> None:
                made.lookup(checkpoint, keys=[keys // 2], latest=True).collect()

            all_of_it, one = _in_turns(read, ask)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Run(all_of_it, keys, rows=keys, batches=TURNS), Run(one, keys, rows=1, batches=TURNS)


@dataclass(frozen=True)
class OneKey:
    """A check that the latest window of one key has the results of its records."""

    keys: int = 1000

    def difference(self) -> str | None:
        """Return how the results differ, or None."""
        folder = Path(tempfile.mkdtemp(dir=workload.FOLDER))
        try:
            with configured(replace(SLOWER, partitions=PARTITIONS)) as spark:
                made, checkpoint = filled(spark, folder, self.keys)
                (row,) = made.lookup(checkpoint, keys=[7], latest=True).collect()
                (wanted,) = records(spark, self.keys).where("key = 7").agg(F.count("v"), F.sum("v")).collect()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        found = row["records"], row["total"]
        return None if found == tuple(wanted) else f"the key has {found}, and should have {tuple(wanted)}"


BENCHMARKS = (
    Comparison(
        "LookupOneKey",
        "lookup of one key of 1 M / Spark's state reader, all of the checkpoint",
        sides=lambda: timed(KEYS, PARTITIONS),
        checks=(OneKey(),),
        goal=1.0,
    ),
    Comparison(
        "LookupOneKeyOf64Partitions",
        "lookup of one key of 1 M, 64 partitions / Spark's state reader, all of the checkpoint",
        sides=lambda: timed(KEYS, MANY),
        checks=(OneKey(),),
        goal=3.0,
    ),
)
