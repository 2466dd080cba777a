"""Emission on real queries: against Spark's update mode, over restarts, changed on the way, and downstream."""

import time
from collections import Counter
from dataclasses import dataclass

import pytest
from pyspark.sql import functions as F
from streams import (
    MINUTE,
    OURS,
    SECOND,
    START,
    Live,
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
from slicing import InvalidType, InvalidValue, early, group_by, hopping, on_change, on_close, on_update, tumbling

WINDOW = hopping("10 minutes", "2 minutes")
DELAY, GRACE = "90 seconds", "4 minutes"
RESULTS = {"records": C.count(), "total": C.sum("n"), "least": C.min("s")}


@dataclass
class Story:
    """The outputs of one stream under every emission, every query started anew at each step; others to compare."""

    restarted: dict[str, Output]
    closed: Output
    spark: Output


EMISSIONS = {
    "on_update()": on_update(),
    "on_close(corrections=True, old=True)": on_close(corrections=True, old=True),
    "on_change(drained=True)": on_change(drained=True),
    "early(records=4)": early(records=4),
}


@pytest.fixture(scope="module")
def story(spark, tmp_path_factory):
    """Three steps of two files each; the second file of a step has records that are late by a little and by much."""
    live = Live(spark, tmp_path_factory.mktemp("emission"), DELAY)
    windowed = group_by(live.source(), "world").window(WINDOW, time="ts")
    theirs = live.source().groupBy("world", spark_window(WINDOW)).agg(*by_spark())
    spark_output = live.add(theirs, mode="update")
    closed = live.add(windowed.grace(GRACE).aggregate(**RESULTS))
    restarted = {}
    for name, emission in EMISSIONS.items():
        updating = name == "on_update()"
        frame = windowed.grace("0 seconds" if updating else GRACE).emit(emission)
        frame = frame.aggregate(**(OURS if updating else RESULTS))
        restarted[name] = live.add(frame, restart=True, mode="update" if updating else "append")
    tables = worlds("emission", files=6, count=15, edge=MINUTE)
    for at in range(0, 6, 2):
        live.step(*tables[at : at + 2])
    live.step(table([record(1, START + 100 * 60 * MINUTE)]))
    live.stop()
    return Story(restarted, closed, spark_output)


def test_on_update_puts_out_what_the_update_mode_of_spark_does(story):
    ours, theirs = story.restarted["on_update()"].rows("world"), story.spark.rows("world")
    assert exact_differences(ours, theirs)[:5] == []
    assert float_differences(ours, theirs)[:5] == []
    assert len(theirs) > 200
    assert {row["emission"] for row in ours.values()} == {"update"}


def last_rows(output, *kinds):
    """The row of the largest revision of every window, by world and start."""
    found = {}
    for (_, *place), row in sorted(output.rows("world").items(), key=lambda item: item[1]["revision"]):
        if row["emission"] in kinds:
            found[tuple(place)] = row
    return found


def closed(story):
    return {place[1:]: row for place, row in story.closed.rows("world").items()}


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("on_close(corrections=True, old=True)", ("final", "correction")),
        ("early(records=4)", ("final",)),
    ],
)
def test_what_went_out_last_is_the_result_at_the_close(story, name, kinds):
    ours, theirs = last_rows(story.restarted[name], *kinds), closed(story)
    assert exact_differences(ours, theirs, RESULTS)[:5] == []


def test_corrections_name_what_they_replace(story):
    rows = story.restarted["on_close(corrections=True, old=True)"].rows("world")
    last, seen = {}, Counter()
    for (_, *place), row in sorted(rows.items(), key=lambda item: item[1]["revision"]):
        seen[row["emission"]] += 1
        before = last.get(tuple(place))
        assert row["old"] == (before and {name: before[name] for name in RESULTS})
        assert row["emission"] == "final" or row["records"] > (before or {"records": 0})["records"]
        last[tuple(place)] = row
    assert seen["final"] > 50
    assert seen["correction"] >= 3


