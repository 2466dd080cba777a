"""Python workers that start sooner: `python -m slicing.spark.bytecode`, once for an installation of Spark.

Spark puts `pyspark.zip` before everything else on the path of every Python process that it starts: of workers, and of
the one that a stateful query has beside the driver. The archive holds sources only, and nothing is kept beside them, so
that each process compiles them anew, in nearly half of the processor time of its start. With bytecode beside the
sources that is gone. Processes of another version of Python find a magic number that is not theirs, and compile the
sources as before. Not while Spark runs: its Python processes remember where in the archive each module begins.
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys
import tempfile
import warnings
from copy import copy
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pyspark

COMMAND = f"python -m {__name__}"


def archives() -> list[Path]:
    """Those that Python processes of Spark import from, in `SPARK_HOME` or else in the installed package."""
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    return sorted(Path(home, "python", "lib").glob("*.zip"))


def has_bytecode(archive: Path) -> bool:
    """Whether this version of Python would find bytecode in an archive."""
    with ZipFile(archive) as found:
        first = next((name for name in found.namelist() if name.endswith(".pyc")), None)
        return first is not None and found.read(first).startswith(importlib.util.MAGIC_NUMBER)


def compiled(archive: Path, target: Path) -> None:
    """Write an archive anew, to `target`, with the bytecode of each of its modules."""
    with tempfile.TemporaryDirectory() as place, ZipFile(archive) as found, ZipFile(target, "w") as made:
        for each in found.infolist():
            if each.filename.endswith(".py"):
                bytecode = _compiled(found.extract(each, place), shown_as=archive / each.filename)
                made.write(bytecode, each.filename + "c", ZIP_DEFLATED)
            if not each.filename.endswith(".pyc"):
                made.writestr(copy(each), found.read(each))


def _compiled(source: str, shown_as: Path) -> str:
    # Without a check of the source's time, which differs in a zip archive by up to two seconds.
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    with warnings.catch_warnings(action="ignore"):
        made = py_compile.compile(source, source + "c", str(shown_as), doraise=True, invalidation_mode=unchecked)
    assert made is not None
    return made


def main() -> int:
    """Add bytecode to the archives of this installation; 1 if there are none, or they cannot be written."""
    found = archives()
    try:
        for each in found:
            made = each.with_suffix(".new")
            compiled(each, made)
            made.replace(each)
            print(f"{each}: with bytecode of Python {sys.version_info.major}.{sys.version_info.minor}")
    except OSError as error:
        print(f"{error}: run it as the user who installed Spark.", file=sys.stderr)
        return 1
    if not found:
        print("No archives in python/lib of Spark: set `SPARK_HOME` to where Spark is installed.", file=sys.stderr)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
