"""Columns between Spark and Arrow: keys flattened to atomic leaves on the way in, results rebuilt on the way out.

Leaves travel in Arrow forms that are exact and cheap to convert: timestamps as int64 microseconds, dates as int32
days. The JVM makes timestamps, dates, structs and the `window` column from them, which costs a hundredth of what a
struct through pandas does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.aggregates.fields import FLOATS, Field, element_of, kind_of, members_of, result_kind_of
from slicing.errors import InvalidType, Remedy, Topic

_NTZ_EPOCH = "timestamp_ntz'1970-01-01 00:00:00'"


@dataclass(frozen=True)
class Key:
    """A key column: its type, and its leaves, which are itself or, for a struct, a null flag and its fields' leaves.

    `source` is the column that it is read from.
    """

    name: str
    type: T.DataType
    source: str

    def leaves(self) -> list[tuple[Column, Field]]:
        """Columns of atomic types that determine the key, and their fields."""
        return list(_leaves(quoted(self.source), self.name, self.type))

    def rebuild(self, leaves: Iterator[Column]) -> Column:
        """The key from its leaves, in their order."""
        return _rebuild(self.type, leaves).alias(self.name)


def quoted(name: str) -> Column:
    """A column by its name, whatever characters are in it."""
    return F.col("`" + name.replace("`", "``") + "`")


def check_time_type(name: str, data_type: T.DataType) -> None:
    """Raise InvalidType, with the remedy, for a time column of another type."""
    if not isinstance(data_type, (T.TimestampType, T.TimestampNTZType)):
        raise InvalidType(
            f"time column `{name}` must be timestamp or timestamp_ntz; got {data_type.simpleString()}. "
            f"{_as_time(name, data_type)}."
        )


def _as_time(name: str, data_type: T.DataType) -> str:
    if isinstance(data_type, T.NumericType):
        # Not `to_timestamp`, which takes all numbers for seconds.
        units = ", ".join(f"`F.timestamp_{unit}({name!r})`" for unit in ("seconds", "millis", "micros"))
        return f"Say what it counts, by `withColumn` and one of {units}"
    if isinstance(data_type, T.StructType):
        return f"The time of a window is `withColumn(..., F.window_time({name!r}))`"
    if isinstance(data_type, T.DateType):
        return f'Write `withColumn({name!r}, F.col({name!r}).cast("timestamp"))`'
    return f"Write for example `withColumn({name!r}, F.to_timestamp({name!r}))`"


def kind_of_type(data_type: T.DataType, name: str, what: str) -> str:
    """The kind of an atomic type. Raises InvalidType, with the remedy, for the others."""
    try:
        return kind_of(data_type.simpleString())
    except ValueError:
        raise InvalidType(
            f"{what} `{name}` has type {data_type.simpleString()}, which cannot be used here. ",
            Remedy(Topic.COLUMN, _remedy(data_type)),
        ) from None


def nested_kind_of_type(data_type: T.DataType, name: str) -> str:
    """The kind of an atomic type, an array or a struct. Raises InvalidType, with the remedy, for the others."""
    if isinstance(data_type, (T.ArrayType, T.StructType)):
        with suppress(ValueError):
            return result_kind_of(data_type.simpleString())
    return kind_of_type(data_type, name, "column")


def _remedy(data_type: T.DataType) -> str:
    if isinstance(data_type, T.StringType):
        return 'Collated strings compare by rule: take `F.collate(column, "UTF8_BINARY")` for plain text.'
    if isinstance(data_type, T.ArrayType):
        return "Turn it into text first, for example with `F.array_join` or `F.to_json`."
    if isinstance(data_type, (T.MapType, T.VariantType)):
        return "Take the fields that are needed into columns of their own, or use `F.map_entries` or `F.to_json`."
    return 'Cast it to an atomic type first, for example `.cast("string")` or `.cast("long")`.'


def _leaves(column: Column, name: str, data_type: T.DataType) -> Iterator[tuple[Column, Field]]:
    if isinstance(data_type, T.StructType):
        yield column.isNotNull(), Field(name, "boolean")
        for field in data_type.fields:
            yield from _leaves(column.getField(field.name), f"{name}.{field.name}", field.dataType)
        return
    kind = kind_of_type(data_type, name, "key column")
    if kind in FLOATS:
        # As Spark does for grouping: one NaN, one zero.
        column = F.when(F.isnan(column), F.lit(float("nan"))).when(column == 0, F.lit(0.0)).otherwise(column).cast(kind)
    yield column, Field(name, kind)


def _rebuild(data_type: T.DataType, leaves: Iterator[Column]) -> Column:
    if not isinstance(data_type, T.StructType):
        return logical(next(leaves), kind_of(data_type.simpleString()))
    present = next(leaves)
    fields = [_rebuild(field.dataType, leaves).alias(field.name) for field in data_type.fields]
    return F.when(present, F.struct(*fields))


def logical(column: Column, kind: str) -> Column:
    """A column of a kind from the form in which it travelled."""
    if element := element_of(kind):
        return F.transform(column, lambda item: _inside(item, element))
    if members := members_of(kind):
        fields = [_inside(column.getField(member.name), member.kind).alias(member.name) for member in members]
        return F.when(column.isNotNull(), F.struct(*fields))
    if kind == "date":
        return F.date_from_unix_date(column)
    if kind == "timestamp":
        return F.timestamp_micros(column)
    if kind == "timestamp_ntz":
        # Interval arithmetic knows no time zone, so every wall clock time is kept.
        return F.expr(_NTZ_EPOCH) + column * F.expr("interval '0.000001' second")
    return column


def _inside(column: Column, kind: str) -> Column:
    """`logical` of what is in an array: on its way through pandas a NaN there becomes null, which nothing else is."""
    return F.coalesce(column, F.lit(float("nan")).cast(kind)) if kind in FLOATS else logical(column, kind)
