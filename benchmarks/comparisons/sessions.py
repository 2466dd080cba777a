"""Sessions with a gap of 30 seconds against Spark's `session_window`, on a stream and on bounded input."""

from benchmarks.baselines.ours import OurSessions
from benchmarks.baselines.spark import SparkSessions
from benchmarks.comparisons.comparison import BOUNDED, Check, Comparison
from benchmarks.running import bounded, streams, turns
from benchmarks.running.run import Run
from benchmarks.running.side import SLOW, WARM, Side
from benchmarks.workloads.inputs import DAY, DAY_CUT

GAP = "30 seconds"


def _streams() -> tuple[Run, Run]:
    """Spark on its faster state store, and ours; not in turns, because Spark leaves garbage of its rows."""
    (ours,) = turns.run(Side(OurSessions(), DAY, GAP, GAP, WARM))
    return streams.faster(Side(SparkSessions(), DAY, GAP, GAP, SLOW)), ours


BENCHMARKS = (
    Comparison(
        "SessionsDay",
        "day, sessions of 30 s / Spark `session_window`",
        sides=_streams,
        checks=(Check(OurSessions(), SparkSessions(), DAY_CUT, GAP, GAP),),
        goal=5.0,
    ),
    Comparison(
        "SessionsBounded",
        "day, sessions of 30 s, bounded / Spark `session_window` on a fifth of records and keys, per record",
        sides=lambda: (
            bounded.run(SparkSessions(), DAY.cut(0.2), GAP, GAP),
            bounded.run(OurSessions(), DAY, GAP, GAP),
        ),
        checks=(Check(OurSessions(), SparkSessions(), DAY_CUT, GAP, GAP, BOUNDED),),
        goal=3.0,
    ),
)
