"""The part of a time zone's table that the state of a bucket depends on, as stored in its header.

Time zone data change: packages leave out the time before 1970, and governments change future offsets. Neither affects
stored slices or closed windows. Therefore a checkpoint and a query must have equal offsets from the oldest slice to the
newest slice and the watermark; later windows use the offsets of the query. Edges at both instants of a repeated hour
are numbered from `ANCHOR`, so the part then has the number of one of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from slicing.windows.time.clocks import SECOND
from slicing.windows.time.local import CLOCK, LOCAL, Local
from slicing.windows.time.zones import Zone

Part = list[Any]
"""The first second, the last second, the seconds in between at which the offset changes, and the offsets in seconds.

Then, if both instants of repeated hours are edges, their length in microseconds and their number at the first second.
"""

MARGIN = 2 * 86_400
"""The seconds before the first instant that the part includes: an edge depends on the clock of the days around it."""


def part(zone: Zone, first: int, last: int) -> Part:
    """Return the part of a table from `first` to `last`, in microseconds since the epoch.

    >>> part(Zone("Europe/Berlin", (100, 900_000, 10**7), (0, 3600, 7200, 3600)), 10**12, 10**12 + 1)
    [827200, 1000000, [900000], [3600, 7200]]
    """
    low, high = first // SECOND - MARGIN, last // SECOND
    begin, end = bisect_right(zone.transitions, low), bisect_right(zone.transitions, high)
    return [low, high, list(zone.transitions[begin:end]), list(zone.offsets[begin : end + 1])]


def parts(zones: Sequence[Zone], instants: Sequence[int], specs: list[Any]) -> dict[str, Part]:
    """Return the part of each zone's table from the first to the last instant, by zone name; empty without instants.

    `specs` has the cuts and the families that use these tables.
    """
    found = {zone.name: part(zone, min(instants), max(instants)) for zone in zones if instants}
    for zone in zones if instants else ():
        if lengths := sorted({spec[2] for spec in _locals(specs) if spec[0] == CLOCK and spec[3] == zone.name}):
            found[zone.name].append([[length, _number(zone, length, found[zone.name])] for length in lengths])
    return found


def _number(zone: Zone, length: int, stored: Part) -> int:
    return Local("microsecond", length, zone).count(int(stored[0]) * SECOND)


def difference(zone: Zone, stored: Part) -> str:
    """Return the first difference between a table and the stored part as text, empty if there is none."""
    low, high, transitions, *_ = stored
    own = part(zone, (low + MARGIN) * SECOND, high * SECOND)
    for second in sorted({low, *transitions, *own[2]}):
        then, now = (_offset(each, second) for each in (stored, own))
        if then != now:
            return f"at second {second} since 1970 its clock was {then} s ahead of UTC, and is {now} s ahead now"
    return ""


def other_number(zone: Zone, stored: Part) -> str:
    """Return the first stored number of an edge that differs by the table as text, empty if there is none."""
    for length, number in stored[4] if len(stored) > 4 else ():
        if (now := _number(zone, length, stored)) != number:
            return f"the edge of {length} us at second {stored[0]} since 1970 was number {number}, and is {now} now"
    return ""


def _offset(of: Part, second: int) -> int:
    return int(of[3][bisect_right(of[2], second)])


def digests(spec: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the digest of each zone in a spec of edges, cuts or families."""
    return ((each[3], each[4]) for each in _locals(spec))


def renewed(spec: Any, known: Mapping[str, str]) -> Any:
    """Return a spec in which each zone has the digest from `known`; other zones keep theirs."""
    return _with_locals(spec, lambda each: [*each[:4], known.get(each[3], each[4]), *each[5:]])


def once(spec: Any) -> Any:
    """Return a spec in which only the earlier instant of a repeated hour is an edge, as in state of version 0.2."""
    return _with_locals(spec, lambda each: [LOCAL, *each[1:]])


def twice(spec: Any, zones: Iterable[Zone]) -> Any:
    """Return a spec in which both instants of a repeated hour of these zones are edges, where units divide an hour."""
    known = {zone.name: zone for zone in zones}

    def made(each: list[Any]) -> list[Any]:
        unit, count, name, _, *shift = each[1:]
        return Local(unit, count, known[name], True, *shift).spec() if name in known else each

    return _with_locals(spec, made)


def counted_once(spec: Any, zones: Iterable[Zone]) -> Iterator[tuple[Local, Local]]:
    """Yield the edges of a spec that have only the earlier instant of a repeated hour, and those that have both."""
    known = {zone.name: zone for zone in zones}
    for kind, unit, each, name, _, *shift in _locals(spec):
        if kind == LOCAL and name in known and (both := Local(unit, each, known[name], True, *shift)).repeats:
            yield Local(unit, each, known[name], repeats=False), both


def _locals(spec: Any) -> Iterator[list[Any]]:
    """Yield the specs of the edges on wall clocks in a spec."""
    if not isinstance(spec, list):
        return
    if _is_local(spec):
        yield spec
    else:
        for each in spec:
            yield from _locals(each)


def _with_locals(spec: Any, changed: Callable[[list[Any]], list[Any]]) -> Any:
    """Return a spec with each spec of edges on a wall clock changed."""
    if not isinstance(spec, list):
        return spec
    return changed(spec) if _is_local(spec) else [_with_locals(each, changed) for each in spec]


def _is_local(spec: list[Any]) -> bool:
    return len(spec) >= 5 and spec[0] in (LOCAL, CLOCK)


def zones_of(sequences: Sequence[Any]) -> tuple[Zone, ...]:
    """Return the zones of some sequences of edges, each once, in the order of their names."""
    found = {edges.zone.name: edges.zone for edges in sequences if isinstance(getattr(edges, "zone", None), Zone)}
    return tuple(found[name] for name in sorted(found))
