"""Sessions on Spark, against its own `session_window`: fifty worlds, the same rows in the same micro-batches."""

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual
from streams import (
    EXACT,
    MINUTE,
    NO_DATA,
    OURS,
    SECOND,
    START,
    Live,
    Output,
    by_spark,
    exact_differences,
    float_differences,
    micros,
    record,
    run,
    source,
    table,
    worlds,
    write,
)

import combinators as C
from slicing import early, group_by, late_partials, late_records, on_update, processing_time, results, session
from slicing.errors import InvalidValue
from slicing.spark.names import Names
from slicing.spark.window_columns import columns_of
from slicing.triggers.emission import on_close

LOCAL_MERGE = "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition"
EXACT_ROWS = (*EXACT, "window")
DYNAMIC = "case when n is null then null when world % 5 = 4 then n % 3 - 1 else (abs(f) % 7 + 1) * 20 end"
"""Gaps of 20 seconds to more than two minutes; null and not positive ones too."""


@dataclass
class Run:
    """What we and Spark put out."""

    ours: Output
    spark: Output

    def check(self, at_least=250):
        ours, theirs = self.ours.rows("world"), self.spark.rows("world")
        assert exact_differences(ours, theirs, EXACT_ROWS)[:5] == []
        assert float_differences(ours, theirs)[:5] == []
        assert len(theirs) > at_least, "the worlds are rich enough to say something"
        assert len({batch for batch, *_ in theirs}) >= 5


def with_gaps(frame):
    """Records with gaps of their own: as intervals, and as microseconds."""
    seconds = F.expr(DYNAMIC)
    frame = frame.withColumn("gap", F.make_interval(secs=seconds))  # the only type that Spark's own sessions take
    return frame.withColumn("interval", F.make_dt_interval(secs=seconds)).withColumn("micros", seconds * SECOND)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    place = tmp_path_factory.mktemp("files")
    write(worlds("sessions"), place)
    return place


@pytest.mark.versions
@pytest.mark.parametrize(("delay", "grace"), [(0, 0), pytest.param(60, 45, marks=pytest.mark.long)])
def test_sessions_of_one_gap_are_those_of_spark(spark, files, delay, grace):
    assert spark.conf.get(LOCAL_MERGE) == "false"
    grouped = group_by(source(spark, files, f"{delay} seconds"), "world")
    ours = grouped.window(session("90 seconds"), time="ts").grace(f"{grace} seconds").aggregate(**OURS)
    theirs = source(spark, files, f"{delay + grace} seconds")
    window = F.session_window("ts", "90 seconds").alias("window")
    found = Run(*run(ours, theirs.groupBy("world", window).agg(*by_spark())))
    found.check()
    assert sum(found.ours.counters("late").values()) > 20
    assert found.ours.counters("no_time")


@pytest.mark.slow
def test_sessions_of_gaps_per_record_are_those_of_spark(spark, files):
    frame = with_gaps(source(spark, files, "1 minute"))
    ours = group_by(frame, "world").window(session(gap_column="gap"), time="ts").aggregate(**OURS)
    counted = group_by(frame, "world").window(session(gap_column="micros"), time="ts").aggregate(**OURS)
    window = F.session_window("ts", F.col("gap")).alias("window")
    by_interval, by_number, theirs = run(ours, counted, frame.groupBy("world", window).agg(*by_spark()))
    Run(by_interval, theirs).check(at_least=150)
    Run(by_number, theirs).check(at_least=150)
    assert sum(by_number.counters("no_window").values()) > 20


