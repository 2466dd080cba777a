"""Checks that a warm start gives the same rows as a cold replay, on a history and a sample of the following stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slicing.aggregates.spill import spilling
from slicing.assembly.results import Windows
from slicing.drafts.call import Call
from slicing.errors import InvalidValue, excerpt
from slicing.spark import stream
from slicing.spark.bounded import rows_of
from slicing.spark.ddl import struct_of
from slicing.spark.query import Query
from slicing.spark.rules import resolve_history
from slicing.spark.task import InTask
from slicing.spark.warm import DROP, History, needed, past_of
from slicing.stages import flat
from slicing.stages.execution_plan import ExecutionPlan
from slicing.stages.not_before import NotBefore
from slicing.stages.output import flat_windows, framed
from slicing.stages.packed import Packed
from slicing.state.format.buckets import Buckets
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import MemoryStore
from slicing.triggers.emission import ON_CLOSE, on_update
from slicing.triggers.trigger import MicroBatchTime, Trigger

_ENDED = 1 << 61
"""A watermark, in microseconds, that closes every window."""
_MICRO_BATCH = "micro_batch"


@dataclass(frozen=True)
class Replay:
    """The function for `mapInArrow` after the shuffle: each bucket processes the history, then the stream's records.

    `past` reads the blocks of the history for a warm start. It is None for a cold replay, in which the history is the
    first micro-batch.
    """

    execution_plan: ExecutionPlan
    past: ExecutionPlan | None
    fingerprint: Fingerprint
    grace: int
    trigger: Trigger
    packed: Packed
    until: int
    by_time: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield, by bucket, the windows that fire after the history; time windows only if they end after `until`."""
        for _, rows in groupby(rows_of(batches), key=lambda row: row["bucket"]):
            with spilling():
                yield from self._bucket(list(rows))

    def _bucket(self, rows: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        store = MemoryStore()
        history, records = ([row for row in rows if row[_MICRO_BATCH] == number] for number in (0, 1))
        bucket = self.execution_plan.bucket(self.grace, self.fingerprint, store, self.trigger)
        if self.past is not None:
            bucket.load(_shipped(self.past, history), MicroBatchTime(self.until))
        else:
            bucket.accept(_shipped(self.execution_plan, history))
            for _ in bucket.close(MicroBatchTime(0)):
                pass
        bucket = self.execution_plan.bucket(self.grace, self.fingerprint, store, self.trigger)
        bucket.accept(_shipped(self.execution_plan, records))
        shape = self.execution_plan.shape
        for windows in bucket.close(MicroBatchTime(_ENDED)):
            for some in framed(shape, self._after(windows)):
                yield from self.packed.rows(flat_windows(shape, some, wide=self.execution_plan.wide)).to_batches()

    def _after(self, windows: Windows) -> Windows:
        if not self.by_time:
            return windows
        family = self.execution_plan.shape.family.families[windows.family]
        return windows.take(np.flatnonzero(windows.ends_by(family) > self.until))


def _shipped(execution_plan: ExecutionPlan, rows: list[dict[str, Any]]) -> list[Any]:
    names = rows[0] if rows else ("block", "records")
    return execution_plan.shipped({name: [row[name] for row in rows] for name in names})


def check(
    query: Query, call: Call, history: History, sample: DataFrame, labels: tuple[int, ...], buckets: Buckets
) -> int:
    """Return how many rows a warm start and a cold replay have in common. Raises InvalidValue if any row differs."""
    of_sample, cold_past = (resolve_history(replace(call, frame=frame)) for frame in (sample, history.frame))
    past = past_of(call, history)
    trigger = ON_CLOSE if query.window.closes else on_update()
    bounded = replace(query, streaming=False, options=replace(query.options, trigger=trigger), then=None)
    by_time = query.window.by_time
    identity = stream.fingerprint(query, buckets)

    def replayed(history_rows: DataFrame, read: Query, warm: bool) -> Counter[str]:
        stage = query.execution_plan.first_stage(labels)
        live = NotBefore(stage, history.until) if history.overlap == DROP else stage
        parts = [(history_rows, read.execution_plan.first_stage(labels)), (of_sample.records(), live)]
        found = [
            rows.mapInArrow(InTask(each), struct_of(each.schema))
            .select("bucket", "partition", "part", "block", *["records"] * ("records" in each.schema))
            .withColumn(_MICRO_BATCH, F.lit(number))
            for number, (rows, each) in enumerate(parts)
        ]
        together = found[0].union(found[1]).repartition("bucket")
        ordered = together.sortWithinPartitions("bucket", _MICRO_BATCH, "partition", "part")
        loaded = read.execution_plan if warm else None
        packed = Packed(bounded.flat)
        function = Replay(
            query.execution_plan, loaded, identity, query.options.grace, trigger, packed, history.until, by_time
        )
        frame = bounded.finish(ordered.mapInArrow(function, struct_of(packed.schema)))
        return Counter(map(repr, frame.toArrow().to_pylist()))

    warm = replayed(needed(past.records(), query, history), past, warm=True)
    whole = cold_past.records().where(F.col(flat.TIME) < query.instant(history.until))
    cold = replayed(whole.orderBy(flat.TIME) if query.support.history_in_order else whole, cold_past, warm=False)
    if warm != cold:
        differ = [*(warm - cold), *(cold - warm)]
        raise InvalidValue(
            f"a warm start has {sum((warm - cold).values())} rows that a cold replay has not, and lacks "
            f"{sum((cold - warm).values())}; one of them is {excerpt(differ[0])}. Try the laws of your own aggregates "
            "by `slicing.laws`."
        )
    return sum(warm.values())
