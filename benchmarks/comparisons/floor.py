"""Ours against the same stages without any work, whose rows differ and are not compared; and against work by hand."""

from dataclasses import replace
from typing import Any

from benchmarks.baselines.by_hand_arrays import ByHandArrays
from benchmarks.baselines.floor import BoundedFloor, Floor
from benchmarks.baselines.functions import FourFunctions
from benchmarks.baselines.ours import OurFeatures, Ours, OurSessions, OurSliding
from benchmarks.baselines.query import Query
from benchmarks.comparisons import fixed_cost
from benchmarks.comparisons.catalogue import FIVE
from benchmarks.comparisons.comparison import TIME, Check, Comparison
from benchmarks.comparisons.dense import MILLION_HOUR
from benchmarks.comparisons.sessions import GAP
from benchmarks.comparisons.shared import DENSE_HOUR
from benchmarks.comparisons.update import OURS, UPDATES
from benchmarks.running import bounded, streams, turns, warm
from benchmarks.running.run import Run
from benchmarks.running.side import SLOW, WARM, Side
from benchmarks.workloads.inputs import (
    DAY,
    DAY_CUT,
    DENSE,
    DENSE_CUT,
    HOUR,
    KEYS,
    MINUTE,
    ONE_DAY,
    SLIDING,
    SPARSE,
    TEN_MINUTES,
)
from benchmarks.workloads.workload import Workload
from slicing import on_change


def _sides(ours: Side) -> tuple[Run, Run]:
    rows = streams.run(ours).rows  # this run also warms up ours
    floor, found = turns.run(replace(ours, query=Floor(rows)), ours.but(warm_up=0.0))
    return floor, found


def _fixed() -> tuple[Run, Run]:
    _, ours, floor = fixed_cost.sides()
    return floor, ours


def _warm() -> tuple[Run, Run]:
    """A start with a thousandth of the records, and the time that Spark needs to send the rest to Python."""
    few, window = DAY.cut(0.001), (ONE_DAY, HOUR)
    all_read, few_read = (bounded.run(BoundedFloor(0), each, *window).seconds for each in (DAY, few))
    found = warm.start(DAY, *window)
    return replace(found, seconds=warm.start(few, *window).seconds + all_read - few_read), found


def _floor(name: str, title: str, ours: Side, goal: float | None = None) -> Comparison:
    return Comparison(name, f"{title} / {WITHOUT_WORK}", sides=lambda: _sides(ours), checks=(), goal=goal, measure=TIME)


def _bounded_floor(name: str, title: str, ours: Query, *window: Any) -> Comparison:
    def sides() -> tuple[Run, Run]:
        found = bounded.run(ours, *window)
        return bounded.run(BoundedFloor(found.rows), *window), found

    return Comparison(name, f"{title} / {WITHOUT_WORK}", sides=sides, checks=(), measure=TIME)


def _by_hand(name: str, title: str, ours: Side, cut: Workload) -> Comparison:
    by_hand = ByHandArrays()
    return Comparison(
        name,
        f"{title} / by hand in numpy, for these windows alone",
        sides=lambda: turns.run(replace(ours, query=by_hand), ours),
        checks=(Check(Ours(), by_hand, cut, ours.size, ours.advance),),
        measure=TIME,
    )


WITHOUT_WORK = "the same stages and as many rows without any work"
DAY_HOUR = Side(Ours(), DAY, HOUR, MINUTE, WARM)
CHANGES = Side(Ours(emission=on_change()), SPARSE, HOUR, MINUTE, SLOW)
KEYS_HOUR = Side(Ours(), KEYS, HOUR, MINUTE, WARM)
BENCHMARKS = (
    _floor("DayFloor", "day, R = 60, long", DAY_HOUR, goal=1.3),
    _floor("DenseFloor", "dense, R = 360, 200,000 records", Side(Ours(), *DENSE_HOUR, WARM)),
    _floor("DenseMillionFloor", "dense, R = 360, 1,000,000 records", Side(Ours(), *MILLION_HOUR, WARM)),
    _floor("KeysFloor", "keys, 100,000 keys, R = 60", KEYS_HOUR),
    Comparison(
        "FixedFloor",
        "fixed cost: 1,000 records per micro-batch / the same stages without any work",
        sides=_fixed,
        checks=(),
        goal=1.1,
        measure=TIME,
    ),
    _floor("UpdateFloor", "on_update, dense, R = 60", Side(OURS, DENSE, HOUR, MINUTE, UPDATES)),
    _floor("ChangeFloor", "on_change, 1 M sparse keys, R = 60", CHANGES),
    _bounded_floor(
        "FourFunctionsBoundedFloor",
        "day, bounded, R = 60, four plain functions, traced",
        FourFunctions(),
        *(DAY, HOUR, MINUTE),
    ),
    _bounded_floor(
        "SlidingBoundedFloor",
        "sliding 10 minutes, bounded, 1 M records",
        OurSliding(),
        *(SLIDING, TEN_MINUTES, TEN_MINUTES),
    ),
    _floor(
        "SlidingFloor",
        "sliding 10 minutes, a stream",
        Side(OurSliding(), SLIDING, TEN_MINUTES, TEN_MINUTES, WARM),
    ),
    _bounded_floor("SessionsBoundedFloor", "day, sessions of 30 s, bounded", OurSessions(), DAY, GAP, GAP),
    _bounded_floor("FeaturesFloor", "day, 1 M labels, of the last hour", OurFeatures((HOUR,)), DAY, HOUR, HOUR),
    _bounded_floor("FiveFloor", f"dense, bounded, R = 60, {FIVE}", Ours(more="five"), DENSE, HOUR, MINUTE),
    _bounded_floor("TopFloor", "dense, bounded, R = 60, top_k(10)", Ours(more="top"), DENSE, HOUR, MINUTE),
    Comparison(
        "WarmStartDayFloor",
        "a day of history, warm start of windows of a day every hour / a start, and its records read into Python",
        sides=_warm,
        checks=(),
        measure=TIME,
    ),
    _by_hand("DayByHand", "day, R = 60, long", DAY_HOUR, DAY_CUT),
    _by_hand("KeysByHand", "keys, 100,000 keys, R = 60", KEYS_HOUR, KEYS.cut(0.001)),
    _by_hand("FixedByHand", "fixed cost: 1,000 records per micro-batch", Side(Ours(), *fixed_cost.SMALLEST), DENSE_CUT),
)
