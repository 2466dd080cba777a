"""Bytes of state of kept records: of one bucket in this process, as its pages are stored."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.report import results
from benchmarks.running.side import CORES
from slicing import on_close
from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.aggregates.records import kept_records
from slicing.content.block import Shape
from slicing.content.folding import from_records
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import MemoryStore
from slicing.triggers.trigger import MicroBatchTime
from slicing.windows.time.slices import Slicing

MINUTE = 60_000_000
KEYS = 1_000
RECORD_BYTES = 24
"""A record is a key, a time and a value of 8 bytes each."""


def bytes_per_record(ratio: int) -> float:
    """Bytes of pages for a record, after as many micro-batches of a minute each as a window has minutes."""
    fields = (Field("v0", "timestamp"), Field("v1", "bigint"))
    family, store, random = Slicing(ratio * MINUTE, MINUTE), MemoryStore(), np.random.default_rng(0)
    shape = Shape(family, (Field("key", "bigint"),), (kernel("records", kept_records(fields, 0)),))
    for minute in range(ratio):
        times = minute * MINUTE + random.integers(0, MINUTE, KEYS)
        columns = [pa.array(times, pa.timestamp("us", "UTC")), pa.array(random.integers(0, 1000, KEYS))]
        names = pa.table({"k0": np.arange(KEYS)})
        block = from_records(shape, family.slice_at(times), np.arange(KEYS), names, [columns])
        bucket = SlicedBucket(shape, ("runs",), 0, Fingerprint(), store, on_close())
        bucket.accept([block])
        for _ in bucket.close(MicroBatchTime(0, (minute + 1) * MINUTE)):
            pass
    return sum(map(len, store.pages.values())) / (KEYS * ratio)


@dataclass(frozen=True)
class RecordBytes:
    """Bytes of state of a kept record, as multiples of the record."""

    ratio: int
    name: str = "StateOfRecords"

    def measured(self) -> results.Figure:
        """The multiple, for which the goal is 1.5: a record is stored once, whatever R."""
        title = f"state of a record kept for `process`, R = {self.ratio} / the record of {RECORD_BYTES} bytes"
        value = bytes_per_record(self.ratio) / RECORD_BYTES
        return results.Figure(self.name, title, value, "x its bytes", 1.5, results.machine(CORES))


BENCHMARKS = (RecordBytes(60),)
