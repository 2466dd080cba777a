"""Instants as users write them: one rule for every call that takes one."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from operator import index

from slicing.errors import InvalidType, InvalidValue, excerpt

Instant = int | datetime | str
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RULE = "is a datetime with a zone, ISO text with one, or microseconds since 1970"
_EXAMPLE = "Write for example `datetime(2024, 5, 1, 12, tzinfo=UTC)`."
_WITH_ZONE = (
    "Say its zone: `.replace(tzinfo=UTC)`, also for times of a timestamp_ntz column; "
    '`.replace(tzinfo=ZoneInfo("America/New_York"))`; `.astimezone()` if Spark collected it, in the zone of this '
    "machine."
)


def microseconds_of(instant: Instant, name: str = "an instant") -> int:
    """Return an instant in microseconds since the epoch: a datetime or ISO text, with a zone, or such an integer.

    `name` names the argument in messages. Raises InvalidValue for times without a zone, because they are other
    instants in other zones, and for other text; InvalidType for dates and other values.

    >>> microseconds_of("1970-01-01T01:00:00.5+01:00"), microseconds_of(datetime(1970, 1, 1, tzinfo=UTC))
    (500000, 0)
    """
    if type(instant) is int:  # lists of edges may be long
        return instant
    found = _read(instant, name) if isinstance(instant, str) else instant
    if isinstance(found, datetime):
        if found.tzinfo is None:
            remedy = _WITH_ZONE if found is instant else 'Say its zone: "2024-05-01T12:00:00Z" is in UTC.'
            raise InvalidValue(f"{name} {_RULE}; got {excerpt(instant)}, which has no zone. {remedy}")
        return (found - _EPOCH) // timedelta(microseconds=1)
    if isinstance(found, date):
        raise InvalidType(
            f"{name} {_RULE}; got {excerpt(instant)}, which begins at another in each zone. "
            f"Write `datetime({found.year}, {found.month}, {found.day}, tzinfo=UTC)`."
        )
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        raise InvalidType(f"{name} {_RULE}; got {excerpt(instant)}. {_EXAMPLE}")
    return index(found)


def _read(text: str, name: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(f'{name} {_RULE}; got {excerpt(text)}. Write for example "2024-05-01T12:00:00Z".') from None
