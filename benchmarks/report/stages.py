"""The table of the time that each stage of a micro-batch takes."""

from collections.abc import Iterable, Iterator

from benchmarks.report.results import Stages
from benchmarks.report.tables import markdown
from benchmarks.running.run import PYTHON, Run
from benchmarks.running.side import CORES

SAYS = f"""\
Seconds of a micro-batch, with `spark.slicing.timers`; below each workload the same stages without any work, in turns.
"Plan and log" is what Spark does around a micro-batch: offsets, planning, logs. The stages in Python run in {CORES}
tasks at once, so their processor seconds are divided by {CORES}. "Preaggregate" is the first stage. "Rest" is all else:
reading Parquet, the shuffle, the way to Python and back, the commit of the state, and waiting."""

HEAD = ("workload", "micro-batch", "plan and log", *PYTHON, "rest")


def stages(measured: Iterable[Stages]) -> str:
    """Return the section, "" if nothing is measured."""
    rows = [row for each in measured for row in _rows(each)]
    return f"{SAYS}\n\n{markdown(HEAD, rows)}" if rows else ""


def _rows(each: Stages) -> Iterator[tuple[str, ...]]:
    yield each.title, *_cells(each.ours)
    yield "without any work", *_cells(each.baseline)


def _cells(run: Run) -> Iterator[str]:
    inside = dict(run.stages)
    in_python = [inside.get(stage, 0.0) / CORES for stage in PYTHON]
    rest = max(0.0, run.seconds - run.around - sum(in_python))
    return (f"{seconds:.2f}" if seconds >= 0.005 else "" for seconds in (run.seconds, run.around, *in_python, rest))
