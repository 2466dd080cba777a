"""A timeline: rows of intervals and points over one axis of time, followed by columns of cells."""

from __future__ import annotations

from dataclasses import dataclass, field

Data = dict[str, object]
"""The `data-` attributes of a shape: its meaning, for reading pictures back and for styling them."""


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
    """A point at an instant. `look` is one of `style.DOTS`; dots at the same instant are drawn next to each other."""

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
    """The content of one row. `mark` is an instant from which a line goes down to the last row; `note` labels it."""

    label: str = ""
    note: str = ""
    bars: tuple[Bar, ...] = ()
    dots: tuple[Dot, ...] = ()
    cells: tuple[Cell, ...] = ()
    mark: int | None = None
    is_first: bool = False
    """Whether this row begins a group of rows."""


@dataclass(frozen=True)
class Timeline:
    """A picture: `rows` from top to bottom over the axis `[low, high]` in microseconds, with columns headed by `heads`.

    `ticks` are the preferred instants on the axis; `zone` is the name of the time zone of its labels. `legend` has the
    look, the sample text and the meaning of each entry.
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
