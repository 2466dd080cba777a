"""From a windowed grouping to a DataFrame: streams and bounded input part ways here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from slicing.aggregate import Bound
from slicing.plan import Plan
from slicing.spark import bounded, stream
from slicing.spark.buckets import labels
from slicing.spark.query import Query, resolve
from slicing.spark.requirements import check_stream

if TYPE_CHECKING:
    from slicing.grouping import Windowed

BUCKETS_PER_PARTITION = 2


def build(windowed: Windowed, results: Mapping[str, Bound]) -> DataFrame:
    """The windows as a DataFrame."""
    query = _query(windowed, results)
    spark = windowed.df.sparkSession
    if query.streaming:
        check_stream(spark)
    partitions = _partitions(windowed)
    chosen = labels(spark, _buckets(windowed, partitions), partitions)
    if query.streaming:
        return stream.build(query, chosen, partitions)
    return bounded.build(query, chosen)


def plan(windowed: Windowed, results: Mapping[str, Bound]) -> Plan:
    """What `build` would make."""
    query = _query(windowed, results)
    partitions = _partitions(windowed)
    return Plan(query.window, query.shape, query.trees, query.streaming, _buckets(windowed, partitions), partitions)


def _query(windowed: Windowed, results: Mapping[str, Bound]) -> Query:
    return resolve(
        windowed.df, windowed.keys, windowed.windows, windowed.time, results, windowed.tree, windowed.grace_us
    )


def _partitions(windowed: Windowed) -> int:
    return int(windowed.df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)


def _buckets(windowed: Windowed, partitions: int) -> int:
    if windowed.bucket_count is not None:
        return windowed.bucket_count
    return BUCKETS_PER_PARTITION * partitions if windowed.keys else 1
