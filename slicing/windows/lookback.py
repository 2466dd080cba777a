"""Lookback windows, which end at requested instants: the last 10 minutes as of each row of another table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slicing.errors import InvalidType, InvalidValue, check_flag, excerpt
from slicing.windows.families.even import Even
from slicing.windows.families.family import Family
from slicing.windows.families.several import several
from slicing.windows.time.durations import Duration, microseconds, show
from slicing.windows.time.edges import BEFORE, Array
from slicing.windows.window import Window

RANGES = "ranges"
"""How lookback windows are assembled: each is a range of the rows of its key."""
MOST_LENGTH = 1 << 60
"""Microseconds, 36,000 years: an instant minus a length stays in int64."""


@dataclass(frozen=True)
class Lookback(Even):
    """Windows of equal length, one beginning at every microsecond; a slice is a microsecond. `as_of(t)` chooses one."""

    inclusive: bool = False

    assembled = RANGES
    ratio = 1.0

    def in_time(self, index: Array, times: Array) -> NDArray[np.bool_]:
        """Return True for each record: the bounds of windows are not in rows."""
        return np.ones(len(times), bool)

    def as_of(self, time: Array) -> Array:
        """Return the window that ends before each instant, or with it if `inclusive`; none begins before int64."""
        before = self.size - self.inclusive
        return np.maximum(time, BEFORE + before) - before


@dataclass(frozen=True)
class Lookbacks(Window):
    """The windows of `features_at`: lengths in microseconds, one or several by name. Its repr is the call."""

    lengths: tuple[int, ...]
    names: tuple[str, ...] | None
    inclusive: bool = False

    decided_by = "the spine does."
    keeps = "joins partials"
    columns = ()

    @property
    def wide(self) -> bool:  # type: ignore[override]
        """Whether results are identified by the names of lengths."""
        return self.names is not None

    @cached_property
    def family(self) -> Family:
        """The windows of all lengths; they share their slices."""
        families = [Lookback(length + self.inclusive, 1, inclusive=self.inclusive) for length in self.lengths]
        return families[0] if self.names is None else several(families)

    @property
    def calls(self) -> list[str]:
        """The names, or the length if there is only one."""
        return [*(self.names or map(show, self.lengths))]

    def __repr__(self) -> str:
        names = [f"{name}=" for name in self.names] if self.names else [""]
        given = [f"{name}{show(length)!r}" for name, length in zip(names, self.lengths, strict=True)]
        return f"features_at({', '.join([*given, *(['inclusive=True'] if self.inclusive else [])])})"


def lookbacks(length: Duration | None, named: Mapping[str, Duration], inclusive: bool) -> Lookbacks:
    """Return the lengths of a call: one, or several by name.

    Raises InvalidType and InvalidValue for an invalid length, for no length, and for both forms at once.
    """
    check_flag(inclusive, "`inclusive` says whether records at the instant itself count")
    if (length is None) == (not named):
        given = ", ".join([excerpt(length), *(f"{name}={excerpt(value)}" for name, value in named.items())])
        raise InvalidValue(
            f"`features_at` takes either one length or several by name; got {given if named else 'none'}. "
            + (_known(named) or _FORMS)
        )
    if length is not None:
        return Lookbacks((_length("length", length),), None, inclusive)
    return Lookbacks(tuple(_length(*each) for each in named.items()), tuple(named), inclusive)


_FORMS = (
    'Write for example `features_at(spine, "1 hour", time="ts")` or '
    '`features_at(spine, hour="1 hour", day="1 day", time="ts")`.'
)


def _known(named: Iterable[str]) -> str:
    """Return the remedy for keywords of other libraries among the names of lengths; "" without one."""
    from slicing.hints import no_keyword

    return next(filter(None, (no_keyword("features_at", name) for name in named)), "")


def _length(name: str, duration: Duration) -> int:
    try:
        length = microseconds(duration, name)
    except (InvalidValue, InvalidType):
        if remedy := _known([name]):
            raise InvalidType(
                f"`features_at` takes lengths by name; got {name}={excerpt(duration)}. {remedy}"
            ) from None
        raise
    if length <= 0:
        raise InvalidValue(f"`{name}` must be positive; got {excerpt(duration)}. It says how far back records count.")
    if length > MOST_LENGTH:
        raise InvalidValue(f"`{name}` must be at most 36,000 years; got {excerpt(duration)}.")
    return length
