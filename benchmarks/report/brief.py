"""The first lines of the page: a sentence for each important ratio, and the number of goals reached."""

import re
from collections.abc import Iterable

from benchmarks.report.ratios import figures

SENTENCES = (
    (
        "dense, R = 360, 1,000,000 records / Spark `window()`",
        "Hopping windows of 1 hour by 10 seconds are **{} times as fast** as with Spark's `window()`.",
    ),
    (
        "day, R = 60, long / Spark tumbling (R = 1)",
        "Sixty windows per record are {} times as fast as Spark's tumbling windows with one window per record.",
    ),
    (
        "day, R = 1440, long / ours at R = 60",
        "Windows of 24 hours by 1 minute take {} times as long as windows of 1 hour by 1 minute.",
    ),
    (
        "on_update, dense, R = 360 / Spark's update mode",
        "Emitting every update is {} times as fast as Spark's update mode, with windows of 1 hour by 10 seconds.",
    ),
    (
        "day, R = 60, on close / Kafka Streams, suppressed, on a 25th",
        "Kafka Streams needs {} times the processor time per record, with windows of 1 hour by 1 minute.",
    ),
    (
        "day, R = 60 / Flink, hashmap",
        "The same windows are {} times as fast as Flink SQL's `HOP`, whose state is in memory.",
    ),
    (
        "day, tumbling (R = 1) / Flink, hashmap",
        "Flink SQL is faster for tumbling windows: this framework reaches {} times its speed.",
    ),
    (
        "day, bounded, R = 1440 / Polars in process",
        "On bounded input windows of 24 hours by 1 minute take {} times as long as in Polars (one process).",
    ),
    (
        "checkpoint bytes per record, day, R = 60 / Spark tumbling",
        "Checkpoints grow by {} times the bytes of Spark's tumbling windows.",
    ),
    (
        "fixed cost: 1,000 records per micro-batch, R = 360 / Spark tumbling",
        "A micro-batch of 1,000 records takes {} times as long as with Spark's tumbling windows.",
    ),
)
"""Pairs of the title of a line of the page and a sentence that takes its ratio."""

BELOW = "[How it was measured](#how-it-was-measured) is explained below, with the workloads."


def brief(sections: Iterable[str]) -> str:
    """Return the sentences with a measured ratio in `sections`, as a list, and the number of goals; else ""."""
    text = "\n".join(sections)
    found = figures(text)
    lines = [f"- {sentence.format(found[title])}" for title, sentence in SENTENCES if title in found]
    reached, missed = (len(re.findall(rf"^\| .*\({word}\) \|", text, re.MULTILINE)) for word in ("reached", "missed"))
    if reached + missed:
        lines += ["", f"{reached} of {reached + missed} measured goals are reached. {BELOW}"]
    return "\n".join(lines).lstrip("\n")