def test_changes_are_the_closed_windows_less_those_that_repeat(story):
    """From the rows of `on_close`, by definition: equal to the window before, or empty, or to go out."""
    theirs = closed(story)
    expected = {}
    for (world, start), row in theirs.items():
        before = theirs.get((world, start - WINDOW.advance))
        if before is None or any(row[name] != before[name] for name in RESULTS):
            expected["final", world, start] = row
        if (world, start + WINDOW.advance) not in theirs:
            expected["drained", world, start + WINDOW.advance] = None
    rows = story.restarted["on_change(drained=True)"].rows("world")
    ours = {(row["emission"], *place[1:]): row for place, row in rows.items()}
    last = max(start for _, _, start in ours)
    assert ours.keys() == {place for place in expected if place[2] <= last}
    assert all(row["records"] == 0 for place, row in ours.items() if place[0] == "drained")
    assert len([place for place in ours if place[0] == "final"]) < len(theirs)


def test_early_results_go_out_by_the_clock_and_the_final_ones_once(spark, tmp_path):
    """The trigger runs every half second; records that come within one tick share a row."""
    live = tmp_path / "files"
    write([table([record(1, START + n * SECOND) for n in range(3)])], live)
    windowed = group_by(source(spark, live), "world").window(tumbling("1 minute"), time="ts")
    frame = windowed.emit(early(every="1 second")).aggregate(records=C.count())
    running = Running(frame, tmp_path / "checkpoint", {"processingTime": "300 milliseconds"})
    write_at = iter([[START + 30 * SECOND], [START + 90 * SECOND], [START + 200 * SECOND]])
    number, deadline = 1, time.monotonic() + 240
    seen = []
    while time.monotonic() < deadline:
        if not running.query.isActive:
            running.start()  # a busy machine, see `Running.finish`
        seen = sorted_rows(running.output)
        if ("final", START + MINUTE, 1) in seen:
            break
        wanted = [("early", START, 3), ("early", START, 4), ("final", START, 4)]
        if number <= 3 and wanted[number - 1] in seen:
            write([table([record(1, at) for at in next(write_at)])], live, first=number)
            number += 1
        time.sleep(0.2)
    running.query.stop()
    first = [row for row in seen if row[1] == START]
    assert first == [("early", START, 3), ("early", START, 4), ("final", START, 4)]
    assert seen.count(("final", START + MINUTE, 1)) == 1


def sorted_rows(output):
    """(emission, start, records) of all rows so far, by micro-batch; early rows of a micro-batch come last."""
    rows = []
    for _, each in sorted(output.tables.items()):
        found = zip(each["emission"].to_pylist(), starts(each), each["records"].to_pylist(), strict=True)
        rows += sorted(found, reverse=True)
    return rows


def test_emission_may_change_on_a_live_checkpoint(spark, tmp_path):
    """A query is started with one emission after another, beside one that is started as often and stays on_close."""
    emissions = [on_close(), on_update(), on_change(), on_close(), on_close(corrections=True), on_close()]
    tables = worlds("changing emission", files=10, count=8)
    steps = [tables[at : at + 1] for at in range(len(emissions) - 1)] + [tables[len(emissions) - 1 :]]
    ours, plain = [], []
    for number, (emission, files) in enumerate(zip(emissions, steps, strict=True)):
        write(files, tmp_path / "files", first=number)
        windowed = group_by(source(spark, tmp_path / "files", DELAY), "world").window(WINDOW, time="ts").grace(GRACE)
        for name, each, found in (("ours", emission, ours), ("plain", on_close(), plain)):
            frame = windowed.emit(each).aggregate(**RESULTS)
            output = Running(frame, tmp_path / name, {"availableNow": True}).finish()
            found.append({place[1:]: row for place, row in output.rows("world").items()})
    assert exact_differences(ours[0], plain[0], RESULTS) == []
    assert exact_differences(ours[3], plain[3], RESULTS) == [], "the caches are made anew, and right"
    assert not set(ours[5]) & set(ours[4]), "what went out under corrections does not go out again"
    assert exact_differences(ours[5], {place: plain[5][place] for place in ours[5]}, RESULTS) == []
    assert len(ours[5]) > 20


# --- what follows in the same query -----------------------------------------------------------------------------------


