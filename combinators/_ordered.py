"""Tables of records in an order, cut to the first or the last n: what orders them, then the value they carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from combinators._common import CARRIED, NUMBERS, Array, constant, require, shown
from combinators._counted import lowered
from combinators._items import Items, in_arrow, mask_of, ranked
from combinators._tables import Joined, Layout, Tables, cells_of, lists
from slicing.aggregates.aggregate import Aggregate, Gathered
from slicing.aggregates.arrow import column_to_arrow
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.ordered_bytes import OF_NULL, encoded
from slicing.errors import InvalidValue, excerpt

ORDERING = ("boolean", *NUMBERS, "date", "timestamp", "timestamp_ntz")
"""The kinds of values that order the records of a table: each is a number or two."""

_CAST = "Choose or compute a column of one of these first."
_ORDER = "Order by one of these: cast it, or take a field of it."
_MOST = 1_000_000
_INT64 = np.iinfo(np.int64)
_NULL, _VALUE = 0, 1


@dataclass(frozen=True)
class Ordered:
    """What is kept of records: the first `n` by their `orders`, then by `value`; with `last`, the last `n`.

    orders: the kinds that order records, the first one first. With `down`, they descend.
    skips: records without the first of `orders` are left out. Otherwise one without an order is preferred least.
    nulls: records without a value are kept; null is the smallest value.
    """

    label: str
    name: str
    n: int
    orders: tuple[str, ...]
    value: str
    last: bool = False
    down: bool = False
    skips: bool = False
    nulls: bool = True

    @property
    def items(self) -> Items:
        """The value as numbers."""
        return Items(self.value, equal_zeros=False)

    def aggregate(self, gather: Callable[..., Array], null_inputs: bool) -> Aggregate:
        """Return the aggregate; `gather(joined, starts, *columns)` makes its partials. Raises InvalidType."""
        require(self.label, CARRIED, self.value, _CAST)
        for order in self.orders:
            require(self.label, ORDERING, order, _ORDER)
        items = self.items
        widths = [Items(order).width for order in self.orders]
        by = "" if self.orders == ("bigint",) and not self.nulls else f" by {', '.join(self.orders)}"
        nulls = " or null" if self.nulls else ""
        joined = Joined(
            Layout(sum(widths) + self.nulls + items.width, items.varied),
            f"{self.name} {self.n} {self.value}{nulls}{by}",
            reduced=partial(_latest if self.last else _earliest, self.n),
        )
        return Aggregate(
            constant(b""),
            Gathered(partial(gather, joined)),
            joined,
            lower=partial(lowered, joined.layout, None, Tables.totals, self.listed),
            partial="timed binary",
            returns=f"array<{self.value}>",
            columns=True,
            nulls=null_inputs,
            view="limbs",
            meanings=(joined.stored_as,),
            growth=joined.layout.growth("record", self.n),
        )

    def tables(self, starts: Array, value: Any, *orders: Any) -> Tables:
        """Return the rows of runs of records, not folded; run g has those from `starts[g]` up to the next start."""
        null, items = mask_of(value), self.items
        if items.varied:
            filler = "" if self.value == "string" else b"" if self.value == "binary" else OF_NULL
            ranks, texts = items.texts(np.where(null, filler, np.ma.getdata(value)))
            return self.rows(starts, null, (ranks,), texts, orders)
        return self.rows(starts, null, items.numbers(value), None, orders)

    def rows(
        self, starts: Array, null: Array, numbers: tuple[Array, ...], texts: pa.Array | None, orders: Sequence[Any]
    ) -> Tables:
        """Return the rows of records with these numbers as their values."""
        count = len(null)
        placed = [
            column for kind, order in zip(self.orders, orders, strict=True) for column in self._placed(kind, order)
        ]
        level = [np.where(null, _NULL, _VALUE)] if self.nulls else []
        values = (np.where(null, 0, column) for column in numbers) if texts is None else numbers
        left_out = mask_of(orders[0]) if self.skips else np.zeros(count, dtype=bool)
        kept = np.flatnonzero(~left_out if self.nulls else ~(left_out | null))
        return Tables(
            len(starts), cells_of(starts, count), (*placed, *level, *values), np.ones(count, np.int64), texts
        ).take(kept)

    def _placed(self, kind: str, order: Any) -> list[Array]:
        null = mask_of(order)
        last = _INT64.min if self.last else _INT64.max
        numbers = Items(kind, equal_zeros=False).numbers(order)
        return [np.where(null, last, ~column if self.down else column) for column in numbers]

    def listed(self, tables: Tables) -> Array:
        """Return the values of tables as arrays, in their order."""
        items = self.items
        values = items.values(tables.numbers[-items.width :], tables.texts)
        if isinstance(values, np.ndarray):
            null = tables.numbers[-items.width - 1] == _NULL if self.nulls else np.zeros(len(values), dtype=bool)
            values = column_to_arrow(shown(values, null), Field("value", self.value), self.label)
        repeated = values.take(pa.array(np.repeat(np.arange(len(values)), tables.counts)))
        return lists([repeated], np.concatenate([[0], np.cumsum(tables.totals())]))


def gathered(ordered: Ordered, joined: Joined, starts: Array, value: Any, *orders: Any) -> Array:
    """Return the partials of runs of values and what orders them, for `Gathered`."""
    return joined.written(ordered.tables(starts, value, *orders))


def beside(ordered: Ordered, kinds: tuple[str, ...], joined: Joined, starts: Array, *columns: Any) -> Array:
    """Return the partials of runs of records that carry their columns as a struct, ordered by the first."""
    names = [field.name for field in arrow_type(ordered.value)]
    arrays = [in_arrow(kind, column, ordered.label) for kind, column in zip(kinds, columns, strict=True)]
    ranks, texts = ranked(encoded(pa.StructArray.from_arrays(arrays, names)))
    null = np.zeros(len(ranks), dtype=bool)
    return joined.written(ordered.rows(starts, null, (ranks,), texts, columns[:1]))


def checked_count(name: str, n: int) -> int:
    """Return how many values are asked for if that is valid. Raises InvalidValue."""
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= _MOST:
        raise InvalidValue(f"`{name}` must be an integer from 1 to {_MOST:,}; got {excerpt(n)}.")
    return n


def _earliest(n: int, tables: Tables) -> Tables:
    return _cut(tables, np.minimum(tables.counts, n - (_running(tables) - tables.counts)))


def _latest(n: int, tables: Tables) -> Tables:
    after = tables.totals()[tables.cells] - _running(tables)
    return _cut(tables, np.minimum(tables.counts, n - after))


def _running(tables: Tables) -> Array:
    """Return the running number of values up to each row, within its table."""
    running = np.cumsum(tables.counts)
    before = np.concatenate([np.zeros(1, np.int64), running])[tables.starts()[:-1]]
    found: Array = running - before[tables.cells]
    return found


def _cut(tables: Tables, counts: Array) -> Tables:
    return replace(tables, counts=counts).take(np.flatnonzero(counts > 0))
