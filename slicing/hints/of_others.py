"""Remedies for users of Spark or pandas who pass another kind of value, or call another method."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slicing.column_names import is_column, is_window, text_of
from slicing.errors import excerpt, shortened
from slicing.options import METHODS

_CALL = re.compile(r"(\w+)\((\w*)\)")
_WINDOW = re.compile(r"(window|session_window)\((.*?), ('.*)\)")
_TEXT = re.compile("'([^']*)'")
_BY_NAME = 'Results have names and are combinators: `aggregate(orders=C.count(), spent=C.sum("amount"))`'


def sparks_window(given: Sequence[Any]) -> str:
    """Return the arguments of `.window` that were meant by those of Spark's `window`, or by its Column; "" for others.

    The time may be in any place among the durations.

    >>> sparks_window(["ts", "1 hour", "1 minute"])
    "hopping('1 hour', advance='1 minute'), time='ts'"
    """
    call = _WINDOW.match(text_of(given[0])) if len(given) == 1 and is_window(given[0]) else None
    if call:
        given = [call[2], *_TEXT.findall(call[3])]
        if call[1] == "session_window":
            return f"session({', '.join(map(repr, given[1:]))}), time={given[0]!r}"
    if not (1 < len(given) < 5 and all(isinstance(each, str) for each in given)):
        return ""
    time, size, *more = sorted(given, key=_is_duration)
    shift = "" if not more[1:] or more[1].startswith("0 ") else f", offset={more[1]!r}"
    if more and more[0] != size:
        return f"hopping({size!r}, advance={more[0]!r}{shift}), time={time!r}"
    return f"tumbling({size!r}{shift}), time={time!r}"


def of_length(value: Any) -> str:
    """Return the remedy for a length in place of a window; "" for other values.

    >>> of_length("1 hour"), of_length("ts")
    ("Write `tumbling('1 hour')` for windows that follow each other.", '')
    """
    is_length = isinstance(value, str) and _is_duration(value)
    return f"Write `tumbling({shortened(repr(value))})` for windows that follow each other." if is_length else ""


def _is_duration(text: str) -> bool:
    return bool(re.match(r"\s*(interval\s)?\s*[-+.]?\d", text, re.IGNORECASE))


def remedy(value: Any) -> str:
    """Return the remedy for `value`, which is not a result."""
    if isinstance(value, str):
        return f"{_BY_NAME}. Here: `{value}=C.{value}()`." if value == "count" else f"{_BY_NAME}."
    if isinstance(value, Mapping):
        calls = [f'{name}_{column}=C.{name}("{column}")' for column, name in value.items() if isinstance(name, str)]
        return f"Write `aggregate({', '.join(calls)})`." if calls else f"Write `aggregate(**results)`. {_BY_NAME}."
    if isinstance(value, (list, tuple)):
        return f"{_BY_NAME}; of a dict, `aggregate(**results)`."
    if is_column(value):
        call = _CALL.fullmatch(text_of(value))
        column = f'"{call[2]}"' if call and call[2] not in ("", "1") else ""
        return (
            f"That is Spark's own function. Combinators have its names: `C.{call[1]}({column})`." if call else _SPARKS
        )
    if callable(value) and str(getattr(value, "__module__", "")).partition(".")[0] == "pyspark":
        return f"`F.{value.__name__}` is Spark's own function. Combinators have its names: `C.{value.__name__}(...)`."
    if callable(value) and str(getattr(value, "__module__", "")).partition(".")[0] == "combinators":
        return f"Call it: `C.{value.__name__}(...)`, with the names of its columns."
    return "The functions of one aggregate are passed by position or as init=, agg=, combine=, invert=."


_SPARKS = (
    "Columns of Spark are what results are of, not results: for example "
    '`C.sum(F.col("amount") * 2)`. What is computed from results comes after `aggregate`, by `withColumn`.'
)


def refusal(what: str, value: Any) -> str:
    """Return the error message for a `value` that cannot be the result named `what`, with the remedy."""
    return f"{what} must be a combinator or an `Aggregate(...).on(column)`; got {excerpt(value)}. {remedy(value)}"


_OF_FRAMES = {
    "rowsBetween": 'The last 5 records of a key, after each: `.window(counting(5, advance=1), time="ts")`. '
    'Of bounded input, `counting(5, advance=1, order_by="seq")`.',
    "rangeBetween": 'The last hour, at each record: `.window(sliding("1 hour", right=False), time="ts")`.',
    "partitionBy": "Keys come first: `group_by(df, *keys).window(...)`.",
    "orderBy": 'Windows by time need no order; count windows of bounded input have it: `counting(5, order_by="seq")`.',
}
OF_WINDOWED = _OF_FRAMES | {
    "agg": 'It is `aggregate`, with results by name: `.aggregate(spent=C.sum("amount"))`.',
    "apply": "Functions of your own are an aggregate: `.aggregate(init, agg, combine)`.",
    "group_by": "Grouping comes first: `group_by(df, *keys).window(...)`.",
    "groupBy": "Grouping comes first: `group_by(df, *keys).window(...)`.",
    "groupby": "Grouping comes first: `group_by(df, *keys).window(...)`.",
    "pivot": "Pivot what comes out, by `groupBy(...).pivot(...)` on a bounded DataFrame, or use `where=` of results.",
    "trigger": "That is of `writeStream`, when the query is started; `.emit(...)` says when windows fire.",
    "allowed_lateness": 'It is `.grace("1 hour").emit(on_close(corrections=True))`. `.grace` alone fires later.',
    "side_output_late_data": 'It is `.late("records")`, before the results.',
    "rolling": 'It is a kind of windows: `.window(hopping("1 hour", advance="1 minute"), time="ts")`.',
    "reduce": 'It is a result: `.aggregate(total=C.reduce(lambda a, b: a + b, "amount"))`.',
    "evictor": "It is `.evict(keep_last(10))`, before `process`.",
    "where": 'Records are chosen before, `group_by(df.where(...))`, or by result, `C.count(where="paid")`.',
    "filter": 'Records are chosen before, `group_by(df.where(...))`, or by result, `C.count(where="paid")`.',
    "withWatermark": 'The watermark comes first: `group_by(df.withWatermark("ts", "10 minutes"))`.',
    "writeStream": "There are no results yet: `.aggregate(orders=C.count())` makes the DataFrame.",
}
OF_WINDOWED |= dict.fromkeys(
    ("count", "sum", "avg", "mean", "min", "max"),
    'Results have names: `.aggregate(orders=C.count(), spent=C.sum("amount"))`.',
)
OF_WINDOWED |= dict.fromkeys(
    ("lookup", "lookup_partials", "why", "changes", "warm", "partials", "from_partials", "serve", "at", "declare"),
    "Definitions have it: write `.define(...)` in place of `.aggregate(...)`.",
)
OF_GROUPED = dict.fromkeys(
    ("agg", "aggregate", "count", "sum", "avg", "mean", "min", "max", "apply", "explain", *METHODS),
    'Windows come first: `.window(tumbling("1 hour"), time="ts").aggregate(orders=C.count())`.',
)
OF_GROUPED |= dict.fromkeys(
    ("groupBy", "groupby", "group_by"), "It has its keys: `group_by(df, *keys)`; `.window(...)` is next."
)
OF_GROUPED |= _OF_FRAMES | {
    name: f'Windows are values: `from slicing import {name}`, then `.window({name}(...), time="ts")`.'
    for name in ("hopping", "tumbling", "cumulating", "session", "sliding", "counting", "unbounded")
}
OF_DEFINED = dict.fromkeys(METHODS, "Options come before the results: `.window(...).emit(on_update()).define(...)`.")
OF_DEFINED |= dict.fromkeys(
    ("writeStream", "write", "show", "collect", "schema", "columns", "select", "where", "filter", "withColumn"),
    "It is no DataFrame yet: `.dataframe()` makes one, and so does `df.transform(definition)`.",
)
OF_DEFINED |= {
    "aggregate": "Its results are said: `.dataframe()` makes the DataFrame.",
    "transform": "It is the other way round: `df.transform(definition)`.",
}
"""Methods that do not exist here, by their names in other libraries, each with its replacement."""
