"""The Spark session of a benchmark process, and its settings while streams are started."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from benchmarks import ROOT
from benchmarks.running.side import CORES, MASTER, Settings
from benchmarks.workloads import workload
from slicing.spark.resolution import TIMERS_SETTING
from slicing.spark.settings import BATCH_BYTES, PARTITIONS, STATE_STORE, settings_of

STORES = {
    "RocksDB": STATE_STORE.value,
    "default store": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}
OPTIONS = {
    "spark.driver.memory": "6g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    **{setting.name: setting.value for setting in settings_of(pyspark.__version__)},
}
"""The options of `slicing.configure(builder, local=True)`, and those of a quiet process on one machine."""

_sessions: dict[str, SparkSession] = {}


def session(master: str = MASTER) -> SparkSession:
    """Return the session of this process: RocksDB with changelog checkpoints, CORES partitions.

    A call with another master stops the existing session.
    """
    if master not in _sessions:
        stop()
        _find_packages_in_workers()
        local = workload.FOLDER / "spark"
        local.mkdir(parents=True, exist_ok=True)
        builder = SparkSession.builder.master(master)
        for name, value in {**OPTIONS, "spark.local.dir": local, PARTITIONS: CORES}.items():
            builder = builder.config(name, str(value))
        _sessions[master] = builder.getOrCreate()
    return _sessions[master]


def add_jars(jars: str) -> None:
    """Add jars, separated by commas, to later sessions; this process must not have had one."""
    OPTIONS["spark.jars"] = jars


def stop() -> None:
    """Stop the session, if there is one, even if its JVM has died."""
    while _sessions:
        try:
            _sessions.popitem()[1].stop()
        except (Py4JError, OSError):
            # Without these references, the next session starts a new JVM.
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = None


def _find_packages_in_workers() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    inherited = os.environ.get("PYTHONPATH", "")
    if str(ROOT) not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), inherited]))


@contextmanager
def configured(settings: Settings, more: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Yield the session with the settings of a stream and those in `more`; restore its settings afterwards."""
    spark = session(settings.master)
    wanted = {
        STATE_STORE.name: STORES[settings.store],
        PARTITIONS: str(settings.partitions or settings.cores),
        BATCH_BYTES.name: settings.batch_bytes,
        TIMERS_SETTING: str(settings.timers).lower(),
        **(more or {}),
    }
    before = {name: spark.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield spark
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
