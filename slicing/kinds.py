"""The atomic types of partials, values, keys and results: Spark's names for them, and their Arrow and numpy forms.

A kind is Spark's `simpleString` of an atomic type ("bigint", "decimal(10,2)"), so that a plan is readable and nothing
here needs pyspark.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

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

INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")


@dataclass(frozen=True)
class Field:
    """A named column of a partial, of a result or of a key."""

    name: str
    kind: str

    def __str__(self) -> str:
        return f"{self.name} {self.kind}"


def kind_of(text: str) -> str:
    """The kind that a type's name means: "long" is "bigint". Raises InvalidValue for what is not atomic."""
    word = text.strip().lower()
    word = _ALIASES.get(word, word)
    if word == "decimal":
        return "decimal(10,0)"
    if word in _ARROW:
        return word
    if decimal_of(word):
        return word.replace(" ", "")
    raise InvalidValue(f"`{text}` is not an atomic type. Use one of {', '.join(_ARROW)} or decimal(p,s).")


def decimal_of(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal kind, None for the others."""
    match = _DECIMAL.fullmatch(kind)
    return (int(match[1]), int(match[2])) if match else None


def is_exact(kind: str) -> bool:
    """Whether subtraction undoes addition exactly: true for everything but floats."""
    return kind not in FLOATS


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a kind."""
    decimal = decimal_of(kind)
    return pa.decimal128(*decimal) if decimal else _ARROW[kind]


def numpy_type(kind: str) -> np.dtype[Any]:
    """The numpy type in which a function with `columns=True` sees a kind; objects where numpy has none."""
    return np.dtype(_NUMPY.get(kind, np.object_))


def parse_fields(ddl: str) -> tuple[Field, ...]:
    """Fields of a DDL text such as "n long, total decimal(10,2)"; a lone type is one field named `value`."""
    parts = [part.strip() for part in re.split(r",(?![^(]*\))", ddl) if part.strip()]
    if not parts:
        raise InvalidValue('`partial` names no field. Write for example "n long, total double".')
    if len(parts) == 1 and " " not in parts[0]:
        return (Field("value", kind_of(parts[0])),)
    fields = []
    for part in parts:
        name, _, kind = part.partition(" ")
        if not kind:
            raise InvalidValue(f'`partial`: {excerpt(part)} needs a name and a type, for example "total double".')
        fields.append(Field(name.strip("`:"), kind_of(kind)))
    return tuple(fields)


def infer_fields(value: Any) -> tuple[Field, ...]:
    """Fields of a partial from the value of `init()`: one for a plain value, one per item of a tuple."""
    if isinstance(value, tuple) and value:
        return tuple(Field(f"f{i}", _infer(item)) for i, item in enumerate(value))
    return (Field("value", _infer(value)),)


def _infer(value: Any) -> str:
    for python_type, kind in _INFERRED:
        if isinstance(value, python_type):
            return kind
    raise InvalidType(
        f"the type of a partial cannot be inferred from `init()`, which returned {excerpt(value)}. "
        'Give it as DDL, for example partial="n long, total double".'
    )
