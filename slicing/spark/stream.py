"""Streams: the stateful operator adds blocks to the state of their bucket; windows fire when the bucket's timer fires.

Each bucket has one timer, at its watermark + 1 ms. It fires in the next micro-batch whose watermark has advanced, with
or without data. So each bucket sees every watermark and knows that of the previous micro-batch.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from slicing.aggregates.code_digest import code_digest
from slicing.aggregates.spill import spilling
from slicing.assembly.choice import EAGER
from slicing.assembly.results import FRAME_ROWS, Windows
from slicing.content.block import Shape
from slicing.content.signals import Signals
from slicing.drafts.call import Time
from slicing.engines.bucket import OpenBucket
from slicing.engines.lifecycle import restart_idle
from slicing.errors import StateMismatch
from slicing.profiling import OUTPUT, READ, WRITE, of_stage
from slicing.spark.ddl import struct_of
from slicing.spark.late import LateColumns
from slicing.spark.packing import frame_of
from slicing.spark.query import Query
from slicing.spark.task import InTask
from slicing.stages.execution_plan import ExecutionPlan, not_before
from slicing.stages.metrics import delay_counts
from slicing.stages.output import (
    FRAME_BYTES,
    flat_late_partials,
    flat_late_records,
    flat_windows,
    framed,
)
from slicing.stages.packed import Packed
from slicing.stages.processed import FunctionCalls
from slicing.stages.signalled import Signalled, first_stage
from slicing.stages.stored_states import StoredStates
from slicing.state.format.buckets import BucketName, Buckets
from slicing.state.format.fingerprint import PARTIALS, WINDOWS, Fingerprint, fingerprint_of
from slicing.state.format.header import RESTORE, Header
from slicing.triggers.lateness import RECORDS, Late, RefusedRows
from slicing.triggers.trigger import MicroBatchTime

_TIMES = {Time.EVENT: "event", Time.CLOCK: "clock", Time.NONE: "none"}
_DRIVER_WORKER = "pyspark.sql.streaming.transform_with_state_driver_worker"
"""The process on the driver in which Spark asks a stateful operator for its state, once a start."""
# Types instead of DDL text: each task would ask the JVM twice per micro-batch to parse the text.
_PAGE, _VALUE = (StructType().add(name, "string") for name in ("page", "value"))


class SparkStore:
    """The state of the bucket that is Spark's current grouping key; implements `slicing.state.store.Store`."""

    def __init__(self, handle: StatefulProcessorHandle):
        self._header = handle.getValueState("header", _VALUE)
        self._pages = handle.getMapState("pages", _PAGE, _VALUE)
        self.name: object = "no bucket"

    @of_stage(READ)
    def header(self) -> str | None:
        """Return the header, None for a new bucket."""
        row = self._header.get()
        return None if row is None else row[0]

    @of_stage(WRITE)
    def put_header(self, text: str) -> None:
        """Write the header."""
        self._header.update((text,))

    @of_stage(READ)
    def get(self, page: str) -> str:
        """Return a page. Raises StateMismatch if it is missing."""
        row = self._pages.getValue((page,))
        if row is None:
            raise StateMismatch(f"page `{page}` of {self.name} is in the header and not in the store. {RESTORE}")
        return str(row[0])

    @of_stage(WRITE)
    def put(self, page: str, text: str) -> None:
        """Write a page."""
        self._pages.updateValue((page,), (text,))

    @of_stage(WRITE)
    def remove(self, page: str) -> None:
        """Remove a page."""
        self._pages.removeKey((page,))


