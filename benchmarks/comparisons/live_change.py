"""The first micro-batch after a change of windows and results, against a restart without a change.

After a change, the first micro-batch reads the slices of open windows once, because the nodes of trees are recomputed.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame

import combinators as C
from benchmarks.baselines.ours import Ours
from benchmarks.baselines.query import keys_of
from benchmarks.comparisons.comparison import TIME, Comparison
from benchmarks.comparisons.shared import hourly
from benchmarks.running import changed
from benchmarks.running.run import Run
from benchmarks.workloads.inputs import DENSE, HOUR, MINUTE
from slicing import group_by, hopping, tumbling


@dataclass(frozen=True)
class Changed:
    """The query `Ours` with 15-minute windows and one more result, continued on the same checkpoint."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows of both sizes."""
        windowed = group_by(frame, *keys_of(frame)).window(hopping(size, advance), tumbling("15 minutes"), time="ts")
        return windowed.adapt("allow").aggregate(records=C.count(), total=C.sum("v"), most=C.max("v"))


def _sides() -> tuple[Run, Run]:
    baseline, ours = changed.run(DENSE, HOUR, MINUTE, Ours(), Ours(), Changed())
    return baseline, ours


BENCHMARKS = (
    Comparison(
        "FirstAfterChange",
        "first micro-batch after a live change, dense / after a restart without one",
        sides=_sides,
        checks=(hourly(),),
        goal=1.2,
        measure=TIME,
    ),
)
