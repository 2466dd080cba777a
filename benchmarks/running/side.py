"""A stream to run: a query over windows of a workload, with its settings."""

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
    """The settings of a stream: delay, output mode, state store, cores, shuffle partitions, and counted micro-batches.

    With `executors`, each core is that of an executor, which is a process of a `local-cluster`. `warm_up` is the share
    of the workload's records for the warm-up run, 0 for none. `batch_bytes` limits the Arrow batches that Spark passes
    to Python. With `timers`, ours reports the time of its stages; with `describes`, the bytes of its state are those
    that `slicing.describe` finds, without the memory of the store.
    """

    delay: str = DELAY
    mode: str = "append"
    store: str = "RocksDB"
    cores: int = CORES
    executors: bool = False
    partitions: int | None = None
    unsteady: int = 2
    steady: int = 4
    warm_up: float = 0.1
    limit: float = 240.0
    batch_bytes: str = UNLIMITED
    timers: bool = False
    describes: bool = False

    @property
    def master(self) -> str:
        """The master of the session."""
        return f"local-cluster[{self.cores},1,1024]" if self.executors else f"local[{self.cores}]"

    @property
    def counted(self) -> int:
        """The number of micro-batches after those of the history."""
        return self.unsteady + self.steady


MASTER = Settings().master
WARM = Settings(warm_up=1.0)
SLOW = replace(WARM, steady=2)
SLOWER = Settings(unsteady=1, steady=2)
"""For micro-batches of many seconds: the first one is a better warm-up than any run of ours."""


@dataclass(frozen=True)
class Side:
    """One stream. It is a value, so that comparisons can share its run."""

    query: Query
    workload: Workload
    size: str
    advance: str
    settings: Settings = Settings()

    @property
    def batches(self) -> int:
        """The number of micro-batches, history included. Raises ValueError if the workload has fewer."""
        settings, workload = self.settings, self.workload
        if settings.counted > workload.batches:
            raise ValueError(
                f"`unsteady` and `steady` must be micro-batches of the workload; got {settings.unsteady} and "
                f"{settings.steady} of `{workload.name}`, which has {workload.batches}. Count fewer, or give it more."
            )
        return workload.before + settings.counted

    @property
    def warm_up(self) -> Side | None:
        """The side that is run first as a warm-up, on a part of the records; None if there is none.

        A long history needs none: it warms up by itself.
        """
        share = self.settings.warm_up
        if not share or self.workload.before >= self.settings.counted:
            return None
        return replace(self, workload=self.workload.cut(share))

    def but(self, **changes: Any) -> Side:
        """Return the side with other settings."""
        return replace(self, settings=replace(self.settings, **changes))
