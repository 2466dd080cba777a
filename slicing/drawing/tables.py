"""Tables as text, and as HTML for notebooks, which uses the colours of the page and so suits light and dark mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

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
