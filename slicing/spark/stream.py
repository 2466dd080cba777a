"""Streams: blocks of a micro-batch go into the state of their bucket, windows go out when its timer fires.

Every bucket keeps one timer, at its watermark + 1 ms. It fires in the next micro-batch whose watermark has moved, with
data or without, so that a bucket sees every watermark and knows that of the micro-batch before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from slicing.eager import EagerBucket
from slicing.emission import Emission, Every
from slicing.spark.output import flat_counts, flat_windows
from slicing.spark.preaggregate import SCHEMA
from slicing.spark.query import Query
from slicing.spark.strategy import Eager, Sliced, strategy
from slicing.state import Bucket


class SparkStore:
    """The state of the bucket that Spark has made current; `slicing.pages.Store`."""

    def __init__(self, handle: StatefulProcessorHandle):
        self._header = handle.getValueState("header", "value string")
        self._pages = handle.getMapState("pages", "page string", "value string")

    def header(self) -> str | None:
        """The header, None for a bucket never seen."""
        row = self._header.get()
        return None if row is None else row[0]

    def put_header(self, text: str) -> None:
        """Write the header."""
        self._header.update((text,))

    def get(self, page: str) -> str:
        """Read a page."""
        row = self._pages.getValue((page,))
        assert row is not None, f"page {page} is in the header and not in the store"
        return str(row[0])

    def put(self, page: str, text: str) -> None:
        """Write a page."""
        self._pages.updateValue((page,), (text,))

    def remove(self, page: str) -> None:
        """Remove a page."""
        self._pages.removeKey((page,))


class Buckets(StatefulProcessor):
    """Spark's stateful operator over buckets: rows are added, and closing happens in the timer only."""

    def __init__(self, strategy: Sliced | Eager, grace: int, fingerprint: dict[str, str], emission: Emission):
        self.strategy, self.grace, self.fingerprint, self.emission = strategy, grace, fingerprint, emission
        self.by_clock = isinstance(emission.when, Every)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once per partition and micro-batch."""
        self.handle = handle
        self.store = SparkStore(handle)
        self.waiting: dict[Any, Bucket | EagerBucket] = {}

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Judge and keep the blocks of a micro-batch; emit counts."""
        bucket = self._bucket()
        table = pd.concat(list(rows)).sort_values(["partition", "part"], kind="stable")
        shipped: list[Any] = [self.strategy.decode(block) for block in table["block"] if block is not None]
        late = bucket.add(shipped)
        if bucket.pages.is_new:
            self.handle.registerTimer(self._last(bucket) + 1)
        counts = {
            "late": late.all,
            "late_for_some": late.some,
            "no_time": int(table["no_time"].sum()),
            "no_window": int(table["no_window"].sum()),
        }
        if self._now(timerValues) > self._last(bucket):
            # The timer fires in this micro-batch: what came is still in memory then, and need not be written first.
            self.waiting[key] = bucket
        else:
            yield from self._closed(bucket, timerValues)
            counts |= _traffic(bucket)
        yield from self._counted(counts)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Close all windows that the watermark has passed, and wait for the next one."""
        bucket = self.waiting.pop(key, None) or self._bucket()
        yield from self._closed(bucket, timerValues)
        yield from self._counted(_traffic(bucket))
        self.handle.registerTimer(self._last(bucket) + 1)

    def close(self) -> None:
        """Called once per partition and micro-batch."""
        assert not self.waiting, "the standing timer fires in every micro-batch whose watermark moved"

    def _bucket(self) -> Bucket | EagerBucket:
        return self.strategy.bucket(self.grace, self.fingerprint, self.store, self.emission)

    def _now(self, timerValues: Any) -> int:  # noqa: N803
        """The time by which timers go, in milliseconds: the watermark, or the clock of the trigger."""
        by_clock = self.by_clock
        return int(timerValues.getCurrentProcessingTimeInMs() if by_clock else timerValues.getCurrentWatermarkInMs())

    def _last(self, bucket: Bucket | EagerBucket) -> int:
        """That time when the bucket was closed last."""
        return bucket.head.clock if self.by_clock else bucket.head.watermark

    def _closed(self, bucket: Bucket | EagerBucket, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N803
        now = self._now(timerValues) if self.by_clock else 0
        for windows in bucket.close(timerValues.getCurrentWatermarkInMs(), now):
            yield _to_pandas(flat_windows(self.strategy.shape, windows, self.emission, bucket.head.revision))

    def _counted(self, counts: dict[str, int]) -> Iterator[pd.DataFrame]:
        if any(counts.values()):
            yield _to_pandas(flat_counts(self.strategy.shape, counts, self.emission))


def _traffic(bucket: Bucket | EagerBucket) -> dict[str, int]:
    return {"partials_read": bucket.pages.read, "partials_written": bucket.pages.written}


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    # Arrow-backed columns reach Spark without a copy, with their nulls, and with integers as integers.
    frame: pd.DataFrame = table.combine_chunks().to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def fingerprint(query: Query, labels: tuple[int, ...], partitions: int) -> dict[str, str]:
    """What state depends on, as names and values that a message can show."""
    pairs = zip(query.shape.kernels, query.trees, strict=True)
    return {
        "windows": str(query.window),
        "keys": ", ".join(map(str, query.shape.keys)),
        "aggregates": "; ".join(query.sources),
        "partials": "; ".join(f"{', '.join(map(str, kernel.fields))}: {tree}" for kernel, tree in pairs),
        "stripe": str(query.shape.slicing.stripe),
        "buckets": f"{len(labels)} over {partitions} shuffle partitions",
    }


def build(query: Query, labels: tuple[int, ...], partitions: int) -> DataFrame:
    """The windows of a stream, in append mode, as they close."""
    chosen = strategy(query.shape, query.trees, query.arguments)
    blocks = query.records(labels).mapInArrow(chosen.first_stage(labels), SCHEMA)
    processor = Buckets(chosen, query.grace, fingerprint(query, labels, partitions), query.emission)
    flat = blocks.groupBy("bucket").transformWithStateInPandas(
        # Always Append, also for rows that replace others: Spark refuses a checkpoint of another mode.
        processor,
        query.flat_schema(),
        outputMode="Append",
        timeMode="ProcessingTime" if processor.by_clock else "EventTime",
    )
    return query.finish(flat)
