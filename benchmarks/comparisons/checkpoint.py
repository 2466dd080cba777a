"""The bytes of state that a stream writes into its checkpoint."""

import math
from dataclasses import replace

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons import day
from benchmarks.comparisons.comparison import Check, Comparison, Measure
from benchmarks.comparisons.shared import hourly
from benchmarks.running import streams
from benchmarks.running.run import Run
from benchmarks.running.session import STORES
from benchmarks.running.side import SLOWER, Side
from benchmarks.workloads.inputs import DAY, DAY_CUT, MINUTE


def _sides() -> tuple[Run, Run]:
    spark = Side(SparkWindow(), DAY, MINUTE, MINUTE, SLOWER)
    runs = [streams.run(spark.but(store=store)) for store in STORES]
    ours = day.ours()[0]
    note = "; ".join(f"on {run.store} {run.checkpoint_bytes:.1f} bytes" for run in runs)
    smaller = min(runs, key=lambda run: run.checkpoint_bytes or math.inf)
    return replace(smaller, note=note), replace(ours, note=f"{ours.checkpoint_bytes:.1f} bytes")


BENCHMARKS = (
    Comparison(
        "CheckpointBytes",
        "checkpoint bytes per record, day, R = 60 / Spark tumbling",
        sides=_sides,
        checks=(hourly(), Check(Ours(), SparkWindow(), DAY_CUT, MINUTE, MINUTE)),
        goal=1 / 3,
        measure=Measure("x its bytes", False, lambda baseline, ours: ours.checkpoint_bytes / baseline.checkpoint_bytes),
    ),
)
