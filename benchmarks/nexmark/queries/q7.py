"""Query 7, highest bid: the highest price of each window.

The reference joins it with the bids of that price, which is Spark's work on both sides, and left out here.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import combinators as C
from benchmarks.nexmark.queries.query import NexmarkQuery, table
from benchmarks.public.query import FlinkQuery
from slicing import group_by, tumbling


def ours(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the highest price of tumbling windows, without a key."""
    return group_by(table(events, "bid", "price")).window(tumbling(size), time="ts").aggregate(highest=C.max("price"))


def spark(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the highest price of Spark's windows."""
    return table(events, "bid", "price").groupBy(F.window("ts", size)).agg(F.max("price").alias("highest"))


def sql(size: int, advance: int) -> str:
    """Return the highest price of windows."""
    return f"""
        select epoch_us(ts) // {size} * {size} as window_start, window_start + {size} as window_end, max(price)
        from bid group by window_start"""


def flink(size: str, advance: str) -> str:
    """Return the highest price in Flink's SQL."""
    return f"""
        select window_start, window_end, max(price) from tumble(table records, descriptor(ts), {size})
        group by window_start, window_end"""


FLINK = FlinkQuery("select price, epoch_ms(ts) from bid", "price bigint", "", "highest bigint", flink)
Q7 = NexmarkQuery("q7", ours, spark, sql, flink=FLINK)
