"""Functions of records on real streams with a checkpoint, stopped and started again, and on bounded input.

The truth is brute force over the records of the files.
"""

import time

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from streams import MINUTE, NO_DATA, SECOND, START, Running, micros, record, table, write

import combinators as C
from slicing import Aggregate, group_by, hopping, keep_last, late_records, on_update, results, tumbling, unbounded
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, reason

RECORDS = [
    [record(at % 3, START + (17 * at % 240) * 5 * SECOND + file * 10 * MINUTE, n=at - file) for at in range(40)]
    for file in range(6)
]
SCHEMA = "world bigint, ts timestamp, n bigint, s string"
WINDOW = hopping("10 minutes", advance="5 minutes")


def stream(spark, folder):
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    frame = reader.parquet(str(folder)).withWatermark("ts", "20 minutes")
    return frame.withColumn("both", F.struct("n", F.array("s", F.lit(None)).alias("texts")))


def median(key, window, records, context):
    """Half of a query's functions; `median` of numpy, and what is nested as it came."""
    values = records["n"].to_numpy()
    nested = [each["n"] for each in records["both"].to_pylist()]
    assert nested == values.tolist()
    assert {tuple(each["texts"]) for each in records["both"].to_pylist()} == {("a", None)}
    return [{"size": len(values), "middle": float(np.median(values)), "spread": sorted({values.min(), values.max()})}]


def broken(key, window, records, context):
    if key == (2,) and window.start_us == START + 20 * MINUTE:
        raise ArithmeticError("mend me")
    return median(key, window, records, context)


RETURNS = "size long, middle double, spread array<bigint>"


def wanted():
    every = [each for file in RECORDS for each in file]
    found = {}
    for start in range(START - 10 * MINUTE, START + 120 * MINUTE, 5 * MINUTE):
        for world in range(3):
            values = [r["n"] for r in every if r["world"] == world and start <= r["ts"] < start + 10 * MINUTE]
            if values:
                spread = sorted({min(values), max(values)})
                found[world, start] = (len(values), float(np.median(values)), spread)
    return found


def rows(found):
    return {
        (row["world"], micros(row["window"]["start"])): (row["size"], row["middle"], row["spread"]) for row in found
    }


@pytest.mark.slow
def test_a_stream_restarts_after_its_function_is_mended(spark, tmp_path):
    """It fails with key and window, and continues where it was; in the end it has the rows of bounded input."""
    write([table(file) for file in RECORDS], tmp_path / "files")
    grouped = group_by(stream(spark, tmp_path / "files"), "world").window(WINDOW, time="ts")
    columns = ["n", "both"]
    run = Running(grouped.process(broken, returns=RETURNS, columns=columns), tmp_path / "check", {"availableNow": True})
    with pytest.raises(StreamingQueryException) as caught:
        run.finish()
    message = reason(caught.value)
    assert "ArithmeticError: mend me for key (2,) in window [" in message
    assert FunctionFailed.__name__ in str(caught.value)
    run.frame = grouped.process(median, returns=RETURNS, columns=columns)
    run.start()
    found = [row for tables in run.finish().tables.values() for row in tables.to_pylist()]
    truth = wanted()
    newest = max(record["ts"] for file in RECORDS for record in file)
    closed = {place for place in truth if place[1] + 10 * MINUTE <= newest - 20 * MINUTE}
    assert len(found) == len(rows(found))
    assert rows(found) == {place: truth[place] for place in closed}
    assert len(closed) > 20

    bounded = stream_as_bounded(spark, tmp_path / "files")
    made = group_by(bounded, "world").window(WINDOW, time="ts").process(median, returns=RETURNS, columns=columns)
    assert rows(made.toArrow().to_pylist()) == truth
    assert made.columns == ["world", "window", "size", "middle", "spread"]


TTL = 2000
DAILY = [table([record(at % 3, START + (7 * file + at) * MINUTE, n=at) for at in range(6)]) for file in range(4)]


def told_by(clocks):
    """What `clear` is told, and the firings of each micro-batch: a key is forgotten `TTL` after its last record."""
    firings, told, rows = 0, [], []
    for before, now in zip([clocks[0], *clocks], clocks, strict=False):
        if now - before > TTL:
            told += [f"{world} {firings}" for world in range(3)]
            firings = 0
        firings += 1
        rows += [firings] * 3
    return told, rows


