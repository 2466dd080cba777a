"""Windows that a lookup names and whose records the slices do not tell: some are removed, or merged with others.

::

    stored slices     [0  merged   ][3][4][5]
    windows              [1  3)                   unknown, whether or not slice 0 has a record
                                    [3  5)        whole: it is empty if these slices have no record
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.records import expanded
from slicing.assembly.results import FRAME_ROWS, Windows
from slicing.content.block import Block, encode_keys
from slicing.content.folding import by_key
from slicing.content.hashing import hashes
from slicing.content.pairs import Pairs
from slicing.engines.looking import Unknown, after, last_rows
from slicing.engines.sliced.lookups import SliceLookup
from slicing.state.format.coverage import Coverage
from slicing.windows.families.family import Family, emitted_from, repeats
from slicing.windows.families.several import primary
from slicing.windows.time.slices import FOREVER

MOST = 1000
"""The most unknown windows of a family that one lookup returns for a key: the newest ones."""


@dataclass(frozen=True)
class UnknownWindows:
    """The unknown windows of a lookup."""

    at: SliceLookup

    @property
    def coverage(self) -> Coverage:
        """Which windows are whole."""
        return self.at.coverage

    def after(self, found: Iterator[Windows]) -> Iterator[Windows | Unknown]:
        """Yield the emitted windows, then the unknown ones of each family with rows of its own that are not emitted."""
        families, by_starts = self.at.shape.family.families, self.at.asked.starts is not None
        if not by_starts and not self.coverage.is_merged:
            yield from found
            return
        numbers = [primary(families) or 0] if self.at.wide else range(len(families))
        emitted = {number: Emitted(self._named(number) if by_starts else None) for number in numbers}
        for windows in found:
            emitted[windows.family].add(windows)
            yield windows
        for number, each in emitted.items():
            for unknown in self._of_newest(number) if each.named is None else self._of_starts(number, each.named):
                yield each.without(unknown)

    def _named(self, number: int) -> Array:
        """Return the windows of `starts` that are not whole."""
        windows = self._between(number, self.at.shape.family.families[number])
        return windows[~self._is_whole(number, windows)][-MOST:]

    def _of_starts(self, number: int, windows: Array) -> Iterator[Unknown]:
        """Yield windows of the keys that are looked up or have records there."""
        if not len(windows):
            return
        if (wanted := self.at.asked.keys) is not None:
            at_once = max(1, FRAME_ROWS // len(windows))
            for start in range(0, len(wanted), at_once):
                names = wanted.slice(start, at_once)
                keys = np.repeat(np.arange(len(names)), len(windows))
                yield self._unknown(number, np.tile(windows, len(names)), keys, names)
            return
        end = int(self.at.shape.family.families[number].end_slice(windows[-1]))
        for rows in self.at.rows(self.coverage.since, end):
            yield self._overlapping(number, windows, rows)

    def _overlapping(self, number: int, windows: Array, rows: Block) -> Unknown:
        """Return the pairs of these windows and the keys of rows in slices that overlap them; slices may be merged."""
        family = self.at.shape.family.families[number]
        low = np.maximum(family.first_window(rows.index), windows[0])
        last = np.minimum(family.last_window(self.coverage.next_separate(rows.index + 1) - 1), windows[-1])
        counts = np.maximum(last - low + 1, 0)
        found = expanded(low, counts)
        keys = np.repeat(rows.keys, counts)
        some = np.flatnonzero(np.isin(found, windows))
        pairs = Pairs.over(windows, len(rows.names))
        keys, found = pairs.unpack(np.unique(pairs.pack(keys[some], found[some])))
        return self._unknown(number, found, keys, rows.names)

    def _of_newest(self, number: int) -> Iterator[Unknown]:
        """Yield for each key the first window that holds its newest record, unless it is whole."""
        family = self.at.shape.family.families[number]
        for rows in self.at.rows(self.coverage.since):
            block = by_key(self.at.shape, rows)
            block = block.take(np.flatnonzero(~np.broadcast_to(family.in_gap(block.index), block.index.shape)))
            newest = last_rows(block)
            windows = emitted_from(family, family.first_window(block.index[newest]), self.at.wide)
            some = np.flatnonzero(~self._is_whole(number, windows))
            yield self._unknown(number, windows[some], block.keys[newest][some], block.names)

    def _between(self, number: int, family: Family) -> Array:
        """Return the windows that start in the range; a range without a first instant names none."""
        assert self.at.asked.starts is not None
        low, high = self.at.asked.starts
        if low <= -(FOREVER >> 1):
            return np.zeros(0, np.int64)
        newest, since = self.at.slices.head.newest, self.coverage.since
        newest = since if newest is None else max(newest, since)
        last = int(family.last_window(min(newest, int(family.slice_at(high)))))
        if not self.coverage.is_merged and not self.at.wide:  # all later windows are whole
            last = min(last, max(after(family, since - 1), self.at.oldest[number]) - 1)
        first = after(family, int(family.slice_at(low)) - 1)
        windows = np.arange(max(first, last - 100 * MOST), last + 1)
        there = self.at.asked.starting(family.window_start(windows))
        if family.may_repeat and len(windows):
            there &= ~repeats(family, windows, self.at.wide)
        return windows[there]

    def _is_whole(self, number: int, windows: Array) -> Array:
        """Return which windows, and those beside them in wide rows, have all their slices: `bool[n]`."""
        whole = np.ones(len(windows), dtype=bool)
        for at, family, own in self._beside(number, windows):
            whole &= self.coverage.whole(family.first_slice(own), family.end_slice(own)) & (own >= self.at.oldest[at])
        return whole

    def _beside(self, number: int, windows: Array) -> Iterator[tuple[int, Family, Array]]:
        """Yield the number of each family of a row, the family, and its windows that end with some windows."""
        families = self.at.shape.family.families
        yield number, families[number], windows
        for at, family in enumerate(families) if self.at.wide else ():
            if at != number:
                yield at, family, family.first_open(families[number].window_end(windows) - 1)

    def _unknown(self, number: int, windows: Array, keys: Array, names: pa.Table) -> Unknown:
        """Return windows with the first instant from which on all records of their rows are known."""
        known = np.full(len(windows), -FOREVER)
        for _, family, own in self._beside(number, windows):
            since = self.coverage.known(family.first_slice(own), family.end_slice(own))
            known = np.maximum(known, family.slice_start(since))
        return Unknown(number, windows, keys, names, known)


class Emitted:
    """The windows of a family that a lookup has emitted, so that they are not returned again as unknown ones.

    Only those among the sorted `named` are held; if that is None, the keys with any window.
    """

    def __init__(self, named: Array | None):
        self.named = named
        self._parts: list[tuple[pa.Table, Array]] = []

    def add(self, windows: Windows) -> None:
        """Keep the keys and numbers of emitted windows, as far as `without` asks for them."""
        rows = np.arange(len(windows)) if self.named is None else np.flatnonzero(np.isin(windows.windows, self.named))
        if len(rows):
            codes, names = _used(windows.keys[rows], windows.names)
            self._parts.append((names, np.unique(self._pairs(codes, windows.windows[rows]))))

    def without(self, found: Unknown) -> Unknown:
        """Return the unknown windows that were not emitted; without `named`, those of the keys without any window."""
        if not self._parts:
            return found
        codes, names = _used(found.keys, found.names)
        pairs, (_, kept) = self._pairs(self._codes(names)[codes], found.windows), self._kept
        some = np.flatnonzero(np.searchsorted(kept, pairs) == np.searchsorted(kept, pairs, side="right"))
        return replace(found, windows=found.windows[some], keys=found.keys[some], known=found.known[some])

    @property
    def _length(self) -> int:
        return 1 if self.named is None else len(self.named)

    def _pairs(self, keys: Array, windows: Array) -> Array:
        """Return a number for each pair of a key and a window of `named`; that of the key if `named` is None."""
        return keys if self.named is None else keys * self._length + np.searchsorted(self.named, windows)

    @cached_property
    def _kept(self) -> tuple[pa.Table, Array]:
        """The distinct keys of all parts, and the sorted numbers of their pairs."""
        codes, names = encode_keys(pa.concat_tables([names for names, _ in self._parts]))
        pairs, first = list[Array](), 0
        for own, each in self._parts:
            pairs.append(codes[first + each // self._length] * self._length + each % self._length)
            first += len(own)
        return names, np.unique(np.concatenate(pairs))

    @cached_property
    def _by_hash(self) -> tuple[Array, Array]:
        hashed = hashes(self._kept[0])
        order = np.argsort(hashed)
        return order, hashed[order]

    def _codes(self, names: pa.Table) -> Array:
        """Return the code of each key among the kept ones, -1 without one. Only keys with its hash are compared."""
        (order, hashed), wanted = self._by_hash, hashes(names)
        low, high = (np.searchsorted(hashed, wanted, side=side) for side in ("left", "right"))
        near = order[np.unique(expanded(low, high - low))]
        codes, _ = encode_keys(pa.concat_tables([names, self._kept[0].take(pa.array(near))]))
        kept = np.full(int(codes.max(initial=-1)) + 1, -1)
        kept[codes[len(names) :]] = near
        found: Array = kept[codes[: len(names)]]
        return found


def _used(keys: Array, names: pa.Table) -> tuple[Array, pa.Table]:
    """Return the codes of some keys, and only their names."""
    used, codes = np.unique(keys, return_inverse=True)
    return codes, names.take(pa.array(used))
