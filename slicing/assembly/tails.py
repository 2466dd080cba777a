"""Assemble windows with a tail: the total of the whole tails, and a running total of the tail in which the windows end.

::

    tails     |   1   |   2   |   3   |   4   |
    rows        a   b     c       d     e   f
    windows           [=======================|===)         whole tails 2 and 3 = c + d, running total of tail 4 = e
                      [=======================|======)      the same whole tails, e + f

The order of addition depends on the edges of tails alone, not on when windows close: the slices of a tail from the
oldest one on, whole tails by the tree of the hopping window whose slices are tails, then whole tails and running total
once. `engines.sliced.tailed_close` adds in the same order, so doubles agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.kernel import Kernel, locating
from slicing.aggregates.sorting import argsorted
from slicing.assembly.ranges.point_lookups import running
from slicing.assembly.ranges.range_aggregates import before, without_combines
from slicing.assembly.ranges.row_runs import Lookups, assemble_ranges
from slicing.assembly.results import Windows, as_block
from slicing.assembly.trees.matrix import assemble_cells
from slicing.content.block import Block, Shape, concat, empty, show_place
from slicing.content.folding import by_key, regroup
from slicing.content.pairs import Pairs
from slicing.windows.families.family import Family
from slicing.windows.families.tailed import Tailed, tailed
from slicing.windows.time.slices import FOREVER


@dataclass(frozen=True)
class TailsAsSlices:
    """Tails used as slices: tail c holds the slices `first(c)` up to but not including `first(c + 1)`."""

    shape: Shape
    family: Family
    own: Tailed

    def first(self, tail: int) -> int:
        """Return the first slice of a tail."""
        return int(self.family.slice_at(self.own.tails.edge(tail)))

    def of(self, slices: Array) -> Array:
        """Return the tail that holds each slice: `int64[n]`."""
        return self.own.tails.count(self.family.slice_start(slices))

    def folded(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Convert folded blocks of consecutive slices to blocks of tails; each tail is in one of them."""
        rest = empty(self.shape)
        for block in filter(len, blocks):
            tails = replace(block, index=self.of(block.index))
            rows = regroup(self.shape, concat(self.shape, [rest, tails]), in_order=True)
            last = int(rows.index[-1])
            yield rows.between(-FOREVER, last)
            rest = rows.between(last, FOREVER)
        yield rest


def assemble_tails(
    shape: Shape, trees: Sequence[str], block: Block, first: int | None = None, end: int | None = None
) -> Iterator[Windows]:
    """Yield the windows `first` up to but not including `end` (default: all) that hold a record of a folded block.

    Each part takes about ASSEMBLY_BYTES and is sorted by key and window. Two combines per row, and those of the tree
    per tail of a key; none per window, as windows with the same rows of a key share one partial.
    """
    return assemble_ranges(shape, block, first, end, partial(_prepared, trees))


def _prepared(trees: Sequence[str], shape: Shape, block: Block, lows: Array, counts: Array) -> Lookups:
    tails = _Tails(shape, block)
    spells = _Spells.of(tails, lows, counts)
    return _Steps(trees, tails, spells, int((lows + counts).max())).lookup


