"""Looks up the windows of keys as of an instant in the checkpoint of a query: a row for each key.

::

    state             user | slice            | partials           the stored slices, up to the instant
    lookup(at=t)      ada  | n | spent | start | at | as_of | known_from
                      bob  | 0 | null  | ...                        asked for, and without records
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slicing.drafts.draft import output_names
from slicing.engines.looking import Look
from slicing.errors import InvalidValue
from slicing.spark import checkpoint
from slicing.spark.as_of import AS_OF, KNOWN_FROM, read_from
from slicing.spark.as_of_columns import check_free, results_as_of, starts_as_of, starts_column
from slicing.spark.checkpoint import State
from slicing.spark.columns import logical
from slicing.spark.lookup import LookupRequest, check, keys_of, session_of
from slicing.spark.query import Query
from slicing.stages.flat import KEY, WATERMARK, numbered
from slicing.stages.looking import KNOWN, LookUp
from slicing.stages.looking_as_of import FlatAsOf, LookUpAsOf
from slicing.stages.support import AT
from slicing.stages.support_of import support_of
from slicing.windows.as_of import as_of
from slicing.windows.time.instants import microseconds_of

AT_WATERMARK = "watermark"


@dataclass(frozen=True)
class AsOfRequest(LookupRequest):
    """The checked arguments of a lookup as of `at`, in microseconds; the windows of `shown` are those as of then."""

    names: tuple[str, ...] = ()
    at: int | None = None
    reads = LookUpAsOf

    @cached_property
    def _flat(self) -> FlatAsOf:
        return replace(FlatAsOf.of(self.shown.flat), windows=self.shown.widths)

    def function(self, texts: Mapping[int, str], labels: tuple[int, ...] = ()) -> LookUp:
        """Return the function that assembles the windows as of the instant."""
        found = super().function(texts, labels)
        assert isinstance(found, LookUpAsOf), "it is what reads here"
        return replace(found, at=self.at)

    def _rows(self, windows: DataFrame, state: State) -> DataFrame:
        shown = self.shown
        leaves = map(F.col, numbered(KEY, shown.shape.keys))
        keys = [key.rebuild(leaves) for key in shown.keys]
        at, known = (logical(F.col(name), shown.time_kind) for name in (AT, KNOWN))
        as_of_batch = F.struct(*read_from(state.batch, F.col(WATERMARK))).alias(AS_OF)
        starts = [starts_as_of(shown), at.alias(AT), as_of_batch, known.alias(KNOWN_FROM)]
        return windows.select(*keys, *results_as_of(shown, self.names), *starts)


def lookup_as_of(
    query: Query,
    other: Query | None,
    path: str,
    at: Any,
    *,
    keys: Any,
    refused: Mapping[str, Any],
    batch: int | None,
    operator: int | None,
) -> DataFrame:
    """Return the windows as of an instant from the state of a query, or those of `other` made of its slices.

    `refused` are the values of arguments that such a lookup does not take. Raises InvalidValue, InvalidType,
    StateMismatch.
    """
    if given := [name for name, value in refused.items() if value]:
        raise InvalidValue(
            f"`at` asks for the windows as of one instant; got `{given[0]}`, which chooses windows, too. Leave one out."
        )
    window = as_of((other or query).window, inclusive=False)
    check(query, other, {AT: at})
    names = tuple(output_names({name: None for name, _ in query.nesting}, window))
    shown = replace(
        query,
        streaming=False,
        options=query.options.at_close,
        then=None,
        support=support_of(window),
        shape=query.shape.over(window.family),
        result_names=names,
    )
    added = [starts_column(shown), AT, AS_OF, KNOWN_FROM]
    check_free((*(key.name for key in query.keys), *names), added, "the definition")
    spark = session_of(query)
    every = pa.table([[True]], schema=query.shape.key_schema) if not query.keys else None
    look = Look(keys=every if keys is None else keys_of(spark, query, keys), unknown=True)
    instant = None if at == AT_WATERMARK else microseconds_of(at, "`at`")
    request = AsOfRequest(query, shown, look, names, instant)
    return checkpoint.of_one_batch(lambda of: checkpoint.state(spark, path, of, operator), request.answered, batch)
