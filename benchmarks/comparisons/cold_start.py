"""The time to the first answer of a new program: `python -m benchmarks.comparisons.cold_start` prints ratios.

Each measurement has its own process, JVM and workers, in turns, and nothing is warm. The clock starts when the session
exists and the driver's imports are done; it stops when the first micro-batch or the bounded query is done. Processor
seconds of all processes are measured too. The baseline is Spark's `window()` on its default store. Options of the
session may be given: `spark.python.unix.domain.socket.enabled=false`.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks import ROOT
from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkWindow
from benchmarks.running.processes import processor_seconds
from benchmarks.running.session import configured, stop
from benchmarks.running.side import Settings
from benchmarks.workloads.inputs import DENSE, HOUR, MINUTE

KINDS, SIDES = ("stream", "bounded"), ("Spark", "ours")


@dataclass(frozen=True)
class Cold:
    """The seconds and processor seconds of the first micro-batch or query; `second` has the seconds of a later one."""

    seconds: float
    processor: float
    second: float = 0.0


def once(kind: str, side: str, options: Mapping[str, str]) -> Cold:
    """Measure in this process, which must be new: 200,000 records, 1,000 keys, windows of 1 h by 1 min."""
    settings = Settings(store="RocksDB" if side == "ours" else "default store")
    with configured(settings, {k: v for k, v in options.items() if k.startswith("spark.sql")}) as spark:
        for name, value in options.items():  # options of the context, which a local executor shares
            spark.sparkContext._jsc.sc().conf().set(name, value)
        path, schema = str(DENSE.path()), DENSE.schema
        began, busy = time.monotonic(), processor_seconds()
        query = Ours() if side == "ours" else SparkWindow()
        if kind == "bounded":
            frame = spark.read.schema(schema).parquet(*(str(file) for file in DENSE.files()[: DENSE.parts]))
            query(frame, HOUR, MINUTE).write.format("noop").mode("overwrite").save()
            return Cold(time.monotonic() - began, processor_seconds() - busy)
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", DENSE.parts).parquet(path)
        frame = query(reader.withWatermark("ts", settings.delay), HOUR, MINUTE)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            running = writer.trigger(availableNow=True).start()
            while running.isActive and not running.recentProgress:
                time.sleep(0.01)
            cold, spent = time.monotonic() - began, processor_seconds() - busy
            while running.isActive and len(running.recentProgress) < 3:
                time.sleep(0.01)
            if error := running.exception():
                raise error
            steady = running.recentProgress[2]["durationMs"]["triggerExecution"] / 1000
            running.stop()
    return Cold(cold, spent, steady)


def measured(kind: str, side: str, options: Mapping[str, str]) -> Cold:
    """Run `once` in a new process."""
    given = [f"{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, kind, side, *given]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return Cold(**json.loads(done.stdout.splitlines()[-1]))


def table(options: Mapping[str, str], turns: int = 1) -> list[str]:
    """Return lines with seconds and processor seconds of both sides, and their ratios."""
    lines = []
    for kind in KINDS:
        sides = {side: [measured(kind, side, options) for _ in range(turns)] for side in SIDES}
        spark, ours = ({n: statistics.median(getattr(c, n) for c in s) for n in vars(s[0])} for s in sides.values())
        for name in ("seconds", "processor"):
            ratio = ours[name] / spark[name]
            lines.append(f"{kind:8} {name:10} Spark {spark[name]:6.2f}  ours {ours[name]:6.2f}  ratio {ratio:5.2f}")
    return lines


def main(arguments: list[str]) -> None:
    """Print one measurement, `KIND SIDE`, as JSON; or a table of all."""
    options = dict(each.split("=", 1) for each in arguments if "=" in each)
    named = [each for each in arguments if "=" not in each]
    if named:
        print(json.dumps(vars(once(*named, options))))
        stop()
    else:
        print("\n".join(table(options)))


if __name__ == "__main__":
    main(sys.argv[1:])
