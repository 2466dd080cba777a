"""A `SPARK_HOME` like that of the installed PySpark, whose Python processes start sooner, as docs/deploy has it."""

from pathlib import Path

import pyspark

from slicing.spark.bytecode import compiled

INSTALLED = Path(pyspark.__file__).parent
LIB = Path("python", "lib")
LOGS = "work"
"""Where executors of a `local-cluster` write: each home has its own."""


def with_bytecode(home):
    """Make it in a new directory: links, but for the archives."""
    for each in INSTALLED.iterdir():
        if each.name not in (LIB.parts[0], LOGS):
            (home / each.name).symlink_to(each)
    (home / LIB).mkdir(parents=True)
    for archive in (INSTALLED / LIB).iterdir():
        compiled(archive, home / LIB / archive.name)
    return home
