"""A line: a query of given windows over a workload, and its goal against Spark."""

from dataclasses import dataclass

from benchmarks.public.query import PublicQuery
from benchmarks.running.side import DELAY, Settings, Side
from benchmarks.workloads.workload import Workload

BATCHES, COUNTED = 40, 5
"""The micro-batches of a line, of which the last fifth counts; the others are what Nexmark calls warm-up."""
OURS, SPARK = "ours", "spark"


@dataclass(frozen=True)
class Line:
    """A query with the lengths of its windows over the first micro-batches of a workload.

    `goal` is how many times as fast as Spark's ours is to be.
    """

    benchmark: str
    title: str
    query: PublicQuery
    workload: Workload
    size: str
    advance: str = ""
    goal: float | None = None
    batches: int = BATCHES
    delay: str = DELAY

    @property
    def name(self) -> str:
        """A unique name."""
        return f"{self.benchmark} {self.title}"

    @property
    def window(self) -> tuple[str, str]:
        """Size and advance."""
        return self.size, self.advance or self.size

    def side(self, of: str) -> Side:
        """Return the stream of a side."""
        query = {OURS: self.query.ours, SPARK: self.query.spark}[of]
        steady = self.batches // COUNTED
        settings = Settings(
            delay="" if self.query.by_clock else self.delay,
            mode=self.query.mode,
            unsteady=self.batches - steady,
            steady=steady,
            warm_up=0.0,
            limit=400.0,
        )
        return Side(query, self.workload, *self.window, settings)
