"""The process of the soak that is killed: `python -m benchmarks.soak.job FOLDER TRIGGER`.

Each micro-batch has its own folder in the sink, which is overwritten if the micro-batch is repeated. A file `stop` in
FOLDER ends the process when all files are done. A line of figures per micro-batch is appended to `figures`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import combinators as C
from benchmarks.running.processes import workers
from benchmarks.running.session import configured
from benchmarks.running.side import Settings
from benchmarks.soak.feed import SCHEMA
from benchmarks.soak.windows import DELAY, GRACE, windows
from slicing import Emission, group_by, on_change, on_close

TRIGGERS: dict[str, Emission] = {"on_close": on_close(), "on_change": on_change()}


def query(stream: DataFrame, trigger: Emission) -> DataFrame:
    """Return record count and sum in windows of five lengths, each in rows of its own."""
    windowed = group_by(stream, "key").window(**windows(), time="ts", long=True)
    return windowed.grace(f"{GRACE} microseconds").emit(trigger).aggregate(records=C.count(), total=C.sum("v"))


def figures(progress: dict[str, Any], memory: float, checkpoint: Path) -> dict[str, float]:
    """Return seconds, state bytes, MiB of the largest worker and checkpoint files after a micro-batch."""
    state = progress["stateOperators"]
    return {
        "at": time.time(),
        "batch": progress["batchId"],
        "seconds": progress["durationMs"]["triggerExecution"] / 1000,
        "state bytes": sum(each["customMetrics"].get("rocksdbSstFileSize", 0) for each in state),
        "worker MiB": memory,
        "checkpoint files": sum(1 for _ in (checkpoint / "state").rglob("*")),
    }


def main(folder: Path, trigger: Emission) -> None:
    """Run until `stop` exists and all files are done, or until killed."""
    checkpoint, seen = folder / "checkpoint", -1
    with configured(Settings()) as spark, workers() as memory, (folder / "figures").open("a") as log:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "files"))
        stream = stream.withWatermark("ts", f"{DELAY} microseconds")

        def write(batch: DataFrame, number: int) -> None:
            batch.write.mode("overwrite").parquet(str(folder / "sink" / f"{number:06d}"))

        writer = query(stream, trigger).writeStream.foreachBatch(write)
        running = writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="0 seconds").start()
        while running.isActive:
            stopping = (folder / "stop").exists()
            if stopping:
                running.processAllAvailable()
            for progress in running.recentProgress:
                if progress["batchId"] > seen and progress["numInputRows"]:
                    seen = progress["batchId"]
                    print(
                        json.dumps(figures(progress, max(memory.values(), default=0), checkpoint)), file=log, flush=True
                    )
            if stopping:
                running.stop()
            time.sleep(0.5)
        if error := running.exception():
            raise error


if __name__ == "__main__":
    main(Path(sys.argv[1]), TRIGGERS[sys.argv[2]])
