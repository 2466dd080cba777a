"""Headers of CSV and Parquet files, columns by name. Workers import this module too, so it does not import pyspark."""

from __future__ import annotations

import bz2
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slicing.cli.command import Job
from slicing.errors import InvalidValue, raised

ColumnNames = tuple[str, ...]

PATTERN = frozenset("{}[]*?\\")
"""The characters that Spark treats as a pattern in a path."""

_FIELD = re.compile(r'(?:^|,)("(?:[^"]|"")*"(?=,|$)|[^,]*)')
_OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}


@dataclass(frozen=True)
class Header:
    """The first line of a CSV file, and its column names."""

    line: str
    names: ColumnNames


def header_of(line: str) -> Header:
    """Return the header of a line; like Spark, name a column without a name `_c` and its number."""
    return Header(line, tuple(_plain(field) or f"_c{i}" for i, field in enumerate(fields(line))))


def fields(line: str) -> list[str]:
    """Return the fields of a line, with their quotes."""
    return _FIELD.findall(line)


def _plain(field: str) -> str:
    quoted = len(field) > 1 and field[0] == field[-1] == '"'
    return field[1:-1].replace('""', '"') if quoted else field


def readable(path: str) -> bool:
    """Whether Python can read files with this compression; Spark supports more."""
    return Path(path).suffix.lower() not in (".zst", ".lz4", ".snappy")


@lru_cache(maxsize=4096)
def header(path: str) -> Header | None:
    """Return the header of a CSV file, None if it has no line. Raises InvalidValue for a file that cannot be read."""
    opened = _OPEN.get(Path(path).suffix.lower(), open)
    try:
        with opened(path, "rt", encoding="utf-8-sig", errors="replace") as file:
            return next((header_of(line.rstrip("\n")) for line in file if line.strip()), None)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, "CSV", error) from error


@lru_cache(maxsize=4096)
def parquet_schema(path: str) -> pa.Schema:
    """Return the schema of a Parquet file. Raises InvalidValue if there is none, as in one that is cut off."""
    try:
        return pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, "Parquet", error) from error


def _unreadable(path: str, written: str, error: Exception) -> InvalidValue:
    """The error for a file that cannot be read as what it should be."""
    return InvalidValue(f"`{path}` cannot be read as {written}; got {raised(error)}. Remove it, or write it anew.")


def check_names(path: str, names: ColumnNames, wanted: ColumnNames) -> None:
    """Raise InvalidValue unless each wanted column exists exactly once."""
    for name in wanted:
        if name not in names:
            raise InvalidValue(
                f"`{path}` has no column `{name}`; its columns are {', '.join(names)}. Correct the file."
            )
        if names.count(name) > 1:
            raise InvalidValue(f"`{path}` has {names.count(name)} columns called `{name}`. Rename one of them.")


def local(path: str) -> str:
    """Return the path of a followed file from the URL in Spark's metadata. Raises InvalidValue for a pattern."""
    found = unquote(urlsplit(path).path)
    check_followed(found)
    return found


def check_followed(path: str) -> None:
    """Raise InvalidValue for a path with characters of a pattern: a Spark stream reads such a file several times.

    https://github.com/apache/spark/pull/57769
    """
    if PATTERN & set(path):
        raise InvalidValue(
            f"`--follow` takes no path with one of {' '.join(sorted(PATTERN))}; got `{path}`. Rename it."
        )


def check_files(job: Job) -> None:
    """Raise InvalidValue for a path that cannot be followed, and for a header without one of the job's columns.

    JSON has no header, and a header that only Spark can decompress is checked when Spark has read it.
    """
    for path in (job.source, *job.files) if job.follow else ():
        check_followed(str(path.absolute()))
    for path in job.files:
        names = _names_in(job, path)
        if names is not None:
            check_names(str(path), names, job.in_file(path))


def _names_in(job: Job, path: Path) -> ColumnNames | None:
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


@dataclass(frozen=True)
class Reordered:
    """Reorders the fields of CSV lines to the order of one header. Files with this order are passed through."""

    names: ColumnNames
    wanted: ColumnNames

    def __call__(self, lines: pa.Array, paths: pa.Array) -> pa.Array:
        """Return the lines, null for headers and empty lines. Raises InvalidValue if a file lacks a column."""
        made = [self._of_file(lines.slice(at, count), local(path)) for path, at, count in _runs(paths)]
        return pa.concat_arrays(made) if made else lines

    def _of_file(self, lines: pa.Array, path: str) -> pa.Array:
        found = header(path)
        if found is None:
            return pa.nulls(len(lines), pa.string())
        empty = pc.equal(pc.utf8_trim_whitespace(lines), "")
        lines = pc.if_else(pc.or_(empty, pc.equal(lines, found.line)), None, lines)
        if found.names == self.names:
            return lines
        check_names(path, found.names, self.wanted)
        places = [found.names.index(name) if name in self.wanted else None for name in self.names]
        moved = [line and self._moved(line, places, len(found.names)) for line in lines.to_pylist()]
        return pa.array(moved, pa.string())

    def _moved(self, line: str, places: list[int | None], width: int) -> str:
        found = fields(line)
        if len(found) != width:
            return line + "," * len(places)  # more fields than any header, so that Spark counts the line as corrupt
        return ",".join("" if place is None else found[place] for place in places)


def _runs(paths: pa.Array) -> Iterator[tuple[str, int, int]]:
    """The path, first row and number of rows of each run of rows from one file."""
    encoded, start = pc.run_end_encode(paths), 0
    for path, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield path, start, end - start
        start = end
