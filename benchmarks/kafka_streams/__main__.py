"""Ours against windows of Kafka Streams, run by hand.

    python -m benchmarks.kafka_streams [--only NAME]

It needs Java and Maven, which gets Kafka. A broker of one node runs on 127.0.0.1 meanwhile. Both sides read the same
topic of two partitions to its end, two threads each, with 6 GB of heap, a grace or a watermark 5 seconds behind, and
durable state in RocksDB: Kafka's goes into changelog topics, and is committed every 10 seconds, ours into checkpoints,
with every micro-batch. Keys and values are text; keys are where they belong, so that Kafka need not repartition. Kafka
has a gigabyte of record cache, so that it does not write each update, and its sink drops what comes, as ours does: no
results go into a topic. A last record in either partition, hours later, makes both close all windows; its own windows
are not compared.

Each side runs twice. The first run warms up and writes its rows, and if they are not equal there is no ratio: of
updates, the last of each window. The second is timed. Kafka Streams takes minutes for many windows per record, so it
reads a part of the records and keys, as dense per key; ours is timed on all of them, and on that part too.

A ratio is of processor seconds per record, of the JVM of Kafka Streams, and of all our processes. The broker's are in
neither. Results are kept in the tree, where `make bench` finds them, as it does not run this.
"""

import argparse
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.baselines.ours import Ours, OurSessions, OurSliding
from benchmarks.baselines.query import Query
from benchmarks.comparisons.comparison import PROCESSOR, Comparison
from benchmarks.kafka_streams import streams
from benchmarks.nexmark.lines import MILLIONS
from benchmarks.nexmark.workload import bids
from benchmarks.report import page, results
from benchmarks.running.processes import processor_seconds
from benchmarks.running.run import Run
from benchmarks.running.session import add_jars, session, stop
from benchmarks.running.side import DELAY
from benchmarks.theodolite.lines import DAYS
from benchmarks.theodolite.workload import by_hour
from benchmarks.workloads.inputs import DAY, DENSE, HOUR, MINUTE, TEN_SECONDS
from benchmarks.workloads.rows import difference
from benchmarks.workloads.workload import Workload, scratch
from servers import maven
from servers.kafka import CONNECTOR, Broker, broker
from servers.process import Unavailable
from slicing import early, on_update

HOURS = replace(DAY, name="day's first 2 M records", batches=2)
PART = HOURS.cut(0.04)
MILLION = replace(DAY, name="day's first million", records=500_000, seconds=4_320, batches=2)
SOME = replace(MILLIONS, batches=20)
BIDS, BIDDERS = bids(SOME, "auction"), bids(SOME, "bidder")
BY_HOUR = by_hour(DAYS)
VERSION = "kafka-streams 4.3.0"
UPDATES = Ours(emission=on_update())
LIMITED = Ours(emission=early(after="10 seconds", by="event", final=False))


@dataclass(frozen=True)
class KafkaStreams:
    """One line of the performance page: `emit` is the emit strategy, `part` the cut that Kafka Streams reads."""

    name: str
    title: str
    ours: Query
    workload: Workload
    part: Workload
    size: str
    advance: str
    emit: str
    goal: float | None = None

    def measured(self) -> results.Ratio:
        """Run both sides, Kafka Streams first, and return their ratio."""
        with scratch() as folder, broker(folder) as server:
            streams.feed(self.part, self.size, server, folder, "part")
            baseline = streams.run(self.part, self.size, self.advance, self.emit, server, folder, "part")
            written = folder / "ours"
            self._run(server, "part", self.part, partial(_append, written), folder / "first")
            ours = small = self._run(server, "part", self.part, None, folder / "second")
            if self.workload != self.part:
                streams.feed(self.workload, self.size, server, folder, "all")
                ours = self._run(server, "all", self.workload, None, folder / "third")
                ours = replace(ours, note=f"on the part {1e6 * small.processor / small.records:.1f} us per record")
            differs = None
            if not baseline.stopped:
                found, theirs = _last(session().read.parquet(str(written))), _theirs(self.size, self.advance, folder)
                differs = difference(found, theirs)
                ours = replace(ours, rows=found.count())
        comparison = Comparison(
            self.name, self.title, sides=lambda: (baseline, ours), checks=(), measure=PROCESSOR, goal=self.goal
        )
        found = comparison.ratio_of(_spoken(baseline), _spoken(ours), differs)
        return replace(found, machine=f"{found.machine}, {VERSION}")

    def _run(self, server: Broker, topic: str, workload: Workload, sink: object, checkpoint: Path) -> Run:
        """Our stream over a topic, into `sink`, a function of rows and micro-batch number, or into a noop sink."""
        out = self.ours(_records(server, topic, workload), self.size, self.advance)
        writer = out.writeStream.foreachBatch(sink) if sink else out.writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        start, before = time.monotonic(), processor_seconds(without=server.process)
        writer.start().awaitTermination()
        seconds, processor = time.monotonic() - start, processor_seconds(without=server.process) - before
        return Run(seconds, workload.total, store="RocksDB", batches=workload.batches, processor=processor)


