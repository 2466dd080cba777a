"""Runs a first stage inside a Spark task and passes the number of its input partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from slicing.aggregates.spill import spilling


@dataclass(frozen=True)
class InTask:
    """A first stage as a function for `mapInArrow`."""

    stage: Callable[[Iterable[pa.RecordBatch], int], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the stage; outside of a task, all input is partition 0."""
        task = TaskContext.get()
        with spilling():
            yield from self.stage(batches, int(task.partitionId()) if task else 0)
