"""The effect of session settings on this machine: `python -m benchmarks.comparisons.settings [ROUNDS]` prints ratios.

Each measurement has its own process, JVM and workers. In each round (default: three), each setting is measured once,
and so is the session with the advised settings. A ratio compares the medians over all rounds: with the setting / as
advised. Each measurement is also printed to stderr. Large micro-batches are those of the workload day, small ones have
1,000 records; both have R = 60.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping

from benchmarks import ROOT
from benchmarks.baselines.ours import Ours
from benchmarks.running import streams
from benchmarks.running.session import OPTIONS, stop
from benchmarks.running.side import Settings, Side
from benchmarks.workloads.inputs import DAY, HOUR, MINUTE, SMALL
from slicing.spark.settings import BATCH_BYTES, CHECKPOINTS, SOCKETS

_ROCKS = "spark.sql.streaming.stateStore.rocksdb."
CHANGES: dict[str, dict[str, str]] = {
    "ports, not sockets of the file system": {SOCKETS.name: "false"},
    "pipelined transfer": {"spark.python.udf.pipelined.enabled": "true"},
    "rows of the state not counted": {_ROCKS + "trackTotalNumberOfRows": "false"},
    "block cache of 64 MB": {_ROCKS + "blockCacheSizeMB": "64"},
    "blocks of 32 KB": {_ROCKS + "blockSizeKB": "32"},
    "snapshots, not changelogs": {_ROCKS + "changelogCheckpointing.enabled": "false"},
    "checkpoints by Spark's default manager": {
        CHECKPOINTS.name: "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
    },
    "checkpoint files without checksums": {"spark.sql.streaming.checkpoint.fileChecksum.enabled": "false"},
    "Arrow batches of at most 64 MB": {BATCH_BYTES.name: str(64 * 2**20)},
}
LARGE = Side(Ours(), DAY, HOUR, MINUTE, Settings(steady=6))
LITTLE = Side(Ours(), SMALL, HOUR, MINUTE, Settings(steady=20))


def once(options: Mapping[str, str]) -> list[float]:
    """Return the median seconds of a large and of a small micro-batch in this process, which must be new."""
    OPTIONS.update(options)
    return [streams.run(side.but(batch_bytes=OPTIONS[BATCH_BYTES.name])).seconds for side in (LARGE, LITTLE)]


def measured(options: Mapping[str, str]) -> list[float]:
    """Run `once` in a new process."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "once", json.dumps(dict(options))]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(rounds: int) -> list[str]:
    """Return a line for the advised session, and one for each setting."""
    every: dict[str, Mapping[str, str]] = {"as advised": {}, **CHANGES}
    found: dict[str, list[list[float]]] = {name: [] for name in every}
    for _ in range(rounds):
        for name, options in every.items():
            found[name].append(measured(options))
            print(name, *found[name][-1], file=sys.stderr, flush=True)
    medians = {name: [statistics.median(column) for column in zip(*runs, strict=True)] for name, runs in found.items()}
    large, small = medians.pop("as advised")
    lines = [f"{'as advised':32} large {large:6.3f} s, small {small:6.3f} s"]
    return lines + [f"{name:32} large {a / large:6.3f}, small {b / small:6.3f}" for name, (a, b) in medians.items()]


def main(arguments: list[str]) -> None:
    """Print one measurement, `once OPTIONS`, as JSON; or a table of all."""
    if arguments[:1] == ["once"]:
        print(json.dumps(once(json.loads(arguments[1]))))
        stop()
    else:
        print("\n".join(table(int(arguments[0]) if arguments else 3)))


if __name__ == "__main__":
    main(sys.argv[1:])
