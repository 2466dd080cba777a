"""Event times that cannot be: made null before they move the watermark, and counted apart from those that were null."""

import json
import time
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from streams import (
    DAY,
    EPOCH,
    HOUR,
    MINUTE,
    SCHEMA,
    SECOND,
    START,
    Output,
    record,
    run,
    source,
    table,
    times_of,
    write,
)

import combinators as C
from slicing import InvalidType, InvalidValue, group_by, hopping, plausible
from slicing.spark.progress import micro_batch

SENTINEL = 253_402_214_400 * SECOND
"""9999-12-31."""


def now():
    return int(time.time()) * SECOND


def bounded(spark, times):
    rows = [(n, None if at is None else EPOCH + timedelta(microseconds=at)) for n, at in enumerate(times)]
    return spark.createDataFrame(rows, "n int, ts timestamp")


def left(frame):
    """Which records still have a time."""
    return [row.n for row in frame.where("ts is not null").orderBy("n").collect()]


def test_times_too_far_from_now_become_null(spark):
    at = now()
    times = [at, at + 30 * MINUTE, at + 90 * MINUTE, SENTINEL, None, at - 399 * DAY, at - 401 * DAY, 0, -DAY]
    frame = bounded(spark, times)
    assert left(plausible(frame, "ts", ahead="1 hour")) == [0, 1, 5, 6, 7, 8]
    assert left(plausible(frame, "ts", ahead="1 hour", behind="400 days")) == [0, 1, 5]
    assert left(plausible(frame, "ts", ahead=timedelta(hours=2), behind=timedelta(minutes=1))) == [0, 1, 2]


@pytest.mark.parametrize("ahead", ["1 hour", "52000000 days"])
def test_the_ends_of_what_a_timestamp_can_hold_are_compared_too(spark, ahead):
    ends = spark.createDataFrame([(0, -(2**63)), (1, 2**63 - 1), (2, now())], "n int, at long")
    frame = ends.select("n", F.timestamp_micros("at").alias("ts"))
    assert left(plausible(frame, "ts", ahead, behind=ahead)) == [2]


def test_a_wall_clock_is_that_of_the_zone_of_the_session(zone):
    """As the cast reads it that a stream needs. In New York it is never later than in UTC, by four hours or five."""
    at = now()
    here = (EPOCH + timedelta(microseconds=at)).astimezone(ZoneInfo("America/New_York")).replace(tzinfo=None)
    hours = [-2, -0.5, 0, 0.5, 2, 4.5]
    frame = zone.createDataFrame(
        [(n, here + timedelta(hours=h)) for n, h in enumerate(hours)], "n int, ts timestamp_ntz"
    )
    assert left(plausible(frame, "ts", ahead="1 hour", behind="1 hour")) == [1, 2, 3]
    cast = frame.withColumn("ts", F.col("ts").cast("timestamp"))
    assert left(plausible(cast, "ts", ahead="1 hour", behind="1 hour")) == [1, 2, 3]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "given"),
    [("ts", "ts"), ("ts", "TS"), ("ts", "`ts`"), ("at.utc", "`at.utc`"), ("at.utc", "at.utc"), ("a`b c", "`a``b c`")],
)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_nothing_else_of_the_frame_changes(spark, name, given, kind):
    doc = {"comment": "of the device"}
    frame = bounded(spark, [now(), SENTINEL, None]).select(
        "n", F.col("ts").cast(kind).alias(name, metadata=doc), F.lit("x").alias("n"), F.struct("ts").alias("at")
    )
    checked = plausible(frame, given, ahead="1 day")
    assert [(f.name, f.dataType, f.metadata) for f in checked.schema] == [
        (f.name, f.dataType, f.metadata) for f in frame.schema
    ]
    assert checked.schema[1].metadata == doc
    before, after = (sorted(map(tuple, each.collect())) for each in (frame, checked))
    assert [row[:1] + row[2:] for row in after] == [row[:1] + row[2:] for row in before]
    assert [row[1] is None for row in after] == [False, True, True]
    assert after[0] == before[0]


def test_names_are_told_apart_by_case_where_the_session_does(spark):
    frame = bounded(spark, [SENTINEL]).select("n", "ts", F.col("ts").alias("TS"))
    with pytest.raises(InvalidValue, match="time column `ts` is ambiguous: 2 columns"):
        plausible(frame, "ts", ahead="1 hour")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        (row,) = plausible(frame, "TS", ahead="1 hour").collect()
        assert (row[1] is None, row[2] is None) == (False, True)
        with pytest.raises(InvalidValue, match="time column `Ts` does not exist"):
            plausible(frame, "Ts", ahead="1 hour")
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"ahead": 3600}, InvalidType, "`ahead`: a duration needs a unit; got 3600"),
        ({"ahead": None}, InvalidType, "`ahead`: a duration needs a unit; got None"),
        ({"ahead": "60"}, InvalidValue, "`ahead`: a duration needs a unit; got '60'"),
        ({"ahead": "0 seconds"}, InvalidValue, "`ahead` must be positive, .*; got '0 seconds'"),
        ({"ahead": timedelta(seconds=-1)}, InvalidValue, "`ahead` must be positive"),
        ({"ahead": "1 hour", "behind": "-1 day"}, InvalidValue, "`behind` must be positive, .*; got '-1 day'"),
        ({"ahead": "1 hour", "behind": 0}, InvalidType, "`behind`: a duration needs a unit; got 0"),
        ({"ahead": "1 hour", "behind": "1 month"}, InvalidValue, "`behind`: months, quarters and years"),
        ({"ahead": "100000000 weeks"}, InvalidValue, "less than 146,000 years"),
        ({"ahead": "1 hour", "time": "at"}, InvalidValue, "time column `at` does not exist; the columns are n, ts"),
        ({"ahead": "1 hour", "time": "n"}, InvalidType, "time column `n` must be timestamp or timestamp_ntz; got int"),
        ({"ahead": "1 hour", "time": 7}, InvalidType, "`time` is the name of a column; got 7"),
    ],
)
def test_what_cannot_be_is_refused_at_once(spark, arguments, error, message):
    with pytest.raises(error, match=message):
        plausible(bounded(spark, [0]), **{"time": "ts", **arguments})


