"""Window support and execution plans of sessions: rows that overlap or touch are merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slicing.assembly.results import Windows
from slicing.content.block import Block
from slicing.content.codec import decode
from slicing.content.intervals import EndingRecords
from slicing.content.records import decode_records
from slicing.content.signals import NO_SIGNALS, Signals
from slicing.engines.bucket import Bucket
from slicing.engines.sessions.bucket import RefusedSessions, SessionBucket, all_sessions
from slicing.engines.sessions.ended import EndedByRecords
from slicing.engines.sessions.kinds import Merging, SessionKind
from slicing.errors import InvalidValue
from slicing.stages.execution_plan import Aggregation, Sliced
from slicing.stages.sub_sessions import PreMerge, of_records, with_own_ends
from slicing.stages.support import WINDOWS, WindowSupport
from slicing.state.format import changes
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import Store
from slicing.triggers.lateness import RefusedRows
from slicing.triggers.trigger import CHANGED, NUMBERS, UNMERGED, Trigger
from slicing.windows.families.family import Family
from slicing.windows.session import SESSION, Session
from slicing.windows.time.durations import show


@dataclass(frozen=True)
class SessionSupport(WindowSupport):
    """Support for sessions: windows from one pause of a key to the next."""

    window: Session

    def check_tree(self, tree: str, by_clock: bool, streaming: bool) -> None:
        """Raise InvalidValue for options that have no meaning for sessions."""
        window = self.window
        if tree != "auto":
            raise InvalidValue(
                f"sessions are merged, and have no slices to assemble; got `{tree}`. Leave `.assemble` out."
            )
        if by_clock and window.late_by == SESSION:
            raise InvalidValue(
                f"`late_by` is about late records, and nothing is late by the clock; got {window}. Leave it out."
            )
        if streaming and window.gap is not None and window.gap < 1000:
            raise InvalidValue(
                f"`gap` must be at least 1 ms on a stream, whose watermark counts milliseconds; got {show(window.gap)}."
            )

    from_slices = False

    def cannot_retain(self, trees: Sequence[str]) -> str:
        """Return the reason: there are no slices."""
        return "keeps open sessions, and no slices"

    def cannot_say_why(self, trees: Sequence[str]) -> str:
        """Return the reason: there are no slices."""
        return "keeps one total of each open session, in which its records have been merged"

    def cannot_look_up(self, trees: Sequence[str]) -> Mapping[str, str]:
        """Return the reason for other windows: the records of a session have been merged."""
        return {WINDOWS: "keeps sessions that have been merged, and no slices. Ask for its sessions."}

    def fixed(self, trigger: Trigger, trees: Sequence[str]) -> Mapping[str, str]:
        """Return the changes of a live checkpoint that these windows do not allow, each with the reason."""
        windows = "refused: which records are one session is decided when they come. Start with a new checkpoint."
        ends = {} if trigger.ends else {changes.ENDS: changes.cannot_end(trigger)}
        return {changes.WINDOWS: windows, **ends}

    @property
    def cannot(self) -> Mapping[str, str]:
        """Return the questions that sessions cannot answer: they merge, and there are pauses between them."""
        return {
            CHANGED: "compares a window with the one before it, and sessions of a key do not follow each other. "
            "Use on_close() or on_update().",
            UNMERGED: "keeps state of each window, and sessions merge. Let a trigger of your own implement `on_merge`.",
            NUMBERS: "compares values of records one by one, and these are not kept by session. Use hopping windows.",
        }

    @property
    def cannot_keep(self) -> str:
        """Return the reason: records may join sessions that have ended."""
        return (
            f"is for windows that time decides, and a record before `until` may join {self.window} that has ended. "
            'Use overlap="drop", with `until` where the stream begins.'
        )

    def cannot_purge(self, tree: str) -> Mapping[str, str]:
        """Return no reason: sessions can purge, since a record belongs to one session only."""
        return {}

    def history_from(self, until: int, trigger: Trigger, retain: int = 0) -> int | None:
        """Return None: a session may have started at any time."""
        return None

    @property
    def _kind(self) -> type[SessionKind]:
        return Merging if self.window.longest is None else SessionKind

    def execution_plan(self, asked: Aggregation) -> Merged:
        """Return the execution plan.

        Rows of single times are shuffled, instead of sub-sessions, if lateness is decided per record, if partials have
        an order, or if records may split sessions.
        """
        ordered = any(kernel.aggregate.ordered for kernel in asked.shape.kernels)
        kind = EndedByRecords if asked.ends else self._kind
        merges = not (ordered or kind.splits) and (self.window.late_by == SESSION or not asked.may_be_late)
        return Merged(*asked.common, session=self.window, merges=merges, of=kind)


@dataclass(frozen=True)
class Merged(Sliced):
    """The plan that merges rows that overlap or touch: it shuffles rows of single times, or with `merges` sub-sessions.

    `shape` is that of results; after the shuffle rows also have their ends.
    """

    session: Session = field(kw_only=True)
    merges: bool = field(kw_only=True)
    of: type[SessionKind] = Merging

    def first_stage(self, labels: tuple[int, ...], with_records: bool = False) -> PreMerge:
        """Return the function for `mapInArrow` before the shuffle; with `with_records` it also shuffles the records."""
        shape = of_records(self.shape, self.session)
        return PreMerge(shape, self.arguments, labels, with_records, session=self.session, merges=self.merges)

    def decode(self, data: bytes) -> Block:
        """Decode a shuffled block."""
        return decode(self.first_stage(()).packed, data)

    def opened(self, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger) -> Bucket:
        """Open the state of a bucket on a stream."""
        return SessionBucket(self.shape, self.session, grace, fingerprint, store, trigger, self.of)

    def late_records(
        self, family: Family, refused: RefusedRows[Any], encoded: Iterable[bytes]
    ) -> Iterator[EndingRecords]:
        """Yield the records of refused intervals, from the records that were shuffled together with the blocks."""
        assert isinstance(refused, RefusedSessions), "sessions refuse intervals"
        for data in encoded:
            records = with_own_ends(self.session, decode_records(of_records(self.shape, self.session), data))
            yield records.take(np.flatnonzero(refused.holds(records)))

    def assembled(self, shipped: Iterable[Block]) -> Iterator[Windows]:
        """Yield all windows of a bucket of bounded input."""
        assert not self.of.takes_ends, "the ends of these sessions are signals"
        return self.all_ended(list(shipped), NO_SIGNALS)

    def all_ended(self, shipped: Sequence[Block], heard: Signals) -> Iterator[Windows]:
        """Yield all windows of a bucket of bounded input, given its signals."""
        return all_sessions(self.shape, self.session, shipped, self.of, heard)
