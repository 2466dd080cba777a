"""What several comparisons have in common."""

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
    """Ours and Spark's rows of day at R = 60."""
    return Check(Ours(column), SparkWindow(column), DAY_CUT, HOUR, MINUTE)


def dense(theirs: Query | None = None) -> Check:
    """Ours and others' rows of dense at R = 360; Spark's `window()` if left out."""
    return Check(Ours(), theirs or SparkWindow(), DENSE_CUT, HOUR, TEN_SECONDS)


def beside_spark(size: str, settings: Settings, *ours: Side) -> tuple[Run, ...]:
    """Spark's `window()` of this size on its faster state store, and streams of ours, in turns.

    The store is chosen by runs of Spark alone, with these settings; they warm it up too.
    """
    spark = replace(ours[0], query=SparkWindow(), size=size)
    alone = streams.faster(replace(spark, settings=settings))
    if alone.stopped:
        return alone, *turns.run(*ours)
    first, *others = turns.run(spark.but(store=alone.store, warm_up=0.0), *ours)
    return replace(first, note=f"before, alone: {alone.note}"), *others
