"""Console output of the command line: progress and errors on stderr, tables on stdout, safe for a terminal.

Remedies in messages are options to type, not Python code.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from slicing.drawing import Display, lines
from slicing.errors import Argument, CallText, Code, SlicingError, Topic, class_of_reason, reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEAT_SECONDS = 5.0
WAIT_SECONDS, LIVE_SECONDS, PLAIN_SECONDS = 3.0, 0.5, 10.0
"""Seconds until progress is first shown, and between updates in a terminal and elsewhere."""
WIDTH = 30


def complain(message: str, code: int) -> int:
    """Print an error as one line to stderr and return the exit code."""
    print("error: " + visible(" ".join(message.split())), file=sys.stderr)
    return code


def say(text: str) -> None:
    """Print progress to stderr."""
    print(visible(text), file=sys.stderr, flush=True)


def visible(text: str) -> str:
    """Return the text with control characters escaped, such as \\x1b."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@contextmanager
def reporting_alive(what: str) -> Iterator[None]:
    """Report every few seconds that `what` is still running, even while Spark's output is redirected to its log."""
    terminal = os.dup(2)

    def beat(seconds: float) -> float:
        os.write(terminal, f"{what} for {seconds:.0f} s ...\n".encode())
        return BEAT_SECONDS

    try:
        with calling_periodically(beat, BEAT_SECONDS):
            yield
    finally:
        os.close(terminal)


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> None:
    """Print rows in aligned columns, numbers aligned to the right."""
    for line in lines([[visible(cell) for cell in row] for row in (names, *rows)], numeric, ruled=True):
        print(line, flush=True)


@contextmanager
def calling_periodically(beat: Callable[[float], float], pause: float) -> Iterator[None]:
    """Call `beat` at intervals while the block runs, first after `pause` seconds.

    `beat` gets the seconds since the start and returns the seconds until its next call. It is not called after the
    block.
    """
    done, began = threading.Event(), time.monotonic()

    def beats() -> None:
        wait = pause
        while not done.wait(wait):
            wait = beat(time.monotonic() - began)

    heart = threading.Thread(target=beats, daemon=True)
    heart.start()
    try:
        yield
    finally:
        done.set()
        heart.join()


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


_OPTIONS = {"step": "cumulate"}
"""Arguments whose option has another name."""
_REMEDIES = {
    Topic.NO_OVERLAP: "leave out --advance",
    Topic.NAMES: "Leave one out.",
    Topic.DURATION: "",
    Topic.GAP_COLUMN: "",
    Topic.NUMBERS: "Make every value in the files a number, or choose another column.",
    Topic.COLUMN: "Change the column in the files: it must hold plain text, numbers or times.",
    Topic.SETTING: "Set --conf {}={}.",
}
_OF_WORKERS = {
    "ResultOverflow": "On the command line: write larger numbers as decimals, in Parquet, or sum fewer at once.",
    "StateMismatch": "On the command line: choose another --checkpoint and --output.",
}
"""Remedies for errors of workers; Spark passes on only their text."""


def command_line_message(error: SlicingError) -> str:
    """Return the message of an error, with remedies as command line options."""
    return error.worded(_words)


def _words(code: Code) -> str:
    if isinstance(code, Argument):
        return _option(code)
    if isinstance(code, CallText):
        return " ".join(map(_option, code.arguments)) or str(code)
    return _REMEDIES[code.topic].format(*code.values)


def _option(argument: Argument) -> str:
    name = f"--{_OPTIONS.get(argument.name, argument.name)}"
    if argument.value is ...:
        return f"`{name}`" if argument.name in _OPTIONS else str(argument)
    return name if argument.value is True else f'{name} "{argument.value}"'


def failure(error: object) -> str:
    """Return why Spark failed, and the remedy."""
    return " ".join(filter(None, (reason(error), _OF_WORKERS.get(class_of_reason(error)))))
