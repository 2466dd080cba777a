"""Ours against the same stages without any work, whose rows differ and are not compared; and against work by hand."""

from dataclasses import replace

from benchmarks.baselines.by_hand_arrays import ByHandArrays
from benchmarks.baselines.floor import Floor
from benchmarks.baselines.ours import Ours
from benchmarks.comparisons import fixed_cost
from benchmarks.comparisons.comparison import TIME, Check, Comparison
from benchmarks.comparisons.dense import MILLION_HOUR
from benchmarks.comparisons.shared import DENSE_HOUR
from benchmarks.comparisons.update import OURS, UPDATES
from benchmarks.running import streams, turns
from benchmarks.running.run import Run
from benchmarks.running.side import WARM, Side
from benchmarks.workloads.inputs import DAY, DAY_CUT, DENSE, DENSE_CUT, HOUR, KEYS, MINUTE
from benchmarks.workloads.workload import Workload


def _sides(ours: Side) -> tuple[Run, Run]:
    rows = streams.run(ours).rows  # this run also warms up ours
    floor, found = turns.run(replace(ours, query=Floor(rows)), ours.but(warm_up=0.0))
    return floor, found


def _fixed() -> tuple[Run, Run]:
    _, ours, floor = fixed_cost.sides()
    return floor, ours


def _floor(name: str, title: str, ours: Side, goal: float | None = None) -> Comparison:
    title = f"{title} / the same stages and as many rows without any work"
    return Comparison(name, title, sides=lambda: _sides(ours), checks=(), goal=goal, measure=TIME)


def _by_hand(name: str, title: str, ours: Side, cut: Workload) -> Comparison:
    by_hand = ByHandArrays()
    return Comparison(
        name,
        f"{title} / by hand in numpy, for these windows alone",
        sides=lambda: turns.run(replace(ours, query=by_hand), ours),
        checks=(Check(Ours(), by_hand, cut, ours.size, ours.advance),),
        measure=TIME,
    )


DAY_HOUR = Side(Ours(), DAY, HOUR, MINUTE, WARM)
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
    _by_hand("DayByHand", "day, R = 60, long", DAY_HOUR, DAY_CUT),
    _by_hand("KeysByHand", "keys, 100,000 keys, R = 60", KEYS_HOUR, KEYS.cut(0.001)),
    _by_hand("FixedByHand", "fixed cost: 1,000 records per micro-batch", Side(Ours(), *fixed_cost.SMALLEST), DENSE_CUT),
)
