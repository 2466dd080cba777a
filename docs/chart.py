"""The chart of README and of the first page: speed relative to other engines, from docs/performance.md.

The chart shows the lines of that page that are listed here, and every line against Kafka Streams.
"""

import math
import re
from html import escape
from pathlib import Path

from slicing.drawing.svg import element, sheet, width_of

PAGE = Path(__file__).with_name("performance.md")
FASTER = ("times faster", "times fewer processor seconds")
ROW = re.compile(
    r"^\| (?P<title>[^|]+) \| (?P<goal>[^|]*) \| (?P<ratio>[0-9.e+]+)[^|]* \| (?P<unit>[^|]+) \|", re.MULTILINE
)
LINES = {
    "dense, R = 360, 1,000,000 records / Spark `window()`": ("1 h by 10 s, 1 M records", "Spark window()"),
    "dense, R = 360, 200,000 records / Spark `window()`": ("1 h by 10 s, 200,000 records", "Spark window()"),
    "keys, 100,000 keys, R = 60 / Spark `window()` on a tenth of records and keys, per record": (
        "100,000 keys, 1 h by 1 min *",
        "Spark window()",
    ),
    "on_update, dense, R = 360 / Spark's update mode": ("1 h by 10 s, every update", "Spark, update mode"),
    "dense, R = 360, 200,000 records / Spark's own two steps": ("1 h by 10 s, 200,000 records", "Spark, two steps"),
    "day, R = 60, long / Spark tumbling (R = 1)": ("1 h by 1 min", "Spark, tumbling"),
    "day, R = 60 / Flink, hashmap": ("1 h by 1 min", "Flink SQL HOP"),
    "half of dense, R = 360 / Flink, hashmap": ("1 h by 10 s", "Flink SQL HOP"),
    "day, tumbling (R = 1) / Flink, hashmap": ("tumbling, 1 min", "Flink SQL TUMBLE"),
    "day, R = 60, on close / Kafka Streams, suppressed, on a 25th": ("1 h by 1 min, on close *", "Kafka, suppress"),
    "day, R = 60, on close / Kafka Streams, `EmitStrategy.onWindowClose`, on a 25th": (
        "1 h by 1 min, on close *",
        "Kafka, onWindowClose",
    ),
    "day, R = 60, on update / Kafka Streams, on a 25th": ("1 h by 1 min, every update *", "Kafka Streams"),
    "dense, R = 360, on close / Kafka Streams, suppressed, on a 20th": ("1 h by 10 s, on close *", "Kafka, suppress"),
    "dense, R = 360, on update / Kafka Streams, on a 20th": ("1 h by 10 s, every update *", "Kafka Streams"),
    "sliding 10 min, left windows / Kafka Streams, suppressed, left and right ones": (
        "sliding 10 min, left windows",
        "Kafka, left and right",
    ),
    "day, tumbling (R = 1), on close / Kafka Streams, suppressed": ("tumbling, 1 min, on close", "Kafka, suppress"),
    "day, tumbling (R = 1), on update / Kafka Streams": ("tumbling, 1 min, every update", "Kafka Streams"),
    "day, bounded, R = 60 / Spark `sum().over(rangeBetween)` over slices": (
        "bounded, 1 h by 1 min",
        "Spark rangeBetween",
    ),
    "day, bounded, R = 1440 / Polars in process": ("bounded, 24 h by 1 min", "Polars, in process"),
}
COLOURS = {"Spark": "window", "Flink": "early", "Kafka": "update", "Polars": "partly"}
WIDTH, BAR, ROW_HEIGHT, TOP, EDGE = 340, 14, 24, 46, 14


def measured(page=None):
    """Ratio and unit of each line of docs/performance.md, by title."""
    text = PAGE.read_text(encoding="utf-8") if page is None else page
    return {each["title"]: (float(each["ratio"]), each["unit"].strip()) for each in ROW.finditer(text)}


def faster(found):
    """Label, baseline and speed ratio of each bar, in the order of the chart."""
    kafka = {title: (title.partition(" / ")[0], "Kafka Streams") for title in found if "Kafka Streams" in title}
    lines = kafka | LINES
    rows = []
    for title, (label, baseline) in lines.items():
        if title in found:
            ratio, unit = found[title]
            rows.append((label, baseline, ratio if unit in FASTER else 1 / ratio))
    return sorted(rows, key=lambda row: -row[2])


def shown(ratio):
    """A ratio with two significant digits."""
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def chart(found=None):
    """The chart as SVG, with a logarithmic scale; bars start at 1."""
    rows = faster(measured() if found is None else found)
    most = max(10.0, *(ratio for *_, ratio in rows))
    labels, names = (max(width_of(row[i]) for row in rows) for i in (0, 1))
    one = EDGE + labels + 14 + names + 60
    width, height = one + WIDTH + 50, TOP + len(rows) * ROW_HEIGHT + 14
    parts = [element("title", "times faster than"), element("style", sheet())]
    parts.append(element("rect", class_="paper", width=width, height=height, rx=6))
    parts.append(_text("times faster, per record, rows equal", one, 20, "soft"))
    for tick in [t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if t <= most]:
        x = one + WIDTH * math.log(tick) / math.log(most)
        parts.append(element("path", class_="grid", d=f"M{x:.1f} {TOP - 6}V{height - 8}"))
        if tick in (1, 10, 100, 1000):
            parts.append(_text(str(tick), x, TOP - 12, "soft", "middle"))
    for number, (label, baseline, ratio) in enumerate(rows):
        y = TOP + number * ROW_HEIGHT + ROW_HEIGHT / 2
        end = one + WIDTH * math.log(ratio) / math.log(most)
        look = next(look for name, look in COLOURS.items() if baseline.startswith(name))
        box = {"x": min(one, end), "y": y - BAR / 2, "width": max(1.5, abs(end - one)), "height": BAR, "rx": 3}
        data = {"line": label, "baseline": baseline, "ratio": shown(ratio)}
        parts.append(element("rect", data=data, style=f"fill:var(--{look})", **box))
        parts.append(_text(label, EDGE + labels, y + 4, "", "end"))
        parts.append(_text(baseline, EDGE + labels + 14, y + 4, "soft"))
        parts.append(_text(f"{shown(ratio)} x", max(one, end) + 8, y + 4))
    size = {"width": round(width), "height": round(height), "viewBox": f"0 0 {width:.0f} {height:.0f}"}
    named = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "class": "slicing-drawing"}
    return element("svg", "\n".join(["", *parts, ""]), **named, **size) + "\n"


def _text(text, x, y, look="", anchor="start"):
    return element("text", escape(text, quote=False), x=f"{x:.1f}", y=f"{y:.1f}", class_=look, text_anchor=anchor)
