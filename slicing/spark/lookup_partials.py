"""Looks up the slices of a query in its checkpoint and returns their partials, as `partials()` would have emitted them.

::

    state              user | slice            | partials          partials of slices that are open, closed or retained
    lookup_partials()  bob  | 12:00 .. 12:05   | records, spent    as_of: micro-batch, watermark, until, known_from
    warm(partials=)    continues in a new checkpoint, from `until`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slicing.assembly.choice import EAGER
from slicing.engines.looking import Look
from slicing.errors import InvalidValue
from slicing.spark import checkpoint
from slicing.spark.as_of import AS_OF, KNOWN_FROM, UNTIL, instant, read_from
from slicing.spark.checkpoint import State
from slicing.spark.lookup import (
    LookupRequest,
    check_added,
    check_stream,
    keys_of,
    session_of,
    shown_by,
)
from slicing.spark.partials import of_slices
from slicing.spark.query import Query
from slicing.stages.flat import WATERMARK
from slicing.stages.looking import KNOWN
from slicing.stages.looking_slices import LookUpSlices

CALL = "lookup_partials"


@dataclass(frozen=True)
class PartialsRequest(LookupRequest):
    """The checked arguments of a lookup of partials; the windows of `shown` are slices, and its results partials."""

    reads = LookUpSlices

    def _rows(self, windows: DataFrame, state: State) -> DataFrame:
        watermark = F.col(WATERMARK)
        until = instant(watermark - self.query.options.grace).alias(UNTIL)
        known = instant(F.col(KNOWN)).alias(KNOWN_FROM)
        as_of = F.struct(*read_from(state.batch, watermark), until, known)
        return of_slices(windows.select(*self.shown.row_columns(), as_of.alias(AS_OF)))


def lookup_partials(
    query: Query,
    slices: Query,
    path: str,
    *,
    keys: Any,
    batch: int | None,
    operator: int | None,
) -> DataFrame:
    """Return the partials in the state of a query; `slices` is the query of its partials.

    Raises InvalidValue, InvalidType, StateMismatch.
    """
    check_stream(query, CALL)
    if EAGER in query.trees:
        raise InvalidValue(
            f"`{CALL}` reads the slices of a state, and the state of {query.window} keeps whole windows instead, as "
            '`.assemble("eager")` and `purge=True` ask for. Leave them out.'
        )
    if query.shape.family.has_gaps:
        raise InvalidValue(
            f"`{CALL}` returns slices for making other windows, and {query.window} keeps no records of its "
            "gaps. Use `lookup` for its windows."
        )
    check_added(slices, [AS_OF])
    spark = session_of(query, CALL)
    look = Look(keys=None if keys is None else keys_of(spark, query, keys))
    request = PartialsRequest(query, shown_by(slices, slices.shape, None), look)
    return checkpoint.of_one_batch(lambda at: checkpoint.state(spark, path, at, operator), request.answered, batch)
