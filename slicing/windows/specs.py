"""Create edges, cuts and families from their specs, which are stored in state headers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from slicing.errors import StateMismatch
from slicing.windows.counting import CountingFamily
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.families.cumulating import Cumulating
from slicing.windows.families.even import Even
from slicing.windows.families.family import Family, OverSharedCut
from slicing.windows.families.several import Several
from slicing.windows.families.slices_of import SlicesOf
from slicing.windows.families.stepped import Stepped
from slicing.windows.families.tailed import Tailed
from slicing.windows.session import SessionFamily
from slicing.windows.sliding import SlidingFamily
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import Edges, Every, Listed
from slicing.windows.time.local import CLOCK, LOCAL, Local
from slicing.windows.time.zones import Zone

LONG = 1000
"""Specs with more characters are stored as digests."""
DIGEST = "digest"
Given: TypeAlias = Edges | Cut | Family
"""Values that cannot be created from their spec: edges of a user's class, and values stored as a digest only."""


def short(spec: list[Any]) -> list[Any]:
    """Return a spec as a header stores it: a long spec is replaced by its kind and a digest.

    >>> short(["every", 1000, 0])
    ['every', 1000, 0]
    >>> short(["listed", [*range(1000)]])
    ['listed', 'digest', '3b25a8b1f1a850bdb17c0ad5293581e1']
    """
    text = json.dumps(spec, separators=(",", ":"))
    return spec if len(text) <= LONG else [spec[0], DIGEST, hashlib.sha256(text.encode()).hexdigest()[:32]]


def from_spec(spec: list[Any], zones: Iterable[Zone] = (), own: Iterable[Given] = ()) -> Any:
    """Return the edges, cut, family, set of families or zone that has this spec.

    `zones` are available time zone tables. `own` has the user's edges and the values of which only a digest is stored;
    they are found by their specs. A zone that is not in `zones` is created from the time zone data of this machine.
    Raises StateMismatch if these data differ from the spec, if a user's value is missing, or if the spec is invalid.
    """
    reader = _Reader(list(zones), list(own))
    try:
        return reader.read(spec)
    except (TypeError, KeyError, IndexError) as error:
        raise StateMismatch(f"A spec of slices or windows cannot be read; got {spec!r}.") from error


class _Reader:
    def __init__(self, zones: list[Zone], own: list[Given]) -> None:
        self.zones, self.own = zones, own

    def read(self, spec: list[Any]) -> Any:
        """Return the value that has a spec."""
        makers: dict[str, Callable[..., Any]] = {
            "every": Every,
            "listed": Listed,
            "zone": lambda name, transitions, offsets: Zone(name, tuple(transitions), tuple(offsets)),
            LOCAL: lambda unit, each, name, digest: Local(unit, each, self.zone(name, digest), repeats=False),
            CLOCK: lambda unit, each, name, digest: Local(unit, each, self.zone(name, digest)),
            "cut": lambda sequences: Cut(map(self.read, sequences)),
            "hopping": Even,
            "stepped": lambda edges, *numbers: Stepped(self.read(edges), *numbers),
            "cumulating": lambda periods, steps: Cumulating(self.read(periods), self.read(steps)),
            "tailed": lambda tails, ends, *numbers: Tailed(self.read(tails), self.read(ends), *numbers),
            "by_edges": lambda starts, ends: ByEdges(self.read(starts), self.read(ends)),
            "shared": lambda family, cut: OverSharedCut(self.read(family), self.read(cut)),
            "several": lambda members, cut: Several(tuple(map(self.read, members)), self.read(cut)),
            "session": lambda gap, column, unit: SessionFamily(gap=gap, gap_column=column, unit=unit),
            "sliding": lambda difference, unit, right: SlidingFamily(difference + unit, unit, 0, right),
            "counting": CountingFamily.of,
            "slices": lambda windows: SlicesOf(self.read(windows)),
        }
        is_made = spec[0] in makers and spec[1:2] != [DIGEST]
        return makers[spec[0]](*spec[1:]) if is_made else self.given(spec)

    def given(self, spec: list[Any]) -> Given:
        """Return the given value that has this spec or its digest."""
        for each in self.own:
            if spec in (each.spec(), short(each.spec())):
                return each
        if spec[1:2] == [DIGEST]:
            raise StateMismatch(
                f"Of a long list of edges only a digest is stored; got {spec!r}. Give the windows and the cut as they "
                "were."
            )
        raise StateMismatch(
            f"The edges {spec!r} are of a user's class, or of a newer version. Give the class with the query."
        )

    def zone(self, name: str, digest: str) -> Zone:
        """Return the zone of that name and table."""
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
