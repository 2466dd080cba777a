"""One window by hand, with as little work in numpy as its rows need: what ours would take if it did nothing else.

It knows that keys are numbers from 0, that windows are hopping, that both aggregates are sums of integers, and that no
record is late. A grid of keys by slices is filled, summed up along time, and subtracted from itself a window later. So
only records are sorted, and there is no lateness, lookup, other trigger, or change of the query. Pages hold the slices
of a micro-batch, and the header says which are still needed.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from benchmarks.baselines.floor import PACKED, SHIPPED, buckets_of, in_rows, windows_of
from slicing.spark.packing import frame_of
from slicing.windows.time.durations import microseconds

PAGE, VALUE = (StructType().add(name, "string") for name in ("page", "value"))
Slices = tuple[np.ndarray, ...]
"""Key, number of the slice, count and sum of the records, for each pair that has records."""


@dataclass(frozen=True)
class ByHandArrays:
    """A hand-written `transformWithStateInPandas` over blocks of slices, for hopping windows of dense keys."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return count and sum of `v`; the frame must be a stream."""
        step, buckets = microseconds(advance, "advance"), buckets_of(frame)
        blocks = frame.select("ts", "key", "v").mapInArrow(Preaggregate(step, buckets), SHIPPED)
        windows = GridOfSlices(microseconds(size, "size") // step, step, len(buckets))
        flat = blocks.groupBy("bucket").transformWithStateInPandas(
            windows, PACKED.schema, outputMode="Append", timeMode="EventTime"
        )
        return windows_of(flat, size)


@dataclass(frozen=True)
class Preaggregate:
    """The first stage: sums of a task's records by key and slice, one block per bucket."""

    advance: int
    buckets: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row per bucket; its keys are those of this remainder."""
        batches = list(batches)
        if not sum(map(len, batches)):
            return
        table = pa.Table.from_batches(batches)
        ts, key, v = (table[name].to_numpy() for name in ("ts", "key", "v"))
        slices = ts.view(np.int64) // self.advance
        first = slices.min()
        code = key * (slices.max() - first + 1) + slices - first
        order = np.argsort(code)
        code = code[order]
        edges = np.flatnonzero(np.diff(code, prepend=-1))
        counts, sums = np.diff(edges, append=len(code)), np.add.reduceat(v[order], edges)
        key, slices = key[order][edges], slices[order][edges]
        remainder, blocks = key % len(self.buckets), []
        for number in range(len(self.buckets)):
            chosen = np.flatnonzero(remainder == number)
            blocks.append(_bytes(tuple(each[chosen] for each in (key, slices, counts, sums))))
        columns = [pa.array(self.buckets, pa.int32()), pa.array(blocks)]
        yield pa.RecordBatch.from_arrays(columns, ["bucket", "block"])


class GridOfSlices(StatefulProcessor):
    """The state of one bucket; windows of `length` slices are emitted when the watermark has passed their end."""

    def __init__(self, length: int, advance: int, buckets: int):
        self.length, self.advance, self.buckets = length, advance, buckets

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark once per partition and micro-batch."""
        self.handle = handle
        self.header = handle.getValueState("header", VALUE)
        self.pages = handle.getMapState("pages", PAGE, VALUE)
        self.waiting: dict[Any, tuple[dict[str, Any], list[Slices]]] = {}

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Keep the blocks for the timer of this micro-batch, or store them if it does not fire."""
        shipped = [_slices(block) for frame in rows for block in frame["block"]]
        blocks = [block for block in shipped if len(block[0])]
        stored = self.header.get()
        head = json.loads(stored[0]) if stored else {"watermark": 0, "page": 0, "needed": {}}
        if stored is None:
            self.handle.registerTimer(1)
        if timerValues.getCurrentWatermarkInMs() > head["watermark"]:
            self.waiting[key] = head, blocks
        else:
            self._store(head, blocks)
            self.header.update((json.dumps(head),))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Emit the windows that have ended since the last watermark, and set the next timer."""
        head, blocks = self.waiting.pop(key, None) or (json.loads(self.header.get()[0]), [])
        before, watermark = head["watermark"], timerValues.getCurrentWatermarkInMs()
        first, last = self._end(before) + 1, self._end(watermark) + 1
        if last > first:
            old = [_slices(base64.b64decode(self.pages.getValue((page,))[0])) for page in head["needed"]]
            yield from self._windows([*old, *blocks], first, last)
        self._store(head, blocks)
        self._forget(head, last - self.length)
        self.header.update((json.dumps(head | {"watermark": watermark}),))
        self.handle.registerTimer(watermark + 1)

    def _end(self, milliseconds: int) -> int:
        """The last end of a slice that a watermark has passed, as a number of slices since 1970."""
        return milliseconds * 1000 // self.advance

    def _windows(self, blocks: list[Slices], first: int, last: int) -> Iterator[pd.DataFrame]:
        """The windows with ends from `first` to `last`, the latter excluded."""
        if not blocks:
            return
        first = max(first, min(int(block[1].min()) for block in blocks) + 1)
        if last <= first:
            return
        start, keys = first - self.length, max(int(block[0].max()) for block in blocks) // self.buckets + 1
        width = last - start  # the first column stays empty
        counts, sums = np.zeros((2, keys, width), np.int64)
        remainder = int(blocks[0][0][0]) % self.buckets
        for key, slices, n, s in blocks:
            place = slices - start + 1
            inside = (place > 0) & (place < width)
            at = ((key // self.buckets) * width + place)[inside]
            counts.ravel()[at] += n[inside]
            sums.ravel()[at] += s[inside]
        for grid in (counts, sums):
            np.cumsum(grid, axis=1, out=grid)
        n, s = (grid[:, self.length :] - grid[:, : -self.length] for grid in (counts, sums))
        row, end = np.nonzero(n)
        columns = (
            row * self.buckets + remainder,
            (end + first - self.length) * self.advance,
            n[row, end],
            s[row, end],
        )
        table = pa.table(dict(zip(("k0", "start", "r0", "r1"), columns, strict=True)))
        yield from (frame_of(each) for each in in_rows(table))

    def _store(self, head: dict[str, Any], blocks: list[Slices]) -> None:
        """Write the blocks as pages."""
        for block in blocks:
            head["page"] += 1
            head["needed"][str(head["page"])] = int(block[1].max())
            self.pages.updateValue((str(head["page"]),), (base64.b64encode(_bytes(block)).decode(),))

    def _forget(self, head: dict[str, Any], first: int) -> None:
        """Remove the pages that no window needs whose first slice is `first` or a later one."""
        for page in [page for page, last in head["needed"].items() if last < first]:
            del head["needed"][page]
            self.pages.removeKey((page,))

    def close(self) -> None:
        """Called by Spark once per partition and micro-batch."""


def _bytes(slices: Slices) -> bytes:
    """Columns in the narrowest types that hold them."""
    columns = [each.astype(np.min_scalar_type(each.max(initial=0))) for each in slices]
    table = pa.table(dict(zip("ksnv", columns, strict=True)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _slices(data: bytes) -> Slices:
    table = pa.ipc.open_stream(data).read_all()
    return tuple(column.to_numpy().astype(np.int64) for column in table.columns)
