"""Many keys against fewer: a million against half of them, and ten million in many buckets against a tenth of all."""

import statistics
from collections.abc import Callable
from dataclasses import replace

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons.comparison import TIME, Check, Comparison, Measure
from benchmarks.running import turns
from benchmarks.running.run import Run
from benchmarks.running.side import Settings, Side
from benchmarks.workloads.inputs import HOUR, MINUTE, Workload

TEN_MILLION = Workload(
    "ten million keys", 1_000_000, 10_000_000, 60, 8, history=Workload("all keys", 2_000_000, 10_000_000, 120, 10)
)
"""The history has two records a key; then a micro-batch has records of every tenth key. No window closes."""
IN_BUCKETS = Ours(buckets=200)


def _keys(keys: int) -> Workload:
    """2 M records of the first minute, then micro-batches of 10,000 records, three per minute."""
    history = Workload(f"{keys} keys before", 1_000_000, keys, 30, 2)
    return Workload(f"{keys} keys", 10_000, keys, 20, 18, history=history)


def _sides(part: Callable[[Run], Run]) -> tuple[Run, Run]:
    """The runs with half a million keys and with a million; `part` selects the micro-batches that count."""
    settings = Settings(partitions=10, steady=12)
    few, many = turns.run(*(Side(Ours(), _keys(keys), HOUR, MINUTE, settings) for keys in (500_000, 1_000_000)))
    return (few, many) if few.stopped or many.stopped else (part(few), part(many))


def _open(run: Run) -> Run:
    quiet = [seconds for seconds, rows in run.each if not rows]
    return replace(run, seconds=statistics.median(quiet), rows=0, batches=len(quiet))


def _closing(run: Run) -> Run:
    closing = [(seconds, rows) for seconds, rows in run.each if rows]
    seconds, rows = (statistics.median(column) for column in zip(*closing, strict=True))
    return replace(run, seconds=seconds, rows=round(rows), batches=len(closing))


def _tenth() -> tuple[Run, Run]:
    settings = Settings(partitions=64, unsteady=2, steady=4, limit=1200.0)
    workloads = (TEN_MILLION.cut(0.1), TEN_MILLION)
    tenth, whole = turns.run(*(Side(IN_BUCKETS, each, "2 hours", HOUR, settings) for each in workloads))
    return tenth, whole


CHECK = Check(Ours(), SparkWindow(), _keys(1_000_000).cut(0.002), HOUR, MINUTE)
PER_ROW = Measure(
    TIME.unit, False, lambda baseline, ours: (ours.seconds / ours.rows) / (baseline.seconds / baseline.rows)
)
BENCHMARKS = (
    Comparison(
        "KeysOpen",
        "1 M keys, 10 shuffle partitions, micro-batches that close no window / the same with 500,000 keys",
        sides=lambda: _sides(_open),
        checks=(CHECK,),
        goal=1.1,
        measure=TIME,
    ),
    Comparison(
        "KeysClose",
        "1 M keys, 10 shuffle partitions, micro-batches that close a window, per emitted row / with 500,000 keys",
        sides=lambda: _sides(_closing),
        checks=(CHECK,),
        goal=1.1,
        measure=PER_ROW,
    ),
    Comparison(
        "KeysInBuckets",
        "10 M keys, 200 buckets, 64 shuffle partitions / a tenth of records and keys, per record",
        sides=_tenth,
        checks=(Check(IN_BUCKETS, SparkWindow(), TEN_MILLION.cut(0.0002), HOUR, MINUTE),),
        goal=1.1,
        measure=TIME,
    ),
)
