"""The chart of README and of the first page: speed relative to other engines, from docs/performance/measurements.md.

Its lines are named here, a group for each engine.
"""

import math
import re
from html import escape
from pathlib import Path

from slicing.drawing.svg import element, sheet, width_of

PAGE = Path(__file__).parent / "performance" / "measurements.md"
FASTER = ("times faster", "times fewer processor seconds")
ROW = re.compile(
    r"^\| (?P<title>[^|]+) \| (?P<goal>[^|]*) \| (?P<ratio>[0-9.e+]+)[^|]* \| (?P<unit>[^|]+) \|", re.MULTILINE
)
GROUPS = {
    ("Spark", "window"): {
        "dense, R = 360, 1,000,000 records / Spark `window()`": "1 h by 10 s",
        "keys, 100,000 keys, R = 60 / Spark `window()` on a tenth of records and keys, per record": (
            "1 h by 1 min, 100,000 keys *"
        ),
        "on_update, dense, R = 360 / Spark's update mode": "1 h by 10 s, every update",
        "fixed cost: 1,000 records per micro-batch, R = 360 / Spark tumbling": "1,000 records a micro-batch",
    },
    ("Kafka Streams, processor time", "update"): {
        "day, R = 60, on close / Kafka Streams, suppressed, on a 25th": "1 h by 1 min *",
        "day, R = 60, on update / Kafka Streams, on a 25th": "1 h by 1 min, every update *",
        "day, tumbling (R = 1), on close / Kafka Streams, suppressed": "tumbling, 1 min",
    },
    ("Flink SQL, state in memory", "early"): {
        "day, R = 60 / Flink, hashmap": "1 h by 1 min",
        "day, tumbling (R = 1) / Flink, hashmap": "tumbling, 1 min",
    },
    ("Polars, bounded input", "partly"): {
        "day, bounded, R = 1440 / Polars in process": "24 h by 1 min",
    },
}
"""Name and colour of each engine, and the titles and labels of its lines."""
WIDTH, BAR, ROW_HEIGHT, TOP, EDGE = 210, 16, 24, 34, 14


def measured(page=None):
    """Ratio and unit of each line of the measurements, by title."""
    text = PAGE.read_text(encoding="utf-8") if page is None else page
    return {each["title"]: (float(each["ratio"]), each["unit"].strip()) for each in ROW.finditer(text)}


def faster(found, lines):
    """Label and speed ratio of each measured line, the fastest first."""
    rows = []
    for title, label in lines.items():
        if title in found:
            ratio, unit = found[title]
            rows.append((label, ratio if unit in FASTER else 1 / ratio))
    return sorted(rows, key=lambda row: -row[1])


def shown(ratio):
    """A ratio with two significant digits."""
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def chart(found=None):
    """The chart as SVG, with a logarithmic scale; bars start at 1, those of slower lines go to the left."""
    found = measured() if found is None else found
    groups = {group: rows for group, lines in GROUPS.items() if (rows := faster(found, lines))}
    ratios = [ratio for rows in groups.values() for _, ratio in rows]
    least, most = min(0.5, *ratios), max(10.0, *ratios)
    left = EDGE + max(width_of(label) for rows in groups.values() for label, _ in rows) + 14

    def x(ratio):
        return left + WIDTH * math.log(ratio / least) / math.log(most / least)

    height = TOP + (len(ratios) + len(groups)) * ROW_HEIGHT + 10
    width = left + WIDTH + 50
    parts = [element("title", "times faster than"), element("style", sheet())]
    parts.append(element("rect", class_="paper", width=width, height=height, rx=6))
    parts.append(_text("times as fast", EDGE, TOP - 12, "soft"))
    for tick in [tick for tick in (1, 2, 5, 10, 20, 50, 100) if tick <= most]:
        parts.append(element("path", class_="grid", d=f"M{x(tick):.1f} {TOP - 6}V{height - 8}"))
        parts.append(_text(str(tick), x(tick), TOP - 12, "soft", "middle"))
    y = TOP
    for (engine, look), rows in groups.items():
        parts.append(element("text", escape(engine), x=EDGE, y=f"{y + 16:.1f}", font_weight="bold"))
        for number, (label, ratio) in enumerate(rows, 1):
            parts += _row(label, engine, ratio, look, (left, x(1), x(ratio)), y + (number + 0.5) * ROW_HEIGHT)
        y += (len(rows) + 1) * ROW_HEIGHT
    size = {"width": round(width), "height": round(height), "viewBox": f"0 0 {width:.0f} {height:.0f}"}
    named = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "class": "slicing-drawing"}
    return element("svg", "\n".join(["", *parts, ""]), **named, **size) + "\n"


def _row(label, engine, ratio, look, places, y):
    left, one, end = places
    data = {"line": label, "baseline": engine, "ratio": shown(ratio)}
    box = {"x": min(one, end), "y": y - BAR / 2, "width": max(1.5, abs(end - one)), "height": BAR, "rx": 3}
    yield _text(label, left - 14, y + 4, "", "end")
    yield element("rect", data=data, style=f"fill:var(--{look if ratio >= 1 else 'late'})", **box)
    yield _text(f"{shown(ratio)} x", max(one, end) + 8, y + 4)


def _text(text, x, y, look="", anchor="start"):
    return element("text", escape(text, quote=False), x=f"{x:.1f}", y=f"{y:.1f}", class_=look, text_anchor=anchor)
