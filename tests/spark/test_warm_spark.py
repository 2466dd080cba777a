"""Warm start and partials on Spark: real checkpoints, against Spark's own `groupBy` over history and stream at once."""

import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from rooms import python_path
from streams import (
    DAY,
    EPOCH,
    EXACT,
    HOUR,
    MINUTE,
    OURS,
    SCHEMA,
    SECOND,
    START,
    Output,
    Running,
    by_spark,
    exact_differences,
    float_differences,
    record,
    run,
    source,
    spark_window,
    starts,
    table,
    worlds,
    write,
)

import combinators as C
from slicing import (
    InvalidType,
    InvalidValue,
    group_by,
    hopping,
    on_close,
    on_update,
    processing_time,
    session,
    sliding,
    tumbling,
)
from slicing.windows.counting import counting
from slicing.windows.unbounded import unbounded

pytestmark = pytest.mark.slow

UNTIL = START + 11 * MINUTE + 13 * SECOND
AT = EPOCH + timedelta(microseconds=UNTIL)
HOPPING = hopping("20 minutes", "1 minute")
DELAY = "3 days"
PARTIALS = {name: result for name, result in OURS.items() if name != "records"}
FAR = [record(1, START + 30 * DAY)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Six files, and one far in the future that closes all windows but its own; nothing is late."""
    root = tmp_path_factory.mktemp("warm")
    write(worlds("warm", files=6, count=12), root / "all")
    write([table(FAR)], root / "all", first=99)
    return root


@pytest.fixture(scope="module")
def past(spark, files):
    """All records: also those of the stream, which begins at `until`."""
    return spark.read.schema(SCHEMA).parquet(str(files / "all"))


def defined(frame, window=HOPPING, **results):
    return group_by(frame, "world").window(window, time="ts").define(**(results or OURS))


def by_batch(frame):
    found = frame.toArrow()
    rows = {(row["world"], start): row for row, start in zip(found.to_pylist(), starts(found), strict=True)}
    assert len(rows) == len(found)
    return rows


def streamed(*outputs):
    """(key, start) -> row, whatever the micro-batch."""
    rows = {}
    for output in outputs:
        for (_, *place), row in output.rows("world").items():
            assert tuple(place) not in rows, "a window is emitted once"
            rows[tuple(place)] = row
    return rows


def after(frame, until=AT):
    """Rows of windows that end after the history, and before the file in the far future."""
    end = F.col("window.end")
    return frame.where((end > F.lit(until)) & (end < F.lit(EPOCH + timedelta(microseconds=START + 29 * DAY))))


def count_of(output, name):
    return sum(output.counters(name).values())


# --- warm start -----------------------------------------------------------------------------------------------------


def test_rows_are_those_of_all_records_also_after_a_crash_of_the_first_micro_batch(spark, files, past, tmp_path):
    """The first micro-batch fails after all its work; then the history is gone, and the query is started again."""
    live, history = tmp_path / "live", tmp_path / "history"
    shutil.copytree(files / "all", history)
    shutil.copytree(files / "all", live)
    (live / "f0099.parquet").unlink()
    warm = defined(source(spark, live, DELAY)).warm(spark.read.schema(SCHEMA).parquet(str(history)), until=AT)
    output = Output(cuts={0})
    Running(warm.dataframe(), tmp_path / "checkpoint", {"availableNow": True}, output).finish()
    assert output.lost.keys() == {0}
    early = past.where(F.col("ts") < F.lit(AT))
    first = EPOCH + timedelta(microseconds=UNTIL // MINUTE * MINUTE - 19 * MINUTE)
    needed = early.where(F.col("ts") >= F.lit(first))
    assert output.counters("loaded") == {0: needed.count()}
    assert count_of(output, "before_warm") == early.count()
    shutil.rmtree(history)
    frame = warm.dataframe()
    shutil.copy(files / "all" / "f0099.parquet", live)
    write([table([record(1, START + 30 * DAY + 1)])], live, first=100)
    Running(frame, tmp_path / "checkpoint", {"availableNow": True}, output).finish()
    found = streamed(output)
    theirs = past.groupBy("world", spark_window(HOPPING)).agg(*by_spark())
    expected = by_batch(after(theirs))
    assert exact_differences(found, expected)[:5] == []
    assert float_differences(found, expected)[:5] == []
    assert len(expected) > 100
    assert output.counters("loaded").keys() == {0}, "and nothing was read again"


def test_sessions_and_windows_on_update_start_warm(spark, files, past):
    live = source(spark, files / "all", DELAY)
    results = {"records": C.count(), "total": C.sum("n")}
    sessions = defined(live, session("90 seconds"), **results).warm(past, until=AT)
    updated = group_by(live, "world").window(HOPPING, time="ts").emit(on_update()).define(**results)
    closed, updates = run(sessions.dataframe(), updated.warm(past, until=AT).dataframe())
    ours = [F.count("*").alias("records"), F.sum("n").alias("total")]
    theirs = past.groupBy("world", F.session_window("ts", "90 seconds").alias("window")).agg(*ours)
    # Spark filters records by the end of a session where it filters sessions, so that these are others.
    ends = [AT, EPOCH + timedelta(microseconds=START + 29 * DAY)]
    expected = {place: row for place, row in by_batch(theirs).items() if ends[0] < row["window"]["end"] < ends[1]}
    assert exact_differences(streamed(closed), expected, [*results])[:5] == []
    assert len(expected) > 10
    last = {}
    for (_, *place), row in sorted(updates.rows("world").items(), key=lambda item: item[0][0]):
        last[tuple(place)] = row
    whole = by_batch(after(past.groupBy("world", spark_window(HOPPING)).agg(*ours)))
    inside = {place: row for place, row in last.items() if place[1] < START + 29 * DAY}
    assert exact_differences(inside, {place: whole[place] for place in inside}, [*results])[:5] == []
    assert len(inside) > 100


def test_a_kill_in_the_first_micro_batch_leaves_nothing_half(spark, files, past, tmp_path):
    """The process group of the query is killed while its first micro-batch is written."""
    script = [sys.executable, str(Path(__file__).resolve()), str(files / "all"), str(tmp_path / "checkpoint")]
    environment = {**os.environ, "SPARK_LOCAL_DIRS": str(tmp_path / "local"), "PYTHONPATH": python_path()}
    killed = subprocess.run(script, env=environment, check=False, start_new_session=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "checkpoint" / "offsets" / "0").exists()
    assert not (tmp_path / "checkpoint" / "commits" / "0").exists()
    warm = defined(source(spark, files / "all", DELAY), records=C.count()).warm(past, until=AT)
    (output,) = run(warm.dataframe(), checkpoint=tmp_path / "checkpoint")
    theirs = past.groupBy("world", spark_window(HOPPING)).agg(F.count("*").alias("records"))
    expected = by_batch(after(theirs))
    assert exact_differences(streamed(output), expected, ["records"])[:5] == []


def killed(directory, checkpoint):
    """Start the query, and kill this process in its first micro-batch; run in a process of its own."""
    from pyspark.sql import SparkSession

    from slicing.spark.settings import STATE_STORE

    builder = SparkSession.builder.master("local[2]").config(STATE_STORE.name, STATE_STORE.value)
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    history = spark.read.schema(SCHEMA).parquet(directory)
    warm = defined(source(spark, Path(directory), DELAY), records=C.count()).warm(history, until=AT)

    def sink(frame, batch):
        frame.toArrow()
        os.killpg(0, signal.SIGKILL)

    warm.dataframe().writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint).start()
    time.sleep(250)


def test_a_checkpoint_that_has_begun_refuses_a_history(spark, files, past, tmp_path):
    live = source(spark, files / "all", DELAY, per_batch=100)
    plain = defined(live, records=C.count())
    run(plain.dataframe(), checkpoint=tmp_path / "cold")
    write([table([record(1, START + 31 * DAY)])], tmp_path / "more")
    more = source(spark, tmp_path / "more", DELAY)
    with pytest.raises(StreamingQueryException, match="this one was started without a history"):
        run(defined(more, records=C.count()).warm(past, until=AT).dataframe(), checkpoint=tmp_path / "cold")


# --- partials -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(spark, files, tmp_path_factory):
    """A table of the partials of a stream."""
    (output,) = run(defined(source(spark, files / "all", DELAY), **PARTIALS).partials())
    tables = [each for each in output.tables.values() if len(each)]
    root = tmp_path_factory.mktemp("partials") / "table"
    write(tables, root)
    return spark.read.parquet(str(root))


def test_windows_from_partials_are_those_of_the_records(past, stored):
    before = past.where(F.col("ts") < F.lit(EPOCH + timedelta(microseconds=START + 29 * DAY)))
    for window in (HOPPING, tumbling("7 minutes"), hopping("1 hour", "4 minutes")):
        found = by_batch(defined(past, window, **PARTIALS).from_partials(stored))
        expected = by_batch(defined(before, window, **PARTIALS).dataframe())
        assert exact_differences(found, expected, [name for name in EXACT if name in PARTIALS])[:5] == []
        assert found.keys() == expected.keys()
        assert len(expected) > 50


def test_names_in_a_table_of_partials_may_have_dots(spark):
    """Also of a key or of a result that looks like a field of another one."""
    rows = "(timestamp'2024-05-01 12:00:30', 'ada', 5), (timestamp'2024-05-01 12:00:40', 'ada', 7)"
    records = spark.sql(f"select ts, name as `all.id`, n from values {rows} as t(ts, name, n)")
    results = {"all": C.struct(**{"the.sum": C.sum("n"), "n": C.count()}), "all.most": C.max("n")}
    windowed = group_by(records, "all.id").window(tumbling("1 minute"), time="ts")
    made = windowed.define(**results)
    (row,) = made.from_partials(made.partials()).collect()
    assert (row["all.id"], row["all"]["the.sum"], row["all"]["n"], row["all.most"]) == ("ada", 12, 2, 7)
    with pytest.raises(InvalidValue, match=r"has a column `all\.most`, and this one has all\.id, slice, records, all"):
        made.from_partials(made.partials().drop("all.most"))


def test_a_stream_starts_warm_from_partials_and_is_timed(spark, files, past, stored):
    """The operator that is timed loads a history too."""
    until = EPOCH + timedelta(microseconds=UNTIL // MINUTE * MINUTE)
    live = source(spark, files / "all", DELAY)
    spark.conf.set("spark.slicing.timers", "true")
    (output,) = run(defined(live, **PARTIALS).warm(partials=stored, until=until).dataframe())
    spark.conf.unset("spark.slicing.timers")
    assert output.counters("loaded").keys() == {0}
    assert count_of(output, "micros_preaggregate") > 0
    expected = by_batch(after(past.groupBy("world", spark_window(HOPPING)).agg(*by_spark()), until))
    assert exact_differences(streamed(output), expected, [name for name in EXACT if name in PARTIALS])[:5] == []


@pytest.mark.parametrize(
    "window", [tumbling("1 day", zone="Asia/Kolkata"), tumbling("1 hour", offset="30 minutes")], ids=str
)
def test_a_slice_in_which_the_first_needed_window_begins_is_refused(spark, tmp_path, window):
    """Its records from 18:30 or 11:30 on would be missing in a window that is open at 12:00::

    slices     ... | 18:00 | 19:00 | ...             | 11:00 |  until = 12:00
    days               18:30 [=============================================
    half hours                                            11:30 [=======)
    """
    write([table([record(1, START + at * HOUR // 2) for at in range(-16, 24)])], tmp_path / "past")
    write([table([record(1, START + 13 * HOUR)])], tmp_path / "live")
    past = spark.read.schema(SCHEMA).parquet(str(tmp_path / "past"))
    hours = defined(past, tumbling("1 hour"), total=C.sum("n")).partials()
    definition = defined(source(spark, tmp_path / "live"), window, total=C.sum("n"))
    warm = definition.warm(partials=hours, until=EPOCH + timedelta(microseconds=START + 12 * HOUR))
    with pytest.raises(StreamingQueryException, match="is cut at"):
        run(warm.dataframe())


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin"])
def test_times_without_a_zone_are_compared_without_one(spark, tmp_path, zone):
    """A record in each hour of a day, in the history, which ends at noon, and in the stream."""
    midnight = START // DAY * DAY
    hours = pa.array([midnight + hour * HOUR for hour in range(24)], pa.timestamp("us"))
    write([table([record(1, 0)] * 24).set_column(1, "ts", hours)], tmp_path)
    schema = SCHEMA.replace("timestamp", "timestamp_ntz")
    live, past = (reader.schema(schema).parquet(str(tmp_path)) for reader in (spark.readStream, spark.read))
    noon = EPOCH + timedelta(microseconds=midnight + DAY // 2)
    here = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for window, trigger in ((unbounded(), on_update()), (counting(24), on_close())):
            made = group_by(live, "world").window(window, time="ts").emit(trigger).define(records=C.count())
            (output,) = run(made.warm(past, until=noon).dataframe())
            assert [row["records"] for found in output.tables.values() for row in found.to_pylist()] == [24]
            assert made.check_warm(past, past, until=noon) == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", here)


# --- what is checked ------------------------------------------------------------------------------------------------


def test_a_history_and_a_sample_of_a_stream_are_tried(spark, files, past):
    live = source(spark, files / "all", DELAY)
    results = {"records": C.count(), "total": C.sum("n"), "most": C.max("s")}
    for window in (HOPPING, session("90 seconds"), sliding("2 minutes"), counting(5, 2), unbounded()):
        windows = group_by(live, "world").window(window, time="ts")
        windows = windows.emit(on_update()) if window == unbounded() else windows
        assert windows.define(**results).check_warm(past, past, until=AT) > 5, window


def defined_by_pair(frame):
    pairs = frame.withColumn("pair", F.struct("world", "n"))
    return group_by(pairs, "pair").window(HOPPING, time="ts").define(records=C.count())


def test_a_history_whose_columns_are_never_null_is_of_the_same_types(spark, files, past):
    live = source(spark, files / "all", DELAY)
    known = past.withColumns({name: F.coalesce(name, F.lit(0)) for name in ("world", "n")})
    history = known.withColumn("pair", F.struct("world", "n"))
    assert [field.nullable for field in history.schema["pair"].dataType] == [False, False]
    assert defined_by_pair(live).warm(history, until=AT).history


def refusals(spark, files, past, stored):
    live = source(spark, files / "all", DELAY)
    plain = defined(live, records=C.count(), total=C.sum("n"))
    sums = defined(live, total=C.sum("n"))
    other = past.withColumn("n", F.col("n").cast("int"))
    by_pair = defined_by_pair(live)
    swapped, longer = (past.withColumn("pair", F.struct(*names)) for names in (("n", "world"), ("world", "n", "x")))
    clock = group_by(live, "world").window(HOPPING, time=processing_time()).define(records=C.count())
    forever = group_by(live, "world").window(unbounded()).emit(on_update()).define(records=C.count())
    return {
        "`warm` is for streams": lambda: defined(past).warm(past, until=AT),
        "takes a bounded DataFrame": lambda: plain.warm(live, until=AT),
        "takes a DataFrame": lambda: plain.warm(None, until=AT),
        "got both": lambda: plain.warm(past, partials=stored, until=AT),
        "`until` is a datetime with a zone": lambda: plain.warm(past, until="yesterday"),
        "has no zone": lambda: plain.warm(past, until=AT.replace(tzinfo=None)),
        "counts milliseconds": lambda: plain.warm(past, until=AT + timedelta(microseconds=1)),
        "from 1970 on": lambda: plain.warm(past, until="1969-12-31T00:00:00+00:00"),
        "`overlap` says": lambda: plain.warm(past, until=AT, overlap="both"),
        "may join": lambda: defined(live, session("1 minute")).warm(past, until=AT, overlap="keep"),
        "makes windows of its own": lambda: defined(live, sliding("1 minute")).warm(past, until=AT, overlap="keep"),
        "is bigint in the stream, and int in the history": lambda: plain.warm(other, until=AT),
        "key `pair` is struct<world:bigint,n:bigint> in the stream": lambda: by_pair.warm(swapped, until=AT),
        "and struct<n:bigint,world:bigint> in the history. Give both": lambda: by_pair.warm(swapped, until=AT),
        "and struct<world:bigint,n:bigint,x:double> in the history": lambda: by_pair.warm(longer, until=AT),
        "`n`": lambda: plain.warm(past.drop("n"), until=AT),
        "about when records come": lambda: clock.warm(past, until=AT),
        "was given none": lambda: forever.warm(past, until=AT),
        "the other way round": lambda: defined(live, tumbling("1 minute", closed="right")).partials(),
        "share none|shares none": lambda: defined(live, session("1 minute")).partials(),
        "has a column `total`": lambda: sums.from_partials(stored.drop("total")),
        "those of this query are": lambda: sums.from_partials(stored.withColumn("records", F.lit("x"))),
        "of its own": lambda: plain.partials(),
        "Read the table by": lambda: sums.from_partials(live),
        "is timestamp_ntz": lambda: defined(
            past.withColumn("ts", F.col("ts").cast("timestamp_ntz")), total=C.sum("n")
        ).partials(),
    }


def test_what_has_no_meaning_is_refused_at_once(spark, files, past, stored):
    for message, call in refusals(spark, files, past, stored).items():
        with pytest.raises((InvalidType, InvalidValue), match=message):
            call()


def test_a_slice_that_is_cut_is_refused(past, stored):
    with pytest.raises(Exception, match="is cut at"):
        defined(past, tumbling("90 seconds"), total=C.sum("n")).from_partials(stored).toArrow()


if __name__ == "__main__":
    killed(*sys.argv[1:])
