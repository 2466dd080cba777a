"""Window support and execution plan of sliding windows, which are found from the times of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slicing.assembly.ranges.window_references import all_references
from slicing.assembly.results import Windows
from slicing.content.block import Block
from slicing.engines.bucket import Bucket
from slicing.engines.sliding.bucket import SlidingBucket
from slicing.errors import InvalidValue
from slicing.stages.execution_plan import Aggregation, Sliced
from slicing.stages.support import CANNOT_END, WINDOWS, WindowSupport
from slicing.state.format import changes
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import Store
from slicing.triggers.trigger import CHANGED, NUMBERS, PURGED, Trigger
from slicing.windows.families.family import Family
from slicing.windows.sliding import Sliding, SlidingFamily, Slidings


@dataclass(frozen=True)
class SlidingSupport(WindowSupport):
    """Support for sliding windows: windows at the times of records."""

    window: Sliding | Slidings

    def check_tree(self, tree: str, by_clock: bool, streaming: bool) -> None:
        """Raise InvalidValue for options that have no meaning for windows at the times of records."""
        if tree != "auto":
            raise InvalidValue(
                f"sliding windows are assembled from the times that are there, in one way; got `{tree}`. "
                "Leave `.assemble` out."
            )

    from_slices = False
    apart = "Give each length a query of its own."

    def cannot_say_why(self, trees: Sequence[str]) -> str:
        """Return the reason: a row has several windows."""
        return "has several windows in one row" if self.window.wide else ""

    def cannot_retain(self, trees: Sequence[str]) -> str:
        """Return the reason: there are no slices."""
        return "keeps instants that open windows hold, and no slices"

    def cannot_look_up(self, trees: Sequence[str]) -> Mapping[str, str]:
        """Return the reason: times are stored only as long as a window needs them."""
        return {WINDOWS: "keeps the times of records only as long as its own windows. Ask for these."}

    def fixed(self, trigger: Trigger, trees: Sequence[str]) -> Mapping[str, str]:
        """Return the changes of a live checkpoint that these windows do not allow, each with the reason."""
        if self.window.wide:
            return super().fixed(trigger, trees)
        why = "refused: which records are late is decided by the windows that there are. Start with a new checkpoint."
        return {changes.WINDOWS: why}

    @property
    def cannot(self) -> Mapping[str, str]:
        """Return the questions that these windows cannot answer: later records may still add windows in between."""
        return CANNOT_END | {
            NUMBERS: "compares values of records one by one, and a sliding window that a new record makes holds older "
            "records, whose values are gone. Use hopping windows.",
            CHANGED: "compares a window with the one before it, and sliding windows of a key have none: "
            "records decide which there are. Use on_close() or on_update().",
        }

    def cannot_purge(self, tree: str) -> Mapping[str, str]:
        """Return the reason: windows share their instants."""
        return {PURGED: "drops the records of a window, and sliding windows share theirs. Leave out `purge`."}

    @property
    def cannot_keep(self) -> str:
        """Return the reason: a record makes its own windows, and those of the history are already skipped."""
        return (
            f"is for windows that time decides, and a record before `until` makes windows of its own in {self.window}. "
            'Use overlap="drop", with `until` where the stream begins.'
        )

    def _first_needed(self, family: Family, until: int, trigger: Trigger) -> int:
        """Return the first instant needed; a right window may start directly after an earlier time."""
        assert isinstance(family, SlidingFamily), "these windows are sliding"
        return int(family.slice_start(family.first_open(until, 0) - family.right))

    def execution_plan(self, asked: Aggregation) -> Sliced:
        """Return the execution plan, with shared fields if there are any."""
        return SlidingExecutionPlan(*asked.common, self.window.wide, shares=True)


@dataclass(frozen=True)
class SlidingExecutionPlan(Sliced):
    """The plan that shuffles partials per time of a record. The windows are found from these times."""

    def opened(self, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger) -> Bucket:
        """Open the state of a bucket on a stream."""
        return SlidingBucket(self.shape, grace, fingerprint, store, trigger, self.wide)

    def assembled(self, shipped: Iterable[Block]) -> Iterator[Windows]:
        """Yield all windows of a bucket of bounded input."""
        return all_references(self.shape, list(shipped))
