"""Partials that are tables: rows of numbers in one binary value, processed for many keys and slices in one call.

A row is some int64 numbers and a count. The rows of a table are sorted and have different numbers, so equal tables have
equal bytes. Two tables are combined by adding the counts of equal rows; rows with count zero are removed. Counts add
and subtract exactly, so an aggregate of counts alone is invertible. The last number of a row may stand for a text.

A table of n rows is stored as n times its numbers and its count, 8 bytes each, little endian; an empty table has no
bytes. A table with texts is stored as n, the rows with the length of the text in its place, then all texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from combinators._common import Array, shown
from combinators._items import Items, ranked
from slicing.aggregates.aggregate import Growth
from slicing.aggregates.sorting import argsorted
from slicing.errors import RowFailure, TooLarge

_AT_ONCE = 1 << 22
"""Bytes of partials that are lowered at once."""
ROOM = 2
"""A partial may hold up to this many times the limit: a moving window holds new records and records about to leave."""


@dataclass(frozen=True)
class Tables:
    """The rows of `count` tables; `cells` has the table of each row. The last numbers are ranks in `texts`, if any."""

    count: int
    cells: Array
    numbers: tuple[Array, ...]
    counts: Array
    texts: pa.Array | None = None

    def take(self, rows: Array) -> Tables:
        """Return the rows at `rows`."""
        numbers = tuple(column[rows] for column in self.numbers)
        return replace(self, cells=self.cells[rows], numbers=numbers, counts=self.counts[rows])

    def folded(self) -> Tables:
        """Return the rows of each table sorted, with equal rows merged and without counts of zero."""
        if not len(self.cells):
            return self
        order, is_first = sorted_rows(self.cells, self.count, self.numbers)
        tables, heads = self.take(order), np.flatnonzero(is_first)
        counts = np.add.reduceat(tables.counts, heads)
        kept = counts != 0
        return replace(tables.take(heads[kept]), counts=counts[kept])

    def starts(self) -> Array:
        """Return the first row of each table, and the number of all rows, `int64[count + 1]`; rows must be sorted."""
        return np.searchsorted(self.cells, np.arange(self.count + 1))

    def sizes(self) -> Array:
        """Return the number of rows of each table."""
        return np.bincount(self.cells, minlength=self.count)

    def totals(self) -> Array:
        """Return the sum of the counts of each table."""
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)])
        starts = self.starts()
        total: Array = running[starts[1:]] - running[starts[:-1]]
        return total


@dataclass(frozen=True)
class Layout:
    """The stored form of a row: `width` numbers and a count; the last number is a text if `varied`."""

    width: int
    varied: bool = False

    def growth(self, thing: str, most: int | None) -> Growth:
        """Return the size of a table with one row per `thing`."""
        return Growth(self._row, thing, most, self.varied)

    def read(self, partials: Array) -> Tables:
        """Return the tables of some partials, in order."""
        items = partials.ravel().tolist()
        if self.varied:
            return self._read_varied(items)
        sizes = np.fromiter(map(len, items), np.int64, len(items)) // self._row
        return self._tables(sizes, _matrix(items, self.width + 1))

    @property
    def _row(self) -> int:
        return 8 * (self.width + 1)

    def joined(self, a: Array, b: Array, sign: int) -> Tables:
        """Return the rows of both tables of each pair, not folded; the counts of `b` are multiplied by `sign`."""
        both, count = self.read(np.concatenate([a.ravel(), b.ravel()])), a.size
        second = both.cells >= count
        counts = np.where(second, sign * both.counts, both.counts)
        return replace(both, count=count, cells=np.where(second, both.cells - count, both.cells), counts=counts)

    def write(self, tables: Tables) -> Array:
        """Return the partials of tables; their rows must be sorted."""
        starts = tables.starts()
        if tables.texts is not None:
            return self._write_varied(tables, tables.texts, starts)
        data = np.column_stack([*tables.numbers, tables.counts]).astype("<i8", copy=False).tobytes()
        return _cut(data, starts * self._row)

    def _tables(self, sizes: Array, matrix: Array, texts: pa.Array | None = None) -> Tables:
        columns = [np.ascontiguousarray(column) for column in matrix.T]
        count = len(sizes)
        return Tables(count, np.repeat(np.arange(count), sizes), tuple(columns[:-1]), columns[-1], texts)

    def _read_varied(self, items: list[bytes]) -> Tables:
        sizes = np.frombuffer(b"".join([item[:8] or bytes(8) for item in items]), "<i8").astype(np.int64)
        ends = (8 + sizes * self._row).tolist()
        matrix = _matrix([item[8:end] for item, end in zip(items, ends, strict=True)], self.width + 1)
        data = b"".join([item[end:] for item, end in zip(items, ends, strict=True)])
        tables = self._tables(sizes, matrix)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(tables.numbers[-1])])
        buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)]
        ranks, texts = ranked(pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers))
        return replace(tables, numbers=(*tables.numbers[:-1], ranks), texts=texts)

    def _write_varied(self, tables: Tables, texts: pa.Array, starts: Array) -> Array:
        taken = texts.take(pa.array(tables.numbers[-1]))
        offsets = np.frombuffer(taken.buffers()[1], np.int64, len(taken) + 1, 8 * taken.offset)
        data = taken.buffers()[2].to_pybytes() if taken.buffers()[2] is not None else b""
        matrix = np.column_stack([*tables.numbers[:-1], np.diff(offsets), tables.counts]).astype("<i8", copy=False)
        heads = _cut(matrix.tobytes(), starts * self._row).tolist()
        tails = _cut(data, offsets[starts]).tolist()
        sizes = np.diff(starts).tolist()
        parts = zip(sizes, heads, tails, strict=True)
        return _objects([size.to_bytes(8, "little") + head + tail if size else b"" for size, head, tail in parts])


@dataclass(frozen=True)
class Limit:
    """The maximum number of `what` in a window, None for no limit; `label` is the combinator."""

    label: str
    what: str
    most: int | None

    def check(self, found: Array, room: int = 1) -> None:
        """Raise a RowFailure for the first table that exceeds the limit of `room` windows."""
        if self.most is None or not len(found) or (most := int(found.max())) <= room * self.most:
            return
        at = int(np.argmax(found > room * self.most))
        rule = f"`{self.label}` keeps {self.what} of a window, at most {self.most:,} (`limit`);"
        remedy = "Give a higher `limit`, which a running query may change, or shorter windows."
        raise RowFailure(TooLarge, rule, f"got {int(found[at]):,}, the most are {most:,}", remedy, at)


Measure = Callable[[Tables], Array]


@dataclass(frozen=True)
class Joined:
    """`combine` of tables: counts are added; with `sign=-1`, `invert`: the counts of the second are subtracted.

    `reduced` drops rows that a partial need not hold. `limit` limits the `measure` of a partial. `stored_as` identifies
    the tables in the state.
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
        """The meaning of the tables, for sharing: tables with different limits are not shared."""
        return f"{self.stored_as} up to {self.limit.most if self.limit else None}"

    @property
    def inverse(self) -> Joined:
        """The `invert` for this `combine`."""
        return replace(self, sign=-1, stored_as=f"{self.stored_as} inverted")

    def written(self, tables: Tables) -> Array:
        """Return partials of rows in any order."""
        tables = tables.folded()
        if self.reduced is not None:
            tables = self.reduced(tables)
        if self.limit is not None:
            self.limit.check(self.measure(tables), ROOM)
        return self.layout.write(tables)


