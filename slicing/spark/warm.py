"""Warm start: the initial state of a stream is built from a bounded DataFrame of its past; then the stream continues.

::

    history   ---- first stage, on all cores ---- blocks by bucket ----+
                                                                       | Spark's initialState, in the first micro-batch
    stream    ---- first stage, from `until` on -- blocks by bucket ---+---- stateful operator

The first micro-batch commits the history together with its own records, atomically. Spark reads the history only in
that micro-batch; a restarted query finds it in its checkpoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F

from slicing.content.block import Block
from slicing.content.records import Records
from slicing.drafts.call import Call, Time
from slicing.engines.bucket import OpenBucket
from slicing.errors import InvalidType, InvalidValue, StateMismatch, excerpt
from slicing.spark import stream
from slicing.spark.as_of import AsOf, as_of
from slicing.spark.ddl import struct_of
from slicing.spark.partials import PartialsTable, paths_of
from slicing.spark.query import Query
from slicing.spark.rules import resolve_history
from slicing.spark.task import InTask
from slicing.stages import flat
from slicing.stages.execution_plan import ExecutionPlan
from slicing.stages.metrics import BEFORE_WARM, LOADED
from slicing.stages.not_before import NotBefore
from slicing.stages.of_partials import OfPartials
from slicing.state.format.buckets import Buckets
from slicing.triggers.trigger import MicroBatchTime
from slicing.windows.families.family import TAILED
from slicing.windows.time.durations import show_instant
from slicing.windows.time.instants import microseconds_of

_EARLIEST = -(1 << 62)
"""An instant before all records. Where no window begins, `history_from` is less, and Spark's filter would overflow."""
_FIRST = 1000
"""The first millisecond after 1970: no window of a stream has closed by then."""
DROP, KEEP = OVERLAPS = ("drop", "keep")
"""The treatment of a stream's records from before the end of the history: they are dropped, or added to it."""


@dataclass(frozen=True)
class History:
    """The past of a stream: a bounded DataFrame. Only its records before `until`, in microseconds, count.

    as_of: the state that partials were looked up in, None for others.
    goes_on: the stream continues where that state was left, so that all slices count.
    wait: how long before `until`, in microseconds, windows have ended that are still needed.
    """

    frame: DataFrame
    until: int
    overlap: str = DROP
    of_partials: bool = False
    as_of: AsOf | None = None
    goes_on: bool = False
    wait: int = 0

    @property
    def closed_until(self) -> int:
        """The end of the windows that are not needed any more, in microseconds."""
        return self.until - self.wait

    @property
    def known_from(self) -> int | None:
        """The microsecond before which slices may be missing; None if none is."""
        return self.as_of.known_from if self.as_of else None

    def __repr__(self) -> str:
        if self.goes_on:
            return "warm(partials=df)"
        more = "" if self.overlap == DROP else f", overlap={self.overlap!r}"
        return f"warm({'partials=' * self.of_partials}df, until={show_instant(self.until)!r}{more})"


def history_of(history: DataFrame | None, partials: DataFrame | None, until: Any, overlap: Any) -> History:
    """Return a history after the checks that need no query. Raises InvalidType and InvalidValue."""
    frame = history if partials is None else partials
    assert frame is not None, "one of them was given"
    if frame.isStreaming:
        raise InvalidType(
            "`warm` takes a bounded DataFrame, which is read once; got a stream. Read the past of the stream with "
            "`spark.read`."
        )
    if overlap not in OVERLAPS:
        raise InvalidValue(
            f"`overlap` says what becomes of records of the stream before `until`, {' or '.join(map(repr, OVERLAPS))}; "
            f"got {excerpt(overlap)}."
        )
    looked_up = as_of(frame) if partials is not None else None
    if until is None:
        return History(frame, _where_left(looked_up), KEEP, of_partials=True, as_of=looked_up, goes_on=True)
    return History(frame, _microseconds(until), overlap, partials is not None, looked_up)


def _where_left(looked_up: AsOf | None) -> int:
    """Return the end of the windows that have closed in the state of looked-up partials, in microseconds."""
    if looked_up is None:
        raise InvalidValue(
            "`until` says where the history ends; only a table of `lookup_partials` that has slices says so itself. "
            'Give for example until="2026-03-01T00:00:00+00:00".'
        )
    if looked_up.until != looked_up.all_until:
        raise InvalidValue(
            "a query continues where the windows of all keys have closed up to one instant. With `.idle(...)` some "
            f"keys were ahead: theirs have closed until {show_instant(looked_up.until or 0)}, those of others until "
            f"{show_instant(looked_up.all_until or 0)}. Look up another micro-batch, in which all of them have the "
            "watermark of the stream: `lookup_partials(checkpoint, batch=...)`."
        )
    return looked_up.until or _FIRST


