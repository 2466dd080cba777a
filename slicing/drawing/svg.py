"""Timelines as SVG: one text, no scripts, no files, the same for the same timeline.

::

    title
                      12:00   12:05   12:10            heading
                                                      0   1   2      heads
    label     note      *  *    |   *                                a row: dots, and the mark that begins here
    label             [=======)                           3          a row: a bar, and a cell in column 1
    legend
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from slicing.drawing.clock import Clock, ticks
from slicing.drawing.timeline import Bar, Cell, Data, Dot, Row, Timeline

SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'
MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'
WIDE = 0.62
"""The width of a character divided by the font size, for the widest of these fonts."""

COLOURS = {
    "paper": ("#ffffff", "#161b22"),
    "ink": ("#1f2a37", "#e2e8f0"),
    "soft": ("#5b6875", "#9aa7b5"),
    "grid": ("#dfe5eb", "#2d3640"),
    "odd": ("#d5e3f3", "#24405f"),
    "even": ("#eaf1f9", "#1c2f45"),
    "window": ("#3f7fca", "#5b9be6"),
    "open": ("#a9c6ea", "#34577f"),
    "taken": ("#1f2a37", "#e2e8f0"),
    "late": ("#c8324a", "#ff7b8b"),
    "partly": ("#c87a0a", "#f0ac45"),
    "mark": ("#b3560b", "#f2a25c"),
    "final": ("#1f6fbf", "#8fc1fb"),
    "update": ("#5f55b5", "#b9b1ff"),
    "early": ("#1b7f6b", "#6fd9c2"),
    "correction": ("#b3560b", "#f2a25c"),
    "gone": ("#76818d", "#8b98a6"),
}
"""Each colour for light and for dark mode."""

FILLS = {
    "odd": "fill:var(--odd)",
    "even": "fill:var(--even)",
    "window": "fill:var(--window)",
    "open": "fill:var(--open);stroke:var(--window);stroke-dasharray:3 2",
    "empty": "fill:none;stroke:var(--soft);stroke-dasharray:2 3",
}
"""Fills of bars: alternating slices, emitted windows, windows that were not emitted, windows without a record."""
DOTS = {
    "taken": "fill:var(--taken);stroke:var(--taken)",
    "late": "fill:var(--paper);stroke:var(--late)",
    "partly": "fill:var(--partly);stroke:var(--partly)",
    "lost": "fill:var(--paper);stroke:var(--soft)",
}
"""Looks of dots: records that count, are late for all windows, are late for some, or are in no window."""
CELLS = ("final", "update", "early", "correction", "gone")


def sheet() -> str:
    """Return the style sheet; it affects nothing outside of the pictures, which share it in a page."""

    def colours(which: int) -> str:
        return ";".join(f"--{name}:{both[which]}" for name, both in COLOURS.items())

    rules = [
        f".slicing-drawing{{{colours(0)};font-family:{SANS}}}",
        f"@media (prefers-color-scheme:dark){{.slicing-drawing{{{colours(1)}}}}}",
        ".slicing-drawing text{font-size:12px;fill:var(--ink)}",
        f".slicing-drawing .title{{font-family:{MONO}}}",
        ".slicing-drawing .soft{fill:var(--soft);font-size:11px}",
        ".slicing-drawing .paper{fill:var(--paper)}",
        ".slicing-drawing .grid{stroke:var(--grid);fill:none}",
        ".slicing-drawing .mark{stroke:var(--mark);stroke-dasharray:4 3;fill:none}",
        ".slicing-drawing .flag{fill:var(--mark)}",
        *(f".slicing-drawing .{look}{{{rule}}}" for look, rule in FILLS.items()),
        *(f".slicing-drawing .dot-{look}{{{rule};stroke-width:1.6}}" for look, rule in DOTS.items()),
        *(f".slicing-drawing .cell-{look}{{fill:var(--{look});font-weight:600}}" for look in CELLS),
    ]
    return "".join(rules)


PLOT, EDGE, ROW, BAR, HEAD, RADIUS = 460, 14, 24, 14, 22, 4
FONT, SMALL = 12, 11


def svg(timeline: Timeline) -> str:
    """Return the picture of a timeline as SVG; `data-` attributes of shapes say what they represent."""
    return _Drawing(timeline).text()


def element(tag: str, content: str = "", data: Data | None = None, **attributes: object) -> str:
    """Return an XML element. `content` is XML; attributes are escaped, and `_` in their names becomes `-`."""
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    named |= {f"data-{name}": value for name, value in (data or {}).items()}
    written = "".join(f' {name}="{escape(_shown(value))}"' for name, value in named.items())
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def _shown(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def width_of(text: str, size: int = FONT) -> float:
    """Return the approximate maximum width of a text in pixels."""
    return len(text) * size * WIDE


class _Drawing:
    """The layout of a timeline, in pixels."""

    def __init__(self, timeline: Timeline):
        self.timeline = timeline
        self.ticks, self.clock = _ticks(timeline)
        labels = max((width_of(row.label) for row in timeline.rows), default=0)
        notes = max((width_of(row.note, SMALL) for row in timeline.rows), default=0)
        self.label_end = EDGE + labels
        self.note_end = self.label_end + (notes + 12 if notes else 0)
        self.left = self.note_end + 14
        self.right = self.left + PLOT
        texts = [width_of(cell.text) for row in timeline.rows for cell in row.cells]
        self.column = max([26.0, *(text + 12 for text in texts), *(width_of(head) + 12 for head in timeline.heads)])
        widest = max((width_of(self.clock.tick(each, None), SMALL) for each in self.ticks), default=0)
        self.cells = self.right + max(26, widest / 2 + 12)
        columns = len(timeline.heads) * self.column
        self.width = self.right + 30
        if columns:
            self.width = self.cells + max(columns, width_of(timeline.heading, SMALL)) + EDGE
        self.width = max(self.width, min(width_of(timeline.title) + 2 * EDGE, 860))
        self.titles = _wrapped(timeline.title, int((self.width - 2 * EDGE) / (FONT * WIDE)))
        self.top = EDGE + len(self.titles) * 18 + 2 * HEAD
        self.bottom = self.top + sum(map(_height, timeline.rows))
        self.legend = self._placed()
        self.height = self.legend[-1][-1] + 14 if self.legend else self.bottom + 10

    def x(self, instant: int) -> float:
        """Return the x position of an instant in pixels; instants outside the axis are placed at its ends."""
        span = max(1, self.timeline.high - self.timeline.low)
        share = (instant - self.timeline.low) / span
        return round(self.left + PLOT * min(1.0, max(0.0, share)), 1)

    def text(self) -> str:
        """Return the whole picture."""
        parts = [element("title", escape(self.timeline.title)), element("style", sheet())]
        parts.append(element("rect", class_="paper", width=self.width, height=self.height, rx=6))
        for number, line in enumerate(self.titles):
            parts.append(self._text(line, EDGE, EDGE + 12 + 18 * number, "title"))
        parts += [*self._axis(), *self._heads(), *self._rows(), *self._legend()]
        box = f"0 0 {_shown(float(self.width))} {_shown(float(self.height))}"
        attributes: dict[str, Any] = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": box, "role": "img"}
        attributes |= {"class": "slicing-drawing", "width": round(self.width), "height": round(self.height)}
        return element("svg", "\n".join(["", *parts, ""]), **attributes) + "\n"

    def _text(self, text: str, x: float, y: float, look: str = "", anchor: str = "", data: Data | None = None) -> str:
        attributes: dict[str, Any] = {"x": x, "y": y}
        attributes |= {"class": look} if look else {}
        attributes |= {"text_anchor": anchor} if anchor else {}
        return element("text", escape(text, quote=False), data, **attributes)

    def _axis(self) -> Iterator[str]:
        before = None
        for at in self.ticks:
            yield element("path", class_="grid", d=f"M{self.x(at)} {self.top - 6}V{self.bottom}")
            yield self._text(self.clock.tick(at, before), self.x(at), self.top - 12, "soft", "middle")
            before = at
        if self.timeline.zone != "UTC":
            yield self._text(self.timeline.zone, self.left, self.top - 12 - HEAD + 4, "soft")

    def _heads(self) -> Iterator[str]:
        if not self.timeline.heads:
            return
        yield self._text(self.timeline.heading, self.cells, self.top - 12 - HEAD + 4, "soft")
        for number, head in enumerate(self.timeline.heads):
            yield self._text(head, self._middle(number), self.top - 12, "soft", "middle")
        yield element("path", class_="grid", d=f"M{self.cells - 6} {self.top - 6}H{self.width - EDGE}")

    def _middle(self, column: int) -> float:
        return round(self.cells + (column + 0.5) * self.column, 1)

    def _rows(self) -> Iterator[str]:
        y = self.top
        marks: list[str] = []
        shapes: list[str] = []
        drawn: set[int] = set()
        for row in self.timeline.rows:
            y += _height(row) - ROW
            middle = y + ROW / 2
            shapes += self._row(row, middle)
            if row.mark is not None and self.timeline.low <= row.mark <= self.timeline.high:
                marks += self._mark(row.mark, middle, row.mark not in drawn)
                drawn.add(row.mark)
            y += ROW
        yield from shapes
        yield from marks

    def _row(self, row: Row, y: float) -> Iterator[str]:
        if row.label:
            yield self._text(row.label, self.label_end, y + 4, "", "end")
        if row.note:
            yield self._text(row.note, self.note_end, y + 4, "soft", "end")
        yield from (self._bar(bar, y) for bar in row.bars)
        yield from self._dots(row.dots, y)
        yield from (self._cell(cell, y) for cell in row.cells)

    def _bar(self, bar: Bar, y: float) -> str:
        start, end = self.x(bar.start), self.x(bar.end)
        # A small gap between neighbours, because intervals are half-open.
        box: dict[str, Any] = {
            "x": start + 0.5,
            "y": y - BAR / 2,
            "width": max(1.0, end - start - 1),
            "height": BAR,
            "rx": 3,
        }
        shape = element("rect", class_=bar.look, data=bar.data, **box)
        if bar.text and width_of(bar.text, SMALL) < end - start:
            shape += self._text(bar.text, round((start + end) / 2, 1), y + 4, "soft", "middle")
        return shape

    def _dots(self, dots: tuple[Dot, ...], y: float) -> Iterator[str]:
        """The circles of records; those at about the same instant are stacked, so that each is visible."""
        last, level = -1e9, 0
        for dot in sorted(dots, key=lambda dot: dot.at):
            x = self.x(dot.at)
            level = level + 1 if x - last < RADIUS else 0
            shift = (0, -5, 5)[level % 3]
            last = x
            yield element("circle", class_=f"dot-{dot.look}", data=dot.data, cx=x, cy=y + shift, r=RADIUS)

    def _cell(self, cell: Cell, y: float) -> str:
        return self._text(cell.text, self._middle(cell.column), y + 4, f"cell-{cell.look}", "middle", cell.data)

    def _mark(self, at: int, y: float, is_new: bool) -> Iterator[str]:
        """A flag, and a vertical line down if this instant has none."""
        x = self.x(at)
        if is_new:
            yield element("path", class_="mark", d=f"M{x} {y - ROW / 2 + 3}V{self.bottom}")
        yield element("path", class_="flag", data={"watermark": at}, d=f"M{x} {y - ROW / 2 + 1}h-5l5 8l5 -8z")

    def _placed(self) -> list[tuple[str, str, str, float, float]]:
        """The looks, samples, meanings and positions of the legend, in as many lines as needed."""
        placed: list[tuple[str, str, str, float, float]] = []
        x, y = self.left, self.bottom + 18
        for look, sample, meaning in self.timeline.legend:
            wide = 30 + width_of(meaning, SMALL)
            if x > self.left and x + wide > self.width:
                x, y = self.left, y + 18
            placed.append((look, sample, meaning, round(x, 1), y))
            x += wide
        return placed

    def _legend(self) -> Iterator[str]:
        for look, sample, meaning, x, y in self.legend:
            if look == "mark":
                yield element("path", class_="flag", d=f"M{x} {y - 8}h-5l5 8l5 -8z")
            elif look.startswith("dot-"):
                yield element("circle", class_=look, cx=x, cy=y - 4, r=RADIUS)
            elif look.startswith("cell-"):
                yield self._text(sample, x + 3, y, look, "end")
            else:
                yield element("rect", class_=look, x=x - 7, y=y - 10, width=14, height=11, rx=3)
            yield self._text(meaning, x + 11, y, "soft")


def _ticks(timeline: Timeline) -> tuple[list[int], Clock]:
    """The ticks of the axis and the clock that labels them; longer labels leave room for fewer ticks."""
    clock, per_pixel = Clock(timeline.ticks, timeline.zone), max(1, timeline.high - timeline.low) / PLOT
    for _ in range(3):
        widest = max((width_of(clock.tick(each, None), SMALL) for each in (timeline.low, *timeline.ticks)), default=0)
        found = ticks(timeline.low, timeline.high, timeline.ticks, (widest + 10) * per_pixel)
        clock = Clock(found, timeline.zone)
    return found, clock


def _height(row: Row) -> int:
    return ROW + (10 if row.is_first else 0)


def _wrapped(text: str, most: int) -> list[str]:
    """Break a text at spaces into lines of at most `most` characters, where words are short enough."""
    lines: list[str] = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return [line for line in lines if line]
