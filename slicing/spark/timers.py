"""Where the time of a stream goes in Python, for those who look for it: with `spark.slicing.timers` set to true.

A stage is timed by wrapping its functions for as long as a partition runs. So nothing is timed, or asked whether it is,
unless the query was built to be. Each stage has the time it takes itself, without that of stages it calls. What is in
none of them is Spark's: reading the source, the shuffle, the way to Python and back, the commit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from time import perf_counter_ns
from typing import Any

import pandas as pd
import pyarrow as pa

from slicing.aggregates.columns import ColumnsKernel
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.rows import RowsKernel
from slicing.engines.bucket import Bucket
from slicing.engines.eager import EagerBucket
from slicing.engines.mixed import MixedBucket
from slicing.engines.sessions import SessionBucket
from slicing.spark import stream
from slicing.spark.metrics import PREAGGREGATE
from slicing.spark.preaggregate import PreAggregate, Ship
from slicing.spark.strategy import Eager, Mixed, Sliced
from slicing.state.header import Header
from slicing.state.pages import Pages

STAGES: dict[str, tuple[tuple[Any, str], ...]] = {
    "micros_decode": ((Sliced, "shipped"), (Eager, "shipped"), (Mixed, "shipped"), (Pages, "get")),
    "micros_read": ((stream.SparkStore, "header"), (stream.SparkStore, "get")),
    "micros_combine": (
        (Kernel, "reduce"),
        *((kernel, name) for kernel in (ColumnsKernel, RowsKernel) for name in ("fold", "combine", "invert")),
        (RowsKernel, "reduce"),
    ),
    "micros_assemble": tuple(
        (each, name) for each in (Bucket, EagerBucket, MixedBucket, SessionBucket) for name in ("add", "close")
    ),
    "micros_encode": ((Pages, "put"), (Header, "to_text")),
    "micros_write": tuple((stream.SparkStore, name) for name in ("put", "put_header", "remove")),
    "micros_output": ((stream, "flat_windows"), (stream.Buckets, "_frame")),
}
"""The functions of each stage of the second half; assembly is all that a bucket does and no other stage has."""


class Stopwatch:
    """Microseconds by stage. One stage runs at a time; that which called it waits."""

    def __init__(self) -> None:
        self._nanos: dict[str, int] = {}
        self._stage, self._since = "", 0

    @contextmanager
    def running(self, stage: str) -> Iterator[None]:
        """What is done inside is of this stage, "" being none."""
        outer = self._switch(stage)
        try:
            yield
        finally:
            self._switch(outer)

    def _switch(self, stage: str) -> str:
        now = perf_counter_ns()
        self._nanos[self._stage] = self._nanos.get(self._stage, 0) + now - self._since
        before, self._stage, self._since = self._stage, stage, now
        return before

    def take(self) -> dict[str, int]:
        """All stages since the last time, and start anew."""
        taken = {stage: nanos // 1000 for stage, nanos in self._nanos.items() if stage}
        self._nanos.clear()
        return taken

    def each(self, stage: str, items: Iterable[Any]) -> Iterator[Any]:
        """The items, each made in a stage."""
        iterator, end = iter(items), object()
        while True:
            with self.running(stage):
                item = next(iterator, end)
            if item is end:
                return
            yield item

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as a part of a stage; of a generator that is each step."""
        if inspect.isgeneratorfunction(function):
            return wraps(function)(lambda *args, **options: self.each(stage, function(*args, **options)))

        @wraps(function)
        def within(*args: Any, **options: Any) -> Any:
            with self.running(stage):
                return function(*args, **options)

        return within


@contextmanager
def watched(watch: Stopwatch) -> Iterator[None]:
    """Time all stages of this process."""
    functions = [(stage, owner, name, vars(owner)[name]) for stage, own in STAGES.items() for owner, name in own]
    for stage, owner, name, function in functions:
        setattr(owner, name, watch.timed(stage, function))
    try:
        yield
    finally:
        for _, owner, name, function in functions:
            setattr(owner, name, function)


class TimedBuckets(stream.Buckets):
    """The stateful operator with its stages timed; the first stage's time comes with the rows."""

    def init(self, handle: Any) -> None:
        """Called once per partition and micro-batch."""
        super().init(handle)
        self.watch, self.shipped = Stopwatch(), 0
        self._watched = watched(self.watch)
        self._watched.__enter__()

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """As without timers."""
        tables = list(rows)
        self.shipped = sum(int(table[PREAGGREGATE].sum()) for table in tables)
        yield from super().handleInputRows(key, iter(tables), timerValues)

    def _counted(self, counts: dict[str, int]) -> Iterator[pd.DataFrame]:
        counts |= self.watch.take()
        counts[PREAGGREGATE], self.shipped = self.shipped, 0
        yield from super()._counted(counts)

    def close(self) -> None:
        """Called once per partition and micro-batch."""
        self._watched.__exit__(None, None, None)
        super().close()


@dataclass(frozen=True)
class TimedStage:
    """The first stage, with a column of how long it took, in the first row of every batch. Waiting for input is not."""

    stage: PreAggregate | Ship

    @property
    def schema(self) -> str:
        """The columns of its rows."""
        return f"{self.stage.schema}, {PREAGGREGATE} bigint"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the stage."""
        watch = Stopwatch()
        for rows in watch.each(PREAGGREGATE, self.stage(watch.each("", batches))):
            micros = [watch.take().get(PREAGGREGATE, 0), *[0] * (rows.num_rows - 1)]
            yield rows.append_column(PREAGGREGATE, pa.array(micros, pa.int64()))
