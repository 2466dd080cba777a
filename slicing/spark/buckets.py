"""Labels of buckets: grouping values that Spark's shuffle spreads evenly over its partitions."""

from __future__ import annotations

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F


def labels(spark: SparkSession, count: int, partitions: int) -> tuple[int, ...]:
    """`count` integers of which every one of `partitions` gets the same number (or one more) in Spark's shuffle.

    Spark places a group in partition `pmod(hash(value), partitions)`. Integers are tried in order, with Spark's own
    `hash`, until every partition has its share; bucket i goes to partition `i % partitions`.
    """
    chosen: dict[int, int] = {}
    tried = max(64, 8 * count)
    while len(chosen) < count:
        chosen = _spread(_placed(spark, tried, partitions), count, partitions)
        tried *= 2
    return tuple(chosen[i] for i in range(count))


def _placed(spark: SparkSession, tried: int, partitions: int) -> list[int]:
    # One row of constants: Spark evaluates it while planning, without a job.
    text = f"select transform(sequence(0, {tried - 1}), x -> pmod(hash(x), {partitions})) as placed"
    row = spark.sql(text).first()
    assert row is not None
    return list(row.placed)


def _spread(placed: list[int], count: int, partitions: int) -> dict[int, int]:
    chosen: dict[int, int] = {}
    free = {p: list(range(p, count, partitions))[::-1] for p in range(partitions)}
    for label, partition in enumerate(placed):
        if free[partition]:
            chosen[free[partition].pop()] = label
    return chosen


def label_of(keys: list[Column], chosen: tuple[int, ...]) -> Column:
    """The label of the bucket of a record, from the columns of its key."""
    if len(chosen) == 1:
        return F.lit(chosen[0])
    index = F.pmod(F.xxhash64(*keys), F.lit(len(chosen))).cast("int")
    return F.element_at(F.array(*[F.lit(label) for label in chosen]), index + 1)
