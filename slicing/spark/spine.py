"""The spine of `features_at` and of `at`: its rows are checked against the records and shipped to their buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from slicing.content.records import Records
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.spark.columns import Key, check_time_type
from slicing.spark.names import Names
from slicing.spark.query import Query
from slicing.stages.preaggregate import Dropped, ShuffleRecords, records_of


class ShipSpine(ShuffleRecords):
    """The first stage of a spine: ships each row with all of its columns as values, rows without a time too."""

    def _read(self, chunk: pa.Table, refused: Dropped) -> Records:
        times = chunk["time"].cast(pa.int64()).fill_null(0)
        return records_of(self.shape, chunk.set_column(0, "time", times), refused)


_FEATURES_AT = (
    'features_at(payments, hour="1 hour", time="ts")',
    "`features_at` is for bounded input, for training sets; the {} is a stream. Features as of each record of a stream "
    'are `.window(sliding("10 minutes", right=False, unit="1 microsecond"), time="ts")`.',
)
_AT = (
    "definition.at(labels, history)",
    "`at` is for bounded input, for training sets; the {} is a stream. Those of a stream are read by "
    "`slicing.serving.Reader`, after `definition.serve(events)`.",
)


def check_bounded(frame: DataFrame, spine: DataFrame, as_of: bool) -> None:
    """Raise InvalidValue if one of them is a stream, and InvalidType if the spine is no DataFrame.

    With `as_of` they are those of `at`.
    """
    form, of_stream = _AT if as_of else _FEATURES_AT
    if not isinstance(getattr(spine, "schema", None), T.StructType):
        raise InvalidType(
            f"the spine is a DataFrame with the keys and a time in each row; got {excerpt(spine)}. "
            f"Write for example `{form}`."
        )
    for which, each in (("history" if as_of else "grouped DataFrame", frame), ("spine", spine)):
        if each.isStreaming:
            raise InvalidValue(of_stream.format(which))


def resolve_spine(spine: DataFrame, keys: Sequence[Any], time: Any, of_records: Query, results: Sequence[str]) -> Query:
    """Return the query over the rows of a spine; its values are all columns, and the time if that is computed.

    `keys` and `time` are as in the call. Raises InvalidValue and InvalidType.
    """
    names = Names(spine)
    for name in spine.columns:
        if len(names.alike(spine.columns, name)) > 1:
            raise InvalidValue(f"spine column `{name}` is ambiguous: several columns have this name. Rename one.")
    for name in results:
        if names.alike(spine.columns, name):
            raise InvalidValue(f"result name `{name}` collides with a column of the spine. Choose another name.")
    for field in spine.schema.fields:
        if _has_months(field.dataType):
            raise InvalidType(
                f"spine column `{field.name}` has type {field.dataType.simpleString()}, which Arrow cannot carry. "
                'Drop it, or cast it first, for example `.cast("string")`.'
            )
    found = tuple(_key(names, *each) for each in zip(keys, of_records.keys, strict=True))
    timed_by = _time(names, time, of_records.schema[of_records.time].dataType)
    columns = tuple(dict.fromkeys((*spine.columns, timed_by)))
    return replace(of_records, frame=names.frame, schema=names.schema, keys=found, time=timed_by, columns=columns)


def _key(names: Names, given: Any, of_records: Key) -> Key:
    try:
        names.field(given, "key column of the spine")
    except InvalidValue as error:
        remedy = "Keys are called alike on both sides: rename it there, for example with `withColumnRenamed`."
        raise InvalidValue(f"{error} {remedy}") from None
    key = names.key(given)
    own, theirs = key.type.simpleString(), of_records.type.simpleString()
    if own != theirs:
        raise InvalidType(
            f"key column `{key.name}` must be of one type; got {theirs} in the records and {own} in the spine. "
            f'Cast one, for example `.cast("{theirs}")`.'
        )
    return key


def _time(names: Names, given: Any, of_records: T.DataType) -> str:
    try:
        field = names.field(given, "time column of the spine")
    except InvalidValue as error:
        raise InvalidValue(f'{error} Say what it is called there, for example spine_time="at".') from None
    check_time_type(field.name, field.dataType, names.computed(field.name))
    if field.dataType != of_records:
        raise InvalidType(
            f"times must be of one type; got {of_records.simpleString()} of the records and "
            f"{field.dataType.simpleString()} in column `{field.name}` of the spine. "
            f'Cast one, for example `.cast("{of_records.simpleString()}")`.'
        )
    return field.name


def _has_months(kind: T.DataType) -> bool:
    """Whether a type is, or contains, an interval with months: PySpark has no Arrow type for these."""
    if isinstance(kind, T.StructType):
        return any(_has_months(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _has_months(kind.elementType)
    if isinstance(kind, T.MapType):
        return _has_months(kind.keyType) or _has_months(kind.valueType)
    return isinstance(kind, (T.CalendarIntervalType, T.YearMonthIntervalType))