@pytest.mark.one_in(3)
@pytest.mark.versions
@pytest.mark.parametrize("column", [None, "gap", "interval", "MICROS", "own.Gap"])
def test_bounded_sessions_are_those_of_spark(spark, files, column):
    """Columns of gaps are found as Spark finds them."""
    frame = with_gaps(spark.read.parquet(str(files))).withColumn("own", F.struct("gap"))
    window = session("90 seconds") if column is None else session(gap_column=column)
    ours = group_by(frame, "world").window(window, time="ts").aggregate(**OURS).toArrow()
    gap = "90 seconds" if column is None else F.col("gap")
    theirs = frame.groupBy("world", F.session_window("ts", gap).alias("window")).agg(*by_spark()).toArrow()
    Output.rows(Output({0: theirs}), "world")
    found = [Output({0: each}).rows("world") for each in (ours, theirs)]
    assert exact_differences(*found, EXACT_ROWS)[:5] == []
    assert float_differences(*found)[:5] == []
    assert len(found[1]) > 250


@pytest.mark.parametrize("column", [None, "gap"])
def test_sessions_of_a_greatest_length_are_those_that_a_function_cuts(spark, files, column):
    """A function gets all records of a session of any length, and puts them into shorter ones."""

    def cut(key, window, records, context):
        first, found = None, []
        for time, end in sorted(zip(records["ts"].to_pylist(), records["until"].to_pylist(), strict=True)):
            if first is None or time > min(first + timedelta(minutes=4), max(end for _, end in found[-1])):
                first = time
                found.append([])
            found[-1].append((time, end))
        return [(each[0][0], len(each)) for each in found]

    given = {"gap_column": column} if column else {"gap": "90 seconds"}
    frame = with_gaps(spark.read.parquet(str(files)))
    grouped = group_by(
        frame.withColumn("until", F.col("ts") + (F.col(column) if column else F.expr("interval 90 seconds"))), "world"
    )
    long = grouped.window(session(**given), time="ts")
    wanted = long.process(cut, returns="start timestamp, records long", columns=["ts", "until"])
    ours = grouped.window(session(**given, longest="4 minutes"), time="ts").aggregate(records=C.count())
    ours = ours.select("world", "window.start", "records")
    assertDataFrameEqual(ours, wanted.select("world", "start", "records"))
    assert ours.count() > long.aggregate(n=C.count()).count() > 100


def test_a_checkpoint_knows_its_gaps_however_they_are_spelled(spark):
    frame = spark.sql("select interval '1' second as gap, named_struct('Gap', 7L, 'n', 1) as own")
    for given, name in [("GAP", "gap"), ("OWN.gap", "own.Gap"), ("own.Gap", "own.Gap")]:
        found = columns_of(session(gap_column=given)).resolved(Names(frame))
        assert found == session(gap_column=name)
    with pytest.raises(InvalidValue, match=r"`own.gape` cannot be computed"):
        Names(frame).named("own.gape", "gap column")
    with pytest.raises(
        InvalidValue, match=r"`n \+ 1` does not exist.* An expression gets a name first, by `withColumn`"
    ):
        Names(frame).named("n + 1", "gap column")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert Names(frame).named("own.Gap", "gap column").name == "own.Gap"
        with pytest.raises(InvalidValue, match="cannot be computed"):
            Names(frame).named("own.gap", "gap column")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_sessions_of_times_without_zone_and_no_keys(spark):
    """Spark has no sessions without keys; a constant one stands for it."""
    rows = "select timestamp_ntz'1969-12-31 23:59:00' + make_dt_interval(0, 0, 0, id * id) as ts, id from range(30)"
    frame = spark.sql(rows)
    ours = group_by(frame).window(session("30 seconds"), time="ts").aggregate(n=C.count(), last=C.max("id"))
    theirs = frame.groupBy(F.lit("all").alias("all"), F.session_window("ts", "30 seconds").alias("window"))
    theirs = theirs.agg(F.count("*").alias("n"), F.max("id").alias("last")).drop("all")
    own = frame.withColumn("gap", F.make_interval(secs=F.lit(30)))
    by_column = group_by(own).window(session(gap_column="gap"), time="ts").aggregate(n=C.count(), last=C.max("id"))
    shown = [sorted(map(str, each.select("window.*", "n", "last").collect())) for each in (ours, by_column, theirs)]
    assert shown[0] == shown[1] == shown[2]
    assert len(shown[0]) > 10
    assert ours.schema["window"].dataType.simpleString() == "struct<start:timestamp_ntz,end:timestamp_ntz>"


