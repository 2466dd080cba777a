"""Copies of the repositories in `examples`, as teams make them, and the environment of their programs."""

import os
import shutil
import sys
from pathlib import Path

from rooms import ROOT

EXAMPLES = ROOT / "examples"
PATIENCE = 600


def copied(name, folder):
    """A repository, copied into a folder."""
    return Path(shutil.copytree(EXAMPLES / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*")))


def environment(**more):
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC", "PYTHONPATH": path(), **more}


def path(*more):
    return os.pathsep.join([str(ROOT), *map(str, more), *filter(None, [os.environ.get("PYTHONPATH")])])
