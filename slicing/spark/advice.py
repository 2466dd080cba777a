"""Advised session settings: `advice` prints them, `configure` sets them on a builder; nothing else changes settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from slicing.errors import InvalidValue
from slicing.spark import bytecode
from slicing.spark.requirements import missing, on_connect
from slicing.spark.settings import LOCAL, PARTITIONS, Setting, settings_of

QUIET = Path(__file__).resolve().with_name("log4j2.properties")
"""The configuration of Spark's logs for a terminal."""
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Options of the JVM that Spark prepends to `spark.driver.extraJavaOptions`, which stay those of the program."""
MOST = 100
"""`advice` flags more shuffle partitions. Spark's default is 200; few clusters have 100 cores for a stream."""


def configure(
    builder: SparkSession.Builder, *, local: bool = False, partitions: int | None = None, quiet: bool = False
) -> SparkSession.Builder:
    """Set the settings that streams need, and those that make them faster, on a session builder.

    Write `configure(SparkSession.builder)`. The settings depend on the installed version of Spark. Settings made on the
    builder afterwards take precedence. `slicing.advice(spark)` compares the settings of a session with these.

    `local=True` adds the settings for a session on one machine with its checkpoints on a local disk. It also sets
    `PYSPARK_PYTHON`, unless it is set, so that the workers run the interpreter of this program. `partitions` is the
    number of shuffle partitions: about one per core.

    `quiet=True` lets Spark log errors only, without stack traces. It sets `spark.driver.defaultJavaOptions`, also
    where `spark-defaults.conf` has others, and keeps `spark.driver.extraJavaOptions`. It takes effect only if the
    session starts the JVM.
    """
    for setting in settings_of(pyspark.__version__):
        if local or setting.kind != LOCAL:
            builder = builder.config(setting.name, setting.value)
    if partitions is not None:
        builder = builder.config(PARTITIONS, str(partitions))
    if quiet:
        builder = builder.config(JAVA_OPTIONS, f"-Dlog4j2.configurationFile={QUIET.as_uri()}")
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder


def advice(spark: SparkSession | None = None, *, pipeline: bool = False, partitions: int = 200) -> None:
    """Print the settings of a session that matter to streams, and what to change; change nothing.

    With `pipeline=True`, print the block `configuration:` for the spec of a declarative pipeline instead; `partitions`
    is then the number that the definitions declare. Raises InvalidValue without a session and without `pipeline=True`.
    """
    if pipeline:
        print("\n".join(specification(partitions)))
        return
    if spark is None:
        raise InvalidValue(
            "`advice` is about a session: `advice(spark)`; or about a pipeline: `advice(pipeline=True)`."
        )
    print("\n".join(lines(spark)))


def specification(partitions: int) -> list[str]:
    """Return the lines of a pipeline's `configuration:`, values as text, without settings for a single machine."""
    wanted = [
        (setting.name, setting.value, setting.why)
        for setting in settings_of(pyspark.__version__)
        if setting.kind != LOCAL
    ]
    wanted.append(
        (PARTITIONS, str(partitions), "about the cores of all executors; `declare(partitions=)` says the same")
    )
    return ["configuration:", *(f'  {name}: "{value}" # {why}' for name, value, why in wanted)]


def lines(spark: SparkSession) -> list[str]:
    """Return the lines that `advice` prints: one per setting, with the reason if its value is not the advised one."""
    found = [_line(spark, setting) for setting in settings_of(spark.version)]
    return [*found, *_partitions(spark), *_bytecode(spark), *missing(spark)]


def _line(spark: SparkSession, setting: Setting) -> str:
    value = _value(spark, setting.name) or "not set"
    if value == setting.value:
        return f"ok: {setting.name} = {value}"
    return f"{setting.kind}: {setting.name} = {setting.value}, now {value}: {setting.why}"


def _value(spark: SparkSession, name: str) -> str | None:
    """The value in effect, None if not set. A setting outside `spark.sql.` is fixed when Spark starts."""
    if name.startswith("spark.sql.") or on_connect(spark):
        return spark.conf.get(name, None)
    return spark.sparkContext.getConf().get(name)


def _partitions(spark: SparkSession) -> list[str]:
    value = str(spark.conf.get(PARTITIONS, "200"))
    if value.isdecimal() and int(value) <= MOST:
        return [f"ok: {PARTITIONS} = {value}"]
    return [f"worth it: {PARTITIONS}, now {value}: about the cores of all executors; fixed for a checkpoint's life"]


def _bytecode(spark: SparkSession) -> list[str]:
    found = [] if on_connect(spark) else bytecode.archives()
    if all(map(bytecode.has_bytecode, found)):
        return [f"ok: Python workers import bytecode, from {each}" for each in found]
    return [f"worth it: `{bytecode.COMMAND}`, once and while nothing of Spark runs: workers start with half the work"]
