"""Generate "what goes with what" of docs/windows.md: each cell is the outcome of building such a query.

A query is built from a declared schema, so that Spark is not asked. What is refused is "no", with the message below the
table: page and error cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import types as T

import combinators as C
from slicing.aggregates.aggregate import Aggregate, Bound
from slicing.definition import Definition
from slicing.errors import InvalidValue
from slicing.grouping import Windowed, group_by
from slicing.triggers.emission import early, on_change, on_close, on_update
from slicing.triggers.trigger import Trigger
from slicing.windows.clock import processing_time
from slicing.windows.counting import Counting, counting
from slicing.windows.session import session
from slicing.windows.sliding import sliding
from slicing.windows.unbounded import unbounded
from slicing.windows.window import Window, by_edges, cumulating, hopping, tumbling

YES, NOTHING_IS_LATE, SAME = "yes", "nothing is late", "same"
BY_CLOCK = "windows by time, with `processing_time()`"
TIME = "ts"
_COLUMNS = T.StructType([T.StructField(TIME, T.TimestampType()), T.StructField("value", T.LongType())])
_HOUR, _DAY = hopping("1 hour", "1 minute"), hopping("1 day", "1 minute")


@dataclass(frozen=True)
class Windows:
    """The windows of one call of `.window(...)`."""

    windows: tuple[Window, ...] = ()
    named: Mapping[str, Window] | None = None

    def of(self, windowed: Any, time: object) -> Windowed:
        """The call on what is grouped."""
        made: Windowed = windowed.window(*self.windows, **self.named or {}, time=time)
        return made

    @property
    def by_time(self) -> bool:
        """Whether time closes them."""
        return all(window.by_time for window in self.windows)

    def ordered(self, column: str) -> Windows:
        """The same, with a column that orders bounded input where windows are counted."""
        in_order = [replace(each, order_by=column) if isinstance(each, Counting) else each for each in self.windows]
        return replace(self, windows=tuple(in_order))


KINDS: dict[str, Windows] = {
    "tumbling, hopping": Windows((_HOUR,)),
    "long, with a tail": Windows((hopping("90 days", advance="1 minute", tail="1 hour"),)),
    "cumulating": Windows((cumulating("1 day", step="1 hour"),)),
    "in a zone": Windows((tumbling("1 day", zone="Europe/Berlin"),)),
    "by edges": Windows((by_edges([0, 10**10], [10**9, 2 * 10**10]),)),
    "several that end together": Windows((_HOUR, _DAY)),
    "several that do not": Windows((_HOUR, tumbling("7 minutes"))),
    "wide rows": Windows(named={"hour": _HOUR, "day": _DAY}),
    "unbounded": Windows((unbounded(),)),
    "sessions": Windows((session("30 minutes"),)),
    "sliding": Windows((sliding("10 minutes"),)),
    "sliding, several lengths": Windows((sliding(ten="10 minutes", hour="1 hour", right=False),)),
    "counting": Windows((counting(100),)),
}
TRIGGERS: dict[str, Sequence[Trigger]] = {
    "on close": [on_close()],
    "windows without records": [on_close(empty="1 hour")],
    "late firings": [on_close(corrections=True, **more) for more in ({}, {"old": True}, {"discarding": True})],
    "on update, `latest_only`": [on_update(), on_update(latest_only=True)],
    "on change": [on_change(), on_change(drained=True)],
    "on time": [early(on_time=True), early(on_time=True, late=True), early(on_time=True, late=True, final=False)],
    "early": [early(every="10 seconds"), early(records=5), early(records=5, per="window", after="10 seconds")],
}
OPTIONS = ("grace", "late output", "eager", "bounded")
COLUMNS = (*TRIGGERS, *OPTIONS)
HEAD = ("", *COLUMNS)


def eager() -> Bound:
    """An aggregate without `combine`."""
    return Aggregate(lambda: 0, lambda n, _: n + 1, partial="n bigint", eager=True).on("value")


def triggers_of(column: str, of: Windows) -> Sequence[Trigger]:
    """The triggers that a column is about; where it is about something else, one that the windows have."""
    return TRIGGERS.get(column, [on_close() if any(isinstance(each, Counting) for each in of.windows) else on_update()])


def built(grouped: Any, of: Windows, column: str, trigger: Trigger, time: object) -> Definition:
    """The query that a cell is about. Raises InvalidValue for what does not go."""
    of = of.ordered("value") if column == "bounded" else of
    windowed = of.of(grouped, time).emit(trigger)
    if column == "grace" or (column in ("late firings", "on time") and time == TIME):
        windowed = windowed.grace("1 minute")
    if column == "late output":
        windowed = windowed.late("partials")
    return windowed.define(n=eager() if column == "eager" else C.count())


def outcome(of: Windows, column: str, time: object = TIME) -> str:
    """The outcome of building the queries of a cell: "yes", "nothing is late", or why the first one is refused."""
    found = ""
    for trigger in triggers_of(column, of):
        try:
            waits = of.by_time and time == TIME and column != "bounded"
            made = built(group_by(), of, column, trigger, time)
            query = made.declare(_COLUMNS, streaming=column != "bounded", watermark="1 second" if waits else None)
        except InvalidValue as error:
            return str(error)
        found = NOTHING_IS_LATE if column == "late output" and query.query().late_columns is None else YES
    return found


def cells(of: Windows, time: object = TIME) -> list[str]:
    """What a row of the table says, with the whole message for "no"."""
    return [_without_trigger(outcome(of, column, time), triggers_of(column, of)) for column in COLUMNS]


def rows() -> dict[str, list[str]]:
    """The rows of the table by name."""
    found = {kind: cells(of) for kind, of in KINDS.items()}
    hour = KINDS["tumbling, hopping"]
    by_event, by_clock = cells(hour), cells(hour, processing_time())
    found[BY_CLOCK] = [SAME if clock == event else clock for event, clock in zip(by_event, by_clock, strict=True)]
    return found


def merged(found: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The rows with those that say the same in one, under all of their names."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for kind, row in found.items():
        kinds.setdefault(tuple(row), []).append(kind)
    return {"; ".join(names): [*row] for row, names in kinds.items()}


def table() -> tuple[list[Sequence[str]], str]:
    """The rows of the table, and below it the reasons of "no" by their number."""
    found = merged(rows())
    goes = {YES, NOTHING_IS_LATE, SAME}
    reasons = list(dict.fromkeys(cell for row in found.values() for cell in row if cell not in goes))
    short = [
        [kind, *(f"no ({reasons.index(cell) + 1})" if cell in reasons else cell for cell in row)]
        for kind, row in found.items()
    ]
    return [HEAD, *short], "\n".join(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))


def _without_trigger(message: str, triggers: Sequence[Trigger]) -> str:
    """A message without the name of the trigger that it begins with, as it stands for all triggers of a cell."""
    for trigger in triggers:
        if message.startswith(f"{trigger} "):
            return f"It {message.removeprefix(f'{trigger} ')}"
    return message