@pytest.mark.slow
def test_clear_is_told_which_keys_a_ttl_forgets(spark, tmp_path):
    """All keys come in each file; the stream stops for longer than the TTL, and its second run finds the states."""
    notes = tmp_path / "told"

    def count(key, window, records, context):
        context.window_state.firings = (context.window_state.firings or 0) + 1
        return [(context.window_state.firings,)]

    def clear(key, window, context):
        with notes.open("a") as file:
            file.write(f"{key[0]} {context.window_state.firings}\n")

    (tmp_path / "files").mkdir()
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "files"))
    windowed = group_by(frame, "world").window(unbounded(ttl=f"{TTL} milliseconds")).emit(on_update())
    states = {"window_state": "firings long", "clear": clear}
    made = windowed.process(count, returns="firings long", columns=["n"], **states)
    spark.conf.set(NO_DATA, "false")
    try:
        write(DAILY[:2], tmp_path / "files")
        run = Running(made, tmp_path / "check", {"availableNow": True})
        run.finish()
        time.sleep(TTL / 1000 + 0.5)
        write(DAILY[2:], tmp_path / "files", 2)
        run.start()
        run.finish()
    finally:
        spark.conf.unset(NO_DATA)
    told, firings = told_by([now for *_, now in run.micro_batches()])
    found = [row["firings"] for _, each in sorted(run.output.tables.items()) for row in each.to_pylist()]
    assert (sorted(notes.read_text().splitlines()), found) == (sorted(told), firings)
    assert len(told) >= 3


def stream_as_bounded(spark, folder):
    frame = spark.read.schema(SCHEMA).parquet(str(folder))
    return frame.withColumn("both", F.struct("n", F.array("s", F.lit(None)).alias("texts")))


def test_evicted_rows_several_results_and_no_keys(spark):
    """Several rows of a window and none, without keys; the time of records as one of their columns."""
    frame = spark.createDataFrame([(at, at * 20) for at in range(12)], "n long, seconds long")
    frame = frame.withColumn("ts", F.timestamp_seconds("seconds"))

    def pairs(key, window, records, context):
        assert key == ()
        return [(n, ts) for n, ts in zip(*records.to_pydict().values(), strict=True) if n != 4]

    made = group_by(frame).window(tumbling("1 minute"), time="ts").evict(keep_last(2))
    found = made.process(pairs, returns="n long, at timestamp", columns=["n", "ts"]).orderBy("n").collect()
    assert [row["n"] for row in found] == [1, 2, 5, 7, 8, 10, 11]
    assert all(micros(row["at"]) == row["n"] * 20 * SECOND for row in found)


def test_late_records_go_beside(spark, tmp_path):
    """Late rows have no results; a query with them has both."""
    early = [record(1, START + at * MINUTE, n=at) for at in range(0, 60, 5)]
    late = [record(1, START, n=-1), record(1, START + 61 * MINUTE, n=61)]
    write([table(early), table([record(1, START + 62 * MINUTE, n=62)]), table(late)], tmp_path / "files")
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    frame = reader.parquet(str(tmp_path / "files")).withWatermark("ts", "1 minute")
    windowed = group_by(frame, "world").window(tumbling("10 minutes"), time="ts").late("records")

    def total(key, window, records, context):
        return [(sum(records["n"].to_pylist()),)]

    both = windowed.process(total, returns="total long", columns=["n"])
    assert results(both).columns == ["world", "window", "total"]
    assert "n" in late_records(both).columns
    shown = both.select("total", F.col("late").isNotNull().alias("is_late"), F.col("late.record.n").alias("n"))
    run = Running(shown, tmp_path / "check", {"availableNow": True})
    found = [row for tables in run.finish().tables.values() for row in tables.to_pylist()]
    assert [row["total"] for row in found if not row["is_late"]] == [5, 25, 45, 65, 85, 105]
    assert [row["n"] for row in found if row["is_late"]] == [None, -1]
    assert all(row["total"] is None for row in found if row["is_late"])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda w: w.process("f", returns="n long", columns="n"), InvalidType, "takes a function"),
        (lambda w: w.process(median, returns=5, columns="n"), InvalidType, "as DDL"),
        (lambda w: w.process(median, returns="n long", columns=["m"]), InvalidValue, "does not exist"),
        (lambda w: w.process(median, returns="n long", columns=["n", "n"]), InvalidValue, "must differ"),
        (lambda w: w.process(median, returns="world long", columns=["n"]), InvalidValue, "collides"),
        (lambda w: w.assemble("two_layer").process(median, returns="n long", columns="n"), InvalidValue, "a tree"),
        (lambda w: w.evict(keep_last(1)).aggregate(), InvalidValue, "at least one result"),
        (lambda w: w.evict(5), InvalidType, "`evict` takes"),
    ],
)
def test_calls_that_are_refused(spark, call, error, message):
    frame = spark.createDataFrame([(1, 2)], "world long, n long").withColumn("ts", F.timestamp_seconds("n"))
    with pytest.raises(error, match=message):
        call(group_by(frame, "world").window(tumbling("1 minute"), time="ts"))


