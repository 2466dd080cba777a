"""One watermark in each branch of a stream: what Spark fails on is refused when the query is built."""

import sys
import threading
from contextlib import redirect_stdout
from io import StringIO

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from streams import HOUR, SCHEMA, START, record, run, source, table, write

import combinators as C
from slicing import InvalidValue, group_by, hopping, plausible
from slicing.spark import watermarks
from slicing.spark.watermarks import Watermark


def later():
    return F.col("ts") + F.expr("interval 1 second")


@pytest.fixture
def folder(tmp_path):
    write([table([record(1, START + time)]) for time in (0, HOUR, 2 * HOUR)], tmp_path / "in")
    return tmp_path / "in"


def counts(frame, time="ts", name="n"):
    windowed = group_by(frame, "world").window(hopping("2 minutes", advance="1 minute"), time=time)
    return windowed.aggregate(**{name: C.count()})


def bare(stream):
    """The same files without a watermark."""
    return stream.sparkSession.readStream.schema(SCHEMA).parquet(stream.folder)


def of_view(stream):
    stream.createOrReplaceTempView("stream_with_a_watermark")
    sql = "WITH later AS (SELECT *, ts + interval 1 second AS at FROM stream_with_a_watermark) SELECT * FROM later"
    return stream.sparkSession.sql(sql).withWatermark("at", "1 minute").withColumn("ts", F.col("at"))


def two(stream, again=False):
    """Two branches, each with a watermark; the second one with one more."""
    other = bare(stream).withWatermark("ts", "3 minutes")
    return stream.unionByName(other.withWatermark("ts", "4 minutes") if again else other)


def joined(stream):
    other = bare(stream).withWatermark("ts", "3 minutes")
    other = other.select(F.col("world").alias("key"), F.col("ts").alias("at"))
    return stream.join(other, F.expr("world = key AND at BETWEEN ts AND ts + interval 1 minute")).drop("key", "at")


def of_windows(stream):
    return counts(stream, name="first").withColumn("ts", F.window_time("window"))


REFUSED = {
    "the same column": lambda stream: stream.withWatermark("ts", "2 minutes"),
    "the same delay": lambda stream: stream.withWatermark("ts", "1 minute"),
    "after an expression": lambda stream: stream.withColumn("ts", later()).withWatermark("ts", "2 minutes"),
    "another column": lambda stream: (
        stream.withColumnRenamed("ts", "old")
        .withColumn("ts", F.col("old") + F.expr("interval 1 second"))
        .withWatermark("ts", "2 minutes")
    ),
    "the first is gone": lambda stream: (
        stream.drop("ts").withColumn("ts", F.current_timestamp()).withWatermark("ts", "2 minutes")
    ),
    "after an operator": lambda stream: stream.dropDuplicatesWithinWatermark(["n"]).withWatermark("ts", "2 minutes"),
    "one branch": lambda stream: two(stream, again=True),
    "after a union": lambda stream: two(stream).withWatermark("ts", "5 minutes"),
    "after a view": of_view,
}
SILENT = {
    "rows of windows": lambda stream: of_windows(stream).withWatermark("ts", "2 minutes"),
    "rows of Spark's windows": lambda stream: (
        stream.groupBy(F.window("ts", "1 minute"), "world")
        .count()
        .withColumn("ts", F.window_time("window"))
        .withWatermark("ts", "2 minutes")
    ),
}
TAKEN = {
    "one": lambda stream: stream,
    "one in each branch": two,
    "one in each branch of a join": joined,
    "rows of windows": of_windows,
}


@pytest.fixture
def stream(spark, folder):
    found = source(spark, folder, "1 minute")
    found.folder = str(folder)
    return found


@pytest.mark.parametrize("case", REFUSED | SILENT)
def test_a_second_watermark_is_refused_when_the_query_is_built(stream, case):
    frame = (REFUSED | SILENT)[case](stream)
    delay, place = ("3 minutes", stream.folder) if case == "one branch" else ("1 minutes", stream.folder)
    with pytest.raises(InvalidValue, match="one watermark in each branch") as refused:
        counts(frame)
    assert f'The first is `.withWatermark("ts", "{delay}")` on FileSource[' in str(refused.value)
    assert place in str(refused.value)
    assert str(refused.value).count(".withWatermark(") == 2


@pytest.mark.parametrize("case", TAKEN)
def test_one_in_each_branch_is_taken(stream, case):
    assert counts(TAKEN[case](stream)).isStreaming


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_spark_fails_on_each_that_is_refused(stream, case):
    frame = REFUSED[case](stream)
    with pytest.raises(StreamingQueryException, match="Redefining watermark is disallowed"):
        run(frame.groupBy(F.window("ts", "1 minute"), "world").count())


@pytest.mark.slow
@pytest.mark.parametrize("case", SILENT)
def test_spark_emits_no_row_with_a_second_watermark_on_rows_of_windows(stream, case, monkeypatch):
    monkeypatch.setattr("slicing.spark.build.check_single", lambda frame: None)
    (output,) = run(counts(SILENT[case](stream)))
    assert not any(map(len, output.tables.values()))
    if case == "rows of windows":
        (output,) = run(counts(of_windows(stream)))
        assert any(map(len, output.tables.values()))


def test_without_the_setting_that_makes_them_wrong_they_are_taken(spark, stream):
    frame = REFUSED["another column"](stream)
    spark.conf.set("spark.sql.streaming.statefulOperator.allowMultiple", "false")
    try:
        assert counts(frame).isStreaming
    finally:
        spark.conf.unset("spark.sql.streaming.statefulOperator.allowMultiple")


