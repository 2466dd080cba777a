"""Kafka Streams in a JVM of its own: a topic with its input, its job and the rows that it wrote."""

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


def feed(workload: Workload, size: str, broker: Broker, folder: Path, topic: str) -> None:
    """Fill a topic with a workload, and with a last record in either partition that closes all windows."""
    place = folder / topic
    place.mkdir()
    flink.write(workload, size, place)
    files = sorted(map(str, (place / "readers").iterdir()))
    _java("Feed", broker.address, topic, *files)


def run(workload: Workload, size: str, advance: str, emit: str, broker: Broker, folder: Path, topic: str) -> Run:
    """Its timed run. What it wrote in the other run is in `folder`. With the advance "" windows slide by KIP-450."""
    window = [str(milliseconds(each) if each else 0) for each in (size, advance)]
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
    """What it wrote, without the record that closes all windows: of updates the last, which has most records."""
    schema = "key bigint, start bigint, end bigint, records bigint, total bigint"
    written = session().read.schema(schema).csv(f"{folder}/rows").where("key >= 0")
    last = written.groupBy("key", "start", "end").agg(F.max("records").alias("records"), F.max("total").alias("total"))
    return last.select("key", _window("start", "end"), "records", "total")


def left_rows(folder: Path, topic: str) -> DataFrame:
    """Of windows that slide those that end with a time of their key: the other half begins behind one.

    Kafka's ends are of the window, ours are a millisecond behind it.
    """
    fed = session().read.schema("key bigint, end_ms bigint, v bigint").csv(f"{folder}/{topic}/readers")
    found = rows(folder).withColumn("end_ms", F.unix_millis("window.end"))
    left = found.join(fed.select("key", "end_ms").distinct(), ["key", "end_ms"], "left_semi")
    edges = left.select("*", F.unix_millis("window.start").alias("start"), (F.col("end_ms") + 1).alias("end"))
    return edges.select("key", _window("start", "end"), "records", "total")


def _window(start: str, end: str) -> Column:
    return F.struct(F.timestamp_millis(start).alias("start"), F.timestamp_millis(end).alias("end")).alias("window")


def milliseconds(duration: str) -> int:
    """Kafka's unit."""
    return microseconds(duration, duration) // 1000


def _java(*arguments: str) -> str:
    command = ["java", HEAP, "-cp", maven.classpath(PROJECT), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_SECONDS
    )
    return done.stdout
