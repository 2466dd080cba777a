"""Parquet files as DataFrames, with all times converted to microseconds."""

from __future__ import annotations

from functools import lru_cache, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from slicing.cli.command import Job
from slicing.cli.headers import check_names, local, parquet_schema
from slicing.cli.loading import BAD, load, load_stream
from slicing.errors import InvalidValue
from slicing.spark.columns import logical, quoted

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
