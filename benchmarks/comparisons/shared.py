"""Checks and runs that several comparisons share."""

from dataclasses import replace

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.query import Query
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons.comparison import Check
from benchmarks.running import streams, turns
from benchmarks.running.run import Run
from benchmarks.running.side import Settings, Side
from benchmarks.workloads.inputs import DAY_CUT, DENSE, DENSE_CUT, HOUR, MINUTE, TEN_SECONDS

DENSE_HOUR = DENSE, HOUR, TEN_SECONDS


def hourly(column: str = "v") -> Check:
    """Return the check of ours against Spark on the workload day at R = 60."""
    return Check(Ours(column), SparkWindow(column), DAY_CUT, HOUR, MINUTE)


def dense(theirs: Query | None = None) -> Check:
    """Return the check of ours against `theirs` on the workload dense at R = 360; by default Spark's `window()`."""
    return Check(Ours(), theirs or SparkWindow(), DENSE_CUT, HOUR, TEN_SECONDS)


def beside_spark(size: str, settings: Settings, *ours: Side) -> tuple[Run, ...]:
    """Run Spark's `window()` of this size on its faster state store, and streams of ours, in turns.

    The store is chosen by runs of Spark alone, with these settings; they also warm it up.
    """
    spark = replace(ours[0], query=SparkWindow(), size=size)
    alone = streams.faster(replace(spark, settings=settings))
    if alone.stopped:
        return alone, *turns.run(*ours)
    first, *others = turns.run(spark.but(store=alone.store, warm_up=0.0), *ours)
    return replace(first, note=f"before, alone: {alone.note}"), *others
