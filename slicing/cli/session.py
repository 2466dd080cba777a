"""A quiet local Spark session for the command line and the demo, with the settings of streams."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from slicing.spark import settings
from slicing.spark.settings import LOCAL, settings_of

BATCH_BYTES, UNLIMITED = settings.BATCH_BYTES.name, settings.BATCH_BYTES.value
_SETTINGS = settings_of(pyspark.__version__)


@contextmanager
def workspace() -> Iterator[Path]:
    """Yield a temporary directory, which is removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="slicing-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def redirected(log: Path) -> Iterator[None]:
    """Redirect stdout and stderr of processes that the block starts to a file: Spark's JVM prints when it starts."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def session(scratch: Path, name: str = "slicing", cores: str = "*") -> SparkSession:
    """Return a local session with the settings of streams; under `spark-submit`, its settings take precedence."""
    _find_packages_in_workers()
    builder = SparkSession.builder.appName(name)
    if not {"PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS"} & os.environ.keys():
        builder = builder.master(f"local[{cores}]")
        for option, value in _local_options(scratch).items():
            builder = builder.config(option, value)
    with redirected(scratch / "spark.log"):
        spark = builder.getOrCreate()
    settled = spark.sparkContext.getConf()
    for option, value in _sql_options(spark).items():
        if settled.get(option) is None:
            spark.conf.set(option, value)
    return spark


def _find_packages_in_workers() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    here = str(Path(__file__).resolve().parent.parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))


def _local_options(scratch: Path) -> dict[str, str]:
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "ERROR",
        **{setting.name: setting.value for setting in _SETTINGS if setting.kind == LOCAL},
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _sql_options(spark: SparkSession) -> dict[str, str]:
    return {
        "spark.sql.session.timeZone": "UTC",
        settings.PARTITIONS: str(spark.sparkContext.defaultParallelism),
        **{setting.name: setting.value for setting in _SETTINGS if setting.kind != LOCAL},
    }
