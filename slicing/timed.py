"""Families by the clock or the calendar, from the durations that users write, and what of these is refused."""

from __future__ import annotations

from slicing.durations import MONTHS, calendar_units
from slicing.errors import InvalidValue
from slicing.families import Cumulating, Even, Family, calendar_cumulating, calendar_hopping, cumulating
from slicing.windows import Duration, hopping, microseconds, show
from slicing.zones import Zone


def hopping_family(
    size: Duration, advance: Duration, offset: Duration | int = 0, zone: Zone | str | None = None
) -> Family:
    """Windows of `size` that start every `advance`, by a zone's wall clock if there is one; equal ones tumble.

    Raises InvalidValue for `offset` with `zone`, months and longer without one, and whatever `hopping` and
    `calendar_hopping` refuse.
    """
    if zone is None:
        _fixed(size=size, advance=advance)
        window = hopping(size, advance, offset)
        return Even(window.size, window.advance, window.offset)
    _no_offset(offset)
    return calendar_hopping(calendar_units(size, "size"), calendar_units(advance, "advance"), _zone(zone))


def cumulating_family(
    size: Duration, step: Duration, offset: Duration | int = 0, zone: Zone | str | None = None
) -> Cumulating:
    """Windows from each multiple of `size` to each multiple of `step` up to the next, by a zone's wall clock if any.

    Raises InvalidValue for `offset` with `zone` or not shorter than `size`, for months and longer without a zone, and
    unless every edge of `size` is one of `step`.
    """
    if zone is not None:
        _no_offset(offset)
        return calendar_cumulating(calendar_units(size, "size"), calendar_units(step, "step"), _zone(zone))
    _fixed(size=size, step=step)
    whole, part = microseconds(size, "size"), microseconds(step, "step")
    for name, length, given in (("size", whole, size), ("step", part, step)):
        if length <= 0:
            raise InvalidValue(f"`{name}` must be positive; got {given!r}.")
    if whole % part:
        raise InvalidValue(f"`size` must be a multiple of `step`; got {show(whole)} and {show(part)}.")
    shift = 0 if offset == 0 and isinstance(offset, int) else microseconds(offset, "offset")  # type: ignore[arg-type]
    if abs(shift) >= whole:
        raise InvalidValue(
            f"`offset` must be shorter than `size`, {show(whole)}; got {offset!r}. Edges repeat every `size`: "
            f"offset={show(shift % whole)!r} makes the same windows."
        )
    return cumulating(whole, part, shift)


def _zone(zone: Zone | str) -> Zone:
    return zone if isinstance(zone, Zone) else Zone.of(zone)


def _no_offset(offset: Duration | int) -> None:
    if isinstance(offset, int) and offset == 0:
        return
    raise InvalidValue(
        f"`offset` and `zone` exclude each other: in a zone windows begin at its midnight; got offset={offset!r}. "
        "Leave out one of them."
    )


def _fixed(**durations: Duration) -> None:
    """Months and longer have a length in a zone only."""
    for name, duration in durations.items():
        if isinstance(duration, str) and any(unit in duration.lower() for unit in MONTHS):
            raise InvalidValue(
                f"`{name}`: months, quarters and years need a zone, which says when they begin; got {duration!r}. "
                'Write for example zone="Europe/Berlin" or zone="UTC".'
            )
