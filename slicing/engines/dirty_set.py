"""The dirty set: for each slice and key, the number of records since its windows last fired early.

Marks are appended as records arrive. Marks that fire are not removed from their pages: rows with the negative number of
records are appended. When more than half of all rows cancel each other, the rest is rewritten. So a micro-batch
writes in proportion to its own records and firings, however many marks wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from slicing.aggregates.arrays import Array
from slicing.content.block import Block, Shape, concat
from slicing.content.folding import regroup
from slicing.content.marks import occur_in, without_partials
from slicing.state.format.list_names import PENDING
from slicing.state.lists import PageLists
from slicing.triggers.panes import NONE, Panes
from slicing.windows.time.slices import FOREVER

Chosen: TypeAlias = Callable[[Block], Block]
Ready: TypeAlias = Callable[[Block], Array]


def _all(marks: Block) -> Block:
    return marks


class DirtySet:
    """The stored marks of a bucket: blocks without partials. The shape of `nodes` has no kernels.

    `cached` has all stored rows, in any order and not folded, if they are in the bucket cache; otherwise they are read.
    `chosen` returns the marks that still count. All methods take the new marks and `first`, the first slice that an
    open window covers; marks of earlier slices are forgotten.
    """

    def __init__(self, nodes: PageLists, cached: Block | None, chosen: Chosen = _all):
        self.nodes, self.cached, self._chosen = nodes, cached, chosen

    def add(self, new: Block, first: int) -> None:
        """Add new marks; nothing fires."""
        self.cached = None
        self._forget_before(first)
        self.nodes.append(PENDING, new.between(first, FOREVER))

    def rewrite(self, changed: Chosen) -> None:
        """Replace the stored marks by what `changed` returns for them."""
        rows = self._stored() if self.cached is None else self.cached
        self.nodes.save(PENDING, changed(_waiting(self.nodes.shape, rows)))
        self.cached = None

    def forget_unlisted(self) -> None:
        """Remove the marks of slices before those of all entries, which a change of the windows has shortened."""
        if entries := self.nodes.entries(PENDING):
            first = min(entry[1] for entry in entries)
            self.rewrite(lambda marks: marks.between(first, FOREVER))

    def take_all(self, new: Block, first: int) -> Block:
        """Remove and return all marks."""
        everything = self._live(concat(self.nodes.shape, [self._stored(), new.between(first, FOREVER)]), first)
        self.nodes.drop(PENDING)
        self.cached = None
        return everything

    def take(self, new: Block, first: int, ready: Ready) -> Block:
        """Remove and return the marks that are ready. `ready` may depend only on the marks of a key."""
        new = new.between(first, FOREVER)
        if self.cached is not None and not len(new):
            # Marks that were not ready before are not ready now. Marks not in the cache may be of another trigger.
            self._drop_expired(first)
            return new
        stored = self._stored() if self.cached is None else self.cached
        rows = concat(self.nodes.shape, [stored, new])
        live = self._live(rows, first)
        is_ready = ready(live)
        due, rest = live.take(is_ready), live.take(~is_ready)
        known, new = rows.take(slice(len(stored))), rows.take(slice(len(stored), None))
        gone = self._live(known, -FOREVER)
        gone, new = gone.take(occur_in(gone, due)), new.take(~occur_in(new, due))
        if len(known) + len(new) + len(gone) > 2 * len(rest):
            self.nodes.save(PENDING, rest)
            self.cached = rest
        else:
            news = concat(self.nodes.shape, [new, replace(gone, records=-gone.records)])
            self.nodes.append(PENDING, regroup(self.nodes.shape, news))
            self.cached = concat(self.nodes.shape, [known, news])
        return due

    def _drop_expired(self, first: int) -> None:
        """Remove the pages whose slices are all earlier, without reading them."""
        entries = self.nodes.entries(PENDING)
        expired = [entry for entry in entries if entry[2] <= first]
        if expired and self.cached is not None:
            self.cached = self.cached.take(self.cached.index >= first)
            entries[:] = [entry for entry in entries if entry not in expired]
            self.nodes.pages.remove(expired)
            if not entries:
                self.nodes.drop(PENDING)

    def _forget_before(self, first: int) -> None:
        """Forget marks of earlier slices once they are a window old: it may be long until all marks are taken."""
        entries = self.nodes.entries(PENDING)
        old = [entry for entry in entries if entry[1] < first - self.nodes.shape.family.longest]
        if not old:
            return
        reaching = list(self.nodes.pages.take([entry for entry in old if entry[2] > first], self.nodes.shape))
        entries[:] = [entry for entry in entries if entry not in old]
        self.nodes.pages.remove(old)
        # Negative rows stay as well: they may cancel marks in other pages.
        rows = regroup(self.nodes.shape, concat(self.nodes.shape, reaching)).between(first, FOREVER)
        self.nodes.append(PENDING, self._chosen(rows.take(rows.records != 0)))

    def _live(self, rows: Block, first: int) -> Block:
        """Return the marks of rows, from slice `first` on."""
        return self._chosen(_waiting(self.nodes.shape, rows).between(first, FOREVER))

    def _stored(self) -> Block:
        return concat(self.nodes.shape, self.nodes.read(PENDING))


def _waiting(shape: Shape, rows: Block) -> Block:
    """Return the marks of rows that have not fired."""
    marks = regroup(shape, rows)
    return marks.take(marks.records > 0)


class WaitingSlices:
    """The open windows in a dirty set of slices: `panes` returns the open windows that hold given marks.

    `new` and `first` are called when a trigger asks, which is once in a micro-batch.
    """

    def __init__(
        self, dirty: DirtySet, new: Callable[[], Block], first: Callable[[], int], panes: Callable[[Block], Panes]
    ):
        self.dirty, self._new, self._first, self._panes = dirty, new, first, panes
        self.asked = False

    def none(self) -> Panes:
        """Return no windows: the new records are added to the dirty set."""
        self.dirty.add(*self._new_marks())
        return NONE

    def all(self) -> Panes:
        """Return all windows in the dirty set, which then is empty."""
        return self._panes_of(self.dirty.take_all(*self._new_marks()))

    def ready(self, chosen: Ready) -> Panes:
        """Return the windows of the marks for which `chosen` returns true, and remove these marks."""
        return self._panes_of(self.dirty.take(*self._new_marks(), chosen))

    def _new_marks(self) -> tuple[Block, int]:
        self.asked = True
        return without_partials(self._new()), self._first()

    def _panes_of(self, marks: Block) -> Panes:
        return self._panes(marks) if len(marks) else NONE

    def to_cache(self) -> dict[str, Block]:
        """Return the marks that the bucket cache keeps, by name."""
        return {PENDING: self.dirty.cached} if self.dirty.cached else {}
