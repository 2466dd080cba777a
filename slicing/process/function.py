"""Call users' functions of the records or results of windows, and convert their return values to rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.record_file import Records, parts_of
from slicing.aggregates.records import KeptRecords, kept_records, times_of
from slicing.errors import FunctionFailed, InvalidType, RowFailure, SlicingError, excerpt, raised
from slicing.process.context import Context, Firing, Span
from slicing.process.evictors import Evictor, Parts, check_kinds, chosen_of
from slicing.process.remembered import FunctionStates
from slicing.process.states import EVICTED, NO_STATES, States
from slicing.process.values import UNFIT, fits, typed
from slicing.windows.window import Window

_REMEDY = "Correct the function and start again: the micro-batch is repeated."
_FLUSHED = 10_000
"""The number of rows that are converted to columns at once, so that their Python objects do not pile up."""
Given: TypeAlias = Callable[[int, Span | None, Context], Any]
"""A function of the number, the window and the context of a firing. It returns the third argument of the user's call:
the records or the results."""


@dataclass(frozen=True, kw_only=True)
class WindowFunction:
    """A user's function that returns rows for a window. `zoned` says whether times have a zone.

    `name` is the name of the argument or method that took the function. With `spans` the last kernel of its windows has
    their first and last event times, which count windows with a time need.
    """

    function: Callable[..., Any]
    returns: tuple[Field, ...]
    window: Window
    zoned: bool = True
    states: States = NO_STATES
    name: str = "process"
    spans: bool = False

    def called(
        self,
        given: Given,
        firings: Iterable[Firing],
        context: Context,
        remembered: FunctionStates | None = None,
    ) -> tuple[Array, list[pa.Array]]:
        """Call the function for each firing, with the records or results that `given` returns.

        Returns the number of the firing of each row (`int64[n]`), and the columns of the rows. Raises RowFailure.
        """
        made, number = _Rows(self.returns, self.name), 0
        counts: list[int] = []
        call = self._plain if remembered is None else partial(self._remembering, remembered)
        try:
            for number, firing in enumerate(firings):
                try:
                    counts.append(made.add(call(given, number, firing, context)))
                except (MemoryError, _Unfit):
                    raise
                except Exception as error:
                    raise self._failure(error, number) from error
            columns = made.columns()
        except _Unfit as unfit:
            failed = min(number, int(np.searchsorted(np.cumsum(counts), unfit.row, side="right")))
            raise RowFailure(InvalidType, unfit.rule, unfit.cause, unfit.remedy, failed) from unfit
        return np.repeat(np.arange(len(counts)), np.array(counts, dtype=np.int64)), columns

    def _plain(self, given: Given, number: int, firing: Firing, context: Context) -> Any:
        return self.function(firing.key, firing.window, given(number, firing.window, context), context)

    def _remembering(
        self, remembered: FunctionStates, given: Given, number: int, firing: Firing, context: Context
    ) -> Any:
        own = remembered.context(firing, context)
        returned = self._plain(given, number, firing, own)
        if isinstance(returned, Iterator):
            returned = list(returned)  # a generator sets the states as it makes its rows
        remembered.note(firing, own)
        return returned

    def _failure(self, error: Exception, number: int) -> RowFailure:
        """Return the failure of the call for window `number`."""
        if isinstance(error, SlicingError):
            return RowFailure(type(error), f"{str(error).rstrip('.')}.", "Found", _REMEDY, number)
        return RowFailure(FunctionFailed, f"`{self.name}` raised", raised(error), _REMEDY, number)


@dataclass(frozen=True, kw_only=True)
class Process(WindowFunction):
    """The function of `.process`. `columns` has the name and the position of each column that the function gets.

    `time` is the position of the column of times, None if there is none. With `batches` the function gets an iterator
    of tables instead of one table. The evictors `after` the function remove records from later firings; the removed
    records are stored in the state of the window, so such functions always have one.
    """

    columns: tuple[tuple[str, int], ...]
    time: int | None = None
    evictors: tuple[Evictor, ...] = ()
    after: tuple[Evictor, ...] = ()
    batches: bool = False
    remedy: str = (
        "Say `batches=True`, so that the function gets them part by part; name fewer `columns`; take shorter windows; "
        "aggregate the records; or give more `window_bytes` if workers have several times as much memory."
    )
    """The remedies in the message about a window that takes too much memory."""

    def of_kinds(self, kinds: Sequence[str]) -> Self:
        """Return this function for columns of these kinds. Raises InvalidType for evictors that need other ones."""
        check_kinds((*self.evictors, *self.after), {name: kinds[at] for name, at in self.columns})
        zoned = self.time is None or kinds[self.time] != "timestamp_ntz"
        return replace(self, zoned=zoned, spans=self.window.counts and self.time is not None)

    def keeping(self, kinds: Sequence[str], **options: Any) -> KeptRecords:
        """Return the aggregate that keeps records of columns of these kinds for this function."""
        values = [Field(f"v{at}", kind) for at, kind in enumerate(kinds)]
        time = self.time if self.window.by_time else None
        return kept_records(values, time, rows=self.returns, call=self, **options)

    def rows(
        self,
        records: Records,
        first: Array,
        end: Array,
        firings: Iterable[Firing],
        context: Context,
        remembered: FunctionStates | None = None,
    ) -> tuple[Array, list[pa.Array]]:
        """Call the function for windows; window i has records `first[i]` up to `end[i]`. Returns as `called`."""
        give = self._parts if self.batches else self._whole
        return self.called(give(records, first.tolist(), end.tolist()), firings, context, remembered)

    def _parts(self, records: Records, low: list[int], high: list[int]) -> Given:
        """Return the argument of a call: an iterator of tables of bounded size, none of them empty."""

        def given(number: int, window: Span | None, context: Context) -> Iterator[pa.Table]:
            parts = Parts(
                lambda: (
                    (self._table(part), self._times(part)) for part in parts_of(records, low[number], high[number])
                )
            )
            for each in self.evictors:
                parts = each.left(parts)
            return (table for table, _ in parts)

        return given

    def _whole(self, records: pa.StructArray, low: list[int], high: list[int]) -> Given:
        """Return the argument of a call: the records of a window as one table."""
        table = self._table(records)
        if not (self.evictors or self.after):
            return lambda number, window, context: table.slice(low[number], high[number] - low[number])
        times = self._times(records)

        def given(number: int, window: Span | None, context: Context) -> pa.Table:
            some, own = table.slice(low[number], high[number] - low[number]), times[low[number] : high[number]]
            return self.left(some, own, window, context)[0]

        return given

    def left(self, records: pa.Table, times: Array, window: Span | None, context: Context) -> tuple[pa.Table, Array]:
        """Return the records of a window that the function gets, and their positions in the window: `int64[n]`."""
        if self.after:
            return self._without_evicted(records, times, window, context)
        found, _, places = _left(self.evictors, records, times, window, context)
        return found, places

    def _table(self, records: pa.StructArray) -> pa.Table:
        columns = records.flatten()
        return pa.table([columns[at] for _, at in self.columns], names=[name for name, _ in self.columns])

    def _times(self, records: pa.StructArray) -> Array:
        return np.zeros(len(records), np.int64) if self.time is None else times_of(records, self.time)

    def _without_evicted(
        self, records: pa.Table, times: Array, window: Span | None, context: Context
    ) -> tuple[pa.Table, Array]:
        """Return the records that neither an earlier firing nor the evictors have evicted, and their positions.

        Evictors after the function see the same records as the function, so they may run before it. Their evicted
        records are stored in the state of the window.
        """
        assert context.window_state is not None, "declared with the evictors"
        there = np.flatnonzero(~unpacked(getattr(context.window_state, EVICTED), len(records)))
        given, times, places = _left(self.evictors, records.take(pa.array(there)), times[there], window, context)
        _, _, kept = _left(self.after, given, times, window, context)
        evicted = np.ones(len(records), dtype=bool)
        evicted[there[places][kept]] = False
        setattr(context.window_state, EVICTED, packed(evicted))
        return given, there[places]


def _left(
    evictors: Iterable[Evictor], records: pa.Table, times: Array, window: Span | None, context: Context
) -> tuple[pa.Table, Array, Array]:
    """Apply evictors one after another, and return the records that are left, their times and their positions."""
    places = np.arange(len(records))
    for each in evictors:
        kept = each.kept(records, times, window, context)
        records, times, places = chosen_of(records, kept), times[kept], places[kept]
    return records, times, places


def packed(flags: Array) -> bytes:
    """Return booleans as bits."""
    return np.packbits(flags).tobytes()


def unpacked(bits: bytes | None, count: int) -> Array:
    """Return `count` booleans of bits: the inverse of `packed`. Those without a bit, of newer records, are false."""
    given = np.unpackbits(np.frombuffer(bits or b"", dtype=np.uint8))[:count].astype(bool)
    return np.concatenate([given, np.zeros(count - len(given), dtype=bool)])


class _Unfit(Exception):
    """The error of a row, given by its number, that does not fit the types of `returns`."""

    def __init__(self, row: int, cause: str, names: str, call: str):
        super().__init__(row, cause, names, call)
        self.row, self.cause = row, cause
        self.rule = f"`{call}` must return rows of `{names}`;"
        self.remedy = "Return these types, or give another `returns`."


class _Rows:
    """The rows that functions have returned, in order, as columns of the fields of `returns`."""

    def __init__(self, fields: Sequence[Field], call: str):
        self.fields, self.names, self.call = fields, [field.name for field in fields], call
        self.schema = pa.schema([(field.name, arrow_type(field.kind)) for field in fields])
        self._waiting: list[Sequence[Any]] = []
        self._parts: list[pa.Table] = []
        self._count = 0

    def add(self, returned: Any) -> int:
        """Add the return value of one call, and return its number of rows. Raises InvalidType."""
        if returned is None:
            return 0
        if _is_pandas(returned):
            returned = pa.Table.from_pandas(returned, preserve_index=False)
        if isinstance(returned, (pa.Table, pa.RecordBatch)):
            return self._add_table(returned)
        if isinstance(returned, (str, bytes, dict)) or not isinstance(returned, Iterable):
            raise InvalidType(self._wrong(returned))
        before = len(self._waiting)
        self._waiting.extend(map(self._row, returned))
        added = len(self._waiting) - before
        if len(self._waiting) >= _FLUSHED:
            self._flush()
        return added

    def _row(self, row: Any) -> Sequence[Any]:
        if isinstance(row, dict) and row.keys() == set(self.names):
            return [row[name] for name in self.names]
        if isinstance(row, (tuple, list)) and len(row) == len(self.names):
            return row
        raise InvalidType(self._wrong(row))

    def _wrong(self, found: Any) -> str:
        wanted = f"{len(self.fields)} values ({', '.join(map(str, self.fields))})"
        return (
            f"`{self.call}` must return a list of rows, each a tuple or a dict of {wanted}, a pyarrow.Table or a "
            f"pandas DataFrame; got {excerpt(found)}."
        )

    def _add_table(self, table: pa.Table | pa.RecordBatch) -> int:
        if sorted(table.schema.names) != sorted(self.names):
            raise InvalidType(
                f"`{self.call}` must return tables with the columns {', '.join(self.names)}; got "
                f"{', '.join(table.schema.names)}."
            )
        whole = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
        self._flush()
        self._parts.append(pa.table([self._converted(whole, field) for field in self.schema], schema=self.schema))
        self._count += len(whole)
        return len(whole)

    def _converted(self, table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
        try:
            return table[field.name].cast(field.type)
        except pa.ArrowException as error:
            raise InvalidType(
                f"`{self.call}` must return tables of `{', '.join(map(str, self.fields))}`; got "
                f"`{field.name} {table[field.name].type}` ({raised(error)})."
            ) from error

    def _flush(self) -> None:
        if self._waiting:
            columns = zip(*self._waiting, strict=True)
            arrays = [self._array(list(column), at) for at, column in enumerate(columns)]
            self._parts.append(pa.table(arrays, schema=self.schema))
            self._count += len(self._waiting)
            self._waiting = []

    def _array(self, items: list[Any], at: int) -> pa.Array:
        type_ = self.schema.types[at]
        try:
            return typed(items, type_)
        except UNFIT as error:
            row = next((at for at, item in enumerate(items) if not fits(item, type_)), 0)
            cause = f"got {excerpt(items[row])} for `{self.fields[at]}` ({raised(error)})"
            raise _Unfit(self._count + row, cause, ", ".join(map(str, self.fields)), self.call) from error

    def columns(self) -> list[pa.Array]:
        """Return the columns of all rows."""
        self._flush()
        whole = pa.concat_tables([self.schema.empty_table(), *self._parts]).combine_chunks()
        return [column.combine_chunks() for column in whole.columns]


def _is_pandas(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns")


@dataclass(frozen=True, kw_only=True)
class Then(WindowFunction):
    """The function `then` of `.aggregate`. It gets the results of each window as a dict by name."""

    name: str = "then"

    def rows(
        self,
        results: pa.StructArray,
        firings: Iterable[Firing],
        context: Context,
        remembered: FunctionStates | None = None,
    ) -> tuple[Array, list[pa.Array]]:
        """Call the function for windows, each with its row of results. Returns as `called`."""
        values = results.to_pylist()
        return self.called(lambda number, window, context: values[number], firings, context, remembered)
