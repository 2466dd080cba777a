"""What has come for open windows and not gone out early yet: which slices of which keys, and how many records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicing.blocks import Block, fold
from slicing.emission import Emission, Every, Records
from slicing.pages import Header, Nodes
from slicing.stripes import FOREVER
from slicing.touching import without_partials

_NAME = "pending"


class Pending:
    """The slices that records came for since their key went out; blocks without partials, durable."""

    def __init__(self, when: Every | Records, head: Header, nodes: Nodes):
        self.when, self.head, self.nodes = when, head, nodes

    def due(self, came: Block, first: int, now: int) -> Block:
        """Count what came; returns what is to go out now, which is then no longer pending.

        `first` is the first slice that an open window covers, `now` the time of the trigger in milliseconds.
        """
        came = without_partials(came).between(first, FOREVER)
        if isinstance(self.when, Every):
            return self._at_tick(came, first, now // (self.when.microseconds // 1000))
        return self._by_count(came, first, self.when.count)

    def _at_tick(self, came: Block, first: int, tick: int) -> Block:
        due = self.head.tick is not None and tick > self.head.tick
        self.head.tick = tick
        if not due:
            self.nodes.append(_NAME, came)
            return came.take(slice(0))
        everything = self._with([came], first)
        self.nodes.drop(_NAME)
        return everything

    def _by_count(self, came: Block, first: int, count: int) -> Block:
        if not len(came):
            return came
        everything = self._with([came], first)
        records = np.bincount(everything.keys, weights=everything.records, minlength=len(everything.names))
        ripe = (records >= count)[everything.keys]
        self.nodes.save(_NAME, everything.take(np.flatnonzero(~ripe)))
        return everything.take(np.flatnonzero(ripe))

    def _with(self, came: Sequence[Block], first: int) -> Block:
        """Everything pending; slices of which all windows have gone out are forgotten, with their records."""
        there = self.nodes.load(_NAME)
        return fold(self.nodes.shape, [*([there] if there else []), *came]).between(first, FOREVER)


def pending(emission: Emission, head: Header, nodes: Nodes) -> Pending | None:
    """What an emission has to remember between micro-batches, None if nothing; `nodes` are of a shape of no kernels."""
    return Pending(emission.when, head, nodes) if isinstance(emission.when, (Every, Records)) else None
