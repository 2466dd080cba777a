"""Window support and execution plan of windows that a function assigns. They run as sessions that never merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slicing.content.copies import with_copies
from slicing.engines.bucket import Bucket
from slicing.engines.sessions.assigned import AssignedBucket
from slicing.errors import InvalidValue
from slicing.stages.execution_plan import Aggregation
from slicing.stages.sessions import Merged, SessionSupport
from slicing.stages.sub_sessions import PreMerge
from slicing.stages.support import CANNOT_END
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import Store
from slicing.triggers.trigger import CHANGED, NEWEST, PER_KEY, Trigger
from slicing.windows.assigned import IS_FIRST, IS_LAST, AssignedSessions


@dataclass(frozen=True)
class AssignedSupport(SessionSupport):
    """Support for windows that a function assigns."""

    window: AssignedSessions

    def check_tree(self, tree: str, by_clock: bool, streaming: bool) -> None:
        """Raise InvalidValue for a tree: no slices are shared."""
        if tree != "auto":
            raise InvalidValue(
                f"{self.window} {self.window.keeps}, and has no slices to assemble; got `{tree}`. "
                "Leave `.assemble` out."
            )

    def cannot_retain(self, trees: Sequence[str]) -> str:
        """Return the reason: there are no slices."""
        return "keeps a partial of each open window, and no slices"

    @property
    def cannot(self) -> Mapping[str, str]:
        """Return the questions that these windows cannot answer: each is stored alone, and ends when it is over."""
        alone = f"{self.window} stores each window of a key alone"
        return CANNOT_END | {
            NEWEST: f"fires the newest window of a key, and {alone}: which one is the newest is not known. "
            "Use on_update().",
            CHANGED: "compares a window with the one before it, and a function assigns windows in no order; got "
            f"{self.window}. Use on_close() or on_update().",
            PER_KEY: f"counts the records of a key, and {alone}, with copies of its records: only these can be "
            'counted. Write for example early(records=100, per="window").',
        }

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the columns that mark the first and the last window of a record."""
        return IS_FIRST, IS_LAST

    def execution_plan(self, asked: Aggregation) -> Merged:
        """Return the execution plan: that of sessions, with buckets of their own on a stream."""
        sessions = self.window.plain
        if not asked.may_be_late:
            return SessionSupport(sessions).execution_plan(asked)
        names = [value.name for value in asked.values]
        marks = tuple(map(names.index, self.inputs))
        return AssignedWindows(*asked.common, session=sessions, merges=False, marks=marks)


@dataclass(frozen=True)
class AssignedWindows(Merged):
    """The plan of assigned windows on a stream: it shuffles a row for each window of a key.

    `marks` are the positions of the columns that mark the first and the last window of a record: the row counts these.
    """

    marks: tuple[int, ...] = field(kw_only=True)

    def first_stage(self, labels: tuple[int, ...], with_records: bool = False) -> PreMerge:
        """Return the function for `mapInArrow` before the shuffle; with `with_records` it also shuffles the records."""
        stage = super().first_stage(labels, with_records)
        return replace(stage, shape=with_copies(stage.shape), arguments=(*stage.arguments, self.marks))

    def opened(self, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger) -> Bucket:
        """Open the state of a bucket on a stream."""
        return AssignedBucket(self.shape, self.session, grace, fingerprint, store, trigger)
