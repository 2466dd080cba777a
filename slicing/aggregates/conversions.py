"""Remedies for columns of types that cannot be used: expressions of Spark that make usable columns of them."""

from __future__ import annotations

from slicing.column_names import as_column

_NUMBERS = {
    "boolean": 'F.col({}).cast("int")',
    "string": 'F.col({}).cast("double")',
    "decimal": 'F.col({}).cast("double")',
    "binary": "F.length({})",
    "date": "F.unix_date({})",
    "timestamp": "F.unix_micros({})",
    "timestamp_ntz": 'F.unix_micros(F.col({}).cast("timestamp"))',
}
_PARTS = (
    ("array<", "Take it as text, `F.to_json({})`."),
    ("struct<", 'Take a field of it, `F.col({}).getField("name")`, or all of it as text, `F.to_json({})`.'),
    ("map<", 'Take a value of it, `F.col({}).getItem("key")`, or all of it as text, `F.to_json({})`.'),
    ("variant", 'Take a part of it, `F.variant_get({}, "$.name", "string")`, or all of it as text, `F.to_json({})`.'),
    ("string collate", 'Collated strings compare by rule: take plain text, `F.collate({}, "UTF8_BINARY")`.'),
    ("void", 'Say its type, `F.col({}).cast("string")`.'),
)
_SECONDS = (
    'Take its seconds, `F.col({}).cast("decimal(20,6)")`; `F.make_dt_interval(secs=...)` makes intervals of results.'
)
_ANY_LENGTH = (
    "Its length depends on where it begins: take the microseconds from a time on, "
    '`F.timestamp_diff("MICROSECOND", "ts", F.col("ts") + F.col({}))`.'
)


_TEXT = 'Take it as text, `F.col({}).cast("string")`.'


def as_number(kind: str, code: str = '"x"') -> str:
    """Return the remedy for a column of this type where a number is needed; `code` is its name or a Column, as code.

    >>> as_number("date", '"day"')
    'Take a number of it, by `withColumn`: `F.unix_date("day")`.'
    """
    if kind.startswith("interval"):
        return as_atomic(kind, code)
    remedy = _NUMBERS.get(kind.partition("(")[0])
    if remedy is None:
        return "Take a part of it that is a number, by `withColumn`."
    return f"Take a number of it, by `withColumn`: `{_of(code, remedy)}`."


def as_atomic(kind: str, code: str) -> str:
    """Return the remedy for a column of this type where an atomic type is needed; `kind` is Spark's `simpleString`.

    >>> as_atomic("interval day", '"gap"')
    'Take its days, `F.col("gap").cast("long")`.'
    """
    known = (text for start, text in _PARTS if kind.startswith(start))
    remedy = next(known, None) or (_interval(kind) if kind.startswith("interval") else _TEXT)
    return _of(code, remedy)


def _of(code: str, text: str) -> str:
    """The text of a remedy with the code of a column."""
    return text.replace("F.col({})", as_column(code)).replace("{}", code)


def _interval(kind: str) -> str:
    """The remedy for an interval: a cast makes a number of its smallest unit, without fractions unless asked for."""
    if kind == "interval":
        return _ANY_LENGTH
    unit = kind.split()[-1]
    return _SECONDS if unit == "second" else f'Take its {unit}s, `F.col({{}}).cast("long")`.'
