"""The part of a time zone's table that the state of a bucket depends on, as stored in its header.

Time zone data change: packages leave out the time before 1970, and governments change future offsets. Neither affects
stored slices or closed windows. Therefore a checkpoint and a query must have equal offsets from the oldest slice to the
newest slice and the watermark; later windows use the offsets of the query.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slicing.windows.time.zones import SECOND, Zone

Part = list[Any]
"""The first second, the last second, the seconds in between at which the offset changes, and the offsets in seconds."""

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


def parts(zones: Sequence[Zone], instants: Sequence[int]) -> dict[str, Part]:
    """Return the part of each zone's table from the first to the last instant, by zone name; empty without instants."""
    return {zone.name: part(zone, min(instants), max(instants)) for zone in zones if instants}


def difference(zone: Zone, stored: Part) -> str:
    """Return the first difference between a table and the stored part as text, empty if there is none."""
    low, high, transitions, _ = stored
    own = part(zone, (low + MARGIN) * SECOND, high * SECOND)
    for second in sorted({low, *transitions, *own[2]}):
        then, now = (_offset(each, second) for each in (stored, own))
        if then != now:
            return f"at second {second} since 1970 its clock was {then} s ahead of UTC, and is {now} s ahead now"
    return ""


def _offset(of: Part, second: int) -> int:
    return int(of[3][bisect_right(of[2], second)])


def digests(spec: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the digest of each zone in a spec of edges, cuts or families."""
    if isinstance(spec, list):
        if len(spec) == 5 and spec[0] == "local":
            yield spec[3], spec[4]
        else:
            for each in spec:
                yield from digests(each)


def renewed(spec: Any, known: Mapping[str, str]) -> Any:
    """Return a spec in which each zone has the digest from `known`; other zones keep theirs."""
    if not isinstance(spec, list):
        return spec
    if len(spec) == 5 and spec[0] == "local":
        return [*spec[:4], known.get(spec[3], spec[4])]
    return [renewed(each, known) for each in spec]


def zones_of(sequences: Sequence[Any]) -> tuple[Zone, ...]:
    """Return the zones of some sequences of edges, each once, in the order of their names."""
    found = {edges.zone.name: edges.zone for edges in sequences if isinstance(getattr(edges, "zone", None), Zone)}
    return tuple(found[name] for name in sorted(found))
