"""A timeline: rows of intervals and points over one axis of time, followed by columns of cells."""

from __future__ import annotations

from dataclasses import dataclass, field

Data = dict[str, object]
"""The meaning of a shape, in its `data-` attributes: pictures can be read back, and styled from outside."""


@dataclass(frozen=True)
class Bar:
    """An interval from `start` to `end`, in microseconds. `look` is one of `style.FILLS`."""

    start: int
    end: int
    look: str
    text: str = ""
    data: Data = field(default_factory=dict)


@dataclass(frozen=True)
class Dot:
    """A point at an instant. `look` is one of `style.DOTS`; those of one instant are drawn next to each other."""

    at: int
    look: str
    data: Data = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """A text in a column next to the axis. `look` is one of `style.CELLS`."""

    column: int
    text: str
    look: str
    data: Data = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """The content of one row. `mark` is an instant from which a line goes down to the last row, `note` says it."""

    label: str = ""
    note: str = ""
    bars: tuple[Bar, ...] = ()
    dots: tuple[Dot, ...] = ()
    cells: tuple[Cell, ...] = ()
    mark: int | None = None
    is_first: bool = False
    """Whether a group of rows begins."""


@dataclass(frozen=True)
class Timeline:
    """A picture: `rows` from above, over the axis `[low, high]` in microseconds, with columns headed by `heads`.

    `ticks` are instants that had better be on the axis, `zone` the name of the one by whose clock it goes. `legend` has
    looks, a sample of those that are texts, and what they mean.
    """

    title: str
    rows: tuple[Row, ...]
    low: int
    high: int
    ticks: tuple[int, ...] = ()
    zone: str = "UTC"
    heading: str = ""
    heads: tuple[str, ...] = ()
    legend: tuple[tuple[str, str, str], ...] = ()
