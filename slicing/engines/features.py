"""Point-in-time features: the windows of one bucket of bounded input that end at given instants.

::

    records of a key     *  *     * *         *
    instants                    t     t  t          t
    windows              |-----)                          [t - d, t) of the first one: two records
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.kernel import locating
from slicing.aggregates.sorting import argsorted, order
from slicing.assembly.ranges.known_runs import KnownRows
from slicing.assembly.ranges.range_aggregates import before, reach_of
from slicing.assembly.ranges.run_results import RunResults
from slicing.assembly.ranges.segment_tree import SegmentTree
from slicing.assembly.results import Windows, show_window
from slicing.content.block import Block, Shape, encode_keys, show_place
from slicing.content.pairs import Pairs
from slicing.content.sizes import ASSEMBLY_BYTES, at_once, even_runs, memory
from slicing.windows.lookback import Lookback, moved
from slicing.windows.time.edges import AFTER


@dataclass(frozen=True)
class Instants:
    """Instants of keys: microseconds in any order, null for no instant; row i of `names` is the key of instant i."""

    times: pa.Array
    names: pa.Table


@dataclass(frozen=True)
class Found:
    """The windows as of the instants `rows`, by key and time; windows of further lengths are aligned with the first."""

    rows: Array
    windows: Windows


def answered(shape: Shape, rows: Shape) -> Shape:
    """Return the shape of the windows that `features` yields; `rows` have other kernels where results share fields."""
    return replace(shape, kernels=tuple(each.of_results if each in rows.kernels else each for each in shape.kernels))


def features(
    shape: Shape, rows: Block, asked: Sequence[Instants], since: Array | None = None
) -> Iterator[tuple[int, Found]]:
    """Yield the windows as of all instants, of the shape `answered`, each frame with the number of its batch.

    `rows` are folded; `shape` has one family for each length. Cost: one combine per row, and per window of m rows of
    its key at most 2 log2(m) combines, none for additive aggregates and those with `results_of_runs`. Memory: the rows
    twice, and ASSEMBLY_BYTES.

    With `since`, of each key of `rows` the instant at which its rows became known, only rows count that are known at
    the instant asked for. Several keys of `rows` then have one name. Cost: as `KnownRows.joined`.
    """
    codes, names = encode_keys(pa.concat_tables([rows.names, *(each.names for each in asked)]))
    ends = np.cumsum([len(rows.names), *(len(each.names) for each in asked)])
    keys = [codes[start:end] for start, end in pairwise(ends.tolist())]
    at = list(zip(keys, (each.times for each in asked), strict=True))
    if since is None:
        history = _History(shape, _by_key(rows), names, at)
    else:
        history = _KnownHistory(shape, *_by_key_and_knowledge(rows, codes[rows.keys], since[rows.keys]), names, at)
    for number, (own, each) in enumerate(zip(keys, asked, strict=True)):
        for some in _by_key_and_time(own, each.times, history.most):
            yield number, history.found(some, own[some], each.times.take(pa.array(some)))


def _by_key_and_time(keys: Array, times: pa.Array, most: int) -> Iterator[Array]:
    """Yield the positions of all rows by key and time, at most `most` at a time: neighbours are looked up together."""
    rows, _ = order(keys, np.asarray(times.fill_null(0)))
    return (rows[start:end] for start, end in even_runs(0, len(rows), most))


def _by_key(block: Block) -> Block:
    """Return the rows of a folded block sorted by key and time; those of each key are sorted by time."""
    if np.all(block.keys[1:] >= block.keys[:-1]):
        return block
    return block.take(argsorted(block.keys))


def _by_key_and_knowledge(block: Block, keys: Array, since: Array) -> tuple[Block, Array]:
    """Return the rows with other key codes, sorted by key, time, and the instant at which they became known."""
    rows = np.lexsort((since, block.index, keys))
    return replace(block, keys=keys).take(rows), since[rows]


class _History:
    """The rows of a bucket by key and time; `names` has their keys first, then keys that only instants have.

    `block` has them by key and time. `asked` has the keys and times of all instants.
    """

    def __init__(self, shape: Shape, block: Block, names: pa.Table, asked: Sequence[tuple[Array, pa.Array]]):
        self.shape, self.names, self.block = shape, names, block
        self.families: Sequence[Lookback] = shape.family.families  # type: ignore[assignment]
        self.pairs = Pairs.over(block.index, len(names))
        self.at = self.pairs.pack(block.keys, block.index)
        self.records = before(block.records)
        counts = np.bincount(block.keys, minlength=len(names))
        self.firsts = np.cumsum(counts) - counts
        self.asked = asked
        self._prepare(counts)
        width = 16 + (memory(shape, block) - block.names.nbytes) / max(1, len(block))
        self.most = at_once(ASSEMBLY_BYTES, width * len(self.families))

    def _prepare(self, counts: Array) -> None:
        """Prepare the assembly; `counts` has the number of rows of each key."""
        runs = self.firsts, counts, lambda: self._reach, self._place
        kernels = zip(self.shape.kernels, self.block.partials, strict=True)
        self.kernels = [
            (SegmentTree if kernel.of_results is kernel else RunResults)(kernel, columns, *runs)
            for kernel, columns in kernels
        ]

    def _place(self, row: int) -> str:
        return show_place(self.shape.family, self.names, self.block.keys[row], self.block.index[row])

    @cached_property
    def _reach(self) -> Array:
        """For each row the end, as a row, of the last window that holds it."""
        lows, highs = [], []
        farthest = max(self.families, key=lambda family: family.ahead)
        for keys, times in self.asked:
            known = np.flatnonzero(times.is_valid())
            instants = np.asarray(times.drop_null())
            firsts = [family.first_slice(family.as_of(instants)) for family in self.families]
            lows.append(self._row(keys[known], np.minimum.reduce(firsts)))
            highs.append(self._end(keys[known], instants, farthest))
        low, high = (np.concatenate(each or [np.zeros(0, dtype=np.int64)]) for each in (lows, highs))
        held = np.flatnonzero(low < high)
        return reach_of(low[held], high[held], len(self.block))

    def _row(self, keys: Array, slices: Array) -> Array:
        """Return the first row of each key at or after a slice."""
        return np.searchsorted(self.at, self.pairs.pack(keys, slices))

    def _end(self, keys: Array, instants: Array, family: Lookback) -> Array:
        """Return the first row of each key after the windows of some instants."""
        rows = self._row(keys, moved(instants, family.ahead))
        if family.ahead <= 0 or not np.any(beyond := instants > AFTER - family.ahead):
            return rows
        # No slice follows the last instant of int64, so its row is passed here.
        held = (np.append(self.block.index, 0)[rows] == AFTER) & (np.append(self.block.keys, -1)[rows] == keys)
        passed: Array = rows + (beyond & held)
        return passed

    def found(self, rows: Array, keys: Array, times: pa.Array) -> Found:
        """Return the windows of all lengths as of some instants; `rows` are the positions of these in their batch."""
        known, instants = np.asarray(times.is_valid()), np.asarray(times.fill_null(0))
        frames = [self._frame(number, keys, instants, known) for number in range(len(self.families))]
        return Found(rows, replace(frames[0], aligned=tuple(frames[1:])))

    def _frame(self, number: int, keys: Array, instants: Array, known: Array) -> Windows:
        windows, low, high = self._run(number, keys, instants)
        records = np.where(known, self.records[high] - self.records[low], 0)
        nothing = [kernel.of_results.spread(len(keys)) for kernel in self.shape.kernels]
        frame = Windows(windows, keys, self.names, records, nothing, self.block.dictionaries, family=number)
        held = np.flatnonzero(records)
        if len(held):
            self._fill(frame, held, low[held], high[held])
        return frame

    def _run(self, number: int, keys: Array, instants: Array) -> tuple[Array, Array, Array]:
        """Return the windows of a length, and the rows of each: from the first one up to but not including the last."""
        family = self.families[number]
        windows = family.as_of(instants)
        low = self._row(keys, family.first_slice(windows))
        return windows, low, np.maximum(self._end(keys, instants, family), low)

    def _fill(self, frame: Windows, held: Array, low: Array, high: Array) -> None:
        own = self.shape.over(self.families[frame.family])
        for cells, kernel in zip(frame.partials, self.kernels, strict=True):
            joined = kernel.joined(frame.keys[held], low, high, lambda run: show_window(own, frame, held[run]))
            for cell, column in zip(cells, joined, strict=True):
                cell[held] = column


class _KnownHistory(_History):
    """The same of rows that become known at the instants `since`: later ones do not count."""

    def __init__(
        self, shape: Shape, block: Block, since: Array, names: pa.Table, asked: Sequence[tuple[Array, pa.Array]]
    ):
        self.since = np.unique(since)
        self.ranks = np.searchsorted(self.since, since)
        super().__init__(shape, block, names, asked)

    def _prepare(self, counts: Array) -> None:
        block, firsts = self.block, self.firsts[self.block.keys]
        self.rows = KnownRows(self.shape.kernels, block.partials, block.records, firsts, self.ranks, self._place)

    def _frame(self, number: int, keys: Array, instants: Array, known: Array) -> Windows:
        windows, low, high = self._run(number, keys, instants)
        until = np.searchsorted(self.since, instants, side="right")
        frame = Windows(windows, keys, self.names, windows, [], self.block.dictionaries, family=number)
        own = self.shape.over(self.families[number])
        place = partial(show_window, own, frame)
        records, partials = self.rows.joined(low, np.where(known, high, low), until, place)
        pairs = zip(self.shape.kernels, partials, strict=True)
        with locating(place):
            results = [each if kernel.of_results is kernel else kernel.lower(each) for kernel, each in pairs]
        return replace(frame, records=records, partials=results)