def test_a_plan_is_that_of_sessions(spark, files):
    windowed = group_by(source(spark, files), "world").window(session(gap_column="n"), time="ts")
    plan = windowed.emit(on_update()).plan(**OURS)
    assert plan.shuffled == "a partial for each key, time and gap: late ones are separated after the shuffle"
    assert "session(gap_column='n') on a stream" in str(plan)
    with pytest.raises(InvalidValue, match="sessions are merged"):
        windowed.assemble("eager").plan(n=C.count())
    with pytest.raises(InvalidValue, match="it has no partials"):
        windowed.aggregate(lambda: 0, max, value="n")


def rows_of(output):
    """Rows of a query without keys but `world`: by micro-batch, those taken back before others."""
    found = []
    for batch, each in sorted(output.tables.items()):
        for row in each.to_pylist():
            window = tuple(micros(row["window"][edge]) - START for edge in ("start", "end"))
            seconds = tuple(edge / SECOND for edge in window)
            found.append((batch, row["world"], *seconds, row["emission"], row["records"]))
    return found


def at(*seconds, world=1):
    return table([record(world, START + int(second * SECOND)) for second in seconds])


@pytest.mark.slow
@pytest.mark.versions
def test_what_has_gone_out_and_is_no_session_any_more_is_taken_back_first(spark, tmp_path):
    """::

    first    [0    10)         [25    35)     both go out
    then           [8    18)                  the first one grows
    then                 [17    27)           one that bridges both
    """
    live = Live(spark, tmp_path, "1 minute")
    windowed = group_by(live.source(), "world").window(session("10 seconds"), time="ts")
    once = live.add(windowed.emit(on_update()).aggregate(records=C.count()))
    cut = Output(cuts={1, 2, 3})  # they fail after all their work, and run again
    again = live.add(windowed.emit(on_update()).aggregate(records=C.count()), restart=True, output=cut)
    counted = live.add(windowed.emit(early(records=2)).aggregate(records=C.count()))
    for step in (at(0, 25), at(8), at(17), at(200)):
        live.step(step)
    live.stop()
    updates = [(world, *row) for _, world, *row in rows_of(once)]
    assert updates[:2] == [(1, 0, 10, "update", 1), (1, 25, 35, "update", 1)]
    assert updates[2:4] == [(1, 0, 10, "merged", None), (1, 0, 18, "update", 2)]
    assert sorted(updates[4:6]) == [(1, 0, 18, "merged", None), (1, 25, 35, "merged", None)]
    assert updates[6:] == [(1, 0, 35, "update", 4), (1, 200, 210, "update", 1)]
    assert [row[1:] for row in rows_of(again)] == updates
    early_rows = [(world, *row) for _, world, *row in rows_of(counted)]
    assert early_rows[:2] == [(1, 0, 10, "early", 1), (1, 25, 35, "early", 1)]
    assert sorted(early_rows[2:4]) == [(1, 0, 10, "merged", None), (1, 25, 35, "merged", None)]
    assert early_rows[4:] == [(1, 0, 35, "early", 4), (1, 0, 35, "final", 4)]
    revisions = [each["revision"].to_pylist() for each in once.tables.values()]
    assert all(len(set(each)) <= 1 for each in revisions), "what is taken back has the revision of what takes its place"


