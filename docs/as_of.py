"""Draw windows as of an instant over the rows that a reader reads, as the reader chooses them."""

from slicing.drawing.svg import svg
from slicing.drawing.timeline import Bar, Row, Timeline
from slicing.serving.levels import Levels, Stored, Windows
from slicing.windows.as_of import start_as_of
from slicing.windows.time.edges import BEFORE
from slicing.windows.time.instants import microseconds_of

LEGEND = (
    ("mark", "", "t"),
    ("open", "", "the last window that has ended by t"),
    ("window", "", "the window as of t"),
    ("even", "", "a row of the store"),
)


def as_of(window, instant):
    """Return for each window the last one that has ended by an instant and the one as of it, then the rows read."""
    t, levels = microseconds_of(instant), Levels.of(window)
    windows = Windows(window, levels)
    stored = Stored(gone=(BEFORE,) * len(levels.specs), ended=(t,) * len(levels.tails))
    cover = windows.cover(t, stored)
    rows = []
    for name, family, start in zip(windows.names, windows.families, cover.starts, strict=True):
        last = family.first_open(t) - 1
        assert family.window_start(last) == start == start_as_of(family, t)
        ended = Bar(start, int(family.window_end(last)), "open")
        rows += [Row(name, bars=(ended,), is_first=True, mark=t), Row(bars=(Bar(start, t, "window"),))]
    for level, low, high in reversed(cover.ranges):
        rows.append(Row("tail" if level else "slices", bars=tuple(_bars(levels, level, low, high)), is_first=True))
    low = min(bar.start for row in rows for bar in row.bars)
    high = max(bar.end for row in rows for bar in row.bars)
    tail = [edge for row in rows if row.label == "tail" for bar in row.bars for edge in (bar.start, bar.end)]
    ticks = tuple(sorted({*tail, high}))
    return svg(Timeline(repr(window), tuple(rows), low, high, ticks, legend=LEGEND))


def _bars(levels, level, low, high):
    """The rows of a level that begin in a range."""
    edge, at = low, 0
    while edge < high:
        end = _next(levels, level, edge)
        yield Bar(edge, end, ("even", "odd")[at % 2])
        edge, at = end, at + 1


def _next(levels, level, edge):
    if not level:
        return levels.around(edge)[1]
    tail = levels.tails[level - 1]
    return tail.edge(tail.count(edge) + 1)