class _Tails:
    """The tails of the keys of a block that is sorted by key and slice."""

    def __init__(self, shape: Shape, block: Block):
        self.shape, self.block, self.own = shape, block, tailed(shape.family)
        self.slices = TailsAsSlices(shape, shape.family, self.own)
        self._pairs = Pairs.over(block.index, len(block.names))
        self._at = self._pairs.pack(block.keys, block.index)

    def first_row(self, keys: Array, slices: Array) -> Array:
        """Return the first row of each key from a slice on; the first row after the key if there is none."""
        found: Array = np.searchsorted(self._at, self._pairs.pack(keys, slices))
        return found

    def first_slice(self, tails: Array) -> Array:
        """Return the first slice of each tail."""
        found: Array = self.shape.family.slice_at(self.own.tails.edge(tails))
        return found

    def place(self, row: int) -> str:
        """Return the text of the key and the slice of a row, for error messages."""
        return show_place(self.shape.family, self.block.names, self.block.keys[row], self.block.index[row])

    def running(self) -> tuple[Block, Block]:
        """Return the rows with the running total of their tail, and the last row of each tail of a key."""
        block, of = self.block, self.slices.of(self.block.index)
        begins = (np.diff(block.keys, prepend=-1) != 0) | (np.diff(of, prepend=of[:1]) != 0)
        segment, starts = np.cumsum(begins) - 1, np.flatnonzero(begins)
        pairs = zip(self.shape.kernels, block.partials, strict=True)
        partials = [running(kernel, columns, segment, starts, self.place) for kernel, columns in pairs]
        totals = replace(block, index=of, partials=partials)
        return totals, totals.take(np.append(starts[1:], len(block)) - 1)

    def wholes(self, trees: Sequence[str], rows: Block, first: int, end: int) -> Block:
        """Return the totals of the whole tails before tails `first` up to `end`, from rows of tails of a key.

        They are sorted by key and tail.
        """
        shape, whole = self.shape.over(self.own.wholes), self.own.whole
        # Rows without records count as well: windows of other rows contain them.
        rows = replace(rows, records=np.ones(len(rows), np.int64)).take(argsorted(rows.index))
        frames = [as_block(frame) for frame in assemble_cells(shape, trees, rows, first - whole, end - whole)]
        found = by_key(shape, concat(shape, frames))
        return replace(found, index=found.index + whole)


@dataclass(frozen=True)
class _Spells:
    """The windows of a key that end in one tail and start alike; sorted by key and window.

    first: the first window. tail: the tail in which the windows end. oldest: their first tail.
    low, start, end: the first row of the windows, the first row that enters after window `first - 1` in this tail, and
        the row after the last one.
    begins: the first row in the tail.
    """

    keys: Array
    first: Array
    tail: Array
    oldest: Array
    low: Array
    begins: Array
    start: Array
    end: Array

    @classmethod
    def of(cls, tails: _Tails, lows: Array, counts: Array) -> _Spells:
        """Return the spells of `counts[i]` windows of the key of row i, from `lows[i]` on."""
        rows = np.flatnonzero(counts)
        ends = lows[rows] + counts[rows]
        firsts, lasts = tails.own.spells(*_apart(lows[rows], ends))
        number, until = (np.searchsorted(firsts, of, side="right") for of in (lows[rows], ends - 1))
        many = until - number + 1
        spell = np.arange(int(many.sum())) + np.repeat(number - 1 - (np.cumsum(many) - many), many)
        keys = np.repeat(tails.block.keys[rows], many)
        new = (np.diff(keys, prepend=-1) != 0) | (np.diff(spell, prepend=-1) != 0)
        keys, spell = keys[new], spell[new]
        family, tail, oldest = tails.shape.family, tails.own.tail_of_end(firsts), tails.own.first_tail(firsts)
        begins = tails.first_slice(tail)
        entered = (np.maximum(begins, family.end_slice(windows - 1)) for windows in (firsts, lasts))
        slices = tails.first_slice(oldest), begins, *entered
        edges = (tails.first_row(keys, edge[spell]) for edge in slices)
        return cls(keys, firsts[spell], tail[spell], oldest[spell], *edges)


def _apart(firsts: Array, ends: Array) -> tuple[Array, Array]:
    """Return the first windows and the ends of ranges of windows, where those that overlap or touch are one."""
    order = argsorted(firsts)
    firsts, reach = firsts[order], np.maximum.accumulate(ends[order])
    begins = np.flatnonzero(np.append(True, firsts[1:] > reach[:-1]))
    return firsts[begins], reach[np.append(begins[1:], len(firsts)) - 1]


