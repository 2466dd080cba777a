"""The calls that make triggers: `on_close`, `on_update`, `on_change`, `early`."""

from __future__ import annotations

from slicing.errors import InvalidType, InvalidValue, check_flag, excerpt
from slicing.triggers.change import OnChange
from slicing.triggers.close import OnClose
from slicing.triggers.early_by_clock import EarlyByClock
from slicing.triggers.early_by_count import EarlyByCount
from slicing.triggers.late import LateFirings
from slicing.triggers.latest import OnUpdateLatest
from slicing.triggers.trigger import Trigger
from slicing.triggers.update import OnUpdate
from slicing.windows.time.durations import Duration, microseconds

Emission = Trigger
"""What `.emit(...)` takes."""


def on_close(corrections: bool = False, old: bool = False, discarding: bool = False) -> Trigger:
    """Fire every window once, when it closes: at the watermark `end + grace`. This is the default.

    With `corrections` it fires at `end`, and again in each micro-batch with late records of it, until the watermark is
    at `end + grace`. A late firing has the result of all records (accumulating); with `old` also the result that it
    replaces (retracting); with `discarding` the result of the new records only. Raises InvalidValue for `old` or
    `discarding` without `corrections`, and for both.

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
    if not corrections:
        return OnClose()
    return LateFirings("old" if old else "discarding" if discarding else "")


def on_update(latest_only: bool = False) -> Trigger:
    """Fire each open window that got a record in the micro-batch, with its result so far; not again at its close.

    The rows are those of Spark's update mode. With `latest_only` a key that got records has at most one row: of the
    first open window that holds its newest record ("the last hour, as of now"), if that window got one.

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
    null, NaN equals NaN, floats by their bits.

    >>> print(on_change(drained=True))
    on_change(drained=True)
    """
    check_flag(drained, "`drained` says whether the first empty window fires")
    return OnChange(drained)


def early(every: Duration | None = None, records: int | None = None) -> Trigger:
    """Fire windows before they close with their results so far, and once more when they close.

    Either at every multiple of `every` by the clock of the trigger, of the windows that got a record since the tick
    before; or, of a key's windows that got a record, in the first micro-batch in which `records` more of the key have
    come. Raises InvalidValue unless exactly one is given and positive.

    >>> print(early(every="10 seconds"))
    early(every='10 seconds')
    """
    if (every is None) == (records is None):
        raise InvalidValue(
            '`early` takes either `every` or `records`: early(every="10 seconds") or early(records=100).'
        )
    if every is not None:
        length = microseconds(every, "every")
        if length < 1000 or length % 1000:
            raise InvalidValue(f"`every` must be whole milliseconds, at least one; got {excerpt(every)}.")
        return EarlyByClock(length)
    if not isinstance(records, int) or isinstance(records, bool):
        raise InvalidType(f"`records` must be a whole number; got {excerpt(records)}.")
    if records < 1:
        raise InvalidValue(
            f"`records` must be positive; got {excerpt(records)}. For every micro-batch use on_update()."
        )
    return EarlyByCount(records)


ON_CLOSE = on_close()
