"""The column `as_of` of tables that are read from a checkpoint: the state that they were read from."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.errors import InvalidValue

AS_OF, MICRO_BATCH, WATERMARK, UNTIL, KNOWN_FROM = "as_of", "micro_batch", "watermark", "until", "known_from"
"""The column, and its fields; only tables of partials have the last two."""


@dataclass(frozen=True)
class AsOf:
    """The state that a table of partials was read from; instants are in microseconds.

    until: windows that end by then have closed, in the bucket that is ahead of all others; None if none has.
    all_until: the same in the bucket that is behind all others. With `idle` each bucket has a watermark of its own.
    known_from: later slices have all their records; None if no slice has been removed.
    """

    until: int | None
    all_until: int | None
    known_from: int | None


def instant(microseconds: int | Column) -> Column:
    """Return an instant as a timestamp; null if it is not after 1970, where the watermark of a stream starts."""
    of = F.lit(microseconds)
    return F.timestamp_micros(F.when(of > 0, of))


def read_from(batch: int, watermark: Column) -> list[Column]:
    """Return the fields that name a micro-batch and the watermark of a bucket in microseconds."""
    return [F.lit(batch).cast("bigint").alias(MICRO_BATCH), instant(watermark).alias(WATERMARK)]


def as_of(table: DataFrame) -> AsOf | None:
    """Return the state that a table of partials was read from, None if it has no slice of a checkpoint.

    Cost: one job that reads one column. Raises InvalidValue if there are several micro-batches.
    """
    kind = table.schema[AS_OF].dataType if AS_OF in table.columns else None
    if not isinstance(kind, T.StructType) or not {UNTIL, KNOWN_FROM} <= {*kind.names}:
        return None
    batch, until, known = (F.col(AS_OF).getField(name) for name in (MICRO_BATCH, UNTIL, KNOWN_FROM))
    closed = F.coalesce(F.unix_micros(until), F.lit(0))
    of_all = F.min(batch), F.max(batch), F.max(closed), F.min(closed), F.max(F.unix_micros(known))
    row = table.agg(*of_all).first()
    assert row is not None, "an aggregate without keys has a row"
    if row[0] != row[1]:
        raise InvalidValue(
            f"a table of looked-up partials is of one micro-batch; this one has slices of {row[0]} and {row[1]}, which "
            'may hold the same records. Choose one: `.where("as_of.micro_batch = '
            f'{row[1]}")`.'
        )
    return None if row[0] is None else AsOf(row[2] or None, row[3] or None, row[4])
