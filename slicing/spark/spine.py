"""The spine of `features_at`: the rows that are asked for, checked against the records and shipped to their buckets."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from slicing.blocks.records import Records
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.spark.columns import Key, check_time_type
from slicing.spark.preaggregate import Refused, Ship, records_of


class ShipSpine(Ship):
    """The first stage of a spine: rows as they are, all columns as values; what has no time is shipped as any other."""

    def _read(self, chunk: pa.Table, refused: Refused) -> Records:
        times = chunk["time"].cast(pa.int64()).fill_null(0)
        return records_of(self.shape, chunk.set_column(0, "time", times), refused)


def check_bounded(frame: DataFrame, spine: DataFrame) -> None:
    """Refuse streams, which have no history to look up. Raises InvalidType for a spine that is no DataFrame."""
    if not isinstance(getattr(spine, "schema", None), T.StructType):
        raise InvalidType(
            f"the spine is a DataFrame with the keys and a time in each row; got {excerpt(spine)}. "
            'Write for example `features_at(payments, hour="1 hour", time="ts")`.'
        )
    for which, each in (("grouped DataFrame", frame), ("spine", spine)):
        if each.isStreaming:
            raise InvalidValue(
                f"`features_at` is for bounded input, for training sets; the {which} is a stream. Features as of each "
                'record of a stream are `.window(sliding("10 minutes", right=False, unit="1 microsecond"), time="ts")`.'
            )


def check_spine(
    spine: DataFrame, time: str, keys: Sequence[Key], of_records: T.DataType, results: Sequence[str]
) -> None:
    """Check the columns of a spine. Raises InvalidValue and InvalidType.

    `time` is the name of its time column, `of_records` the type of that of the records.
    """
    known = [name.casefold() for name in spine.columns]
    for name in spine.columns:
        if known.count(name.casefold()) > 1:
            raise InvalidValue(f"spine column `{name}` is ambiguous: several columns have this name. Rename one.")
    for key in keys:
        _check_key(spine, key)
    if time not in spine.columns:
        raise InvalidValue(
            f"the spine has no time column `{time}`; its columns are {', '.join(spine.columns)}. "
            'Say what it is called there, for example spine_time="at".'
        )
    own = spine.schema[time].dataType
    check_time_type(time, own)
    if own != of_records:
        raise InvalidType(
            f"times must be of one type; got {of_records.simpleString()} of the records and {own.simpleString()} in "
            f'column `{time}` of the spine. Cast one, for example `.cast("{of_records.simpleString()}")`.'
        )
    for name in results:
        if name.casefold() in known:
            raise InvalidValue(f"result name `{name}` collides with a column of the spine. Choose another name.")
    for field in spine.schema.fields:
        if _has_calendar_interval(field.dataType):
            raise InvalidType(
                f"spine column `{field.name}` has type {field.dataType.simpleString()}, which Arrow cannot carry. "
                f'Drop it, or cast it first, for example `.cast("string")`.'
            )


def _check_key(spine: DataFrame, key: Key) -> None:
    if key.name not in spine.columns:
        raise InvalidValue(
            f"the spine has no key column `{key.name}`; its columns are {', '.join(spine.columns)}. "
            "Keys are called alike on both sides: rename it there with `withColumnRenamed`."
        )
    own, theirs = spine.schema[key.name].dataType.simpleString(), key.type.simpleString()
    if own != theirs:
        raise InvalidType(
            f"key column `{key.name}` must be of one type; got {theirs} in the records and {own} in the spine. "
            f'Cast one, for example `.cast("{theirs}")`.'
        )


def _has_calendar_interval(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return any(_has_calendar_interval(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _has_calendar_interval(kind.elementType)
    if isinstance(kind, T.MapType):
        return _has_calendar_interval(kind.keyType) or _has_calendar_interval(kind.valueType)
    return isinstance(kind, T.CalendarIntervalType)
