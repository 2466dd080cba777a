"""A line: a query of given windows over a workload, and its goal against another side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from benchmarks.public.query import PublicQuery
from benchmarks.running.side import DELAY, Settings, Side
from benchmarks.workloads.workload import Workload

BATCHES, COUNTED = 40, 5
"""The micro-batches of a line; the last fifth counts, the others are what Nexmark calls warm-up."""
OURS, SPARK = "ours", "spark"
ROCKSDB, HASHMAP = "Flink SQL on RocksDB", "Flink SQL on hashmap"


@dataclass(frozen=True)
class Line:
    """A query with the lengths of its windows over the first micro-batches of a workload.

    `goal` is how many times as fast as the side `against` ours is to be.
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
    against: str = SPARK

    @property
    def name(self) -> str:
        """A unique name."""
        return f"{self.benchmark} {self.title}" + (f" against {self.against}" if self.against != SPARK else "")

    @property
    def steady(self) -> int:
        """The number of micro-batches that count, which are the last."""
        return self.batches // COUNTED

    @property
    def window(self) -> tuple[str, str]:
        """Size and advance."""
        return self.size, self.advance or self.size

    def others(self, goals: Mapping[str, float | None]) -> Iterator[Line]:
        """Yield the same line against other sides, with these goals."""
        for against, goal in goals.items():
            yield replace(self, against=against, goal=goal)

    def side(self, of: str) -> Side:
        """Return the stream of a side."""
        query = {OURS: self.query.ours, SPARK: self.query.spark}[of]
        settings = Settings(
            delay="" if self.query.by_clock else self.delay,
            mode=self.query.mode,
            unsteady=self.batches - self.steady,
            steady=self.steady,
            warm_up=0.0,
            limit=400.0,
        )
        return Side(query, self.workload, *self.window, settings)
