"""Query 12, processing time windows: the bids of a bidder in windows of the clock.

Another run has other windows. So their sums are compared, over all windows of a bidder.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import combinators as C
from benchmarks.nexmark.queries.query import NexmarkQuery, table
from slicing import Emission, group_by, processing_time, tumbling
from slicing.triggers.emission import ON_CLOSE


def ours(events: DataFrame, size: str, advance: str, trigger: Emission = ON_CLOSE) -> DataFrame:
    """Return the bids of tumbling windows of the clock; with another trigger, also those of open windows."""
    bids = group_by(table(events, "bid", "bidder"), "bidder").window(tumbling(size), time=processing_time())
    return bids.emit(trigger).aggregate(bids=C.count())


def spark(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the bids of Spark's windows over its time of the micro-batch."""
    timed = table(events, "bid", "bidder").select("bidder", F.current_timestamp().alias("at"))
    grouped = timed.withWatermark("at", "0 seconds").groupBy("bidder", F.window("at", size))
    return grouped.agg(F.count("*").alias("bids"))


def sql(size: int, advance: int) -> str:
    """Return the bids of each bidder."""
    return "select bidder, 0 as window_start, 0 as window_end, count(*) from bid group by bidder"


Q12 = NexmarkQuery("q12", ours, spark, sql, by_clock=True)
