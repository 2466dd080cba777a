"""Sessions, as Spark sees them: rows that overlap or touch become one, and each may bring its own gap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.assembly.results import Windows
from slicing.blocks.block import Block
from slicing.blocks.codec import decode
from slicing.blocks.intervals import EndingRecords
from slicing.blocks.records import decode_records
from slicing.emission.emission import CHANGED, RESULT, Emission
from slicing.emission.lateness import Refused
from slicing.engines.engine import Engine
from slicing.engines.sessions import RefusedSessions, SessionBucket, all_sessions
from slicing.errors import InvalidType, InvalidValue
from slicing.spark.columns import quoted
from slicing.spark.kind import Kind
from slicing.spark.names import Names
from slicing.spark.query import Query
from slicing.spark.strategy import Aggregation, Sliced
from slicing.spark.sub_sessions import PreMerge, of_records, with_own_ends
from slicing.state.fingerprint import Fingerprint
from slicing.state.store import Store
from slicing.windows.durations import show
from slicing.windows.family import Family
from slicing.windows.session import SESSION, Session

if TYPE_CHECKING:
    from slicing.explain.plan import Plan

_INTERVALS = (T.DayTimeIntervalType, T.YearMonthIntervalType, T.CalendarIntervalType)


@dataclass(frozen=True)
class SessionKind(Kind):
    """Windows from one pause of a key to the next."""

    window: Session

    def check(self, tree: str, by_clock: bool, emission: Emission, streaming: bool) -> None:
        """Refuse what has no meaning for sessions. Raises InvalidValue."""
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
        if emission.which == CHANGED:
            raise InvalidValue(
                f"{emission} compares a window with the one before it, and sessions of a key do not follow each other. "
                "Use on_close() or on_update()."
            )
        if emission.corrects and emission.what != RESULT:
            raise InvalidValue(
                f"{emission} is about one window again, and a session that late records change is another window: the "
                'old one goes out as `emission = "merged"` before it. Use on_close(corrections=True).'
            )

    def named(self, names: Names) -> Self:
        """The same with its column of gaps. Raises InvalidValue and InvalidType."""
        if self.window.gap_column is None:
            return self
        return replace(self, window=replace(self.window, gap_column=_gaps(names, self.window.gap_column)))

    def leaves(self, query: Query) -> list[Column]:
        """Where each record brings the gap of its session, that in microseconds."""
        column = self.window.gap_column
        if column is None:
            return []
        if isinstance(query.frame.schema[column].dataType, T.LongType):
            return [quoted(column)]
        time = query.record_time()
        # Of calendar intervals the length depends on where they begin; that of days on no clock, if time has none.
        later = time + quoted(column)
        return [
            F.timestamp_diff("MICROSECOND", time, later) if query.ntz else F.unix_micros(later) - F.unix_micros(time)
        ]

    def strategy(self, asked: Aggregation) -> Merged:
        """Rows of single times are shipped where each record is judged by its own, or must stay in order."""
        ordered = any(kernel.aggregate.ordered for kernel in asked.shape.kernels)
        merges = not ordered and (self.window.late_by == SESSION or not asked.judges)
        return Merged(*asked.common, session=self.window, merges=merges)

    def plan_type(self, streaming: bool) -> type[Plan]:
        """What `explain` prints."""
        from slicing.explain.sessions import SessionPlan

        return SessionPlan


def _gaps(names: Names, given: str) -> str:
    """The column of gaps that is meant."""
    found = names.named(given, "gap column")
    if not isinstance(found.dataType, (T.LongType, *_INTERVALS)):
        raise InvalidType(
            f"gap column `{given}` must be an interval, or microseconds as long; got {found.dataType.simpleString()}. "
            f'Convert it first, for example `withColumn("{given}", F.make_dt_interval(secs=F.col("{given}")))`.'
        )
    return found.name


@dataclass(frozen=True)
class Merged(Sliced):
    """Rows that overlap or touch become sessions: rows of single times are shipped, or, if it `merges`, sub-sessions.

    `shape` is that of results; behind the shuffle rows have their ends beside them.
    """

    session: Session = field(kw_only=True)
    merges: bool = field(kw_only=True)

    def first_stage(self, labels: tuple[int, ...], beside: bool = False) -> PreMerge:
        """The function for `mapInArrow` before the shuffle; with `beside` it ships the records too."""
        shape = of_records(self.shape, self.session)
        return PreMerge(shape, self.arguments, labels, beside, session=self.session, merges=self.merges)

    def decode(self, data: bytes) -> Block:
        """A block that was shipped."""
        return decode(self.first_stage(()).packed, data)

    def bucket(self, grace: int, fingerprint: Fingerprint, store: Store, emission: Emission) -> Engine:
        """The state of a bucket on a stream."""
        return SessionBucket(self.shape, self.session, grace, fingerprint, store, emission)

    def late_records(self, family: Family, refused: Refused[Any], beside: Iterable[bytes]) -> Iterator[EndingRecords]:
        """The records of refused intervals, of those that were shipped beside the blocks."""
        assert isinstance(refused, RefusedSessions), "sessions refuse intervals"
        for data in beside:
            records = with_own_ends(self.session, decode_records(of_records(self.shape, self.session), data))
            yield records.take(np.flatnonzero(refused.holds(records)))

    def all_windows(self, shipped: Sequence[Block]) -> Iterator[Windows]:
        """All windows of a bucket of bounded input."""
        return all_sessions(self.shape, self.session, shipped)
