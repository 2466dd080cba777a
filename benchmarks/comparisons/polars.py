"""Polars in one process, as a limit: on the records of a stream, and on bounded input."""

from dataclasses import replace

from benchmarks.baselines import polars
from benchmarks.baselines.ours import Ours
from benchmarks.comparisons import day, fixed_cost
from benchmarks.comparisons.comparison import BOUNDED, TIME, Check, Comparison
from benchmarks.comparisons.shared import hourly
from benchmarks.running import bounded
from benchmarks.running.run import Run
from benchmarks.workloads.inputs import DAY, DAY_CUT, HOUR, MINUTE, ONE_DAY


def _stream() -> tuple[Run, Run]:
    fixed, ours = fixed_cost.sides()[1], day.ours()[0]
    note = f"of {ours.seconds:.2f} s, {fixed.seconds:.2f} s fixed cost taken off"
    return polars.run(DAY, HOUR, MINUTE), replace(ours, seconds=ours.seconds - fixed.seconds, note=note)


def _bounded(name: str, windows: int, size: str) -> Comparison:
    return Comparison(
        name,
        f"day, bounded, R = {windows} / Polars in process",
        sides=lambda: (polars.run(DAY, size, MINUTE), bounded.run(Ours(), DAY, size, MINUTE)),
        checks=(_check(size),),
        goal=3.0,
        measure=TIME,
    )


def _check(size: str) -> Check:
    return Check(Ours(), None, DAY_CUT, size, MINUTE, BOUNDED)


BENCHMARKS = (
    Comparison(
        "PolarsStream",
        "day, R = 60, the fixed cost of a micro-batch taken off / Polars in process, per record",
        sides=_stream,
        checks=(hourly(), _check(HOUR)),
        goal=4.0,
        measure=TIME,
    ),
    _bounded("PolarsBoundedHour", 60, HOUR),
    _bounded("PolarsBoundedDay", 1440, ONE_DAY),
)
