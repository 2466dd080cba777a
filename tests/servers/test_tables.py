"""Tables of Delta Lake and Iceberg at both ends of a query, over a SIGKILL, a stop and a commit that was lost.

`make test-delta` runs it on Spark 4.2, `make test-iceberg` on 4.1: for these there are jars. Two queries run side by
side in a process that is killed and started again: one appends windows when they close, the other merges updates.
Truth is Spark's bounded `window()`, and brute force over what a query was given to merge.
"""

import random
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import SPARK, _start
from killed import Job
from pyspark.sql import functions as F
from streams import Interrupted, ends

import combinators as C
from servers import maven
from servers.process import Unavailable
from slicing import group_by, hopping, merge_into, on_change, on_close, on_update, session

SERVERS = Path(__file__).resolve().parents[2] / "servers"
pytestmark = pytest.mark.servers

WINDOW = hopping("10 minutes", advance="5 minutes")
DELAY_SECONDS, PATIENCE = 30, 600
START = 1_700_006_400
FEEDS, SECONDS_PER_FEED, RECORDS_PER_FEED, KEYS = 12, 300, 60, 5
GO_ON, TO_THE_END = {"processingTime": "0 seconds"}, {"availableNow": True}
EMISSIONS = {"closed": on_close(), "updated": on_update()}
RECORD = "user bigint, ts timestamp, amount bigint"
COLUMNS = "user bigint, window struct<start: timestamp, end: timestamp>, orders bigint, spent bigint"
MARKS = ", emission string, revision bigint"


@dataclass(frozen=True)
class Delta:
    """By their paths, as a catalog in memory forgets names when its process ends."""

    root: Path
    format = "delta"
    one_file = {"maxFilesPerTrigger": "1"}  # noqa: RUF012

    def options(self):
        return {
            "spark.jars": maven.jars(SERVERS / "delta"),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
        }

    def name(self, table):
        return f"delta.`{self.root / 'tables' / table}`"

    def start(self, writer, table):
        return writer.format("delta").start(str(self.root / "tables" / table))

    def read(self, reader, table):
        return reader.format("delta").load(str(self.root / "tables" / table))


@dataclass(frozen=True)
class Iceberg:
    """By name, from a catalog that is a directory."""

    root: Path
    format = "iceberg"
    one_file = {"streaming-max-files-per-micro-batch": "1"}  # noqa: RUF012

    def options(self):
        return {
            "spark.jars": maven.jars(SERVERS / "iceberg"),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            # Else a session shows a table as it was up to half a minute ago, if another has written it since.
            "spark.sql.catalog.lake.cache-enabled": "false",
            "spark.sql.catalog.lake.warehouse": str(self.root / "tables"),
        }

    def name(self, table):
        return f"lake.db.{table}"

    def start(self, writer, table):
        return writer.format("iceberg").toTable(self.name(table))

    def read(self, reader, table):
        return reader.format("iceberg").table(self.name(table))


FORMATS = {(4, 1): Iceberg, (4, 2): Delta}


def _session(lake, name):
    place = lake.root / name
    (place / "tmp").mkdir(parents=True, exist_ok=True)
    return _start(place, lake.options())


# --- the process that is killed -------------------------------------------------------------------------------------


def features(spark, lake, emission):
    """From the table `payments` to rows of windows."""
    reader = spark.readStream
    for option, value in lake.one_file.items():
        reader = reader.option(option, value)
    events = lake.read(reader, "payments").withWatermark("ts", f"{DELAY_SECONDS} seconds")
    windowed = group_by(events, "user").window(WINDOW, time="ts").emit(emission)
    return windowed.aggregate(orders=C.count(), spent=C.sum("amount"))


def start(spark, lake, trigger):
    """Both queries."""
    queries = []
    for name, emission in EMISSIONS.items():
        writer = features(spark, lake, emission).writeStream.queryName(name).trigger(**trigger)
        writer = writer.option("checkpointLocation", str(lake.root / "checkpoints" / name))
        merged = emission != on_close()
        queries.append(
            writer.foreachBatch(merge_into(lake.name(name), "user", "window")).start()
            if merged
            else lake.start(writer, name)
        )
    return queries


def main(root, way):
    """Run both until this process is "killed", or to the "end": with commits that are lost on the way."""
    lake = FORMATS[SPARK](root)
    spark = _session(lake, way)
    if way == "killed":
        start(spark, lake, GO_ON)
        spark.streams.awaitAnyTermination()
        raise SystemExit("a query ended by itself")
    for _ in range(2):
        for query in start(spark, lake, TO_THE_END):
            query.awaitTermination()
        job_of(root).lose_commits()
    for query in start(spark, lake, TO_THE_END):
        query.awaitTermination()
    spark.stop()


def job_of(root):
    """The two queries."""
    return Job(__file__, (str(root),), root / "checkpoints", tuple(EMISSIONS), root / "log", PATIENCE)


# --- the tests ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    if SPARK not in FORMATS:
        pytest.skip("there are jars of Delta Lake for Spark 4.2 and of Iceberg for 4.1: make test-delta test-iceberg")
    found = FORMATS[SPARK](tmp_path_factory.mktemp("lake"))
    try:
        found.options()
    except Unavailable as why:
        pytest.skip(str(why))
    return found


@pytest.fixture(scope="module")
def tables(lake):
    spark = _session(lake, "reader")
    yield spark
    spark.stop()


