"""The two-layer tree: a running total; slices enter it and leave it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.sorting import argsorted
from slicing.assembly.choice import is_additive
from slicing.assembly.trees.cache import TOTAL, Cache, node_of
from slicing.assembly.trees.nodes import Live, Node, Rows, concatenated
from slicing.windows.families.family import regular


class TwoLayer:
    """The running total of a window: slices enter, the window is copied, slices leave. 2 combines per window and key.

    If all partials are added and subtracted field by field, the windows of one call are a single cumulative sum. If
    keys have rows in few slices, the first row of each key enters or leaves in one call, then the second, and so on;
    windows of a key between two of its rows have the same partial, and need no combines.
    """

    def __init__(self, live: Live, chosen: Sequence[int], cache: Cache):
        self.cache = cache
        self.live, self.chosen = live, tuple(chosen)
        self.step = regular(live.shape.family).per_advance
        self.additive = all(is_additive(live.shape.kernels[i]) for i in self.chosen)
        self.total = node_of(live, self.chosen, cache.load(TOTAL))

    def late(self, rows: Rows) -> None:
        """Add rows of slices that have entered before."""
        self.total.append_slices(rows)

    def windows(self, fresh: Rows, entering: range, old: Rows, leaving: range) -> Node:
        """Return the windows that close next, as concatenated nodes.

        The slices `entering` of `fresh` enter before each window, the slices `leaving` of `old` leave after it.
        """
        entered, left = fresh.between(*_ends(entering)), old.between(*_ends(leaving))
        if self.additive and all(self._sums_fit(i, entered, left) for i in self.chosen):
            return self._summed(entered, entering, left, leaving)
        if 2 * _rounds(entered, left) < _slices(entered) + _slices(left):
            moves = _Moves.of(entered, entering, left, leaving, self.step)
            return self._in_rounds(moves, entered, left, len(entering) // self.step)
        enter, leave, totals = iter(entered.by_slice(*_ends(entering))), iter(left.by_slice(*_ends(leaving))), []
        for rows in enter:
            for part in (rows, *islice(enter, self.step - 1)):
                self.total.append(part)
            totals.append(self.total.copy())
            for part in islice(leave, self.step):
                self.total.remove(part)
        return concatenated(totals)

    def _in_rounds(self, moves: _Moves, entered: Rows, left: Rows, windows: int) -> Node:
        """Return the windows, with the moves of all keys at once: the first of each key, then the second, and so on."""
        keys, total = len(self.live.names), self.total
        numbers = np.zeros((windows + 1, keys), dtype=np.int64)
        numbers[0] = np.arange(keys)
        states, count = [total.copy()], keys
        for some in moves.in_rounds():
            enters = moves.enters[some]
            total.append(entered.take(moves.rows[some[enters]]))
            total.remove(left.take(moves.rows[some[~enters]]))
            codes = moves.codes[some]
            np.maximum.at(numbers, (moves.first[some], codes), np.arange(count, count + len(some)))
            count += len(some)
            states.append(Node(self.live, self.chosen, total.records[codes], _taken(total.partials, codes)))
        np.maximum.accumulate(numbers, axis=0, out=numbers)
        which, every = numbers[:windows].reshape(-1), concatenated(states)
        return Node(self.live, self.chosen, every.records[which], _taken(every.partials, which))

    def _sums_fit(self, i: int, *rows: Rows) -> bool:
        return self.live.shape.kernels[i].sums_fit(self.total.partials[i], *(part.partials[i] for part in rows))

    def _summed(self, entered: Rows, entering: range, left: Rows, leaving: range) -> Node:
        """Return the windows as cumulative sums of their differences; the last sum is kept for the next close."""
        keys, windows = len(self.live.names), len(entering) // self.step
        plus = (entered.index - entering.start) // self.step * keys + entered.codes
        minus = ((left.index - leaving.start) // self.step + 1) * keys + left.codes
        last = windows * keys

        def sums(total: Array, more: Array, less: Array) -> Array:
            grid = np.zeros((windows + 1) * keys, dtype=total.dtype)
            grid[:keys] = total
            np.add.at(grid, plus, more)
            np.subtract.at(grid, minus, less)
            rows = grid.reshape(windows + 1, keys)
            np.cumsum(rows, axis=0, out=rows)
            total[:] = grid[last:]
            return grid[:last]

        records = sums(self.total.records, entered.records, left.records)
        partials = {
            i: [sums(*of) for of in zip(self.total.partials[i], entered.partials[i], left.partials[i], strict=True)]
            for i in self.chosen
        }
        return Node(self.live, self.chosen, records, partials)

    def reset(self, total: Node) -> None:
        """Replace the total by one that was assembled from slices."""
        self.total = total

    def save(self) -> None:
        """Write the only node that the next close needs."""
        self.cache.save(TOTAL, self.total.block())


@dataclass(frozen=True)
class _Moves:
    """Rows that enter and leave, by key and in their order: `rows[i]` is a row of those that enter, or of the others.

    `first[i]` is the first window that sees move i, counted from the first one that closes; `turn[i]` is the number of
    moves of its key before it.
    """

    codes: Array
    first: Array
    enters: Array
    rows: Array
    turn: Array

    @classmethod
    def of(cls, entered: Rows, entering: range, left: Rows, leaving: range, step: int) -> _Moves:
        """Return the moves of a call of `windows`. What leaves after a window comes before what enters the next one."""
        parts = (entered, entering.start, 0), (left, leaving.start, 1)
        first = np.concatenate([(rows.index - start) // step + after for rows, start, after in parts])
        codes, rows = np.concatenate([entered.codes, left.codes]), [np.arange(len(entered)), np.arange(len(left))]
        enters, index = np.arange(len(codes)) < len(entered), np.concatenate([entered.index, left.index])
        order = np.lexsort((index, enters, first, codes))
        codes = codes[order]
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        turn = np.arange(len(codes)) - np.repeat(begins, np.diff(np.append(begins, len(codes))))
        return cls(codes, first[order], enters[order], np.concatenate(rows)[order], turn)

    def in_rounds(self) -> Iterator[Array]:
        """Yield the first moves of all keys, the second ones, and so on."""
        by_turn = argsorted(self.turn)
        yield from np.split(by_turn, np.cumsum(np.bincount(self.turn))[:-1])


def _rounds(entered: Rows, left: Rows) -> int:
    """Return the number of rows of the key that has most of them."""
    return int(np.bincount(np.concatenate([entered.codes, left.codes])).max(initial=0))


def _slices(rows: Rows) -> int:
    """Return the number of slices that have rows, which are sorted."""
    return int(np.count_nonzero(np.diff(rows.index))) + min(1, len(rows))


def _taken(partials: dict[int, Partials], rows: Array) -> dict[int, Partials]:
    return {i: [column[rows] for column in columns] for i, columns in partials.items()}


def _ends(slices: range) -> tuple[int, int]:
    return slices.start, slices.stop