def parted(joined: Joined, items: Items, starts: Array, value: Any, *before: Array) -> Array:
    """Return the partials of runs of values, for `Gathered`, from the rows of `tabled`."""
    return joined.written(tabled(items, starts, value, *before))


def tabled(items: Items, starts: Array, value: Any, *before: Array) -> Tables:
    """Return tables of runs of values: rows of `before` and the value, each with count 1, not folded.

    Run g has the values from `starts[g]` up to the next start.
    """
    numbers, texts = _numbered(items, value)
    count = len(numbers[0])
    return Tables(len(starts), cells_of(starts, count), (*before, *numbers), np.ones(count, np.int64), texts)


def cells_of(starts: Array, count: int) -> Array:
    """Return for each of `count` records its run; run g has the records from `starts[g]` up to the next start."""
    return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, count)))


def _numbered(items: Items, value: Any) -> tuple[tuple[Array, ...], pa.Array | None]:
    if not items.varied:
        return items.numbers(value), None
    ranks, texts = items.texts(value)
    return (ranks,), texts


def by_parts(lower: Callable[..., Any], *fields: Array) -> Any:
    """Return the results of `lower`, called with the fields of some partials at a time, the first of which are tables.

    Larger arrays would not fit into the caches of a processor, and would take new pages of memory each time.
    """
    flat, shape = [field.ravel() for field in fields], fields[0].shape
    sizes = np.fromiter(map(len, flat[0].tolist()), np.int64, len(flat[0]))
    parts = list(in_parts(sizes, _AT_ONCE)) or [slice(None)]
    try:
        found = [lower(*(field[part] for field in flat)) for part in parts]
    except RowFailure:
        found = [lower(*flat)]  # whose failure is about all of them
    if isinstance(found[0], tuple):
        return tuple(_whole(each, shape) for each in zip(*found, strict=True))
    return _whole(found, shape)


