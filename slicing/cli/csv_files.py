"""CSV files as DataFrames: columns by the names in the headers, with types that all values fit."""

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
from slicing.cli.loading import BAD, BAD_FIELD, PERMISSIVE, in_file, literal, load, load_stream
from slicing.errors import InvalidValue
from slicing.spark.columns import quoted

CSV = {"header": "true", "escape": '"'}
"""As pandas and spreadsheets write it: a quote in quotes is doubled. Spark's own default is a backslash."""

# CSV: Spark reads it by position, so files are read header by header


Groups = dict[ColumnNames, list[Path]]


def load_csv(job: Job, spark: SparkSession) -> DataFrame:
    """The CSV files of a job."""
    groups = _by_header(job, spark)
    kinds = _kinds(job, spark, groups)
    return _csv_union(job, spark, groups, kinds)


def _csv_union(job: Job, spark: SparkSession, groups: Groups, kinds: Mapping[str, T.DataType]) -> DataFrame:
    """All files, by name. With column pruning Spark would not see lines that are too short or too long."""
    options = {"columnPruning": "false", **CSV, **PERMISSIVE}
    parts = []
    for names, files in groups.items():
        schema = _positions(job, names, kinds)
        schema += [T.StructField(name, kinds[name]) for name in job.columns if name not in names]
        parts.append(_by_name(job, names, load(job, spark, files, [*schema, BAD_FIELD], **options), quoted(BAD)))
    return reduce(DataFrame.union, parts)


def _by_header(job: Job, spark: SparkSession) -> Groups:
    """Files by the columns in their headers, those that most files have first; files without a line are left out."""
    groups: Groups = {}
    for path in job.files:
        if found := _header(path, spark):
            check_names(str(path), found.names, in_file(job, path))
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
    """The schema of a header: what the job does not need is text, which costs nothing and never fails."""
    return [
        T.StructField(f"#{i}", kinds[name] if name in job.columns else T.StringType()) for i, name in enumerate(names)
    ]


def _by_name(job: Job, names: ColumnNames, frame: DataFrame, bad: Column, struct: str = "") -> DataFrame:
    """The columns of the job out of positions, and those of directories."""
    found = [
        F.col(f"{struct}`#{names.index(name)}`").alias(name) if name in names else quoted(name) for name in job.columns
    ]
    return frame.select(*found, bad.alias(BAD))


def _kinds(job: Job, spark: SparkSession, groups: Groups) -> dict[str, T.DataType]:
    """The type of each column over all files. Times are text or numbers: what they are, the job decides."""
    found: dict[str, set[T.DataType]] = {name: set() for name in job.columns}
    for names, files in groups.items():
        schema = load(job, spark, files, None, inferSchema="true", **CSV).schema
        for name in job.columns:
            field = schema.fields[names.index(name)] if name in names else schema[name]
            found[name].add(field.dataType)
    kinds = {name: _common(kinds) for name, kinds in found.items()}
    if not isinstance(kinds[job.time], T.NumericType):
        kinds[job.time] = T.StringType()
    # A broken line, or a file in which the column is empty, makes text of numbers: look at whole lines of all files.
    doubtful = [name for name, kind in kinds.items() if _doubtful(kind, found[name], name in job.values)]
    return kinds | _numbers(_csv_union(job, spark, groups, kinds), [name for name in doubtful if name != job.time])


def _common(kinds: set[T.DataType]) -> T.DataType:
    """The type that holds the values of all; text if there is no other."""
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds <= {T.IntegerType(), T.LongType()}:
        return T.LongType()
    if all(isinstance(kind, T.NumericType) for kind in kinds):
        return T.DoubleType()
    return T.TimestampType() if kinds <= {T.DateType(), T.TimestampType()} else T.StringType()


def _doubtful(kind: T.DataType, found: set[T.DataType], aggregated: bool) -> bool:
    return isinstance(kind, T.StringType) and (aggregated or len(found) > 1)


def _numbers(frame: DataFrame, names: list[str]) -> dict[str, T.DataType]:
    """Return the text columns whose readable values are all numbers, each with the type of these."""
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
    """Lines of text, put into one order by the headers of their files, then parsed by Spark."""
    if unknown := [path for path in job.files if not readable(str(path))]:
        raise InvalidValue(f"`--follow` reads CSV files that are plain, .gz or .bz2; found `{unknown[0]}`. Convert it.")
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
