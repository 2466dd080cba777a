"""The types of partials, values, keys and results: Spark's names for them, and their Arrow and numpy types.

A kind is Spark's `simpleString` of a type ("bigint", "decimal(10,2)", "array<int>"). Plans are therefore readable, and
this module does not need pyspark.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.column_names import in_backquotes
from slicing.errors import InvalidType, InvalidValue, excerpt

_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "bool": "boolean",
}
_NUMPY = {"boolean": np.bool_, "tinyint": np.int8, "smallint": np.int16, "int": np.int32, "bigint": np.int64}
_NUMPY |= {"float": np.float32, "double": np.float64}
_INFERRED: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "bigint"),
    (float, "double"),
    (str, "string"),
    (bytes, "binary"),
    (dt.datetime, "timestamp"),
    (dt.date, "date"),
    (Decimal, "decimal(38,18)"),
)
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_FIXED = re.compile(r"binary\((\d+)\)")
_ARRAY = re.compile(r"array\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_MAP = re.compile(r"map\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_STRUCT = re.compile(r"struct\s*<(.*)>", re.IGNORECASE | re.DOTALL)

INTERVAL = "interval day to second"
"""The kind of Spark's intervals of days to seconds, in microseconds. Only columns of records and results have it."""
_INTERVAL = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")

INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")

_once = lru_cache(maxsize=4096)
"""Keeps what is read from the text of a kind: micro-batches ask about the same few kinds hundreds of times."""


@dataclass(frozen=True)
class Field:
    """A named column of a partial, of a result or of a key."""

    name: str
    kind: str

    def __str__(self) -> str:
        return f"{self.name} {self.kind}"


def kind_of(text: str) -> str:
    """Return the kind of a type name: "long" is "bigint". Raises InvalidValue for a type that is not atomic."""
    word = text.strip().lower()
    word = _ALIASES.get(word, word)
    if word == "decimal":
        return "decimal(10,0)"
    if word in _ARROW:
        return word
    if decimal_of(word) or width_of(word):
        return word.replace(" ", "")
    raise InvalidValue(f"`{text}` is not an atomic type. Use one of {', '.join(_ARROW)} or decimal(p,s).")


@_once
def value_kind_of(text: str) -> str:
    """Return the kind of a type that a column of records or a result may have: an atomic one, or an interval."""
    return INTERVAL if _is_interval(text) else kind_of(text)


def decimal_of(kind: str) -> tuple[int, int] | None:
    """Return precision and scale of a decimal kind, None for other kinds."""
    match = _DECIMAL.fullmatch(kind)
    return (int(match[1]), int(match[2])) if match else None


@_once
def width_of(kind: str) -> int | None:
    """Return the n of a kind "binary(n)", whose values all have n bytes; None for others. Only partials use it."""
    match = _FIXED.fullmatch(kind)
    return int(match[1]) or None if match else None


def element_of(kind: str) -> str | None:
    """Return the kind of the elements of an array, None for other kinds."""
    match = _ARRAY.fullmatch(kind)
    return match[1] if match else None


@_once
def members_of(kind: str) -> tuple[Field, ...] | None:
    """Return the fields of a struct, None for other kinds."""
    match = _STRUCT.fullmatch(kind)
    return tuple(_member(part) for part in _split(match[1])) if match else None


def entry_of(kind: str) -> tuple[str, str] | None:
    """Return the kinds of the keys and the values of a map, None for other kinds."""
    match = _MAP.fullmatch(kind)
    parts = _split(match[1]) if match else []
    return (parts[0], parts[1]) if len(parts) == 2 else None


@_once
def is_nested(kind: str) -> bool:
    """Return whether values of a kind are arrays, maps or structs."""
    return any(pattern.fullmatch(kind) for pattern in (_ARRAY, _MAP, _STRUCT))


def over_leaves(kind: str, leaf: Callable[[str], str], name: Callable[[str], str] = str) -> str:
    """Return a kind with `leaf` applied to the atomic kinds in it, and `name` to the names in structs."""
    if element := element_of(kind):
        return f"array<{over_leaves(element, leaf, name)}>"
    if entry := entry_of(kind):
        return f"map<{','.join(over_leaves(each, leaf, name) for each in entry)}>"
    if members := members_of(kind):
        return f"struct<{','.join(f'{name(each.name)}:{over_leaves(each.kind, leaf, name)}' for each in members)}>"
    return leaf(kind)


