"""State bytes per stored record, and of windows that fire by record counts, in one bucket of this process.

A record is stored once, whatever R. The record count of a window is that of its slices, which the state holds anyway.
The trigger adds the count at which a window of a key has fired, which is removed when the window closes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.long_windows import ALONE, TOGETHER, measured
from benchmarks.report import results
from benchmarks.running.side import CORES
from combinators import sum as sum_of
from slicing import early, on_close
from slicing.aggregates.fields import Field
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.kernels import kernel
from slicing.aggregates.records import kept_records
from slicing.content.block import Shape
from slicing.content.folding import from_records
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import MemoryStore
from slicing.triggers.trigger import MicroBatchTime
from slicing.windows.families.even import Even

MINUTE = 60_000_000
KEYS = 1_000
RECORD_BYTES = 24
"""The bytes of a record: a key, a time and a value of 8 bytes each."""


def state_bytes(each: Kernel, columns: Callable[[Any, Any], list[Any]], trigger: Any, ratio: int, minutes: int) -> int:
    """Return the state bytes after a number of one-minute micro-batches; each key has a record in each of them.

    `columns` returns the kernel's columns for arrays of times and of numbers.
    """
    family, store, random = Even(ratio * MINUTE, MINUTE), MemoryStore(), np.random.default_rng(0)
    shape = Shape(family, (Field("key", "bigint"),), (each,))
    names = pa.table({"k0": np.arange(KEYS)})
    for minute in range(minutes):
        times, numbers = minute * MINUTE + random.integers(0, MINUTE, KEYS), random.integers(0, 1000, KEYS)
        block = from_records(shape, family.slice_at(times), np.arange(KEYS), names, [columns(times, numbers)])
        bucket = SlicedBucket(shape, ("runs",), 0, Fingerprint(), store, trigger)
        bucket.accept([block])
        for _ in bucket.close(MicroBatchTime(0, (minute + 1) * MINUTE)):
            pass
    return len(store.header() or "") + sum(map(len, store.pages.values()))


def record_bytes(ratio: int) -> float:
    """Return the state bytes per record, after as many minutes as a window has."""
    fields = (Field("v0", "timestamp"), Field("v1", "bigint"))
    kept = kernel("records", kept_records(fields, 0))

    def columns(times: Any, numbers: Any) -> list[Any]:
        return [pa.array(times, pa.timestamp("us", "UTC")), pa.array(numbers)]

    return state_bytes(kept, columns, on_close(), ratio, minutes=ratio) / (KEYS * ratio)


@dataclass(frozen=True)
class RecordBytes:
    """The state bytes of a stored record, as a multiple of the record's bytes."""

    ratio: int
    name: str = "StateOfRecords"

    def measured(self) -> results.Figure:
        """Return the multiple; the goal is 1.5, as a record is stored once, whatever R."""
        title = f"state of a record kept for `process`, R = {self.ratio} / the record of {RECORD_BYTES} bytes"
        value = record_bytes(self.ratio) / RECORD_BYTES
        return results.Figure(self.name, title, value, "x its bytes", 1.5, results.machine(CORES))


@dataclass(frozen=True)
class CountState:
    """The state with a trigger by record count, as a multiple of the state without it.

    Separate counters, of 8 bytes per window and key, would more than double it.
    """

    name: str
    ratio: int
    records: int

    def measured(self) -> results.Figure:
        """Return the multiple, which does not depend on R."""
        summed = kernel("spent", sum_of("spent").resolve(("bigint",)))
        counting, plain = (
            state_bytes(summed, lambda _, numbers: [pa.array(numbers)], trigger, self.ratio, minutes=2 * self.ratio)
            for trigger in (early(records=self.records), on_close())
        )
        title = f"state of early(records={self.records:,}), R = {self.ratio} / on_close()"
        return results.Figure(self.name, title, counting / plain, "x its bytes", 1.05, results.machine(CORES))


@dataclass(frozen=True)
class FiveLengthsState:
    """The state of five lengths after 90 days, as a multiple of the state of the longest alone.

    The bytes are those of all pages and the header, counted by the store of one bucket in this process: the files of
    RocksDB also hold what is not compacted yet, which is as much again if the state is small.
    """

    name: str = "FiveLengthsState"
    days: int = 90
    keys: int = 200

    def measured(self) -> results.Figure:
        """Return the multiple for keys with a record in each minute."""
        alone, together = (measured(name, self.days, self.keys, each=1, minutes=120) for name in (ALONE, TOGETHER))
        title = f"state of five lengths to {self.days} days with tails / {self.days} days with a tail alone"
        return results.Figure(self.name, title, together[1] / alone[1], "x its bytes", 1.2, results.machine(CORES))


BENCHMARKS = (
    RecordBytes(60),
    CountState("StateOfCounts", 60, 1_000),
    CountState("StateOfCountsLong", 360, 1_000),
    CountState("StateOfCountsFired", 60, 5),
    FiveLengthsState(),
)
