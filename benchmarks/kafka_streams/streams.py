"""Kafka Streams in its own JVM: a topic with its input, its job and its output rows."""

import json
import os
import subprocess
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from benchmarks.baselines import flink
from benchmarks.running.run import Run
from benchmarks.running.session import session
from benchmarks.workloads.workload import Workload
from servers import maven
from servers.kafka import Broker
from slicing.windows.time.durations import microseconds

PROJECT = Path(__file__).parent
HEAP = "-Xmx6g"
LIMIT_SECONDS = 600.0
SESSION = "session"


def feed(workload: Workload, size: str, broker: Broker, folder: Path, topic: str) -> None:
    """Fill a topic with a workload; a last record in each partition closes all windows."""
    place = folder / topic
    place.mkdir()
    flink.write(workload, size, place)
    files = sorted(map(str, (place / "readers").iterdir()))
    _java("Feed", broker.address, topic, *files)


def run(workload: Workload, size: str, advance: str, emit: str, broker: Broker, folder: Path, topic: str) -> Run:
    """Return Kafka's timed run; the rows of its other run are in `folder`.

    Advance "" means KIP-450 sliding windows, and SESSION means sessions whose gap is `size`.
    """
    step = {"": 0, SESSION: -1}
    window = [str(milliseconds(size)), str(step[advance] if advance in step else milliseconds(advance))]
    try:
        said = json.loads(_java("Job", broker.address, topic, *window, emit, str(folder), "2").splitlines()[-1])
    except subprocess.TimeoutExpired:
        return Run(LIMIT_SECONDS, workload.total, stopped=True)
    lost = f"; dropped {said['dropped']:,} records" if said["dropped"] else ""
    return Run(
        said["seconds"], workload.total, rows=said["rows"], store="RocksDB", note=f"emit on {emit}{lost}",
        processor=said["processor"],
    )  # fmt: skip


def rows(folder: Path) -> DataFrame:
    """Return the last update of each window, the one with the most records, without the record that closes all."""
    schema = "key bigint, start bigint, end bigint, records bigint, total bigint"
    written = session().read.schema(schema).csv(f"{folder}/rows").where("key >= 0")
    last = written.groupBy("key", "start", "end").agg(F.max("records").alias("records"), F.max("total").alias("total"))
    return last.select("key", _window("start", "end"), "records", "total")


def session_rows(folder: Path, gap: str) -> DataFrame:
    """Return the sessions. Kafka's end with their last record; ours end a gap later."""
    end = (F.col("window.end") + F.expr(f"interval {gap}")).alias("end")
    return rows(folder).withColumn("window", F.struct("window.start", end))


def left_rows(folder: Path, topic: str) -> DataFrame:
    """Return the left sliding windows, which end with a time of their key; right windows begin after such a time.

    Kafka's window ends are inclusive; ours are one millisecond later.
    """
    fed = session().read.schema("key bigint, end_ms bigint, v bigint").csv(f"{folder}/{topic}/readers")
    found = rows(folder).withColumn("end_ms", F.unix_millis("window.end"))
    left = found.join(fed.select("key", "end_ms").distinct(), ["key", "end_ms"], "left_semi")
    edges = left.select("*", F.unix_millis("window.start").alias("start"), (F.col("end_ms") + 1).alias("end"))
    return edges.select("key", _window("start", "end"), "records", "total")


def _window(start: str, end: str) -> Column:
    return F.struct(F.timestamp_millis(start).alias("start"), F.timestamp_millis(end).alias("end")).alias("window")


def milliseconds(duration: str) -> int:
    """Return a duration in milliseconds, Kafka's unit."""
    return microseconds(duration, duration) // 1000


def _java(*arguments: str) -> str:
    command = ["java", HEAP, "-cp", maven.classpath(PROJECT), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_SECONDS
    )
    return done.stdout