# --- streams ----------------------------------------------------------------------------------------------------------


def unmarked(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def test_the_watermark_has_seen_all_times_already(spark, tmp_path):
    write([table([record(1, START)])], tmp_path)
    with pytest.raises(
        InvalidValue, match=r"`plausible` comes before the watermark.*\.withWatermark\(\"ts\", \.\.\.\)"
    ):
        plausible(source(spark, tmp_path), "ts", ahead="1 hour")


WINDOW = hopping("10 minutes", "2 minutes")


def results(frame):
    return group_by(frame, "world").window(WINDOW, time="ts").aggregate(n=C.count(), total=C.sum("n"))


@pytest.mark.slow
def test_a_record_from_the_future_neither_ends_a_stream_nor_is_taken_for_one_without_a_time(spark, tmp_path):
    ordinary = [[record(n % 3, START + (5 * batch + n % 5) * MINUTE, n=n) for n in range(9)] for batch in range(5)]
    write(map(table, ordinary), tmp_path / "without")
    more = [record(1, SENTINEL, n=7), record(2, now() + 2 * HOUR, n=7), record(1, None, n=7)]
    write(map(table, [ordinary[0], [*ordinary[1], *more], *ordinary[2:]]), tmp_path / "with")
    frames = [plausible(unmarked(spark, tmp_path / name), "ts", ahead="1 hour") for name in ("without", "with")]
    checked = [results(frame.withWatermark("ts", "1 minute")) for frame in frames]
    unchecked = results(source(spark, tmp_path / "with", "1 minute"))
    without, found, lost = run(*checked, unchecked)
    assert found.rows("world") == without.rows("world")
    assert len(found.rows("world")) > 30
    assert found.watermarks() == without.watermarks()
    assert found.counters("no_time") == {1: 3}
    assert not found.counters("late") | without.counters("no_time")
    implausible = {batch: micro_batch(each).counts["implausible"] for batch, each in found.progress.items()}
    assert {batch: count for batch, count in implausible.items() if count} == {1: 2}
    assert len(lost.rows("world")) > 3 * 6, "all windows that were open have gone out"
    assert sum(lost.counters("late").values()) == 2 * 9, "and no later record counts"


def test_several_calls_in_a_query_are_counted_together(spark, tmp_path):
    """Two sources whose columns are called alike, and a second time column of one of them."""
    write([table([record(1, START), record(1, SENTINEL)])], tmp_path / "a")
    write([table([record(1, START), record(2, SENTINEL), record(3, SENTINEL)])], tmp_path / "b")
    both = [plausible(unmarked(spark, tmp_path / name), "ts", ahead="1 hour") for name in "ab"]
    frame = (
        both[0].unionByName(both[1]).withColumn("seen", F.lit(SENTINEL)).withColumn("seen", F.timestamp_micros("seen"))
    )
    frame = plausible(frame, "seen", ahead="1 hour").withWatermark("ts", "1 minute")
    (output,) = run(results(frame))
    (first, *_) = [each for each in map(micro_batch, output.progress.values()) if each.records]
    names = [name for name in output.progress[0]["observedMetrics"] if name.startswith("implausible: ")]
    assert len(names) == 3
    assert [name.split()[1] for name in sorted(names, key=lambda name: int(name.split()[2]))] == ["ts", "ts", "seen"]
    assert first.counts["implausible"] == 1 + 2 + 5
    assert first.counts["no_time"] == 1 + 2


def test_a_micro_batch_that_is_repeated_sees_the_time_of_its_first_run(spark, tmp_path):
    """The time that the checkpoint has for it is set back here, which no clock of a machine would do."""
    write([table([record(1, START), record(2, START + DAY)])], tmp_path / "files")
    frame = plausible(unmarked(spark, tmp_path / "files"), "ts", ahead="1 hour").select("world", "ts")
    failing = Output(cuts={0})
    with pytest.raises(StreamingQueryException, match="power cut"):
        start(frame, tmp_path / "checkpoint", failing).awaitTermination()
    assert times_of(failing.lost.pop(0)) == [START, START + DAY]
    offsets = tmp_path / "checkpoint" / "offsets" / "0"
    head, times, *rest = offsets.read_text().splitlines()
    (tmp_path / "checkpoint" / "offsets" / ".0.crc").unlink(missing_ok=True)
    times = json.dumps(json.loads(times) | {"batchTimestampMs": START // 1000})
    offsets.write_text("\n".join([head, times, *rest]))
    output = Output()
    start(frame, tmp_path / "checkpoint", output).awaitTermination()
    assert times_of(output.tables[0]) == [START, None]


def start(frame, checkpoint, output):
    writer = frame.writeStream.foreachBatch(output.sink).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()
