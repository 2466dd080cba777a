"""Sliding windows: how they run, from the times of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slicing.assembly.ranges.window_references import all_references
from slicing.assembly.results import Windows
from slicing.content.block import Block
from slicing.engines.bucket import Bucket
from slicing.engines.sliding.bucket import SlidingBucket
from slicing.errors import InvalidValue
from slicing.stages.execution_plan import Aggregation, Shared, Sliced, with_shared_fields
from slicing.stages.support import CANNOT_END, WINDOWS, WindowSupport
from slicing.state.format import changes
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import Store
from slicing.triggers.trigger import CHANGED, NUMBERS, PURGED, Trigger
from slicing.windows.families.family import Family
from slicing.windows.sliding import Sliding


@dataclass(frozen=True)
class SlidingSupport(WindowSupport):
    """Windows that exist at the times of records."""

    window: Sliding

    def check_tree(self, tree: str, by_clock: bool, streaming: bool) -> None:
        """Refuse what has no meaning for windows that records decide. Raises InvalidValue."""
        if tree != "auto":
            raise InvalidValue(
                f"sliding windows are assembled from the times that are there, in one way; got `{tree}`. "
                "Leave `.assemble` out."
            )

    from_slices = False

    def cannot_retain(self, trees: Sequence[str]) -> str:
        """There are no slices."""
        return "keeps instants that open windows hold, and no slices"

    def cannot_look_up(self, trees: Sequence[str]) -> Mapping[str, str]:
        """Times are kept only as long as a window needs them."""
        return {WINDOWS: "keeps the times of records only as long as its own windows. Ask for these."}

    def fixed(self, trigger: Trigger, trees: Sequence[str]) -> Mapping[str, str]:
        """The changes of a live checkpoint that these windows do not allow, and why."""
        why = "refused: which records are late is decided by the windows that there are. Start with a new checkpoint."
        return {changes.WINDOWS: why}

    @property
    def cannot(self) -> Mapping[str, str]:
        """Which window is before another one is decided by records that may still come."""
        return CANNOT_END | {
            NUMBERS: "compares values of records one by one, and a sliding window that a new record makes holds older "
            "ones, of which the values are gone. Use hopping windows.",
            CHANGED: "compares a window with the one before it, and sliding windows of a key have none: "
            "records decide which there are. Use on_close() or on_update().",
        }

    def cannot_purge(self, tree: str) -> Mapping[str, str]:
        """Windows share the instants that they hold."""
        return {PURGED: "drops the records of a window, and sliding windows share theirs. Leave out `purge`."}

    @property
    def cannot_keep(self) -> str:
        """A record makes windows of its own, and those of records in the history have been passed."""
        return (
            f"is for windows that time decides, and a record before `until` makes windows of its own in {self.window}. "
            'Use overlap="drop", with `until` where the stream begins.'
        )

    def _first_needed(self, family: Family, until: int, trigger: Trigger) -> int:
        """The left edge of a window may directly follow an earlier time."""
        return int(family.slice_start(family.first_open(until, 0) - self.window.right))

    def strategy(self, asked: Aggregation) -> Sliced | Shared:
        """Window references, with shared fields where there are any."""
        return with_shared_fields(Placed(*asked.common))


@dataclass(frozen=True)
class Placed(Sliced):
    """Partials of the times of records are shipped; which windows there are is found from these."""

    def bucket(self, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger) -> Bucket:
        """The state of a bucket on a stream."""
        return SlidingBucket(self.shape, grace, fingerprint, store, trigger)

    def all_windows(self, shipped: Iterable[Block]) -> Iterator[Windows]:
        """All windows of a bucket of bounded input."""
        return all_references(self.shape, list(shipped))
