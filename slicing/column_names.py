"""Columns as text: names as Spark's SQL writes them, in backquotes where needed, and the code of Columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

_PART = r"`(?:[^`]|``)+`|[^`.]+"
_PATH = re.compile(rf"(?:{_PART})(?:\.(?:{_PART}))*")


def in_backquotes(name: str) -> str:
    """Return a name as Spark's SQL takes it, whatever its characters."""
    return "`" + name.replace("`", "``") + "`"


def parts_of(path: str) -> list[str]:
    """Return the names in a path, without backquotes; a text that is no path is a single name.

    >>> parts_of("address.`zip.code`"), parts_of("`a``b`"), parts_of("a`b")
    (['address', 'zip.code'], ['a`b'], ['a`b'])
    """
    if not _PATH.fullmatch(path):
        return [path]
    return [part[1:-1].replace("``", "`") if part[0] == "`" else part for part in re.findall(_PART, path)]


def unquoted(name: str) -> str:
    """Return a single name without its backquotes; a path is returned unchanged.

    >>> unquoted("`user.id`"), unquoted("user.id")
    ('user.id', 'user.id')
    """
    parts = parts_of(name)
    return parts[0] if len(parts) == 1 else name


def path_of(parts: list[str]) -> str:
    """Return the path of these names, with backquotes only where they are needed."""
    return ".".join(in_backquotes(part) if "." in part or "`" in part else part for part in parts)


def in_code(name: str) -> str:
    """Return the column with this name as Python code, for the functions of Spark.

    >>> print(in_code("day"), in_code("user.day"))
    "day" "`user.day`"
    """
    return json.dumps(path_of([name]), ensure_ascii=False)


def as_column(code: str) -> str:
    """Return the code of a Column; `code` is that of a name or of a Column.

    >>> print(as_column('"day"'), as_column('F.expr("day + 1")'))
    F.col("day") F.expr("day + 1")
    """
    return code if code.startswith("F.") else f"F.col({code})"


def is_column(value: Any) -> bool:
    """Return whether a value is a Spark Column; pyspark need not be installed."""
    return not isinstance(value, (str, type)) and hasattr(value, "isNotNull") and hasattr(value, "alias")


def columns_in(value: Any) -> tuple[Any, ...]:
    """Return the items of an argument that takes one column or several; what is neither is an item, to be refused."""
    several = isinstance(value, Iterable) and not isinstance(value, str) and not is_column(value)
    return tuple(value) if several else (value,)


def is_window(value: Any) -> bool:
    """Return whether a value is the result of Spark's `window` or `session_window`."""
    return is_column(value) and text_of(value).startswith(("window(", "session_window("))


def text_of(column: Any) -> str:
    """Return a Column's text as Spark prints it; a name is returned unchanged."""
    return column if isinstance(column, str) else str(column).removeprefix("Column<'").removesuffix("'>")


def written(value: Any) -> str:
    """Return the text of a call that makes an argument: Columns by their text, functions by name, frames as `df`."""
    if hasattr(type(value), "sparkSession"):
        return "df"
    if is_column(value):
        return f"F.expr({text_of(value)!r})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(written, value))}]"
    return getattr(value, "__name__", "function") if callable(value) else repr(value)
