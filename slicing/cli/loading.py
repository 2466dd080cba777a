"""Loads files with Spark, with an additional column for unreadable records."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from slicing.cli.command import Job
from slicing.cli.headers import PATTERN

BAD = "slicing: unreadable"
"""The column with the text of an unreadable record, or of its unreadable time; null in readable records."""
PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD}
BAD_FIELD = T.StructField(BAD, T.StringType())


# Files


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