@pytest.mark.slow
@pytest.mark.parametrize("late_by", ["record", "session"])
def test_late_records_come_out_with_the_interval_that_was_closed(spark, tmp_path, late_by):
    """The watermark is at 200 when the late ones come; 195 and 201 are one session, 100 and 105 another."""
    live = Live(spark, tmp_path, "0 seconds")
    windowed = group_by(live.source(), "world").window(session("10 seconds", late_by=late_by), time="ts")
    frame = windowed.late("records").aggregate(records=C.count(), total=C.sum("n"))
    # Arrow cannot bring nulls of nested columns to Python.
    fields = ["slice.start", "slice.end", "record.ts", "cause", "missed"]
    plain = frame.where("late is not null").select(*(F.col(f"late.{f}").alias(f.replace(".", "_")) for f in fields))
    output = live.add(plain)
    live.step(at(0, 200))
    live.step(at(100, 105, 189, 195, 201))
    live.stop()
    late = [row for each in output.tables.values() for row in each.to_pylist()]
    records = sorted((micros(row["record_ts"]) - START) // SECOND for row in late if row["record_ts"])
    # 189 is closed, [189, 199); as a part of the session that 195 and 200 are in it is not.
    expected = [100, 105, 189] if late_by == "record" else [100, 105]
    assert records == expected
    partials = [row for row in late if not row["record_ts"]]
    found = sorted(tuple((micros(p[f"slice_{e}"]) - START) // SECOND for e in ("start", "end")) for p in partials)
    one_by_one = [(100, 110), (105, 115), (189, 199)]
    assert found == (one_by_one if late_by == "record" else [(100, 115)])
    assert {row["cause"] for row in late} == {"late"}
    assert {row["missed"] for row in late} == {1}
    assert sum(output.counters("late").values()) == len(expected)
    assert results(frame).columns == ["world", "window", "records", "total"]
    assert late_partials(frame).columns == ["world", "records", "total", "late"]
    assert late_records(frame).columns[:2] == ["world", "ts"]


@pytest.mark.slow
def test_corrections_come_until_grace_is_over(spark, tmp_path):
    live = Live(spark, tmp_path, "0 seconds")
    windowed = group_by(live.source(), "world").window(session("10 seconds"), time="ts").grace("1 minute")
    output = live.add(windowed.emit(on_close(corrections=True)).aggregate(records=C.count()), restart=True)
    for step in (at(0, 30), at(5, 31), at(0, 32), at(80), at(0)):
        live.step(step)
    live.stop()
    found = [(world, *row) for _, world, *row in rows_of(output)]
    assert found == [
        (1, 0, 10, "final", 1),
        (1, 0, 10, "merged", None),
        (1, 0, 15, "final", 2),
        (1, 0, 15, "correction", 3),
        (1, 30, 42, "final", 3),
    ]
    assert sum(output.counters("late").values()) == 1


@pytest.mark.slow
def test_sessions_by_the_clock_of_the_trigger(spark, tmp_path):
    """A file a micro-batch, seconds apart at most: one session, which grows with each."""
    write([at(0), at(500, world=1), at(900)], tmp_path)
    windowed = group_by(source(spark, tmp_path), "world").window(session("1 hour"), time=processing_time())
    spark.conf.set(NO_DATA, "false")
    try:
        (output,) = run(windowed.emit(on_update()).aggregate(records=C.count()))
    finally:
        spark.conf.unset(NO_DATA)
    rows = [(row["emission"], row["records"]) for each in output.tables.values() for row in each.to_pylist()]
    assert rows == [("update", 1), ("merged", None), ("update", 2), ("merged", None), ("update", 3)]


@pytest.mark.long
def test_windows_downstream_work_on_sessions(spark, files):
    """A result's event time is the end of its session, as of Spark's."""
    sessions = group_by(source(spark, files, "1 minute"), "world").window(session("90 seconds"), time="ts")
    counted = sessions.aggregate(records=C.count()).groupBy(F.window("window", "1 hour")).agg(F.sum("records"))
    assert counted.columns == ["window", "sum(records)"]
    (output,) = run(counted)
    assert sum(each.num_rows for each in output.tables.values()) > 0
    assert isinstance(next(iter(output.tables.values())), pa.Table)
    assert MINUTE == 60 * SECOND
