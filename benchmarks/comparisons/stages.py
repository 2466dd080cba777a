"""The time of each stage of a micro-batch: ours with timers, and the same stages without any work, in turns."""

from dataclasses import dataclass, replace

from benchmarks.baselines.floor import Floor
from benchmarks.baselines.ours import Ours, OurSizes
from benchmarks.comparisons.fixed_cost import SMALLEST
from benchmarks.comparisons.several import SIZES
from benchmarks.comparisons.shared import DENSE_HOUR
from benchmarks.comparisons.update import OURS, UPDATES
from benchmarks.report import results
from benchmarks.running import streams, turns
from benchmarks.running.side import CORES, WARM, Side
from benchmarks.workloads.inputs import DAY, DAYS, DENSE, HOUR, KEYS, MINUTE, ONE_DAY


@dataclass(frozen=True)
class Timed:
    """The benchmark of a workload whose stages are timed."""

    name: str
    title: str
    ours: Side

    def measured(self) -> results.Stages:
        """Run both sides and return the times of the stages."""
        ours = self.ours.but(timers=True)
        rows = streams.run(ours).rows  # this run also warms up ours
        floor, found = turns.run(replace(self.ours, query=Floor(rows)), ours.but(warm_up=0.0))
        return results.Stages(self.name, self.title, floor, found, results.machine(CORES))


BENCHMARKS = (
    Timed("StagesDay", "day, R = 60", Side(Ours(), DAY, HOUR, MINUTE, WARM)),
    Timed("StagesTumbling", "day, tumbling (R = 1)", Side(Ours(), DAY, MINUTE, MINUTE, WARM)),
    Timed("StagesDense", "dense, R = 360", Side(Ours(), *DENSE_HOUR, WARM)),
    Timed("StagesKeys", "keys, 100,000 keys, R = 60", Side(Ours(), KEYS, HOUR, MINUTE, WARM)),
    Timed("StagesUpdate", "on_update, dense, R = 60", Side(OURS, DENSE, HOUR, MINUTE, UPDATES)),
    Timed("StagesSeveral", "day, 5 min, 1 h, 24 h in one query", Side(OurSizes(SIZES), DAYS, ONE_DAY, MINUTE)),
    Timed("StagesFixed", "fixed cost", Side(Ours(), *SMALLEST)),
)
