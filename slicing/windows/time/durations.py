"""Durations as users write them, in fixed or calendar units, and instants in messages."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from slicing.errors import InvalidType, InvalidValue, Remedy, Topic, excerpt

_UNITS = {"microsecond": 1, "millisecond": 10**3, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6}
_UNITS |= {"day": 24 * _UNITS["hour"], "week": 7 * 24 * _UNITS["hour"]}
_SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "sec": "second", "min": "minute"}
_MINUTES = "min"
_SHORT |= {"h": "hour", "hr": "hour", "d": "day", "w": "week"}
DAYS = ("day", "week")
MONTHS = ("month", "quarter", "year")
RECORDS = ("row", "record", "event", "element")
"""What others count windows in: no units of durations."""
_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_TERM = re.compile(rf"\s*({_NUMBER})\s*([a-z]+)", re.IGNORECASE)
_ISO = re.compile(
    rf"p(?:({_NUMBER})y)?(?:({_NUMBER})m)?(?:({_NUMBER})w)?(?:({_NUMBER})d)?"
    rf"(?:t(?=[-+\d])(?:({_NUMBER})h)?(?:({_NUMBER})m)?(?:({_NUMBER})s)?)?"
)
_ISO_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Duration = str | timedelta
Term = tuple[Fraction, str]
"""A count and its unit, for example (90, "minute")."""


def microseconds(duration: Duration, name: str) -> int:
    """Return a duration in microseconds: a `timedelta`, or text such as "10 minutes", "1.5 h", "1 hour 30 minutes".

    ISO 8601 text such as "PT10M" is accepted too. `name` is the argument's name in messages. Raises InvalidType for
    bare numbers and other types, InvalidValue for text that is not a duration or has calendar units, whose length
    varies, and for fractions of a microsecond.

    >>> microseconds("1.5 hours", "size") == microseconds("PT1H30M", "size") == microseconds("90min", "size")
    True
    """
    if isinstance(duration, timedelta):
        return (duration.days * 86_400 + duration.seconds) * 10**6 + duration.microseconds
    total = Fraction(0)
    for count, unit in _terms(duration, name):
        if unit in MONTHS:
            raise InvalidValue(
                f"`{name}`: months, quarters and years have no fixed length; got {excerpt(duration)}. Use weeks or "
                "smaller."
            )
        total += count * _UNITS[unit]
    if total.denominator != 1:
        raise InvalidValue(f"`{name}`: a duration has whole microseconds; got {excerpt(duration)}. Round it.")
    return int(total)


def _terms(duration: str, name: str) -> list[Term]:
    """Return the terms of a text, in order. Raises InvalidType, InvalidValue."""
    if not isinstance(duration, str):
        raise InvalidType(
            f'`{name}`: a duration needs a unit; got {excerpt(duration)}. Write for example "10 minutes"',
            Remedy(Topic.DURATION, ", or pass a timedelta"),
            ".",
        )
    text = duration.strip().lower().removeprefix("interval ")
    if not text:
        raise InvalidValue(f'`{name}`: a duration is empty. Write for example "10 minutes".')
    if (iso := _ISO.fullmatch(text)) and any(iso.groups()):
        return [(Fraction(count), unit) for count, unit in zip(iso.groups(), _ISO_UNITS, strict=True) if count]
    terms, position = [], 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            hint = "a duration needs a unit" if re.fullmatch(_NUMBER, text) else "not a duration"
            raise InvalidValue(f'`{name}`: {hint}; got {excerpt(duration)}. Write for example "10 minutes".')
        terms.append((Fraction(term[1]), _unit(_MINUTES if _is_minutes(term[2], text) else term[2], duration, name)))
        position = term.end()
    return terms


def _is_minutes(word: str, text: str) -> bool:
    """Return whether `m` means minutes in a text: next to hours or seconds it does."""
    return word == "m" and any(
        _SHORT.get(each, each.removesuffix("s")) in ("hour", "second") for each in re.findall("[a-z]+", text)
    )


def _unit(word: str, duration: str, name: str) -> str:
    if word in ("m", "mo"):
        raise InvalidValue(f"`{name}`: `{word}` may be minutes or months; got {excerpt(duration)}. Write min or month.")
    unit = _SHORT.get(word) or _SHORT.get(word.removesuffix("s")) or word.removesuffix("s")
    if unit not in (*_UNITS, *MONTHS):
        counted = " Windows of a number of records are `counting(n)`." if unit in RECORDS else ""
        raise InvalidValue(
            f"`{name}`: unknown unit `{word}` in {excerpt(duration)}. Known are {', '.join(_UNITS)}.{counted}"
        )
    return unit


def show(duration: int, *, days: bool = True) -> str:
    """Return the text of a duration in its largest whole unit, at most hours without `days`: 3600000000 is "1 hour"."""
    for unit, length in sorted(_UNITS.items(), key=lambda item: -item[1]):
        if duration and duration % length == 0 and (days or unit not in DAYS):
            count = duration // length
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return "0 seconds"


def show_instant(instant: int) -> str:
    """Return the text of an instant in messages; outside the years of datetime, its microseconds."""
    try:
        return (_EPOCH + timedelta(microseconds=instant)).isoformat().removesuffix("+00:00")
    except OverflowError:
        return f"{instant} us"


def calendar_units(duration: Duration, name: str) -> tuple[str, int]:
    """Return a duration as unit and number: "2 quarters" is ("quarter", 2), a `timedelta` of whole days ("day", n).

    Clock time in several units is returned in microseconds. Days and longer must have a single unit, because the length
    of "1 month 1 day" depends on which of them is added first. `name` is the argument's name in messages. Raises
    InvalidValue for several such units, for a duration that is not positive and for other text; InvalidType for bare
    numbers and other types.

    >>> calendar_units("1 month", "size"), calendar_units("90 minutes", "size")
    (('month', 1), ('minute', 90))
    """
    unit, count = _units(duration, name)
    if count <= 0:
        raise InvalidValue(f"`{name}` must be positive; got {duration!r}.")
    return unit, count


def calendar_offset(duration: Duration | int) -> tuple[int, int]:
    """Return an offset on a wall clock in months and microseconds: "1 month 6 hours" is 1 month and 6 hours.

    Raises InvalidValue and InvalidType as `microseconds`.

    >>> calendar_offset("1 quarter"), calendar_offset("-1 day")
    ((3, 0), (0, -86400000000))
    """
    if isinstance(duration, int) and duration == 0:
        return 0, 0
    if isinstance(duration, timedelta):
        return 0, microseconds(duration, "offset")
    months, rest = Fraction(0), Fraction(0)
    for count, unit in _terms(duration, "offset"):  # type: ignore[arg-type]
        if unit in MONTHS:
            months += count * {"month": 1, "quarter": 3, "year": 12}[unit]
        else:
            rest += count * _UNITS[unit]
    if months.denominator != 1 or rest.denominator != 1:
        raise InvalidValue(f"`offset` has whole months and whole microseconds; got {excerpt(duration)}. Round it.")
    return int(months), int(rest)


def _units(duration: Duration, name: str) -> tuple[str, int]:
    if isinstance(duration, timedelta):
        whole = duration % timedelta(days=1) == timedelta(0)
        return ("day", duration.days) if whole else ("microsecond", microseconds(duration, name))
    terms = _terms(duration, name)
    count, unit = terms[0]
    if len(terms) == 1 and count.denominator == 1:
        return unit, int(count)
    if {unit for _, unit in terms} & {*DAYS, *MONTHS}:
        raise InvalidValue(
            f"`{name}`: a duration of days or longer in a zone has one unit, and a whole number; got {duration!r}. "
            'Write for example "7 days".'
        )
    return "microsecond", microseconds(duration, name)
