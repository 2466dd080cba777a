"""Schema, watermark and partitions declared by a definition, so that building a query asks Spark nothing.

Inside a query function of a declarative pipeline, Spark cannot answer questions about a DataFrame: schemas are known
only when the whole dataflow graph is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.column_names import is_column, unquoted
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.spark.columns import quoted
from slicing.spark.ddl import struct_of
from slicing.spark.late import DELAY
from slicing.spark.requirements import on_connect
from slicing.windows.clock import ProcessingTime
from slicing.windows.time.durations import Duration, microseconds
from slicing.windows.window import Window


@dataclass(frozen=True)
class Declared:
    """The declared facts about a DataFrame: its columns, whether it is a stream, its watermark, the shuffle partitions.

    `watermark` is the time column and the delay in milliseconds. The metadata of that column in `schema` hold the delay
    too, as Spark writes it. It is None on bounded input, and where time closes no window.
    """

    schema: T.StructType
    streaming: bool
    watermark: tuple[str, int] | None
    partitions: int

    def read(self, frame: DataFrame) -> DataFrame:
        """Return the declared columns of a DataFrame, with the watermark; ask Spark nothing."""
        found = frame.select(*map(_checked, self.schema.fields))
        if self.watermark is None:
            return found
        time, delay = self.watermark
        return found.withWatermark(time, f"{delay} milliseconds")


def declare(
    schema: str | T.StructType, streaming: bool, delay: Duration | None, partitions: int, window: Window, time: Any
) -> Declared:
    """Return a checked declaration. Raises InvalidType and InvalidValue."""
    columns = _columns(schema)
    if not isinstance(streaming, bool):
        raise InvalidType(f"`streaming` is True or False; got {excerpt(streaming)}.")
    if not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1:
        raise InvalidValue(f"`partitions` must be a positive integer; got {excerpt(partitions)}.")
    waits = streaming and window.by_time and not isinstance(time, ProcessingTime)
    if delay is None:
        if waits:
            raise InvalidValue(
                "the watermark of a stream is declared with its schema, as it cannot be asked for. Say how late "
                'records may be: `declare(schema, streaming=True, watermark="10 minutes")`.'
            )
        return Declared(columns, streaming, None, partitions)
    if not waits:
        why = "where time closes no window" if streaming else "on bounded input"
        raise InvalidValue(
            f"`watermark` is for late records, and nothing is late {why}; got {window} with watermark="
            f"{excerpt(delay)}. Leave `watermark` out."
        )
    length = microseconds(delay, "watermark")
    if length < 0:
        raise InvalidValue(f"`watermark` must not be negative; got {excerpt(delay)}.")
    field = _time(columns, time)
    fields = [
        T.StructField(each.name, each.dataType, each.nullable, {**(each.metadata or {}), DELAY: length // 1000})
        if each is field
        else each
        for each in columns.fields
    ]
    return Declared(T.StructType(fields), streaming, (field.name, length // 1000), partitions)


def told(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """Return the DataFrame with its schema cached in the client, so that `mapInArrow` does not ask the server for it.

    `DataFrame.to` would cache it too, but with `to`, as with `withColumn`, the server resolves the DataFrame at once.
    In a pipeline, another dataset then has no table, or that of an earlier run, which would be read without waiting.
    """
    if not on_connect(frame.sparkSession):
        return frame
    if "_cached_schema" not in vars(frame):
        return frame.to(schema)
    vars(frame)["_cached_schema"] = schema
    return frame


def _columns(schema: str | T.StructType) -> T.StructType:
    found = struct_of(schema) if isinstance(schema, str) else schema
    if not isinstance(found, T.StructType):
        raise InvalidType(
            f'a schema is text such as "user string, ts timestamp", or a StructType; got {excerpt(schema)}.'
        )
    if not found.fields:
        raise InvalidValue("a schema has at least one column; got none.")
    names = [field.name.casefold() for field in found.fields]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValue(f"column `{name}` is declared {names.count(name)} times. Rename one.")
    return found


def _time(columns: T.StructType, time: Any) -> T.StructField:
    """The declared column that gets the watermark. Raises InvalidValue and InvalidType."""
    name = None if is_column(time) else unquoted(str(time)).casefold()
    found = [field for field in columns.fields if field.name.casefold() == name]
    if not found:
        raise InvalidValue(
            f"the watermark is on a declared column, and the time is `{excerpt(time)}`; the columns are "
            f'{", ".join(columns.names)}. Compute it before, by `select("*", ....alias("name"))`, and declare it.'
        )
    if isinstance(found[0].dataType, T.TimestampNTZType):
        raise InvalidType(
            f"time column `{found[0].name}` is declared timestamp_ntz, and only timestamp takes a watermark. "
            'Cast it before, by `select("*", F.col(...).cast("timestamp").alias("at"))`, and declare timestamp.'
        )
    return found[0]


def _checked(field: T.StructField) -> Column:
    """A declared column that raises an error at run time if its type is another one; the optimizer removes the check.

    A cast instead would silently change values: 1.5 to 1.
    """
    column, kind = quoted(field.name), F.typeof(quoted(field.name))
    said = field.dataType.simpleString()
    failed = F.raise_error(
        F.concat(
            F.lit(f"slicing: column `{field.name}` is declared as {said}, and is "),
            kind,
            F.lit(". Declare that type, or cast the column before."),
        )
    )
    metadata = {name: value for name, value in (field.metadata or {}).items() if name != DELAY}
    return F.when(kind == F.lit(said), column).otherwise(failed).alias(field.name, metadata=metadata)
