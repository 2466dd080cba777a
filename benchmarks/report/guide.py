"""The generated parts of docs/performance.md: ten figures, goals and growth, from the page of all measurements."""

import re
from collections.abc import Iterator

from benchmarks.report.ratios import figures
from benchmarks.report.tables import markdown
from benchmarks.workloads.inputs import DAY, DENSE, KEYS, SMALL, SPARSE, TWO_WEEKS

SENTENCES = (
    (
        "dense, R = 360, 1,000,000 records / Spark `window()`",
        "Windows of 1 hour by 10 seconds are **{ratio} times as fast** as with Spark's `window()`.",
    ),
    (
        "on_update, dense, R = 360 / Spark's update mode",
        "Emitting every update of them is {ratio} times as fast as Spark's update mode.",
    ),
    (
        "day, R = 60, long / Spark tumbling (R = 1)",
        "Windows of 1 hour by 1 minute are {ratio} times as fast as Spark's tumbling windows of 1 minute.",
    ),
    (
        "day, R = 1440, long / ours at R = 60",
        "Going from 1-hour to 24-hour windows (60 to 1,440 per record) takes {percent} of the time.",
    ),
    (
        "checkpoint bytes per record, day, R = 60 / Spark tumbling",
        "Checkpoints take {percent} of the space of those of Spark's tumbling windows.",
    ),
    (
        "day, R = 60, on close / Kafka Streams, suppressed, on a 25th",
        "Kafka Streams needs {ratio} times the processor time, for windows of 1 hour by 1 minute.",
    ),
    (
        "day, R = 60 / Flink, hashmap",
        "Flink SQL takes {ratio} times as long for the same windows, with its state in memory.",
    ),
    (
        "day, tumbling (R = 1) / Flink, hashmap",
        "Tumbling windows reach {percent} of the speed of Flink SQL.",
    ),
    (
        "day, bounded, R = 1440 / Polars in process",
        "On bounded input, windows of 24 hours by 1 minute take {percent} of the time of Polars.",
    ),
    (
        "fixed cost: 1,000 records per micro-batch, R = 360 / Spark tumbling",
        "A micro-batch of only 1,000 records takes {ratio} times as long as with Spark's tumbling windows.",
    ),
)
"""Pairs of the title of a measured line and a sentence that takes its `ratio`, or the same in `percent`."""

MEASUREMENTS = "performance/measurements.md"
WORKLOADS = {
    "day": DAY,
    "dense": DENSE,
    "keys": KEYS,
    "two weeks": TWO_WEEKS,
    "sparse keys": SPARSE,
    "fixed cost": SMALL,
}


def written(guide: str, measured: str) -> str:
    """Return the guide with its parts made anew from `measured`, the page of all measurements.

    A part is between two comments that name it.
    """
    parts = {
        "figures": in_brief(measured),
        "goals": goals(measured),
        "growth": growth(measured),
        "workloads": workloads(),
    }
    for name, text in parts.items():
        guide = with_part(guide, name, text)
    return guide


def with_part(guide: str, name: str, text: str) -> str:
    """Return the guide with another text between the two comments that name a part."""
    begin, end = _edges(name)
    return re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", guide, flags=re.DOTALL)


def part(guide: str, name: str) -> str:
    """Return what is between the two comments."""
    begin, end = _edges(name)
    return guide.partition(f"{begin}\n")[2].partition(f"\n{end}")[0]


def _edges(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->", f"<!-- end of {name} -->"


def in_brief(measured: str) -> str:
    """Return the sentences with a measured ratio, as a list."""
    found = figures(measured)
    return "\n".join(f"- {_said(sentence, float(found[title]))}" for title, sentence in SENTENCES if title in found)


def _said(sentence: str, ratio: float) -> str:
    return sentence.format(ratio=_short(ratio), percent=f"{100 * ratio:.0f} %")


def _short(number: float) -> str:
    """Two significant digits."""
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def goals(measured: str) -> str:
    """Return the numbers of goals that are measured, reached and missed."""
    reached, missed = (
        len(re.findall(rf"^\| .*\({word}\) \|", measured, re.MULTILINE)) for word in ("reached", "missed")
    )
    return f"Of {reached + missed} goals {reached} are reached, {missed} are missed: [all goals]({MEASUREMENTS}#goals)."


def growth(measured: str) -> str:
    """Return a table of the seconds of a micro-batch at both ends of each axis of numbers."""
    section = measured.partition("\n## How it grows\n")[2].partition("\n## ")[0]
    return markdown(("", "from", "to", "seconds"), _ends(section))


def _ends(section: str) -> Iterator[tuple[str, ...]]:
    for table in section.split("\n\n"):
        rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
        if rows and rows[-1][0] == "*grows with power*":
            finished = [row for row in rows if row[1][0].isdigit()]
            first, last = finished[0], finished[-1]
            seconds = (_short(float(end[1].replace(",", ""))) for end in (first, last))
            yield rows[0][0], first[0], last[0], " to ".join(seconds)


def workloads() -> str:
    """Return the table of the workloads that titles name."""
    rows = [(name, f"{each.records:,}", f"{each.keys:,}", f"{each.seconds:,g} s") for name, each in WORKLOADS.items()]
    return markdown(("workload", "records per micro-batch", "keys", "event time of a micro-batch"), rows)
