"""Sliding windows on Spark: bounded ones against its own `OVER (... RANGE ...)`, streams against the definition."""

import random

import pytest
from pyspark.sql import Window as Over
from pyspark.sql import functions as F
from scenarios.expected import Call
from scenarios.kinds.sliding import Sliding
from streams import (
    EXACT,
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
from slicing import group_by, late_records, on_update, processing_time, results, sliding
from slicing.triggers.emission import on_close

RESULTS = {"records": C.count(), "total": C.sum("n"), "newest": C.last("n")}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    place = tmp_path_factory.mktemp("files")
    write(worlds("sliding"), place)
    return place


@pytest.mark.versions
@pytest.mark.parametrize("keys", [("world",), pytest.param((), marks=pytest.mark.long)])
def test_bounded_left_windows_are_those_of_over(spark, files, keys):
    """A row for each distinct time, the catalogue, any number of buckets; Spark has a row for each record."""
    frame = spark.read.parquet(str(files)).where("ts is not null")
    window, length = sliding("90 seconds", right=False), 90 * SECOND
    windowed = group_by(frame, *keys).window(window, time="ts")
    ended = F.expr("window.end - interval 1 microsecond")
    ours = [each.aggregate(**OURS).withColumn("ts", ended) for each in (windowed, windowed.buckets(5))]
    over = Over.partitionBy(*(keys or [F.lit(1)])).orderBy(F.unix_micros("ts")).rangeBetween(-length, 0)
    theirs = frame.select(*keys, "ts", *by_spark(over)).dropDuplicates([*keys, "ts"])
    found = []
    for each in (*(ours if keys else ours[:1]), theirs):
        rows = each.toArrow().to_pylist()
        found.append({(0, *(row[key] for key in keys), micros(row["ts"])): row for row in rows})
        assert len(found[-1]) == len(rows)
    *mine, spark_rows = found
    assert len(spark_rows) > 250
    for each in mine:
        assert exact_differences(each, spark_rows, EXACT)[:5] == []
        assert float_differences(each, spark_rows)[:5] == []


@pytest.mark.parametrize("closed", ["left", "none"])
def test_the_record_itself_left_out_is_that_of_over(spark, files, closed):
    """Nulls, where nothing was before; also counts, where Spark has zeros."""
    frame, length = spark.read.parquet(str(files)).where("ts is not null"), 90 * SECOND
    window = sliding("90 seconds", right=False, closed=closed)
    ours = group_by(frame, "world").window(window, time="ts").aggregate(records=C.count(), total=C.sum("n"))
    ended = F.expr("window.end - interval 1 microsecond").alias("ts")
    over = Over.partitionBy("world").orderBy(F.unix_micros("ts")).rangeBetween(-length + (closed == "none"), -1)
    count = F.nullif(F.count("*").over(over), F.lit(0)).alias("records")
    theirs = frame.select("world", "ts", count, F.sum("n").over(over).alias("total")).dropDuplicates(["world", "ts"])
    found, wanted = (
        {(row.world, row.ts): (row.records, row.total) for row in each.collect()}
        for each in (ours.select("world", ended, "records", "total"), theirs)
    )
    assert found == wanted
    assert 20 < sum(records is None for records, _ in wanted.values()) < len(wanted)


LENGTHS = {"short": 10 * SECOND, "day": 86_400 * SECOND, "none": 0}


@pytest.mark.versions
def test_bounded_lengths_are_those_of_over_and_of_features_at(spark, files):
    """One query has the columns of each length: Spark's for each distinct time, and those of training rows."""
    frame = spark.read.parquet(str(files)).where("ts is not null")
    lengths = {name: f"{length} microseconds" for name, length in LENGTHS.items()}
    results = {"records": C.count(), "total": C.sum("n"), "least": C.min("n")}
    windowed = group_by(frame, "world").window(sliding(**lengths, right=False), time="ts")
    ours = windowed.aggregate(**results).withColumn("ts", F.expr("window_end - interval 1 microsecond"))
    spine, some = frame.select("world", "ts").distinct(), {k: v for k, v in lengths.items() if k != "none"}
    features = group_by(frame, "world").features_at(spine, **some, time="ts", inclusive=True).aggregate(**results)

    def over(name):
        return Over.partitionBy("world").orderBy(F.unix_micros("ts")).rangeBetween(-LENGTHS[name], 0)

    by_over = {"records": lambda w: F.count(F.lit(1)).over(w), "total": lambda w: F.sum("n").over(w)}
    by_over["least"] = lambda w: F.min("n").over(w)
    theirs = frame.select(
        "world", "ts", *(made(over(name)).alias(f"{each}_{name}") for name in LENGTHS for each, made in by_over.items())
    ).distinct()
    columns = ["world", "ts", *(f"{each}_{name}" for name in some for each in results)]
    found, wanted, training = (
        sorted(map(repr, each.toArrow().to_pylist()))
        for each in (ours.select(theirs.columns), theirs, features.select(columns))
    )
    assert len(wanted) > 250
    assert found == wanted
    assert sorted(map(repr, ours.select(columns).toArrow().to_pylist())) == training


def batches(rng):
    """Records of three keys, some far behind, as micro-batches."""
    for clock in (0, 4, 9, 9, 30, 31, 60, 200):
        near = [(clock + rng.choice([0, 0.5, 1, 2.25, -3, -6, -25]), rng.randrange(3)) for _ in range(9)]
        yield [record(key, START + int(second * SECOND), n=n) for n, (second, key) in enumerate(near)]


def defined(output, steps, window, emission, grace):
    """By definition: (micro-batch, kind, key, start, end): values; from the watermarks that Spark had.

    And how many records are late for all windows.
    """
    call, left, found, late = Call(Sliding(window), emission, grace), iter(steps), {}, 0
    watermarks = output.watermarks()
    for batch in sorted(output.progress):
        records = next(left) if output.progress[batch]["numInputRows"] else []
        came = [(each["ts"], each["world"], each["n"]) for each in records]
        for (kind, key, _, *edges), (held, _) in call.step(call.made(came), watermarks[batch]).items():
            found[batch, kind, key, *edges] = [each.value for each in held]
        late += sum(by_all for _, by_all in call.late())
    assert next(left, None) is None
    return found, late


def rows_of(output):
    found = {}
    for batch, each in output.tables.items():
        for row in each.to_pylist():
            start, end = (micros(row["window"][edge]) for edge in ("start", "end"))
            place = batch, row.get("emission", "final"), row["world"], start, end
            assert place not in found
            found[place] = row
    return found


@pytest.mark.slow
@pytest.mark.versions
def test_streams_are_those_of_the_definition_over_restarts(spark, tmp_path):
    """On close over restarts and a micro-batch that is run again, on update, corrected, in other buckets."""
    window, grace = sliding("5 seconds"), 4 * SECOND
    live, steps = Live(spark, tmp_path, "2 seconds"), list(batches(random.Random(3)))
    windowed = group_by(live.source(), "world").window(window, time="ts")
    queries = [
        (on_close(), 0, live.add(windowed.aggregate(**RESULTS), restart=True, output=Output(cuts={2, 5}))),
        (on_close(), 0, live.add(windowed.buckets(5).aggregate(**RESULTS))),
        (on_update(), 0, live.add(windowed.emit(on_update()).aggregate(**RESULTS), restart=True)),
    ]
    corrected = windowed.grace("4 seconds").emit(on_close(corrections=True)).aggregate(**RESULTS)
    queries.append((on_close(corrections=True), grace, live.add(corrected, restart=True)))
    for two in zip(steps[::2], steps[1::2], strict=True):
        live.step(*map(table, two))
    live.stop()
    for emission, wait, output in queries:
        wanted, late = defined(output, steps, window, emission, wait)
        got = rows_of(output)
        assert got.keys() == wanted.keys()
        for place, values in wanted.items():
            row = got[place]
            assert (row["records"], row["total"]) == (len(values), sum(values))
        assert len(got) > 40
        assert sum(output.counters("late").values()) == late >= 3
    assert {place[1] for place in rows_of(queries[-1][2])} == {"final", "correction"}


@pytest.mark.slow
@pytest.mark.versions
def test_a_stream_of_several_lengths_has_the_columns_of_a_query_each(spark, tmp_path):
    """Over restarts, and with late records by the name of the length that has missed them."""
    live, lengths = Live(spark, tmp_path, "2 seconds"), {"short": "1 second", "long": "5 seconds"}
    grouped = group_by(live.source(), "world")
    rows = {
        name: live.add(grouped.window(window, time="ts").aggregate(**RESULTS), restart=True)
        for name, window in {
            "both": sliding(**lengths, right=False),
            **{name: sliding(length, right=False) for name, length in lengths.items()},
        }.items()
    }
    late = grouped.window(sliding(**lengths, right=False), time="ts").late("records").aggregate(**RESULTS)
    rows["late"] = live.add(late.where("late is not null").select(F.col("late.*")))
    steps = [[(0, 0), (4, 1)], [(4.5, 0), (5, 0)], [(9, 0), (12, 1)], [(8, 0), (6.5, 0), (1, 1)], [(40, 0)], [(80, 0)]]
    for two in zip(steps[::2], steps[1::2], strict=True):
        live.step(*(table([record(k, START + int(s * SECOND), n=i) for i, (s, k) in enumerate(each)]) for each in two))
    live.stop()

    def found(name, column, suffix=""):
        every = (row for each in rows[name].tables.values() for row in each.to_pylist())
        return {
            (row["world"], row["window_end"] if suffix else row["window"]["end"]): row[f"{column}{suffix}"]
            for row in every
        }

    for name in lengths:
        for each in RESULTS:
            assert found("both", each, f"_{name}") == found(name, each)
    assert len(found("both", "total", "_long")) >= 6
    told = [row for each in rows["late"].tables.values() for row in each.to_pylist()]
    assert {row["windows"] for row in told} == {"short", "long"}


@pytest.mark.slow
@pytest.mark.versions
def test_late_records_and_the_plan(spark, tmp_path):
    """The watermark is at 200: of the windows that begin from 195 on, that which ends with 200 takes 195 and 197."""
    live = Live(spark, tmp_path, "0 seconds")
    windowed = group_by(live.source(), "world").window(sliding("5 seconds"), time="ts")
    frame = windowed.late("records").aggregate(**RESULTS)
    assert results(frame).columns == ["world", "window", *RESULTS]
    assert late_records(frame).columns[:2] == ["world", "ts"]
    fields = ["record.ts", "cause", "missed", "first_window.start"]
    output = live.add(
        frame.where("late is not null").select(*(F.col(f"late.{f}").alias(f.split(".")[0]) for f in fields))
    )
    live.step(table([record(1, START + second * SECOND) for second in (0, 196, 200)]))
    live.step(table([record(1, START + second * SECOND) for second in (150, 194, 195, 197)]))
    live.stop()
    late = [row for each in output.tables.values() for row in each.to_pylist() if row["record"]]
    found = {(micros(row["record"]) - START) // SECOND: row for row in late}
    assert {second: (row["cause"], row["missed"]) for second, row in found.items()} == {
        150: ("late", 1),
        194: ("late", 1),
        195: ("late_for_some", 1),
        197: ("late_for_some", 1),
    }
    assert [micros(found[second]["first_window"]) - START for second in (195, 197)] == [195 * SECOND] * 2
    plan = windowed.plan(**RESULTS)
    assert "2 for each distinct time of a key at most" in str(plan)
    assert plan.per_record.writes == 2


@pytest.mark.versions
@pytest.mark.long
def test_by_the_clock_of_the_trigger(spark, tmp_path):
    """A file a micro-batch, all within the hour: the window that ends with each holds all before it."""
    write([table([record(1, START)]) for _ in range(3)], tmp_path)
    windowed = group_by(source(spark, tmp_path), "world").window(sliding("1 hour", right=False), time=processing_time())
    spark.conf.set(NO_DATA, "false")
    try:
        (output,) = run(windowed.emit(on_update(latest_only=True)).aggregate(records=C.count()))
    finally:
        spark.conf.unset(NO_DATA)
    assert [row["records"] for each in output.tables.values() for row in each.to_pylist()] == [1, 2, 3]
