"""Query 5, hot items: the auctions with the most bids of each window, ties included.

The reference joins the counts of windows with their maximum. Both sides here do without: windows over the counts.
"""

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import combinators as C
from benchmarks.nexmark.queries.query import NexmarkQuery, table
from benchmarks.public.query import FlinkQuery
from benchmarks.public.sql import hopping_starts
from slicing import group_by, hopping, tumbling


def ours(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the auctions by hopping windows, then by windows over the counts: one holds those of one window."""
    bids = group_by(table(events, "bid", "auction"), "auction").window(hopping(size, advance), time="ts")
    counts = bids.aggregate(num=C.count()).withColumn("at", F.window_time("window"))
    most = group_by(counts).window(tumbling(advance), time="at").process(
        _most, columns=("auction", "num"), returns="auction bigint, num bigint"
    )  # fmt: skip
    return most.select("auction", _whole(size), "num")


def _most(key, window, counts, context):
    return counts.filter(pc.equal(counts["num"], pc.max(counts["num"])))


def spark(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the auctions by Spark's windows, with all counts of a window in one list."""
    counts = table(events, "bid", "auction").groupBy("auction", F.window("ts", size, advance)).count()
    found = counts.groupBy("window").agg(
        F.max("count").alias("most"), F.collect_list(F.struct("auction", F.col("count").alias("num"))).alias("all")
    )
    most = found.select("window", F.inline(F.expr("filter(all, each -> each.num >= most)")))
    return most.select("auction", "window", "num")


def sql(size: int, advance: int) -> str:
    """Return the join of the reference."""
    return f"""
        with placed as (
            select auction, {hopping_starts(size, advance)} as window_start from bid
        ),
        counts as (select auction, window_start, count(*) as num from placed group by auction, window_start),
        most as (select window_start, max(num) as maxn from counts group by window_start)
        select auction, window_start, window_start + {size} as window_end, num
        from counts join most using (window_start) where num >= maxn"""


def _whole(size: str):
    end = F.col("window.end")
    return F.struct((end - F.expr(f"interval {size}")).alias("start"), end.alias("end")).alias("window")


def flink(size: str, advance: str) -> str:
    """Return the join of the reference in Flink's SQL."""
    counts = f"""
        select auction, window_start, window_end, count(*) as num
        from hop(table records, descriptor(ts), {advance}, {size}) group by auction, window_start, window_end"""
    return f"""
        select c.auction, c.window_start, c.window_end, c.num from ({counts}) c
        join (select window_start, window_end, max(num) as maxn from ({counts}) group by window_start, window_end) m
        on c.window_start = m.window_start and c.window_end = m.window_end and c.num >= m.maxn"""


FLINK = FlinkQuery("select auction, epoch_ms(ts) from bid", "auction bigint", "auction bigint", "num bigint", flink)
Q5 = NexmarkQuery("q5", ours, spark, sql, flink=FLINK)
