"""CSV files as DataFrames: columns by header name, with types that fit all values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from slicing.cli.command import Job
from slicing.cli.headers import (
    ColumnNames,
    Header,
    Reordered,
    check_names,
    header,
    header_of,
    readable,
)
from slicing.cli.loading import BAD, BAD_FIELD, PERMISSIVE, literal, load, load_stream
from slicing.errors import InvalidValue
from slicing.spark.columns import quoted

CSV = {"header": "true", "escape": '"'}
"""The CSV dialect of pandas and spreadsheets: a quote inside quotes is doubled. Spark's default is a backslash."""

# Spark reads CSV columns by position, so files are read separately for each header.


Groups = dict[ColumnNames, list[Path]]


def load_csv(job: Job, spark: SparkSession) -> DataFrame:
    """Return the CSV files of a job as a DataFrame."""
    groups = _by_header(job, spark)
    kinds = _kinds(job, spark, groups)
    return _csv_union(job, spark, groups, kinds)


def _csv_union(job: Job, spark: SparkSession, groups: Groups, kinds: Mapping[str, T.DataType]) -> DataFrame:
    """All files with columns by name. Column pruning is off because it hides lines with too few or too many fields."""
    options = {"columnPruning": "false", **CSV, **PERMISSIVE}
    parts = []
    for names, files in groups.items():
        schema = _positions(job, names, kinds)
        schema += [T.StructField(name, kinds[name]) for name in job.columns if name not in names]
        parts.append(_by_name(job, names, load(job, spark, files, [*schema, BAD_FIELD], **options), quoted(BAD)))
    return reduce(DataFrame.union, parts)


def _by_header(job: Job, spark: SparkSession) -> Groups:
    """The files by the columns in their headers, the most frequent header first; files without a line are left out."""
    groups: Groups = {}
    for path in job.files:
        if found := _header(path, spark):
            check_names(str(path), found.names, job.in_file(path))
            groups.setdefault(found.names, []).append(path)
    if not groups:
        raise InvalidValue(f"`{job.source}` has no line. The first line of a CSV file is its header.")
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def _header(path: Path, spark: SparkSession) -> Header | None:
    if readable(str(path)):
        return header(str(path))
    lines = spark.read.text(literal(path)).where("trim(value) != ''").head(1)
    return header_of(lines[0][0]) if lines else None


def _positions(job: Job, names: ColumnNames, kinds: Mapping[str, T.DataType]) -> list[T.StructField]:
    """The schema for a header. Columns that the job does not need are text, which is free and never fails."""
    return [
        T.StructField(f"#{i}", kinds[name] if name in job.columns else T.StringType()) for i, name in enumerate(names)
    ]


def _by_name(job: Job, names: ColumnNames, frame: DataFrame, bad: Column, struct: str = "") -> DataFrame:
    """The job's columns, selected by position or from the names of directories."""
    found = [
        F.col(f"{struct}`#{names.index(name)}`").alias(name) if name in names else quoted(name) for name in job.columns
    ]
    return frame.select(*found, bad.alias(BAD))


def _kinds(job: Job, spark: SparkSession, groups: Groups) -> dict[str, T.DataType]:
    """The type of each column over all files. Times stay text or numbers; the job converts them."""
    found: dict[str, set[T.DataType]] = {name: set() for name in job.columns}
    for names, files in groups.items():
        schema = load(job, spark, files, None, inferSchema="true", **CSV).schema
        for name in job.columns:
            field = schema.fields[names.index(name)] if name in names else schema[name]
            found[name].add(field.dataType)
    kinds = {name: _common(kinds) for name, kinds in found.items()}
    if not isinstance(kinds[job.time], T.NumericType):
        kinds[job.time] = T.StringType()
    # A broken line, or a file with an empty column, makes Spark infer text for numbers: check the values of all files.
    doubtful = [name for name, kind in kinds.items() if _doubtful(kind, found[name], name in job.values)]
    return kinds | _numbers(_csv_union(job, spark, groups, kinds), [name for name in doubtful if name != job.time])


def _common(kinds: set[T.DataType]) -> T.DataType:
    """The type that holds the values of all types; text if there is no other."""
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds <= {T.IntegerType(), T.LongType()}:
        return T.LongType()
    digits = [_digits(kind) for kind in kinds]
    if all(digits):
        return T.DecimalType(max(digits), 0)
    if all(isinstance(kind, T.NumericType) for kind in kinds):
        return T.DoubleType()
    return T.TimestampType() if kinds <= {T.DateType(), T.TimestampType()} else T.StringType()


def _digits(kind: T.DataType) -> int:
    """The number of digits of a type of whole numbers, 0 for other types."""
    if isinstance(kind, T.DecimalType):
        return 0 if kind.scale else kind.precision
    return 10 if kind == T.IntegerType() else 19 if kind == T.LongType() else 0


def _doubtful(kind: T.DataType, found: set[T.DataType], aggregated: bool) -> bool:
    return isinstance(kind, T.StringType) and (aggregated or len(found) > 1)


def _numbers(frame: DataFrame, names: list[str]) -> dict[str, T.DataType]:
    """The text columns whose readable values are all numbers, each with the type of these numbers."""
    if not names:
        return {}
    candidates = (T.IntegerType(), T.LongType(), T.DoubleType())
    fit = [F.count(quoted(name).try_cast(kind)) == F.count(quoted(name)) for name in names for kind in candidates]
    counts = [F.count(quoted(name)) > 0 for name in names]
    row = frame.where(quoted(BAD).isNull()).agg(F.array(*fit), F.array(*counts)).head()
    fits, some = row if row else ([], [])
    made: dict[str, T.DataType] = {}
    for i, name in enumerate(names):
        kinds = [kind for kind, fit in zip(candidates, fits[3 * i :], strict=False) if fit]
        if kinds and some[i]:
            made[name] = kinds[0]
    return made


def stream_csv(job: Job, spark: SparkSession) -> DataFrame:
    """Return the stream of CSV files: read as text, reordered by the header of each file, then parsed by Spark."""
    groups = _by_header(job, spark)
    kinds, names = _kinds(job, spark, groups), next(iter(groups))
    directories = [T.StructField(name, kinds[name]) for name in job.columns if name not in names]
    lines = load_stream(job, spark, [T.StructField("value", T.StringType()), *directories], "text")
    arrange = Reordered(names, tuple(name for name in job.columns if name in names))

    def arranged(lines: pa.Array, paths: pa.Array) -> pa.Array:
        return arrange(lines, paths)

    arranging = arrow_udf(arranged, "string")(F.col("value"), F.col("_metadata.file_path"))  # type: ignore[call-overload]
    more = [quoted(field.name) for field in directories]
    lines = lines.select(*more, "value", arranging.alias("line")).where("line is not null")
    ddl = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in [*_positions(job, names, kinds), BAD_FIELD])
    record = F.from_csv("line", ddl, CSV | PERMISSIVE).alias("record")
    bad = F.when(F.col(f"record.`{BAD}`").isNotNull(), F.col("value"))
    return _by_name(job, names, lines.select(*more, "value", record), bad, "record.")
