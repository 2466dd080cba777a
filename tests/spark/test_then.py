"""Functions of results, and what functions remember, on real streams that fail and are started again."""

from datetime import UTC, datetime

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from streams import MINUTE, SECOND, START, Running, micros, record, table, write

import combinators as C
from slicing import counting, group_by, hopping, tumbling
from slicing.errors import InvalidType, InvalidValue, reason

RECORDS = [
    [record(at % 2, START + (file * 40 + at) * 30 * SECOND, n=at - file) for at in range(40)] for file in range(4)
]
SCHEMA = "world bigint, ts timestamp, n bigint, s string"
STATES = {"key_state": "last long, called long"}


def stream(spark, folder):
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).withWatermark("ts", "1 minute")


def grown(key, window, results, context):
    """A row where the sum has grown since the window before."""
    state, total = context.key_state, results["all"]["total"]
    before, state.last, state.called = state.last, total, (state.called or 0) + 1
    if before is not None and total > before:
        yield {"growth": total - before, "most": results["most"], "called": state.called}


def broken(key, window, results, context):
    if key == (1,) and window.start_us == START + 30 * MINUTE:
        raise ArithmeticError("mend me")
    return grown(key, window, results, context)


RESULTS = {"all": C.struct(total=C.sum("n"), n=C.count()), "most": C.max("ts")}
RETURNS = "growth long, most timestamp, called long"


def wanted(keys):
    found, every = set(), [each for file in RECORDS for each in file]
    for world in keys:
        last, called = None, 0
        for start in range(START, START + 80 * MINUTE, 10 * MINUTE):
            held = [r for r in every if world in (None, r["world"]) and start <= r["ts"] < start + 10 * MINUTE]
            if held:
                total, called = sum(r["n"] for r in held), called + 1
                if last is not None and total > last:
                    found.add((world, start, total - last, max(r["ts"] for r in held), called))
                last = total
    return found


def rows(found):
    return {
        (row.get("world"), micros(row["window"]["start"]), row["growth"], micros(row["most"]), row["called"])
        for row in found
    }


@pytest.mark.slow
def test_a_stream_of_results_with_states_restarts_after_its_function_is_mended(spark, tmp_path):
    """It fails with key and window; what it remembered is there again, and its rows are those of bounded input."""
    write([table(file) for file in RECORDS], tmp_path / "files")
    windowed = group_by(stream(spark, tmp_path / "files"), "world").window(tumbling("10 minutes"), time="ts")
    failing = windowed.aggregate(**RESULTS, then=broken, returns=RETURNS, **STATES)
    run = Running(failing, tmp_path / "check", {"availableNow": True})
    with pytest.raises(StreamingQueryException) as caught:
        run.finish()
    assert "`then` raised ArithmeticError: mend me for key (1,) in window [" in reason(caught.value)
    definition = windowed.define(**RESULTS, then=grown, returns=RETURNS, **STATES)
    run.frame = definition.dataframe()
    run.start()
    found = [row for tables in run.finish().tables.values() for row in tables.to_pylist()]
    truth = wanted((0, 1))
    assert rows(found) == {row for row in truth if row[1] < START + 70 * MINUTE}
    assert len(rows(found)) == len(found) > 3
    looked = definition.lookup(str(tmp_path / "check"), keys=[0]).collect()
    assert {row["all"]["n"] for row in looked} == {10}, "a lookup has the results"

    bounded = spark.read.schema(SCHEMA).parquet(str(tmp_path / "files"))
    windowed = group_by(bounded, "world").window(tumbling("10 minutes"), time="ts")
    made = windowed.aggregate(**RESULTS, then=grown, returns=RETURNS, **STATES)
    assert made.columns == ["world", "window", "growth", "most", "called"]
    assert rows(made.toArrow().to_pylist()) == truth
    alone = group_by(bounded).window(tumbling("10 minutes"), time="ts")
    made = alone.aggregate(**RESULTS, then=grown, returns=RETURNS, **STATES)
    assert rows(made.toArrow().to_pylist()) == wanted((None,))


def halved(key, window, results, context):
    """Two rows of each window that starts at an even number of its advances, and none of the others."""
    if window.start_us // (10 * MINUTE) % 2 == 0:
        yield from ((part, results["all"]["total"], results["most"]) for part in (1, 2))


HALVES = "part long, total long, most timestamp"
HALF_HOUR = START + 30 * MINUTE


def overlapping(frame):
    return group_by(frame, "world").window(hopping("20 minutes", advance="10 minutes"), time="ts")


def wanted_halves(first_end, last_end):
    """The rows of `halved` by the records alone, of windows that end in a range."""
    found, every = set(), [each for file in RECORDS for each in file]
    for start in range(START - 20 * MINUTE, START + 80 * MINUTE, 20 * MINUTE):
        for world in (0, 1):
            held = [r for r in every if world == r["world"] and start <= r["ts"] < start + 20 * MINUTE]
            if held and first_end <= start + 20 * MINUTE <= last_end:
                row = (world, start, sum(r["n"] for r in held), max(r["ts"] for r in held))
                found |= {(*row, 1), (*row, 2)}
    return found


