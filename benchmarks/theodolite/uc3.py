"""Use case 3, aggregation by time attributes: the statistics of a sensor by hour of day, in long hopping windows.

The reference has results of open windows: its job for Flink fires every 15 seconds of the clock, the one for Kafka
Streams with each update. `UPDATED` has those that a micro-batch has changed; `UC3` has each window once, when it ends.
"""

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.public.query import FlinkQuery, PublicQuery
from benchmarks.public.sql import hopping_starts
from benchmarks.theodolite.statistics import KINDS, of_ours, of_spark, of_sql
from benchmarks.theodolite.workload import ZONE
from slicing import Emission, group_by, hopping, on_update
from slicing.triggers.emission import ON_CLOSE

KEYS = "identifier", "hour"


def ours(records: DataFrame, size: str, advance: str, trigger: Emission = ON_CLOSE) -> DataFrame:
    """Return the statistics of hopping windows."""
    windowed = group_by(_by_hour(records), *KEYS).window(hopping(size, advance), time="ts")
    return windowed.emit(trigger).aggregate(**of_ours()).drop("emission", "revision")


def spark(records: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the statistics of Spark's windows."""
    return _by_hour(records).groupBy(*KEYS, F.window("ts", size, advance)).agg(*of_spark())


def _by_hour(records: DataFrame) -> DataFrame:
    return records.withColumn("hour", F.hour(F.from_utc_timestamp("ts", ZONE)))


def sql(size: int, advance: int) -> str:
    """Return the statistics of windows."""
    return f"""
        with placed as (
            select *, hour(timezone('{ZONE}', ts))::int as hour, {hopping_starts(size, advance)} as window_start
            from records
        )
        select identifier, hour, window_start, window_start + {size} as window_end, {of_sql()}
        from placed group by identifier, hour, window_start"""


def flink(size: str, advance: str) -> str:
    """Return the statistics of windows in Flink's SQL."""
    return f"""
        with placed as (select identifier, hour_in(ms, '{ZONE}') as at_hour, valueInW, ts from records)
        select identifier, at_hour, window_start, window_end, {of_sql()}
        from hop(table placed, descriptor(ts), {advance}, {size})
        group by identifier, at_hour, window_start, window_end"""


FLINK = FlinkQuery(
    "select identifier, valueInW, epoch_ms(ts) from records",
    "identifier string, valueInW double",
    "identifier string, at_hour int",
    KINDS,
    flink,
)
UC3 = PublicQuery("uc3", ours, spark, sql, flink=FLINK)
UPDATED = PublicQuery("uc3 updated", partial(ours, trigger=on_update()), spark, sql, "update", "records")
