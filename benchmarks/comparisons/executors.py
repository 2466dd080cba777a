"""Four executors of one core, each a process of its own: a key with half of all records, and the price of processes."""

from dataclasses import replace
from functools import partial

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.query import Query
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons.comparison import TIME, Check, Comparison
from benchmarks.running import streams, turns
from benchmarks.running.run import Run
from benchmarks.running.side import Settings, Side
from benchmarks.workloads.inputs import DENSE_MILLION, HOUR, MINUTE

EVEN = replace(DENSE_MILLION, name="even keys", keys=10_000)
SKEWED = replace(EVEN, name="half of one key", of_one=0.5)
THREADS = Settings(cores=4, partitions=8, unsteady=2, steady=4)
EXECUTORS = replace(THREADS, executors=True)


def _skew() -> tuple[Run, Run]:
    even, skewed = turns.run(*(Side(Ours(), workload, HOUR, MINUTE, EXECUTORS) for workload in (EVEN, SKEWED)))
    return even, skewed


def _processes(query: Query, size: str) -> tuple[Run, Run]:
    threads, processes = (streams.run(Side(query, EVEN, size, MINUTE, each)) for each in (THREADS, EXECUTORS))
    return threads, processes


def _against_threads(name: str, windows: str, query: Query, size: str) -> Comparison:
    title = f"{windows}, 4 executors of one core / 4 threads of one process"
    return Comparison(name, title, sides=partial(_processes, query, size), checks=CHECKS, measure=TIME)


CHECKS = (Check(Ours(), SparkWindow(), SKEWED.cut(0.002), HOUR, MINUTE, master=EXECUTORS.master),)
BENCHMARKS = (
    Comparison(
        "Skew",
        "1 M records, R = 60, 8 partitions, 4 executors, a key with half of all records / even keys",
        sides=_skew,
        checks=CHECKS,
        goal=1.5,
        measure=TIME,
    ),
    _against_threads("Executors", "1 M records, R = 60", Ours(), HOUR),
    _against_threads("ExecutorsSpark", "Spark's tumbling windows, 1 M records", SparkWindow(), MINUTE),
)
