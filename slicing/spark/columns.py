"""Columns between Spark and Arrow: keys are flattened to atomic leaves for Python, results are rebuilt from leaves.

Leaves use Arrow types that are exact and cheap to convert: timestamps are int64 microseconds, dates are int32 days. The
JVM rebuilds timestamps, dates, structs and `window` from them, at a hundredth of the cost of a struct through pandas.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.aggregates.conversions import as_atomic
from slicing.aggregates.fields import (
    FLOATS,
    INTERVAL,
    Field,
    element_of,
    entry_of,
    kind_of,
    members_of,
    result_kind_of,
    value_kind_of,
)
from slicing.column_names import as_column, in_backquotes, in_code
from slicing.errors import InvalidType, Remedy, Topic
from slicing.stages.flat import physical

_NTZ_EPOCH = "timestamp_ntz'1970-01-01 00:00:00'"


@dataclass(frozen=True)
class Part:
    """A part of a key: the names of the fields that lead to it, and its field.

    It is an atomic value; if it `is_struct`, the flag that the struct there is not null.
    """

    path: tuple[str, ...]
    field: Field
    is_struct: bool


@dataclass(frozen=True)
class Key:
    """A key column with its type and its leaves.

    An atomic key is its own leaf. The leaves of a struct are a flag "is not null" and the leaves of its fields.
    `source` is the input column that the key is read from, `code` the same for remedies.
    """

    name: str
    type: T.DataType
    source: str
    code: str = dataclasses.field(default="", compare=False)

    def parts(self) -> list[Part]:
        """Return the parts of the key, in order. Raises InvalidType for a key of an unsupported type."""
        return list(_parts((), self.name, self.type, self.code or in_code(self.source)))

    def leaves(self) -> list[Column]:
        """Return the columns of atomic types that determine the key, one for each part."""
        return [_leaf(reduce(Column.getField, part.path, quoted(self.source)), part) for part in self.parts()]

    def rebuild(self, leaves: Iterator[Column]) -> Column:
        """Return the key, rebuilt from the next of its leaves."""
        return _rebuild(self.type, leaves).alias(self.name)


def quoted(name: str) -> Column:
    """Return the column with a name that may contain any characters."""
    return F.col(in_backquotes(name))


def check_time_type(name: str, data_type: T.DataType, code: str = "") -> None:
    """Raise InvalidType, with the remedy, unless the time column is a timestamp or a timestamp_ntz.

    `code` is that of a Column if the time is computed by one.
    """
    if not isinstance(data_type, (T.TimestampType, T.TimestampNTZType)):
        raise InvalidType(
            f"time column `{name}` must be timestamp or timestamp_ntz; got {data_type.simpleString()}. "
            f"{_as_time(code or in_code(name), json.dumps('at' if code else name), data_type)}."
        )


def _as_time(code: str, new: str, data_type: T.DataType) -> str:
    """The remedy for a time of another type; `new` is the name that the computed column gets."""
    if isinstance(data_type, (T.FractionalType, T.DecimalType)):
        return f"If it counts seconds, write `withColumn({new}, F.timestamp_seconds({code}))`"
    if isinstance(data_type, T.NumericType):
        # Not `to_timestamp`, which reads every number as seconds.
        units = ", ".join(f"`F.timestamp_{unit}({code})`" for unit in ("seconds", "millis", "micros"))
        return f"Say what it counts, by `withColumn` and one of {units}"
    if isinstance(data_type, T.StructType) and {"start", "end"} <= {*data_type.names}:
        return f"The time of a window is `withColumn(..., F.window_time({code}))`"
    if isinstance(data_type, T.DateType):
        return f'Write `withColumn({new}, {as_column(code)}.cast("timestamp"))`'
    if isinstance(data_type, T.StringType):
        return f"Write for example `withColumn({new}, F.to_timestamp({code}))`"
    return "Compute one of it first, by `withColumn`, or name another column"


COLUMN = "column"
"""What `kind_of_type` calls a column of records that is aggregated: it may hold intervals."""


def kind_of_type(data_type: T.DataType, name: str, what: str, code: str = "") -> str:
    """Return the kind of an atomic type. Raises InvalidType, with the remedy, for other types."""
    try:
        return (value_kind_of if what == COLUMN else kind_of)(data_type.simpleString())
    except ValueError:
        raise InvalidType(
            f"{what} `{name}` has type {data_type.simpleString()}, which cannot be used here. ",
            Remedy(Topic.COLUMN, as_atomic(data_type.simpleString(), code or in_code(name))),
        ) from None


def nested_kind_of_type(data_type: T.DataType, name: str, code: str = "") -> str:
    """Return the kind of an atomic or nested type. Raises InvalidType, with the remedy, for other types."""
    if not isinstance(data_type, (T.ArrayType, T.MapType, T.StructType)):
        return kind_of_type(data_type, name, COLUMN, code)
    if odd := next(filter(re.compile(r"[:,<>()]|^\s|\s$").search, _names_in(data_type)), None):
        raise InvalidType(
            f"column `{name}` has a field `{odd}`, and names in structs have none of `:,<>()`, and no spaces at their "
            'ends, here. Rename it, for example with `.cast("struct<n:bigint,s:string>")`.'
        )
    with suppress(ValueError):
        return result_kind_of(data_type.simpleString())
    raise InvalidType(
        f"column `{name}` has type {data_type.simpleString()}, in which a type cannot be used here. ",
        Remedy(Topic.COLUMN, "Leave it out, or cast it to an atomic type first."),
    )


def _names_in(data_type: T.DataType) -> Iterator[str]:
    """Yield the names of the fields of all structs in a type."""
    for field in data_type.fields if isinstance(data_type, T.StructType) else ():
        yield field.name
        yield from _names_in(field.dataType)
    for name in ("elementType", "keyType", "valueType"):
        if isinstance(inner := getattr(data_type, name, None), T.DataType):
            yield from _names_in(inner)


def _parts(path: tuple[str, ...], name: str, data_type: T.DataType, code: str) -> Iterator[Part]:
    if not isinstance(data_type, T.StructType):
        yield Part(path, Field(name, kind_of_type(data_type, name, "key column", code)), False)
        return
    yield Part(path, Field(name, "boolean"), True)
    for field in data_type.fields:
        inside = f"{as_column(code)}.getField({json.dumps(field.name, ensure_ascii=False)})"
        yield from _parts((*path, field.name), f"{name}.{field.name}", field.dataType, inside)


def _leaf(column: Column, part: Part) -> Column:
    if part.is_struct:
        return column.isNotNull()
    if part.field.kind not in FLOATS:
        return column
    # Spark groups the same way: all NaNs are one key, 0.0 and -0.0 are one key.
    same = F.when(F.isnan(column), F.lit(float("nan"))).when(column == 0, F.lit(0.0)).otherwise(column)
    return same.cast(part.field.kind)


def _rebuild(data_type: T.DataType, leaves: Iterator[Column]) -> Column:
    if not isinstance(data_type, T.StructType):
        return logical(next(leaves), kind_of(data_type.simpleString()))
    present = next(leaves)
    fields = [_rebuild(field.dataType, leaves).alias(field.name) for field in data_type.fields]
    return F.when(present, F.struct(*fields))


def logical(column: Column, kind: str) -> Column:
    """Return the column of type `kind` from its Arrow form: timestamps from microseconds, dates from days."""
    if physical(kind) == kind:
        return column
    if element := element_of(kind):
        return F.transform(column, lambda item: logical(item, element))
    if entry := entry_of(kind):
        entries = logical(F.map_entries(column), f"array<struct<key:{entry[0]},value:{entry[1]}>>")
        return F.map_from_entries(entries)
    if members := members_of(kind):
        fields = [logical(column.getField(member.name), member.kind).alias(member.name) for member in members]
        return F.when(column.isNotNull(), F.struct(*fields))
    if kind == "date":
        return F.date_from_unix_date(column)
    if kind == "timestamp":
        return F.timestamp_micros(column)
    if kind == "timestamp_ntz":
        # Interval arithmetic does not use a time zone, so every wall clock time is preserved.
        return F.expr(_NTZ_EPOCH) + logical(column, INTERVAL)
    if kind == INTERVAL:
        return column * F.expr("interval '0.000001' second")
    return column
