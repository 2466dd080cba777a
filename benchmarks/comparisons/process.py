"""A function of all records of a window, against copying each record into each of its windows; bounded and on a stream.

The baselines copy a record 60 times and call Python for each window. They run on a share of the keys, so times per
record are compared.
"""

from dataclasses import replace

from benchmarks.baselines.medians import AppliedMedians, MediansByHand, OurMedians
from benchmarks.comparisons.comparison import BOUNDED, CLOSED, Check, Comparison
from benchmarks.running import bounded, streams
from benchmarks.running.run import Run
from benchmarks.running.side import SLOWER, WARM, Side
from benchmarks.workloads.inputs import HOUR, MINUTE
from benchmarks.workloads.workload import Workload

MEDIANS = Workload("medians", 200_000, 1_000, 14_400, 1)
FIFTIETH = MEDIANS.cut(0.02)
STREAMED = Workload("medians of a stream", 50_000, 1_000, 3_600, 5)
SHARE = STREAMED.cut(0.005)
"""As many records per key; more lists of windows would take longer than a minute."""


def _bounded() -> tuple[Run, Run]:
    baseline = bounded.run(AppliedMedians(), FIFTIETH, HOUR, MINUTE)
    return replace(baseline, note="a fiftieth of the keys"), bounded.run(OurMedians(), MEDIANS, HOUR, MINUTE)


def _streamed() -> tuple[Run, Run]:
    by_hand = streams.run(Side(MediansByHand(), SHARE, HOUR, MINUTE, replace(SLOWER, warm_up=0.0)))
    ours = streams.run(Side(OurMedians(), STREAMED, HOUR, MINUTE, replace(WARM, unsteady=1, warm_up=0.1)))
    return replace(by_hand, note=f"a two-hundredth of the keys; {_bytes(by_hand)}"), replace(ours, note=_bytes(ours))


def _bytes(run: Run) -> str:
    return f"{run.checkpoint_bytes:,.0f} bytes of state written per record"


BENCHMARKS = (
    Comparison(
        "ProcessMedian",
        "medians, R = 60, `process` with numpy's median / Spark `applyInPandas` on exploded rows, bounded, per record",
        sides=_bounded,
        checks=(Check(OurMedians(), AppliedMedians(), MEDIANS.cut(0.01), HOUR, MINUTE, BOUNDED),),
        goal=10.0,
    ),
    Comparison(
        "ProcessMedianStream",
        "medians, R = 60, `process` with numpy's median / hand-written `transformWithStateInPandas` with a `ListState` "
        "per window, per record",
        sides=_streamed,
        checks=(Check(OurMedians(), AppliedMedians(), STREAMED.cut(0.005), HOUR, MINUTE, CLOSED),),
    ),
)
