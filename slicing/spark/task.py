"""The first stage inside a task of Spark, which knows the number of its input partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from slicing.aggregates.spill import spilling


@dataclass(frozen=True)
class InTask:
    """A stage as a function for `mapInArrow`."""

    stage: Callable[[Iterable[pa.RecordBatch], int], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the stage; without a task all input is one partition."""
        task = TaskContext.get()
        with spilling():
            yield from self.stage(batches, int(task.partitionId()) if task else 0)
