"""How far a bounded run is: the tasks of the stage that runs, after the first seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from pyspark.sql import SparkSession

from slicing.cli.heartbeat import beating
from slicing.drawing.terminal import Display

WAIT_SECONDS, LIVE_SECONDS, PLAIN_SECONDS = 3.0, 0.5, 10.0
"""The seconds before progress is shown: updated in a terminal, at intervals elsewhere."""
WIDTH = 30


@dataclass(frozen=True)
class Work:
    """The tasks of a stage, numbered as Spark does."""

    stage: int
    tasks: int
    done: int

    def line(self, seconds: float) -> str:
        """A bar and its figures."""
        filled = WIDTH * self.done // max(1, self.tasks)
        bar = "█" * filled + "░" * (WIDTH - filled)
        return f"{bar} stage {self.stage + 1}: {self.done:,} of {self.tasks:,} tasks, {seconds:.0f} s"


@contextmanager
def working(spark: SparkSession, stream: TextIO | None = None) -> Iterator[None]:
    """Show how far Spark's jobs are while the block runs, and clear it at the end in a terminal."""
    with shown(lambda: _work(spark), Display(stream or sys.stderr)):
        yield


@contextmanager
def shown(work: Callable[[], Work | None], display: Display, wait: float = WAIT_SECONDS) -> Iterator[None]:
    """Ask for the work every now and then, from a thread, and show it."""

    def beat(seconds: float) -> float:
        found = work()
        if found is not None:
            display.show("work", found.line(seconds))
        return LIVE_SECONDS if display.live else PLAIN_SECONDS

    try:
        with beating(beat, wait):
            yield
    finally:
        display.clear()


def _work(spark: SparkSession) -> Work | None:
    """The newest stage that runs; None between stages, and once Spark is gone."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = tracker.getActiveStageIds()
        info = tracker.getStageInfo(max(stages)) if stages else None
    except Exception:
        # It only says how far the work is: what fails there is raised where the work is asked for.
        return None
    return None if info is None else Work(info.stageId, info.numTasks, info.numCompletedTasks)
