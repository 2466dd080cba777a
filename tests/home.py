"""A `SPARK_HOME` like that of the installed PySpark, with bytecode in the archive that Python workers import from.

Spark puts `pyspark.zip` before everything else on the path of its Python processes. It holds sources only, so that each
worker, and the process beside the driver of each query, compiles them anew: nearly half of what its start takes.
docs/deploy tells users of it.
"""

import zipfile
from pathlib import Path

import pyspark

INSTALLED = Path(pyspark.__file__).parent
ARCHIVE = Path("python", "lib", "pyspark.zip")


def compiled(home):
    """Make it in a new directory: links, but for the archive."""
    lib = home / ARCHIVE.parent
    lib.mkdir(parents=True)
    for directory, here in ((INSTALLED, home), (INSTALLED / ARCHIVE.parent, lib)):
        for each in directory.iterdir():
            if each.name not in (ARCHIVE.parts[0], ARCHIVE.name):
                (here / each.name).symlink_to(each)
    with zipfile.ZipFile(INSTALLED / ARCHIVE) as sources, zipfile.PyZipFile(home / ARCHIVE, "w") as made:
        for name in sources.namelist():
            if not name.endswith(".py"):
                made.writestr(name, sources.read(name))
        made.writepy(str(INSTALLED))
    return home
