"""Query 15, bidding statistics: counts, and distinct bidders and auctions, by day, with each update."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.nexmark.queries.query import NexmarkQuery, table
from benchmarks.nexmark.queries.statistics import of_ours, of_spark, of_sql
from slicing import group_by, on_update, tumbling

COLUMNS = ("bidder", "auction", "price")


def ours(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the statistics of days of `size`."""
    windowed = group_by(table(events, "bid", *COLUMNS)).window(tumbling(size), time="ts").emit(on_update())
    return windowed.aggregate(**of_ours()).drop("emission", "revision")


def spark(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the statistics by Spark's windows."""
    return table(events, "bid", *COLUMNS).groupBy(F.window("ts", size)).agg(*of_spark())


def sql(size: int, advance: int) -> str:
    """Return the statistics by day."""
    return f"""
        select epoch_us(ts) // {size} * {size} as window_start, window_start + {size} as window_end, {of_sql()}
        from bid group by window_start"""


Q15 = NexmarkQuery("q15", ours, spark, sql, "update", "total_bids")
