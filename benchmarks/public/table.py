"""The table of all measured lines, in the units that others publish."""

from collections.abc import Iterable

from benchmarks.public.catalogue import LINES
from benchmarks.report import ratios, results
from benchmarks.report.tables import line as row
from benchmarks.report.tables import markdown
from benchmarks.running.run import Run

COLUMNS = (
    "benchmark and query",
    "goal",
    "times as fast",
    "K events/s",
    "K events/s/core",
    "peak memory, MiB",
    "state, MiB",
)


def table(found: Iterable[results.Kept], before: str = "") -> str:
    """Return the lines that are measured, in their order. A line without a result is that of the table `before`."""
    lines = {row.removeprefix("| ").partition(" | ")[0]: row for row in before.splitlines()}
    for each in found:
        if isinstance(each, results.Ratio):
            lines[_title(each.name)] = row(_cells(each))
    titles = [_title(each.name) for each in LINES]
    return "\n".join([markdown(COLUMNS), *(lines[title] for title in titles if title in lines)])


def _cells(ratio: results.Ratio) -> tuple[str, ...]:
    goal = "" if ratio.goal is None else ratios.shown_goal(ratio.goal, ratio.more_is_better)
    sides = [_side(run) for run in (ratio.baseline, ratio.ours)]
    return (_title(ratio.title), goal, ratios.short(ratio), *map(" / ".join, zip(*sides, strict=True)))


def _title(title: str) -> str:
    return title if " against " in title else f"{title} against Spark"


def _side(run: Run) -> tuple[str, ...]:
    if run.stopped:
        return (f"stopped at {run.seconds:.0f} s", *["-"] * 3)
    thousands = run.records / 1e3
    figures = thousands / run.seconds, thousands / run.processor, run.peak_mib, run.state_bytes / 2**20
    return tuple(f"{each:,.3g}" if each < 1000 else f"{each:,.0f}" for each in figures)
