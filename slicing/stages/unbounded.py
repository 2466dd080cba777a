"""The window that never closes: how its totals run."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.engines.engine import Engine
from slicing.engines.unbounded.bucket import UnboundedBucket
from slicing.errors import InvalidValue
from slicing.stages.execution_plan import Aggregation, Sliced
from slicing.stages.support import WindowSupport
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import Store
from slicing.triggers.emission import CHANGED, Emission, Every, Records
from slicing.windows.unbounded import Unbounded

_OPEN = 'Say `.emit(on_update())`, or for example `.emit(early(every="10 seconds"))`.'


@dataclass(frozen=True)
class UnboundedSupport(WindowSupport):
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


@dataclass(frozen=True)
class Totals(Sliced):
    """Partials of the only slice are shipped, and added to the totals of a window that never closes."""

    ttl: int | None = None

    def bucket(self, grace: int, fingerprint: Fingerprint, store: Store, emission: Emission) -> Engine:
        """The state of a bucket on a stream."""
        return UnboundedBucket(self.shape, fingerprint, store, emission, self.ttl)
