"""Progress of a bounded run: the tasks of the running stage, shown after the first seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from pyspark.sql import SparkSession

from slicing.cli.heartbeat import calling_periodically
from slicing.drawing import Display

WAIT_SECONDS, LIVE_SECONDS, PLAIN_SECONDS = 3.0, 0.5, 10.0
"""Seconds until progress is first shown, and between updates in a terminal and elsewhere."""
WIDTH = 30


@dataclass(frozen=True)
class Work:
    """The tasks of a stage, with Spark's stage number."""

    stage: int
    tasks: int
    done: int

    def line(self, seconds: float) -> str:
        """Return a bar with its figures."""
        filled = WIDTH * self.done // max(1, self.tasks)
        bar = "█" * filled + "░" * (WIDTH - filled)
        return f"{bar} stage {self.stage + 1}: {self.done:,} of {self.tasks:,} tasks, {seconds:.0f} s"


@contextmanager
def showing_progress(spark: SparkSession, stream: TextIO | None = None) -> Iterator[None]:
    """Show the progress of Spark's jobs while the block runs; in a terminal, clear it at the end."""
    with shown(lambda: _work(spark), Display(stream or sys.stderr)):
        yield


@contextmanager
def shown(work: Callable[[], Work | None], display: Display, wait: float = WAIT_SECONDS) -> Iterator[None]:
    """Ask for the work at intervals, from a thread, and show it."""

    def beat(seconds: float) -> float:
        found = work()
        if found is not None:
            display.show("work", found.line(seconds))
        return LIVE_SECONDS if display.live else PLAIN_SECONDS

    try:
        with calling_periodically(beat, wait):
            yield
    finally:
        display.clear()


def _work(spark: SparkSession) -> Work | None:
    """The newest running stage; None between stages, and when Spark has stopped."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = tracker.getActiveStageIds()
        info = tracker.getStageInfo(max(stages)) if stages else None
    except Exception:
        # Only the progress display fails here; the job itself raises its own errors.
        return None
    return None if info is None else Work(info.stageId, info.numTasks, info.numCompletedTasks)
