"""The tables that the queries of Nexmark read, for Spark and for DuckDB."""

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.nexmark.generator import AUCTION, BID, PERSON
from benchmarks.public.query import PublicQuery

KINDS = {"person": PERSON, "auction": AUCTION, "bid": BID}
"""The tables by the `event_type` of their rows."""
VIEWS = {
    name: f"select ts, {name}.* exclude (dateTime) from records where event_type = {kind}"
    for name, kind in KINDS.items()
}
"""The same in SQL."""
NexmarkQuery = partial(PublicQuery, views=VIEWS)


def table(events: DataFrame, name: str, *columns: str) -> DataFrame:
    """Return columns of a table; `ts` is its time, with the watermark."""
    return events.where(F.col("event_type") == KINDS[name]).select("ts", *[f"{name}.{column}" for column in columns])
