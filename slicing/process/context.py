"""The facts about a window that a user's function gets together with its records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from slicing.process.states import State

_EPOCH = datetime(1970, 1, 1)


class Span(NamedTuple):
    """A window `[start_us, end_us)` in microseconds since 1970; `start` and `end` are the same as datetimes.

    Times are in UTC; they have no zone if the time column is `timestamp_ntz`. Count windows also have the numbers of
    their first and last records.

    >>> Span(0, 60_000_000).end
    datetime.datetime(1970, 1, 1, 0, 1, tzinfo=datetime.timezone.utc)
    """

    start_us: int
    end_us: int
    first_record: int | None = None
    last_record: int | None = None
    has_zone: bool = True

    @property
    def start(self) -> datetime:
        """The start of the window, which is inclusive."""
        return instant(self.start_us, self.has_zone)

    @property
    def end(self) -> datetime:
        """The end of the window, which is exclusive."""
        return instant(self.end_us, self.has_zone)


class Firing(NamedTuple):
    """One call of a function: the values of the key, the window, its number, and the number of its family.

    `at` is the end of the window, by which its states expire, or the clock if time does not close windows; in
    microseconds.
    """

    key: tuple[Any, ...]
    window: Span | None
    number: int = 0
    family: int = 0
    at: int = 0


@dataclass(frozen=True)
class Context:
    """The firing that a function is called for.

    kind: the kind of the firing, as in the column `emission`: "final", "update", "early", "on_time", "late" or
        "correction".
    watermark: the watermark of the micro-batch; None on bounded input and before there is one.
    clock: the clock of the micro-batch; None on bounded input.
    key_state, window_state: the states, whose fields the function reads and sets; None if none are declared.
    """

    kind: str = "final"
    watermark: datetime | None = None
    clock: datetime | None = None
    key_state: State | None = None
    window_state: State | None = None


def instant(microseconds: int, has_zone: bool = True) -> datetime:
    """Return an instant as a datetime, in UTC, with or without the zone."""
    found = _EPOCH + timedelta(microseconds=microseconds)
    return found.replace(tzinfo=UTC) if has_zone else found