def _microseconds(until: Any) -> int:
    found = microseconds_of(until, "`until`")
    if found <= 0 or found % 1000:
        raise InvalidValue(
            "`until` is where the history ends for a stream, whose watermark counts milliseconds from 1970 on; got "
            f"{show_instant(found)}. Give whole milliseconds after 1970-01-01."
        )
    return found


def check(query: Query, call: Call, history: History) -> None:
    """Raise InvalidValue or InvalidType if a query cannot start from a history."""
    if not query.streaming:
        raise InvalidValue(
            "`warm` is for streams, and this DataFrame is bounded. Leave it out: bounded input is its own history."
        )
    if query.clock is Time.CLOCK:
        raise InvalidValue(
            "windows by `processing_time()` are about when records come, which a history does not say. Name the column "
            'of event time: `.window(..., time="ts")`.'
        )
    if not query.time:
        raise InvalidValue(
            f"records before `until` are told by their time, and {query.window} was given none. Name its column: "
            '`.window(..., time="ts")`.'
        )
    if query.options.trigger.ends:
        raise InvalidValue(
            f"{query.options.trigger} lets records end sessions, and a history has been merged without them. Use "
            "another trigger, or start without `warm`."
        )
    if (history.overlap == KEEP) and (why := query.support.cannot_keep):
        raise InvalidValue(f'`overlap="keep"` {why}')
    if history.of_partials:
        _table(call, history).check(query)
        return _check_known(query, history)
    _check_types(query, past_of(call, history))


def _check_known(query: Query, history: History) -> None:
    """Raise InvalidValue if an open window begins before the first slice that the table has."""
    first, known = query.support.history_from(history.until, query.options.trigger), history.known_from
    if first is not None and known is not None and first < known:
        raise InvalidValue(
            f"windows that end after {show_instant(history.until)} need records from {show_instant(first)} on; the "
            f"table has the slices of its checkpoint from {show_instant(known)} on: earlier ones were removed. Use "
            "windows that are not longer than those of the checkpoint, a shorter `empty`, or a later `until`."
        )


def _check_types(query: Query, past: Query) -> None:
    """Raise InvalidType for the first column whose type in the history differs. What may be null does not matter."""
    for key, other in zip(query.keys, past.keys, strict=True):
        _check_type(f"key `{key.name}`", key.type.simpleString(), other.type.simpleString())
    for column, value in zip(query.values, past.values, strict=True):
        _check_type(f"column `{column.name}`", column.kind, value.kind)
    _check_type(f"the time `{query.time}`", query.time_kind, past.time_kind)


def _check_type(what: str, of_stream: str, of_history: str) -> None:
    if of_stream != of_history:
        # A cast of a struct goes by the order of its fields, whatever their names.
        remedy = "Give both the same fields in the same order." if "struct<" in of_stream else "Cast one of them."
        raise InvalidType(f"{what} is {of_stream} in the stream, and {of_history} in the history. {remedy}")


def _table(call: Call, history: History) -> PartialsTable:
    return PartialsTable(history.frame, paths_of(call.named))


def past_of(call: Call, history: History) -> Query:
    """Return the query over a history; none of its records is late. Raises InvalidType and InvalidValue."""
    return replace(resolve_history(replace(call, frame=history.frame, declared=None)), streaming=False)


def needed(rows: DataFrame, query: Query, history: History) -> DataFrame:
    """Return the rows of a history before `until` that open windows need, or whose slices are retained."""
    first, time = first_needed(query, history), F.col(flat.TIME)
    counts = F.lit(True) if history.goes_on else time < _instant(query, history, history.until)
    if first is not None and history.of_partials:
        # The first stage refuses a slice that contains `first`: it has records of windows that are needed.
        counts &= F.col(flat.STOP) > first
    elif first is not None:
        counts &= time >= _instant(query, history, first)
    found = rows.where(time.isNull() | counts)
    return found.orderBy(flat.TIME) if query.support.history_in_order else found


def first_needed(query: Query, history: History) -> int | None:
    """Return the first instant whose records are read of a history, in microseconds; None if all are."""
    options = query.options
    return query.support.history_from(history.closed_until, options.trigger, options.retain)


def _instant(query: Query, history: History, microseconds: int) -> Column:
    """An instant as a literal of the rows' time: microseconds in partials, otherwise of the type of the time column."""
    return F.lit(microseconds) if history.of_partials else query.instant(max(microseconds, _EARLIEST))


@dataclass(frozen=True)
class Loading:
    """The end of the windows that have closed in the history, and the plan that reads the blocks of the history.

    `retain` says how long before `until` slices are retained that the history has. Both are in microseconds.
    """

    until: int
    execution_plan: ExecutionPlan
    retain: int


