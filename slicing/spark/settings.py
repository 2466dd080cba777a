"""The settings of a session that streams need, and those that pay; what is checked, advised and set is this table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slicing.spark.versions import OLDEST, Release, release

NEEDED, PAYS, LOCAL = "needed", "pays", "pays on one machine"


@dataclass(frozen=True)
class Setting:
    """A setting's name, the value that is advised, whether it is needed, and why in a few words.

    It holds from the version `since` on, up to the one before `until`.
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
"""A fifth of a large micro-batch. Behind the shuffle all blocks of a partition are one batch: not beyond a machine."""
SOCKETS = Setting(
    "spark.python.unix.domain.socket.enabled",
    "true",
    LOCAL,
    "Python workers are reached through files instead of ports: a small micro-batch takes a seventh less",
    since=(4, 1),
)
"""Where directories of temporary files have short names, as on a machine of one's own; containers' may be too long."""
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
    BATCH_BYTES,
    SOCKETS,
)


def settings_of(version: str) -> tuple[Setting, ...]:
    """What a session of this version of Spark should be set to: said by `advice`, set by `configure`."""
    return tuple(setting for setting in _ALL if setting.since <= release(version) < setting.until)
