"""Say in words what a header stores of results: their kind and their columns; it does not store their names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slicing.state.format.column_texts import renumbered
from slicing.state.format.header import Result

_LIBRARY = "combinators."
_KINDS = {
    "sum": "sum or mean",
    "moments": "variance, stddev, skewness or kurtosis",
    "outcomes": "bool_and or bool_or",
    "pair": "corr, covar or regr",
    "max_by": "max_by or last",
    "min_by": "min_by or first",
}
"""Aggregates with the same partials, by the versions of the catalogue."""
_LABEL = re.compile(r"(\w+)\((.*?)\)( where .*)?")


def label_text(label: str) -> str:
    """Return the label of a result in words.

    >>> label_text("mean(bid)"), label_text("sum((a * 2)) where (b > 1)"), label_text("count(*)")
    ('mean of bid', 'sum of (a * 2) where (b > 1)', 'count of records')
    """
    found = _LABEL.fullmatch(label)
    if found is None:
        return label
    columns = "records" if found[2] in ("", "*") else found[2]
    return f"{found[1]} of {columns}{found[3] or ''}"


def result_text(result: Result) -> str:
    """Return a stored result in words: its kind, its columns, its condition, and the version of an own aggregate."""
    columns = ["event time" if each is None else each for each in texts(result.columns)]
    condition = f" where {columns.pop()}" if result.filtered else ""
    ours = result.version.startswith(_LIBRARY)
    kind = result.version.removeprefix(_LIBRARY)
    version = f" of version {result.version}" if result.version and not ours else ""
    named = _KINDS.get(kind, kind) if ours else "aggregate"
    return f"{named} of {', '.join(columns) or 'records'}{condition}{version}"


def texts(columns: Sequence[str | None]) -> list[str | None]:
    """Return the texts of columns with lambda variables renumbered, so that they do not depend on a process."""
    return [None if column is None else renumbered(column) for column in columns]
