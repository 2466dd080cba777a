"""The function of `.process`, and how what it returns becomes rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.records import times_of
from slicing.errors import FunctionFailed, InvalidType, RowFailure, SlicingError, excerpt, raised
from slicing.process.context import Context, Span
from slicing.process.evictors import Evictor
from slicing.windows.window import Window

Firing = tuple[tuple[Any, ...], Span | None]
"""The key and the window of a firing."""
_REMEDY = "Mend the function and start again: the micro-batch is repeated."
_FLUSHED = 10_000
"""So many rows become columns at once, so that their Python objects do not pile up."""


@dataclass(frozen=True)
class Process:
    """What `.process` was called with: `columns` are the names of a record's columns that the function gets, by place.

    `time` is the place of the column of times, None if there is none; `zoned` says whether times have a zone.
    """

    function: Callable[..., Any]
    returns: tuple[Field, ...]
    columns: tuple[tuple[str, int], ...]
    window: Window
    zoned: bool = True
    time: int | None = None
    evictors: tuple[Evictor, ...] = ()

    def rows(
        self, records: pa.Array, first: Array, end: Array, firings: Iterator[Firing], context: Context
    ) -> tuple[Array, list[pa.Array]]:
        """Call the function for windows, of records `first[i]` up to `end[i]` each.

        Return for each row that it returns the number of its window, and the columns of the rows. Raises RowFailure.
        """
        made, counts = _Rows(self.returns), np.zeros(len(first), dtype=np.int64)
        table, times = self._table(records), self._times(records)
        try:
            for number, (low, high, (key, window)) in enumerate(
                zip(first.tolist(), end.tolist(), firings, strict=True)
            ):
                some = table.slice(low, high - low)
                try:
                    if self.evictors:
                        some = self._left(some, times[low:high], window, context)
                    counts[number] = made.add(self.function(key, window, some, context))
                except (MemoryError, _Unfit):
                    raise
                except Exception as error:
                    raise _failure(error, number) from error
            columns = made.columns()
        except _Unfit as unfit:
            failed = min(number, int(np.searchsorted(np.cumsum(counts), unfit.row, side="right")))
            raise RowFailure(InvalidType, unfit.rule, unfit.cause, unfit.remedy, failed) from unfit
        return np.repeat(np.arange(len(first)), counts), columns

    def _table(self, records: pa.Array) -> pa.Table:
        columns = records.flatten()
        return pa.table([columns[at] for _, at in self.columns], names=[name for name, _ in self.columns])

    def _times(self, records: pa.Array) -> Array:
        return np.zeros(len(records), np.int64) if self.time is None else times_of(records, self.time)

    def _left(self, records: pa.Table, times: Array, window: Span | None, context: Context) -> pa.Table:
        for each in self.evictors:
            kept = each.kept(records, times, window, context)
            if isinstance(kept, slice):
                records = records.slice(kept.start, kept.stop - kept.start)
            else:
                records = records.filter(pa.array(kept))
            times = times[kept]
        return records


class _Unfit(Exception):
    """A row, by its number, that does not fit the types of `returns`."""

    def __init__(self, row: int, cause: str, names: str):
        super().__init__(row, cause, names)
        self.row, self.cause = row, cause
        self.rule = f"`process` must return rows of `{names}`;"
        self.remedy = "Return these types, or give another `returns`."


class _Rows:
    """Rows that were returned, in their order, as columns of the fields of `returns`."""

    def __init__(self, fields: Sequence[Field]):
        self.fields, self.names = fields, [field.name for field in fields]
        self.schema = pa.schema([(field.name, arrow_type(field.kind)) for field in fields])
        self._waiting: list[Sequence[Any]] = []
        self._parts: list[pa.Table] = []
        self._count = 0

    def add(self, returned: Any) -> int:
        """Take what one call returned; return how many rows that is. Raises InvalidType."""
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
            f"`process` must return a list of rows, each a tuple or a dict of {wanted}, a pyarrow.Table or a pandas "
            f"DataFrame; got {excerpt(found)}."
        )

    def _add_table(self, table: pa.Table | pa.RecordBatch) -> int:
        if set(table.schema.names) != set(self.names):
            raise InvalidType(
                f"`process` must return tables with the columns {', '.join(self.names)}; got "
                f"{', '.join(table.schema.names)}."
            )
        whole = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
        self._flush()
        self._parts.append(whole.select(self.names).cast(self.schema))
        self._count += len(whole)
        return len(whole)

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
            return _typed(items, type_)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            row = next((at for at, item in enumerate(items) if not _fits(item, type_)), 0)
            cause = f"got {excerpt(items[row])} for `{self.fields[at]}` ({raised(error)})"
            raise _Unfit(self._count + row, cause, ", ".join(map(str, self.fields))) from error

    def columns(self) -> list[pa.Array]:
        """Return the columns of all rows."""
        self._flush()
        whole = pa.concat_tables([self.schema.empty_table(), *self._parts]).combine_chunks()
        return [column.combine_chunks() for column in whole.columns]


def _typed(items: list[Any], type_: pa.DataType) -> pa.Array:
    # Given the type, pyarrow would cut 2.5 to 2, and numpy's scalars are not taken inside lists.
    array = pa.array(items) if pa.types.is_integer(type_) else pa.array(items, type_)
    if pa.types.is_string(array.type) != pa.types.is_string(type_):
        raise pa.ArrowInvalid("text is not a number")
    return array if array.type == type_ else array.cast(type_)


def _fits(item: Any, type_: pa.DataType) -> bool:
    try:
        _typed([item], type_)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return False
    return True


def _is_pandas(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns")


def _failure(error: Exception, number: int) -> RowFailure:
    """The failure of the call for a window, by its number."""
    if isinstance(error, SlicingError):
        return RowFailure(type(error), f"{str(error).rstrip('.')}.", "Found", _REMEDY, number)
    return RowFailure(FunctionFailed, "`process` raised", raised(error), _REMEDY, number)
