"""Windows at requested instants: the last 10 minutes as of each row of another table, or another frame around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slicing.errors import InvalidType, InvalidValue, check_flag, excerpt
from slicing.windows.families.even import Even
from slicing.windows.families.family import Family
from slicing.windows.families.several import several
from slicing.windows.families.timed import of_fixed_length
from slicing.windows.time.back import Back, back_of
from slicing.windows.time.closed import Closed, checked, without_end, without_start
from slicing.windows.time.durations import Duration, microseconds, show
from slicing.windows.time.edges import AFTER, BEFORE, Array
from slicing.windows.time.zones import Zone
from slicing.windows.window import Window

RANGES = "ranges"
"""How lookback windows are assembled: each is a range of the rows of its key."""
MOST_LENGTH = 1 << 60
"""Microseconds, 36,000 years: an instant minus a length stays in int64."""


@dataclass(frozen=True)
class Frame:
    """The time from `start` to `end` after an instant, in microseconds; both may be negative. Made by `frame`."""

    start: int
    end: int

    def __repr__(self) -> str:
        return f"frame({_signed(self.start)!r}, {_signed(self.end)!r})"


def _signed(distance: int) -> str:
    return f"{'-' * (distance < 0)}{show(abs(distance))}"


def frame(start: Duration, end: Duration) -> Frame:
    """Return the time between two distances from an instant, for `features_at`: `frame("-3 days", "-1 day")`.

    Negative distances are before the instant: `frame("-1 hour", "1 hour")` is around it, `frame("0 seconds", "20
    minutes")` ahead of it. Raises InvalidType and InvalidValue unless the frame ends after it begins.

    >>> frame("-3 days", "-1 day")
    frame('-3 days', '-1 day')
    """
    low, high = _distance("start", start), _distance("end", end)
    if low >= high:
        raise InvalidValue(
            f"a frame ends after it begins; got {excerpt(start)} and {excerpt(end)}. Distances before the instant are "
            'negative: `frame("-3 days", "-1 day")`.'
        )
    return Frame(low, high)


@dataclass(frozen=True)
class Lookback(Even):
    """Windows of equal length, one beginning at every microsecond; a slice is a microsecond. `as_of(t)` chooses one.

    ahead: how far after the instant a window ends, exclusive, in microseconds; negative if it ends before.
    """

    ahead: int = 0

    assembled = RANGES
    ratio = 1.0

    def in_time(self, index: Array, times: Array) -> NDArray[np.bool_]:
        """Return True for each record: the bounds of windows are not in rows."""
        return np.ones(len(times), bool)

    def as_of(self, time: Array) -> Array:
        """Return the window of each instant; one that would begin before or after int64 begins there."""
        return moved(time, self.ahead - self.size)


@dataclass(frozen=True)
class CalendarLookback(Lookback):
    """Windows that begin a number of calendar units before an instant, numbered by their first microsecond.

    after: how far after that they begin, in microseconds.
    """

    back: Back | None = None
    after: int = 0

    def as_of(self, time: Array) -> Array:
        """Return the window of each instant."""
        assert self.back is not None, "it is of calendar units"
        return moved(self.back.before(time), self.after)


def moved(time: Array, distance: int) -> Array:
    """Return instants moved by a distance, at most to the ends of int64."""
    if distance < 0:
        return np.maximum(time, BEFORE - distance) + distance
    return np.minimum(time, AFTER - distance) + distance


@dataclass(frozen=True)
class Lookbacks(Window):
    """The windows of `features_at`: one frame, or several by name. Its repr is the call."""

    frames: tuple[Frame | Back, ...]
    names: tuple[str, ...] | None
    closed: Closed = "left"
    known: str = ""
    """The text of the column from whose instant on a record counts, "" without one."""

    decided_by = "the spine does."
    keeps = "joins partials"
    columns = ()

    @property
    def wide(self) -> bool:  # type: ignore[override]
        """Whether results are identified by the names of lengths."""
        return self.names is not None

    @cached_property
    def family(self) -> Family:
        """The windows of all frames; they share their slices."""
        return self.of_families([self._family(each) for each in self.frames])

    def of_families(self, families: Sequence[Family]) -> Family:
        """Return the family of one window, or of several by name."""
        return families[0] if self.names is None else several(families)

    def _family(self, each: Frame | Back) -> Lookback:
        after, ahead = without_start(self.closed), 1 - without_end(self.closed)
        if isinstance(each, Back):
            return CalendarLookback(each.longest, 1, ahead=ahead, back=each, after=after)
        low, high = each.start + after, each.end + ahead
        return Lookback(high - low, 1, ahead=high)

    @property
    def calls(self) -> list[str]:
        """The names, or the length if there is only one."""
        return [*(self.names or map(_shown, self.frames))]

    def __repr__(self) -> str:
        names = [f"{name}=" for name in self.names] if self.names else [""]
        zones = [f"zone={each.zone.name!r}" for each in self.frames if isinstance(each, Back)][:1]
        lengths = [_written(each, days=not zones) for each in self.frames]  # a day of a zone may have 25 hours
        given = [f"{name}{text}" for name, text in zip(names, lengths, strict=True)]
        given += {"left": [], "both": ["inclusive=True"]}.get(self.closed, [f"closed={self.closed!r}"])
        given += zones + [f"known={self.known!r}"] * bool(self.known)
        return f"features_at({', '.join(given)})"


def _shown(each: Frame | Back, days: bool = True) -> str:
    if isinstance(each, Back):
        return str(each)
    return repr(each) if each.end else show(-each.start, days=days)


def _written(each: Frame | Back, days: bool) -> str:
    return repr(each) if isinstance(each, Frame) and each.end else repr(_shown(each, days))


def lookbacks(
    length: Duration | Frame | None,
    named: Mapping[str, Duration | Frame],
    inclusive: bool,
    closed: Closed | None = None,
    zone: Zone | str | None = None,
) -> Lookbacks:
    """Return the frames of a call: one, or several by name; lengths of days or longer are by the clock of a zone.

    Raises InvalidType and InvalidValue for an invalid length, for no length, and for both forms at once.
    """
    check_flag(inclusive, "`inclusive` says whether records at the instant itself count")
    ends = _closed(inclusive, closed)
    if (length is None) == (not named):
        given = ", ".join([excerpt(length), *(f"{name}={excerpt(value)}" for name, value in named.items())])
        raise InvalidValue(
            f"`features_at` takes either one length or several by name; got {given if named else 'none'}. "
            + (_known(named) or _FORMS)
        )
    if length is not None:
        return Lookbacks((_frame("length", length, ends, zone),), None, ends)
    return Lookbacks(tuple(_frame(name, each, ends, zone) for name, each in named.items()), tuple(named), ends)


def _closed(inclusive: bool, closed: Closed | None) -> Closed:
    if closed is None:
        return "both" if inclusive else "left"
    if inclusive:
        raise InvalidValue('`inclusive=True` is `closed="both"`; got both. Leave one out.')
    return checked(closed)


def _frame(name: str, given: Duration | Frame, closed: Closed, zone: Zone | str | None) -> Frame | Back:
    if zone is not None and not isinstance(given, Frame) and (back := back_of(given, name, zone)):
        return back
    each = given if isinstance(given, Frame) else Frame(-_length(name, given), 0)
    if closed == "none" and each.end - each.start == 1:
        raise InvalidValue(f"`{name}` without both of its ends holds no instant; got {excerpt(given)}. Make it longer.")
    return each


_FORMS = (
    'Write for example `features_at(spine, "1 hour", time="ts")` or '
    '`features_at(spine, hour="1 hour", day="1 day", time="ts")`.'
)


def _known(named: Iterable[str]) -> str:
    """Return the remedy for keywords of other libraries among the names of lengths; "" without one."""
    from slicing.hints import no_keyword

    return next(filter(None, (no_keyword("features_at", name) for name in named)), "")


def _distance(name: str, duration: Duration) -> int:
    distance = microseconds(duration, name)
    if abs(distance) > MOST_LENGTH:
        raise InvalidValue(f"`{name}` must be at most 36,000 years; got {excerpt(duration)}.")
    return distance


def _length(name: str, duration: Duration) -> int:
    try:
        length = microseconds(duration, name)
    except (InvalidValue, InvalidType):
        of_fixed_length(**{name: duration})
        if remedy := _known([name]):
            raise InvalidType(
                f"`features_at` takes lengths by name; got {name}={excerpt(duration)}. {remedy}"
            ) from None
        raise
    if length <= 0:
        raise InvalidValue(f"`{name}` must be positive; got {excerpt(duration)}. It says how far back records count.")
    if length > MOST_LENGTH:
        raise InvalidValue(f"`{name}` must be at most 36,000 years; got {excerpt(duration)}.")
    return length
