"""Query 8, new users: the persons that have opened an auction in the window in which they are new.

The reference joins persons and sellers of a window. As an id has one person, that is one window over both.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import combinators as C
from benchmarks.nexmark.queries.query import NexmarkQuery
from slicing import group_by, tumbling


def ours(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the names by id, where the window has an auction too."""
    windowed = group_by(_both(events), "id").window(tumbling(size), time="ts")
    return _new(windowed.aggregate(name=C.max("name"), auctions=C.count(where="sells")))


def spark(events: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the names by id from Spark's windows over both."""
    grouped = _both(events).groupBy("id", F.window("ts", size))
    return _new(grouped.agg(F.max("name").alias("name"), F.count_if("sells").alias("auctions")))


def _both(events: DataFrame) -> DataFrame:
    """Persons, and auctions by their seller without a name."""
    of_interest = events.where("event_type < 2")
    return of_interest.select(
        "ts", F.coalesce("person.id", "auction.seller").alias("id"), "person.name", F.expr("event_type = 1 as sells")
    )


def _new(windows: DataFrame) -> DataFrame:
    return windows.where("name is not null and auctions > 0").select("id", "window", "name")


def sql(size: int, advance: int) -> str:
    """Return the join of the reference."""
    start = f"epoch_us(ts) // {size} * {size} as window_start"
    return f"""
        select id, window_start, window_start + {size} as window_end, name
        from (select distinct id, name, {start} from person)
        join (select distinct seller, {start} from auction) using (window_start) where id = seller"""


Q8 = NexmarkQuery("q8", ours, spark, sql)
