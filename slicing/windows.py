"""The window kinds, as frozen values, and the durations that users write for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.slices import Slicing

_UNITS = {"microsecond": 1, "millisecond": 10**3, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6}
_UNITS |= {"day": 24 * _UNITS["hour"], "week": 7 * 24 * _UNITS["hour"]}
_CALENDAR = ("month", "quarter", "year")
_TERM = re.compile(r"\s*([+-]?\d+)\s*([a-z]+)", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Duration = str | timedelta


def microseconds(duration: Duration, name: str) -> int:
    """Microseconds of a duration: a `timedelta`, or text such as "10 minutes" or "1 hour 30 minutes".

    `name` is the argument's name in messages. Raises InvalidType for bare numbers and other types, InvalidValue for
    text that is not a duration or names calendar units, whose length varies.
    """
    if isinstance(duration, timedelta):
        return (duration.days * 86_400 + duration.seconds) * 10**6 + duration.microseconds
    if not isinstance(duration, str):
        raise InvalidType(
            f"`{name}`: a duration needs a unit; got {excerpt(duration)}. "
            'Write for example "10 minutes", or pass a timedelta.'
        )
    text = duration.strip().lower().removeprefix("interval ")
    total, position = 0, 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            hint = "a duration needs a unit" if re.fullmatch(r"[+-]?\d+(\.\d+)?", text) else "not a duration"
            raise InvalidValue(f'`{name}`: {hint}; got {excerpt(duration)}. Write for example "10 minutes".')
        total += int(term[1]) * _unit(term[2], duration, name)
        position = term.end()
    if not text:
        raise InvalidValue(f'`{name}`: a duration is empty. Write for example "10 minutes".')
    return total


def _unit(word: str, duration: str, name: str) -> int:
    singular = word.removesuffix("s")
    if singular in _CALENDAR:
        raise InvalidValue(
            f"`{name}`: months, quarters and years have no fixed length; got {excerpt(duration)}. Use weeks or smaller."
        )
    if singular not in _UNITS:
        raise InvalidValue(f"`{name}`: unknown unit `{word}` in {excerpt(duration)}. Known are {', '.join(_UNITS)}.")
    return _UNITS[singular]


def show(duration: int) -> str:
    """A duration in its largest whole unit: 3600000000 is "1 hour"."""
    for unit, length in sorted(_UNITS.items(), key=lambda item: -item[1]):
        if duration and duration % length == 0:
            count = duration // length
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return "0 seconds"


def show_instant(instant: int) -> str:
    """An instant as messages show it; outside the years that datetime knows, its microseconds."""
    try:
        return (_EPOCH + timedelta(microseconds=instant)).isoformat().removesuffix("+00:00")
    except OverflowError:
        return f"{instant} us"


@dataclass(frozen=True)
class Hopping:
    """Windows `[offset + i * advance, offset + i * advance + size)` for every integer i; all in microseconds.

    Made by `hopping` and `tumbling`, which check their arguments. Prints as the call that makes it.
    """

    size: int
    advance: int
    offset: int = 0

    @property
    def slicing(self) -> Slicing:
        """How these windows cut time into slices."""
        return Slicing(self.size, self.advance, self.offset)

    def slice_of(self, instant: int | datetime) -> tuple[int, int]:
        """The slice `[start, end)` that holds an instant, in microseconds.

        >>> hopping("1 hour", "1 minute").slice_of(90_000_000)
        (60000000, 120000000)
        """
        slicing = self.slicing
        index = slicing.slice_at(_instant(instant))
        return slicing.slice_start(index), slicing.slice_start(index + 1)

    def windows_of(self, instant: int | datetime) -> list[tuple[int, int]]:
        """The windows `[start, end)` that hold an instant, in microseconds, oldest first; empty in a gap.

        >>> hopping("2 seconds", "1 second").windows_of(0)
        [(-1000000, 1000000), (0, 2000000)]
        """
        slicing = self.slicing
        index = slicing.slice_at(_instant(instant))
        windows = range(slicing.first_window(index), slicing.last_window(index) + 1)
        return [(slicing.window_start(w), slicing.window_end(w)) for w in windows]

    @property
    def stored(self) -> str:
        """These windows as checkpoints hold them, whose text is older than `gaps`."""
        if self.size == self.advance and not self.offset:
            return f"tumbling({show(self.size)!r})"
        offset = f", offset={show(self.offset)!r}" if self.offset else ""
        return f"hopping({show(self.size)!r}, advance={show(self.advance)!r}{offset})"

    def __repr__(self) -> str:
        return f"{self.stored[:-1]}, gaps=True)" if self.advance > self.size else self.stored


def _instant(instant: int | datetime) -> int:
    """Microseconds since the epoch; a naive datetime is read as UTC, as timestamp_ntz is."""
    if isinstance(instant, datetime):
        aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    return int(instant)


def hopping(size: Duration, advance: Duration, offset: Duration | int = 0, *, gaps: bool = False) -> Hopping:
    """Windows of `size` that start every `advance`, shifted by `offset` from the epoch.

    `size` need not be a multiple of `advance`. An `advance` longer than `size` leaves gaps, whose records belong to no
    window, and must be asked for with `gaps=True`, which changes nothing else. Raises InvalidValue for gaps that were
    not asked for, when `size` or `advance` is not positive, `offset` is not shorter than `advance` (either way, as in
    Spark and Flink), or a duration cannot be read.

    >>> print(hopping("1 hour", advance="1 minute"))
    hopping('1 hour', advance='1 minute')
    """
    window = Hopping(
        microseconds(size, "size"),
        microseconds(advance, "advance"),
        0 if isinstance(offset, int) and offset == 0 else microseconds(offset, "offset"),  # type: ignore[arg-type]
    )
    if window.size <= 0:
        raise InvalidValue(f"`size` must be positive; got {excerpt(size)}.")
    if window.advance <= 0:
        raise InvalidValue(
            f"`advance` must be positive; got {excerpt(advance)}. For windows that do not overlap use `tumbling(size)`."
        )
    if window.advance > window.size and not gaps:
        swapped = Hopping(window.advance, window.size, window.offset % window.size)
        raise InvalidValue(
            f"`advance` must not be longer than `size`, or records between the windows are in none; got size={size!r}, "
            f"advance={advance!r}. If they were swapped, write {swapped}. If such gaps are meant, add gaps=True."
        )
    if abs(window.offset) >= window.advance:
        same = show(window.offset % window.advance)
        raise InvalidValue(
            f"`offset` must be shorter than `advance`, {show(window.advance)}; got {excerpt(offset)}. "
            f"Edges repeat every `advance`: offset={same!r} makes the same windows."
        )
    return window


def tumbling(size: Duration, offset: Duration | int = 0) -> Hopping:
    """Windows of `size` that do not overlap: `hopping(size, advance=size)`."""
    return hopping(size, size, offset)
