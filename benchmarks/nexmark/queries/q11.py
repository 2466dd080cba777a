"""Query 11, user sessions: the bids of each session of a bidder."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import combinators as C
from benchmarks.nexmark.queries.query import NexmarkQuery, table
from benchmarks.public.query import FlinkQuery
from slicing import group_by, session


def ours(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the sessions with their bids; `size` is the gap."""
    return group_by(table(events, "bid", "bidder"), "bidder").window(session(size), time="ts").aggregate(bids=C.count())


def spark(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return Spark's sessions."""
    grouped = table(events, "bid", "bidder").groupBy("bidder", F.session_window("ts", size).alias("window"))
    return grouped.agg(F.count("*").alias("bids"))


def sql(size: int, advance: int) -> str:
    """Return the sessions; bids exactly a gap apart are in one, as in Flink and Spark."""
    return f"""
        with begun as (
            select bidder, epoch_us(ts) as us, coalesce(us - lag(us) over by_time > {size}, true) as first
            from bid window by_time as (partition by bidder order by ts)
        ),
        numbered as (
            select bidder, us, sum(first::int) over (partition by bidder order by us) as number from begun
        )
        select bidder, min(us) as window_start, max(us) + {size} as window_end, count(*)
        from numbered group by bidder, number"""


def flink(size: str, advance: str) -> str:
    """Return Flink's sessions."""
    return f"""
        select bidder, window_start, window_end, count(*)
        from session(table records partition by bidder, descriptor(ts), {size})
        group by bidder, window_start, window_end"""


FLINK = FlinkQuery("select bidder, epoch_ms(ts) from bid", "bidder bigint", "bidder bigint", "bids bigint", flink)
Q11 = NexmarkQuery("q11", ours, spark, sql, flink=FLINK)
