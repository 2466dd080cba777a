"""The events of Nexmark by the rules of the reference generator, of commit 6b3646c, vectorised.

An event has `ts`, its time, `event_type`, and one of `person`, `auction` and `bid`. Times and ids depend on the number
of the event only. The reference has no seed, so no two runs of it give the same rows; here equal seeds do, whatever
events are asked for at once. What the reference does by accident is kept: see `bids` and `texts`.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.nexmark import ids as known
from benchmarks.nexmark.auctions import auctions, milliseconds
from benchmarks.nexmark.bids import bids
from benchmarks.nexmark.persons import persons
from benchmarks.workloads.workload import START

PERSON, AUCTION, BID = range(3)
"""The values of `event_type`."""
FIRST_ID, FIRST_NUMBER = 1, 1
BLOCK = 50_000
"""The events that are made at once, from random numbers of their own."""
STRIDE = 953


@dataclass(frozen=True)
class Generator:
    """`rate` events a second of event time, from `start` (microseconds) on; each `group` events arrive out of order."""

    rate: int = 10_000
    group: int = 1
    seed: int = 1
    start: int = START

    def events(self, first: int, end: int) -> pa.Table:
        """Return the events from number `first` to `end`, exclusive, in their order of arrival."""
        blocks = range(first // BLOCK, -(-end // BLOCK))
        made = [
            self._block(number).slice(max(0, first - number * BLOCK), end - max(first, number * BLOCK))
            for number in blocks
        ]
        return pa.concat_tables(made)

    def ids(self, numbers: np.ndarray) -> np.ndarray:
        """Return the ids of events by their numbers, counted from 0; their order is that of the times."""
        numbers = numbers + FIRST_NUMBER
        return FIRST_ID + numbers // self.group * self.group + numbers * STRIDE % self.group

    def clock(self, ids: np.ndarray) -> np.ndarray:
        """Return the times of events by their ids, in milliseconds."""
        return self.start // 1000 + ((ids - FIRST_ID) * (1e6 / self.rate)).astype(np.int64) // 1000

    def _block(self, number: int) -> pa.Table:
        random = np.random.default_rng([self.seed, number])
        ids = self.ids(np.arange(number * BLOCK, (number + 1) * BLOCK))
        rest = ids % known.TOTAL
        kinds = np.where(rest < known.PERSONS, PERSON, np.where(rest < known.PERSONS + known.AUCTIONS, AUCTION, BID))
        of = [ids[kinds == kind] for kind in (PERSON, AUCTION, BID)]
        made = {
            "person": persons(random, of[PERSON], milliseconds(self.clock(of[PERSON])), self.seed),
            "auction": auctions(random, of[AUCTION], self.clock, self.seed),
            "bid": bids(random, of[BID], milliseconds(self.clock(of[BID])), self.seed),
        }
        columns = {name: _among(each, kinds == kind) for kind, (name, each) in enumerate(made.items())}
        return pa.table({"ts": milliseconds(self.clock(ids)), "event_type": pa.array(kinds, pa.int32()), **columns})


def _among(values: pa.Array, there: np.ndarray) -> pa.Array:
    """The values at the events that are `there`, and null at the others."""
    return values.take(pa.array(np.cumsum(there) - 1, mask=~there))
