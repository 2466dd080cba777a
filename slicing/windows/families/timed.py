"""Create families from the arguments of users (durations, calendar units, edges), and refuse invalid arguments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicing.errors import Argument, InvalidValue
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.families.cumulating import Cumulating
from slicing.windows.families.stepped import Stepped
from slicing.windows.families.tailed import Tailed
from slicing.windows.time.clocks import DAY
from slicing.windows.time.durations import MONTHS, Duration, calendar_offset, calendar_units, microseconds, show
from slicing.windows.time.edges import Edges, Every, Listed, Own
from slicing.windows.time.local import Local, show_units
from slicing.windows.time.zones import Zone

Units = tuple[str, int]
"""A duration on a wall clock, for example ("month", 1)."""


Shift = tuple[int, int]
"""An offset on a wall clock, in months and microseconds."""
NO_SHIFT: Shift = (0, 0)
_UTC = Zone("UTC", (), (0,))
_STEP = Argument("step")
_DAYS = {"day": 1, "week": 7}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def hopping_family(size: Duration, advance: Duration, offset: Duration | int, zone: Zone | str) -> Stepped:
    """Return windows of `size` that start every `advance` by a zone's wall clock; tumbling if both are equal.

    `offset` shifts the edges on the clock. Raises InvalidValue unless it is shorter than `advance`, and as
    `calendar_hopping`.
    """
    whole, step = calendar_units(size, "size"), calendar_units(advance, "advance")
    return calendar_hopping(whole, step, _zone(zone), _shift_of(offset, step, "advance"))


def tailed_family(
    size: Duration, advance: Duration, tail: Duration, offset: Duration | int = 0, zone: Zone | str | None = None
) -> Tailed:
    """Return windows that end every `advance`, and begin at the last multiple of `tail` at or before `end - size`.

    Raises InvalidValue if `tail` is not a multiple of `advance`, or if one of them is longer than `size`; in a zone,
    if `size` is not a multiple of `tail`; for an `offset` not shorter than `advance`, in a zone than `tail`.
    """
    if zone is not None:
        step, part = calendar_units(advance, "advance"), calendar_units(tail, "tail")
        return calendar_tailed(calendar_units(size, "size"), step, part, _zone(zone), _shift_of(offset, part, "tail"))
    of_fixed_length(size=size, advance=advance, tail=tail)
    whole, each, length = microseconds(size, "size"), microseconds(advance, "advance"), microseconds(tail, "tail")
    _are_positive(("size", whole, size), ("advance", each, advance), ("tail", length, tail))
    if each > whole:
        raise InvalidValue(
            "windows with a ",
            Argument("tail"),
            f" overlap: `advance` must not be longer than `size`; got {show(each)} and {show(whole)}. "
            "Take a shorter advance.",
        )
    if length % each:
        raise InvalidValue(
            "`tail` must be a multiple of ",
            Argument("advance"),
            f", so that windows begin where others end; got {show(length)} and {show(each)}. Write for example ",
            Argument("tail", show(max(each, min(length, whole) // each * each))),
            ".",
        )
    if length > whole:
        raise InvalidValue(
            f"`tail` must not be longer than `size`: windows are up to a tail longer; got {show(length)} and "
            f"{show(whole)}. Take a shorter tail."
        )
    shift = _shift(offset, each, "advance")
    return Tailed(Every(length, shift), Every(each, shift), *divmod(whole, length))


def calendar_tailed(size: Units, advance: Units, tail: Units, zone: Zone, shift: Shift = NO_SHIFT) -> Tailed:
    """Return windows that end every `advance` on a zone's wall clock; they begin `size` before the `tail` of their end.

    Raises InvalidValue if `size` is not a multiple of `tail` as for `calendar_hopping`, or if an edge of `tail` is not
    an edge of `advance`.
    """
    tails, ends, ratio = _local(tail, zone, shift), _local(advance, zone, shift), _ratio(size, tail)
    if not ratio:
        raise InvalidValue(
            "`size` and `tail` in a zone are both in days or weeks, or both in months, quarters or years, the first a "
            f"multiple of the second; got {show_units(*size)} and {show_units(*tail)}. For example "
            '"90 days" with ',
            Argument("tail", "1 day", is_example=True),
            ".",
        )
    if not ends.refines(tails):
        raise InvalidValue(
            "Every edge of `tail` must be an edge of ",
            Argument("advance"),
            f"; got {show_units(*tail)} and {show_units(*advance)}. For example ",
            Argument("tail", "1 day", is_example=True),
            " with ",
            Argument("advance", "1 minute", is_example=True),
            ".",
        )
    return Tailed(tails, ends, ratio)


def cumulating_family(
    size: Duration, step: Duration, offset: Duration | int = 0, zone: Zone | str | None = None
) -> Cumulating:
    """Return windows from each multiple of `size` to each multiple of `step` up to the next, by the clock of `zone`.

    Raises InvalidValue for an `offset` not shorter than `size`, for months and longer without a zone, and if an edge of
    `size` is not an edge of `step`.
    """
    if zone is not None:
        periods = calendar_units(size, "size")
        return calendar_cumulating(
            periods, calendar_units(step, "step"), _zone(zone), _shift_of(offset, periods, "size")
        )
    of_fixed_length(size=size, step=step)
    whole, part = microseconds(size, "size"), microseconds(step, "step")
    _are_positive(("size", whole, size), ("step", part, step))
    if whole % part:
        raise InvalidValue("`size` must be a multiple of ", _STEP, f"; got {show(whole)} and {show(part)}.")
    shift = _shift(offset, whole, "size")
    return Cumulating(Every(whole, shift), Every(part, shift))


def _are_positive(*lengths: tuple[str, int, Duration]) -> None:
    for name, length, given in lengths:
        if length <= 0:
            raise InvalidValue(Argument(name), f" must be positive; got {given!r}.")


def _shift(offset: Duration | int, length: int, name: str) -> int:
    """Return the offset in microseconds. It must be shorter than `length`, the value of the argument `name`."""
    shift = 0 if offset == 0 and isinstance(offset, int) else microseconds(offset, "offset")  # type: ignore[arg-type]
    if abs(shift) >= length:
        raise InvalidValue(
            f"`offset` must be shorter than `{name}`, {show(length)}; got {offset!r}. Edges repeat every `{name}`: ",
            Argument("offset", show(shift % length)),
            " makes the same windows.",
        )
    return shift


def _shift_of(offset: Duration | int, units: Units, name: str) -> Shift:
    """Return an offset on a wall clock. It must be shorter than `units`, the value of the argument `name`."""
    unit, count = units
    months, rest = shift = calendar_offset(offset)
    if months and unit not in _MONTHS:
        raise InvalidValue(
            f"`offset` has months where `{name}` has; got {offset!r} and {show_units(*units)}. Give it in days or less."
        )
    if unit in _MONTHS:
        is_short = abs(months) < count * _MONTHS[unit] and abs(rest) < 28 * DAY
    else:
        is_short = abs(rest) < Local(unit, count, _UTC).least
    if not is_short:
        raise InvalidValue(
            "`offset` must be shorter than ",
            Argument(name),
            f", {show_units(*units)}; got ",
            Argument("offset", offset),
            ". Take the rest of it.",
        )
    return shift


def _local(units: Units, zone: Zone, shift: Shift) -> Local:
    months, rest = shift
    return Local(*units, zone, offset=rest, months=months)


def calendar_hopping(size: Units, advance: Units, zone: Zone, shift: Shift = NO_SHIFT) -> Stepped:
    """Return windows of `size` that start every `advance` on a zone's wall clock; tumbling if both are equal.

    Both must be in days and weeks, or both in months, quarters and years, and `size` a multiple of `advance`; clock
    units can only tumble. Raises InvalidValue otherwise.
    """
    edges = _local(advance, zone, shift)
    ratio = _ratio(size, advance)
    if ratio is None:
        raise InvalidValue(
            "`size` and `advance` in a zone are both in days or weeks, or both in months, quarters or years, the first "
            f"a multiple of the second; got {show_units(*size)} and {show_units(*advance)}. For example "
            '"7 days" with ',
            Argument("advance", "1 day", is_example=True),
            "; windows of days that move by minutes or hours have a ",
            Argument("tail", "1 day", is_example=True),
            ".",
        )
    return Stepped(edges, 1, ratio)


def _ratio(size: Units, advance: Units) -> int | None:
    """Return the number of advances in a size, or None if the calendar does not define it."""
    if size == advance:
        return 1
    for lengths in (_DAYS, _MONTHS):
        if size[0] in lengths and advance[0] in lengths:
            whole, rest = divmod(size[1] * lengths[size[0]], advance[1] * lengths[advance[0]])
            return whole if not rest else None
    return None


def calendar_cumulating(size: Units, step: Units, zone: Zone, shift: Shift = NO_SHIFT) -> Cumulating:
    """Return windows from an edge of `size` on a zone's wall clock to each edge of `step` up to the next.

    For example month to date. Raises InvalidValue if an edge of `size` is not an edge of `step`.
    """
    periods, steps = _local(size, zone, shift), _local(step, zone, shift)
    if not steps.refines(periods):
        raise InvalidValue(
            "Every edge of `size` must be an edge of ",
            _STEP,
            f"; got {show_units(*size)} and {show_units(*step)}, which differ in some period. For example "
            '"1 month" with ',
            Argument("step", "1 day", is_example=True),
            ".",
        )
    return Cumulating(periods, steps)


def by_edges(starts: Edges | Sequence[int], ends: Edges | Sequence[int]) -> ByEdges:
    """Return windows `[starts(i), ends(i))`; each sequence is an `Edges` or a list of instants in microseconds.

    Edges are checked here, a user's class by sampling. Raises InvalidValue if edges step back, if a window ends before
    it starts, or if results for arrays differ from those for integers; InvalidType and FunctionFailed as `Own`.
    """
    return ByEdges(_edges(starts), _edges(ends))


def _edges(given: Edges | Sequence[int]) -> Edges:
    if isinstance(given, Every | Listed | Local | Own):
        return given
    if isinstance(given, Sequence | np.ndarray):
        return Listed(given)
    return Own(given)


def _zone(zone: Zone | str) -> Zone:
    return zone if isinstance(zone, Zone) else Zone.of(zone)


def of_fixed_length(**durations: Duration) -> None:
    """Raise InvalidValue for months and longer units: only a zone defines their length."""
    for name, duration in durations.items():
        if isinstance(duration, str) and any(unit in duration.lower() for unit in MONTHS):
            raise InvalidValue(
                Argument(name),
                f": months, quarters and years need a zone, which says when they begin; got {duration!r}. "
                "Write for example ",
                Argument("zone", "Europe/Berlin", is_example=True),
                " or ",
                Argument("zone", "UTC", is_example=True),
                ".",
            )
