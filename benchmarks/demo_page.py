"""The page that the demo leaves: seconds of each file as bars, for both engines, in one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from slicing.drawing.svg import element, sheet

WIDTH, BAR, ROW, LEFT, EDGE = 520, 9, 28, 60, 16
LOOKS = {"slicing": "window", "Spark's window()": "late"}
"""The engines, and the colour of each."""
STYLE = "body{margin:2rem auto;max-width:44rem;padding:0 1rem;font-family:system-ui,sans-serif;color-scheme:light dark}"

Seconds = Sequence[tuple[float, float | None]]
"""The seconds of each file: of slicing, and of Spark, None where Spark was stopped before it finished."""


def page(seconds: Seconds, summary: str) -> str:
    """Return the HTML page; `summary` is the text below the picture, a paragraph per line."""
    paragraphs = "".join(element("p", escape(line)) for line in summary.splitlines() if line)
    body = f"{element('h1', 'Seconds per file of payments')}\n{picture(seconds)}\n{paragraphs}"
    head = f'<meta charset="utf-8"><title>Demo of slicing</title>{element("style", STYLE)}'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def picture(seconds: Seconds) -> str:
    """Return the bars as SVG: two for each file, none where Spark was stopped."""
    most = max((each or 0.0 for both in seconds for each in both), default=0.0) or 1.0
    width, height = LEFT + WIDTH + 80, 40 + ROW * len(seconds)
    rows = (part for number, both in enumerate(seconds) for part in _file(number, both, WIDTH / most))
    parts = [element("style", sheet()), element("rect", class_="paper", width=width, height=height), *_legend(), *rows]
    box: dict[str, Any] = {"viewBox": f"0 0 {width} {height}", "style": "width:100%"}
    return element(
        "svg", "\n".join(parts), xmlns="http://www.w3.org/2000/svg", role="img", class_="slicing-drawing", **box
    )


def _legend() -> Iterator[str]:
    for number, (engine, colour) in enumerate(LOOKS.items()):
        x = LEFT + 120 * number
        yield element("rect", x=x, y=12, width=BAR, height=BAR, style=f"fill:var(--{colour})")
        yield _text(engine, x + 16, 21)


def _file(number: int, both: tuple[float, float | None], scale: float) -> Iterator[str]:
    top = 40 + ROW * number
    yield _text(f"file {number + 1}", EDGE, top + 13)
    for line, (found, (engine, colour)) in enumerate(zip(both, LOOKS.items(), strict=True)):
        y = top + line * (BAR + 2)
        length = (found or 0.0) * scale
        shape: dict[str, Any] = {"x": LEFT, "y": y, "width": length, "height": BAR, "style": f"fill:var(--{colour})"}
        yield element("rect", data={"engine": engine}, **shape)
        yield _text("stopped" if found is None else f"{found:.1f} s", LEFT + length + 6, y + BAR)


def _text(text: str, x: float, y: float) -> str:
    return element("text", escape(text), x=x, y=y, class_="soft")
