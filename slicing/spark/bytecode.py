"""Python workers that start sooner: `python -m slicing.spark.bytecode`, once for an installation of Spark.

Spark puts `pyspark.zip` first on the path of each Python process that it starts: the workers, and the process that a
stateful query runs next to the driver. The archive holds sources only, and Python does not cache bytecode of modules in
an archive. So every process compiles the sources again, which takes nearly half of the processor time of its start.
With bytecode in the archive, it does not. Bytecode is ignored, and the source compiled as before, by processes of
another version of Python (another magic number) and for a source that has changed since (another hash). Do not run it
while Spark runs: Python processes remember at which offset of the archive each module begins.
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import stat
import sys
import tempfile
import warnings
from contextlib import suppress
from copy import copy
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pyspark

COMMAND = f"python -m {__name__}"


def archives() -> list[Path]:
    """Return the archives that Spark's Python processes import from, in `SPARK_HOME` or the installed package."""
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    return sorted(Path(home, "python", "lib").glob("*.zip"))


def has_bytecode(archive: Path) -> bool:
    """Whether an archive contains bytecode for this version of Python."""
    with ZipFile(archive) as found:
        first = next((name for name in found.namelist() if name.endswith(".pyc")), None)
        return first is not None and found.read(first).startswith(importlib.util.MAGIC_NUMBER)


def compiled(archive: Path, target: Path) -> dict[str, str]:
    """Write a copy of an archive with bytecode to `target`; return the error of each module that did not compile."""
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place, ZipFile(archive) as found, ZipFile(target, "w") as made:
        for each in found.infolist():
            if each.filename.endswith(".py"):
                try:
                    bytecode = _compiled(found.extract(each, place), shown_as=archive / each.filename)
                    made.write(bytecode, each.filename + "c", ZIP_DEFLATED)
                except (py_compile.PyCompileError, ValueError) as error:  # ValueError: null bytes in the source
                    failed[each.filename] = str(error).strip().splitlines()[-1]
            if not each.filename.endswith(".pyc"):
                made.writestr(copy(each), found.read(each))
    return failed


def _compiled(source: str, shown_as: Path) -> str:
    # Checked by the hash of the source, so a source that is patched later is compiled again. Not by its time, because a
    # zip archive stores times without a time zone.
    checked = py_compile.PycInvalidationMode.CHECKED_HASH
    with warnings.catch_warnings(action="ignore"):
        made = py_compile.compile(source, source + "c", str(shown_as), doraise=True, invalidation_mode=checked)
    assert made is not None
    return made


def renew(archive: Path) -> dict[str, str]:
    """Replace an archive by a copy with bytecode; return the error of each module that did not compile.

    A link is followed. The mode is kept, and the owner if this user may set it. Raises OSError, and leaves the archive
    unchanged then.
    """
    real = archive.resolve()
    handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}-")
    os.close(handle)
    made = Path(name)
    try:
        failed = compiled(archive, made)
        known = real.stat()
        with suppress(PermissionError):
            os.chown(made, known.st_uid, known.st_gid)
        made.chmod(stat.S_IMODE(known.st_mode))  # after chown, which may reset bits of the mode
        made.replace(real)
    finally:
        made.unlink(missing_ok=True)
    return failed


def main() -> int:
    """Add bytecode to the archives of this installation; return 1 if there are none, or they cannot be written.

    A module that does not compile is named and keeps its source only; the exit code stays 0.
    """
    found = archives()
    try:
        for each in found:
            failed = renew(each)
            print(f"{each}: with bytecode of Python {sys.version_info.major}.{sys.version_info.minor}")
            for name, why in failed.items():
                print(f"{each}: no bytecode for {name}, which does not compile ({why})", file=sys.stderr)
    except OSError as error:
        print(f"{error}: run it as the user who installed Spark.", file=sys.stderr)
        return 1
    if not found:
        print("No archives in python/lib of Spark: set `SPARK_HOME` to where Spark is installed.", file=sys.stderr)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
