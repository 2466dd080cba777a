"""Window support and execution plan of the unbounded window: one total per key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicing.engines.bucket import Bucket
from slicing.engines.unbounded.bucket import UnboundedBucket
from slicing.stages.execution_plan import Aggregation, Sliced
from slicing.stages.support import CANNOT_END, STARTS, WINDOWS, WindowSupport
from slicing.state.format import changes
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import Store
from slicing.triggers.trigger import CHANGED, CLOSING, LATE, WATERMARK, Trigger
from slicing.windows.unbounded import Unbounded

_OPEN = 'Say `.emit(on_update())`, or for example `.emit(early(every="10 seconds"))`.'


@dataclass(frozen=True)
class UnboundedSupport(WindowSupport):
    """Support for one window that never closes."""

    window: Unbounded

    from_slices = False

    def cannot_retain(self, trees: Sequence[str]) -> str:
        """Return the reason: there are no slices."""
        return "keeps one total for each key, of all time, and no slices"

    def cannot_say_why(self, trees: Sequence[str]) -> str:
        """Return the reason: there are no slices."""
        return "keeps one total for each key, of all time, and no slices"

    def cannot_look_up(self, trees: Sequence[str]) -> Mapping[str, str]:
        """Return the reason: there is only one total for each key."""
        why = "keeps one total for each key, of all time. Leave `starts` and `windows` out."
        return {STARTS: why, WINDOWS: why}

    def fixed(self, trigger: Trigger, trees: Sequence[str]) -> Mapping[str, str]:
        """Return the changes of a live checkpoint that these windows do not allow, each with the reason."""
        windows = "refused: its only window has begun, and others would miss records. Start with a new checkpoint."
        return {
            changes.WINDOWS: windows,
            changes.ADDED: "refused: its only window began before the change, so it would always be null.",
        }

    @property
    def cannot(self) -> Mapping[str, str]:
        """Return the questions that it cannot answer: it never closes, and it is the only window."""
        waits = f"waits for windows to close, and {self.window} never does. {_OPEN}"
        return CANNOT_END | {
            CLOSING: waits,
            LATE: waits,
            CHANGED: f"compares a window with the one before, and {self.window} is the only one. {_OPEN}",
            WATERMARK: f"goes by event time, and {self.window} needs no watermark. Go by the clock: leave out "
            '`by="event"` and `on_time=True`, or implement `on_clock` in place of `on_time`.',
        }

    def cannot_purge(self, tree: str) -> Mapping[str, str]:
        """Return no reason: a key has only one window, so it can be purged."""
        return {}

    def history_from(self, until: int, trigger: Trigger, retain: int = 0) -> int | None:
        """Return None: all records count."""
        return None

    def execution_plan(self, asked: Aggregation) -> Totals:
        """Return the execution plan, without shared fields."""
        return Totals(*asked.common, ttl=self.window.ttl)


@dataclass(frozen=True)
class Totals(Sliced):
    """The plan that shuffles the partials of the only slice, and adds them to the totals of the unbounded window."""

    ttl: int | None = None

    def opened(self, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger) -> Bucket:
        """Open the state of a bucket on a stream."""
        return UnboundedBucket(self.shape, fingerprint, store, trigger, self.ttl)
