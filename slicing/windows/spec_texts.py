"""Say in words what specs of windows and edges store: windows as the call that makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slicing.windows.counting import Counting
from slicing.windows.session import Session
from slicing.windows.sliding import Sliding
from slicing.windows.specs import DIGEST
from slicing.windows.time.durations import show
from slicing.windows.time.edges import AFTER, BEFORE
from slicing.windows.time.local import CLOCK, LOCAL, show_units
from slicing.windows.unbounded import Unbounded
from slicing.windows.window import Hopping

_ZONED = (LOCAL, CLOCK)
Spec = Sequence[Any]
"""A spec of windows or edges as a header stores it, see `windows.specs`."""


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
        "session": lambda gap, column, unit: repr(Session(gap=gap, gap_column=column, unit=unit)),
        "sliding": lambda difference, unit, right: repr(Sliding(difference, unit, right)),
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
        return f"every {show_units(*values[:2])} in {values[2]}"
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


def _call(function: str, size: str, edges: Spec, **more: str) -> str:
    """Return a call with a size, other durations, and the offset or the zone of edges."""
    offset = {"offset": show(edges[2])} if edges[0] == "every" and edges[2] else {}
    zone = {"zone": edges[3]} if edges[0] in _ZONED else {}
    given = [repr(size), *(f"{name}={value!r}" for name, value in (more | offset | zone).items())]
    return f"{function}({', '.join(given)})"


def _stepped(edges: Spec, step: int, longest: int, *_: Any) -> str:
    size, advance = _length(edges, longest), _length(edges, step)
    return _call("tumbling", size, edges) if step == longest else _call("hopping", size, edges, advance=advance)


def _cumulating(periods: Spec, steps: Spec) -> str:
    return _call("cumulating", _length(periods, 1), periods, step=_length(steps, 1))


def _tailed(tails: Spec, ends: Spec, whole: int, rest: int) -> str:
    return _call("hopping", _length(tails, whole, rest), tails, advance=_length(ends, 1), tail=_length(tails, 1))


def _by_edges(starts: Spec, ends: Spec) -> str:
    if (starts, ends) == (["listed", [BEFORE]], ["listed", [AFTER]]):
        return repr(Unbounded())
    return f"by_edges({_instants(starts)}, {_instants(ends)})"