class WarmOperator(stream.WindowOperator):
    """The stateful operator that loads a history in the first micro-batch."""

    loading: Loading

    def init(self, handle: Any) -> None:
        """Called by Spark once per partition and micro-batch."""
        super().init(handle)
        self.noted: Counter[str] = Counter()

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Load rows of a bucket's history; Spark may call this several times per bucket, before its first records."""
        self.store.name = self._name(key)
        table = initialState.sort_values(["partition", "part"], kind="stable")
        shipped = self.loading.execution_plan.shipped(table)
        self._load(self._unloaded(), shipped, timerValues)
        self.noted[LOADED] += _count(shipped)
        for cause in ("no_time", "no_window"):
            self.noted[cause] += int(table[cause].sum())

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """As in `WindowOperator`; also counts the stream's records from before `until`, and loads an empty history."""
        tables = list(rows)
        if BEFORE_WARM in tables[0]:
            self.noted[BEFORE_WARM] += sum(int(table[BEFORE_WARM].sum()) for table in tables)
        self.store.name = self._name(key)
        bucket = self._unloaded()
        if bucket.pages.is_new:  # no row of the history belongs to this bucket
            self._load(bucket, [], timerValues)
        yield from super().handleInputRows(key, iter(tables), timerValues)

    def _load(self, bucket: OpenBucket, shipped: list[Any], timerValues: Any) -> None:  # noqa: N803
        clock = self._clock(timerValues)
        bucket.load(shipped, MicroBatchTime(self.loading.until, clock))
        if bucket.pages.is_new and self.needs_timer:
            self.handle.registerTimer(self._last(bucket) + 1)

    def _unloaded(self) -> OpenBucket:
        """Return the current bucket before it has a history; it retains no slices that the history lacks."""
        return self._opened(replace(self.fingerprint, retain=self.loading.retain))

    def _bucket(self) -> OpenBucket:
        bucket = super()._bucket()
        if bucket.head.warm != self.loading.until:
            how = f"from one until {show_instant(bucket.head.warm)}" if bucket.head.warm else "without a history"
            raise StateMismatch(
                f"a history is read by the first micro-batch of a checkpoint only; this one was started {how}, and "
                f"the query has one until {show_instant(self.loading.until)}. Start with a new checkpoint, or leave "
                "`.warm` as it was."
            )
        return bucket

    def _counted(self, counts: dict[str, int]) -> Iterator[pd.DataFrame]:
        for name, count in self.noted.items():
            counts[name] = counts.get(name, 0) + count
        self.noted.clear()
        yield from super()._counted(counts)


def _count(shipped: Sequence[Block | Records]) -> int:
    """The number of records that were shipped: as partials, as records, or as both."""
    blocks = sum(int(each.records.sum()) for each in shipped if isinstance(each, Block))
    return max(blocks, sum(len(each.index) for each in shipped if isinstance(each, Records)))


def build(
    call: Call,
    history: History,
    query: Query,
    labels: tuple[int, ...],
    spread: Buckets,
    buckets: type[stream.WindowOperator] = stream.WindowOperator,
    wrapped: Callable[[Any], Any] = lambda stage: stage,
) -> DataFrame:
    """Return the windows of a stream that starts from a history; see `stream.build` for `query` and what follows it."""
    past = query if history.of_partials else past_of(call, history)
    known = history.known_from
    retain = query.options.retain if known is None else min(query.options.retain, history.until - known)
    loading = Loading(history.closed_until, past.execution_plan, retain)
    first_stage: Any = past.execution_plan.first_stage(labels)
    rows = past.records()
    if history.of_partials:
        rows, first_stage = _of_table(_table(call, history), query, labels, history)
    initial = _blocks(needed(rows, query, history), first_stage)

    def operator(*of_query: Any) -> stream.WindowOperator:
        kind = WarmOperator if buckets is stream.WindowOperator else type("Timed", (buckets, WarmOperator), {})
        made: Any = kind(*of_query)
        made.loading = loading
        return made  # type: ignore[no-any-return]

    def of_stream(stage: Any) -> Any:
        return wrapped(NotBefore(stage, history.until) if history.overlap == DROP else stage)

    return stream.build(replace(query, warm=True), labels, spread, operator, of_stream, initial)


def _of_table(
    table: PartialsTable, query: Query, labels: tuple[int, ...], history: History
) -> tuple[DataFrame, OfPartials]:
    """Return the rows of a table of partials, and the first stage that reads them."""
    if not history.goes_on:
        return table.rows(query), table.stage(query.execution_plan, labels, history.until)
    families, first = query.shape.family.families, None
    if any(family.assembled == TAILED for family in families):
        # The new state marks these slices as merged; other state would show a merged slice as a separate one.
        first = tuple(query.support.first_window(family, history.until, query.options.trigger) for family in families)
    return table.rows(query), table.stage(query.execution_plan, labels, first=first)


def _blocks(rows: DataFrame, stage: Any) -> GroupedData:
    """The blocks that a first stage makes of a history, grouped by bucket, in the order of input partitions."""
    blocks = rows.mapInArrow(InTask(stage), struct_of(stage.schema))
    return blocks.repartition("bucket").sortWithinPartitions("bucket", "partition", "part").groupBy("bucket")
