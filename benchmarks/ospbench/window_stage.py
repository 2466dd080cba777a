"""The window stage after parsing: the flow of a measuring point in hopping windows.

The authors have `first` of what does not change at a point, which in Spark is any value; ours is `any_value`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import combinators as C
from benchmarks.public.query import PublicQuery
from benchmarks.public.sql import hopping_starts
from slicing import group_by, hopping

SAME = ("latitude", "longitude", "period", "flowAccuracy", "numLanes")
SUMMED = ("laneCount", "accumulatedFlow")
NEWEST = {"timestamp": "ts", "publishTimestamp": "publishTimestamp"}
"""Names of results by what is asked of their columns."""


def ours(records: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the flow in hopping windows."""
    same = {name: C.any_value(name) for name in SAME}
    sums = {name: C.sum(name) for name in SUMMED}
    newest = {name: C.max(column) for name, column in NEWEST.items()}
    windowed = group_by(records, "measurementId").window(hopping(size, advance), time="ts")
    return windowed.aggregate(**same, **sums, **newest)


def spark(records: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the flow in Spark's windows, as the authors do."""
    same = [F.first(name).alias(name) for name in SAME]
    sums = [F.sum(name).alias(name) for name in SUMMED]
    newest = [F.max(column).alias(name) for name, column in NEWEST.items()]
    return records.groupBy("measurementId", F.window("ts", size, advance)).agg(*same, *sums, *newest)


def sql(size: int, advance: int) -> str:
    """Return the flow in windows."""
    aggregates = [f"min({name})" for name in SAME] + [f"sum({name})::bigint" for name in SUMMED]
    aggregates += [f"max({column})" for column in NEWEST.values()]
    return f"""
        with placed as (select *, {hopping_starts(size, advance)} as window_start from records)
        select measurementId, window_start, window_start + {size} as window_end, {", ".join(aggregates)}
        from placed group by measurementId, window_start"""


WINDOW_STAGE = PublicQuery("window stage", ours, spark, sql)
