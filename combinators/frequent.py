"""Frequent values, and the number of values between given edges.

Approximate counts are those of J. Misra, D. Gries, "Finding repeated elements" (1982), merged as in P. K. Agarwal,
G. Cormode, Z. Huang, J. Phillips, Z. Wei, K. Yi, "Mergeable summaries" (2012).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from combinators._common import AS_NUMBER, ATOMIC, NUMBERS, Array, constant, require, shown
from combinators._counted import checked_limit, counted
from combinators._items import Items, as_doubles
from combinators._packed import counters, tallied, unpacked
from combinators._runs import counts_of_runs
from combinators._tables import Layout, Limit, Tables, by_parts, lists, tabled
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Gathered, Input
from slicing.errors import InvalidValue, excerpt

_ATOMIC = "Choose or compute an atomic column first."
_MOST_EDGES = 10_000
_MOST_VALUES = 1_000_000
_TOLD = 31
"""Counts up to this one are told apart without a sort."""


def mode(column: Input, *, limit: int | None = None, where: Condition = None) -> Bound:
    """The most frequent value of `column`; ties: the smallest value.

    No value gives null. The result has the column's kind. Exact; the partial is a table of the values and their counts:
    16 bytes per different value of a slice, more for decimals and text; invertible: 2 combines a window. More different
    values in a window than `limit` raise TooLarge; streams whose windows overlap need a `limit`. Raises InvalidType for
    a column that is not atomic. Reference: Spark's `mode(column, deterministic=True)`.

    >>> mode("x").resolve(("string",)).returns
    'string'
    """
    label = f"mode({column})"
    limits = Limit(label, "every value", checked_limit(limit))
    return counted(label, column, limits, ATOMIC, _ATOMIC, _most_frequent, "{kind}").where(where)


def top_k(
    column: Input,
    k: int,
    *,
    exact: bool = True,
    limit: int | None = None,
    error: float = 0.001,
    where: Condition = None,
) -> Bound:
    """The `k` most frequent values of `column`, the most frequent first; ties: the smaller value first.

    No value gives an empty array, never null. With `exact=True`, returns array<struct<value, count>>, with the cost and
    the `limit` of `mode`. With `exact=False`, returns array<struct<value, count, error>>: the value occurred at least
    `count` times and at most `count + error` times, and `error` is at most the share `error` of all values. A partial
    then has at most 1 / `error` values of 16 bytes each, more for decimals and text; not invertible: 4 combines a
    window on average, 2 sqrt(n) at worst. Raises InvalidType for a column that is not atomic, InvalidValue for other
    arguments out of range. Reference: Python's `collections.Counter.most_common`.

    >>> top_k("x", 3).resolve(("int",)).returns
    'array<struct<value:int,count:bigint>>'
    """
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= _MOST_VALUES:
        raise InvalidValue(f"`k` must be an integer from 1 to {_MOST_VALUES:,}; got {excerpt(k)}.")
    label = f"top_k({column}, {k})"
    if exact:
        limits = Limit(label, "every value", checked_limit(limit))
        returns = "array<struct<value:{kind},count:bigint>>"
        return counted(label, column, limits, ATOMIC, _ATOMIC, partial(_first, k), returns).where(where)
    if limit is not None:
        raise InvalidValue("`limit` is for `exact=True`; a partial of `exact=False` has at most 1 / `error` values.")
    return Bound(partial(_near, label, k, _kept(k, error)), (column,), label).where(where)


def histogram(column: Input, edges: Sequence[float], *, where: Condition = None) -> Bound:
    """The number of values of `column` between neighbouring `edges`: in [a, b), and in [a, b] for the last pair.

    Values outside and NaN are left out; no value gives zeros, never null. Returns array<bigint>, one shorter than
    `edges`. Values are compared as doubles. Exact; a partial has 8 bytes per count; invertible: 2 combines a window.
    Raises InvalidType for a column that is not numeric, InvalidValue for edges that do not ascend. Reference:
    `numpy.histogram`.

    >>> histogram("x", [0, 10, 100]).resolve(("double",)).partial
    'counts binary(16)'
    """
    known = isinstance(edges, Sequence) and not isinstance(edges, str)
    found = list(edges) if known else []
    if not (known and 2 <= len(found) <= _MOST_EDGES and all(map(_is_number, found)) and _ascend(found)):
        raise InvalidValue(
            f"`edges` must be 2 to {_MOST_EDGES:,} ascending numbers, infinities included; got {excerpt(edges)}."
        )
    label = f"histogram({column})"
    return Bound(partial(_between, label, tuple(map(float, found))), (column,), label).where(where)


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and not math.isnan(x)


def _ascend(edges: list[float]) -> bool:
    return bool(np.all(np.diff(np.array(edges, np.float64)) > 0))


# Exactly


def _by_count(tables: Tables) -> tuple[Array, Array]:
    """Return the rows by count, descending, then by value; and the position of each row within its table.

    The rows of tables are sorted by value, so their positions decide between equal counts.
    """
    if not len(tables.cells):
        return tables.cells, tables.cells
    first = tables.starts()[tables.cells]
    place = np.arange(len(first)) - first
    most, width = int(tables.counts.max()), int(place.max()) + 1
    span = most - int(tables.counts.min()) + 1
    if tables.count * span * width >= 1 << 62:
        return np.lexsort((-tables.counts, tables.cells)), place
    # All in one number: its sort need not be stable, nor keep track of rows, and takes a tenth of the time.
    packed = np.sort((tables.cells * span + (most - tables.counts)) * width + place)
    return first + packed % width, place


def _frequent(k: int, tables: Tables) -> Tables:
    """Return the rows of large tables that may be among the first `k` by count, so that fewer are sorted."""
    if len(tables.cells) <= tables.count * (_TOLD + 1):
        return tables
    told = np.minimum(tables.counts, _TOLD)
    rows = np.bincount(tables.cells * (_TOLD + 1) + told, minlength=tables.count * (_TOLD + 1))
    at_least = np.cumsum(rows.reshape(tables.count, -1)[:, ::-1], axis=1) >= k
    least = _TOLD - np.argmax(at_least, axis=1)
    least[~at_least[:, -1]] = 0
    return tables.take(np.flatnonzero(told >= least[tables.cells]))


def _most_frequent(items: Items, tables: Tables) -> Array:
    is_empty = tables.sizes() == 0
    tables = _frequent(1, tables)
    order, place = _by_count(tables)
    heads = tables.take(order[place == 0])
    values = items.values(heads.numbers, heads.texts)
    found = np.zeros(tables.count, values.dtype)
    found[heads.cells] = values
    return shown(found, is_empty)


def _first(k: int, items: Items, tables: Tables) -> Array:
    tables = _frequent(k, tables)
    order, place = _by_count(tables)
    top = tables.take(order[place < k])
    return lists([items.values(top.numbers, top.texts), top.counts], top.starts())


# Nearly


def _kept(k: int, error: float) -> int:
    known = isinstance(error, (int, float)) and not isinstance(error, bool)
    if not (known and 1 / _MOST_VALUES <= error < 1):
        raise InvalidValue(f"`error` must be a share of all values from 0.000001 up to 1; got {excerpt(error)}.")
    kept = math.ceil(1 / error)
    if k > kept:
        raise InvalidValue(
            f"`k` must be at most 1 / `error`, so many values are kept; got k={k} and 1 / {error} = {kept}."
        )
    return kept


def _near(label: str, k: int, kept: int, kind: str) -> Aggregate:
    require(label, ATOMIC, kind, _ATOMIC)
    items = Items(kind)
    joined = Summaries(Layout(items.width, items.varied), kept, f"summaries of {kept} {kind}")
    return Aggregate(
        constant((b"", 0)),
        Gathered(partial(_summarised, joined, items)),
        joined,
        lower=partial(_nearest, k, items, joined.layout),
        partial="counted binary, error bigint",
        returns=f"array<struct<value:{kind},count:bigint,error:bigint>>",
        columns=True,
        view="limbs",
        approximate=True,
        meanings=(joined.stored_as, f"{joined.stored_as} error"),
        growth=joined.layout.growth("different value", kept),
        partials_of_runs=joined.of_runs,
    )


@dataclass(frozen=True)
class Summaries:
    """`combine` of tables of at most `kept` values each, and of the errors: how far any count may be too small."""

    layout: Layout
    kept: int
    stored_as: str

    def __call__(self, a: Any, b: Any) -> Any:
        tables = self.layout.joined(a[0], b[0], 1).folded()
        partials, error = self.reduced(tables)
        return partials.reshape(a[0].shape), a[1] + b[1] + error.reshape(a[0].shape)

    def of_runs(self, partials: Array, errors: Array, low: Array, high: Array) -> tuple[Array, Array] | None:
        """Return `Aggregate.partials_of_runs`: of exact counts, and if no run has more values than are kept."""
        found = None if errors.any() else counts_of_runs(self.layout, partials, low, high, self.kept)
        return None if found is None else (found, np.zeros(len(found), np.int64))

    def reduced(self, tables: Tables) -> tuple[Array, Array]:
        """Return tables of their most frequent values, with the first omitted count subtracted, and that count."""
        less = np.zeros(tables.count, np.int64)
        if (tables.sizes() > self.kept).any():
            order, place = _by_count(tables)
            first_out = order[place == self.kept]
            less[tables.cells[first_out]] = tables.counts[first_out]
            counts = tables.counts - less[tables.cells]
            tables = replace(tables, counts=counts).take(np.flatnonzero(counts > 0))
        return self.layout.write(tables), less


def _summarised(joined: Summaries, items: Items, starts: Array, value: Any) -> tuple[Array, Array]:
    return joined.reduced(tabled(items, starts, value).folded())


def _nearest(k: int, items: Items, layout: Layout, acc: Any) -> Array:
    def of_some(partials: Array, error: Array) -> Array:
        tables = _frequent(k, layout.read(partials))
        order, place = _by_count(tables)
        top = tables.take(order[place < k])
        return lists([items.values(top.numbers, top.texts), top.counts, error[top.cells]], top.starts())

    found: Array = by_parts(of_some, *acc)
    return found


# Between edges


def _between(label: str, edges: tuple[float, ...], kind: str) -> Aggregate:
    require(label, NUMBERS, kind, AS_NUMBER)
    return counters(len(edges) - 1, f"histogram {edges}", partial(_placed, edges, kind), _rows, "array<bigint>")


def _placed(edges: tuple[float, ...], kind: str, starts: Array, value: Any) -> Array:
    values = as_doubles(kind, value)
    places = np.searchsorted(edges, values, side="right") - 1
    places[values == edges[-1]] = len(edges) - 2
    return tallied(starts, np.where(np.isnan(values), -1, places), len(edges) - 1)


def _rows(partials: Array) -> Array:
    counts = unpacked(partials.ravel(), np.int64)
    found = np.empty(len(counts), object)
    for at, row in enumerate(counts):
        found[at] = row
    return found.reshape(partials.shape)
