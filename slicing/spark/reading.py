"""The files of the command line as DataFrames: columns by name, with what could not be read beside them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from slicing.errors import InvalidType, InvalidValue
from slicing.spark.columns import logical, quoted
from slicing.spark.command import Job, NothingReadable
from slicing.spark.headers import (
    PATTERN,
    Header,
    Names,
    Reordered,
    check_followed,
    check_names,
    header,
    header_of,
    local,
    readable,
)

BAD = "slicing: unreadable"
"""The column with the text of a record, or of its time, that could not be read; null for all others."""

_PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD}
CSV = {"header": "true", "escape": '"'}
"""As pandas and spreadsheets write it: a quote in quotes is doubled. Spark's own default is a backslash."""
_NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_BAD_FIELD = T.StructField(BAD, T.StringType())
_MOMENTS = ("timestamp", "timestamp_ntz")


def bounded(job: Job, spark: SparkSession) -> DataFrame:
    """All records, with the columns of the job and BAD. Raises InvalidValue for files that lack a column."""
    frame = {"csv": _csv, "json": _json, "parquet": _parquet}[job.source_format](job, spark)
    return with_bad_times(job, frame)


def stream(job: Job, spark: SparkSession) -> DataFrame:
    """The same of files as they arrive, with the types of those that are there already."""
    for path in (job.source, *job.files):
        check_followed(str(path.absolute()))
    frame = {"csv": _csv_stream, "json": _json_stream, "parquet": _parquet_stream}[job.source_format](job, spark)
    frame = with_bad_times(job, frame)
    # Spark takes watermarks on nothing else. Times are UTC here, as the session is.
    return frame.withColumn(job.time, quoted(job.time).cast("timestamp"))


# Time


def with_bad_times(job: Job, frame: DataFrame) -> DataFrame:
    """The frame with a timestamp as its time column; text that is not a time makes a record bad, an empty one not."""
    before = quoted(job.time).cast("string")
    lost = (F.trim(before) != "") & instants(frame, job.time, job.unit).isNull()
    bad = F.coalesce(quoted(BAD), F.when(lost, F.concat(F.lit(f"{job.time} = "), before)))
    return with_time(frame.withColumn(BAD, bad), job.time, job.unit)


def with_time(frame: DataFrame, column: str, unit: str = "") -> DataFrame:
    """The frame with its time column as a timestamp, null for what is not a time."""
    return frame.withColumn(column, instants(frame, column, unit))


def instants(frame: DataFrame, column: str, unit: str = "") -> Column:
    """The time column as timestamps: text is cast, numbers are counted in `unit` from 1970.

    Raises InvalidType for numbers without a unit, InvalidValue for a column that does not exist and for a unit of what
    is no number.
    """
    kind = dict(frame.dtypes).get(column)
    if kind is None:
        raise InvalidValue(f"time column `{column}` does not exist; the columns are {', '.join(frame.columns)}.")
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


# Files


def _load(
    job: Job, spark: SparkSession, files: list[Path], schema: list[T.StructField] | None = None, **options: str
) -> DataFrame:
    """Some of the files, as they are."""
    reader = spark.read.format(job.source_format).options(**options)
    if any(_partitions(job, path) for path in files):
        reader = reader.option("basePath", str(job.source.absolute()))
    if schema is not None:
        reader = reader.schema(T.StructType(schema))
    return reader.load([literal(path) for path in files])


def _load_stream(job: Job, spark: SparkSession, schema: list[T.StructField], kind: str, **options: str) -> DataFrame:
    """All files of the directory as they arrive."""
    reader = spark.readStream.format(kind).schema(T.StructType(schema)).options(**options)
    if job.max_files is not None:
        reader = reader.option("maxFilesPerTrigger", job.max_files)
    return reader.load(literal(job.source))


def literal(path: Path) -> str:
    """A path as Spark takes it, to which brackets and stars are patterns."""
    return "".join(f"\\{c}" if c in PATTERN else c for c in str(path.absolute()))


def _partitions(job: Job, path: Path) -> Names:
    """The columns that Spark takes from directories such as `day=2024-05-01`."""
    directories = path.relative_to(job.source).parts[:-1] if job.source.is_dir() else ()
    return tuple(part.partition("=")[0] for part in directories if "=" in part)