def _member(text: str) -> Field:
    name, _, kind = text.partition(":")
    return Field(name.strip(), kind.strip())


def ddl_of(kind: str) -> str:
    """Return a kind as DDL for Spark, with the names inside structs quoted: they may have any characters."""
    return over_leaves(kind, str, in_backquotes)


def is_exact(kind: str) -> bool:
    """Return whether subtraction undoes addition exactly: true for everything but floats."""
    return kind not in FLOATS


@_once
def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a kind."""
    if element := element_of(kind):
        return pa.list_(arrow_type(element))
    if entry := entry_of(kind):
        return pa.map_(*map(arrow_type, entry))
    if members := members_of(kind):
        return pa.struct([(member.name, arrow_type(member.kind)) for member in members])
    if width := width_of(kind):
        return pa.binary(width)
    decimal = decimal_of(kind)
    return pa.decimal128(*decimal) if decimal else pa.duration("us") if kind == INTERVAL else _ARROW[kind]


@_once
def numpy_type(kind: str) -> np.dtype[Any]:
    """Return the numpy type of a kind in functions with `columns=True`; object if numpy has no such type."""
    if width := width_of(kind):
        return np.dtype(f"V{width}")
    return np.dtype(_NUMPY.get(kind, np.object_))


def result_kind_of(text: str) -> str:
    """Return the kind of a type, which may be an array, a map or a struct. Raises InvalidValue for other types."""
    return over_leaves(text.strip(), kind_of)


def parse_results(ddl: str) -> tuple[Field, ...]:
    """Return the fields of a result's DDL text: as for a partial, or arrays and structs such as "array<double>"."""
    return (Field("value", INTERVAL),) if _is_interval(ddl) else parse_fields(ddl, _field_kind)


def _field_kind(text: str) -> str:
    return INTERVAL if _is_interval(text) else result_kind_of(text)


def _is_interval(text: str) -> bool:
    return _INTERVAL.fullmatch(text.strip().lower()) is not None


def _split(text: str) -> list[str]:
    """Return the parts of a text between the commas outside of all brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "(<") - (character in ")>")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def parse_fields(ddl: str, kind_of: Callable[[str], str] = kind_of) -> tuple[Field, ...]:
    """Return the fields of a DDL text such as "n long, total decimal(10,2)"; a lone type is one field named `value`."""
    parts = _split(ddl)
    if not parts:
        raise InvalidValue('`partial` names no field. Write for example "n long, total double".')
    if len(parts) == 1 and (" " not in parts[0] or "<" in parts[0].partition(" ")[0]):
        return (Field("value", kind_of(parts[0])),)
    fields = []
    for part in parts:
        name, _, kind = part.partition(" ")
        if not kind:
            raise InvalidValue(f'`partial`: {excerpt(part)} needs a name and a type, for example "total double".')
        fields.append(Field(name.strip("`:"), kind_of(kind)))
    return tuple(fields)


def infer_fields(value: Any) -> tuple[Field, ...]:
    """Return the fields of a partial from the value of `init()`: one for a plain value, one per item of a tuple."""
    if isinstance(value, tuple) and value:
        return tuple(Field(f"f{i}", _infer(item)) for i, item in enumerate(value))
    return (Field("value", _infer(value)),)


def check_partial(value: Any) -> None:
    """Raise InvalidType, with the remedy, for a partial that is a collection other than a tuple."""
    if isinstance(value, list):
        instead = f"Use a tuple: {excerpt(tuple(value))}" if value else "For lists of values use `C.collect_list`"
    elif isinstance(value, dict):
        instead = "For counts by value use `C.histogram`, `C.mode` or `C.top_k`"
        if value:
            instead = f"Use a tuple, and names in `partial`: {excerpt(tuple(value.values()))}"
    elif isinstance(value, (set, frozenset)):
        instead = "For sets use `C.collect_set` or `C.count_distinct`"
    else:
        return
    raise InvalidType(
        f"the type of a partial cannot be inferred from `init()`, which returned {excerpt(value)}: a partial is a "
        f'plain value or a tuple of them. {instead}, or name its type: partial="n long".'
    )


def _infer(value: Any) -> str:
    for python_type, kind in _INFERRED:
        if isinstance(value, python_type):
            return kind
    raise InvalidType(
        f"the type of a partial cannot be inferred from `init()`, which returned {excerpt(value)}. "
        'Give it as DDL, for example partial="n long, total double".'
    )
