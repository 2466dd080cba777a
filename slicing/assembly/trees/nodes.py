"""Nodes: one partial for every key of a bucket, and the rows of slices that are combined into nodes or removed.

All nodes of a close have their keys in the same order, so two nodes are combined as arrays, without a search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.columns import ColumnsKernel
from slicing.aggregates.kernel import locating
from slicing.aggregates.ranks import union
from slicing.aggregates.sorting import argsorted
from slicing.content.block import Block, Shape, encode_keys, show_key
from slicing.content.sizes import at_once, even_runs

FILLED_SHARE = 0.25
"""From this share of keys with records on, combining all keys is cheaper than gathering and scattering some of them."""
FILLED_CELLS = 1 << 18
"""Maximum number of cells that are filled at a time."""
ALL: Any = slice(None)


class Live:
    """The keys and dictionaries that all nodes of one close share. When keys are added, all nodes grow.

    A dictionary must stay sorted, so a new value changes ranks; every node created here is then re-ranked.
    """

    def __init__(self, shape: Shape):
        self.shape = shape
        self.names = shape.key_schema.empty_table()
        self.dictionaries = [kernel.no_dictionary for kernel in shape.kernels]
        self.whole_arrays = all(
            isinstance(kernel, ColumnsKernel) and np.object_ not in kernel.dtypes for kernel in shape.kernels
        )
        self._nodes: WeakSet[Node] = WeakSet()

    def node(self, chosen: Sequence[int]) -> Node:
        """Return a node without records for the kernels at `chosen`."""
        keys = len(self.names)
        partials = {i: self.shape.kernels[i].spread(keys) for i in chosen}
        return self.follow(Node(self, tuple(chosen), np.zeros(keys, dtype=np.int64), partials))

    def follow(self, node: Node) -> Node:
        """Register a node: it grows when keys are added, and its ranks follow the dictionaries."""
        self._nodes.add(node)
        return node

    def fills(self, rows: int, cells: int) -> bool:
        """Return whether rows of that number of cells are combined faster if all other cells are filled with `init()`.

        Always False if a cell costs a Python call: for functions of single rows, and for values that are Python
        objects.
        """
        return self.whole_arrays and 0 < rows >= FILLED_SHARE * cells

    def place(self, block: Block, chosen: Sequence[int]) -> Rows:
        """Return the rows of a block of the kernels at `chosen`, with the shared codes and ranks; it may add keys."""
        codes = self._codes(block.names)
        partials = [
            self._rank(index, columns, dictionary)
            for index, columns, dictionary in zip(chosen, block.partials, block.dictionaries, strict=True)
        ]
        dictionaries = {index: self.dictionaries[index] for index in chosen}
        return Rows(
            block.index, codes[block.keys], block.records, dict(zip(chosen, partials, strict=True)), dictionaries
        )

    def refresh(self, rows: Rows) -> Rows:
        """Return the rows with ranks in the current dictionaries."""
        stale = [i for i, dictionary in rows.dictionaries.items() if dictionary is not self.dictionaries[i]]
        if not stale:
            return rows
        partials = {i: self._rank(i, rows.partials[i], rows.dictionaries[i]) for i in stale}
        dictionaries = {i: self.dictionaries[i] for i in stale}
        return replace(rows, partials=rows.partials | partials, dictionaries=rows.dictionaries | dictionaries)

    def block(self, rows: Rows, chosen: Sequence[int]) -> Block:
        """Return the rows as a block of the kernels at `chosen`."""
        assert not isinstance(rows.codes, slice)
        return Block(
            rows.index,
            rows.codes,
            self.names,
            rows.records,
            [rows.partials[i] for i in chosen],
            [rows.dictionaries[i] for i in chosen],
        )

    def _codes(self, names: pa.Table) -> Array:
        """Return the codes of keys; unknown keys are added."""
        known = len(self.names)
        if names is self.names:
            return np.arange(known)
        codes, both = encode_keys(pa.concat_tables([self.names, names]))
        if len(both) > known:
            self.names = both
            for node in self._nodes:
                node.grow(len(self.names))
        return codes[known:]

    def _rank(self, index: int, columns: Partials, dictionary: pa.Array | None) -> Partials:
        old = self.dictionaries[index]
        if dictionary is None or old is None:
            return columns
        kernel, both = self.shape.kernels[index], union([old, dictionary])
        assert both is not None
        if len(both) == len(old):
            return kernel.over(columns, dictionary, old)
        for node in self._nodes:
            if index in node.partials:
                node.partials[index] = kernel.over(node.partials[index], old, both)
        self.dictionaries[index] = both
        return kernel.over(columns, dictionary, both)


@dataclass(frozen=True)
class Rows:
    """Rows of a block with the key codes of a `Live`, and with ranks in `dictionaries`, those of its creation.

    The rows of one slice may cover all keys in turn, with `init()` for a key without records. Then `codes` is a slice
    object and `index` is empty.
    """

    index: Array
    codes: Array | slice
    records: Array
    partials: dict[int, Partials]
    dictionaries: dict[int, pa.Array | None]

    def __len__(self) -> int:
        return len(self.records)

    def between(self, first: int, end: int) -> Rows:
        """Return the rows of slices `first` up to but not including `end`; rows must be sorted by slice."""
        return self.take(slice(*np.searchsorted(self.index, (first, end))))

    def only(self, chosen: Sequence[int]) -> Rows:
        """Return the same rows with the partials of the kernels at `chosen` only."""
        partials = {i: self.partials[i] for i in chosen}
        return replace(self, partials=partials, dictionaries={i: self.dictionaries[i] for i in chosen})

    def by_slice(self, first: int, end: int) -> list[Rows]:
        """Return the rows of each slice from `first` up to but not including `end`; rows must be sorted by slice."""
        edges = np.searchsorted(self.index, range(first, end + 1)).tolist()
        return [self.take(slice(*edge)) for edge in pairwise(edges)]

    def filled(self, live: Live, first: int, end: int) -> Iterator[Rows]:
        """Yield the same as `by_slice`; if many keys have records, with rows for all keys.

        For nodes that start without records.
        """
        for start, stop in _slice_runs(live, first, end):
            yield from self._slices(live, start, stop)

    def filled_backwards(self, live: Live, first: int, end: int) -> Iterator[Rows]:
        """Yield the same as `filled`, beginning with the last slice."""
        for start, stop in reversed(_slice_runs(live, first, end)):
            yield from reversed(self._slices(live, start, stop))

    def _slices(self, live: Live, first: int, end: int) -> list[Rows]:
        some = self.between(first, end)
        fills = live.fills(len(some), (end - first) * len(live.names))
        return some._fill(live, first, end) if fills else some.by_slice(first, end)

    def _fill(self, live: Live, first: int, end: int) -> list[Rows]:
        """Return rows for all keys, slice by slice."""
        keys = len(live.names)
        count, cells = (end - first) * keys, (self.index - first) * keys + self.codes
        records = np.zeros(count, dtype=np.int64)
        records[cells] = self.records
        partials = {i: live.shape.kernels[i].spread(count) for i in self.partials}
        for i, columns in self.partials.items():
            for filled, column in zip(partials[i], columns, strict=True):
                filled[cells] = column
        every, none = slice(keys), self.index[:0]
        return [
            Rows(
                none,
                every,
                records[at : at + keys],
                {i: [column[at : at + keys] for column in columns] for i, columns in partials.items()},
                self.dictionaries,
            )
            for at in range(0, count, keys)
        ]

    def in_lanes(self, length: int, first: int, keys: int) -> Rows:
        """Return the rows by position in their slice group; each group from `first` on has keys of its own.

        For concatenated nodes (`concatenated`), one per slice group. A slice group has `length` slices.
        """
        assert not isinstance(self.codes, slice)
        groups, positions = np.divmod(self.index, length)
        order, codes = argsorted(positions), (groups - first) * keys + self.codes
        partials = {i: [column[order] for column in columns] for i, columns in self.partials.items()}
        return Rows(positions[order], codes[order], self.records[order], partials, self.dictionaries)

    def take(self, rows: slice | Array) -> Rows:
        """Return the rows at these positions."""
        assert not isinstance(self.codes, slice)
        partials = {index: [column[rows] for column in columns] for index, columns in self.partials.items()}
        return Rows(self.index[rows], self.codes[rows], self.records[rows], partials, self.dictionaries)


class Node:
    """One partial and a count of records per key; a key without records has exactly `init()`.

    Several nodes can be concatenated to one (`concatenated`): its keys are their keys, node after node.
    """

    def __init__(self, live: Live, chosen: tuple[int, ...], records: Array, partials: dict[int, Partials]):
        self.live, self.chosen, self.records, self.partials = live, chosen, records, partials

    def grow(self, keys: int) -> None:
        """Make room for `keys` keys."""
        more = keys - len(self.records)
        if more > 0:
            self.records = np.concatenate([self.records, np.zeros(more, dtype=np.int64)])
            for i in self.chosen:
                fresh = self.live.shape.kernels[i].spread(more)
                self.partials[i] = [np.concatenate(pair) for pair in zip(self.partials[i], fresh, strict=True)]

    def copy(self) -> Node:
        """Return an independent node of the same content."""
        partials = {i: [column.copy() for column in columns] for i, columns in self.partials.items()}
        return self.live.follow(Node(self.live, self.chosen, self.records.copy(), partials))

    def with_older(self, rows: Rows) -> Node:
        """Return a node of this one and of rows of distinct keys, which are the older part."""
        return self._with(rows, newer=False)

    def with_newer(self, rows: Rows) -> Node:
        """Return a node of this one and of rows of distinct keys, which are the newer part."""
        return self._with(rows, newer=True)

    def _with(self, rows: Rows, newer: bool) -> Node:
        if not isinstance(rows.codes, slice) or len(rows) < len(self.records):
            node = self.copy()
            node._merge(rows, newer)
            return node
        rows = self.live.refresh(rows)
        partials = {}
        for i in self.chosen:
            own = self.partials[i]
            joined = self._combined(i, own, rows.partials[i], newer, ALL)
            # A user's function may return its argument, or a read-only array; a ufunc does neither.
            copy = None if self.live.shape.kernels[i].combine_ufuncs else True
            partials[i] = [np.array(new, old.dtype, copy=copy) for new, old in zip(joined, own, strict=True)]
        return self.live.follow(Node(self.live, self.chosen, self.records + rows.records, partials))

    def append(self, rows: Rows) -> None:
        """Combine rows of distinct keys into this node, as the newer part."""
        self._merge(rows, newer=True)

    def append_sums(self, rows: Rows) -> None:
        """Add rows of any slices at once, if partials are added field by field."""
        codes = np.asarray(rows.codes)
        np.add.at(self.records, codes, rows.records)
        for i in self.chosen:
            for column, more in zip(self.partials[i], rows.partials[i], strict=True):
                np.add.at(column, codes, more)

    def put(self, rows: Rows) -> None:
        """Replace the partials of some keys by those of rows; of several rows of a key the last one counts."""
        self.records[rows.codes] = rows.records
        for i in self.chosen:
            for column, new in zip(self.partials[i], rows.partials[i], strict=True):
                column[rows.codes] = new

    def append_slices(self, rows: Rows) -> None:
        """Combine rows of several slices into this node, one slice after another, as the newer part."""
        for index in np.unique(rows.index).tolist():
            self.append(rows.between(index, index + 1))

    def join(self, newer: Node) -> None:
        """Combine another node into this one, as the newer part."""
        filled = self.live.fills(int(np.count_nonzero(newer.records)), len(newer.records))
        self.append(newer._all() if filled else newer.rows())

    def _merge(self, rows: Rows, newer: bool) -> None:
        if not len(rows):
            return
        rows = self.live.refresh(rows)
        codes: Any = rows.codes
        met = ALL if isinstance(codes, slice) else _where(self.records[codes] > 0)
        both = codes if met is ALL else codes[met]
        for i in self.chosen:
            columns, more = self.partials[i], rows.partials[i]
            old, new = [column[both] for column in columns], [column[met] for column in more]
            if met is not ALL:
                for column, item in zip(columns, more, strict=True):
                    column[codes] = item
            if met is ALL or len(met):
                joined = self._combined(i, old, new, newer, both)
                for column, item in zip(columns, joined, strict=True):
                    column[both] = item
        self.records[codes] += rows.records

    def _combined(self, i: int, own: Partials, others: Partials, newer: bool, codes: Any) -> Partials:
        kernel = self.live.shape.kernels[i]
        with locating(lambda index: self._place(codes, index)):
            return kernel.combine(own, others) if newer else kernel.combine(others, own)

    def remove(self, rows: Rows) -> None:
        """Remove rows of distinct keys, the oldest part, by `invert`."""
        if not len(rows):
            return
        rows = self.live.refresh(rows)
        codes = rows.codes
        assert not isinstance(codes, slice)
        self.records[codes] -= rows.records
        rest = self.records[codes] > 0
        here, drained = _where(rest), codes[~rest]
        staying = codes[here]
        for i in self.chosen:
            kernel, columns = self.live.shape.kernels[i], self.partials[i]
            with locating(lambda index: self._place(staying, index)):
                left = kernel.invert([c[staying] for c in columns], [c[here] for c in rows.partials[i]])
            for column, new, init in zip(columns, left, kernel.spread(len(drained)), strict=True):
                column[staying] = new
                column[drained] = init

    def _place(self, codes: Any, index: int) -> str:
        code = index if isinstance(codes, slice) else int(codes[index])
        return show_key(self.live.names, code % len(self.live.names))

    def split(self, count: int) -> list[Node]:
        """Split a concatenation of `count` nodes into independent nodes, which grow with the keys."""
        keys = len(self.records) // count
        parts = [slice(at * keys, (at + 1) * keys) for at in range(count)]
        return [
            self.live.follow(
                Node(
                    self.live,
                    self.chosen,
                    self.records[part].copy(),
                    {i: [column[part].copy() for column in self.partials[i]] for i in self.chosen},
                )
            )
            for part in parts
        ]

    def pick(self, which: Array) -> Node:
        """Return some of several concatenated nodes, by their numbers, as concatenated nodes."""
        keys = len(self.live.names)
        if not keys:
            return self

        def rows(column: Array) -> Array:
            return column.reshape(-1, keys)[which].reshape(-1)

        partials = {i: [rows(column) for column in self.partials[i]] for i in self.chosen}
        return Node(self.live, self.chosen, rows(self.records), partials)

    def _all(self) -> Rows:
        none: Array = np.zeros(0, dtype=np.int64)
        return Rows(none, slice(len(self.records)), self.records, self.partials, self._dictionaries())

    def rows(self) -> Rows:
        """Return the keys that have records, as rows of slice 0."""
        return self.at(np.flatnonzero(self.records))

    def at(self, codes: Array) -> Rows:
        """Return some distinct keys, as rows of slice 0."""
        partials = {i: [column[codes] for column in self.partials[i]] for i in self.chosen}
        return Rows(np.zeros(len(codes), dtype=np.int64), codes, self.records[codes], partials, self._dictionaries())

    def _dictionaries(self) -> dict[int, pa.Array | None]:
        return {i: self.live.dictionaries[i] for i in self.chosen}

    def block(self) -> Block:
        """Return the keys that have records, as a block of the chosen kernels in slice 0."""
        return self.live.block(self.rows(), self.chosen)


def concatenated(nodes: Sequence[Node]) -> Node:
    """Concatenate nodes: key `k` of node `i` becomes key `i * keys + k`. The result does not grow with the keys."""
    if len(nodes) == 1:
        return nodes[0]
    live, chosen = nodes[0].live, nodes[0].chosen
    partials = {i: [np.concatenate(c) for c in zip(*(n.partials[i] for n in nodes), strict=True)] for i in chosen}
    return Node(live, chosen, np.concatenate([node.records for node in nodes]), partials)


def _where(mask: Array) -> Any:
    return ALL if mask.all() else np.flatnonzero(mask)


def _slice_runs(live: Live, first: int, end: int) -> list[tuple[int, int]]:
    return list(even_runs(first, end, at_once(FILLED_CELLS, max(1, len(live.names)))))
