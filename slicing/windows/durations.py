"""Durations as users write them, in fixed units or in those of a calendar, and instants as messages show them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from slicing.errors import InvalidType, InvalidValue, excerpt

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


DAYS = ("day", "week")
MONTHS = ("month", "quarter", "year")
_ONE = re.compile(r"(?:interval\s+)?([+-]?\d+)\s*([a-z]+?)s?", re.IGNORECASE)
_WORD = re.compile("[a-z]+")


def calendar_units(duration: Duration, name: str) -> tuple[str, int]:
    """A duration as a unit and a number: "2 quarters" is ("quarter", 2), a `timedelta` of whole days ("day", n).

    Clock time in several units is in microseconds; days and longer have one unit, for the length of "1 month 1 day"
    depends on which of them comes first. `name` is the argument's name in messages. Raises InvalidValue for those, for
    what is not positive and for what is not a duration, InvalidType for bare numbers and other types.

    >>> calendar_units("1 month", "size"), calendar_units("90 minutes", "size")
    (('month', 1), ('minute', 90))
    """
    unit, count = _units(duration, name)
    if count <= 0:
        raise InvalidValue(f"`{name}` must be positive; got {duration!r}.")
    return unit, count


def _units(duration: Duration, name: str) -> tuple[str, int]:
    if isinstance(duration, timedelta) and duration % timedelta(days=1) == timedelta(0):
        return "day", duration.days
    if isinstance(duration, str):
        one = _ONE.fullmatch(duration.strip())
        if one and one[2].lower() in (*DAYS, *MONTHS):
            return one[2].lower(), int(one[1])
        if {word.removesuffix("s") for word in _WORD.findall(duration.lower())} & {*DAYS, *MONTHS}:
            raise InvalidValue(
                f"`{name}`: a duration of days or longer in a zone has one unit; got {duration!r}. "
                'Write for example "7 days".'
            )
        if one:
            length = microseconds(f"1 {one[2]}", name)
            return one[2].lower(), microseconds(duration, name) // length
    return "microsecond", microseconds(duration, name)


def microseconds_of(instant: int | datetime) -> int:
    """Microseconds from the epoch to an instant; a naive datetime is read as UTC, as timestamp_ntz is."""
    if isinstance(instant, datetime):
        aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    return int(instant)