class _Steps:
    """The partials of the windows of a key: each is that of a window and of all later ones up to the next step.

    Steps are the beginning of a spell and the rows that enter during it.
    """

    def __init__(self, trees: Sequence[str], tails: _Tails, spells: _Spells, last: int):
        self.shape, self.block = tails.shape, tails.block
        counts = spells.end - spells.start + 1
        of = np.repeat(np.arange(len(counts)), counts)
        row = spells.start[of] - 1 + np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        held = np.flatnonzero(row + 1 > spells.low[of])
        of, row = of[held], row[held]
        enters, first = row >= spells.start[of], spells.first[of]
        windows = np.where(enters, np.maximum(self.shape.family.first_window(self.block.index[row]), first), first)
        self._pairs = Pairs.over(np.append(windows, last), len(self.block.names))
        self._at = self._pairs.pack(spells.keys[of], windows)
        records = before(self.block.records)
        self.records = records[row + 1] - records[spells.low[of]]
        self.partials: list[Partials] = []
        totals = _Totals(trees, tails, spells)
        for number, kernel in enumerate(self.shape.kernels):
            found = without_combines(kernel, self.block.partials[number], spells.low[of], row + 1)
            self.partials.append(totals.joined(number, of, row) if found is None else found)

    def lookup(self, keys: Array, windows: Array) -> Windows:
        """Return window `windows[i]` of the key with code `keys[i]`, for every i; each must hold a row."""
        at = np.searchsorted(self._at, self._pairs.pack(keys, windows), side="right") - 1
        partials = [[column[at] for column in columns] for columns in self.partials]
        block = self.block
        return Windows(windows, keys, block.names, self.records[at], partials, block.dictionaries)


class _Totals:
    """The parts that windows are combined from: older tails, whole tails, and the running total of a tail."""

    def __init__(self, trees: Sequence[str], tails: _Tails, spells: _Spells):
        self.trees, self.tails, self.spells = trees, tails, spells

    @cached_property
    def _parts(self) -> tuple[Block, Block, Block]:
        running, last = self.tails.running()
        first, end = int(self.spells.tail.min()), int(self.spells.tail.max()) + 1
        return running, last, self.tails.wholes(self.trees, last, first, end)

    def joined(self, number: int, of: Array, row: Array) -> Partials:
        """Return the partials of windows of spells `of` whose last row is `row`, which may be in an earlier tail."""
        running, _, _ = self._parts
        base = self._before(number)
        columns = [column[of] for column in base.columns]
        out = Combined(base.kernel, columns, base.held[of], lambda at: self.tails.place(int(row[at])))
        inside = np.flatnonzero(row >= self.spells.begins[of])
        out.add(inside, running.partials[number], row[inside])
        return out.columns

    def _before(self, number: int) -> Combined:
        """Return the total of the tails of each spell before that in which its windows end."""
        _, last, wholes = self._parts
        spells, kernel = self.spells, self.tails.shape.kernels[number]
        count, begin = len(spells.keys), spells.tail - self.tails.own.whole
        out = Combined(
            kernel, kernel.spread(count), np.zeros(count, bool), lambda at: self.tails.place(int(spells.low[at]))
        )
        for back in range(int((begin - spells.oldest).max()), 0, -1):
            longer = np.flatnonzero(begin - back >= spells.oldest)
            self._add(out, number, longer, last, begin[longer] - back)
        self._add(out, number, np.arange(count), wholes, spells.tail)
        return out

    def _add(self, out: Combined, number: int, at: Array, block: Block, index: Array) -> None:
        """Add the rows of a block that is sorted by key and index: for spell `at[i]` that of `index[i]`, if any."""
        if not len(block):
            return
        pairs, keys = Pairs.over(block.index, len(self.tails.block.names)), self.spells.keys[at]
        row = np.searchsorted(pairs.pack(block.keys, block.index), pairs.pack(keys, index))
        row = np.minimum(row, len(block) - 1)
        found = np.flatnonzero((block.keys[row] == keys) & (block.index[row] == index))
        out.add(at[found], block.partials[number], row[found])


@dataclass(frozen=True)
class Combined:
    """Partials to which newer parts are added; `held` tells which have a part. `place` names one for messages."""

    kernel: Kernel
    columns: Partials
    held: Array
    place: Callable[[int], str]

    def add(self, at: Array, items: Partials, rows: Array) -> None:
        """Add item `rows[i]` to partial `at[i]`, as the newer part; `at` are distinct."""
        met = self.held[at]
        both, fresh = at[met], at[~met]
        with locating(lambda index: self.place(int(both[index]))):
            older, newer = [c[both] for c in self.columns], [c[rows[met]] for c in items]
            joined = self.kernel.combine(older, newer) if len(both) else older
        for column, item, new in zip(self.columns, items, joined, strict=True):
            column[fresh] = item[rows[~met]]
            column[both] = new
        self.held[at] = True
