"""The kinds of windows as frozen values: the arguments of `window(...)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from slicing.errors import Argument, CallText, InvalidValue, Remedy, Topic, check_flag, excerpt
from slicing.windows.families.cumulating import Cumulating
from slicing.windows.families.even import Even
from slicing.windows.families.family import Family, slice_of, windows_between, windows_of
from slicing.windows.families.stepped import Stepped
from slicing.windows.families.tailed import Tailed
from slicing.windows.families.timed import by_edges as edges_family
from slicing.windows.families.timed import cumulating_family, hopping_family, of_fixed_length, tailed_family
from slicing.windows.time.closed import Closed, of_windows
from slicing.windows.time.durations import Duration, microseconds, show
from slicing.windows.time.edges import Edges
from slicing.windows.time.instants import Instant, microseconds_of


class Window:
    """Windows that time alone determines, numbered by a family. Their repr is the call that makes them."""

    names: tuple[str, ...] | None = None
    """The names of several windows of one call."""
    wide = False
    """Whether these are aligned windows, with their results in one wide row."""

    by_time = True
    """Whether time closes them: a stream then needs a time and a watermark, and records may be late."""
    decided_by = ""
    """What decides which windows there are instead of time, as part of a message; "" for time."""
    closes = True
    """Whether each window is complete at some time."""
    alone = ""
    """The reason why they cannot share slices with other windows, as part of a message; "" if they can."""
    keeps = ""
    """What they do with partials instead of a tree, as part of a message; then eager aggregates are refused."""
    merges = False
    """Whether two windows may merge into one."""
    finest = 1000
    """The smallest distance between edges on a stream, in microseconds; the watermark counts milliseconds."""
    columns: tuple[str, ...] = ("window",)
    """The columns of rows other than keys and results."""
    counts = False
    """Whether slices are ranges of record numbers, not of instants."""
    own_keys = 0
    """The number of key fields, after those of the query, that identify these windows: start and end, or none."""
    ttl: int | None = None
    """Microseconds after which a key without records is removed, by the clock; None if no such limit is needed."""

    @property
    def family(self) -> Family:
        """Return the windows in order, as ranges of slices."""
        raise NotImplementedError

    @property
    def cost(self) -> str:
        """Return a note on the cost of these windows, shown before the plan; "" for none."""
        return ""

    @property
    def calls(self) -> list[str]:
        """Return the names of these windows, or the calls that make them."""
        return [repr(self)]

    @property
    def written(self) -> CallText:
        """The call that makes these windows, for messages."""
        return CallText(repr(self))

    def slice_of(self, instant: Instant) -> tuple[int, int]:
        """Return the slice `[start, end)` that contains an instant, in microseconds since 1970.

        Raises InvalidValue if records determine the windows.

        >>> hopping("1 hour", "1 minute").slice_of(90_000_000)
        (60000000, 120000000)
        """
        return slice_of(self._by_time(), microseconds_of(instant))

    def windows_of(self, instant: Instant) -> list[tuple[int, int]]:
        """Return the windows `[start, end)` that contain an instant, in microseconds since 1970, oldest first.

        The list is empty in a gap. Raises InvalidValue if records determine the windows.

        >>> hopping("2 seconds", "1 second").windows_of(0)
        [(-1000000, 1000000), (0, 2000000)]
        """
        return windows_of(self._by_time(), microseconds_of(instant))

    def _by_time(self) -> Family:
        if self.decided_by:
            raise InvalidValue(f"windows of an instant are those that time decides; of {self} {self.decided_by}")
        return self.family

    @property
    def parts(self) -> tuple[Window, ...]:
        """The kinds of these windows: one, or each member of a set."""
        return (self,)

    def between(self, low: int, high: int, most: int = 1000) -> list[tuple[int, int]]:
        """Return the first `most` windows `[start, end)` that contain an instant of `[low, high)`, in microseconds.

        The list is empty if records determine the windows. Cost: linear in the number of windows.

        >>> tumbling("2 seconds").between(1_000_000, 3_000_000)
        [(0, 2000000), (2000000, 4000000)]
        """
        try:
            self.windows_of(low)
        except InvalidValue:
            return []
        return windows_between(self.family, low, high, most)

    def _repr_svg_(self) -> str | None:
        """Return a picture of some windows, for notebooks; None if records determine them or they have no ends."""
        from slicing.drawing import picture

        return picture(self)


@dataclass(frozen=True)
class Hopping(Window):
    """Windows `[offset + i * advance, offset + i * advance + size)` for every integer i; all in microseconds.

    With `closed_right` the ends are in the windows, and the starts are not. Made by `hopping` and `tumbling`, which
    check their arguments. Its repr is the call that makes it.
    """

    size: int
    advance: int
    offset: int = 0
    closed_right: bool = False

    @property
    def family(self) -> Even:
        """The windows in order, as ranges of slices."""
        return Even(self.size, self.advance, self.offset, self.closed_right)

    @property
    def stored(self) -> str:
        """The text of these windows in checkpoints, which is older than the option `gaps`."""
        closed = ", closed='right'" if self.closed_right else ""
        if self.size == self.advance and not self.offset:
            return f"tumbling({show(self.size)!r}{closed})"
        offset = f", offset={show(self.offset)!r}" if self.offset else ""
        return f"hopping({show(self.size)!r}, advance={show(self.advance)!r}{offset}{closed})"

    @property
    def written(self) -> CallText:
        """The call that makes these windows, for messages."""
        advance = () if self.size == self.advance else (Argument("advance", show(self.advance)),)
        offset = (Argument("offset", show(self.offset)),) if self.offset else ()
        gaps = (Argument("gaps", True),) if self.advance > self.size else ()
        closed = (Argument("closed", "right"),) if self.closed_right else ()
        return CallText(repr(self), (Argument("size", show(self.size)), *advance, *offset, *gaps, *closed))

    def __repr__(self) -> str:
        return f"{self.stored[:-1]}, gaps=True)" if self.advance > self.size else self.stored


@dataclass(frozen=True)
class Timed(Window):
    """Windows of any other family: by a wall clock, cumulating, by edges. `call` is the text of the call."""

    of: Family
    call: str = field(compare=False)
    arguments: tuple[Argument, ...] = field(default=(), compare=False)

    @property
    def family(self) -> Family:
        """The windows in order, as ranges of slices."""
        return self.of

    @property
    def written(self) -> CallText:
        """The call that makes these windows, for messages."""
        return CallText(self.call, self.arguments)

    def __repr__(self) -> str:
        return self.call


def hopping(
    size: Duration,
    advance: Duration,
    *,
    offset: Duration | int = 0,
    gaps: bool = False,
    zone: str | None = None,
    tail: Duration | None = None,
    closed: Closed = "left",
) -> Window:
    """Return windows of `size` that start every `advance`, shifted by `offset` from 1970, or by the clock of `zone`.

    `size` need not be a multiple of `advance`. An `advance` longer than `size` leaves gaps, whose records are in no
    window; it needs `gaps=True`, which changes nothing else. Raises InvalidValue for such an `advance` without `gaps`,
    if `size` or `advance` is not positive, if `offset` is not shorter than `advance` (in either direction, as in Spark
    and Flink), or if a duration cannot be read; InvalidType for a number without a unit.

    Cost: a slice per advance, two if `size` is not a multiple of `advance`; a window of n slices costs 2 combines with
    `invert`, 4 on average without.

    In a zone, for example "Europe/Berlin" or "UTC", windows begin at midnight by its wall clock. `size` and `advance`
    are both in days or weeks (which begin on Mondays), or both in months, quarters or years, and `size` is a multiple
    of `advance`. A window then has a fixed number of days, not of hours. `offset` shifts them on the clock: days from
    06:00, weeks from Sunday (`offset="-1 day"`), fiscal quarters (`offset="1 month"`); it is shorter than the advance.
    An edge that the clock skips is the first instant after the gap, one that it shows twice the earlier instant. An
    hour, and units that divide it, have an edge at both: a day of 25 hours has 25 hours, as with `date_trunc`. A day
    that a zone skipped has no window. The rules of the zone are read here and sent to the workers. Raises InvalidValue
    for other units.

    With `tail`, windows have a coarse start: the window that ends at `offset + i * advance` begins at the last multiple
    of `tail` (plus `offset`) at or before its end minus `size`. Its length is between `size` and `size + tail`. State
    per key is at most size / tail + tail / advance + 1 partials, instead of size / advance. `tail` is a multiple of
    `advance` and not longer than `size`. In a zone, windows begin at an edge of its calendar, `size` before the edge at
    or before their end; `size` is then a multiple of `tail`, and `advance` may be in clock units. If the clock skips a
    whole tail, they begin at the last edge before their end. Raises InvalidValue for other tails, and for `gaps`.

    When watermark and grace have passed an edge of `tail`, the slices before it are merged into one per tail: at most 8
    in a micro-batch, or twice the new slices if these are more; with long tails from one micro-batch later on. A late
    record of a merged slice is a partial of its own until the next merge, which adds it. Floats have the same bits on a
    stream and on bounded input, unless several windows of a call begin at different edges. With `ordered=True` and in
    `process` slices are not merged. Slices stay merged after windows with a tail are removed; windows that are added
    begin where none is merged. A close with an edge of `tail` costs as much as one of size / tail slices, any other
    reads two partials and writes one.

    On a stream the edges of windows are at least a millisecond apart, since the watermark counts milliseconds.

    With `closed="right"` a record at the end of a window is in it, and one at its start is not: (start, end]. `window`
    has the same start and end. A window closes when the watermark has passed its end. Then, as with `grace`, `window`
    carries no watermark for Spark, which would drop the row: windows over these rows need a watermark of their own. All
    windows of a call have the same `closed`; live changes keep it; `serve`, `at` and tables of partials refuse "right".

    >>> print(hopping("1 hour", advance="1 minute"))
    hopping('1 hour', advance='1 minute')
    >>> hopping("2 seconds", advance="1 second").windows_of(1_500_000)
    [(0, 2000000), (1000000, 3000000)]
    >>> hopping("4 seconds", advance="1 second", tail="2 seconds").windows_of(4_500_000)[:2]
    [(0, 5000000), (2000000, 6000000)]
    """
    check_flag(gaps, "`gaps` says whether there may be gaps between windows")
    closed_right = of_windows(closed)
    if tail is not None:
        return _with_tail(size, advance, offset, gaps, zone, tail, closed_right)
    if zone is not None:
        family = hopping_family(size, advance, offset, zone)
        given = {"size": size, "advance": advance, "offset": _given(offset), "zone": zone}
        return _timed(family, "hopping", closed_right, **given)
    of_fixed_length(size=size, advance=advance)
    window = Hopping(
        microseconds(size, "size"),
        microseconds(advance, "advance"),
        0 if isinstance(offset, int) and offset == 0 else microseconds(offset, "offset"),  # type: ignore[arg-type]
        closed_right,
    )
    if window.size <= 0:
        raise InvalidValue(f"`size` must be positive; got {excerpt(size)}.")
    if window.advance <= 0:
        raise InvalidValue(
            f"`advance` must be positive; got {excerpt(advance)}. For windows that do not overlap ",
            Remedy(Topic.NO_OVERLAP, "use `tumbling(size)`"),
            ".",
        )
    if window.advance > window.size and not gaps:
        swapped = Hopping(window.advance, window.size, window.offset % window.size, closed_right)
        raise InvalidValue(
            "`advance` must not be longer than `size`, or records between the windows are in none; got ",
            Argument("size", size),
            ", ",
            Argument("advance", advance),
            ". If they were swapped, write ",
            swapped.written,
            ". If such gaps are meant, add ",
            Argument("gaps", True),
            ".",
        )
    if abs(window.offset) >= window.advance:
        same = show(window.offset % window.advance)
        raise InvalidValue(
            f"`offset` must be shorter than `advance`, {show(window.advance)}; got {excerpt(offset)}. "
            "Edges repeat every `advance`: ",
            Argument("offset", same),
            " makes the same windows.",
        )
    return window


def _with_tail(
    size: Duration,
    advance: Duration,
    offset: Duration | int,
    gaps: bool,
    zone: str | None,
    tail: Duration,
    closed_right: bool,
) -> Timed:
    if gaps:
        raise InvalidValue(
            "windows with a ",
            Argument("tail"),
            " overlap and have no gaps; got ",
            Argument("gaps", True),
            ". Leave it out.",
        )
    family = tailed_family(size, advance, tail, offset, zone)
    given = {"size": size, "advance": advance, "tail": tail, "offset": _given(offset), "zone": zone}
    return _timed(family, "hopping", closed_right, **given)


def tumbling(size: Duration, *, offset: Duration | int = 0, zone: str | None = None, closed: Closed = "left") -> Window:
    """Return windows of `size` that do not overlap: `hopping(size, advance=size)`.

    In a zone: days, weeks, months, quarters or years by its wall clock, or clock units that divide the day. `closed` is
    as of `hopping`. Cost: one slice and no combine per window. Raises InvalidValue and InvalidType as `hopping`.

    >>> tumbling("1 minute").windows_of(90_000_000)
    [(60000000, 120000000)]

    >>> print(tumbling("1 month", zone="Europe/Berlin"))
    tumbling('1 month', zone='Europe/Berlin')

    >>> tumbling("1 minute", closed="right").windows_of(120_000_000)
    [(60000000, 120000000)]
    """
    if zone is not None:
        family = hopping_family(size, size, offset, zone)
        return _timed(family, "tumbling", of_windows(closed), size=size, offset=_given(offset), zone=zone)
    return hopping(size, size, offset=offset, closed=closed)


def cumulating(
    size: Duration,
    step: Duration,
    *,
    offset: Duration | int = 0,
    zone: str | None = None,
    closed: Closed = "left",
) -> Window:
    """Return windows that begin every `size` and end at each `step` after that: the day up to now, at every minute.

    `[k * size, k * size + i * step)` for i = 1 .. size / step, shifted by `offset`, or by the wall clock of `zone`. A
    window fires at each step at which its key has a record since it began. `closed` is as of `hopping`. Cost per window
    and key: one combine.
    Raises InvalidValue unless `size` is a multiple of `step`, in a zone unless every edge of `size` is one of `step`;
    InvalidType for a number without a unit.

    >>> print(cumulating("1 day", step="1 minute"))
    cumulating('1 day', step='1 minute')
    >>> cumulating("3 seconds", step="1 second").windows_of(1_500_000)
    [(0, 2000000), (0, 3000000)]
    """
    family = cumulating_family(size, step, offset, zone)
    return _timed(family, "cumulating", of_windows(closed), size=size, step=step, offset=_given(offset), zone=zone)


def by_edges(starts: Edges | Iterable[Instant], ends: Edges | Iterable[Instant]) -> Window:
    """Return windows with custom edges: window i is `[starts(i), ends(i))`.

    Each is a list of instants (datetimes or ISO text, with a zone, or microseconds since 1970), or an object with
    three methods: `edge(number)` returns the instant of an edge, `count(instant)` the number of the last edge at or
    before it, both of an int or an int64 array, and `spec()` a list of plain JSON data that identifies the rule and
    starts with a name of its own. Edges are checked here: they must not step back, and arrays must give the same
    results as integers. Windows may overlap and leave gaps; they share no combines. Cost: a slice between any two
    edges; a window is assembled from its slices when it closes. Raises InvalidValue, InvalidType, FunctionFailed.

    >>> by_edges([0, 10], [5, 20]).windows_of(12)
    [(10, 20)]
    """
    edges = _edges("starts", starts), _edges("ends", ends)
    return Timed(edges_family(*edges), f"by_edges({', '.join(map(_shown, edges))})")


def _edges(name: str, given: Edges | Iterable[Instant]) -> Edges | Sequence[int]:
    each_of = f"each of `{name}`"
    return [microseconds_of(each, each_of) for each in given] if isinstance(given, Iterable) else given


def _shown(edges: Edges | Sequence[int]) -> str:
    return f"{len(edges)} instants" if isinstance(edges, Sequence) else type(edges).__name__


def _given(offset: Duration | int) -> Duration | int | None:
    return None if isinstance(offset, int) and offset == 0 else offset


def _timed(
    family: Stepped | Tailed | Cumulating, function: str, closed_right: bool, **given: Duration | int | None
) -> Timed:
    """Return the windows of a family with the call that made them: `size`, then options; None for omitted ones."""
    if closed_right:
        family, given = replace(family, closed_right=True), given | {"closed": "right"}
    size, *options = (Argument(name, _text(value)) for name, value in given.items() if value is not None)
    return Timed(family, f"{function}({', '.join([repr(size.value), *map(str, options)])})", (size, *options))


def _text(duration: Duration | int) -> str:
    """Return the text of a duration as it was given; a `timedelta` in its largest whole unit."""
    return duration if isinstance(duration, str) else show(microseconds(duration, "duration"))  # type: ignore[arg-type]
