"""Pictures and tables as text: windows and timelines as SVG, tables as HTML, blocks of lines in a terminal.

A timeline is a value that places shapes in time; `svg` decides how they look. A picture is one text without external
fonts, scripts or files, so that a page, a notebook and a repository show it alike, in light and dark mode.
"""

from typing import TYPE_CHECKING, Any

from slicing.drawing.text import (
    Display,
    bars,
    counted,
    duration,
    exact_duration,
    lines,
    number,
    percent,
    pictured,
    size,
    table,
)
from slicing.drawing.windows import picture

if TYPE_CHECKING:
    from slicing.drawing.timelines import draw as draw

__all__ = [
    "Display",
    "bars",
    "counted",
    "duration",
    "exact_duration",
    "lines",
    "number",
    "percent",
    "picture",
    "pictured",
    "size",
    "table",
]


def __getattr__(name: str) -> Any:
    """Return `draw`, whose engines are imported when it is used."""
    if name != "draw":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from slicing.drawing.timelines import draw

    return draw
