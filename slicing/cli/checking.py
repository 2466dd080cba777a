"""Checks the input files before Spark starts, by what Python reads of them quickly: their paths and headers."""

from __future__ import annotations

from pathlib import Path

from slicing.cli.command import Job
from slicing.cli.headers import ColumnNames, check_followed, check_names, header, parquet_schema, readable
from slicing.errors import InvalidValue


def check_files(job: Job) -> None:
    """Raise InvalidValue for a path that cannot be followed, and for a header without one of the job's columns.

    JSON has no header, and a header that only Spark can decompress is checked when Spark has read it.
    """
    for path in (job.source, *job.files) if job.follow else ():
        check_followed(str(path.absolute()))
    for path in job.files:
        names = _header(job, path)
        if names is not None:
            check_names(str(path), names, job.in_file(path))


def _header(job: Job, path: Path) -> ColumnNames | None:
    """The column names in the header of a file, None if Python cannot read it or if there is none."""
    if job.source_format == "parquet":
        return tuple(parquet_schema(str(path)).names)
    if job.source_format != "csv":
        return None
    if readable(str(path)):
        found = header(str(path))
        return None if found is None else found.names
    if job.follow:
        raise InvalidValue(f"`--follow` reads CSV files that are plain, .gz or .bz2; found `{path}`. Convert it.")
    return None
