"""Windows that never close, as Spark sees them: totals of keys, in rows whose window is null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column

from slicing.emission.emission import CHANGED, Emission, Every, Records
from slicing.engines.engine import Engine
from slicing.engines.unbounded import UnboundedBucket
from slicing.errors import InvalidValue
from slicing.spark.kind import Kind
from slicing.spark.query import EMISSION, Query
from slicing.spark.strategy import Aggregation, Sliced
from slicing.state.fingerprint import Fingerprint
from slicing.state.store import Store
from slicing.windows.unbounded import Unbounded

if TYPE_CHECKING:
    from slicing.explain.plan import Plan

_OPEN = 'Say `.emit(on_update())`, or for example `.emit(early(every="10 seconds"))`.'


@dataclass(frozen=True)
class UnboundedKind(Kind):
    """One window that never closes."""

    window: Unbounded

    def check(self, tree: str, by_clock: bool, emission: Emission, streaming: bool) -> None:
        """Refuse what waits for windows to close, or for another one. Raises InvalidValue."""
        if streaming and emission.has_trees and not isinstance(emission.when, (Every, Records)):
            raise InvalidValue(f"{emission} waits for windows to close, and {self.window} never does. {_OPEN}")
        if streaming and emission.which == CHANGED:
            raise InvalidValue(
                f"{emission} compares a window with the one before, and {self.window} is the only one. {_OPEN}"
            )

    def strategy(self, asked: Aggregation) -> Totals:
        """Totals, without shared fields."""
        return Totals(*asked.common, ttl=self.window.ttl)

    def window_columns(self, query: Query) -> list[Column]:
        """`window`, which is null."""
        return [query.no_window.alias("window", metadata={EMISSION: str(query.emission)})]

    def plan_type(self, streaming: bool) -> type[Plan]:
        """Bounded input has one slice and keeps no totals."""
        from slicing.explain.unbounded import TotalsPlan

        return TotalsPlan if streaming else super().plan_type(streaming)


@dataclass(frozen=True)
class Totals(Sliced):
    """Partials of the only slice are shipped, and added to the totals of a window that never closes."""

    ttl: int | None = None

    def bucket(self, grace: int, fingerprint: Fingerprint, store: Store, emission: Emission) -> Engine:
        """The state of a bucket on a stream."""
        return UnboundedBucket(self.shape, fingerprint, store, emission, self.ttl)
