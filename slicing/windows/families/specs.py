"""From the specs of edges, cuts and families, as state headers hold them, back to what they are of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from slicing.errors import StateMismatch
from slicing.windows.families.by_edges import ByEdges, OverSharedCut
from slicing.windows.families.cumulating import Cumulating
from slicing.windows.families.even import Even
from slicing.windows.families.several import Several
from slicing.windows.families.stepped import Stepped
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import Edges, Every, Listed
from slicing.windows.time.local import Local
from slicing.windows.time.zones import Zone


def from_spec(spec: list[Any], zones: Iterable[Zone] = (), own: Iterable[Edges] = ()) -> Any:
    """The edges, cut, family, set of families or zone that has this spec.

    `zones` are tables at hand, and `own` the user's edges, found by their specs. A zone that is not among them is made
    by this machine's time zone data. Raises StateMismatch when these are other data than the spec was written with,
    a user's edges are missing, or the spec is not one.
    """
    reader = _Reader(list(zones), list(own))
    try:
        return reader.read(spec)
    except (TypeError, KeyError, IndexError) as error:
        raise StateMismatch(f"A spec of slices or windows cannot be read; got {spec!r}.") from error


class _Reader:
    def __init__(self, zones: list[Zone], own: list[Edges]) -> None:
        self.zones, self.own = zones, own

    def read(self, spec: list[Any]) -> Any:
        """What a spec is of."""
        makers: dict[str, Callable[..., Any]] = {
            "every": Every,
            "listed": Listed,
            "zone": lambda name, transitions, offsets: Zone(name, tuple(transitions), tuple(offsets)),
            "local": lambda unit, each, name, digest: Local(unit, each, self.zone(name, digest)),
            "cut": lambda sequences: Cut(map(self.read, sequences)),
            "hopping": Even,
            "stepped": lambda edges, *numbers: Stepped(self.read(edges), *numbers),
            "cumulating": lambda periods, steps: Cumulating(self.read(periods), self.read(steps)),
            "by_edges": lambda starts, ends: ByEdges(self.read(starts), self.read(ends)),
            "shared": lambda family, cut: OverSharedCut(self.read(family), self.read(cut)),
            "several": lambda members, cut: Several(tuple(map(self.read, members)), self.read(cut)),
        }
        return makers[spec[0]](*spec[1:]) if spec[0] in makers else self.user(spec)

    def user(self, spec: list[Any]) -> Edges:
        """The user's edges of a spec."""
        for edges in self.own:
            if edges.spec() == spec:
                return edges
        raise StateMismatch(
            f"The edges {spec!r} are of a user's class, or of a newer version. Give the class with the query."
        )

    def zone(self, name: str, digest: str) -> Zone:
        """The zone of that name and table."""
        for zone in self.zones:
            if zone.name == name and zone.digest == digest:
                return zone
        zone = Zone.of(name)
        if zone.digest != digest:
            raise StateMismatch(
                f"The time zone data of {name!r} must be those that the edges were made with, {digest}; got "
                f"{zone.digest}. Give the table from then with `zones`, or install the tzdata from then."
            )
        return zone
