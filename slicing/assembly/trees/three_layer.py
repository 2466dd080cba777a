"""The three-layer tree as a cache that moves forward from close to close, while windows close one after another.

A slice group is a run of about sqrt(n) consecutive slices. An outer group is a run of slice groups. `ThreeLayer` keeps
these nodes for the window that closed last::

                oldest group p                  whole groups             newest group q
    slices   |  .  .  a [-----) |  p+1   |  p+2   |   ...   |  q-1   |----) .  .  .  |
    nodes         suffix(a)      [rest of outer group|start of the next] run

`suffix(a)` exists for every window start a in p. The suffixes are computed when p becomes the oldest slice group, or
when one is missing. `rest` exists for every slice group of an outer group; the rests are computed from the totals of
the slice groups when the window leaves the previous outer group. `start` and `run` grow with each slice that enters.
A window is `(suffix(a) + (rest + start)) + run`. `assembly.trees.matrix` combines in the same order, so both give the
same floats. Windows with the same p and q are combined in two calls, as concatenated nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np

from slicing.assembly.choice import outer_group_length
from slicing.assembly.trees.cache import Cache, node_of
from slicing.assembly.trees.deferred_writes import Deferring
from slicing.assembly.trees.node_keys import (
    BETWEEN,
    LATE_BETWEEN,
    LATE_SUFFIX,
    RUN,
    START,
    NodeKey,
    Part,
    rest_from,
    suffix_from,
    total_of,
)
from slicing.assembly.trees.nodes import FILLED_CELLS, Live, Node, Rows, concatenated
from slicing.content.block import Block, empty
from slicing.content.folding import regroup
from slicing.content.sizes import at_once
from slicing.windows.families.family import regular

FEW_KEYS = 1000
"""Up to this number of keys, whole slice groups are combined at once. With more, one call per slice is cheaper."""


class ThreeLayer:
    """The nodes of the three-layer tree for the window before `window`, moved forward slice by slice.

    `slices(first, end)` returns the folded rows of slices that have entered; `in_steps` yields them in parts that fit
    into memory. Windows of this close start at slices up to `until`. The suffixes of later slices are written for the
    next close, all at once. They are not written if this close moves over a whole slice group: the next one may do so
    too, and then reading the rest of that group again is cheaper than reading the suffixes one by one.

    A slice group has `length` slices, an outer group has `outer` slice groups.
    """

    def __init__(
        self,
        live: Live,
        chosen: Sequence[int],
        cache: Cache,
        slices: Callable[[int, int], Rows],
        in_steps: Callable[[int, int], Iterator[Rows]],
        window: int,
        until: int,
    ):
        self.live, self.chosen, self.until = live, tuple(chosen), until
        self.cache = Deferring(cache, live.shape.select(chosen))
        self.slices, self.in_steps = slices, in_steps
        family = regular(live.shape.family)
        self.n, self.step = family.per_window, family.per_advance
        self.length, self.outer = family.slices_per_group, outer_group_length(family)
        self.shift = family.shift
        self.leaves_suffixes = until - family.first_slice(window) < self.length
        oldest = family.first_slice(window - 1)
        self.p, self.q = oldest // self.length, (oldest + self.n - 1) // self.length
        self.run = self._read(RUN)
        self._nodes: dict[NodeKey, Node] = {}
        self._late_suffix: Block | None = None

    def late(self, rows: Rows, oldest: int) -> None:
        """Add rows of slices that have entered before, from `oldest` on, where the next window starts.

        Rows of the newest slice group are combined into its node. Other rows are stored separately until their slice
        group becomes the oldest; its suffixes are then computed from all its slices. If `combine` is not
        commutative, all nodes are computed again.
        """
        if any(self.live.shape.kernels[i].aggregate.ordered for i in self.chosen):
            self.rebuild(oldest)
            return
        newest, second = self.q * self.length, (self.p + 1) * self.length
        ends = (-(1 << 62), second, newest, 1 << 62)
        suffix, between, run = (rows.between(a, b) for a, b in pairwise(ends))
        self.run.append_slices(run)
        if len(suffix):
            self._late_suffix = None
            self.cache.append(LATE_SUFFIX, regroup(self.cache.shape, self.live.block(suffix, self.chosen)))
        if len(between):
            middle = self._middle()  # read before the rows are stored, else they count twice
            by_group = replace(between, index=between.index // self.length * self.length)
            folded = regroup(self.cache.shape, self.live.block(by_group, self.chosen))
            self.cache.append(LATE_BETWEEN, folded)
            self._add_late(middle, folded)
            self.cache.drop(BETWEEN)

    def learn_keys(self) -> None:
        """Read the whole groups, so that their keys are known: the number of windows at a time depends on the keys."""
        self._middle()

    def together(self, window: int, end: int) -> int:
        """Return the end, at most `end`, of the windows from `window` on that are assembled in one call.

        With few keys, these are the windows of several whole oldest groups; otherwise, the windows that have the same
        oldest and newest group.
        """
        oldest = self._start(window)
        first, keys = oldest // self.length, len(self.live.names)
        groups = min(self._start(end) // self.length - first, FILLED_CELLS // max(1, self.length * keys))
        if first > self.p and groups > 1 and keys <= FEW_KEYS:
            return -((self.shift - (first + groups) * self.length) // self.step)
        newest = oldest + self.n - 1
        room = self.length - 1 - max(oldest % self.length, newest % self.length)
        return min(end, window + room // self.step + 1)

    def windows(self, first: int, end: int, entering: Rows) -> Node:
        """Return windows `first` up to but not including `end` as concatenated nodes; `entering` has their new rows.

        These must be the windows that close next, and `end` at most the result of `together`.
        """
        oldest, last = self._start(first), self._start(end - 1)
        if last // self.length > max(self.p, oldest // self.length):
            return self._of_groups(oldest, last, entering)
        newest = oldest + self.n - 1
        enter = iter(entering.filled(self.live, newest - self.step + 1, last + self.n))
        runs: list[Node] = []
        for rows in enter:
            newest = oldest + len(runs) * self.step + self.n - 1
            for index, part in enumerate((rows, *islice(enter, self.step - 1)), newest - self.step + 1):
                self._enter(index, part)
            if not runs:
                self._advance(oldest)
            runs.append(self.run)
        suffixes = [self._suffix(oldest + self.step * at) for at in range(len(runs))]
        middle = self._middle()  # every read that may add keys comes before nodes are concatenated
        total = concatenated(suffixes)
        total.join(concatenated([middle] * len(runs)))
        total.join(concatenated(runs))
        return total

    def _start(self, window: int) -> int:
        """Return the first slice of a window."""
        return window * self.step + self.shift

    def _of_groups(self, first: int, last: int, entering: Rows) -> Node:
        """Return the windows that start at slices `first` to `last`: all windows of several oldest groups.

        Slices at the same position of their groups are combined in one call. The nodes, and the order in which parts
        are combined, are the same as if windows were assembled one by one.
        """
        starts = np.arange(first, last + 1, self.step)
        old, new = starts // self.length, (starts + self.n - 1) // self.length
        p, q, end = int(old[0]), self.q, int(old[-1]) + 1
        self._read_nodes(end)
        leaving = self.live.refresh(self.slices(first, end * self.length).only(self.chosen))
        entering = self.live.refresh(entering)
        keys = len(self.live.names)
        none = self.live.node(self.chosen)
        suffixes, suffix = [], concatenated([none] * (end - p))
        for part in reversed(leaving.in_lanes(self.length, p, keys).by_slice(0, self.length)):
            suffix = suffix.with_older(part)
            suffixes.append(suffix)
        runs, run = [], concatenated([self.run, *[none] * (int(new[-1]) - q)])
        for part in entering.in_lanes(self.length, q, keys).by_slice(0, self.length):
            run = run.with_newer(part)
            runs.append(run)
        totals, middles = run.split(int(new[-1]) - q + 1), []
        changes = (np.diff(old, prepend=old[0] - 1) != 0) | (np.diff(new, prepend=new[0] - 1) != 0)
        for at in np.flatnonzero(changes).tolist():
            while self.q < new[at]:
                self.run = totals[self.q - q]
                self._complete_group()
            if old[at] > self.p:
                self._leave_group()
            middles.append(self._middle())
        place = (starts[-1] + self.n - 1) % self.length
        self.run = runs[place].split(len(totals))[-1]
        assert keys == len(self.live.names), "nodes on end do not grow"
        total = concatenated(suffixes).pick((self.length - 1 - starts % self.length) * (end - p) + old - p)
        total.join(concatenated(middles).pick(np.cumsum(changes) - 1))
        total.join(concatenated(runs).pick((starts + self.n - 1) % self.length * len(totals) + new - q))
        return total

    def _read_nodes(self, end: int) -> None:
        """Read all nodes that are needed until group `end` is the oldest: concatenated nodes cannot add keys later."""
        until = {Part.REST: end + 1, Part.GROUP: (end // self.outer + 1) * self.outer}
        for key in self.cache:
            if key == START or (key.at is not None and self.p + 1 < key.at < until.get(key.part, self.p)):
                self._node(key)
        late = self.cache.load(LATE_BETWEEN)
        if late is not None:
            self.live.place(late, self.chosen)

    def _enter(self, index: int, rows: Rows) -> None:
        """Add the rows of the next slice, `index`."""
        if index // self.length > self.q:
            self._complete_group()
        self.run = self.run.with_newer(rows)

    def _complete_group(self) -> None:
        """Combine the complete newest group into the start of its outer group, and save its total for the rests."""
        complete, self.q = self.q, self.q + 1
        self.cache.save(total_of(complete), self.run.block())
        if complete % self.outer == 0:
            start = self.run
        else:
            start = self._node(START)
            start.join(self.run)
        self._nodes[START] = start
        self.run = self.live.node(self.chosen)
        self._drop(BETWEEN)

    def reach(self, oldest: int) -> int:
        """Return the end of the slices that are read to move to `oldest`; `oldest` itself if none are read."""
        changes = oldest // self.length > self.p or not self._has_suffix(oldest)
        return (oldest // self.length + 1) * self.length if changes else oldest

    def _has_suffix(self, oldest: int) -> bool:
        key = suffix_from(oldest)
        return key in self._nodes or key in self.cache

    def _advance(self, oldest: int) -> None:
        """Move forward to a window that starts at slice `oldest`."""
        if oldest // self.length > self.p:
            self._leave_group()
            assert oldest // self.length == self.p, "windows close one after another"
            self._begin_group(oldest)
        elif not self._has_suffix(oldest):
            self._begin_group(oldest)

    def _leave_group(self) -> None:
        """Move to the next oldest group: no later window starts in the current one."""
        for key in [*self.cache, *self._nodes]:
            if key.part is Part.SUFFIX:
                self._drop(key)
        self.cache.drop(LATE_SUFFIX)
        self._late_suffix = None
        self.p += 1
        self._drop(rest_from(self.p))
        if (self.p + 1) % self.outer == 0:
            self._begin_outer_group()
        self._leave_late_between()
        self._drop(BETWEEN)

    def _begin_outer_group(self) -> None:
        """Compute the rests of the outer group that is now the oldest from totals, one for each of its slice groups."""
        rest = self.live.node(self.chosen)
        for group in range(self.p + self.outer, self.p, -1):
            total = self._node(total_of(group))
            self._drop(total_of(group))
            total.join(rest)
            rest = total
            self.cache.save(rest_from(group), rest.block())

    def _begin_group(self, oldest: int) -> None:
        """Compute the suffixes of the group that is now the oldest, one for each window start from `oldest` on."""
        self.cache.drop(LATE_SUFFIX)
        self._late_suffix = None
        end = (self.p + 1) * self.length
        rows = self.slices(oldest, end).only(self.chosen)
        if not len(rows):
            return  # a missing node counts as a node without records
        suffix = self.live.node(self.chosen)
        for index, part in zip(
            reversed(range(oldest, end)), rows.filled_backwards(self.live, oldest, end), strict=True
        ):
            suffix = suffix.with_older(part)
            if (index - self.shift) % self.step == 0:
                if index <= self.until:
                    self._nodes[suffix_from(index)] = suffix
                elif self.leaves_suffixes:
                    self.cache.save(suffix_from(index), suffix.block())

    def _suffix(self, oldest: int) -> Node:
        """Return the part of the oldest group in the window that starts at slice `oldest`."""
        node = self._node(suffix_from(oldest))
        self._drop(suffix_from(oldest))
        if self._late_suffix is None:
            self._late_suffix = self.cache.load(LATE_SUFFIX) or empty(self.cache.shape)
        if len(self._late_suffix):
            self._add_late(node, self._late_suffix.between(oldest, 1 << 62))
        return node

    def _middle(self) -> Node:
        """Return the node of the whole groups between p and q."""
        if BETWEEN in self._nodes or BETWEEN in self.cache:
            return self._node(BETWEEN)
        between = self._node(rest_from(self.p + 1)).copy()
        if (self.q - 1) // self.outer > (self.p + 1) // self.outer:
            between.join(self._node(START))
        late = self.cache.load(LATE_BETWEEN)
        if late is not None:
            self._add_late(between, late.between((self.p + 1) * self.length, 1 << 62))
        self._nodes[BETWEEN] = between
        return between

    def _add_late(self, node: Node, late: Block) -> None:
        """Combine late rows into a node; several slices of a key are first combined in the order of time."""
        once = regroup(self.cache.shape, replace(late, index=np.zeros_like(late.index)))
        if len(once):
            node.append(self.live.place(once, self.chosen))

    def _leave_late_between(self) -> None:
        late = self.cache.load(LATE_BETWEEN)
        if late is not None:
            self.cache.drop(LATE_BETWEEN)
            rest = late.between((self.p + 1) * self.length, 1 << 62)
            if len(rest):
                self.cache.append(LATE_BETWEEN, rest)

    def rebuild(self, oldest: int) -> None:
        """Compute all nodes again from the slices of the window before the one that starts at slice `oldest`."""
        self.cache.clear()
        self._nodes.clear()
        self._late_suffix = None
        before = oldest - self.step
        self.p, self.q = before // self.length, (before + self.n - 1) // self.length
        front = (self.p + 1) // self.outer
        for group, total in self._totals(self.p + 1, self.q):
            if group // self.outer == front:
                self._nodes[total_of(group)] = total
                continue
            self.cache.save(total_of(group), total.block())
            start = total if group % self.outer == 0 else self._node(START)
            if start is not total:
                start.join(total)
            self._nodes[START] = start
        self._rebuild_rest(front)
        self.run = self._prefix(self.q, before + self.n)
        needed = oldest <= self.until or self.leaves_suffixes  # by this close or by the next
        if needed and oldest // self.length == self.p:
            self._begin_group(oldest)

    def _rebuild_rest(self, front: int) -> None:
        rest = self.live.node(self.chosen)
        for group in range(min(front * self.outer + self.outer, self.q) - 1, self.p, -1):
            total = self._nodes.pop(total_of(group))
            total.join(rest)
            rest = total
            self.cache.save(rest_from(group), rest.block())

    def _totals(self, first: int, end: int) -> Iterator[tuple[int, Node]]:
        """Yield (group, node) for groups `first` up to but not including `end`, each combined oldest slice first."""
        count = 1  # the number of keys is known only after slices have been read
        while first < end:
            stop = min(end, first + count)
            if stop == first + 1:
                yield first, self._prefix(first, stop * self.length)
            else:
                rows = self.slices(first * self.length, stop * self.length).only(self.chosen)
                yield from enumerate(self._combined(rows, first, stop), first)
            first, count = stop, at_once(FILLED_CELLS, max(1, self.length * len(self.live.names)))

    def _prefix(self, group: int, end: int) -> Node:
        """Return the slices of a group before `end`, combined from the oldest on."""
        first = group * self.length
        node = self.live.node(self.chosen)
        for rows in self.in_steps(first, min(first + self.length, end)):
            node.append_slices(rows)
        return node

    def _combined(self, rows: Rows, first: int, end: int) -> list[Node]:
        """Return the totals of some groups; slices at the same position of their groups are combined in one call."""
        nodes = concatenated([self.live.node(self.chosen) for _ in range(first, end)])
        nodes.append_slices(rows.in_lanes(self.length, first, len(self.live.names)))
        return nodes.split(end - first)

    def save(self) -> None:
        """Write the nodes that have changed and that the next close needs."""
        self.cache.save(RUN, self.run.block())
        if START in self._nodes:
            self.cache.save(START, self._nodes[START].block())
        if BETWEEN in self._nodes and BETWEEN not in self.cache:
            self.cache.save(BETWEEN, self._nodes[BETWEEN].block())
        self.cache.flush()

    def _node(self, key: NodeKey) -> Node:
        if key not in self._nodes:
            self._nodes[key] = self._read(key)
        return self._nodes[key]

    def _read(self, key: NodeKey) -> Node:
        return node_of(self.live, self.chosen, self.cache.load(key))

    def _drop(self, key: NodeKey) -> None:
        self._nodes.pop(key, None)
        self.cache.drop(key)