class WindowOperator(StatefulProcessor):
    """Spark's stateful operator; its grouping keys are buckets. Windows close in the timer, unless no timer is due."""

    def __init__(self, execution_plan: ExecutionPlan, query: Query, fingerprint: Fingerprint):
        self.execution_plan, self.fingerprint, self.needs_timer = execution_plan, fingerprint, query.needs_timer
        self.options, self.late_columns = query.options, query.late_columns
        self.packed = Packed(query.flat)
        self.by_clock, self.reads_clock, self.time = query.by_clock, query.reads_clock, query.clock
        self.delay = query.delay
        self.calling, self.remembers = FunctionCalls(query.then, query.nesting), query.remembers
        signals = query.options.trigger.signals
        self.signalled = Signalled(execution_plan.first_stage(()), signals) if signals else None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _silence()

    @property
    def time_mode(self) -> str:
        """The kind of Spark's timers: event time, processing time or none."""
        if self.by_clock:
            return "ProcessingTime"
        return "EventTime" if self.needs_timer else "None"

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark once per partition and micro-batch."""
        self.handle = handle
        self.store = SparkStore(handle)
        self.spilling = spilling()
        self.spilling.__enter__()
        self.open_buckets: dict[Any, OpenBucket] = {}

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Add the new records of a bucket to its state; yield counts, and late rows if the query emits them."""
        self.store.name = self._name(key)
        bucket = self._bucket()
        table = pd.concat(list(rows)).sort_values(["partition", "part"], kind="stable")
        shipped: list[Any] = self.execution_plan.shipped(table)
        if self.time is Time.CLOCK:
            shipped = [not_before(self.execution_plan.shipping, each, bucket.head.watermark) for each in shipped]
        if self.signalled:
            bucket.take_signals(self._heard(self.signalled, table, bucket))
        late: Late[Any] = bucket.accept(shipped)
        restart_idle(bucket.head, shipped)
        if bucket.pages.is_new and self.needs_timer:
            self.handle.registerTimer(self._last(bucket) + 1)
        counts = {
            "late": late.all,
            "late_for_some": late.some,
            "no_time": int(table["no_time"].sum()),
            "no_window": int(table["no_window"].sum()),
        }
        if self.delay is not None:
            counts |= delay_counts(late.first_ends, bucket.head.watermark, self.delay, self.options.grace)
        if self.needs_timer and self._now(timerValues) > self._last(bucket):
            # The timer fires in this micro-batch and finds the bucket in memory, so nothing is written before.
            self.open_buckets[key] = bucket
        else:
            standing = self._last(bucket)
            yield from self._closed(bucket, timerValues, counts)
            if (
                self.needs_timer and self._last(bucket) < standing
            ):  # The clock went backwards; the old timer would fire only when the clock reaches it again.
                self.handle.deleteTimer(standing + 1)
                self.handle.registerTimer(self._last(bucket) + 1)
        yield from self._counted(counts)
        if self.late_columns and late.any:
            for number, refused in enumerate(late.refused):
                yield from self._late_rows(self.late_columns, number, refused, table)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Fire all windows that the watermark has passed, and set the timer for the next watermark."""
        self.store.name = self._name(key)
        bucket = self.open_buckets.pop(key, None) or self._bucket()
        counts: dict[str, int] = {}
        yield from self._closed(bucket, timerValues, counts)
        yield from self._counted(counts)
        self.handle.registerTimer(self._last(bucket) + 1)

    def _name(self, key: Any) -> BucketName:
        return BucketName(int(key[0]), self.fingerprint.identity["buckets"])

    def close(self) -> None:
        """Called by Spark once per partition and micro-batch."""
        self.spilling.__exit__(None, None, None)
        if self.open_buckets:
            # With `ttl=` another trigger sets none. Spark itself refuses a checkpoint with another kind of timers.
            raise StateMismatch(
                f"{self.options.trigger} fires by timers of buckets, and the query that wrote the checkpoint has set "
                "none. Go back to its trigger, or start with a new checkpoint."
            )

    def _heard(self, stage: Signalled, table: Any, bucket: OpenBucket) -> Signals:
        """The signals of a micro-batch, each with the slice of its record."""
        heard, now = stage.heard(table), bucket.head.watermark
        if self.time is Time.CLOCK:
            return heard.moved(lambda rows: [not_before(stage.stage.shape, each, now) for each in rows])
        return heard

    def _bucket(self) -> OpenBucket:
        return self._opened(self.fingerprint)

    def _opened(self, fingerprint: Fingerprint) -> OpenBucket:
        return self.execution_plan.bucket(self.options.grace, fingerprint, self.store, self.options.trigger)

    def _now(self, timerValues: Any) -> int:  # noqa: N803
        """The current time of timers in milliseconds: the watermark, or the clock of the trigger."""
        by_clock = self.by_clock
        return int(timerValues.getCurrentProcessingTimeInMs() if by_clock else timerValues.getCurrentWatermarkInMs())

    def _clock(self, timerValues: Any) -> int:  # noqa: N803
        """The clock of the micro-batch in microseconds, 0 if nothing reads it.

        To an operator without timers Spark passes -1; the clock of this machine takes its place.
        """
        if not self.reads_clock:
            return 0
        passed = int(timerValues.getCurrentProcessingTimeInMs())
        return (time.time_ns() // 1_000_000 if passed < 0 else passed) * 1000

    def _last(self, bucket: OpenBucket) -> int:
        """The time of timers, in milliseconds, when this bucket was last closed."""
        return (bucket.head.clock if self.by_clock else bucket.head.watermark) // 1000

    def _micro_batch_time(self, timerValues: Any) -> MicroBatchTime:  # noqa: N803
        """The times of the micro-batch in microseconds; in processing time, the clock is the watermark too."""
        clock = self._clock(timerValues)
        watermark = clock if self.time is Time.CLOCK else timerValues.getCurrentWatermarkInMs() * 1000
        return MicroBatchTime(watermark, clock, self.options.idle)

    def _closed(
        self,
        bucket: OpenBucket,
        timerValues: Any,  # noqa: N803
        counts: dict[str, int],
    ) -> Iterator[pd.DataFrame]:
        """Yield the rows that a bucket emits; add results, reads, writes and the size of its state to `counts`."""
        results, shape = 0, replace(self.execution_plan.shape, since=bucket.coverage.results)
        states = self.remembers and StoredStates(self.remembers, shape, bucket, self.options.grace)
        calling = replace(self.calling, remembered=states.remembered) if states else self.calling
        for windows in bucket.close(self._micro_batch_time(timerValues)):
            results += len(windows)
            for some in framed(self.execution_plan.shape, windows):
                yield self._frame(self._flat(shape, bucket.head, some, calling))
        if states:
            states.save()
        pages = bucket.pages
        counts |= {"results": results, "partials_read": pages.read, "partials_written": pages.written}
        counts |= bucket.extent()

    @of_stage(OUTPUT)
    def _flat(self, shape: Shape, head: Header, windows: Windows, calling: FunctionCalls) -> pa.Table:
        at = MicroBatchTime(head.watermark, head.clock)
        return flat_windows(shape, windows, self.options.trigger, head.revision, self.execution_plan.wide, at, calling)

    def _counted(self, counts: dict[str, int]) -> Iterator[pd.DataFrame]:
        if any(counts.values()):
            yield frame_of(self.packed.counts(counts))

    def _late_rows(
        self, columns: LateColumns, family: int, refused: RefusedRows[Any], table: pd.DataFrame
    ) -> Iterator[pd.DataFrame]:
        shape = self.execution_plan.shape
        shape = shape.over(shape.family.families[family])
        for partials in framed(shape, self.execution_plan.late_partials(refused)):
            yield from self._frames(flat_late_partials(shape, refused, partials, family, self.execution_plan.wide))
        if columns.values is not None:
            encoded = table["records"].dropna() if "records" in table else ()
            for records in self.execution_plan.late_records(shape.family, refused, encoded):
                yield from self._frames(flat_late_records(shape, refused, records, columns.values, family))

    def _frames(self, table: pa.Table) -> Iterator[pd.DataFrame]:
        rows = max(1, min(FRAME_ROWS, FRAME_BYTES * len(table) // max(1, table.nbytes)))
        return (self._frame(table.slice(start, rows)) for start in range(0, len(table), rows))

    @of_stage(OUTPUT)
    def _frame(self, table: pa.Table) -> pd.DataFrame:
        return frame_of(self.packed.rows(table))


def _silence() -> None:
    """Drop what this process prints if it is that one; it prints for developers of Spark, past all settings of logs."""
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if started is not None and started.name == _DRIVER_WORKER:
        sys.stdout = io.StringIO()


def fingerprint(query: Query, buckets: Buckets) -> Fingerprint:
    """Return all properties of a query on which its stored state depends."""
    contents = [WINDOWS if tree == EAGER else PARTIALS for tree in query.trees[: len(query.shape.kernels)]]
    columns = [[None if at < 0 else query.columns[at] for at in places] for places in query.arguments]
    time, fixed = query.time or None, query.support.fixed(query.options.trigger, query.trees)
    states = query.remembers.states.text if query.remembers else ""
    found = fingerprint_of(
        query.shape, contents, columns, buckets.text, _TIMES[query.clock], time, query.options.adapt, fixed, states
    )
    codes = tuple(code_digest(kernel.aggregate) for kernel in query.shape.kernels)
    parts, names = query.window.parts, query.window.names
    calls = [f"{name} ({part})" for name, part in zip(names, parts, strict=True)] if names else map(repr, parts)
    return replace(
        found,
        codes=codes,
        retain=query.options.retain,
        trigger=tuple(query.options.trigger.stored),
        labels=query.labels,
        calls=tuple(calls),
    )


def stage_of(query: Query, labels: tuple[int, ...]) -> Any:
    """Return the first stage of a stream, for the input of `query.records(signals=True)`."""
    stage = query.execution_plan.first_stage(labels, with_records=query.options.late == RECORDS)
    return first_stage(stage, query.options.trigger.signals, query.signal_time is not None)


def build(
    query: Query,
    labels: tuple[int, ...],
    spread: Buckets,
    operator: Callable[[ExecutionPlan, Query, Fingerprint], WindowOperator] = WindowOperator,
    wrapped: Callable[[Any], Any] = lambda stage: stage,
    initial: GroupedData | None = None,
) -> DataFrame:
    """Return the emitted windows of a stream in append mode, and its late rows if the query emits them.

    `operator` makes the stateful operator and `wrapped` wraps the first stage, for example to measure times. `initial`
    is the initial state of the operator, grouped by bucket.
    """
    stage = wrapped(stage_of(query, labels))
    blocks = query.records(signals=True).mapInArrow(InTask(stage), struct_of(stage.schema))
    processor = operator(query.execution_plan, query, fingerprint(query, spread))
    flat = blocks.groupBy("bucket").transformWithStateInPandas(
        # Always Append, also for rows that replace others: Spark rejects a checkpoint with another output mode.
        processor,
        struct_of(Packed(query.flat).schema),
        outputMode="Append",
        timeMode=processor.time_mode,
        initialState=initial,
    )
    return query.finish(flat)
