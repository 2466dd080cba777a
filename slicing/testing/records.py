"""The records of a micro-batch as users write them, and as the first stage of a query reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa

from slicing.aggregates.fields import FLOATS, arrow_type, element_of, members_of
from slicing.column_names import parts_of
from slicing.content.signals import SIGNALS
from slicing.drafts.call import Time
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.spark.query import Query
from slicing.stages import flat
from slicing.stages.flat import numbered
from slicing.windows.time.instants import Instant, microseconds_of

Record: TypeAlias = Mapping[str, Any]
_FORMS = "a list of dicts or of tuples, an Arrow table, or a pandas DataFrame"


def rows_of(given: Any, names: Sequence[str]) -> list[Record]:
    """Return the records of a micro-batch as dicts; `names` are those of tuples, and empty if they are unknown.

    Raises InvalidType for another form, InvalidValue for tuples of another length.
    """
    if hasattr(given, "to_pylist"):
        return list(given.to_pylist())
    if hasattr(given, "columns") and hasattr(given, "dtypes"):
        return list(pa.Table.from_pandas(given, preserve_index=False).to_pylist())
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidType(f"a micro-batch is {_FORMS}; got {excerpt(given)}.")
    return [_row(each, names) for each in given]


def _row(given: Any, names: Sequence[str]) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, tuple | list):
        raise InvalidType(f"a record is a dict or a tuple; got {excerpt(given)}. A micro-batch is {_FORMS}.")
    names = getattr(given, "_fields", names)
    if len(given) != len(names):
        columns = f"the columns are {', '.join(names)}" if names else "there is no `schema`"
        raise InvalidValue(
            f"a tuple has a value for each column of `schema`, in their order; got {excerpt(given)}, and {columns}. "
            'Say for example schema="user string, ts timestamp, amount double", or give dicts.'
        )
    return dict(zip(names, given, strict=True))


def inferred(micro_batches: Iterable[Sequence[Record]], time: Any) -> pa.Table:
    """Return a table of all records, with the types that Arrow finds; text of the time column is a time there.

    Raises InvalidValue if there are no records, and for columns whose values have no common type.
    """
    records = [record for batch in micro_batches for record in batch]
    names = dict.fromkeys(name for record in records for name in record)
    if not names:
        raise InvalidValue(
            "the types of columns are those of the records, and there are none. Say them, for example "
            'schema="user string, ts timestamp, amount double".'
        )
    return pa.table({name: _found(name, [each.get(name) for each in records], name == time) for name in names})


def _found(name: str, values: list[Any], is_time: bool) -> pa.Array:
    if is_time and all(value is None or isinstance(value, str) for value in values):
        return pa.nulls(len(values), pa.timestamp("us"))
    try:
        array = pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise _failed(name, "one type", error) from None
    if pa.types.is_null(array.type):
        raise InvalidValue(f"column `{name}` has only nulls, which have no type. Say it, by `schema`.")
    # Arrow finds the digits that these values need, Spark a decimal of 38.
    return array.cast(pa.decimal128(38, 18)) if pa.types.is_decimal(array.type) else array


@dataclass(frozen=True)
class Records:
    """Makes what the first stage of a query reads of records. Times without a zone are in `zone`."""

    query: Query
    names: tuple[str, ...]
    zone: tzinfo

    def times(self, rows: Sequence[Record]) -> list[int | None]:
        """Return the event times of records, in microseconds. Raises InvalidType and InvalidValue."""
        kind = "timestamp_ntz" if self.query.ntz else "timestamp"
        return [self._micros(row.get(self.query.time), kind) for row in rows]

    def batch(self, rows: Sequence[Record], clock: int) -> pa.RecordBatch:
        """Return the columns of records; `clock` is that of the micro-batch, in microseconds.

        Raises InvalidType for values of other types than those of their columns, InvalidValue for other columns.
        """
        query = self.query
        for row in rows:
            if unknown := [name for name in row if name not in self.names]:
                raise InvalidValue(
                    f"a record has `{unknown[0]}`, and the columns of `schema` are {', '.join(self.names)}. Leave it "
                    "out, or add it to the schema."
                )
        times = (
            [clock] * len(rows) if query.clock is Time.CLOCK else self.times(rows) if query.time else [0] * len(rows)
        )
        columns = {flat.TIME: pa.array(times, pa.timestamp("us", "UTC"))}
        leaves = [self._leaf(rows, key.source, part) for key in query.keys for part in key.parts()]
        leaves = leaves or [pa.nulls(len(rows), pa.bool_()).fill_null(True)]
        if gap := getattr(query.window, "gap_column", None):
            leaves.append(pa.array([_length(value) for value in self._values(rows, gap)], pa.int64()))
        columns |= numbered(flat.KEY, leaves)
        values = [self._array(field.name, field.kind, self._values(rows, field.name)) for field in query.values]
        columns |= numbered(flat.VALUE, values)
        for name, column in query.options.trigger.reads.items():
            signal = SIGNALS[name]
            read = self._values(rows, column)
            read = [None if x is None else float(x) for x in read] if signal.kind == "double" else read
            columns[signal.column] = self._array(column, signal.kind, read)
        return pa.RecordBatch.from_pydict(columns)

    def _values(self, rows: Sequence[Record], name: str) -> list[Any]:
        """The values of a column, or of a field of a struct."""
        path = [name] if name in self.names else parts_of(name)
        return [reduce(_field, path, row) for row in rows]

    def _leaf(self, rows: Sequence[Record], source: str, part: Any) -> pa.Array:
        values = [reduce(_field, part.path, value) for value in self._values(rows, source)]
        if part.is_struct:
            return pa.array([value is not None for value in values])
        if part.field.kind in FLOATS:  # all zeros are one key
            values = [0.0 if value == 0 else value for value in values]
        return self._array(part.field.name, part.field.kind, values)

    def _array(self, name: str, kind: str, values: Sequence[Any]) -> pa.Array:
        try:
            return pa.array([self._read(value, kind) for value in values], arrow_type(kind), from_pandas=False)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, InvalidType | InvalidValue):
                raise
            raise _failed(name, kind, error) from None

    def _read(self, value: Any, kind: str) -> Any:
        """A value as Arrow takes it: instants as microseconds, also in arrays and structs."""
        if value is None:
            return None
        if kind.startswith("timestamp"):
            return self._micros(value, kind)
        if element := element_of(kind):
            return [self._read(each, element) for each in value]
        if members := members_of(kind):
            return {member.name: self._read(_field(value, member.name), member.kind) for member in members}
        return value

    def _micros(self, value: Any, kind: str) -> int | None:
        """An instant in microseconds; a timestamp_ntz has no zone, its wall clock is that of UTC."""
        return None if value is None else instant(value, UTC if kind == "timestamp_ntz" else self.zone)


def instant(given: Instant, zone: tzinfo) -> int:
    """Return an instant in microseconds; one without a zone is in `zone`. Raises InvalidValue and InvalidType."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            raise InvalidValue(f'a time is ISO text such as "2024-05-01 12:03"; got {excerpt(given)}.') from None
    if isinstance(given, datetime) and given.tzinfo is None:
        given = given.replace(tzinfo=zone)
    return microseconds_of(given, "a time")


def _field(value: Any, name: str) -> Any:
    """A field of a struct, null of a null."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _length(gap: Any) -> int | None:
    return gap // timedelta(microseconds=1) if isinstance(gap, timedelta) else gap


def _failed(name: str, kind: str, error: Exception) -> InvalidType:
    return InvalidType(f"the values of column `{name}` must be {kind}: {str(error).splitlines()[0]}. Correct them.")
