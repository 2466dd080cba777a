"""What a checkpoint holds its query to, on real checkpoints that are started again."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from streams import MINUTE, START, Running, micros, record, table, write

import combinators as C
from slicing import group_by, hopping, tumbling

FILES = [
    table([record((i * file) % 3, START + (4 * file + i) * MINUTE, n=i - file) for i in range(8)]) for file in range(6)
]
SCHEMA = "world bigint, ts timestamp, n bigint"
WINDOW = hopping("10 minutes", "5 minutes")


def stream(spark, folder, time="ts"):
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    frame = reader.parquet(str(folder)).withColumn("items", F.array("n", "n", F.lit(1).cast("long")))
    return frame.withColumn("at", F.col("ts")).withWatermark(time, "1 minute")


def folded():
    return F.aggregate("items", F.lit(0).cast("long"), lambda total, item: total + item)


def place(row):
    return row["world"], micros(row["window"]["start"]), row["total"]


@pytest.mark.slow
def test_a_column_computed_with_a_lambda_goes_on_in_the_same_process(spark, tmp_path):
    def query():
        return (
            group_by(stream(spark, tmp_path / "files"), "world")
            .window(WINDOW, time="ts")
            .aggregate(total=C.sum(folded()))
        )

    write(FILES[:3], tmp_path / "files")
    running = Running(query(), tmp_path / "checkpoint", {"availableNow": True})
    running.finish()
    write(FILES[3:], tmp_path / "files", 3)
    running.frame = query()  # another build, whose variables have other numbers
    running.start()
    found = {place(row) for each in running.finish().tables.values() for row in each.to_pylist()}
    every = spark.read.schema(SCHEMA).parquet(str(tmp_path / "files"))
    wanted = every.groupBy("world", F.window("ts", "10 minutes", "5 minutes")).agg(
        F.sum(2 * F.col("n") + 1).alias("total")
    )
    last = max(start for _, start, _ in found)
    assert found == {place(row) for row in wanted.collect() if micros(row.window.start) <= last}
    assert len(found) > 10


@pytest.mark.slow
def test_results_of_a_column_and_of_its_condition_change_places(spark, tmp_path):
    results = {"given": C.count("paid"), "paid": C.count(where="paid")}

    def query(names):
        frame = stream(spark, tmp_path / "files").withColumn("paid", F.col("n") > 0)
        return group_by(frame, "world").window(WINDOW, time="ts").aggregate(**{name: results[name] for name in names})

    write(FILES[:3], tmp_path / "files")
    running = Running(query(["given", "paid"]), tmp_path / "checkpoint", {"availableNow": True})
    running.finish()
    write(FILES[3:], tmp_path / "files", 3)
    running.frame = query(["paid", "given"])
    running.start()
    rows = [row for each in running.finish().tables.values() for row in each.to_pylist()]
    every = spark.read.schema(SCHEMA).parquet(str(tmp_path / "files")).withColumn("paid", F.col("n") > 0)
    counts = F.count("paid").alias("given"), F.count_if("paid").alias("paid")
    wanted = {
        (row["world"], micros(row.window.start)): (row["given"], row["paid"])
        for row in every.groupBy("world", F.window("ts", "10 minutes", "5 minutes")).agg(*counts).collect()
    }
    found = {(row["world"], micros(row["window"]["start"])): (row["given"], row["paid"]) for row in rows}
    assert found == {place: counted for place, counted in wanted.items() if place in found}
    assert sum(given > paid for given, paid in found.values()) > 10


@pytest.mark.slow
def test_another_time_column_is_refused(spark, tmp_path):
    write(FILES[:3], tmp_path / "files")
    frame = stream(spark, tmp_path / "files")

    def running(frame, time):
        made = group_by(frame, "world").window(tumbling("5 minutes"), time=time).aggregate(total=C.sum("n"))
        return Running(made, tmp_path / "checkpoint", {"availableNow": True})

    running(frame, "ts").finish()
    for same in ("TS", F.col("ts"), frame.ts):
        write(FILES[3:4], tmp_path / "files", 3)
        running(frame, same).finish()
    write(FILES[4:5], tmp_path / "files", 4)
    with pytest.raises(StreamingQueryException, match="time column: `ts` in the checkpoint, `at` in the query"):
        running(stream(spark, tmp_path / "files", "at"), "at").finish()
