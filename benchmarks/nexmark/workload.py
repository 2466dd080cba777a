"""The events of Nexmark as files in the order of arrival, a few per micro-batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark import ids
from benchmarks.nexmark.generator import BID, Generator
from benchmarks.workloads.workload import START, Workload

PERSON = "id bigint, name string, emailAddress string, creditCard string, city string, state string"
AUCTION = "id bigint, itemName string, description string, initialBid bigint, reserve bigint"
BID_COLUMNS = "auction bigint, bidder bigint, price bigint, channel string, url string"
SCHEMA = (
    f"ts timestamp, event_type int, person struct<{PERSON}, dateTime timestamp, extra string>, "
    f"auction struct<{AUCTION}, dateTime timestamp, expires timestamp, seller bigint, category bigint, extra string>, "
    f"bid struct<{BID_COLUMNS}, dateTime timestamp, extra string>"
)


@dataclass(frozen=True)
class Events(Workload):
    """A workload of events; `records` are events of all kinds; 46 in 50 are bids."""

    rate: int = 10_000
    group: int = 1
    seed: int = 1

    @property
    def schema(self) -> str:
        """The schema as DDL for Spark."""
        return SCHEMA

    def cut(self, share: float) -> Events:
        """Return a workload with a share of the events in the same time, so at a share of the rate."""
        part = replace(self, name=f"{share:g} of {self.name}", records=self._share(self.records, share))
        return replace(part, rate=self._share(self.rate, share))

    def _table(self, random: np.random.Generator, low: int, high: int) -> pa.Table:
        first, end = (round((each - START) * self.rate / 1e6) for each in (low, high))
        return Generator(self.rate, self.group, self.seed).events(first, end)


@dataclass(frozen=True)
class Bids(Events):
    """The bids alone, their prices by the column `by`, as `key`, `ts`, `v`. `records` are bids, `rate` is of events."""

    by: str = "auction"

    @property
    def schema(self) -> str:
        """The schema as DDL for Spark."""
        return "key bigint, ts timestamp, v bigint"

    def _table(self, random: np.random.Generator, low: int, high: int) -> pa.Table:
        events = super()._table(random, low, high)
        found = events.filter(pc.equal(events["event_type"], BID))
        keys, prices = (pc.struct_field(found["bid"], name) for name in (self.by, "price"))
        return pa.table({"key": keys, "ts": found["ts"], "v": prices})


def bids(of: Events, by: str) -> Bids:
    """Return the bids of a workload of events."""
    records = of.records * ids.BIDS // ids.TOTAL
    return Bids(f"bids of {of.name} by {by}", records, 0, of.seconds, of.batches, rate=of.rate, by=by)


def events(name: str, records: int, batches: int, rate: int = 10_000, group: int = 1) -> Events:
    """Return a workload of micro-batches of `records` events."""
    return Events(name, records, 0, records / rate, batches, rate=rate, group=group)