def _whole(parts: Sequence[Array], shape: tuple[int, ...]) -> Array:
    if len(parts) == 1:
        return parts[0].reshape(shape)
    values = np.concatenate([np.ma.getdata(part) for part in parts])
    return shown(values, np.concatenate([np.ma.getmaskarray(part) for part in parts])).reshape(shape)


def in_parts(sizes: Array, room: int) -> Iterator[slice]:
    """Yield slices of things of these sizes that together fit into the room, at least one thing each."""
    total = np.append(0, np.cumsum(sizes))
    start = 0
    while start < len(sizes):
        end = max(start + 1, int(np.searchsorted(total, total[start] + room, "right")) - 1)
        yield slice(start, end)
        start = end


def sorted_rows(cells: Array, count: int, numbers: tuple[Array, ...]) -> tuple[Array, Array]:
    """Return the order of rows by cell, of `count`, then by numbers; and in that order, which differ from the last."""
    order = _order(cells, count, numbers)
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.logical_or.reduce([column[order[1:]] != column[order[:-1]] for column in (cells, *numbers)])
    return order, new


def _order(cells: Array, count: int, numbers: tuple[Array, ...]) -> Array:
    """Return the order of rows by cell, then by numbers; equal rows may be in any order."""
    first, rest = numbers[0], numbers[1:]
    least, most = int(first.min()), int(first.max())
    span = most - least + 1
    if span * count < 1 << 62:
        # Both in one number: sorting a single column takes a tenth of the time.
        together = cells * span + (first - least)
        if rest:
            return np.lexsort((*rest[::-1], together))
        # `argsorted` is stable, which takes longer for numbers that do not fit into an int64 with their row.
        return argsorted(together) if span * count * len(first) < 1 << 61 else np.argsort(together)
    order = np.lexsort(numbers[::-1]) if rest else np.argsort(first)
    return order[argsorted(cells[order])]


def lists(columns: list[Any], starts: Array) -> Array:
    """Return the parts of a column that begin at `starts` as an object array; of several columns, tuples of parts."""
    parts = [_parts(column, starts) if len(starts) > 1 else [] for column in columns]
    return _objects(list(zip(*parts, strict=True)) if len(parts) > 1 else parts[0])


def _parts(column: Any, starts: Array) -> list[Any]:
    return [column[low:high] for low, high in pairwise(starts.tolist())]


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
