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
