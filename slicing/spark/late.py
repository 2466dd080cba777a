"""Late rows in the output of a query, beside its results: how they are tagged, and how to take the two apart."""

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

LATE = "late"
"""The column that tags late rows; null in results."""

DELAY, HELD_DELAY = "spark.watermarkDelayMs", "slicing.watermarkDelayMs"
"""Metadata of event-time columns: where Spark looks for the delay of the watermark, and where it does not."""

_TIMES = ("window", "window_end")
"""The column that says when results are of: the window, or the end of aligned windows."""
_TAG = ("slice", "records", "cause", "watermark", "first_window", "missed")
_RECORD, _NAME = "record", "windows"


def named(names: tuple[str, ...]) -> Column:
    """The name of the windows that a flat row is of."""
    return F.element_at(F.array(*map(F.lit, names)), F.col(flat.FAMILY) + 1)


@dataclass(frozen=True)
class LateColumns:
    """The flat columns that only late rows have: what refused them and, if the records are emitted too, those.

    `values` are the columns of values of a record, None if only partials are emitted. Times are in microseconds:
    `end` of the slice, `watermark`, `taken` the start of the first window that was open; `missed` counts the others.
    Where windows differ in length, `size` is None and `until` is the end of that window. Of several windows a row is of
    one, which `names` tell apart.
    """

    values: tuple[Field, ...] | None
    size: int | None
    names: tuple[str, ...] | None = None

    @property
    def kinds(self) -> tuple[str, ...] | None:
        """The kinds in which the values of a record travel, None if no records do."""
        return None if self.values is None else tuple(physical(field.kind) for field in self.values)

    def tag(self, kind: str, record: Column) -> Column:
        """The column that tags late rows; times are of `kind`, `record` is a late record."""

        def interval(start: Column, end: Column) -> Column:
            return F.struct(logical(start, kind).alias("start"), logical(end, kind).alias("end"))

        taken = F.col(flat.TAKEN)
        until = F.col(flat.UNTIL) if self.size is None else taken + F.lit(self.size)
        columns = [
            interval(F.col(flat.START), F.col(flat.END)),
            F.col(flat.RECORDS),
            F.when(taken.isNull(), F.lit("late")).otherwise(F.lit("late_for_some")),
            logical(F.col(flat.WATERMARK), kind),
            F.when(taken.isNotNull(), interval(taken, until)),
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

    Works on streams, on the micro-batches of `foreachBatch`, and on what was written with its column `late` and read.
    """
    if not _tag_of(df):
        return df
    found = df.where(F.col(LATE).isNull()).drop(LATE)
    (time,) = (name for name in _TIMES if name in found.columns)
    metadata = dict(found.schema[time].metadata)
    if HELD_DELAY not in metadata:
        return found
    return found.withMetadata(time, metadata | {DELAY: metadata.pop(HELD_DELAY)})


def late_partials(df: DataFrame) -> DataFrame:
    """Return the late partials of a query: a row for each slice and key of a micro-batch, from its late records only.

    Columns: the keys, the results as of the refused records, and `late`, a struct of `slice`; `records`, their number;
    `cause`, "late" for all windows or "late_for_some"; `watermark`, by which they were late; `first_window` that still
    took them, null if none did; `missed`, the number of windows that did not. Of several windows in one call each has
    rows of its own, and `windows` is the name of those that a row is of, or the call that makes them.
    Raises InvalidValue for a DataFrame without late rows.
    """
    tag = _tagged(df)
    rows = df.where(F.col(LATE).isNotNull())
    if _RECORD in tag.names:
        rows = rows.where(F.col(f"{LATE}.{_RECORD}").isNull())
    columns = [quoted(name) for name in df.columns if name not in (*_TIMES, LATE, *_marks_of(df))]
    return rows.select(*columns, _fields_of(_named_tag(tag)))


def late_records(df: DataFrame) -> DataFrame:
    """Return the late records of a query, as it read them.

    Columns: the keys, the event time and the columns that the aggregates are bound to, by their names, and `late` as
    that of `late_partials`, without `records`. Raises InvalidValue unless the query says `.late("records")`.
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


def _marks_of(df: DataFrame) -> tuple[str, ...]:
    """Columns that tell results apart which go out more than once; late rows go out once."""
    return ("emission", "revision", "old") if {"emission", "revision"} <= set(df.columns) else ()


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
