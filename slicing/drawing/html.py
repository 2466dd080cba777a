"""Tables as HTML for notebooks, readable in the light and in the dark, as they take the colours of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

BARS = " ▁▂▃▄▅▆▇█"
_CELL = "padding:2px 10px;text-align:{};white-space:nowrap;font-variant-numeric:tabular-nums"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column is aligned to the left, the others to the right."""

    def line(tag: str, cells: Sequence[str]) -> str:
        styles = (_CELL.format("left" if i == 0 else "right") for i in range(len(cells)))
        return "".join(f'<{tag} style="{s}">{escape(cell)}</{tag}>' for s, cell in zip(styles, cells, strict=True))

    body = "".join(f"<tr>{line('td', cells)}</tr>" for cells in rows)
    return f"<table><thead><tr>{line('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def pictured(picture: str | None, text: str) -> str:
    """A text in columns below a picture, if there is one; both scroll by themselves where they are too wide."""
    above = f'<div style="overflow-x:auto">{picture}</div>' if picture else ""
    return f'<div>{above}<pre style="overflow-x:auto;line-height:1.35">{escape(text)}</pre></div>'


def bars(values: Sequence[float]) -> str:
    """A bar of text for each value, the greatest as high as the line.

    >>> bars([0, 1, 4, 8])
    ' ▁▄█'
    """
    most = max(values, default=0)
    return "".join(BARS[round(8 * value / most)] if most > 0 else BARS[0] for value in values)
