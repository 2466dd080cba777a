"""Amounts and tables as text, tables as HTML, and what a terminal shows while work runs."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from html import escape
from typing import TextIO


def number(value: float) -> str:
    """Return the number as text: with thousands separators, and at most one decimal from 1 on."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.1f}" if value >= 1 else f"{value:.2g}"


def counted(count: float, noun: str) -> str:
    """Return the number and its noun, in the plural unless the number is 1."""
    return f"{number(count)} {noun}" + ("" if count == 1 else "s")


def duration(seconds: float) -> str:
    """Return seconds in the largest unit with a number of at least 1."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s"


def exact_duration(micros: int) -> str:
    """Return a duration, in microseconds and not negative, with all of its units.

    >>> exact_duration(640_000_000), exact_duration(86_400_000_000), exact_duration(1_013_000), exact_duration(0)
    ('10 min 40 s', '1 d', '1 s 13 ms', '0 s')
    """
    found = []
    units = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 10**6), ("ms", 1000), ("us", 1))
    for unit, length in units:
        count, micros = divmod(micros, length)
        found += [f"{count} {unit}"] if count else []
    return " ".join(found) or "0 s"


def size(count: float) -> str:
    """Return bytes in the largest unit with a number of at least 1."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= length:
            return f"{count / length:,.1f} {unit}"
    return f"{count:,.0f} B"


def percent(part: int, of: int) -> str:
    """Return a share in percent, rounded down, with more digits near 100 %: only a complete share is 100 %.

    >>> percent(997, 1000), percent(99_999, 100_000), percent(5, 5), percent(1, 3)
    ('99.7 %', '99.999 %', '100 %', '33.3 %')
    """
    share = 100 * Fraction(part, of)
    digits = next((n for n in range(1, 6) if 100 - share >= Fraction(1, 10**n)), 6)
    floored = int(share * 10**digits)
    return f"{floored / 10**digits:.{digits}f}".rstrip("0").rstrip(".") + " %"


BARS = " ▁▂▃▄▅▆▇█"
_CELL = "padding:2px 10px;text-align:{};white-space:nowrap;font-variant-numeric:tabular-nums"


def lines(rows: Iterable[Sequence[str]], right: bool | Sequence[bool] = False, ruled: bool = False) -> list[str]:
    """Return rows as lines of text in aligned columns, with a line of dashes below the first row if `ruled`.

    `right` says whether columns are aligned to the right, all alike or each.

    >>> print(*lines([("user", "n"), ("ada", "12")], right=[False, True], ruled=True), sep="\\n")
    user   n
    ----  --
    ada   12
    """
    cells = [*rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if ruled:
        cells.insert(1, ["-" * width for width in widths])
    sides = [right] * len(widths) if isinstance(right, bool) else right
    return ["  ".join(map(_put, row, widths, sides)).rstrip() for row in cells]


def _put(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table; the first column is aligned to the left, the others to the right."""

    def line(tag: str, cells: Sequence[str]) -> str:
        styles = (_CELL.format("left" if i == 0 else "right") for i in range(len(cells)))
        return "".join(f'<{tag} style="{s}">{escape(cell)}</{tag}>' for s, cell in zip(styles, cells, strict=True))

    body = "".join(f"<tr>{line('td', cells)}</tr>" for cells in rows)
    return f"<table><thead><tr>{line('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def pictured(picture: str | None, text: str) -> str:
    """Return HTML with a picture, if any, above preformatted text; each scrolls on its own if it is too wide."""
    above = f'<div style="overflow-x:auto">{picture}</div>' if picture else ""
    return f'<div>{above}<pre style="overflow-x:auto;line-height:1.35">{escape(text)}</pre></div>'


def bars(values: Sequence[float]) -> str:
    """Return a bar of text for each value; the greatest is as high as the line.

    >>> bars([0, 1, 4, 8])
    ' ▁▄█'
    """
    most = max(values, default=0)
    return "".join(BARS[round(8 * value / most)] if most > 0 else BARS[0] for value in values)


class Display:
    """Shows texts by name: one after another or, in a terminal, the newest text of each name in place.

    Other output to the same terminal must be printed inside `printing_above`. Several threads may share it.
    """

    def __init__(self, stream: TextIO):
        self.stream, self.live = stream, stream.isatty()
        self._blocks: dict[str, list[str]] = {}
        self._lock = threading.RLock()

    def show(self, name: str, text: str) -> None:
        """Show the newest text of a name, which may have several lines."""
        with self._lock:
            if self.live:
                self._redraw(self._blocks | {name: text.splitlines()})
            else:
                print(text, file=self.stream, flush=True)

    def end(self, name: str) -> None:
        """Leave the last text of a name where it is; the other texts move below it."""
        with self._lock:
            last = self._blocks.get(name)
            if last is not None:
                self._redraw({name: last} | self._blocks)
                del self._blocks[name]

    def clear(self) -> None:
        """Remove the texts that are updated in place."""
        with self._lock:
            self._redraw({})

    @contextmanager
    def printing_above(self) -> Iterator[None]:
        """Make room for printing above the texts that are updated in place."""
        with self._lock:
            kept = self._blocks
            self._redraw({})
            try:
                yield
            finally:
                self._redraw(kept)

    def _redraw(self, blocks: dict[str, list[str]]) -> None:
        up = sum(map(len, self._blocks.values()))
        width = shutil.get_terminal_size().columns
        lines = [line[: width - 1] for block in blocks.values() for line in block]
        cleared = "\x1b[J" if up > len(lines) else ""
        text = (f"\x1b[{up}F" if up else "") + cleared + "".join(f"\x1b[2K{line}\n" for line in lines)
        if text:
            self.stream.write(text)
            self.stream.flush()
        self._blocks = blocks