COMPARISONS = (
    KafkaStreams(
        "KafkaStreamsClose", "day, R = 60, on close / Kafka Streams, suppressed, on a 25th",
        Ours(), HOURS, PART, HOUR, MINUTE, "suppress",
    ),
    KafkaStreams(
        "KafkaStreamsStrategy", "day, R = 60, on close / Kafka Streams, `EmitStrategy.onWindowClose`, on a 25th",
        Ours(), HOURS, PART, HOUR, MINUTE, "close",
    ),
    KafkaStreams(
        "KafkaStreamsUpdate", "day, R = 60, on update / Kafka Streams, on a 25th",
        UPDATES, HOURS, PART, HOUR, MINUTE, "update",
    ),
    KafkaStreams(
        "KafkaStreamsLimit", "day, R = 60, 10 seconds after an update / Kafka Streams, `untilTimeLimit`, on a 25th",
        LIMITED, HOURS, PART, HOUR, MINUTE, "limit", goal=10,
    ),
    KafkaStreams(
        "KafkaStreamsFineClose", "dense, R = 360, on close / Kafka Streams, suppressed, on a 20th",
        Ours(), DENSE, DENSE.cut(0.05), HOUR, TEN_SECONDS, "suppress",
    ),
    KafkaStreams(
        "KafkaStreamsFineUpdate", "dense, R = 360, on update / Kafka Streams, on a 20th",
        UPDATES, DENSE, DENSE.cut(0.05), HOUR, TEN_SECONDS, "update",
    ),
    KafkaStreams(
        "KafkaStreamsTumbling", "day, tumbling (R = 1), on close / Kafka Streams, suppressed",
        Ours(), HOURS, HOURS, MINUTE, MINUTE, "suppress",
    ),
    KafkaStreams(
        "KafkaStreamsSliding", "sliding 10 min, left windows / Kafka Streams, suppressed, left and right ones",
        OurSliding("1 millisecond"), MILLION, MILLION, "10 minutes", "", "suppress",
    ),
    KafkaStreams(
        "KafkaStreamsTumblingUpdate", "day, tumbling (R = 1), on update / Kafka Streams",
        UPDATES, HOURS, HOURS, MINUTE, MINUTE, "update",
    ),
    KafkaStreams(
        "KafkaStreamsNexmarkHour", "Nexmark q5's counts, 60 minutes by 1 minute / Kafka Streams, suppressed, on a 20th",
        Ours(), BIDS, BIDS.cut(0.05), HOUR, MINUTE, "suppress", goal=20,
    ),
    KafkaStreams(
        "KafkaStreamsNexmark", "Nexmark q5's counts, 10 seconds by 2 seconds / Kafka Streams, suppressed, on a 5th",
        Ours(), BIDS, BIDS.cut(0.2), TEN_SECONDS, "2 seconds", "suppress",
    ),
    KafkaStreams(
        "KafkaStreamsNexmarkSessions", "Nexmark q11 / Kafka Streams, suppressed, on a 5th",
        OurSessions(), BIDDERS, BIDDERS.cut(0.2), TEN_SECONDS, streams.SESSION, "suppress",
    ),
    KafkaStreams(
        "KafkaStreamsTheodolite", "Theodolite UC3's count and sum / Kafka Streams, suppressed, on a 20th",
        Ours(), BY_HOUR, BY_HOUR.cut(0.05), "30 days", "1 day", "suppress", goal=20,
    ),
)  # fmt: skip


def main() -> int:
    """Measure the named comparisons, or all; return 1 if rows differ in any, 2 if Kafka is not available."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", choices=[each.name for each in COMPARISONS], help="repeatable")
    options = parser.parse_args()
    try:
        add_jars(maven.jars(CONNECTOR))
    except Unavailable as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 2
    wrong = 0
    for comparison in COMPARISONS:
        if not options.only or comparison.name in options.only:
            found = comparison.measured()
            results.keep(found, results.BY_HAND)
            print(f"{found.title}: {page.in_short(found)}; {found.machine}", flush=True)
            wrong += found.differs is not None
    stop()
    return min(wrong, 1)


def _records(server: Broker, topic: str, workload: Workload) -> DataFrame:
    """The topic as a stream, in as many micro-batches as the workload has."""
    reader = session().readStream.format("kafka").option("kafka.bootstrap.servers", server.address)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    records = reader.option("maxOffsetsPerTrigger", workload.records).load()
    key, value = (F.col(name).cast("string").cast("bigint") for name in ("key", "value"))
    return records.select(key.alias("key"), F.col("timestamp").alias("ts"), value.alias("v")).withWatermark("ts", DELAY)


def _theirs(size: str, advance: str, folder: Path) -> DataFrame:
    if advance == streams.SESSION:
        return streams.session_rows(folder, size)
    return streams.rows(folder) if advance else streams.left_rows(folder, "part")


def _append(path: Path, rows: DataFrame, _: int) -> None:
    rows.where("key >= 0").write.mode("append").parquet(str(path))


def _last(rows: DataFrame) -> DataFrame:
    """The last update of each window, which is the one with the most records."""
    return rows.groupBy("key", "window").agg(F.max("records").alias("records"), F.max("total").alias("total"))


def _spoken(run: Run) -> Run:
    """The run with its processor time in the note."""
    notes = [
        f"{run.processor:.1f} s of processor time, {1e6 * run.processor / run.records:.1f} us per record",
        run.note,
    ]
    return replace(run, note="; ".join(filter(None, notes)))


if __name__ == "__main__":
    sys.exit(main())