def test_functions_of_what_evictors_leave_are_tried_as_others(spark):
    frame = spark.createDataFrame([(1, 2)], "world long, n long").withColumn("ts", F.timestamp_seconds("n"))
    windowed = group_by(frame, "world").window(tumbling("1 minute"), time="ts")
    wrong = Aggregate(lambda: 0, lambda total, n: (total, n)).on("n")
    for result in (wrong, wrong.where(F.col("n") > 0), C.struct(x=wrong, n=C.count())):
        messages = []
        for each in (windowed, windowed.evict(keep_last(3))):
            with pytest.raises(InvalidType) as raised:
                each.aggregate(x=result)
            messages.append(str(raised.value))
        assert messages[0] == messages[1]
    windowed.evict(keep_last(3)).aggregate(x=Aggregate(lambda: 0, lambda total, n: total + n).on("n"))


def test_records_have_no_partials(spark):
    frame = spark.createDataFrame([(1, 2)], "world long, n long").withColumn("ts", F.timestamp_seconds("n"))
    windowed = group_by(frame, "world").window(WINDOW, time="ts")
    process = windowed.define_process(lambda key, window, records, context: [(len(records),)], returns="size long")
    for definition in (process, windowed.evict(keep_last(3)).define(total=C.sum("n"))):
        with pytest.raises(InvalidValue, match="keeps the records of windows"):
            definition.partials()


def test_floats_inside_of_rows_may_be_null(spark):
    """A null is not NaN, and NaN is not null, in rows of functions and in results over what evictors leave."""
    frame = spark.createDataFrame([("a", START, None), ("a", START + SECOND, None)], "user string, at long, x double")
    windowed = group_by(frame.withColumn("ts", F.timestamp_micros("at")), "user").window(tumbling("1 hour"), time="ts")
    nested, nan = {"xs": [1.5, None, np.nan], "both": {"x": None, "y": np.nan}}, pytest.approx(np.nan, nan_ok=True)

    def called(key, window, what, context):
        return [nested]

    returns = "xs array<double>, both struct<x:double, y:double>"
    of_records = windowed.process(called, returns=returns, columns=["x"])
    of_results = windowed.aggregate(n=C.count(), then=called, returns=returns)
    for row in (*of_records.collect(), *of_results.collect()):
        assert row.xs == [1.5, None, nan]
        assert (row.both.x, row.both.y) == (None, nan)
    results = {"both": C.struct(mean=C.mean("x"), n=C.count()), "candle": C.ohlc("x")}
    assert windowed.evict(keep_last(2)).aggregate(**results).collect() == windowed.aggregate(**results).collect()


@pytest.mark.parametrize("name", ["my low", "p50%", "a.b", "back`tick"])
def test_fields_of_structs_over_evicted_records_have_any_names(spark, name):
    frame = spark.createDataFrame([("a", START, 1.5)], "user string, at long, x double")
    windowed = group_by(frame.withColumn("ts", F.timestamp_micros("at")), "user").window(tumbling("1 hour"), time="ts")
    (row,) = windowed.evict(keep_last(3)).aggregate(s=C.struct(**{name: C.min("x")})).collect()
    assert row.s[name] == 1.5


def test_fields_of_structs_over_evicted_records_have_no_names_that_divide_types(spark):
    frame = spark.createDataFrame([("a", START, 1.5)], "user string, at long, x double")
    windowed = group_by(frame.withColumn("ts", F.timestamp_micros("at")), "user").window(tumbling("1 hour"), time="ts")
    with pytest.raises(InvalidValue, match=r"must not contain `,`; got 'a,b'\. Rename it"):
        windowed.evict(keep_last(3)).aggregate(s=C.struct(**{"a,b": C.min("x")}))