def records(number):
    """Payments of five minutes, out of order by less than the delay, so that none is late."""
    choice = random.Random(number)
    first = START + number * SECONDS_PER_FEED
    times = sorted(choice.uniform(0, SECONDS_PER_FEED) for _ in range(RECORDS_PER_FEED))
    return [
        (
            choice.randrange(KEYS),
            round(first + max(0, at - choice.uniform(0, DELAY_SECONDS - 1)), 3),
            choice.randrange(1000),
        )
        for at in times
    ]


def frame_of(spark, made):
    rows = spark.createDataFrame(
        [(user, float(at), n) for user, at, n in made], "user bigint, ts double, amount bigint"
    )
    return rows.withColumn("ts", F.timestamp_micros((F.col("ts") * 1_000_000).cast("bigint")))


def create(spark, lake, table, columns):
    spark.sql(f"CREATE TABLE {lake.name(table)} ({columns}) USING {lake.format}")


def feed(spark, lake, numbers):
    for number in numbers:
        rows = frame_of(spark, records(number)).coalesce(1)
        rows.createOrReplaceTempView("fed")
        spark.sql(f"INSERT INTO {lake.name('payments')} SELECT user, ts, amount FROM fed")


def rows_of(frame):
    return sorted(map(tuple, frame.select("user", "window", "orders", "spent").collect()))


def test_windows_from_table_to_table_over_kills_and_lost_commits(tables, lake):
    create(tables, lake, "payments", RECORD)
    create(tables, lake, "closed", COLUMNS)
    create(tables, lake, "updated", COLUMNS + MARKS)
    feed(tables, lake, range(FEEDS // 2))
    job = job_of(lake.root)
    job.killed(3)
    feed(tables, lake, range(FEEDS // 2, FEEDS))
    job.finish()

    made = [each for number in range(FEEDS) for each in records(number)]
    window = F.window("ts", "10 minutes", "5 minutes").alias("window")
    events = frame_of(tables, made).groupBy("user", window)
    expected = events.agg(F.count("*").alias("orders"), F.sum("amount").alias("spent"))
    watermark = max(at for _, at, _ in made) - DELAY_SECONDS
    closed, updated = (lake.read(tables.read, name) for name in EMISSIONS)
    assert rows_of(closed) == rows_of(expected.where(F.unix_millis("window.end") <= int(watermark * 1000)))
    assert rows_of(updated) == rows_of(expected)
    assert closed.count() > 30

    # A table of windows is input as any other: hours of the windows that were appended.
    hours = group_by(lake.read(tables.read, "payments"), "user").window(hopping("1 hour", "1 hour"), time="ts")
    found = {tuple(row) for row in hours.aggregate(spent=C.sum("amount")).select("user", "spent").collect()}
    assert found == {tuple(row) for row in frame_of(tables, made).groupBy("user").agg(F.sum("amount")).collect()}


class Repeated:
    """Merges each micro-batch, and fails once after some: the table has them, and Spark does not know."""

    def __init__(self, merge, fails):
        self.merge, self.fails, self.rows = merge, set(fails), {}

    def __call__(self, batch, number):
        batch.persist()
        self.rows[number] = [row.asDict(recursive=True) for row in batch.collect()]
        self.merge(batch, number)
        if number in self.fails:
            self.fails.remove(number)
            raise Interrupted("the table has it, and Spark does not know")


GIVEN = (
    [(1, START, 1), (1, START + 60, 2), (2, START, 3)],
    [(1, START + 30, 4)],  # joins two sessions
    [(5, START + 750, 7)],  # closes the windows of 1 and 2, which are not drained yet
    [(3, START + 7200, 5)],  # all that came before ends
    [(4, START + 7900, 6)],
)
CASES = {
    "sessions": (session("45 seconds"), on_update(), ("user", "window"), {"update", "merged"}),
    "changed": (WINDOW, on_change(drained=True), ("user",), {"final", "drained"}),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_that_are_no_result_any_more_leave_the_table(tables, lake, name):
    window, emission, key, kinds = CASES[name]
    create(tables, lake, f"events_{name}", RECORD)
    create(tables, lake, name, COLUMNS + MARKS)
    for rows in GIVEN:
        frame_of(tables, rows).coalesce(1).createOrReplaceTempView("fed")
        tables.sql(f"INSERT INTO {lake.name(f'events_{name}')} SELECT user, ts, amount FROM fed")
    reader = tables.readStream
    for option, value in lake.one_file.items():
        reader = reader.option(option, value)
    events = lake.read(reader, f"events_{name}").withWatermark("ts", "90 seconds")
    windowed = group_by(events, "user").window(window, time="ts").emit(emission)
    frame = windowed.aggregate(orders=C.count(), spent=C.sum("amount"))
    sink = Repeated(merge_into(lake.name(name), *key), fails=(1, 2, 3))
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(lake.root / "checkpoints" / name))
    while not ends(writer):
        pass
    assert not sink.fails, "three micro-batches ran twice"

    given = [row for number in sorted(sink.rows) for row in sink.rows[number]]
    assert {row["emission"] for row in given} == kinds
    newest = {}
    for row in sorted(given, key=lambda row: (row["revision"], row["window"]["end"])):
        newest[row["user"], *(row["window"].values() if "window" in key else ())] = row
    wanted = [row for row in newest.values() if row["emission"] not in ("drained", "merged")]
    assert len(newest) > len(wanted) > 0
    kept = [row.asDict(recursive=True) for row in lake.read(tables.read, name).collect()]
    assert sorted(map(str, kept)) == sorted(map(str, wanted))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