def test_a_lost_watermark_is_found_and_both_remedies_hold(stream):
    lost = stream.withColumn("ts", later())
    where = r'an expression lost that of `\.withWatermark\("ts", "1 minutes"\)` on FileSource\[.*Call it after'
    with pytest.raises(InvalidValue, match=where):
        counts(lost)
    none = bare(stream).withColumn("ts", later())
    with pytest.raises(InvalidValue, match=r'there is none\. Call `\.withWatermark\("ts", "10 minutes"\)` before'):
        counts(none)
    assert counts(none.withWatermark("ts", "10 minutes")).isStreaming
    assert counts(lost.withMetadata("ts", stream.schema["ts"].metadata)).isStreaming
    with pytest.raises(InvalidValue, match=r'`\.withColumn\("at", \.\.\.\)\.withWatermark\("at", "10 minutes"\)`'):
        counts(none, time=later())
    with pytest.raises(InvalidValue, match=r"the watermark is on `ts`.* in each branch"):
        counts(stream.withColumn("at", later()), time="at")


def test_remedies_for_names_with_dots_hold(stream):
    lost = stream.withColumn("a.ts", later()).drop("ts")
    with pytest.raises(InvalidValue, match="an expression lost") as refused:
        counts(lost, time="`a.ts`")
    assert '`.withColumn("at", ...).withMetadata("at", df.schema["ts"].metadata)`' in str(refused.value)
    kept = lost.withColumn("at", F.col("`a.ts`")).withMetadata("at", stream.schema["ts"].metadata)
    assert counts(kept, time="at").isStreaming
    named = of_windows(stream).withColumnRenamed("window", "a.window").withColumn("ts", later())
    with pytest.raises(InvalidValue, match=r'F\.window_time\("`a\.window`"\)'):
        counts(named)
    assert counts(named.withColumn("at", F.window_time("`a.window`")), time="at").isStreaming


def test_the_remedy_of_plausible_holds(stream):
    with pytest.raises(InvalidValue, match="Take the DataFrame before that call"):
        plausible(stream, "ts", ahead="1 hour")
    assert counts(plausible(bare(stream), "ts", ahead="1 hour").withWatermark("ts", "1 minute")).isStreaming


# --- the text of a plan, without Spark --------------------------------------------------------------------------------

OF_4_0 = """== Physical Plan ==
*(2) Project [world#0L, ts#1-T60000ms]
+- Union
   :- EventTimeWatermark ts#1: timestamp, 1 minutes
   :  +- StreamingRelation FileSource[/in], [world#0L, ts#1]
   +- *(1) Project [at#5-T120000ms AS ts#6-T120000ms]
      +- EventTimeWatermark at#5: timestamp, 2 minutes
         +- Filter (s#4 LIKE %EventTimeWatermark x#1, 1 s%)
            +- EventTimeWatermark a, b#4-T60000ms: timestamp, 1 hours 30 minutes
               +- StreamingRelationV2 org.apache.spark.sql.kafka010.KafkaSourceProvider@6bf1, kafka, [key#1]
"""


@pytest.mark.parametrize("identifier", ["", "51ef9db2-9fb7-4b07-8bd1-5e0c3ee5ea4f, "])
def test_watermarks_are_those_of_their_branch(monkeypatch, identifier):
    text = OF_4_0.replace("EventTimeWatermark ", f"EventTimeWatermark {identifier}")
    monkeypatch.setattr(watermarks, "_plan", lambda frame: text)
    first, last = Watermark("a, b", "1 hours 30 minutes", "kafka"), Watermark("at", "2 minutes", "kafka")
    assert watermarks.watermarks(None) == [[Watermark("ts", "1 minutes", "FileSource[/in]")], [last], [last, first]]


class Printing:
    """A DataFrame whose plan is printed after something else has happened."""

    def __init__(self, meanwhile):
        self.meanwhile = meanwhile

    def explain(self):
        print("ours")
        self.meanwhile()


def in_a_thread(call):
    found = []
    other = threading.Thread(target=lambda: found.append(call()))
    other.start()
    other.join()
    return found


def test_what_other_threads_print_is_passed_on():
    with redirect_stdout(StringIO()) as out:
        assert watermarks._plan(Printing(lambda: in_a_thread(lambda: print("theirs")))) == "ours\n"
        assert sys.stdout is out
    assert out.getvalue() == "theirs\n"


def test_stdout_of_other_threads_is_the_whole_stream(tmp_path):
    def asked():
        return sys.stdout.fileno(), sys.stdout.buffer, sys.stdout.isatty(), sys.stdout.encoding

    found = []
    with (tmp_path / "out").open("w", encoding="latin-1") as out, redirect_stdout(out):
        assert watermarks._plan(Printing(lambda: found.extend(in_a_thread(asked)))) == "ours\n"
        assert found == [(out.fileno(), out.buffer, False, "latin-1")]


def test_what_another_thread_puts_in_place_of_stdout_stays_until_it_is_left():
    theirs = redirect_stdout(StringIO())
    with redirect_stdout(StringIO()) as out:
        assert watermarks._plan(Printing(lambda: in_a_thread(theirs.__enter__))) == "ours\n"
        print("for them")
        theirs.__exit__(None, None, None)
        print("after")
        assert watermarks._plan(Printing(lambda: None)) == "ours\n"
        print("and again")
    assert out.getvalue() == "after\nand again\n"
    assert theirs._new_target.getvalue() == "for them\n"
