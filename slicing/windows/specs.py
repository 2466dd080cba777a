"""Specs, which state headers store: edges, cuts and families are created from them, and said in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from slicing.errors import StateMismatch
from slicing.windows.counting import Counting, CountingFamily
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.families.cumulating import Cumulating
from slicing.windows.families.even import Even
from slicing.windows.families.family import Family, OverSharedCut
from slicing.windows.families.several import Several
from slicing.windows.families.slices_of import SlicesOf
from slicing.windows.families.stepped import Stepped
from slicing.windows.families.tailed import Tailed
from slicing.windows.session import RECORD, Session, SessionFamily
from slicing.windows.sliding import CalendarSlidingFamily, Sliding, SlidingFamily
from slicing.windows.time.back import Back
from slicing.windows.time.cut import Cut
from slicing.windows.time.durations import show
from slicing.windows.time.edges import AFTER, BEFORE, Edges, Every, Listed
from slicing.windows.time.local import CLOCK, LOCAL, Local, show_shift, show_units
from slicing.windows.time.zones import Zone
from slicing.windows.unbounded import Unbounded
from slicing.windows.window import Hopping

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

    `zones` are available time zone tables. `own` has the user's edges and the values that are stored as a digest only;
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
            LOCAL: lambda unit, each, name, digest, *shift: Local(unit, each, self.zone(name, digest), False, *shift),
            CLOCK: lambda unit, each, name, digest: Local(unit, each, self.zone(name, digest)),
            "cut": lambda sequences: Cut(map(self.read, sequences)),
            "hopping": Even,
            "stepped": lambda edges, *numbers: Stepped(self.read(edges), *numbers),
            "cumulating": lambda periods, steps, *closed: Cumulating(self.read(periods), self.read(steps), *closed),
            "tailed": lambda tails, ends, *numbers: Tailed(self.read(tails), self.read(ends), *numbers),
            "by_edges": lambda starts, ends: ByEdges(self.read(starts), self.read(ends)),
            "shared": lambda family, cut: OverSharedCut(self.read(family), self.read(cut)),
            "several": lambda members, cut: Several(tuple(map(self.read, members)), self.read(cut)),
            "session": lambda gap, column, *more: SessionFamily(Every(1), Every(1, 1), gap, column, *more),
            "sliding": lambda difference, unit, *more: SlidingFamily(difference + unit, unit, 0, False, *more),
            "sliding back": lambda edges, *closed: CalendarSlidingFamily.of(Back.of(self.read(edges)), *closed),
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


_ZONED = (LOCAL, CLOCK)
Spec = Sequence[Any]
"""A spec of windows or edges as a header stores it."""


def windows_text(spec: Spec) -> str:
    """Return the call that makes the windows of a spec, in units of the spec: "1 quarter" is stored as 3 months.

    >>> windows_text(["tailed", ["every", 3600000000, 0], ["every", 60000000, 0], 24, 0])
    "hopping('1 day', advance='1 minute', tail='1 hour')"
    """
    calls: dict[str, Callable[..., str]] = {
        "hopping": lambda *numbers: repr(Hopping(*numbers)),
        "stepped": _stepped,
        "cumulating": _cumulating,
        "tailed": _tailed,
        "by_edges": _by_edges,
        "shared": lambda family, _: windows_text(family),
        "several": lambda members, _: ", ".join(map(windows_text, members)),
        "session": lambda gap, column, *more: repr(Session(gap, column, RECORD, *more)),
        "sliding": lambda *values: repr(Sliding(*values)),
        "sliding back": _back,
        "counting": lambda size, advance, *_: repr(Counting(size, advance)),
        "slices": lambda windows: f"slices of {windows_text(windows)}",
    }
    kind, *values = spec
    return calls[kind](*values) if kind in calls and values[:1] != [DIGEST] else f"{kind}(...)"


def cut_text(spec: Spec) -> str:
    """Return the edges of a stored cut in words.

    >>> cut_text(["cut", [["every", 60000000, 5000000], ["local", "day", 1, "Europe/Berlin", "13185f0b"]]])
    'every 1 minute from 5 seconds on, and every 1 day in Europe/Berlin'
    """
    return "a long list of edges" if spec[1] == DIGEST else ", and ".join(map(edges_text, spec[1]))


def edges_text(spec: Spec) -> str:
    """Return the edges of a spec in words.

    >>> edges_text(["listed", [0, 5]]), edges_text(["every", 60000000, -1000000])
    ('at 2 instants', 'every 1 minute from 59 seconds on')
    """
    kind, *values = spec
    if kind == "every":
        shift = values[1] % values[0]
        return f"every {show(values[0])}{f' from {show(shift)} on' if shift else ''}"
    if kind in _ZONED:
        shift = show_shift(*values[4:])
        return f"every {show_units(*values[:2])} in {values[2]}{shift and f' from {shift} on'}"
    return f"at {_instants(spec)}"


def _instants(spec: Spec) -> str:
    kind, *values = spec
    return f"{len(values[0])} instants" if kind == "listed" and values[0] != DIGEST else f"instants of {kind}"


def _length(edges: Spec, count: int, rest: int = 0) -> str:
    """Return the text of a duration of a number of edges, and of microseconds after them."""
    kind, *values = edges
    if kind in _ZONED and not rest:
        return show_units(values[0], values[1] * count)
    return show(values[0] * count + rest) if kind == "every" else f"{count} of the edges {edges_text(edges)}"


def _call(function: str, size: str, edges: Spec, *closed_right: bool, **more: str) -> str:
    """Return a call with a size, other durations, the offset or the zone of edges, and `closed` if it is given."""
    shift = show_shift(*edges[5:]) if edges[0] in _ZONED else show(edges[2]) if edges[0] == "every" and edges[2] else ""
    offset = {"offset": shift} if shift else {}
    zone = {"zone": edges[3]} if edges[0] in _ZONED else {}
    closed = {"closed": "right"} if closed_right else {}
    given = [repr(size), *(f"{name}={value!r}" for name, value in (more | offset | zone | closed).items())]
    return f"{function}({', '.join(given)})"


def _stepped(edges: Spec, step: int, longest: int, _: int = 0, *closed: bool) -> str:
    size, advance = _length(edges, longest), _length(edges, step)
    if step == longest:
        return _call("tumbling", size, edges, *closed)
    return _call("hopping", size, edges, *closed, advance=advance)


def _cumulating(periods: Spec, steps: Spec, *closed: bool) -> str:
    return _call("cumulating", _length(periods, 1), periods, *closed, step=_length(steps, 1))


def _tailed(tails: Spec, ends: Spec, whole: int, rest: int, *closed: bool) -> str:
    lengths = {"advance": _length(ends, 1), "tail": _length(tails, 1)}
    return _call("hopping", _length(tails, whole, rest), tails, *closed, **lengths)


def _back(edges: Spec, *closed: str) -> str:
    ends = {"closed": closed[0]} if closed else {}
    return _call("sliding", _length(edges, 1), edges, **ends).replace(", ", ", right=False, ", 1)


def _by_edges(starts: Spec, ends: Spec) -> str:
    if (starts, ends) == (["listed", [BEFORE]], ["listed", [AFTER]]):
        return repr(Unbounded())
    return f"by_edges({_instants(starts)}, {_instants(ends)})"
