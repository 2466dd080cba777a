"""A `SPARK_HOME` like that of the installed PySpark, whose Python processes start sooner, as docs/deploy has it."""

import shutil
import sys
import tempfile
from pathlib import Path

import pyspark

from slicing.spark.bytecode import compiled

INSTALLED = Path(pyspark.__file__).parent
LIB = Path("python", "lib")
LOGS = "work"
"""Where executors of a `local-cluster` write: each home has its own."""


def with_bytecode(home):
    """Make it in a new directory: links, also to the archives."""
    for each in INSTALLED.iterdir():
        if each.name not in (LIB.parts[0], LOGS):
            (home / each.name).symlink_to(each)
    (home / LIB).parent.mkdir()
    (home / LIB).symlink_to(_archives())
    return home


def _archives():
    """Where they are: in the environment of PySpark, made once, as that takes as long as a few tests on Spark."""
    archives = Path(sys.prefix) / f".spark-archives-{pyspark.__version__}"
    if not archives.exists():
        made = Path(tempfile.mkdtemp(dir=archives.parent))
        for archive in (INSTALLED / LIB).iterdir():
            compiled(archive, made / archive.name)
        try:
            made.rename(archives)
        except OSError:  # another process of these tests has made them meanwhile
            shutil.rmtree(made)
    return archives
