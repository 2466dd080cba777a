"""From a windowed grouping to a DataFrame: streams and bounded input part ways here."""

from __future__ import annotations

from pyspark.sql import DataFrame

from slicing.errors import InvalidValue
from slicing.explain.counting import CountingPlan
from slicing.explain.plan import Plan
from slicing.explain.sessions import SessionPlan
from slicing.explain.sliding import SlidingPlan
from slicing.explain.unbounded import TotalsPlan
from slicing.spark import bounded, stream
from slicing.spark.labels import labels
from slicing.spark.query import Query
from slicing.spark.requirements import check_stream
from slicing.spark.strategy import strategy
from slicing.spark.timers import TimedBuckets, TimedStage
from slicing.windows.counting import Counting
from slicing.windows.session import Session
from slicing.windows.sliding import Sliding
from slicing.windows.unbounded import Unbounded
from slicing.windows.window import Window

BUCKETS_PER_PARTITION = 1
_PARTITIONS = "spark.sql.shuffle.partitions"
_PLANS: dict[type[Window], type[Plan]] = {
    Counting: CountingPlan,
    Session: SessionPlan,
    Sliding: SlidingPlan,
    Unbounded: TotalsPlan,
}


def build(query: Query, buckets: int | None) -> DataFrame:
    """The windows as a DataFrame; `buckets` is None for the usual number."""
    spark = query.frame.sparkSession
    if query.streaming:
        check_stream(spark)
    partitions = _partitions(query.frame)
    chosen = labels(spark, _buckets(buckets, query, partitions), partitions)
    if not query.streaming:
        return bounded.build(query, chosen)
    timed = (TimedBuckets, TimedStage) if query.timed else ()
    return stream.build(query, chosen, partitions, *timed)


def plan(query: Query, buckets: int | None) -> Plan:
    """What `build` would make."""
    partitions = _partitions(query.frame)
    count = _buckets(buckets, query, partitions)
    chosen = strategy(query.shape, query.trees, query.arguments, query.window, values=query.values)
    options = query.emission, query.late, query.values, chosen.sharing, query.by_clock
    return _kind_of_plan(query)(query.window, query.shape, query.trees, query.streaming, count, partitions, *options)


def _kind_of_plan(query: Query) -> type[Plan]:
    if isinstance(query.window, Unbounded) and not query.streaming:
        return Plan
    return _PLANS.get(type(query.window), Plan)


def _partitions(df: DataFrame) -> int:
    found = df.sparkSession.conf.get(_PARTITIONS) or "200"
    if not found.isdecimal() or int(found) < 1:
        raise InvalidValue(
            f"`{_PARTITIONS}` must be a positive number, which buckets are spread over; got {found!r}. "
            f'Set it before the query is built, to about the number of cores: spark.conf.set("{_PARTITIONS}", "16").'
        )
    return int(found)


def _buckets(wanted: int | None, query: Query, partitions: int) -> int:
    if wanted is not None:
        return wanted
    return BUCKETS_PER_PARTITION * partitions if query.keys else 1
