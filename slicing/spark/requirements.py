"""Requirements of streams on machine and session, checked here because Spark would fail with an unclear error."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from slicing.errors import MissingRequirement, Remedy, Topic
from slicing.spark.settings import STATE_STORE
from slicing.spark.versions import OLDEST, check_release, release

_INSTALL = "Install what streams need with `pip install 'spark-slicing[spark]'`."
_MODULES = ("pyspark", "pyarrow", "numpy", "pandas")
_PYTHON = "PYSPARK_PYTHON"
_MESSAGES = "pyspark.sql.streaming.proto.StateMessage_pb2"


def check_stream(spark: SparkSession, asks: bool = True) -> None:
    """Raise MissingRequirement if the session cannot run the stateful operator; without `asks`, do not ask Spark."""
    if lacking := missing(spark):
        raise MissingRequirement(lacking[0])
    if not asks:
        return
    check_release("streams need", OLDEST, spark.version)
    provider = spark.conf.get(STATE_STORE.name, "")
    if provider != STATE_STORE.value:
        raise MissingRequirement(
            f"streams need the RocksDB state store; `{STATE_STORE.name}` is {provider!r}. ",
            setting_remedy(STATE_STORE.name, STATE_STORE.value),
        )


def setting_remedy(name: str, value: str) -> Remedy:
    """Return the advice to set a Spark setting to a value."""
    text = f'Set it before the query is built: spark.conf.set("{name}", "{value}").'
    return Remedy(Topic.SETTING, text, (name, value))


def missing(spark: SparkSession) -> list[str]:
    """Return the missing requirements of streams, one line each, with the remedy."""
    found = []
    pandas = _installed("pandas")
    if pandas is None or not (2, 2) <= release(pandas) < (3, 0):
        found.append(f"streams need pandas >= 2.2 and < 3; found {pandas or 'none'}. {_INSTALL}")
    if trouble := _protobuf():
        found.append(f"streams need protobuf, which Spark does not bring; {trouble}. {_INSTALL}")
    return [*found, *_of_workers(spark)]


def check_workers(spark: SparkSession) -> None:
    """Raise MissingRequirement if Spark would start Python workers that cannot run this program.

    This happens if the program runs in a virtual environment that is not activated and `PYSPARK_PYTHON` is not set.
    """
    if lacking := _of_workers(spark):
        raise MissingRequirement(lacking[0])


def on_connect(spark: SparkSession) -> bool:
    """Whether this is a Spark Connect session: Spark runs elsewhere, with its own settings and workers."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _of_workers(spark: SparkSession) -> list[str]:
    if on_connect(spark) or sys.prefix == sys.base_prefix or os.environ.get(_PYTHON):
        return []
    path = shutil.which("python3")
    if path is not None and Path(path).parent.samefile(Path(sys.executable).parent):
        return []
    lacks = "is not there" if path is None else _lacks(path)
    if not lacks:
        return []
    return [
        f"Spark starts Python workers as `python3`, since `{_PYTHON}` is not set; {path or 'python3'} {lacks}, and "
        f"this program runs in the virtual environment {sys.prefix}. Before the session is made, set "
        f'os.environ["{_PYTHON}"] = sys.executable, or activate the environment.'
    ]


@cache
def _lacks(path: str) -> str:
    """Why an interpreter cannot be a worker of this program; "" if it can."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    program = (
        "import importlib.util as u, sys; print('%d.%d' % sys.version_info[:2], "
        f"*[name for name in {_MODULES!r} if not u.find_spec(name)])"
    )
    done = subprocess.run([path, "-c", program], capture_output=True, text=True, check=False)
    there, *modules = done.stdout.split() or ["none"]
    if there != here:
        return f"is Python {there} and not {here}"
    return f"has no {', '.join(modules)}" if modules else ""


def _protobuf() -> str:
    """Why the installed protobuf does not work, "" if it does: Spark's generated messages need certain versions."""
    found = _installed("protobuf")
    if found is None:
        return "found none"
    try:
        with warnings.catch_warnings(action="ignore"):
            import_module(_MESSAGES)
    except Exception as error:  # ImportError from an old protobuf, else protobuf's own VersionError
        needed = re.search(r"gencode ([\d.]+)", str(error))
        least = f"{needed[1]} or newer" if needed else "another version"
        return f"found {found}, and the messages of Spark {pyspark.__version__} want {least}"
    return ""


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
