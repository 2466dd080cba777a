"""JSON files as DataFrames."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from slicing.cli.command import Job, NothingReadable
from slicing.cli.headers import (
    check_names,
)
from slicing.cli.loading import BAD, BAD_FIELD, PERMISSIVE, load, load_stream

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
