"""Labels of buckets: grouping values that Spark's shuffle spreads evenly over its partitions."""

from __future__ import annotations

from pyspark.sql import SparkSession


def labels(spark: SparkSession, count: int, partitions: int) -> tuple[int, ...]:
    """`count` integers of which every one of `partitions` gets the same number (or one more) in Spark's shuffle.

    Spark places a group in partition `pmod(hash(value), partitions)`. Integers are tried in order, with Spark's own
    `hash`, until every partition has its share. 0 is always among them: should another number of partitions ask for
    other labels on an old checkpoint, that bucket's header tells before anything is written.
    """
    chosen: list[int] = []
    tried = max(64, 8 * count)
    while len(chosen) < count:
        chosen = _spread(_placed(spark, tried, partitions), count, partitions)
        tried *= 2
    return tuple(chosen)


def _placed(spark: SparkSession, tried: int, partitions: int) -> list[int]:
    # One row of constants: Spark evaluates it while planning, without a job.
    text = f"select transform(sequence(0, {tried - 1}), x -> pmod(hash(x), {partitions})) as placed"
    row = spark.sql(text).first()
    assert row is not None
    return list(row.placed)


def _spread(placed: list[int], count: int, partitions: int) -> list[int]:
    # The partition of label 0 comes first where some have one label more.
    free = {(placed[0] + i) % partitions: len(range(i, count, partitions)) for i in range(partitions)}
    chosen = []
    for label, partition in enumerate(placed):
        if free[partition]:
            free[partition] -= 1
            chosen.append(label)
    return chosen
