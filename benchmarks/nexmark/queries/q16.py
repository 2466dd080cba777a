"""Query 16, channel statistics: the last minute, counts, distinct bidders and auctions, by channel and day, updated."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import combinators as C
from benchmarks.nexmark.queries.query import NexmarkQuery, table
from benchmarks.nexmark.queries.statistics import of_ours, of_spark, of_sql
from slicing import group_by, on_update, tumbling


def ours(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the statistics of days of `size`."""
    windowed = group_by(_bids(events), "channel").window(tumbling(size), time="ts").emit(on_update())
    return windowed.aggregate(minute=C.max("minute"), **of_ours()).drop("emission", "revision")


def spark(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the statistics by Spark's windows."""
    return _bids(events).groupBy("channel", F.window("ts", size)).agg(F.max("minute").alias("minute"), *of_spark())


def _bids(events: DataFrame) -> DataFrame:
    bids = table(events, "bid", "channel", "bidder", "auction", "price")
    return bids.withColumn("minute", F.date_format("ts", "HH:mm"))


def sql(size: int, advance: int) -> str:
    """Return the statistics by channel and day."""
    return f"""
        select channel, epoch_us(ts) // {size} * {size} as window_start, window_start + {size} as window_end,
            max(strftime(ts, '%H:%M')), {of_sql()}
        from bid group by channel, window_start"""


Q16 = NexmarkQuery("q16", ours, spark, sql, "update", "total_bids")
