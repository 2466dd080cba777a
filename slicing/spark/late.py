"""Late rows in the output of a query: how results and late rows are tagged and separated."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.aggregates.fields import Field
from slicing.errors import InvalidValue
from slicing.spark.columns import logical, quoted
from slicing.stages import flat
from slicing.stages.flat import physical
from slicing.triggers.lateness import LATE, TIMES
from slicing.triggers.trigger import FIRING

DELAY, HELD_DELAY = "spark.watermarkDelayMs", "slicing.watermarkDelayMs"
"""Metadata of event-time columns with the watermark delay in ms: Spark's own, and one that Spark does not look at."""

_TAG = ("slice", "records", "cause", "watermark", "first_window", "missed")
_RECORD, _NAME = "record", "windows"


def named(names: tuple[str, ...]) -> Column:
    """Return the name of the windows of a flat row."""
    return F.element_at(F.array(*map(F.lit, names)), F.col(flat.FAMILY) + 1)


@dataclass(frozen=True)
class LateColumns:
    """The flat columns that only late rows have: the reason, and the values of the record if late records are emitted.

    `values` are the value columns of a record, None if only late partials are emitted. Times are in microseconds: the
    `end` of the slice, the `watermark`, and `taken`, the start of the first window that was open. `missed` counts the
    windows that were closed. `size` is the length of the windows, None if they differ in length; then the flat column
    `until` has the end of the first open window. `names` distinguish several windows in one call.
    """

    values: tuple[Field, ...] | None
    size: int | None
    names: tuple[str, ...] | None = None

    @property
    def kinds(self) -> tuple[str, ...] | None:
        """The physical kinds of the values of a record, None if no late records are emitted."""
        return None if self.values is None else tuple(physical(field.kind) for field in self.values)

    def tag(self, kind: str, record: Column) -> Column:
        """Return the column that tags late rows; `kind` is the type of times, `record` the struct of a late record."""

        def interval(start: Column, end: Column) -> Column:
            return F.struct(logical(start, kind).alias("start"), logical(end, kind).alias("end"))

        first_open = F.col(flat.TAKEN)
        until = F.col(flat.UNTIL) if self.size is None else first_open + F.lit(self.size)
        columns = [
            interval(F.col(flat.START), F.col(flat.END)),
            F.col(flat.RECORDS),
            F.when(first_open.isNull(), F.lit("late")).otherwise(F.lit("late_for_some")),
            logical(F.col(flat.WATERMARK), kind),
            F.when(first_open.isNotNull(), interval(first_open, until)),
            F.col(flat.MISSED),
        ]
        fields = [column.alias(name) for column, name in zip(columns, _TAG, strict=True)]
        if self.names:
            fields.append(named(self.names).alias(_NAME))
        if self.values is not None:
            fields.append(F.when(F.col(flat.TIME).isNotNull(), record).alias(_RECORD))
        return F.when(F.col(flat.CAUSE) == flat.LATE_ROW, F.struct(*fields)).alias(LATE)


def results(df: DataFrame) -> DataFrame:
    """Return the results of a query without its late rows; a DataFrame without late rows is returned unchanged.

    Works on streams, on micro-batches in `foreachBatch`, and on tables that were written with the column `late`.
    """
    if not _tag_of(df):
        return df
    found = df.where(F.col(LATE).isNull()).drop(LATE)
    (time,) = (name for name in TIMES if name in found.columns)
    metadata = dict(found.schema[time].metadata)
    if HELD_DELAY not in metadata:
        return found
    return found.withMetadata(time, metadata | {DELAY: metadata.pop(HELD_DELAY)})


def late_partials(df: DataFrame) -> DataFrame:
    """Return the late partials of a query: one row per slice and key of a micro-batch, made of late records only.

    Columns: the keys, the results of the refused records, and `late`. The struct `late` has the fields `slice`;
    `records`, their number; `cause`, "late" if all windows were closed, else "late_for_some"; `watermark`, the one they
    were late for; `first_window`, the first open window, null if there was none; `missed`, the number of closed
    windows. With several windows in one call, each window has its own rows, and the field `windows` has its name or its
    call. Raises InvalidValue for a DataFrame without late rows.
    """
    tag = _tagged(df)
    rows = df.where(F.col(LATE).isNotNull())
    if _RECORD in tag.names:
        rows = rows.where(F.col(f"{LATE}.{_RECORD}").isNull())
    columns = [quoted(name) for name in df.columns if name not in (*TIMES, LATE, *_firing_columns_of(df))]
    return rows.select(*columns, _fields_of(_named_tag(tag)))


def late_records(df: DataFrame) -> DataFrame:
    """Return the late records of a query, with their input values.

    Columns: the keys, the event time, the columns that the aggregates read, and `late`, which has the fields of
    `late_partials` except `records`. Raises InvalidValue unless the query has `.late("records")`.
    """
    tag = _tagged(df)
    if _RECORD not in tag.names:
        raise InvalidValue('late records are an output of `.late("records")` only; these are late partials.')
    rows = df.where(F.col(f"{LATE}.{_RECORD}").isNotNull())
    return rows.select(f"{LATE}.{_RECORD}.*", _fields_of(tuple(name for name in _named_tag(tag) if name != "records")))


def _named_tag(tag: T.StructType) -> tuple[str, ...]:
    return (*_TAG, _NAME) if _NAME in tag.names else _TAG


def _fields_of(names: tuple[str, ...]) -> Column:
    return F.struct(*(F.col(f"{LATE}.{name}").alias(name) for name in names)).alias(LATE)


def _firing_columns_of(df: DataFrame) -> tuple[str, ...]:
    """The columns of firings in `df`; late rows are emitted once and do not have them."""
    return FIRING if {"emission", "revision"} <= set(df.columns) else ()


def _tag_of(df: DataFrame) -> T.StructType | None:
    kind = df.schema[LATE].dataType if LATE in df.columns else None
    return kind if isinstance(kind, T.StructType) and kind.names[: len(_TAG)] == list(_TAG) else None


def _tagged(df: DataFrame) -> T.StructType:
    tag = _tag_of(df)
    if tag is None:
        raise InvalidValue(
            f"late rows are tagged by a column `{LATE}`, which a stream has with "
            f'`.late("partials")` or `.late("records")`; the columns are {", ".join(df.columns)}.'
        )
    return tag
