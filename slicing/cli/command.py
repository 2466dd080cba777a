"""The job that a command line describes. Neither help nor argument errors need pyspark."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from slicing.cli.console import complain
from slicing.errors import InvalidValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FAILED, REFUSED, UNREADABLE, INTERRUPTED = 1, 2, 3, 130
"""Exit codes: Spark failed, an argument is wrong, records were unreadable, Ctrl-C. 0 is success."""


class Parser(argparse.ArgumentParser):
    """A parser of arguments whose errors are one line, like all other errors."""

    def error(self, message: str) -> NoReturn:
        """Exit with the error."""
        raise SystemExit(complain(f"{message}. See `{self.prog} --help`.", REFUSED))


class NothingReadable(InvalidValue):
    """No record of the input could be read, so its columns are unknown."""


@dataclass(frozen=True)
class Job:
    """The job of a command line, checked as far as possible without Spark. Durations are in microseconds.

    `unit` is the unit of numeric times, "s", "ms" or "us", else empty. `values` are the columns that are aggregated.
    """

    source: Path
    source_format: str
    time: str
    unit: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    results: tuple[str, ...]
    aggregate: Callable[[DataFrame], DataFrame]
    grace: int
    delay: int
    ahead: int
    follow: bool
    output: Path | None
    output_format: str
    given_checkpoint: Path | None
    max_files: int | None
    limit: int
    allow_bad: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, without duplicates."""
        return tuple(dict.fromkeys((self.time, *self.keys, *self.values)))

    @property
    def files(self) -> list[Path]:
        """The existing input files, sorted by path."""
        return sorted(data_files(self.source)) if self.source.is_dir() else [self.source]

    def partitions(self, path: Path) -> tuple[str, ...]:
        """Return the columns that Spark reads from names of directories such as `day=2024-05-01`."""
        directories = path.relative_to(self.source).parts[:-1] if self.source.is_dir() else ()
        return tuple(part.partition("=")[0] for part in directories if "=" in part)

    def in_file(self, path: Path) -> tuple[str, ...]:
        """Return the job's columns that the file itself must contain."""
        return tuple(name for name in self.columns if name not in self.partitions(path))

    @property
    def checkpoint(self) -> Path | None:
        """The checkpoint of a stream: the given one, or a directory next to the output."""
        if self.given_checkpoint is not None or self.output is None:
            return self.given_checkpoint
        return self.output.with_name(self.output.name + ".checkpoint")


def data_files(directory: Path) -> list[Path]:
    """Return the files of a directory without those that Spark ignores: names that start with a dot or underscore."""
    paths = (path for path in directory.rglob("*") if path.is_file())
    return [path for path in paths if not any(part[0] in "._" for part in path.relative_to(directory).parts)]


def check_writable(path: Path, name: str) -> None:
    """Raise InvalidValue unless a directory at `path` can be created or written to; remove what was created."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    made: list[Path] = []
    try:
        for each in reversed(missing):
            each.mkdir()
            made.append(each)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidValue(f"`{name}` cannot be written: {reason}; got `{path}`. Choose another place.") from None
    finally:
        for each in reversed(made):
            each.rmdir()
