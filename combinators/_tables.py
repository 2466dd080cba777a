"""Partials that are tables: rows of numbers in one binary value, worked on for all keys and slices in one call.

A row is some int64 numbers and a count. The rows of a table are sorted and differ in their numbers, so that equal
tables are equal bytes. Two tables are joined by adding the counts of equal rows; rows of count zero leave. Adding and
subtracting counts is exact: what is made of counts alone can be inverted. The last number of a row may be a text.

A table of n rows is n times its numbers and its count, each 8 bytes, little endian; none is no bytes at all. With a
text it is n, rows with the length of the text in its place, then the texts, one after another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from combinators._common import Array
from combinators._items import Items, ranked
from slicing.aggregates.aggregate import Growth
from slicing.errors import RowFailure, TooLarge

_ROOM = 2
"""A partial may hold so many times the limit: while windows move on, one holds what comes and what is to leave."""


@dataclass(frozen=True)
class Tables:
    """The rows of `count` tables: `cells` says which table each is of. `texts` is what the last numbers rank in."""

    count: int
    cells: Array
    numbers: tuple[Array, ...]
    counts: Array
    texts: pa.Array | None = None

    def take(self, rows: Array) -> Tables:
        """Some of the rows."""
        numbers = tuple(column[rows] for column in self.numbers)
        return replace(self, cells=self.cells[rows], numbers=numbers, counts=self.counts[rows])

    def folded(self) -> Tables:
        """The rows of each table sorted, equal ones as one, none with a count of zero."""
        if not len(self.cells):
            return self
        order = _order(self.cells, self.count, self.numbers)
        tables = self.take(order)
        new = np.ones(len(order), dtype=bool)
        new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in (tables.cells, *tables.numbers)])
        heads = np.flatnonzero(new)
        counts = np.add.reduceat(tables.counts, heads)
        kept = counts != 0
        return replace(tables.take(heads[kept]), counts=counts[kept])

    def starts(self) -> Array:
        """The first row of each table, and the number of all rows; for sorted rows."""
        return np.searchsorted(self.cells, np.arange(self.count + 1))

    def sizes(self) -> Array:
        """The rows of each table."""
        return np.bincount(self.cells, minlength=self.count)

    def totals(self) -> Array:
        """The sum of the counts of each table."""
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)])
        starts = self.starts()
        total: Array = running[starts[1:]] - running[starts[:-1]]
        return total


@dataclass(frozen=True)
class Layout:
    """How the rows of a table are written: `width` numbers and a count, the last number a text if `varied`."""

    width: int
    varied: bool = False

    def growth(self, thing: str, most: int | None) -> Growth:
        """What a table takes: a row for each `thing`."""
        return Growth(8 * (self.width + 1), thing, most, self.varied)

    def read(self, partials: Array) -> Tables:
        """The tables of some partials, in their order."""
        items = partials.ravel().tolist()
        row = 8 * (self.width + 1)
        if self.varied:
            return self._read_varied(items, row)
        sizes = np.fromiter(map(len, items), np.int64, len(items)) // row
        return self._tables(len(items), sizes, _matrix(items, self.width + 1))

    def joined(self, a: Array, b: Array, sign: int) -> Tables:
        """The rows of both tables of each pair, not yet folded; the counts of `b` times `sign`."""
        both, count = self.read(np.concatenate([a.ravel(), b.ravel()])), a.size
        second = both.cells >= count
        counts = np.where(second, sign * both.counts, both.counts)
        return replace(both, count=count, cells=np.where(second, both.cells - count, both.cells), counts=counts)

    def write(self, tables: Tables) -> Array:
        """Partials of tables whose rows are sorted."""
        starts = tables.starts()
        if tables.texts is not None:
            return self._write_varied(tables, tables.texts, starts)
        data = np.column_stack([*tables.numbers, tables.counts]).astype("<i8", copy=False).tobytes()
        return _cut(data, starts * (8 * (self.width + 1)))

    def _tables(self, count: int, sizes: Array, matrix: Array, texts: pa.Array | None = None) -> Tables:
        columns = [np.ascontiguousarray(column) for column in matrix.T]
        return Tables(count, np.repeat(np.arange(count), sizes), tuple(columns[:-1]), columns[-1], texts)

    def _read_varied(self, items: list[bytes], row: int) -> Tables:
        heads = [item[:8] or bytes(8) for item in items]
        sizes = np.frombuffer(b"".join(heads), "<i8").astype(np.int64)
        ends = (8 + sizes * row).tolist()
        matrix = _matrix([item[8:end] for item, end in zip(items, ends, strict=True)], self.width + 1)
        data = b"".join([item[end:] for item, end in zip(items, ends, strict=True)])
        tables = self._tables(len(items), sizes, matrix)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(tables.numbers[-1])])
        buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)]
        ranks, texts = ranked(pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers))
        return replace(tables, numbers=(*tables.numbers[:-1], ranks), texts=texts)

    def _write_varied(self, tables: Tables, texts: pa.Array, starts: Array) -> Array:
        taken = texts.take(pa.array(tables.numbers[-1]))
        offsets = np.frombuffer(taken.buffers()[1], np.int64, len(taken) + 1, 8 * taken.offset)
        data = taken.buffers()[2].to_pybytes() if taken.buffers()[2] is not None else b""
        matrix = np.column_stack([*tables.numbers[:-1], np.diff(offsets), tables.counts]).astype("<i8", copy=False)
        heads = _cut(matrix.tobytes(), starts * (8 * (self.width + 1))).tolist()
        tails = _cut(data, offsets[starts]).tolist()
        sizes = np.diff(starts).tolist()
        parts = zip(sizes, heads, tails, strict=True)
        return _objects([size.to_bytes(8, "little") + head + tail if size else b"" for size, head, tail in parts])


@dataclass(frozen=True)
class Limit:
    """How many there may be of `what` in a window, None for any number; `label` is the combinator."""

    label: str
    what: str
    most: int | None

    def check(self, found: Array, room: int = 1) -> None:
        """Raise a RowFailure for the first table that has more, of `room` windows together."""
        if self.most is None or not len(found) or (most := int(found.max())) <= room * self.most:
            return
        at = int(np.argmax(found > room * self.most))
        rule = f"`{self.label}` keeps {self.what} of a window, of which there may be {self.most:,} (`limit`);"
        remedy = "Give a higher `limit`, which a running query may change, or shorter windows."
        raise RowFailure(TooLarge, rule, f"got {int(found[at]):,}, the most are {most:,}", remedy, at)


Measure = Callable[[Tables], Array]


@dataclass(frozen=True)
class Joined:
    """`combine` of tables, and with `sign=-1` their `invert`: counts are added, or those of the second taken away.

    `reduced` makes less of what a partial is to hold. `limit` bounds what `measure` finds in a partial. `stored_as` is
    what the state depends on.
    """

    layout: Layout
    stored_as: str
    sign: int = 1
    reduced: Callable[[Tables], Tables] | None = None
    limit: Limit | None = field(default=None, compare=False)
    measure: Measure = Tables.sizes

    def __call__(self, a: Array, b: Array) -> Array:
        tables = self.layout.joined(a, b, self.sign)
        return self.written(tables).reshape(a.shape)

    @property
    def meaning(self) -> str:
        """What tables are of, for sharing them: a table that is held to another limit is another."""
        return f"{self.stored_as} up to {self.limit.most if self.limit else None}"

    @property
    def inverse(self) -> Joined:
        """`invert` of what this combines."""
        return replace(self, sign=-1, stored_as=f"{self.stored_as} inverted")

    def written(self, tables: Tables) -> Array:
        """Partials of rows in any order."""
        tables = tables.folded()
        if self.reduced is not None:
            tables = self.reduced(tables)
        if self.limit is not None:
            self.limit.check(self.measure(tables), _ROOM)
        return self.layout.write(tables)


def parted(joined: Joined, items: Items, starts: Array, value: Any, *before: Array) -> Array:
    """The partials of runs of values, for `Gathered`, of the rows of `tabled`."""
    return joined.written(tabled(items, starts, value, *before))


def tabled(items: Items, starts: Array, value: Any, *before: Array) -> Tables:
    """Tables of runs of values: rows of `before` and the value, each counted once, not yet folded.

    Run g are the values from `starts[g]` up to the next start.
    """
    numbers, texts = _numbered(items, value)
    count = len(numbers[0])
    cells = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, count)))
    return Tables(len(starts), cells, (*before, *numbers), np.ones(count, np.int64), texts)


def _numbered(items: Items, value: Any) -> tuple[tuple[Array, ...], pa.Array | None]:
    if not items.varied:
        return items.numbers(value), None
    ranks, texts = items.texts(value)
    return (ranks,), texts


def _order(cells: Array, count: int, numbers: tuple[Array, ...]) -> Array:
    """The order of rows by cell, then by numbers; among equal rows any."""
    first, rest = numbers[0], numbers[1:]
    least, most = int(first.min()), int(first.max())
    span = most - least + 1
    if span * count < 1 << 62:
        # Both in one number: a sort of one column that need not be stable takes a tenth of the time.
        together = cells * span + (first - least)
        return np.lexsort((*rest[::-1], together)) if rest else np.argsort(together, kind=_kind(together))
    order = np.lexsort(numbers[::-1]) if rest else np.argsort(first)
    # Of narrow integers numpy makes a radix sort.
    return order[np.argsort(cells[order].astype(np.min_scalar_type(count)), kind="stable")]


def _kind(numbers: Array) -> Literal["stable", "quicksort"]:
    """The sort to take: where there are runs, as of tables that are sorted each, merging them takes half the time."""
    runs = np.count_nonzero(numbers[1:] < numbers[:-1])
    return "stable" if runs * 64 < len(numbers) else "quicksort"


def lists(columns: list[Any], starts: Array) -> Array:
    """An object array of the parts of a column that begin at `starts`, of several columns tuples of their parts."""
    parts = [np.split(column, starts[1:-1]) if len(starts) > 1 else [] for column in columns]
    return _objects(list(zip(*parts, strict=True)) if len(parts) > 1 else parts[0])


def _matrix(items: list[bytes], width: int) -> Array:
    matrix: Array = np.frombuffer(b"".join(items), "<i8").astype(np.int64, copy=False).reshape(-1, width)
    return matrix


def _cut(data: bytes, ends: Array) -> Array:
    places = ends.tolist()
    return _objects([data[start:end] for start, end in pairwise(places)])


def _objects(items: list[Any]) -> Array:
    array = np.empty(len(items), object)
    for at, item in enumerate(items):
        array[at] = item
    return array
