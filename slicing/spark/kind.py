"""What a kind of windows adds to a call, and does otherwise; the base is the kind of windows that time decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pyspark.sql import Column

from slicing.aggregates.kernel import Kernel
from slicing.assembly.choice import EAGER
from slicing.emission.emission import Emission
from slicing.spark.names import Names
from slicing.spark.query import Query
from slicing.spark.strategy import Aggregation, Arguments, Eager, Mixed, Shared, Sliced, Strategy
from slicing.windows.window import Window

if TYPE_CHECKING:
    from slicing.explain.plan import Plan


@dataclass(frozen=True)
class Kind:
    """Windows that are assembled from slices by trees. `window` is what the call got; a subclass knows its type."""

    window: Window

    def check(self, tree: str, by_clock: bool, emission: Emission, streaming: bool) -> None:
        """Refuse what has no meaning for these windows. Raises InvalidValue."""

    def named(self, names: Names) -> Self:
        """The same with the columns that the window names. Raises InvalidValue and InvalidType."""
        return self

    def leaves(self, query: Query) -> list[Column]:
        """What each record brings behind the leaves of its key."""
        return []

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that records bring behind those of results."""
        return ()

    def kernels(
        self, kernels: tuple[Kernel, ...], arguments: Arguments, has_time: bool
    ) -> tuple[tuple[Kernel, ...], Arguments]:
        """Kernels, and the columns of each, with those that rows need beside results."""
        return kernels, arguments

    def trees(self, trees: tuple[str, ...]) -> tuple[str, ...]:
        """The trees that go together, where each kernel has its best one."""
        return trees

    def strategy(self, asked: Aggregation) -> Strategy:
        """What is shipped and done behind the shuffle; fields are shared where all results are made from slices."""
        if EAGER not in asked.trees:
            return (Shared if asked.shares else Sliced)(*asked.common, self.window.wide)
        return (Eager if set(asked.trees) == {EAGER} else Mixed)(*asked.common)

    def window_columns(self, query: Query) -> list[Column]:
        """What rows say of their windows, from the flat columns."""
        return query.columns_by_time()

    def plan_type(self, streaming: bool) -> type[Plan]:
        """What `explain` prints. Workers import files of kinds with their strategies: plans are left to the driver."""
        from slicing.explain.plan import Plan

        return Plan