def _in_file(job: Job, path: Path) -> Names:
    """The columns of the job that a file itself must have."""
    return tuple(name for name in job.columns if name not in _partitions(job, path))


# CSV: Spark reads it by position, so files are read header by header


Groups = dict[Names, list[Path]]


def _csv(job: Job, spark: SparkSession) -> DataFrame:
    groups = _by_header(job, spark)
    kinds = _kinds(job, spark, groups)
    return _csv_union(job, spark, groups, kinds)


def _csv_union(job: Job, spark: SparkSession, groups: Groups, kinds: Mapping[str, T.DataType]) -> DataFrame:
    """All files, by name. With column pruning Spark would not see lines that are too short or too long."""
    options = {"columnPruning": "false", **CSV, **_PERMISSIVE}
    parts = []
    for names, files in groups.items():
        schema = _positions(job, names, kinds)
        schema += [T.StructField(name, kinds[name]) for name in job.columns if name not in names]
        parts.append(_by_name(job, names, _load(job, spark, files, [*schema, _BAD_FIELD], **options), quoted(BAD)))
    return reduce(DataFrame.union, parts)


def _by_header(job: Job, spark: SparkSession) -> Groups:
    """Files by the columns in their headers, those that most files have first; files without a line are left out."""
    groups: Groups = {}
    for path in job.files:
        if found := _header(path, spark):
            check_names(str(path), found.names, _in_file(job, path))
            groups.setdefault(found.names, []).append(path)
    if not groups:
        raise InvalidValue(f"`{job.source}` has no line. The first line of a CSV file is its header.")
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def _header(path: Path, spark: SparkSession) -> Header | None:
    if readable(str(path)):
        return header(str(path))
    lines = spark.read.text(literal(path)).where("trim(value) != ''").head(1)
    return header_of(lines[0][0]) if lines else None


def _positions(job: Job, names: Names, kinds: Mapping[str, T.DataType]) -> list[T.StructField]:
    """The schema of a header: what the job does not need is text, which costs nothing and never fails."""
    return [
        T.StructField(f"#{i}", kinds[name] if name in job.columns else T.StringType()) for i, name in enumerate(names)
    ]


def _by_name(job: Job, names: Names, frame: DataFrame, bad: Column, struct: str = "") -> DataFrame:
    """The columns of the job out of positions, and those of directories."""
    found = [
        F.col(f"{struct}`#{names.index(name)}`").alias(name) if name in names else quoted(name) for name in job.columns
    ]
    return frame.select(*found, bad.alias(BAD))


def _kinds(job: Job, spark: SparkSession, groups: Groups) -> dict[str, T.DataType]:
    """The type of each column over all files. Times are text or numbers: what they are, the job decides."""
    found: dict[str, set[T.DataType]] = {name: set() for name in job.columns}
    for names, files in groups.items():
        schema = _load(job, spark, files, None, inferSchema="true", **CSV).schema
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
    """Those columns of text whose every value, in records that could be read, is a number; and of which type."""
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


def _csv_stream(job: Job, spark: SparkSession) -> DataFrame:
    """Lines of text, put into one order by the headers of their files, then parsed by Spark."""
    if unknown := [path for path in job.files if not readable(str(path))]:
        raise InvalidValue(f"`--follow` reads CSV files that are plain, .gz or .bz2; found `{unknown[0]}`. Convert it.")
    groups = _by_header(job, spark)
    kinds, names = _kinds(job, spark, groups), next(iter(groups))
    directories = [T.StructField(name, kinds[name]) for name in job.columns if name not in names]
    lines = _load_stream(job, spark, [T.StructField("value", T.StringType()), *directories], "text")
    arrange = Reordered(names, tuple(name for name in job.columns if name in names))

    def arranged(lines: pa.Array, paths: pa.Array) -> pa.Array:
        return arrange(lines, paths)

    arranging = arrow_udf(arranged, "string")(F.col("value"), F.col("_metadata.file_path"))  # type: ignore[call-overload]
    more = [quoted(field.name) for field in directories]
    lines = lines.select(*more, "value", arranging.alias("line")).where("line is not null")
    ddl = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in [*_positions(job, names, kinds), _BAD_FIELD])
    record = F.from_csv("line", ddl, CSV | _PERMISSIVE).alias("record")
    bad = F.when(F.col(f"record.`{BAD}`").isNotNull(), F.col("value"))
    return _by_name(job, names, lines.select(*more, "value", record), bad, "record.")


