"""Time per stage: functions declare their stage, and a stopwatch, if one is active, measures each stage.

A stage's time excludes that of the stages it calls. Without an active stopwatch, a function of a stage costs one check
of a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from time import perf_counter_ns
from typing import Any, TypeVar, cast

DECODE, READ, ASSEMBLE, COMBINE = "decode", "read", "assemble", "combine"
ENCODE, WRITE, OUTPUT = "encode", "write", "output"
STAGES = (DECODE, READ, ASSEMBLE, COMBINE, ENCODE, WRITE, OUTPUT)
"""The stages of a bucket. ASSEMBLE includes all of its time that belongs to no other stage."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Stopwatch:
    """Measures microseconds per stage. Only one stage runs at a time; the stage that called it is paused."""

    def __init__(self) -> None:
        self._nanos: dict[str, int] = {}
        self._stage, self._since = "", 0

    @contextmanager
    def running(self, stage: str) -> Iterator[None]:
        """Count the time of the block for this stage; "" is no stage."""
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

    def lap(self) -> dict[str, int]:
        """Return the microseconds per stage since the last call, and start again at zero."""
        micros = {stage: nanos // 1000 for stage, nanos in self._nanos.items() if stage}
        self._nanos.clear()
        return micros

    def each(self, stage: str, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items; the time in which each is made counts for a stage."""
        iterator, end = iter(items), object()
        while True:
            with self.running(stage):
                item = next(iterator, end)
            if item is end:
                return
            yield item


_stopwatch: Stopwatch | None = None
"""The active stopwatch of this process; Spark runs one task at a time in a Python worker."""


@contextmanager
def profiled(stopwatch: Stopwatch) -> Iterator[None]:
    """Measure all stages of this process while the block runs."""
    global _stopwatch  # functions of a kernel or a page get no stopwatch as an argument
    before, _stopwatch = _stopwatch, stopwatch
    try:
        yield
    finally:
        _stopwatch = before


def of_stage(stage: str) -> Callable[[Function], Function]:
    """Return a decorator that counts a function's time, and each step of a returned iterator, for a stage."""

    def mark(function: Function) -> Function:
        @wraps(function)
        def timed(*args: Any, **options: Any) -> Any:
            if (stopwatch := _stopwatch) is None:
                return function(*args, **options)
            with stopwatch.running(stage):
                found = function(*args, **options)
            return stopwatch.each(stage, found) if isinstance(found, Iterator) else found

        return cast("Function", timed)

    return mark
