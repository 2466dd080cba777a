"""What to run: a query over a window of a workload, and the settings of its stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from benchmarks.baselines.query import Query
from benchmarks.workloads.workload import Workload
from slicing.cli.session import UNLIMITED

DELAY = "5 seconds"
CORES = 2


@dataclass(frozen=True)
class Settings:
    """How a stream runs: delay, output mode, state store, cores and shuffle partitions; which micro-batches count.

    `warm_up` is the share of the workload's records with which it is warmed up; 0 for not at all. `batch_bytes` limits
    the Arrow batches that Spark hands to Python. With `timers` ours reports the time of its stages.
    """

    delay: str = DELAY
    mode: str = "append"
    store: str = "RocksDB"
    cores: int = CORES
    partitions: int | None = None
    unsteady: int = 2
    steady: int = 4
    warm_up: float = 0.1
    limit: float = 240.0
    batch_bytes: str = UNLIMITED
    timers: bool = False

    @property
    def counted(self) -> int:
        """Micro-batches behind those of a history."""
        return self.unsteady + self.steady


WARM = Settings(warm_up=1.0)
SLOW = replace(WARM, steady=2)
SLOWER = Settings(unsteady=1, steady=2)
"""For micro-batches of many seconds, the first of which warms up more than any run of ours."""


@dataclass(frozen=True)
class Side:
    """One stream. As it is a value, what has run once need not run again for another comparison."""

    query: Query
    workload: Workload
    size: str
    advance: str
    settings: Settings = Settings()

    @property
    def batches(self) -> int:
        """Micro-batches to run, with those of the history. Raises ValueError if the workload has fewer."""
        settings, workload = self.settings, self.workload
        if settings.counted > workload.batches:
            raise ValueError(
                f"`unsteady` and `steady` must be micro-batches of the workload; got {settings.unsteady} and "
                f"{settings.steady} of `{workload.name}`, which has {workload.batches}. Count fewer, or give it more."
            )
        return workload.before + settings.counted

    @property
    def warm_up(self) -> Side | None:
        """The side to run first so that this one is warm, on a part of the records; None if there is none.

        Where the history is long, it does the same.
        """
        share = self.settings.warm_up
        if not share or self.workload.before >= self.settings.counted:
            return None
        return replace(self, workload=self.workload.cut(share))

    def but(self, **changes: Any) -> Side:
        """The same with other settings."""
        return replace(self, settings=replace(self.settings, **changes))
