"""The input files of the command line as DataFrames, with columns by name and the text of unreadable records."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.cli.command import Job
from slicing.cli.csv_files import load_csv, stream_csv
from slicing.cli.loading import BAD, load_json, stream_json
from slicing.cli.parquet_files import load_parquet, stream_parquet
from slicing.errors import InvalidType, InvalidValue
from slicing.spark.columns import quoted

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
