"""The input files of the command line as DataFrames, with columns by name and the text of unreadable records."""

from __future__ import annotations

from functools import lru_cache, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from slicing.cli.command import Job
from slicing.cli.csv_files import load_csv, stream_csv
from slicing.cli.headers import check_names, local, parquet_schema
from slicing.cli.loading import BAD, load, load_json, load_stream, stream_json
from slicing.errors import InvalidType, InvalidValue
from slicing.spark.columns import logical, quoted

_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_MOMENTS = ("timestamp", "timestamp_ntz")


def bounded(job: Job, spark: SparkSession) -> DataFrame:
    """Return all records, with the job's columns and BAD. Raises InvalidValue if a file lacks a column."""
    frame = {"csv": load_csv, "json": load_json, "parquet": load_parquet}[job.source_format](job, spark)
    return with_bad_times(job, frame)


def stream(job: Job, spark: SparkSession) -> DataFrame:
    """Return the files as a stream, with the column types of the files that exist now."""
    frame = {"csv": stream_csv, "json": stream_json, "parquet": stream_parquet}[job.source_format](job, spark)
    frame = with_bad_times(job, frame)
    # Only timestamps can have a watermark. Times are UTC, like the session.
    return frame.withColumn(job.time, quoted(job.time).cast("timestamp"))


# Time


def with_bad_times(job: Job, frame: DataFrame) -> DataFrame:
    """Return the frame with a timestamp as its time column; unreadable text makes a record bad, empty text does not."""
    before = quoted(job.time).cast("string")
    lost = (F.trim(before) != "") & instants(frame, job.time, job.unit).isNull()
    bad = F.coalesce(quoted(BAD), F.when(lost, F.concat(F.lit(f"{job.time} = "), before)))
    return with_time(frame.withColumn(BAD, bad), job.time, job.unit)


def with_time(frame: DataFrame, column: str, unit: str = "") -> DataFrame:
    """Return the frame with its time column as a timestamp, null for values that are no time."""
    return frame.withColumn(column, instants(frame, column, unit))


def instants(frame: DataFrame, column: str, unit: str = "") -> Column:
    """Return the time column as timestamps: text is cast, numbers are counted in `unit` from 1970.

    Raises InvalidType for numbers without a unit, and InvalidValue for a missing column and for a unit with a column
    that is not numeric.
    """
    kind = dict(frame.dtypes).get(column)
    if kind is None:
        from slicing.hints import no_column

        raise no_column("time column", column, frame.columns)
    if kind in (*_MOMENTS, "date"):
        if unit:
            raise InvalidValue(f"`--time-unit` is for numbers; time column `{column}` is a {kind}. Leave it out.")
        return quoted(column) if kind in _MOMENTS else quoted(column).cast("timestamp")
    if kind == "string" and not unit:
        return quoted(column).try_cast("timestamp")
    if not unit or not (kind == "string" or isinstance(frame.schema[column].dataType, T.NumericType)):
        raise InvalidType(
            f"time column `{column}` must hold timestamps or text such as 2024-05-01T12:00:00Z; got {kind}, and a "
            "number does not say its unit. Say it with --time-unit s, ms or us."
        )
    number = quoted(column).try_cast("decimal(25,6)")
    return F.timestamp_micros(F.floor(number * F.lit(_MICROS[unit])).try_cast("bigint"))


_NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"


# Each Parquet file has its own types, and Spark has no type for the nanoseconds that pandas writes.


def load_parquet(job: Job, spark: SparkSession) -> DataFrame:
    """Return the Parquet files of a job as a DataFrame."""
    groups: dict[tuple[pa.DataType | None, ...], list[Path]] = {}
    for path in job.files:
        groups.setdefault(_parquet_types(job, path), []).append(path)
    parts = [_in_micros(job, _parquet_files(job, spark, files), types) for types, files in groups.items()]
    return reduce(DataFrame.union, parts)


def _parquet_files(job: Job, spark: SparkSession, files: list[Path]) -> DataFrame:
    spark.conf.set(_NANOS_AS_LONG, "true")
    return load(job, spark, files).select(*map(quoted, job.columns))


def _parquet_types(job: Job, path: Path) -> tuple[pa.DataType | None, ...]:
    """The types of the job's columns in a file, None for columns from names of directories."""
    schema, inside = parquet_schema(str(path)), job.in_file(path)
    check_names(str(path), tuple(schema.names), inside)
    return tuple(schema.field(name).type if name in inside else None for name in job.columns)


def _in_micros(job: Job, frame: DataFrame, types: tuple[pa.DataType | None, ...]) -> DataFrame:
    """Nanoseconds, which were read as numbers, as timestamps; digits below a microsecond are cut off, as in pandas."""
    columns = []
    for name, kind in zip(job.columns, types, strict=True):
        column = quoted(name)
        if _is_nanos(kind):
            below = F.when(column % 1000 < 0, 1).otherwise(0)
            micros = F.call_function("div", column, F.lit(1000)) - below
            column = logical(micros, "timestamp" if kind.tz else "timestamp_ntz").alias(name)  # type: ignore[union-attr]
        columns.append(column)
    return frame.select(*columns, F.lit(None).cast("string").alias(BAD))


def _is_nanos(kind: pa.DataType | None) -> bool:
    return kind is not None and pa.types.is_timestamp(kind) and kind.unit == "ns"


def stream_parquet(job: Job, spark: SparkSession) -> DataFrame:
    """Return the Parquet files as a stream with the first file's types; each file is checked for other time units."""
    path = job.files[0]
    types = _parquet_types(job, path)
    alike = tuple((name, _is_nanos(kind)) for name, kind in zip(job.columns, types, strict=True) if kind is not None)

    def checked(paths: pa.Array) -> pa.Array:
        for path in paths.unique().to_pylist():
            check_nanos(local(path), alike)
        return pa.repeat(True, len(paths))

    frame = load_stream(job, spark, _parquet_files(job, spark, [path]).schema.fields, "parquet")
    alike_so_far = arrow_udf(checked, "boolean")(F.col("_metadata.file_path"))  # type: ignore[call-overload]
    return _in_micros(job, frame.where(alike_so_far), types)


@lru_cache(maxsize=4096)
def check_nanos(path: str, alike: tuple[tuple[str, bool], ...]) -> None:
    """Raise InvalidValue unless a file has these columns, each in nanoseconds exactly if its flag is true."""
    schema = parquet_schema(path)
    check_names(path, tuple(schema.names), tuple(name for name, _ in alike))
    for name, nanos in alike:
        if _is_nanos(schema.field(name).type) != nanos:
            raise InvalidValue(
                f"`{path}` has `{name}` as {schema.field(name).type}, the first file in another unit. With --follow "
                "all files must have the same: write this one anew."
            )