def halves(found):
    rows = [
        (row["world"], micros(row["window"]["start"]), row["total"], micros(row["most"]), row["part"]) for row in found
    ]
    assert len(set(rows)) == len(rows)
    return set(rows)


def test_partials_are_of_the_results_that_the_function_gets(spark, tmp_path):
    """The function runs when windows are made of the table."""
    write([table(file) for file in RECORDS], tmp_path / "files")
    windowed = overlapping(spark.read.schema(SCHEMA).parquet(str(tmp_path / "files")))
    definition, plain = windowed.define(**RESULTS, then=halved, returns=HALVES), windowed.define(**RESULTS)
    partials = definition.partials()
    assert partials.columns == ["world", "slice", "records", "all", "most"]
    assert partials.schema == plain.partials().schema
    counts = {(row["world"], micros(row["slice"]["start"])): row["records"] for row in partials.toArrow().to_pylist()}
    assert counts == {(world, START + at * 10 * MINUTE): 10 for world in (0, 1) for at in range(8)}
    made = definition.from_partials(partials)
    assert made.columns == ["world", "window", "part", "total", "most"]
    assert halves(made.toArrow().to_pylist()) == wanted_halves(START, START + 100 * MINUTE)


@pytest.mark.slow
def test_a_stream_of_results_starts_warm_from_partials(spark, tmp_path):
    write([table(file) for file in RECORDS], tmp_path / "files")
    past = spark.read.schema(SCHEMA).parquet(str(tmp_path / "files"))
    partials = overlapping(past).define(**RESULTS, then=halved, returns=HALVES).partials()
    definition = overlapping(stream(spark, tmp_path / "files")).define(**RESULTS, then=halved, returns=HALVES)
    until = datetime.fromtimestamp(HALF_HOUR // SECOND, UTC)
    warm = definition.warm(partials=partials, until=until).dataframe()
    output = Running(warm, tmp_path / "check", {"availableNow": True}).finish()
    found = halves([row for tables in output.tables.values() for row in tables.to_pylist()])
    assert found == wanted_halves(HALF_HOUR + 1, START + 78 * MINUTE)
    assert len(found) == 2 * 2 * 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"then": 5, "returns": "n long"}, InvalidType, "`then` takes a function"),
        ({"then": grown}, InvalidType, "as DDL"),
        ({"then": grown, "returns": "n long", "clear": grown}, InvalidValue, "there is none"),
        ({"then": grown, "returns": "world long"}, InvalidValue, "collides"),
    ],
)
def test_calls_that_are_refused(spark, arguments, error, message):
    frame = spark.createDataFrame([(1, 2)], "world long, n long").withColumn("ts", F.timestamp_seconds("n"))
    with pytest.raises(error, match=message):
        group_by(frame, "world").window(tumbling("1 minute"), time="ts").aggregate(a=C.count(), **arguments)
    with pytest.raises(InvalidValue, match="long=True"):
        group_by(frame, "world").window(
            a=tumbling("1 minute"), b=hopping("2 minutes", advance="1 minute"), time="ts"
        ).aggregate(a=C.count(), then=grown, returns=RETURNS)


@pytest.mark.parametrize("returns", ["many long, seven long", "many long"])
def test_count_windows_of_functions_have_the_times_of_their_records(spark, returns):
    """On bounded input and on a stream; `window` is that of the same call without the function."""
    frame = spark.createDataFrame([("a", START + at * SECOND, at) for at in range(4)], "user string, at long, n long")
    frame = frame.withColumn("ts", F.timestamp_micros("at"))

    def made(key, window, results, context):
        assert (window.last_record - window.first_record, results["n"]) == (1, 2)
        return [(results["n"], 7)[: returns.count("long")]]

    windowed = group_by(frame, "user").window(counting(2, order_by="n"), time="ts")
    plain = windowed.aggregate(n=C.count()).select("window", "first_record").collect()
    found = windowed.aggregate(n=C.count(), then=made, returns=returns).collect()
    assert sorted((row.window, row.first_record) for row in found) == sorted(map(tuple, plain))
    assert {row.many for row in found} == {2}


def test_count_windows_of_functions_go_without_a_time(spark):
    """Of several results none is taken for the times of the window."""
    frame = spark.range(4).withColumn("n", F.col("id") * 10)
    windowed = group_by(frame).window(counting(2, order_by="id"))

    def made(key, window, results, context):
        return [(window.first_record, results["total"])]

    rows = windowed.aggregate(n=C.count(), total=C.sum("n"), then=made, returns="first long, total long").collect()
    assert sorted((row.first, row.total, row.window) for row in rows) == [(1, 10, None), (3, 50, None)]
