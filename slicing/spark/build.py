"""From a windowed grouping to a DataFrame: streams and bounded input part ways here."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from slicing.aggregate import Bound
from slicing.plan import Plan
from slicing.spark import bounded, stream
from slicing.spark.buckets import labels
from slicing.spark.query import resolve
from slicing.spark.requirements import check_stream
from slicing.windows import Hopping

BUCKETS_PER_PARTITION = 2


def build(
    df: DataFrame,
    keys: tuple[str, ...],
    windows: Hopping,
    time: str,
    results: Mapping[str, Bound],
    tree: str,
    grace: int,
    buckets: int | None,
) -> DataFrame:
    """The windows as a DataFrame."""
    query = resolve(df, keys, windows, time, results, tree, grace)
    if query.streaming:
        check_stream(df.sparkSession)
    partitions = _partitions(df)
    chosen = labels(df.sparkSession, _buckets(buckets, keys, partitions), partitions)
    return stream.build(query, chosen, partitions) if query.streaming else bounded.build(query, chosen)


def plan(
    df: DataFrame,
    keys: tuple[str, ...],
    windows: Hopping,
    time: str,
    results: Mapping[str, Bound],
    tree: str,
    grace: int,
    buckets: int | None,
) -> Plan:
    """What `build` would make."""
    query = resolve(df, keys, windows, time, results, tree, grace)
    partitions = _partitions(df)
    return Plan(windows, query.shape, query.trees, query.streaming, _buckets(buckets, keys, partitions), partitions)


def _partitions(df: DataFrame) -> int:
    return int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)


def _buckets(wanted: int | None, keys: tuple[str, ...], partitions: int) -> int:
    if wanted is not None:
        return wanted
    return BUCKETS_PER_PARTITION * partitions if keys else 1