# JSON


def _json(job: Job, spark: SparkSession) -> DataFrame:
    return _load(job, spark, job.files, [*_json_fields(job, spark), _BAD_FIELD], **_PERMISSIVE)


def _json_stream(job: Job, spark: SparkSession) -> DataFrame:
    return _load_stream(job, spark, [*_json_fields(job, spark), _BAD_FIELD], "json", **_PERMISSIVE)


def _json_fields(job: Job, spark: SparkSession) -> list[T.StructField]:
    """The columns of the job, as all lines together have them."""
    schema = _load(job, spark, job.files, None, **_PERMISSIVE).schema
    names = tuple(name for name in schema.names if name != BAD)
    if not names:
        raise NothingReadable(
            f"no record of `{job.source}` could be read. JSON input has one object in each line; an array over several "
            "lines is made so by `jq -c '.[]'`."
        )
    check_names(str(job.source), names, job.columns)
    return [schema[name] for name in job.columns]


# Parquet: every file knows its own types, and pandas' nanoseconds are none that Spark knows


def _parquet(job: Job, spark: SparkSession) -> DataFrame:
    groups: dict[tuple[pa.DataType | None, ...], list[Path]] = {}
    for path in job.files:
        groups.setdefault(_parquet_types(job, path), []).append(path)
    parts = [_in_micros(job, _parquet_files(job, spark, files), types) for types, files in groups.items()]
    return reduce(DataFrame.union, parts)


def _parquet_files(job: Job, spark: SparkSession, files: list[Path]) -> DataFrame:
    spark.conf.set(_NANOS_AS_LONG, "true")
    return _load(job, spark, files).select(*map(quoted, job.columns))


def _parquet_types(job: Job, path: Path) -> tuple[pa.DataType | None, ...]:
    """The types of the columns of the job in a file, None for those of directories."""
    schema, inside = pq.read_schema(path), _in_file(job, path)
    check_names(str(path), tuple(schema.names), inside)
    return tuple(schema.field(name).type if name in inside else None for name in job.columns)


def _in_micros(job: Job, frame: DataFrame, types: tuple[pa.DataType | None, ...]) -> DataFrame:
    """Nanoseconds, read as numbers, as timestamps; what is below a microsecond is cut off, as pandas does."""
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


def _parquet_stream(job: Job, spark: SparkSession) -> DataFrame:
    """As the first file has them. Spark would take microseconds for nanoseconds, so every file is looked at."""
    path = job.files[0]
    types = _parquet_types(job, path)
    alike = tuple((name, _is_nanos(kind)) for name, kind in zip(job.columns, types, strict=True) if kind is not None)

    def checked(paths: pa.Array) -> pa.Array:
        for path in paths.unique().to_pylist():
            check_nanos(local(path), alike)
        return pa.repeat(True, len(paths))

    frame = _load_stream(job, spark, _parquet_files(job, spark, [path]).schema.fields, "parquet")
    alike_so_far = arrow_udf(checked, "boolean")(F.col("_metadata.file_path"))  # type: ignore[call-overload]
    return _in_micros(job, frame.where(alike_so_far), types)


@lru_cache(maxsize=4096)
def check_nanos(path: str, alike: tuple[tuple[str, bool], ...]) -> None:
    """Raise InvalidValue unless a file has these columns, in nanoseconds or not as is said with their names."""
    schema = pq.read_schema(path)
    check_names(path, tuple(schema.names), tuple(name for name, _ in alike))
    for name, nanos in alike:
        if _is_nanos(schema.field(name).type) != nanos:
            raise InvalidValue(
                f"`{path}` has `{name}` as {schema.field(name).type}, the first file in another unit. With --follow "
                "all files must have the same: write this one anew."
            )
