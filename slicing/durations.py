"""Durations on a wall clock, whose length varies: a unit and how many."""

from __future__ import annotations

import re
from datetime import timedelta

from slicing.errors import InvalidValue
from slicing.windows import Duration, microseconds

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
