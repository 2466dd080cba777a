"""Loads files with Spark, with an additional column for unreadable records; JSON files as DataFrames."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from slicing.cli.command import Job, NothingReadable
from slicing.cli.headers import PATTERN, check_names

BAD = "slicing: unreadable"
"""The column with the text of an unreadable record, or of its unreadable time; null in readable records."""
PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD}
BAD_FIELD = T.StructField(BAD, T.StringType())


def load(
    job: Job, spark: SparkSession, files: list[Path], schema: list[T.StructField] | None = None, **options: str
) -> DataFrame:
    """Return the given files as a DataFrame."""
    reader = spark.read.format(job.source_format).options(**options)
    if any(job.partitions(path) for path in files):
        reader = reader.option("basePath", str(job.source.absolute()))
    if schema is not None:
        reader = reader.schema(T.StructType(schema))
    return reader.load([literal(path) for path in files])


def load_stream(job: Job, spark: SparkSession, schema: list[T.StructField], kind: str, **options: str) -> DataFrame:
    """Return the files of the directory as a stream."""
    reader = spark.readStream.format(kind).schema(T.StructType(schema)).options(**options)
    if job.max_files is not None:
        reader = reader.option("maxFilesPerTrigger", job.max_files)
    return reader.load(literal(job.source))


def literal(path: Path) -> str:
    """Return the path with brackets and stars escaped, which Spark would treat as a pattern."""
    return "".join(f"\\{c}" if c in PATTERN else c for c in str(path.absolute()))


# JSON


def load_json(job: Job, spark: SparkSession) -> DataFrame:
    """Return the JSON files of a job as a DataFrame."""
    return load(job, spark, job.files, [*_json_fields(job, spark), BAD_FIELD], **PERMISSIVE)


def stream_json(job: Job, spark: SparkSession) -> DataFrame:
    """Return the JSON files of a job as a stream."""
    return load_stream(job, spark, [*_json_fields(job, spark), BAD_FIELD], "json", **PERMISSIVE)


def _json_fields(job: Job, spark: SparkSession) -> list[T.StructField]:
    """The fields of the job's columns, with types inferred from all lines."""
    schema = load(job, spark, job.files, None, **PERMISSIVE).schema
    names = tuple(name for name in schema.names if name != BAD)
    if not names:
        raise NothingReadable(
            f"no record of `{job.source}` could be read. JSON input has one object in each line; an array over several "
            "lines is made so by `jq -c '.[]'`."
        )
    check_names(str(job.source), names, job.columns)
    return [schema[name] for name in job.columns]
