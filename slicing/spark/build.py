"""Builds the DataFrame of a query, its plan and its changes; chooses between streams and bounded input."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import DataFrame

from slicing.aggregates.sharing import Sharing
from slicing.errors import InvalidType, InvalidValue
from slicing.spark import bounded, features, stream
from slicing.spark.checkpoint import headers
from slicing.spark.profiling import TimedOperator, TimedStage
from slicing.spark.query import Query
from slicing.spark.requirements import check_stream, check_workers
from slicing.spark.settings import PARTITIONS
from slicing.spark.watermarks import check_single
from slicing.state.format.buckets import Buckets
from slicing.state.format.changes import Changes, changes_of
from slicing.state.format.labels import labels

if TYPE_CHECKING:
    from slicing.explain import FeaturesPlan, Plan

P = TypeVar("P", bound="Plan")
BUCKETS_PER_PARTITION = 1


def build(
    query: Query,
    of_stream: Callable[..., DataFrame] = stream.build,
    of_bounded: Callable[..., DataFrame] = bounded.build,
) -> DataFrame:
    """Return the windows as a DataFrame.

    `of_stream` builds the windows of a stream, `of_bounded` those of bounded input.
    """
    spark = query.source.sparkSession
    check_workers(spark)
    if query.streaming:
        check_stream(spark, asks=query.declared is None)
        if query.declared is None:
            check_single(query.source)
    chosen, over = spread(query)
    if not query.streaming:
        return of_bounded(query, chosen)
    timed = (TimedOperator, TimedStage) if query.timed else ()
    return of_stream(query, chosen, over, *timed)


def spread(query: Query) -> tuple[tuple[int, ...], Buckets]:
    """Return the labels of a query's buckets, and their number.

    State may move to another number of shuffle partitions, so on a stream the labels do not depend on the current
    number.
    """
    partitions = _partitions(query)
    found = query.options.buckets or Buckets(_count(query, partitions))
    return labels(found.count, found.even_over if query.streaming else partitions), found


def build_features(asked: features.FeatureQuery) -> DataFrame:
    """Return the spine with its features as a DataFrame."""
    partitions = _partitions(asked.query)
    return features.build(asked, labels(_count(asked.query, partitions), partitions))


def plan_features(asked: features.FeatureQuery) -> FeaturesPlan:
    """Return the plan of the features that `build_features` would build."""
    from slicing.explain import FeaturesPlan

    return _plan(FeaturesPlan, asked.query, asked.execution_plan.sharing)


def plan(query: Query) -> Plan:
    """Return the plan of the query that `build` would build."""
    from slicing.explain import plan_type_of

    return _plan(plan_type_of(query.window, query.streaming), query, query.execution_plan.sharing)


def _plan(kind: type[P], query: Query, sharing: Sharing | None) -> P:
    partitions = _partitions(query)
    return kind(
        windows=query.window,
        shape=query.shape,
        trees=query.trees,
        streaming=query.streaming,
        buckets=_count(query, partitions),
        partitions=partitions,
        options=query.options,
        values=query.values,
        sharing=sharing,
        by_clock=query.by_clock,
    )


def changes(query: Query, checkpoint: str, operator: int | None) -> Changes:
    """Return the differences between a checkpoint and the query that `build` would build.

    `operator` selects one of several windowed aggregations. Raises InvalidType, InvalidValue, StateMismatch.
    """
    if not query.streaming:
        raise InvalidType(
            "`changes` compares a checkpoint with a stream, and this DataFrame is bounded. Give a stream."
        )
    wanted = stream.fingerprint(query, spread(query)[1])
    stored = headers(query.source.sparkSession, checkpoint, operator)
    return changes_of(stored.values(), wanted)


def _partitions(query: Query) -> int:
    if query.declared is not None:
        return query.declared.partitions
    found = query.source.sparkSession.conf.get(PARTITIONS) or "200"
    if not found.isdecimal() or int(found) < 1:
        raise InvalidValue(
            f"`{PARTITIONS}` must be a positive number, which buckets are spread over; got {found!r}. "
            f'Set it before the query is built, to about the number of cores: spark.conf.set("{PARTITIONS}", "16").'
        )
    return int(found)


def _count(query: Query, partitions: int) -> int:
    """The number of buckets: that of the options, or the default one."""
    if query.options.buckets is not None:
        return query.options.buckets.count
    return BUCKETS_PER_PARTITION * partitions if query.keys else 1
