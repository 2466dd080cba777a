"""Session windows: the records of a key without a pause longer than the gap."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from slicing.errors import InvalidType, InvalidValue, Remedy, Topic, excerpt
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.time.cut import Cut
from slicing.windows.time.durations import Duration, microseconds, show
from slicing.windows.time.edges import AFTER, BEFORE, Array, Edges, Every
from slicing.windows.window import Window

LateBy: TypeAlias = Literal["record", "session"]
RECORD: Final = "record"
SESSION: Final = "session"
"""What is late: a record whose own interval is closed, or a closed session with all records merged into it."""
MERGING = "merging"
"""How sessions are assembled: intervals that overlap or touch are merged."""
MOST_GAP = 1 << 60
"""Microseconds, 36,000 years: longer gaps are treated as this, so that sums of times stay in int64."""


@dataclass(frozen=True)
class SessionFamily(ByEdges):
    """A slice for each microsecond: the slice of a record is its time, the slice of a session is its start.

    The family does not know where sessions end; the rows of sessions contain their ends.
    """

    starts: Edges = field(default_factory=lambda: Every(1))
    ends: Edges = field(default_factory=lambda: Every(1, 1))
    gap: int | None = None
    gap_column: str | None = None
    unit: int = 0
    most: int | None = None

    assembled = MERGING
    ratio = 1.0
    longest = 1
    has_gaps = False
    may_repeat = False
    limits = BEFORE, AFTER

    def __post_init__(self) -> None:
        """No checks: these edges are in order."""

    @cached_property
    def cut(self) -> Cut:
        """The cut with one edge per microsecond."""
        return Cut([self.starts])

    def in_time(self, index: Array, times: Array) -> NDArray[np.bool_]:
        """Return whether the interval of each record ends at an instant; of a gap per record the first stage tells."""
        return times < AFTER - self.unit - (self.gap or 0)

    def spec(self) -> list[Any]:
        """`["session", gap, column of gaps, unit]`, and the greatest length: the values on which sessions depend."""
        return ["session", self.gap, self.gap_column, self.unit, *([] if self.most is None else [self.most])]


@dataclass(frozen=True)
class Session(Window):
    """The result of `session`; durations are in microseconds. Its repr is the call that makes it."""

    gap: int | None = None
    gap_column: str | None = None
    late_by: LateBy = RECORD
    unit: int = 0
    longest: int | None = None

    alone = "as records decide where it ends"
    decided_by = "records decide. Ask its rows."
    keeps = "merges the partials of sessions that meet"
    merges = True
    finest = 1

    @cached_property
    def family(self) -> SessionFamily:
        """The microseconds at which sessions may begin."""
        return SessionFamily(gap=self.gap, gap_column=self.gap_column, unit=self.unit, most=self.longest)

    def __repr__(self) -> str:
        given = [repr(show(self.gap))] if self.gap is not None else [f"gap_column={self.gap_column!r}"]
        given += [f"late_by={self.late_by!r}"] if self.late_by != RECORD else []
        given += [f"unit={show(self.unit)!r}"] if self.unit else []
        given += [f"longest={show(self.longest)!r}"] if self.longest is not None else []
        return f"session({', '.join(given)})"


def session(
    gap: Duration | None = None,
    *,
    gap_column: str | None = None,
    late_by: LateBy = RECORD,
    unit: Duration | None = None,
    longest: Duration | None = None,
) -> Session:
    """Return sessions: records of a key at most `gap` apart share a window, which ends `gap` after the last of them.

    A record stands for `[t, t + gap)`; intervals that overlap or touch are one session, from the earliest start to the
    latest end. With `gap_column` each record has its own gap: a column, or a path such as `s.gap`, of an interval type,
    or of microseconds as long. A record whose gap is null or not positive is in no window, and is counted as such.

    On a stream a session closes at the watermark `end + grace`. `late_by` decides what is late: with "record", as in
    Spark, a record whose own interval is closed; with "session", as in Flink and Kafka, a closed session, after all
    records of the micro-batch have been merged with the open sessions. Kafka's sessions end at their last record and
    close a millisecond later: `unit="1 millisecond"` ends sessions that much later.

    With `longest` the first record of a key that is more than `longest` after the first one of its session begins
    another session, also within the gap. As all sessions, one ends `gap` after its last record, at most `longest + gap`
    after its start; the next one may begin before that. Event time decides, not the order of arrival: a record that is
    not late may move the starts of all later sessions of its key that are open, and what has been emitted of these is
    retracted. With `gap_column` a session does not end before an earlier one of its key.

    A closed session leaves the state: records that would have belonged to it, and are not late, start another one. If
    an emitted session grows or is merged, a row with `emission` "merged" and null results retracts it, before the row
    of the new session and with the same revision. With `old=True` only a session that kept its start and end has its
    previous result. For an `ordered` aggregate a record before the first of its session comes first, any other after
    those that were there; one that joins two sessions comes between them; records of one time with different gaps are
    in any order. `on_change()` is refused, and aggregates need a `combine`. On a stream the gap is at least a
    millisecond.

    Cost: a record is stored once, or once together with all records of its time, and read when its session fires; a
    second time when more than half of the stored rows are obsolete. Sessions that close in a micro-batch are merged in
    one pass over the open ones, n log(n) for n rows. With `late_by="record"` a partial is shuffled per key, time and
    gap, otherwise per part of a session. The state has at most two rows for each open session, with `longest` one for
    each of its times, and two small ones for triggers that emit more than once; a process caches up to 128 MiB of them.
    An `ordered` aggregate, and records that overlap a closed session, rewrite the open sessions of a bucket. Raises
    InvalidValue, InvalidType.

    >>> from slicing.stages.local_runner import bounded
    >>> [(row.start, row.end, row.records) for row in bounded(session("1 millisecond"), [0, 400, 5000]).rows]
    [(0, 1400, 2), (5000, 6000, 1)]
    >>> print(session("30 minutes"))
    session('30 minutes')
    """
    if (gap is None) == (gap_column is None):
        raise InvalidValue(
            '`session` takes either `gap` or `gap_column`: session("30 minutes") or session(gap_column="gap").'
        )
    if gap_column is not None and not isinstance(gap_column, str):
        raise InvalidType(
            f'`gap_column` is the name of a column; got {excerpt(gap_column)}. Write for example gap_column="gap"; '
            "what has no name gets one first, by `withColumn`."
        )
    if late_by not in get_args(LateBy):
        raise InvalidValue(f"`late_by` takes {', '.join(get_args(LateBy))}; got {excerpt(late_by)}.")
    later = 0 if unit is None else microseconds(unit, "unit")
    if later < 0 or later % 1000:
        raise InvalidValue(f"`unit` must be whole milliseconds; got {excerpt(unit)}.")
    return _checked(
        Session(
            None if gap is None else _gap(gap),
            gap_column,
            late_by,
            later,
            None if longest is None else _positive(microseconds(longest, "longest"), longest, "longest"),
        )
    )


def _gap(gap: Duration) -> int:
    try:
        length = microseconds(gap, "gap")
    except (InvalidValue, InvalidType) as error:
        column = Remedy(Topic.GAP_COLUMN, ' A column of gaps is named: session(gap_column="gap").')
        raise type(error)(*error.parts, column) from None
    return _positive(length, gap, "gap")


def _positive(length: int, given: Duration, name: str) -> int:
    if length <= 0:
        raise InvalidValue(f"`{name}` must be positive; got {excerpt(given)}.")
    if length > MOST_GAP:
        raise InvalidValue(f"`{name}` must be shorter than {show(MOST_GAP // 86_400_000_000 * 86_400_000_000)}.")
    return length


def _checked(made: Session) -> Session:
    """Return the session. Raises InvalidValue for a `longest` that does not go with the rest."""
    if made.longest is None:
        return made
    if made.gap is not None and made.longest < made.gap:
        raise InvalidValue(
            f"`longest` must be at least the gap, {show(made.gap)}; got {show(made.longest)}. Give both "
            "the same for sessions of the records that are so close to the first one."
        )
    if made.gap is None and made.late_by == SESSION:
        raise InvalidValue(
            'With `gap_column` and `longest` a record is late by itself; got late_by="session". Leave `late_by` out.'
        )
    return made
