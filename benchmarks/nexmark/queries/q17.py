"""Query 17, auction statistics: counts by rank of price, and prices in short, by auction and day, with each update."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import combinators as C
from benchmarks.nexmark.queries.query import NexmarkQuery, table
from benchmarks.nexmark.queries.ranks import COUNTED, filtered
from slicing import group_by, on_update, tumbling


def ours(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the statistics of days of `size`; the mean is whole, as in the reference."""
    windowed = group_by(table(events, "bid", "auction", "price"), "auction").window(tumbling(size), time="ts")
    counts = {f"{name}_bids": C.count(where=condition and F.expr(condition)) for name, condition in COUNTED.items()}
    prices = {"min": C.min("price"), "max": C.max("price"), "avg": C.avg("price"), "sum": C.sum("price")}
    found = windowed.emit(on_update()).aggregate(**counts, **prices)
    return found.withColumn("avg", F.col("avg").cast("bigint")).drop("emission", "revision")


def spark(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the statistics by Spark's windows."""
    counts = [F.expr(f"count(*){filtered(condition)} as {name}_bids") for name, condition in COUNTED.items()]
    prices = F.min("price"), F.max("price"), F.avg("price").cast("bigint"), F.sum("price")
    return table(events, "bid", "auction", "price").groupBy("auction", F.window("ts", size)).agg(*counts, *prices)


def sql(size: int, advance: int) -> str:
    """Return the statistics by auction and day."""
    counts = ", ".join(f"count(*){filtered(condition)}" for condition in COUNTED.values())
    return f"""
        select auction, epoch_us(ts) // {size} * {size} as window_start, window_start + {size} as window_end, {counts},
            min(price), max(price), (sum(price) // count(*))::bigint, sum(price)::bigint
        from bid group by auction, window_start"""


Q17 = NexmarkQuery("q17", ours, spark, sql, "update", "total_bids")
