"""The two trees as caches that move forward one window at a time; what a stream uses while its windows close in turn.

A *node* holds one partial for every key of a bucket. `TwoLayer` keeps one node, the total of a window. `ThreeLayer`
keeps, for the window that closed last::

                oldest stripe p                 whole stripes            newest stripe q
    slices   |  .  .  a [-----) |  p+1   |  p+2   |   ...   |  q-1   |----) .  .  .  |
    nodes         suffix(a)      [ rest of a group | start of the next ] run

`suffix(a)` is there for every start in p, made when p becomes the oldest; `rest` for every stripe of a group, made from
the stripes' totals when the window leaves the group before; `start` and `run` grow. A window is
`(suffix(a) + (rest + start)) + run`, the association of `slicing.assembly`, so both give the same floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from slicing.assembly import group_length
from slicing.blocks import Block, Shape, empty, encode_keys, regroup, rerank
from slicing.kernel import Array, Partials, locating, union


class Live:
    """The keys and dictionaries that all nodes of one close share; nodes grow with them.

    A dictionary must stay sorted, so new values change ranks: every node made here is re-ranked when that happens.
    """

    def __init__(self, shape: Shape):
        self.shape = shape
        self.names = shape.key_schema.empty_table()
        self.dictionaries = [kernel.no_dictionary for kernel in shape.kernels]
        self._nodes: WeakSet[Node] = WeakSet()

    def node(self, chosen: Sequence[int], keys: int | None = None) -> Node:
        """A node of no records for the kernels at `chosen`, with room for all keys if not told for how many."""
        node = Node(self, tuple(chosen), len(self.names) if keys is None else keys)
        self._nodes.add(node)
        return node

    def place(self, block: Block, chosen: Sequence[int]) -> Rows:
        """The rows of a block of the kernels at `chosen`, with codes and ranks that the nodes share."""
        codes, self.names = encode_keys(pa.concat_tables([self.names, block.names]))
        codes = codes[len(codes) - len(block.names) :]
        partials = [
            self._rank(index, columns, dictionary)
            for index, columns, dictionary in zip(chosen, block.partials, block.dictionaries, strict=True)
        ]
        for node in self._nodes:
            node.grow(len(self.names))
        dictionaries = {index: self.dictionaries[index] for index in chosen}
        return Rows(
            block.slices, codes[block.keys], block.records, dict(zip(chosen, partials, strict=True)), dictionaries
        )

    def refresh(self, rows: Rows) -> Rows:
        """The rows with ranks in the dictionaries of now."""
        stale = [i for i, dictionary in rows.dictionaries.items() if dictionary is not self.dictionaries[i]]
        if not stale:
            return rows
        partials = {i: self._rank(i, rows.partials[i], rows.dictionaries[i]) for i in stale}
        dictionaries = {i: self.dictionaries[i] for i in stale}
        return replace(rows, partials=rows.partials | partials, dictionaries=rows.dictionaries | dictionaries)

    def block(self, rows: Rows, chosen: Sequence[int]) -> Block:
        """Rows as a block of the kernels at `chosen`."""
        return Block(
            rows.slices,
            rows.codes,
            self.names,
            rows.records,
            [rows.partials[i] for i in chosen],
            [rows.dictionaries[i] for i in chosen],
        )

    def _rank(self, index: int, columns: Partials, dictionary: pa.Array | None) -> Partials:
        old = self.dictionaries[index]
        if dictionary is None or old is None:
            return columns
        kernel, both = self.shape.kernels[index], union([old, dictionary])
        assert both is not None
        if len(both) == len(old):
            return rerank(kernel, columns, dictionary, old)
        for node in self._nodes:
            if index in node.partials:
                node.partials[index] = rerank(kernel, node.partials[index], old, both)
        self.dictionaries[index] = both
        return rerank(kernel, columns, dictionary, both)


@dataclass(frozen=True)
class Rows:
    """Rows of a block whose keys are those of a `Live`, and whose ranks were when it was placed."""

    slices: Array
    codes: Array
    records: Array
    partials: dict[int, Partials]
    dictionaries: dict[int, pa.Array | None]

    def between(self, first: int, end: int) -> Rows:
        """The rows of slices `first` up to but not including `end`; rows must be sorted by slice."""
        rows = slice(*np.searchsorted(self.slices, (first, end)))
        partials = {index: [column[rows] for column in columns] for index, columns in self.partials.items()}
        return Rows(self.slices[rows], self.codes[rows], self.records[rows], partials, self.dictionaries)


class Node:
    """One partial and a count of records for every key; a key without records has `init()`, exactly."""

    def __init__(self, live: Live, chosen: tuple[int, ...], keys: int):
        self.live, self.chosen = live, chosen
        self.records: Array = np.zeros(0, dtype=np.int64)
        self.partials: dict[int, Partials] = {i: live.shape.kernels[i].spread(0) for i in chosen}
        self.grow(keys)

    def grow(self, keys: int) -> None:
        """Make room for `keys` keys."""
        more = keys - len(self.records)
        if more > 0:
            self.records = np.concatenate([self.records, np.zeros(more, dtype=np.int64)])
            for i in self.chosen:
                fresh = self.live.shape.kernels[i].spread(more)
                self.partials[i] = [np.concatenate(pair) for pair in zip(self.partials[i], fresh, strict=True)]

    def copy(self) -> Node:
        """An independent node of the same content."""
        node = self.live.node(self.chosen, 0)
        node.records = self.records.copy()
        node.partials = {i: [column.copy() for column in columns] for i, columns in self.partials.items()}
        return node

    def append(self, rows: Rows) -> None:
        """Combine rows of distinct keys to what is there, as the newer part."""
        self._merge(rows, newer=True)

    def prepend(self, rows: Rows) -> None:
        """Combine rows of distinct keys to what is there, as the older part."""
        self._merge(rows, newer=False)

    def join(self, newer: Node) -> None:
        """Combine another node to this one, as the newer part."""
        if self.records.all() and newer.records.all():
            self._join_all(newer)
            return
        codes = np.flatnonzero(newer.records)
        partials = {i: [column[codes] for column in newer.partials[i]] for i in self.chosen}
        dictionaries = {i: self.live.dictionaries[i] for i in self.chosen}
        self.append(Rows(codes, codes, newer.records[codes], partials, dictionaries))

    def _join_all(self, newer: Node) -> None:
        """`join` where both have records of every key: nothing is gathered or scattered."""
        for i in self.chosen:
            with locating(self._place):
                joined = self.live.shape.kernels[i].combine(self.partials[i], newer.partials[i])
            for column, new in zip(self.partials[i], joined, strict=True):
                column[:] = new  # in place: a combine may give back one of its arguments
        self.records += newer.records

    def _merge(self, rows: Rows, newer: bool) -> None:
        rows = self.live.refresh(rows)
        codes = rows.codes
        known = self.records[codes] > 0
        both, here = (codes, slice(None)) if known.all() else (codes[known], np.flatnonzero(known))
        for i in self.chosen:
            kernel, columns, more = self.live.shape.kernels[i], self.partials[i], rows.partials[i]
            if len(both):
                old, new = [column[both] for column in columns], [column[here] for column in more]
                with locating(lambda index: self._place(both[index])):
                    joined = kernel.combine(old, new) if newer else kernel.combine(new, old)
            for at, column in enumerate(columns):
                column[codes] = more[at]
                if len(both):
                    column[both] = joined[at]
        self.records[codes] += rows.records

    def remove(self, rows: Rows) -> None:
        """Invert rows of distinct keys, the oldest part, out of what is there."""
        rows = self.live.refresh(rows)
        codes = rows.codes
        self.records[codes] -= rows.records
        rest = self.records[codes] > 0
        staying, drained = codes[rest], codes[~rest]
        for i in self.chosen:
            kernel, columns = self.live.shape.kernels[i], self.partials[i]
            with locating(lambda index: self._place(staying[index])):
                left = kernel.invert([c[staying] for c in columns], [c[rest] for c in rows.partials[i]])
            for column, new, init in zip(columns, left, kernel.spread(len(drained)), strict=True):
                column[staying] = new
                column[drained] = init

    def _place(self, code: int) -> str:
        return f"key {tuple(self.live.names.slice(int(code), 1).to_pylist()[0].values())}"

    def rows(self) -> Rows:
        """The keys that have records, as rows of slice 0."""
        codes = np.flatnonzero(self.records)
        partials = {i: [column[codes] for column in self.partials[i]] for i in self.chosen}
        dictionaries = {i: self.live.dictionaries[i] for i in self.chosen}
        return Rows(np.zeros(len(codes), dtype=np.int64), codes, self.records[codes], partials, dictionaries)

    def block(self) -> Block:
        """The keys that have records, as a block of the chosen kernels in slice 0."""
        return self.live.block(self.rows(), self.chosen)


class Cache(Protocol):
    """Where a tree keeps its nodes between two closes: blocks by name. Blocks are of the tree's kernels."""

    def load(self, name: str) -> Block | None:
        """The block of that name, None if there is none."""

    def save(self, name: str, block: Block) -> None:
        """Write or replace a block."""

    def drop(self, name: str) -> None:
        """Forget a block, if it is there."""

    def clear(self) -> None:
        """Forget all blocks."""

    def names(self) -> list[str]:
        """The names of all blocks."""

    def append(self, name: str, block: Block) -> None:
        """Add rows to a list of blocks, which `load` gives folded into one."""


