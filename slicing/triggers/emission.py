"""The calls that make triggers: `on_close`, `on_update`, `on_change`, `early`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from slicing.aggregates.aggregate import Input
from slicing.column_names import is_column
from slicing.errors import InvalidType, InvalidValue, check_flag, excerpt
from slicing.triggers.buffer import Buffer
from slicing.triggers.by_delay import ByDelay, ByEventDelay
from slicing.triggers.by_delta import ByDelta
from slicing.triggers.by_end import ByEnd
from slicing.triggers.by_interval import CLOCK, EVENT, TIMES, ByInterval
from slicing.triggers.by_records import ByRecords, ByRecordsOfKey, ByWaitingRecords
from slicing.triggers.by_signal import BySignal
from slicing.triggers.change import OnChange
from slicing.triggers.close import LateFirings, OnClose, OnCloseAndEnd, OnCloseEmpty
from slicing.triggers.condition import Condition
from slicing.triggers.early import Early
from slicing.triggers.trigger import Trigger
from slicing.triggers.update import OnUpdate, OnUpdateLatest
from slicing.windows.time.durations import Duration, microseconds

WINDOW, KEY = PER = ("window", "key")
"""The scopes in which `records` are counted."""
Emission = Trigger
"""The type of the argument of `.emit(...)`."""


def on_close(
    corrections: bool = False, old: bool = False, discarding: bool = False, *, empty: Duration | None = None
) -> Trigger:
    """Fire every window once, when it closes: at the watermark `end + grace`. This is the default.

    With `corrections` a window fires at `end`, and again in each micro-batch with delayed records for it, until the
    watermark is at `end + grace`, even if the result is unchanged. A late firing has the result of all records
    (accumulating); with `old` also the result that it replaces (retracting); with `discarding` the result of the new
    records only.

    With `empty`, a duration, windows without records fire, too: those that end at most so long after the first window
    of an earlier record of their key. Counts are 0 there, and results without a value for no records null. Bounded
    input has the same rows. For one kind of windows that time decides, and results that combine. After a warm start, or
    another trigger on a live checkpoint, they follow the records of open windows, or the next ones. Cost: a row per key
    and window, and a row per key in the state for that long.

    Raises InvalidValue for `old` or `discarding` without `corrections`, and for both; InvalidType for other values than
    bools. Cost: one row per window and key; with `corrections` also a read of up to 2 n - 1 slices for each slice with
    delayed records, n slices per window.

    >>> from slicing.stages.local_runner import stream
    >>> from slicing.windows.window import tumbling
    >>> seconds, batches = tumbling("1 second"), [[100_000, 200_000], [1_500_000], [2_700_000]]
    >>> [(row.start, row.records, row.emission) for row in stream(seconds, batches, 0).rows]
    [(0, 2, 'final'), (1000000, 1, 'final')]
    >>> print(on_close(corrections=True, old=True))
    on_close(corrections=True, old=True)
    """
    check_flag(corrections, "`corrections` says whether windows fire again for late records")
    check_flag(old, "`old` says whether rows also have the result that they replace")
    check_flag(discarding, "`discarding` says whether a correction is of the new records only")
    if old and discarding:
        raise InvalidValue(
            "`old` and `discarding` exclude each other: with `discarding` a row replaces nothing. Choose one."
        )
    if (old or discarding) and not corrections:
        name = "old" if old else "discarding"
        raise InvalidValue(f"`{name}` is about corrections; write on_close(corrections=True, {name}=True).")
    if empty is not None:
        if corrections:
            raise InvalidValue(
                "`empty` is about windows that fire once; `corrections` lets them fire again. Choose one."
            )
        return OnCloseEmpty(_interval(empty, "empty"))
    if not corrections:
        return OnClose()
    return LateFirings("old" if old else "discarding" if discarding else "")


def on_update(latest_only: bool = False) -> Trigger:
    """Fire each open window with new records in every micro-batch, with its result so far, but not when it closes.

    The rows are those of Spark's update mode. With `latest_only` a key with new records has at most one row: that of
    its latest window ("the last hour, as of now"), if this window has a new record. The latest window is the first open
    window that holds the newest record of the key. The last digits of floats may depend on whether partials were
    cached. Raises InvalidType if `latest_only` is no bool. Cost: a row for each of the R windows of each slice with new
    records; with `latest_only` one for each key with new records. While slices are cached, no state is read; with
    `latest_only` a record then costs one combine, or n - 1 for the first record of a later window.

    >>> from slicing.stages.local_runner import stream
    >>> from slicing.windows.window import tumbling
    >>> rows = stream(tumbling("1 second"), [[100_000], [200_000, 1_500_000]], 0, on_update()).rows
    >>> [(row.batch, row.start, row.records) for row in rows]
    [(0, 0, 1), (1, 0, 2), (1, 1000000, 1)]
    >>> print(on_update())
    on_update()
    """
    check_flag(latest_only, "`latest_only` says whether only the newest window of a key fires")
    return OnUpdateLatest() if latest_only else OnUpdate()


def on_change(drained: bool = False) -> Trigger:
    """Fire a closed window only if its result differs from that of the previous window of its key.

    A row holds from its window on until the next row of the key, or until a window of the key is empty: the first
    window with records after that fires whatever its result. With `drained` the first empty window fires too, with the
    empty result (a tombstone), so that the end of every row is known. Results are compared after `lower`: null equals
    null, NaN equals NaN, floats by their bits, which may differ from those of `on_close()` in the last digits. Raises
    InvalidType if `drained` is no bool. Cost: about two rows per slice with records, for any number of windows per
    record; slices stay one advance longer.

    >>> from slicing.stages.local_runner import stream
    >>> from slicing.windows.window import tumbling
    >>> batches = [[100_000], [1_500_000], [2_100_000, 2_200_000], [9_000_000]]
    >>> [(row.start, row.records) for row in stream(tumbling("1 second"), batches, 0, on_change()).rows]
    [(0, 1), (2000000, 2)]
    >>> print(on_change(drained=True))
    on_change(drained=True)
    """
    check_flag(drained, "`drained` says whether the first empty window fires")
    return OnChange(drained)


def early(
    every: Duration | None = None,
    records: int | None = None,
    *,
    per: str | None = None,
    after: Duration | None = None,
    when: Input | None = None,
    ends: bool = False,
    delta: tuple[Input, float] | None = None,
    by: str = CLOCK,
    on_time: bool = False,
    late: bool = False,
    final: bool | None = None,
    repeat: bool = False,
    purge: bool = False,
    buffer: Buffer | None = None,
) -> Trigger:
    """Fire windows before they close with their results so far, and, unless `final=False`, once more when they close.

    The first true condition fires a window. Every firing restarts all conditions:

    - `records`: this number of new records has arrived, `per="window"` or `per="key"`. The remainder of a division
      counts for the next firing; several firings in one micro-batch become one. Late records that no window accepts do
      not count, and sessions that merge add their counts. The count of a key restarts at zero when the key has no open
      window, and when another condition fires one. Without `per` it counts by window if there are other conditions or
      options; else by key, and each firing restarts it at zero.
    - `every`: a multiple of this interval has passed, by the clock of the trigger or, with `by="event"`, by the
      watermark, which is then later than the multiple. A clock that steps back by at most the interval is waited for;
      after a longer step the new time is used as soon as records arrive.
    - `after`: this time has passed, by the clock, since the first record after the last firing arrived. With
      `by="event"` the watermark has passed the event time of that record by this time; with `final=False` a window that
      closes before then fires when it closes. The earliest record of a micro-batch is the first one; a later record
      with an earlier time does not move the firing. Sessions that merge wait since the earlier time.
    - `when`: a record has arrived for which this column, or expression, is true; null is false. All of its open windows
      fire, with all records of the micro-batch. With `ends` such a record also ends its session: the records after it,
      by event time, are in another, even within the gap; a record at the same time is in the session that ends. The
      parts stay separate if a record between them arrives. `ends` is only for sessions, and holds on bounded input,
      too. The ended session closes a gap after its last record, so the same records are late. The state has a row for
      each time of an open session. A checkpoint with ended sessions refuses a trigger without `ends`.
    - `delta`: a column of numbers and a threshold. The value of a record differs by more than the threshold from that
      of the record that fired the window last, or of its first record. Null and NaN are left out. Records are compared
      in order of arrival: by micro-batch, input partition, position; after a firing by another condition with the
      newest record. Values are compared as `double`, which rounds whole numbers above 2^53. Not for windows that merge,
      nor for sliding ones. Cost: all values are shuffled, and two numbers are stored for each (key, window).
    - `on_time`: the watermark has reached the end of the window, which closes `grace` later; with or without new
      records. With `late` also each later micro-batch with new records for it. The kind of a firing is then "early"
      before, "on_time" at and "late" after the end. A window that ends and closes in one micro-batch fires once:
      "final", or "on_time" with `final=False`. A session that a late record makes longer fires at its new end, and what
      one leaves of a session that has ended fires as "late".

    With `final=False` records after the last early firing of a window may be in no row: `every`, `after` by the clock
    and `records` by key fire only windows that stay open, and `on_time` without `late` does not fire after the end. The
    other conditions also fire, as "early", in the micro-batch that closes the window.

    With `purge` a firing drops the records of its window. The next firing contains only later records, and a window
    without any does not fire when it closes. What has fired is not withdrawn if its session grows, and counts of
    records continue. Windows that overlap then need `.assemble("eager")`; tumbling windows are stored as by the eager
    plan. Cost with `unbounded()` and sessions: a micro-batch with a firing rewrites all keys, or all open sessions, of
    its bucket.

    `buffer` limits the number of (key, window) pairs with new records that wait in a bucket, see `buffer(...)`.

    On a live checkpoint `early` continues the counts and waiting times of another `early` with the same meaning. Else a
    condition begins anew: `every` at its next multiple after the last micro-batch; `after` of the other time with the
    first micro-batch; another column of `delta` with the next record. After another trigger, and after `every` or
    `records` alone, all records of an open window count: it has fired at each multiple of `records`, and waits from the
    change on. A session has fired at none if `records` is alone, and by the eager plan only later records count.

    `early(final=True)` alone fires when windows close, as `on_close()` does. On bounded input it also fires the last
    count window of each key if it is not full, as does every `early` with `final`.

    All records of a sliding window that a new record makes count as new, also the older ones that it holds.
    Only windows with records since their last firing fire; with `repeat` each multiple of `every` fires the others too.
    Raises InvalidValue without a condition, for `records` below 1, durations that are not positive or not whole
    milliseconds, a negative or infinite threshold, and options that exclude each other; InvalidType for values of other
    types. Cost: that of
    `on_close()`, a record count per (slice, key) with records that have not fired, and for each early row a read of
    the slices of its window.

    >>> from slicing.stages.local_runner import stream
    >>> from slicing.windows.window import tumbling
    >>> batches, trigger = [[100_000], [200_000], [300_000], [1_500_000]], early(records=2, per="window")
    >>> [(row.batch, row.records, row.emission) for row in stream(tumbling("1 second"), batches, 0, trigger).rows]
    [(1, 2, 'early'), (4, 3, 'final')]
    >>> print(early(every="10 seconds"))
    early(every='10 seconds')
    >>> print(early(records=5, after="10 seconds"))
    early(records=5, per='window', after='10 seconds')
    """
    check_flag(repeat, "`repeat` says whether windows fire without new records, too")
    at_end = on_time or None
    asked = {"every": every, "records": records, "after": after, "when": when, "delta": delta, "on_time": at_end}
    given = {name: value for name, value in asked.items() if value is not None}
    if not given and final is not True:
        *others, last = (f"`{name}`" for name in asked)
        raise InvalidValue(
            f"`early` takes at least one of {', '.join(others)} and {last}: "
            'early(every="10 seconds"), early(records=100), or early(records=100, after="10 seconds").'
        )
    _check_options(given, per, by, repeat)
    check_flag(ends, "`ends` says whether records end their sessions if `when` is true")
    if ends and when is None:
        raise InvalidValue(
            "`ends` lets records end their sessions if `when` is true; there is no `when`. "
            'Write for example early(when=F.col("event") == "logout", ends=True).'
        )
    check_flag(on_time, "`on_time` says whether windows fire at their end, before they close")
    check_flag(late, "`late` says whether windows fire again for records that come after their end")
    if late and not on_time:
        raise InvalidValue(
            "`late` fires windows again for records that come after their end, at which `on_time` fires them. "
            "Write early(on_time=True, late=True), or on_close(corrections=True)."
        )
    final = True if final is None else final
    check_flag(final, "`final` says whether windows fire when they close, too")
    check_flag(purge, "`purge` says whether the records of a firing are dropped from their window")
    if purge and repeat:
        raise InvalidValue(
            "`purge` drops the records of a firing, so that a window without new records has none to fire again; "
            "`repeat` asks for that. Leave out one of them."
        )
    if buffer is not None and not isinstance(buffer, Buffer):
        raise InvalidType(
            f"`buffer` takes what buffer() returns; got {excerpt(buffer)}. Write for example buffer(records=100_000)."
        )
    if not given:
        return _alone(purge, buffer)
    waits = [*given] == ["records"] and per is None and final and not purge and buffer is None
    counting = ByWaitingRecords if waits else ByRecordsOfKey if per == KEY else ByRecords
    made: dict[str, Callable[[Any], Condition]] = {
        "records": lambda count: counting(_count(count)),
        "every": lambda duration: ByInterval(_interval(duration, "every"), by),
        "after": lambda duration: (ByEventDelay if by == EVENT else ByDelay)(_interval(duration, "after")),
        "when": lambda column: BySignal(column, ends),
        "delta": lambda pair: ByDelta(*_delta(pair)),
        "on_time": lambda _: ByEnd(late),
    }
    conditions = tuple(make(given[name]) for name, make in made.items() if name in given)
    return Early(conditions, final, repeat, purge, buffer)


def _alone(purge: bool, buffer: Buffer | None) -> Trigger:
    """Return the trigger of `early(final=True)`. Raises InvalidValue for options of firings that it does not have."""
    if purge or buffer is not None:
        name = "purge" if purge else "buffer"
        raise InvalidValue(
            f"`{name}` is about firings before windows close, and `early(final=True)` alone has none. Add a condition, "
            f'for example early(records=100, per="window"), or leave `{name}` out.'
        )
    return OnCloseAndEnd()


def _check_options(given: Mapping[str, Any], per: str | None, by: str, repeat: bool) -> None:
    if per is not None and (per not in PER or "records" not in given):
        raise InvalidValue(
            f'`per` says what `records` are counted for, "window" or "key"; got per={excerpt(per)} and '
            f'records={excerpt(given.get("records"))}. Write for example early(records=100, per="window").'
        )
    when = given.get("when", "")
    if not (isinstance(when, str) or is_column(when)):
        raise InvalidType(
            f"`when` is a column of booleans, by name or as an expression; got {excerpt(when)}. "
            'Write for example early(when=F.col("event") == "logout").'
        )
    if by not in TIMES or (by == EVENT and not {"every", "after"} & {*given}):
        raise InvalidValue(
            '`by` says what `every` and `after` go by, "clock" or "event"; '
            f"got by={excerpt(by)} and every={excerpt(given.get('every'))}. "
            'Write for example early(every="10 seconds", by="event").'
        )
    if repeat and "every" not in given:
        raise InvalidValue(
            "`repeat` lets windows fire at multiples of `every` without new records; there is no `every`. Leave it out."
        )


def _delta(given: tuple[Input, float]) -> tuple[Input, float]:
    if not (isinstance(given, tuple) and len(given) == 2 and (isinstance(given[0], str) or is_column(given[0]))):
        raise InvalidType(
            f"`delta` is a column of numbers, by name or as an expression, and a threshold; got {excerpt(given)}. "
            'Write for example early(delta=("speed", 5.0)).'
        )
    column, threshold = given
    if not isinstance(threshold, int | float) or isinstance(threshold, bool):
        raise InvalidType(f"the threshold of `delta` is a number; got {excerpt(threshold)}.")
    if not 0 <= threshold < math.inf:
        raise InvalidValue(f"the threshold of `delta` must be finite and not negative; got {excerpt(threshold)}.")
    return column, float(threshold)


def _interval(duration: Duration, name: str) -> int:
    length = microseconds(duration, name)
    if length < 1000 or length % 1000:
        raise InvalidValue(f"`{name}` must be whole milliseconds, at least one; got {excerpt(duration)}.")
    return length


def _count(records: Any) -> int:
    if not isinstance(records, int) or isinstance(records, bool):
        raise InvalidType(f"`records` must be a whole number; got {excerpt(records)}.")
    if records < 1:
        raise InvalidValue(
            f"`records` must be positive; got {excerpt(records)}. For every micro-batch use on_update()."
        )
    return records


ON_CLOSE = on_close()
