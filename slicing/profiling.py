"""Time by stage: functions declare their stage, and a watch, if one is set, has the time of each stage.

A stage has the time it takes itself, without that of stages it calls. As long as no watch is set, a function of a stage
costs one look at a variable more.
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
"""Assembly is all that a bucket does and no other stage has."""

Function = TypeVar("Function", bound=Callable[..., Any])


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


_watch: Stopwatch | None = None
"""The watch of this process; Spark runs one task at a time in a Python worker."""


@contextmanager
def watched(watch: Stopwatch) -> Iterator[None]:
    """Time all stages of this process."""
    global _watch  # a stage of a kernel or a page knows nothing of who looks at it
    before, _watch = _watch, watch
    try:
        yield
    finally:
        _watch = before


def of_stage(stage: str) -> Callable[[Function], Function]:
    """Mark a function as a part of a stage; of one that returns an iterator also each step is."""

    def mark(function: Function) -> Function:
        @wraps(function)
        def timed(*args: Any, **options: Any) -> Any:
            if (watch := _watch) is None:
                return function(*args, **options)
            with watch.running(stage):
                found = function(*args, **options)
            return watch.each(stage, found) if isinstance(found, Iterator) else found

        return cast("Function", timed)

    return mark
