"""Check a call of `.process`, and return its result: the stored columns of records, and the function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Required, TypedDict

from slicing.aggregates.aggregate import EVENT_TIME, Bound
from slicing.aggregates.fields import Field, parse_results
from slicing.aggregates.records import KeptRecords
from slicing.column_names import columns_in, is_column, unquoted
from slicing.errors import InvalidType, InvalidValue, check_flag, check_takes, excerpt
from slicing.process.evictors import Evictor
from slicing.process.function import Process, Then
from slicing.process.states import EVICTED, NO_STATES, States, declared
from slicing.windows.clock import ProcessingTime
from slicing.windows.time.durations import Duration
from slicing.windows.window import Window


@dataclass(frozen=True, repr=False)
class Processed(Bound):
    """The result of `.process`: the records of windows, bound to columns."""

    rows: tuple[Field, ...] = field(kw_only=True)

    nested: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its output columns."""
        return tuple(each.name for each in self.rows)


class ProcessOptions(TypedDict, total=False):
    """The arguments of `.process` besides the function; `Windowed.process` documents them."""

    returns: Required[str]
    columns: Sequence[str] | str
    batches: bool
    window_bytes: int | None
    key_state: str | None
    window_state: str | None
    clear: Callable[..., Any] | None
    key_ttl: Duration | None


@dataclass(frozen=True)
class _Source:
    """A function that returns the aggregate for columns of given types."""

    call: Process
    window_bytes: int | None

    def __call__(self, *kinds: str) -> KeptRecords:
        call = self.call.of_kinds(kinds)
        return call.keeping(kinds, window_bytes=self.window_bytes, by_parts=call.batches)


def of_options(
    function: Any,
    options: ProcessOptions,
    time: Any,
    window: Window,
    evictors: Iterable[Evictor],
    after: Iterable[Evictor],
) -> Processed:
    """Return the result of a call of `.process` with these arguments. Raises InvalidType and InvalidValue."""
    names = list(ProcessOptions.__annotations__)
    if unknown := [name for name in options if name not in names]:
        raise InvalidType(f"`process` has no argument `{unknown[0]}`. It takes {', '.join(names)}.")
    given: dict[str, Any] = dict(options)
    declares = {name: given.pop(name, None) for name in ("key_state", "window_state", "clear", "key_ttl")}
    return processing(function, time, window, evictors, after, declared(**declares, window=window), **given)


def processing(
    function: Callable[..., Any],
    time: Any,
    window: Window,
    evictors: Iterable[Evictor],
    after: Iterable[Evictor] = (),
    states: States = NO_STATES,
    *,
    returns: Any = None,
    columns: Any = (),
    window_bytes: int | None = None,
    batches: bool = False,
) -> Processed:
    """Return the result of a call of `.process`. Raises InvalidType and InvalidValue."""
    if not callable(function):
        raise InvalidType(f"`process` takes a function `(key, window, records, context)`; got {excerpt(function)}.")
    check_takes(function, "the function of `process`", "key", "window", "records", "context")
    if window_bytes is not None and (type(window_bytes) is not int or window_bytes < 1):
        raise InvalidValue(
            f"`window_bytes` is a positive number of bytes; got {excerpt(window_bytes)}. "
            "Write for example window_bytes=256 << 20, or leave it out for 64 MiB."
        )
    check_flag(batches, "`batches` says whether the function gets the records of a window part by part")
    names, rows, before, later = _columns(columns), _rows(returns), tuple(evictors), tuple(after)
    chosen = (*before, *later)
    if batches:
        _check_batches(before, later, window_bytes)
    if later:
        check_after(window)
        states = replace(states, window=(*states.window, Field(EVICTED, "binary")))
    timed = time is not None
    by = EVENT_TIME if isinstance(time, ProcessingTime) else time
    # The time of records is stored with them, but only once if `columns` has it, too.
    inputs = list(names) if not timed or by in names else [by, *names]
    if not inputs:
        raise InvalidValue('`process` needs columns of the records: name them, for example columns=["amount"].')
    if missing := [column for each in chosen for column in each.columns if column not in names]:
        raise InvalidValue(f"an evictor reads `{missing[0]}`, which is not among the columns of `process`. Add it.")
    check_evictors(chosen, timed)
    call = Process(
        function=function,
        returns=rows,
        window=window,
        states=states,
        columns=tuple((name, inputs.index(name)) for name in names),
        time=inputs.index(by) if timed else None,
        evictors=before,
        after=later,
        batches=batches,
    )
    return Processed(_Source(call, window_bytes), tuple(inputs), label="process", own=False, rows=rows)


def _check_batches(before: tuple[Evictor, ...], later: tuple[Evictor, ...], window_bytes: int | None) -> None:
    if window_bytes is not None:
        raise InvalidValue(
            "`window_bytes` bounds the records that a function gets at once, and with `batches=True` it gets parts of "
            "them; got both. Leave one of them out."
        )
    if needy := [each for each in before if each.needs_whole]:
        raise InvalidValue(
            f"`{needy[0]}` is a function of all records of a window, and `batches=True` gives them part by part. Leave "
            "records out in the function of `process`, or use keep_last, keep_newest or within_delta."
        )
    if later:
        raise InvalidValue(
            f"`evict({later[0]}, after=True)` needs all records of a window, and `batches=True` gives them part by "
            "part. Leave one of them out."
        )


def check_evictors(evictors: Iterable[Evictor], timed: bool) -> None:
    """Raise InvalidValue if an evictor needs the time of records, and there is none."""
    if not timed and (needy := [each for each in evictors if each.needs_time]):
        raise InvalidValue(
            f'{needy[0]} goes by the time of records, and there is none. Name its column: time="ts"; or leave the '
            "evictor out, which keeps all records, as Flink's does without timestamps."
        )


def check_after(window: Window) -> None:
    """Raise InvalidValue for evictors after the function if the order of a window's records may change."""
    if window.closes:
        raise InvalidValue(
            f"`evict(..., after=True)` removes records from later firings of a window, by their places in the order of "
            f"arrival, which windows that time or records close do not keep; got {window}. Leave `after` out: each "
            "firing then evicts from all records of its window."
        )
    if window.ttl is not None:
        raise InvalidValue(
            f"`evict(..., after=True)` remembers what was evicted since the last firing, and `ttl` forgets records by "
            f"their own clock; got {window}. Leave one of them out."
        )


def then(function: Any, returns: Any, window: Window, states: States = NO_STATES) -> Then:
    """Return the function `then` of a call of `.aggregate`. Raises InvalidType and InvalidValue."""
    if not callable(function):
        raise InvalidType(f"`then` takes a function `(key, window, results, context)`; got {excerpt(function)}.")
    check_takes(function, "`then`", "key", "window", "results", "context")
    return Then(function=function, returns=_rows(returns), window=window, states=states)


def _rows(returns: Any) -> tuple[Field, ...]:
    if not isinstance(returns, str):
        raise InvalidType(
            f'`returns` is the types of the rows as DDL, for example "n long, top double"; got {excerpt(returns)}.'
        )
    if not returns.strip():
        raise InvalidValue('`returns` names no column. Write for example "n long, top double".')
    return parse_results(returns)


def _columns(columns: Any) -> tuple[str, ...]:
    given = columns_in(columns)
    for column in given:
        if not isinstance(column, str):
            instead = " Compute it before, by `withColumn`." if is_column(column) else ""
            raise InvalidType(f"`columns` are names of columns; got {excerpt(column)}.{instead}")
    if len(set(given)) < len(given):
        raise InvalidValue(f"`columns` must differ; got {', '.join(given)}.")
    return tuple(map(unquoted, given))
