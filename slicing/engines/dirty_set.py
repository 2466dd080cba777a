"""What has come for open windows and not gone out early yet: which slices of which keys, and how many records.

Marks are appended as they come. Those of a key that goes out are not taken out of their pages: as many records less are
appended. Only when more than half of all rows say nothing any more, what is left is written anew, so that a micro-batch
writes about as much as comes and goes in it, however much is pending.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from slicing.content.block import Block, concat
from slicing.content.folding import regroup
from slicing.content.marks import without_partials
from slicing.state.format.header import Header
from slicing.state.format.list_names import PENDING
from slicing.state.lists import PageLists
from slicing.triggers.emission import Emission, Every, Records
from slicing.windows.time.slices import FOREVER

Chosen: TypeAlias = Callable[[Block], Block]


def _all(marks: Block) -> Block:
    return marks


class Pending:
    """The slices that records came for since their key went out; blocks without partials, durable.

    `kept` has all rows that are stored, in any order and not folded, if the process still has them; else they are read.
    """

    def __init__(
        self, when: Every | Records, head: Header, nodes: PageLists, kept: Block | None, chosen: Chosen = _all
    ):
        self.when, self.head, self.nodes, self.kept, self._chosen = when, head, nodes, kept, chosen

    def due(self, came: Block, first: int, now: int) -> Block:
        """Count the new records; return what is to be emitted now, which is then no longer pending.

        `first` is the first slice that an open window covers, `now` the time of the trigger in microseconds. Slices
        before it are forgotten, with their records, and so are marks that `chosen` leaves out.
        """
        came = without_partials(came).between(first, FOREVER)
        if isinstance(self.when, Every):
            return self._at_tick(came, first, now // self.when.microseconds)
        # Marks that the process does not hold may be those of another count, which was greater.
        return self._by_count(came, first, self.when.count) if len(came) or self.kept is None else came

    def _at_tick(self, came: Block, first: int, tick: int) -> Block:
        due = self.head.tick is not None and tick > self.head.tick
        self.head.tick, self.kept = tick, None
        if not due:
            self._forget_before(first)
            self.nodes.append(PENDING, came)
            return came.take(slice(0))
        everything = self._live(concat(self.nodes.shape, [self._stored(), came]), first)
        self.nodes.drop(PENDING)
        return everything

    def _forget_before(self, first: int) -> None:
        """Forget marks of earlier slices, a window at a time: a tick may be long in coming."""
        entries = self.nodes.entries(PENDING)
        old = [entry for entry in entries if entry[1] < first - self.nodes.shape.slicing.longest]
        if not old:
            return
        reaching = list(self.nodes.pages.take([entry for entry in old if entry[2] > first], self.nodes.shape))
        entries[:] = [entry for entry in entries if entry not in old]
        self.nodes.pages.remove(old)
        self.nodes.append(PENDING, self._live(concat(self.nodes.shape, reaching), first))

    def _by_count(self, came: Block, first: int, count: int) -> Block:
        stored = self._stored() if self.kept is None else self.kept
        rows = concat(self.nodes.shape, [stored, came])
        live = self._live(rows, first)
        counts = np.bincount(live.keys, weights=live.records, minlength=len(live.names))
        ripe = counts >= count
        due, rest = live.take(ripe[live.keys]), live.take(~ripe[live.keys])
        known = rows.take(slice(len(stored)))
        gone = self._live(known, -FOREVER)
        gone = gone.take(ripe[gone.keys])
        new = rows.take(slice(len(stored), None))
        new = new.take(~ripe[new.keys])
        if len(known) + len(new) + len(gone) > 2 * len(rest):
            self.nodes.save(PENDING, rest)
            self.kept = rest
        else:
            news = concat(self.nodes.shape, [new, replace(gone, records=-gone.records)])
            self.nodes.append(PENDING, regroup(self.nodes.shape, news))
            self.kept = concat(self.nodes.shape, [known, news])
        return due

    def _live(self, rows: Block, first: int) -> Block:
        """The marks that rows come to, from slice `first` on."""
        marks = regroup(self.nodes.shape, rows).between(first, FOREVER)
        return self._chosen(marks.take(marks.records > 0))

    def _stored(self) -> Block:
        return concat(self.nodes.shape, self.nodes.read(PENDING))


def pending(
    emission: Emission, head: Header, nodes: PageLists, kept: Block | None = None, chosen: Chosen = _all
) -> Pending | None:
    """What an emission has to remember between micro-batches, None if nothing; `nodes` are of a shape of no kernels.

    `kept` are the marks that the process still has, see `recent`; `chosen` returns those that still count.
    """
    if not isinstance(emission.when, (Every, Records)):
        return None
    return Pending(emission.when, head, nodes, kept, chosen)
