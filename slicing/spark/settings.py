"""The table of session settings that streams need or benefit from; it is used to check, to advise and to configure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slicing.spark.versions import OLDEST, Release, release

NEEDED, PAYS, LOCAL = "needed", "pays", "pays on one machine"


@dataclass(frozen=True)
class Setting:
    """A setting: its name, the advised value, its kind (needed or beneficial) and the reason in a few words.

    It applies to Spark versions from `since` up to, but not including, `until`.
    """

    name: str
    value: str
    kind: str
    why: str
    since: Release = OLDEST
    until: Release = (9, 0)


_STORE = "spark.sql.streaming.stateStore."
STATE_STORE = Setting(
    _STORE + "providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    NEEDED,
    "Spark's stateful operator in Python runs on no other state store",
)
CHECKPOINTS = Setting(
    "spark.sql.streaming.checkpointFileManagerClass",
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    LOCAL,
    "of checkpoints on a local disk: the default starts a process for each file, some forty in a micro-batch",
    since=(4, 1),
)
OLD_CHECKPOINTS = replace(
    CHECKPOINTS,
    value="org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager",
    since=OLDEST,
    until=CHECKPOINTS.since,
)
BATCH_BYTES = Setting(
    "spark.sql.execution.arrow.maxBytesPerBatch",
    str(2**31 - 1),
    LOCAL,
    "with any other value Spark measures all columns of an Arrow batch after every record",
)
"""Saves a fifth of a large micro-batch. After the shuffle a partition's blocks form one batch: only for one machine."""
SOCKETS = Setting(
    "spark.python.unix.domain.socket.enabled",
    "true",
    LOCAL,
    "Python workers are reached through files instead of ports: a small micro-batch takes a seventh less",
    since=(4, 1),
)
"""Needs short paths of temporary directories, as on a developer's machine; those in containers may be too long."""
TRACEBACKS = Setting(
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled",
    "false",
    PAYS,
    "both stages of a query use the same Python workers, half as many; with shorter tracebacks each has its own",
)
"""Spark has a pool of workers for each set of environment variables; only `mapInArrow` has one for these tracebacks."""
PARTITIONS = "spark.sql.shuffle.partitions"

_ALL = (
    STATE_STORE,
    Setting(
        _STORE + "rocksdb.changelogCheckpointing.enabled",
        "true",
        PAYS,
        "a micro-batch saves what changed, not whole snapshots",
    ),
    CHECKPOINTS,
    OLD_CHECKPOINTS,
    TRACEBACKS,
    BATCH_BYTES,
    SOCKETS,
)


def settings_of(version: str) -> tuple[Setting, ...]:
    """Return the settings for a session of this version of Spark; `advice` prints them, `configure` sets them."""
    return tuple(setting for setting in _ALL if setting.since <= release(version) < setting.until)
