"""The watermarks of a stream: one on the time column, and one only in each branch of its plan.

The metadata of a column show its watermark until an expression or another watermark removes it. All of them are only in
Spark's text of the plan, which public API prints.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock, get_ident
from typing import Any, TextIO, cast

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from slicing.column_names import in_code, path_of
from slicing.errors import InvalidValue
from slicing.spark.checkpoint import FAILURES
from slicing.spark.late import DELAY

_STEP = re.compile(r"(?P<depth>[ :+-]*)(?:\*\(\d+\) )?(?P<step>\w.*)")
"""A line of a plan. Steps are indented more than the step that reads them."""
_MARK = re.compile(r"EventTimeWatermark (?:[0-9a-f-]{36}, )?(?P<column>.*?)#\d+.*, (?P<delay>[^,]*)$")
_SOURCE = re.compile(r"StreamingRelation(?:V2)? (?:\S+@\w+, )?(?P<source>[^,]*)")
_ONE_EACH = "spark.sql.streaming.statefulOperator.allowMultiple"
"""With "false", which queries with a single stateful operator may set, Spark allows several watermarks."""
_PRINTING = Lock()


@dataclass(frozen=True)
class Watermark:
    """A watermark in a plan: its column, its delay as Spark prints it, and the source that it is nearest to."""

    column: str
    delay: str
    source: str

    @property
    def call(self) -> str:
        """The call that made it."""
        return f'`.withWatermark({in_code(self.column)}, "{self.delay}")`'

    def __str__(self) -> str:
        return f"{self.call} on {self.source}"


def check_watermark(frame: DataFrame, schema: T.StructType, time: T.StructField, ntz: bool = False) -> None:
    """Raise InvalidValue, with the remedy, unless a stream has a watermark on its time column.

    `frame` is the DataFrame as it was given, `schema` its columns and the computed ones.
    """
    if DELAY in (time.metadata or {}):
        return
    others = [field for field in schema.fields if DELAY in (field.metadata or {})]
    computed, name = ("", time.name) if time.name in frame.columns else ('.withColumn("at", ...)', "at")
    call = f'`{computed}.withWatermark({in_code(name)}, "10 minutes")`'
    if others:
        found = f"the watermark is on `{others[0].name}`. {_carried(others[0], call)}"
    elif several := watermarks(frame):
        lost = several[0][-1]
        if path_of([name]) != name:  # `withMetadata` takes no name that needs backquotes
            computed, name = '.withColumn("at", ...)', "at"
        found = (
            f"an expression lost that of {lost}. Call it after the expression and not before, or give the new column "
            f'the metadata of the old one: `{computed}.withMetadata("{name}", df.schema["{lost.column}"].metadata)`.'
        )
    else:
        cast = f"Cast `{time.name}` to timestamp, the only type that takes one, then call" if ntz else "Call"
        found = f"there is none. {cast} {call} before `group_by`."
    raise InvalidValue(f"a stream needs a watermark on the time column `{time.name}`; {found}")


def _carried(field: T.StructField, call: str) -> str:
    """Return how a time that is computed from a column keeps its watermark; `call` sets one on another time.

    A second watermark would not do for rows of windows: Spark's is the smaller one, and no row is emitted to raise it.
    """
    if isinstance(field.dataType, T.StructType):
        return f'The time of its rows is `.withColumn("at", F.window_time({in_code(field.name)}))`.'
    return (
        f'A time computed from it keeps it by `.withColumn("at", ...).withMetadata("at", '
        f'df.schema["{field.name}"].metadata)`. For another time, write {call} in place '
        f"of that on `{field.name}`: Spark takes one in each branch of a query."
    )


def check_single(frame: DataFrame) -> None:
    """Raise InvalidValue if a branch of a stream has two watermarks, which Spark refuses when the query runs."""
    *_, second, first = [None, None, *max(watermarks(frame), key=len, default=[])]
    if second and str(frame.sparkSession.conf.get(_ONE_EACH, "true")).lower() == "true":
        raise InvalidValue(
            "Spark takes one watermark in each branch of a query; with a second one it fails at the start, or emits no "
            f"row. The first is {first}; {second.call} follows it. Keep one. For a computed time, call it after the "
            'expression and not before; rows of windows keep theirs by `.withColumn("at", F.window_time("window"))`.'
        )


def watermarks(frame: DataFrame) -> list[list[Watermark]]:
    """Return each watermark of a stream as the last of a list, after those that follow it in its branch.

    The list is empty if Spark cannot print the plan.
    """
    path: list[tuple[int, Watermark]] = []
    found = []
    steps = [step for line in _plan(frame).splitlines() if (step := _STEP.fullmatch(line))]
    for number, step in enumerate(steps):
        depth = len(step["depth"])
        path = [(above, mark) for above, mark in path if above < depth]
        if mark := _MARK.match(step["step"]):
            sources = (_SOURCE.match(each["step"]) for each in steps[number:])
            source = next((each["source"] for each in sources if each), "a stream")
            path.append((depth, Watermark(mark["column"], mark["delay"], source)))
            found.append([mark for _, mark in path])
    return found


def _plan(frame: DataFrame) -> str:
    """Spark's text of the plan, empty if Spark fails."""
    with _PRINTING, _captured() as found, suppress(*FAILURES):
        frame.explain()
    return "".join(found)


@contextmanager
def _captured() -> Iterator[list[str]]:
    """Yield a list that takes what this thread prints.

    A stream that another thread has put in place of `sys.stdout` in between stays.
    """
    before, own = sys.stdout, cast(Any, _OwnThread(sys.stdout))
    sys.stdout = own
    try:
        yield own.taken
    finally:
        own.thread = None
        if sys.stdout is own:
            sys.stdout = before


class _OwnThread:
    """Takes what the thread that made it writes while it is `thread`; all else is that of another stream."""

    def __init__(self, stream: TextIO):
        self.thread: int | None = get_ident()
        self.taken: list[str] = []
        self._stream = stream

    def write(self, text: str) -> int:
        """Called by `print`."""
        if get_ident() != self.thread:
            return self._stream.write(text)
        self.taken.append(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