def test_windows_of_windows_with_ours_and_with_those_of_spark(spark, tmp_path):
    """Per user and 10 s, then over all users per 30 s: as the same two steps on bounded input."""
    made = [record(n % 3, START + n * SECOND, n=n) for n in range(120)]
    write(
        [
            table(made[:60]),
            table(made[60:]),
            table([record(1, START + 400 * SECOND)]),
            table([record(1, START + 800 * SECOND)]),
        ],
        tmp_path,
    )
    first = group_by(source(spark, tmp_path), "world").window(tumbling("10 seconds"), time="ts")
    per_user = first.aggregate(total=C.sum("n"))
    theirs = per_user.groupBy(F.window("window", "30 seconds")).agg(F.max("total").alias("most"))
    timed = per_user.select("world", "total", F.window_time("window").alias("at"))
    ours = group_by(timed).window(tumbling("30 seconds"), time="at").aggregate(most=C.max("total"))
    outputs = run(ours, theirs)
    expected = {}
    for begin in range(0, 120, 30):
        sums = Counter()
        for n in range(begin, begin + 30):
            sums[n % 3, n // 10] += n
        expected[START + begin * SECOND] = max(sums.values())
    for output in outputs:
        found = {place[-1]: row["most"] for place, row in output.rows().items()}
        assert {start: found.get(start) for start in expected} == expected


@pytest.mark.parametrize("emission", [on_update(), on_change(), early(records=1), on_close(corrections=True)], ids=str)
def test_windows_over_windows_that_go_out_more_than_once_are_refused(spark, tmp_path, emission):
    write([table([record(1, START)])], tmp_path)
    windowed = group_by(source(spark, tmp_path), "world").window(WINDOW, time="ts").grace(GRACE)
    frame = windowed.emit(emission).aggregate(n=C.count())
    assert "spark.watermarkDelayMs" not in frame.schema["window"].metadata
    timed = frame.withColumn("at", F.window_time("window"))
    for query in (frame, timed, timed.drop("window")):
        with pytest.raises(InvalidValue, match="would count some twice"):
            group_by(query).window(tumbling("1 hour"), time="at").aggregate(n=C.sum("n"))


# --- what is refused when the query is built, and bounded input -----------------------------------------------------


@pytest.fixture(scope="module")
def stream(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("refused")
    write([table([record(1, START)])], root)
    return group_by(source(spark, root), "world").window(WINDOW, time="ts")


def test_corrections_need_grace(stream):
    with pytest.raises(InvalidValue, match=r"corrections=True\) needs time.*grace"):
        stream.emit(on_close(corrections=True)).aggregate(n=C.count())


@pytest.mark.parametrize("name", ["emission", "revision", "Old"])
def test_names_of_the_columns_that_an_emission_adds_are_taken(stream, name):
    emission = on_close(corrections=True, old=True)
    with pytest.raises(InvalidValue, match="collides"):
        stream.grace("1 minute").emit(emission).aggregate(**{name: C.count()})
    assert stream.aggregate(**{name: C.count()}).columns == ["world", "window", name]


def test_a_result_of_no_records_is_asked_for_when_drained_windows_go_out(stream):
    arguments = {"value": "n", "partial": "n long, total long", "returns": "double", "name": "mean"}
    functions = (lambda: (0, 0), lambda acc, n: (acc[0] + 1, acc[1] + n), lambda a, b: (a[0] + b[0], a[1] + b[1]))
    mean = lambda a: a[1] / a[0]  # noqa: E731
    stream.emit(on_change()).aggregate(*functions, lower=mean, **arguments)
    with pytest.raises(InvalidValue, match="result of no records, which `mean` does not have: ZeroDivisionError"):
        stream.emit(on_change(drained=True)).aggregate(*functions, lower=mean, **arguments)


def test_emit_takes_an_emission_only(stream):
    with pytest.raises(InvalidType, match=r"`emit` takes what on_close.*got 'update'"):
        stream.emit("update")


def test_explain_names_the_emission(stream, capsys):
    stream.emit(on_update()).explain(n=C.count())
    assert "on_update(): in every micro-batch the open windows that got a record" in capsys.readouterr().out


def test_bounded_input_has_the_same_rows_whatever_the_emission(spark, tmp_path):
    write(worlds("bounded emission", files=2, count=5), tmp_path)
    frame = spark.read.parquet(str(tmp_path))
    windowed = group_by(frame, "world").window(WINDOW, time="ts")
    plain = windowed.aggregate(n=C.count())
    for emission in [*EMISSIONS.values(), early(every="1 second")]:
        found = windowed.emit(emission).aggregate(n=C.count())
        assert found.columns == plain.columns
        assert sorted(found.collect(), key=str) == sorted(plain.collect(), key=str)
