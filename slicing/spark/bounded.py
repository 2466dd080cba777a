"""Bounded DataFrames: the first stage of a stream, then all windows at once, without state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from slicing.aggregates.spill import spilling
from slicing.process.remembered import Remembered
from slicing.process.states import NO_STATES, States
from slicing.spark.ddl import struct_of
from slicing.spark.query import Query
from slicing.spark.task import InTask
from slicing.stages.execution_plan import Strategy
from slicing.stages.flat import Flat
from slicing.stages.output import flat_counts, flat_windows, framed
from slicing.stages.processed import NO_CALLING, Calling


@dataclass(frozen=True)
class AssembleAll:
    """The function for `mapInArrow` behind the shuffle; rows of a bucket come together, in the order of the input."""

    strategy: Strategy
    flat: Flat
    calling: Calling = NO_CALLING
    states: States = NO_STATES

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The windows of bucket after bucket."""
        for _, rows in groupby(rows_of(batches), key=lambda row: row["bucket"]):
            with spilling():
                yield from self._bucket(rows)

    def _bucket(self, rows: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        refused = {"no_time": 0, "no_window": 0}

        def shipped() -> Iterator[Any]:
            for row in rows:
                yield from self.strategy.shipped({name: (value,) for name, value in row.items()})
                for cause in refused:
                    refused[cause] += row[cause]

        calling = replace(self.calling, remembered=Remembered(self.states)) if self.states else self.calling
        for windows in self.strategy.all_windows(shipped()):
            for some in framed(self.strategy.shape, windows):
                table = flat_windows(self.strategy.shape, some, wide=self.strategy.wide, calling=calling)
                yield from self.flat.completed(table).to_batches()
        if any(refused.values()):
            yield from self.flat.completed(flat_counts(refused)).to_batches()


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows of a first stage, one by one."""
    for batch in batches:
        yield from batch.to_pylist()


def build(query: Query, labels: tuple[int, ...]) -> DataFrame:
    """The windows of a bounded DataFrame."""
    return assembled(query, query.records(), query.strategy.first_stage(labels))


def assembled(query: Query, rows: DataFrame, stage: Any) -> DataFrame:
    """The windows of what a first stage makes of some rows."""
    chosen = query.strategy
    blocks = rows.mapInArrow(InTask(stage), struct_of(stage.schema))
    grouped = blocks.repartition("bucket").sortWithinPartitions("bucket", "partition", "part")
    states = query.remembers.states if query.remembers else NO_STATES
    assemble = AssembleAll(chosen, query.flat, Calling(query.then, query.nesting), states)
    return query.finish(grouped.mapInArrow(assemble, struct_of(query.flat.schema)))
