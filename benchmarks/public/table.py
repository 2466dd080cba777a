"""The table of all measured lines, in the units that others publish."""

from collections.abc import Iterable

from benchmarks.public.catalogue import LINES
from benchmarks.report import ratios, results
from benchmarks.report.tables import markdown
from benchmarks.running.run import Run

COLUMNS = (
    "benchmark and query",
    "goal",
    "times as fast as Spark",
    "K events/s: Spark / ours",
    "processor seconds a million events",
    "K events/s/core",
    "peak memory, MiB",
    "state, MiB",
)


def table(found: Iterable[results.Kept]) -> str:
    """Return the lines that are measured, in their order."""
    known = {each.name: each for each in found if isinstance(each, results.Ratio)}
    return markdown(COLUMNS, [_cells(known[line.name]) for line in LINES if line.name in known])


def _cells(ratio: results.Ratio) -> tuple[str, ...]:
    goal = "" if ratio.goal is None else ratios.shown_goal(ratio.goal, ratio.more_is_better)
    sides = [_side(run) for run in (ratio.baseline, ratio.ours)]
    return (ratio.title, goal, ratios.short(ratio), *map(" / ".join, zip(*sides, strict=True)))


def _side(run: Run) -> tuple[str, ...]:
    if run.stopped:
        return (f"stopped at {run.seconds:.0f} s", *["-"] * 4)
    a_million = 1e6 * run.processor / run.records
    figures = run.records / run.seconds / 1e3, a_million, 1e3 / a_million, run.peak_mib, run.state_bytes / 2**20
    return tuple(f"{each:,.3g}" if each < 1000 else f"{each:,.0f}" for each in figures)
