"""What a kind of windows adds to a call, and does otherwise; the base is the kind of windows that time decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import Column

from slicing.aggregates.kernel import Kernel
from slicing.assembly.choice import EAGER
from slicing.emission.emission import Emission
from slicing.explain.plan import Plan
from slicing.spark.names import Names
from slicing.spark.query import Query
from slicing.spark.strategy import Aggregation, Arguments, Eager, Mixed, Shared, Sliced, Strategy

Self = TypeVar("Self", bound="Kind")


@dataclass(frozen=True)
class Kind:
    """Windows that are assembled from slices by trees. `window` is what the call got; a subclass knows its type."""

    window: Any

    def resolve(self: Self, names: Names, tree: str, by_clock: bool, emission: Emission) -> Self:
        """The same with the columns that the window names, and nothing that has no meaning for it.

        Raises InvalidValue and InvalidType.
        """
        return self

    def leaves(self, query: Query) -> list[Column]:
        """What each record brings behind the leaves of its key."""
        return []

    def columns(self, streaming: bool) -> tuple[str, ...]:
        """The columns that records bring behind those of results."""
        return ()

    def kernels(
        self, kernels: tuple[Kernel, ...], arguments: Arguments, timed: bool
    ) -> tuple[tuple[Kernel, ...], Arguments]:
        """Kernels, and the columns of each, with those that rows need beside results; `timed` if there is a time."""
        return kernels, arguments

    def trees(self, trees: tuple[str, ...]) -> tuple[str, ...]:
        """The trees that go together, where each kernel has its best one."""
        return trees

    def strategy(self, asked: Aggregation) -> Strategy:
        """What is shipped and done behind the shuffle; fields are shared where all results are made from slices."""
        if EAGER not in asked.trees:
            wide = self.window is not None and self.window.wide
            return (Shared if asked.shares else Sliced)(*asked.results, wide)
        return (Eager if set(asked.trees) == {EAGER} else Mixed)(*asked.results)

    def window_columns(self, query: Query) -> list[Column]:
        """What rows say of their windows, from the flat columns."""
        return query.timed_columns()

    def plan(self, streaming: bool) -> type[Plan]:
        """What `explain` prints."""
        return Plan
