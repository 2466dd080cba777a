"""Sliding windows: one per distinct set of records that are at most `difference` apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from slicing.errors import InvalidValue, StateMismatch, check_flag, excerpt
from slicing.windows.families.even import Even
from slicing.windows.families.timed import of_fixed_length
from slicing.windows.sets import Set, check_different
from slicing.windows.time.back import Back, back_of
from slicing.windows.time.closed import Closed, checked, without_end, without_start
from slicing.windows.time.cut import Cut
from slicing.windows.time.durations import Duration, microseconds, show
from slicing.windows.time.edges import Array, elementwise
from slicing.windows.time.slices import Index
from slicing.windows.time.zones import Zone
from slicing.windows.window import Window

WINDOW_REFERENCES = "places"
"""How sliding windows are assembled: windows at the times of records, from the slices that exist."""
MOST_DIFFERENCE = 1 << 60
"""Microseconds, 36,000 years: sums of times stay in int64."""


@dataclass(frozen=True)
class SlidingFamily(Even):
    """A slice per unit, and a possible window from each slice; the records of a key determine which windows exist.

    All windows have the same length. Window w spans slices w to w + n - 1, where n is `longest`; `closed` says whether
    the first and the last of them count. The window that ends with slice s is number s - n + 1; the window that starts
    directly after it is s + 1.
    """

    right: bool = True
    closed: Closed = "both"

    assembled = WINDOW_REFERENCES

    @property
    def reach(self) -> int:
        """The number of slices from the first slice of a window to its last: the difference."""
        return self.longest - 1

    @property
    def ratio(self) -> float:
        """The maximum number of windows that contain a record: one per unit of the difference."""
        return self.size / self.advance

    @property
    def may_be_empty(self) -> bool:
        """Whether a window may hold no record: the one that makes it is left out."""
        return bool(without_end(self.closed))

    def first_slice(self, window: Index) -> Index:
        """First slice that counts."""
        return window + without_start(self.closed)

    def end_slice(self, window: Index) -> Index:
        """Return the slice after the last one that counts."""
        return window + self.longest - without_end(self.closed)

    def accepted_from(self, window: Index) -> Index:
        """Return the slice whose left window is `window`: earlier records need a later one of their key."""
        return window + self.reach

    def over(self, cut: Cut) -> SlidingFamily:
        """Return the same windows. Raises StateMismatch for another cut: times have been floored to its unit."""
        if cut != self.cut:
            raise StateMismatch(
                f"refused: times are floored to {show(self.advance)}, which is not the unit of the checkpoint. "
                "Start with a new checkpoint."
            )
        return self

    def in_time(self, index: Array, times: Array) -> NDArray[np.bool_]:
        """Return whether the left window of each record, which it makes, may be emitted."""
        (first, last), left = self.limits, index - self.reach
        found: NDArray[np.bool_] = (first <= left) & (left <= last)
        return found

    def spec(self) -> list[Any]:
        """`["sliding", difference, unit, right]`, and `closed` unless both ends count."""
        closed = [] if self.closed == "both" else [self.closed]
        return ["sliding", self.size - self.advance, self.advance, self.right, *closed]


@dataclass(frozen=True)
class CalendarSlidingFamily(SlidingFamily):
    """Left windows that begin calendar units before their last slice, a microsecond.

    They are numbered as if all were as long as the longest one may be, which is when they would be in the order of both
    ends. Which slices a window holds is said by `first_slice` and `end_slice` alone.
    """

    back: Back | None = None

    @classmethod
    def of(cls, back: Back, closed: Closed = "both") -> CalendarSlidingFamily:
        """Return the windows of calendar units."""
        return cls(back.longest + 1, 1, right=False, closed=closed, back=back)

    @elementwise
    def first_slice(self, window: Array) -> Array:
        """First slice that counts; the one after the last if there is none, as where a zone skips the day before."""
        first: Array = np.minimum(self.window_start(window) + without_start(self.closed), self.end_slice(window))
        return first

    def window_start(self, window: Index) -> Index:
        """First microsecond of a window."""
        assert self.back is not None, "it is of calendar units"
        return self.back.before(window + self.reach)

    def spec(self) -> list[Any]:
        """`["sliding back", edges at distances of the calendar units]`, and `closed` unless both ends count."""
        assert self.back is not None, "it is of calendar units"
        return ["sliding back", self.back.spec(), *([] if self.closed == "both" else [self.closed])]

    @property
    def fixed_size(self) -> int | None:
        """Return None: months and days differ in length."""
        return None

    @property
    def zone(self) -> Zone | None:
        """The zone by whose clock windows begin."""
        return self.back.zone if self.back else None


@dataclass(frozen=True)
class Sliding(Window):
    """The result of `sliding`; durations are in microseconds. Its repr is the call that makes it."""

    difference: int
    unit: int
    right: bool = True
    closed: Closed = "both"
    back: Back | None = None

    alone = "as records decide which there are"
    decided_by = "records decide. Ask its rows."
    keeps = "keeps partials of the times of records"
    finest = 1

    @cached_property
    def family(self) -> SlidingFamily:
        """All windows that may exist."""
        if self.back:
            return CalendarSlidingFamily.of(self.back, self.closed)
        return SlidingFamily(self.difference + self.unit, self.unit, right=self.right, closed=self.closed)

    @property
    def options(self) -> list[str]:
        """The arguments of the call after the difference, without defaults."""
        unit = [f"unit={show(self.unit)!r}"] if self.unit != _usual_unit(self.right) else []
        closed = [] if self.closed == "both" else [f"closed={self.closed!r}"]
        zone = [f"zone={self.back.zone.name!r}"] if self.back else []
        return unit + ([] if self.right else ["right=False"]) + closed + zone

    def __repr__(self) -> str:
        return f"sliding({', '.join([repr(str(self.back or show(self.difference))), *self.options])})"


@dataclass(frozen=True)
class Slidings(Set):
    """Left windows of several lengths, which end at the same times: wide rows. Its repr is the call that makes it."""

    members: tuple[Sliding, ...]

    alone = Sliding.alone
    decided_by = Sliding.decided_by
    keeps = Sliding.keeps
    finest = Sliding.finest

    def __repr__(self) -> str:
        pairs = zip(self.calls, self.members, strict=True)
        lengths = [f"{name}={show(member.difference)!r}" for name, member in pairs]
        return f"sliding({', '.join([*lengths, *self.members[0].options])})"


@overload
def sliding(
    *,
    unit: Duration | None = None,
    right: bool = True,
    closed: Closed = "both",
    zone: str | None = None,
    **lengths: Duration,
) -> Slidings: ...
@overload
def sliding(
    difference: Duration,
    *,
    unit: Duration | None = None,
    right: bool = True,
    closed: Closed = "both",
    zone: str | None = None,
) -> Sliding: ...
def sliding(
    difference: Duration | None = None,
    *,
    unit: Duration | None = None,
    right: bool = True,
    closed: Closed = "both",
    zone: str | None = None,
    **lengths: Duration,
) -> Sliding | Slidings:
    """Return sliding windows: one for each distinct set of records of a key that are at most `difference` apart.

    Times are floored to `unit`, and both ends of a window are included. For each distinct time t of a key there is the
    left window `[t - difference, t + unit)`, which ends with t. There is also the right window
    `[t + unit, t + difference + 2 unit)`, which starts directly after t, if it holds a record. A window that is both
    fires once. These are Kafka's sliding windows. With `right=False` there are left windows only. With `on_close()` a
    row then has the features as of one distinct time: the aggregate of the last `difference` before and including it.

    With `right=False`, `closed` says which ends of `[t - difference, t]` count: "left" leaves out the records at t
    itself, "right" those at `t - difference`, "none" both. `window` is the same in all cases. A time with nothing
    before it then has a row too, with null results.

    Several lengths by name, with `right=False`, make wide rows: one row per key and distinct time, with a column
    `<result>_<name>` for each length. They share one query and one state, which is that of the longest length.

    `unit` is a microsecond or whole milliseconds; `difference` must be a multiple of it. The default is a millisecond,
    without right windows a microsecond. On a stream a record counts in all open windows that hold it. If none is open,
    nor the window of its own time, it is late and makes no window. The lateness of all records of a micro-batch is
    decided together, in the order of their times, and a late row counts only the window of its own time as missed.
    `on_update()` also emits the windows that a new record creates, also one that may not hold it; `latest_only=True`
    only the window that ends with the newest time of the key. `on_change()` is refused, and aggregates need a
    `combine`. Other than here, Kafka moves windows that would start before 1970, creates the right window of a dropped
    record, and prints ends inclusively.

    With `zone`, without right windows, a `difference` of days, weeks, months, quarters or years goes back to the same
    time of the day by its wall clock: `sliding("1 month", right=False, zone="Europe/Berlin")`; in a month without that
    day to its last day.

    Cost: a record is stored once, or once together with all records of its key at its time. A window costs no combine
    if partials are added and subtracted, otherwise at most 2 log2(m) for m distinct times in it. The cost does not
    depend on `unit`. The state has a row for each time of a key while its windows are open; a worker process caches up
    to 128 MiB of them. A record is stored about twice if `difference` spans few micro-batches. The metric
    `open_windows` counts open left windows, `slices` the stored times. Raises InvalidValue, InvalidType.

    >>> from slicing.stages.local_runner import bounded
    >>> left = sliding("1 millisecond", right=False)
    >>> [(row.start, row.end, row.records) for row in bounded(left, [0, 400, 5000]).rows]
    [(-1000, 1, 1), (-600, 401, 2), (4000, 5001, 1)]
    >>> print(sliding("10 minutes"))
    sliding('10 minutes')
    >>> print(sliding(ten="10 minutes", day="24 hours", right=False))
    sliding(ten='10 minutes', day='1 day', right=False)
    """
    check_flag(right, "`right` says whether there are right windows")
    if (difference is None) == (not lengths):
        got = ", ".join([excerpt(difference), *(f"{name}={excerpt(value)}" for name, value in lengths.items())])
        raise InvalidValue(
            f"`sliding` takes either one difference or several by name; got {got if lengths else 'none'}. Write for "
            'example `sliding("10 minutes")` or `sliding(ten="10 minutes", hour="1 hour", right=False)`.'
        )
    step = _usual_unit(right) if unit is None else microseconds(unit, "unit")
    if step != 1 and (step < 1000 or step % 1000):
        raise InvalidValue(f"`unit` must be one microsecond or whole milliseconds; got {excerpt(unit)}.")
    if difference is not None:
        return _made("difference", difference, step, right, closed, zone)
    members = tuple(_made(name, length, step, right, closed, zone) for name, length in lengths.items())
    if right:
        raise InvalidValue(
            "several lengths in one row end with the same record, and right windows begin after one; got "
            f"{', '.join(lengths)} without right=False. Add it, or give each length a query of its own."
        )
    if of_zone := [name for name, member in zip(lengths, members, strict=True) if member.back]:
        raise InvalidValue(
            f"months and days by the clock of a zone differ in length, so other lengths may be longer or shorter; got "
            f"`{of_zone[0]}` in one row with others. Give it a query of its own."
        )
    return check_different(Slidings(members, tuple(lengths), wide=True))


def _made(name: str, difference: Duration, step: int, right: bool, closed: Closed, zone: str | None = None) -> Sliding:
    """Return the windows of one length, the argument `name`. Raises InvalidValue for a length that is not possible."""
    if zone is not None and (back := back_of(difference, name, zone)):
        if right or step != 1:
            raise InvalidValue(
                f"windows by the clock of a zone end with records, to the microsecond; got {excerpt(difference)} with "
                f"{'right windows. Write right=False.' if right else f'unit={show(step)!r}. Leave `unit` out.'}"
            )
        return Sliding(back.longest, 1, False, checked(closed), back)
    of_fixed_length(**{name: difference})
    length = microseconds(difference, name)
    if length < 0:
        raise InvalidValue(f"`{name}` must not be negative; got {excerpt(difference)}.")
    if length > MOST_DIFFERENCE - step:
        most = show(MOST_DIFFERENCE // 86_400_000_000 * 86_400_000_000)
        raise InvalidValue(f"`{name}` and `unit` must be shorter than {most}; got {excerpt(difference)}.")
    if length % step:
        raise InvalidValue(
            f"`{name}` must be a multiple of `unit`, to which times are floored; got {show(length)} and "
            f'{show(step)}. Write unit="1 microsecond" for times as they are.'
        )
    return Sliding(length, step, right, _ends(closed, right, length // step))


def _ends(closed: Closed, right: bool, reach: int) -> Closed:
    """Return `closed` of windows with `reach` units before their last one; raises InvalidValue if it has no meaning."""
    ends = checked(closed)
    if right and ends != "both":
        raise InvalidValue(
            f"`closed` is for windows that end with a record, and right windows begin after one; got {ends!r}. Write "
            f"`right=False, closed={ends!r}`."
        )
    if reach < without_start(ends) + without_end(ends):
        raise InvalidValue(f"a window without its ends, {ends!r}, holds no instant here. Take a longer `difference`.")
    return ends


def _usual_unit(right: bool) -> int:
    return 1000 if right else 1