class TwoLayer:
    """The running total: slices enter, the window is read off, slices leave. 2 combines per window and key."""

    def __init__(self, live: Live, chosen: Sequence[int], cache: Cache):
        self.cache = cache
        self.live, self.chosen = live, tuple(chosen)
        self.total = _load(live, self.chosen, cache, "total")

    def late(self, rows: Rows) -> None:
        """Count rows of slices that have entered before."""
        for index in np.unique(rows.slices):
            self.total.append(rows.between(int(index), int(index) + 1))

    def enter(self, rows: Rows) -> None:
        """Count the rows of the next slice."""
        self.total.append(rows)

    def leave(self, rows: Rows) -> None:
        """Take out the rows of the oldest slice."""
        self.total.remove(rows)

    def reset(self, total: Node) -> None:
        """Start again from a total that was assembled from slices."""
        self.total = total

    def save(self) -> None:
        """Write what the next close needs: one node."""
        self.cache.save("total", self.total.block())


class ThreeLayer:
    """The nodes of the three-layer tree for the window before `window`, moved forward slice by slice.

    `slices(first, end)` gives the folded rows of slices that have entered. Nodes that this close will not read (slices
    up to `until` start windows in it) are written at once, not kept in memory.
    """

    def __init__(
        self,
        live: Live,
        chosen: Sequence[int],
        cache: Cache,
        slices: Callable[[int, int], Rows],
        window: int,
        until: int,
    ):
        self.live, self.chosen, self.cache, self.slices, self.until = live, tuple(chosen), cache, slices, until
        slicing = live.shape.slicing
        self.n, self.stripe, self.step = slicing.per_window, slicing.stripe, slicing.per_advance
        self.group = group_length(slicing)
        oldest = slicing.first_slice(window - 1)
        self.p, self.q = oldest // self.stripe, (oldest + self.n - 1) // self.stripe
        self.run = _load(live, self.chosen, cache, "run")
        self._nodes: dict[str, Node] = {}
        self._between: Node | None = None
        self._late_suffix: Block | None = None
        self._between_changed = False
        self._shape = live.shape.select(self.chosen)

    def late(self, rows: Rows, oldest: int) -> None:
        """Count rows of slices from `oldest` on that have entered before.

        Those of the newest stripe join its node. The others are kept beside the tree until their stripe becomes the
        oldest, when its suffixes are made from all its slices. If `combine` is not commutative, all is made anew.
        """
        if any(self.live.shape.kernels[i].aggregate.ordered for i in self.chosen):
            self.rebuild(oldest)
            return
        newest, second = self.q * self.stripe, (self.p + 1) * self.stripe
        ends = (-(1 << 62), second, newest, 1 << 62)
        suffix, between, run = (rows.between(a, b) for a, b in pairwise(ends))
        for index in np.unique(run.slices):
            self.run.append(run.between(int(index), int(index) + 1))
        if len(suffix.codes):
            self._late_suffix = None
            self.cache.append("late suffix", regroup(self._shape, self.live.block(suffix, self.chosen)))
        if len(between.codes):
            self._middle()
            by_stripe = replace(between, slices=between.slices // self.stripe * self.stripe)
            folded = regroup(self._shape, self.live.block(by_stripe, self.chosen))
            self.cache.append("late between", folded)
            self._add_late(self._middle(), folded)
            self._between_changed = True

    def enter(self, index: int, rows: Rows) -> None:
        """Count the rows of the next slice, `index`."""
        if index // self.stripe > self.q:
            self._complete_stripe()
        self.run.append(rows)

    def _complete_stripe(self) -> None:
        """The newest stripe is whole: it joins the start of its group, and waits for the group to become the oldest."""
        done, self.q = self.q, self.q + 1
        self.cache.save(f"stripe {done}", self.run.block())
        if done % self.group == 0:
            start = self.run
        else:
            start = self._node("start")
            start.join(self.run)
        self._nodes["start"] = start
        self.run = self.live.node(self.chosen)
        self._forget_between()

    def reach(self, oldest: int) -> int:
        """The end of the slices that `advance` reads on the way to `oldest`; `oldest` itself if it reads none."""
        return (oldest // self.stripe + 1) * self.stripe if oldest // self.stripe > self.p else oldest

    def advance(self, oldest: int) -> None:
        """Let `oldest` be the first slice of the window."""
        if oldest // self.stripe == self.p:
            return
        for name in [*self.cache.names(), *self._nodes]:
            if name.startswith("suffix "):
                self._drop(name)
        self.cache.drop("late suffix")
        self._late_suffix = None
        self.p += 1
        assert oldest // self.stripe == self.p, "windows close one after another"
        self._drop(f"rest {self.p}")
        if (self.p + 1) % self.group == 0:
            self._begin_group()
        self._leave_late_between()
        self._begin_stripe(oldest)
        self._forget_between()

    def _begin_group(self) -> None:
        """From the totals of the group that is now the oldest: the rest of the group, from each of its stripes."""
        rest = self.live.node(self.chosen)
        for stripe in range(self.p + self.group, self.p, -1):
            total = self._node(f"stripe {stripe}")
            self._drop(f"stripe {stripe}")
            total.join(rest)
            rest = total
            self.cache.save(f"rest {stripe}", rest.block())

    def _begin_stripe(self, oldest: int) -> None:
        """From the slices of the stripe that is now the oldest: its rest, from each start of a window in it."""
        first = self.p * self.stripe
        end = first + self.stripe
        rows = self.slices(max(first, oldest), end)
        suffix = self.live.node(self.chosen)
        for index in range(end - 1, max(first, oldest) - 1, -1):
            suffix.prepend(rows.between(index, index + 1))
            if index % self.step == 0:
                if index <= self.until:
                    self._nodes[f"suffix {index}"] = suffix.copy()
                else:
                    self.cache.save(f"suffix {index}", suffix.block())

    def value(self, oldest: int) -> Node:
        """The window that starts at slice `oldest`, as a node of its own."""
        node = self._node(f"suffix {oldest}").copy()
        if self._late_suffix is None:
            self._late_suffix = self.cache.load("late suffix") or empty(self._shape)
        if len(self._late_suffix):
            self._add_late(node, self._late_suffix.between(oldest, 1 << 62))
        node.join(self._middle())
        node.join(self.run)
        self._drop(f"suffix {oldest}")
        return node

    def _middle(self) -> Node:
        """The whole stripes between p and q."""
        if self._between is None:
            saved = self.cache.load("between")
            if saved is not None:
                self._between = _place(self.live, self.chosen, saved)
            else:
                self._between = self._node(f"rest {self.p + 1}").copy()
                if (self.q - 1) // self.group > (self.p + 1) // self.group:
                    self._between.join(self._node("start"))
                late = self.cache.load("late between")
                if late is not None:
                    self._add_late(self._between, late.between((self.p + 1) * self.stripe, 1 << 62))
                self._between_changed = True
        return self._between

    def _add_late(self, node: Node, late: Block) -> None:
        """Combine rows that came late: several slices of a key count once each, in time order."""
        once = regroup(self._shape, replace(late, slices=np.zeros_like(late.slices)))
        if len(once):
            node.append(self.live.place(once, self.chosen))

    def _leave_late_between(self) -> None:
        late = self.cache.load("late between")
        if late is not None:
            self.cache.drop("late between")
            rest = late.between((self.p + 1) * self.stripe, 1 << 62)
            if len(rest):
                self.cache.append("late between", rest)

    def rebuild(self, oldest: int) -> None:
        """Make all nodes anew from the slices of the window before the one that starts at `oldest`."""
        self.cache.clear()
        self._nodes.clear()
        self._late_suffix = None
        self._forget_between()
        before = oldest - self.step
        self.p, self.q = before // self.stripe, (before + self.n - 1) // self.stripe
        front = (self.p + 1) // self.group
        for stripe in range(self.p + 1, self.q):
            total = self._prefix(stripe, before + self.n)
            if stripe // self.group == front:
                self._nodes[f"stripe {stripe}"] = total
                continue
            self.cache.save(f"stripe {stripe}", total.block())
            start = total if stripe % self.group == 0 else self._node("start")
            if start is not total:
                start.join(total)
            self._nodes["start"] = start
        self._rebuild_rest(front)
        self.run = self._prefix(self.q, before + self.n)
        if oldest // self.stripe == self.p:
            self._begin_stripe(oldest)

    def _rebuild_rest(self, front: int) -> None:
        rest = self.live.node(self.chosen)
        for stripe in range(min(front * self.group + self.group, self.q) - 1, self.p, -1):
            total = self._nodes.pop(f"stripe {stripe}")
            total.join(rest)
            rest = total
            self.cache.save(f"rest {stripe}", rest.block())

    def _prefix(self, stripe: int, end: int) -> Node:
        """The slices of a stripe before `end`, combined from the oldest on."""
        first = stripe * self.stripe
        rows = self.slices(first, min(first + self.stripe, end))
        node = self.live.node(self.chosen)
        for index in np.unique(rows.slices):
            node.append(rows.between(int(index), int(index) + 1))
        return node

    def save(self) -> None:
        """Write what changed and the next close needs."""
        self.cache.save("run", self.run.block())
        if "start" in self._nodes:
            self.cache.save("start", self._nodes["start"].block())
        if self._between is not None and self._between_changed:
            self.cache.save("between", self._between.block())

    def _node(self, name: str) -> Node:
        if name not in self._nodes:
            self._nodes[name] = _load(self.live, self.chosen, self.cache, name)
        return self._nodes[name]

    def _drop(self, name: str) -> None:
        self._nodes.pop(name, None)
        self.cache.drop(name)

    def _forget_between(self) -> None:
        self._between = None
        self.cache.drop("between")


def _load(live: Live, chosen: tuple[int, ...], cache: Cache, name: str) -> Node:
    block = cache.load(name)
    return live.node(chosen) if block is None else _place(live, chosen, block)


def _place(live: Live, chosen: tuple[int, ...], block: Block) -> Node:
    rows = live.place(block, chosen)
    node = live.node(chosen)
    node.append(rows)
    return node
