"""Bounded DataFrames: the same first stage as on a stream, then all windows are assembled at once, without state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from slicing.aggregates.spill import spilling
from slicing.assembly.results import Windows
from slicing.content.signals import Signals
from slicing.process.remembered import FunctionStates
from slicing.process.states import NO_STATES, States
from slicing.spark.ddl import struct_of
from slicing.spark.query import Query
from slicing.spark.task import InTask
from slicing.stages.execution_plan import ExecutionPlan
from slicing.stages.output import flat_windows, framed
from slicing.stages.packed import Packed
from slicing.stages.processed import NO_CALLS, FunctionCalls
from slicing.stages.sessions import Merged
from slicing.stages.signalled import Signalled


@dataclass(frozen=True)
class AssembleAll:
    """The function for `mapInArrow` after the shuffle; the rows of a bucket are consecutive and in input order.

    begins_from: the microsecond before which no window begins; None if any may.
    """

    execution_plan: ExecutionPlan
    packed: Packed
    calling: FunctionCalls = NO_CALLS
    states: States = NO_STATES
    signalled: Signalled | None = None
    begins_from: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the windows, bucket by bucket."""
        for _, rows in groupby(rows_of(batches), key=lambda row: row["bucket"]):
            with spilling():
                yield from self._bucket(rows)

    def _bucket(self, rows: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        refused = {"no_time": 0, "no_window": 0}
        heard: list[Any] = []

        def shipped() -> Iterator[Any]:
            for row in rows:
                columns = {name: (value,) for name, value in row.items()}
                yield from self.execution_plan.shipped(columns)
                heard.extend(self.signalled.heard(columns).blocks if self.signalled else ())
                for cause in refused:
                    refused[cause] += row[cause]

        calling = replace(self.calling, remembered=FunctionStates(self.states)) if self.states else self.calling
        for windows in self._windows(shipped(), heard):
            for some in framed(self.execution_plan.shape, self._left(windows)):
                table = flat_windows(self.execution_plan.shape, some, wide=self.execution_plan.wide, calling=calling)
                yield from self.packed.rows(table).to_batches()
        if any(refused.values()):
            yield from self.packed.counts(refused).to_batches()

    def _left(self, windows: Windows) -> Windows:
        """Return the windows that begin at `begins_from` or later; no function is called for others."""
        if self.begins_from is None:
            return windows
        family = self.execution_plan.shape.family.families[windows.family]
        return windows.take(np.flatnonzero(family.window_start(windows.windows) >= self.begins_from))

    def _windows(self, shipped: Iterator[Any], heard: list[Any]) -> Iterator[Windows]:
        """Return all windows; `heard` receives the signals of the rows that `shipped` has yielded so far."""
        if self.signalled is None:
            return self.execution_plan.all_windows(shipped)
        assert isinstance(self.execution_plan, Merged), "only ends are asked for"
        return self.execution_plan.all_ended(list(shipped), Signals(self.signalled.folded, heard))


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a first stage, one by one, as dicts."""
    for batch in batches:
        yield from batch.to_pylist()


def build(query: Query, labels: tuple[int, ...]) -> DataFrame:
    """Return the windows of a bounded DataFrame."""
    stage = query.execution_plan.first_stage(labels)
    if not query.options.trigger.ends:
        return assembled(query, query.records(), stage)
    return assembled(query, query.records(signals=True), Signalled(stage, query.options.trigger.signals))


def assembled(query: Query, rows: DataFrame, stage: Any, begins_from: int | None = None) -> DataFrame:
    """Return the windows of `rows`, which the first stage `stage` turns into blocks.

    With `begins_from`, in microseconds, windows that begin earlier are left out.
    """
    chosen = query.execution_plan
    blocks = rows.mapInArrow(InTask(stage), struct_of(stage.schema))
    grouped = blocks.repartition("bucket").sortWithinPartitions("bucket", "partition", "part")
    states = query.remembers.states if query.remembers else NO_STATES
    signalled = stage if isinstance(stage, Signalled) else None
    calling = FunctionCalls(query.then, query.nesting)
    assemble = AssembleAll(chosen, Packed(query.flat), calling, states, signalled, begins_from)
    return query.finish(grouped.mapInArrow(assemble, struct_of(assemble.packed.schema)))
