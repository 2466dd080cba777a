"""Kafka -> windows -> Kafka on a real broker, over a SIGKILL, a stop and a commit that was lost: `make test-kafka`.

Results are read as docs/kafka.md says, deduplicated by (key, window, revision), and are those of Spark's bounded
`window()`. Two queries run side by side in a process that is killed and started again: one puts out windows when they
close, the other on each update.
"""

import json
import random
import sys
from pathlib import Path

import pytest
from killed import Job, wait
from pyspark.sql import functions as F

import combinators as C
from servers import maven
from servers.kafka import CONNECTOR, broker
from servers.process import Unavailable
from slicing import group_by, hopping, on_close, on_update

pytestmark = pytest.mark.servers

WINDOW = hopping("10 minutes", advance="1 minute")
DELAY_SECONDS = 30
PATIENCE = 300
START = 1_700_006_400
SECONDS_PER_FEED, RECORDS_PER_FEED, KEYS = 1_800, 3_000, 20
GO_ON, TO_THE_END = {"processingTime": "0 seconds"}, {"availableNow": True}
EMISSIONS = {"closed": on_close(), "updated": on_update()}
RECORD = "user bigint, ts double, amount bigint"
ROW = "user bigint, window struct<start: timestamp, end: timestamp>, orders bigint, spent bigint, revision bigint"


# --- the process that is killed -------------------------------------------------------------------------------------


def features(spark, address, emission):
    """From the topic `payments` to rows of text for a topic."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", "payments")
    records = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 500).load()
    parsed = records.select(F.from_json(F.col("value").cast("string"), RECORD).alias("r")).select("r.*")
    events = parsed.withColumn("ts", F.timestamp_micros((F.col("ts") * 1_000_000).cast("bigint")))
    windowed = group_by(events.withWatermark("ts", f"{DELAY_SECONDS} seconds"), "user").window(WINDOW, time="ts")
    rows = windowed.emit(emission).aggregate(orders=C.count(), spent=C.sum("amount"))
    return rows.select(F.to_json(F.struct("user", "window")).alias("key"), F.to_json(F.struct("*")).alias("value"))


def start(spark, address, root, trigger):
    """Both queries."""
    queries = []
    for name, emission in EMISSIONS.items():
        # Updates have nothing to say in a micro-batch without data: so the last one that is committed has rows.
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", str(name == "closed").lower())
        writer = features(spark, address, emission).writeStream.format("kafka").queryName(name)
        writer = writer.option("kafka.bootstrap.servers", address).option("topic", name)
        writer = writer.option("checkpointLocation", str(root / name))
        queries.append(writer.trigger(**trigger).start())
    return queries


def main(address, root, way):
    """Run both until this process is "killed", or to the "end": with a stop on the way, and commits that are lost."""
    spark = _session(root / way)
    if way == "killed":
        start(spark, address, root, GO_ON)
        spark.streams.awaitAnyTermination()
        raise SystemExit("a query ended by itself")
    job = job_of(address, root)
    done = job.committed()
    queries = start(spark, address, root, GO_ON)
    wait(lambda: job.committed() >= done + 2, lambda: all(query.isActive for query in queries), PATIENCE)
    for query in queries:
        query.stop()
    _finish(spark, address, root)
    job.lose_commits()
    _finish(spark, address, root)
    spark.stop()


def _finish(spark, address, root):
    for query in start(spark, address, root, TO_THE_END):
        query.awaitTermination()


def _session(root):
    from conftest import _start

    (root / "tmp").mkdir(parents=True, exist_ok=True)
    return _start(root, {"spark.jars": maven.jars(CONNECTOR)})


def job_of(address, root):
    """The two queries over a broker's topics."""
    return Job(__file__, (address, str(root)), root, tuple(EMISSIONS), root / "log", PATIENCE)


# --- the tests ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    try:
        with broker(tmp_path_factory.mktemp("broker")) as running:
            yield running
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def kafka(server, tmp_path_factory):
    session = _session(tmp_path_factory.mktemp("reader"))
    yield session
    session.stop()


def records(number):
    """Payments of half an hour, out of order by less than the delay, so that none is late."""
    choice = random.Random(number)
    times = sorted(choice.uniform(0, SECONDS_PER_FEED) for _ in range(RECORDS_PER_FEED))
    first = START + number * SECONDS_PER_FEED
    return [
        {
            "user": choice.randrange(KEYS),
            "ts": round(first + max(0.0, at - choice.uniform(0, DELAY_SECONDS - 1)), 3),
            "amount": choice.randrange(1000),
        }
        for at in times
    ]


def feed(spark, address, made):
    lines = [(json.dumps(each["user"]), json.dumps(each)) for each in made]
    # One partition in, so that micro-batches are in the order of time.
    frame = spark.createDataFrame(lines, "key string, value string").coalesce(1).withColumn("partition", F.lit(0))
    frame.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", "payments").save()


def written(spark, address, name):
    """All rows of a topic, in the order of their offsets."""
    topic = spark.read.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", name).load()
    return topic.select(F.from_json(F.col("value").cast("string"), ROW).alias("r")).select("r.*")


def spark_windows(spark, made):
    """Spark's own, bounded, and `whole`: whether the stream's watermark has passed their end."""
    frame = spark.createDataFrame([tuple(each.values()) for each in made], RECORD)
    events = frame.withColumn("ts", F.timestamp_micros((F.col("ts") * 1_000_000).cast("bigint")))
    window = F.window("ts", "10 minutes", "1 minute").alias("window")
    rows = events.groupBy("user", window).agg(F.count("*").alias("orders"), F.sum("amount").alias("spent"))
    watermark = max(each["ts"] for each in made) - DELAY_SECONDS
    return rows.withColumn("whole", F.unix_millis("window.end") <= int(watermark * 1000))


def rows_of(frame):
    return sorted(map(tuple, frame.select("user", "window", "orders", "spent").collect()))


def test_windows_from_kafka_to_kafka_over_kills_and_restarts(kafka, server, tmp_path):
    job, made = job_of(server.address, tmp_path), [each for number in range(3) for each in records(number)]
    feed(kafka, server.address, records(0))
    job.killed(3)
    feed(kafka, server.address, made[RECORDS_PER_FEED:])
    job.finish()

    expected = spark_windows(kafka, made)
    closed, updated = (written(kafka, server.address, name).persist() for name in EMISSIONS)
    once = closed.dropDuplicates(["user", "window"])
    assert rows_of(once) == rows_of(expected.where("whole"))
    assert closed.count() > once.count(), "micro-batches were repeated, and their rows with them"
    assert rows_of(once) == rows_of(closed.distinct()), "a row that comes twice is the same both times"

    once = updated.dropDuplicates(["user", "window", "revision"])
    assert updated.count() > once.count(), "micro-batches were repeated, and their rows with them"
    assert once.count() == updated.distinct().count(), "a row that comes twice is the same both times"
    newest = once.groupBy("user", "window").agg(
        F.max_by("orders", "revision").alias("orders"), F.max_by("spent", "revision").alias("spent")
    )
    assert rows_of(newest) == rows_of(expected)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
