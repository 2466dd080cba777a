"""What a session should be set to: said by `advice`, set by `configure`, and by nothing else."""

from __future__ import annotations

import os
import sys

import pyspark
from pyspark.sql import SparkSession

from slicing.errors import InvalidValue
from slicing.spark import bytecode
from slicing.spark.requirements import missing, on_connect
from slicing.spark.settings import LOCAL, PARTITIONS, Setting, settings_of

MOST = 100
"""More shuffle partitions are advised against, as few clusters have so many cores for a stream, and Spark has 200."""


def configure(
    builder: SparkSession.Builder, *, local: bool = False, partitions: int | None = None
) -> SparkSession.Builder:
    """Set on a session's builder what streams need, and what makes them faster: `configure(SparkSession.builder)`.

    With `local=True` also those for a session on one machine, with its checkpoints on a local disk, whose workers are
    given the interpreter of this program, by `PYSPARK_PYTHON`, unless that is set. `partitions` sets how many shuffle
    partitions there are, about as many as cores. Settings made on the builder afterwards take precedence. The settings
    depend on the installed version of Spark; `slicing.advice(spark)` compares those of a session with them.
    """
    for setting in settings_of(pyspark.__version__):
        if local or setting.kind != LOCAL:
            builder = builder.config(setting.name, setting.value)
    if partitions is not None:
        builder = builder.config(PARTITIONS, str(partitions))
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder


def advice(spark: SparkSession | None = None, *, pipeline: bool = False, partitions: int = 200) -> None:
    """Print the settings of a session that matter to streams, and what to change. Nothing is changed.

    With `pipeline=True` and no session, print the block `configuration:` of a pipeline's spec, with `partitions` as the
    number that definitions declare. Raises InvalidValue without a session otherwise.
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
    """The lines of a pipeline's `configuration:`. Its values are text; what is for one machine alone is left out."""
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
    """What `advice` prints: a line for each setting, with the reason where it is not as advised."""
    found = [_line(spark, setting) for setting in settings_of(spark.version)]
    return [*found, *_partitions(spark), *_bytecode(spark), *missing(spark)]


def _line(spark: SparkSession, setting: Setting) -> str:
    value = _value(spark, setting.name) or "not set"
    if value == setting.value:
        return f"ok: {setting.name} = {value}"
    return f"{setting.kind}: {setting.name} = {setting.value}, now {value}: {setting.why}"


def _value(spark: SparkSession, name: str) -> str | None:
    """What Spark goes by: of settings that are not SQL's, those it was started with, whatever a builder says later."""
    if name.startswith("spark.sql.") or on_connect(spark):
        return spark.conf.get(name, None)
    return spark.sparkContext.getConf().get(name)


def _partitions(spark: SparkSession) -> list[str]:
    value = str(spark.conf.get(PARTITIONS, "200"))
    if value.isdecimal() and int(value) <= MOST:
        return [f"ok: {PARTITIONS} = {value}"]
    return [f"pays: {PARTITIONS}, now {value}: about the cores of all executors; fixed for a checkpoint's life"]


def _bytecode(spark: SparkSession) -> list[str]:
    found = [] if on_connect(spark) else bytecode.archives()
    if all(map(bytecode.has_bytecode, found)):
        return [f"ok: Python workers import bytecode, from {each}" for each in found]
    return [f"pays: `{bytecode.COMMAND}`, once and while nothing of Spark runs: workers start with half the work"]
