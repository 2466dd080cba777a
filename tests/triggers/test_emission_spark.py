"""Emission on real queries: against Spark's update mode, over failures, changed on the way, and downstream."""

import json
from collections import Counter
from dataclasses import dataclass

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from scenarios.expected import Call
from scenarios.kinds.even import Even
from streams import (
    MINUTE,
    OURS,
    POWER_CUT,
    SECOND,
    START,
    Live,
    Output,
    Running,
    by_spark,
    ending,
    exact_differences,
    float_differences,
    record,
    run,
    source,
    spark_window,
    table,
    times_of,
    wait_until,
    worlds,
    write,
)

import combinators as C
from slicing import InvalidType, InvalidValue, early, group_by, hopping, on_change, on_close, on_update, tumbling
from slicing.windows.time.durations import microseconds

WINDOW = hopping("10 minutes", "2 minutes")
DELAY, GRACE = "90 seconds", "4 minutes"
RESULTS = {"records": C.count(), "total": C.sum("n"), "least": C.min("s")}


@dataclass
class Story:
    """One stream under every emission, every query cut; others to compare."""

    tables: list
    cut: dict[str, Running]
    closed: Output
    spark: Output


EMISSIONS = {
    str(emission): emission
    for emission in (
        on_update(),
        on_update(latest_only=True),
        on_close(corrections=True, old=True),
        on_close(corrections=True, discarding=True),
        on_change(drained=True),
        early(records=4),
    )
}
KINDS = {
    "on_update(latest_only=True)": {"update"},
    "on_close(corrections=True, old=True)": {"final", "correction"},
    "on_close(corrections=True, discarding=True)": {"final", "correction"},
    "on_change(drained=True)": {"final", "drained"},
    "early(records=4)": {"early", "final"},
}
CUTS = 1, 4, 8
"""In each step of three a micro-batch fails when all its work is done: the query is started again, and runs it again.

The first two have data, the last has none. In the short run every query has one of the three failures: starting again
is what takes long.
"""


CUT_IN = [pytest.param(1, marks=pytest.mark.slow), pytest.param(len(CUTS), marks=pytest.mark.long)]


@pytest.fixture(scope="module", params=CUT_IN, ids="cuts={}".format)
def story(request, spark, tmp_path_factory):
    """Three steps of two files each; the second file of a step has records that are late by a little and by much."""
    live = Live(spark, tmp_path_factory.mktemp("emission"), DELAY)
    windowed = group_by(live.source(), "world").window(WINDOW, time="ts")
    theirs = live.source().groupBy("world", spark_window(WINDOW)).agg(*by_spark())
    spark_output = live.add(theirs, mode="update")
    closed = live.add(windowed.grace(GRACE).aggregate(**RESULTS))
    cut = {}
    for number, (name, emission) in enumerate(EMISSIONS.items()):
        cuts = {CUTS[(number + more) % len(CUTS)] for more in range(request.param)}
        updating = name == "on_update()"
        frame = windowed.grace("0 seconds" if updating else GRACE).emit(emission)
        frame = frame.aggregate(**(OURS if updating else RESULTS))
        live.add(frame, mode="update" if updating else "append", output=Output(cuts=cuts))
        cut[name] = live.running[-1]
    tables = [*worlds("emission", files=6, count=15, edge=MINUTE), table([record(1, START + 100 * 60 * MINUTE)])]
    for at in range(0, 7, 2):
        live.step(*tables[at : at + 2])
    live.stop()
    assert not any(each.output.cuts for each in cut.values())
    return Story(tables, cut, closed, spark_output)


def test_on_update_puts_out_what_the_update_mode_of_spark_does(story):
    ours, theirs = story.cut["on_update()"].output.rows("world"), story.spark.rows("world")
    assert exact_differences(ours, theirs)[:5] == []
    assert float_differences(ours, theirs)[:5] == []
    assert len(theirs) > 200
    assert {row["emission"] for row in ours.values()} == {"update"}


def result(values):
    """`RESULTS` of the (n, s) of some records."""
    numbers, words = ([row[at] for row in values if row[at] is not None] for at in range(2))
    return {"records": len(values), "total": sum(numbers) if numbers else None, "least": min(words, default=None)}


def expected(tables, running, window, emission, grace):
    """(micro-batch, kind, world, start) -> the result and the one that it replaces, by brute force over all records."""

    def shown(held, _=None):
        return result([record.value for record in held])

    call, found, read = Call(Even(window), emission, grace, truth=shown), {}, 0
    for number, files, watermark, now in running.micro_batches():
        made = []
        for each in tables[read:files]:
            values = zip(each["n"].to_pylist(), each["s"].to_pylist(), strict=True)
            made += zip(times_of(each), each["world"].to_pylist(), values, strict=True)
        made, read = [record for record in made if record[0] is not None], files
        for (kind, world, _, start, _), (held, old) in call.step(call.made(made), watermark, now).items():
            found[number, kind, world, start] = shown(held), old and shown(old)
    return found


def put_out(running):
    """The rows of a query in the same form."""
    return {
        (batch, row.get("emission", "final"), world, start): ({name: row[name] for name in RESULTS}, row.get("old"))
        for (batch, world, start), row in running.output.rows("world").items()
    }


@pytest.mark.parametrize("name", KINDS)
def test_every_row_goes_out_in_its_micro_batch_and_says_what_brute_force_says(story, name):
    running, grace = story.cut[name], microseconds(GRACE, "grace")
    ours, theirs = put_out(running), expected(story.tables, running, WINDOW, EMISSIONS[name], grace)
    wrong = [place for place in ours.keys() | theirs.keys() if ours.get(place) != theirs.get(place)]
    assert [(place, ours.get(place), theirs.get(place)) for place in wrong[:5]] == []
    seen = Counter(kind for _, kind, *_ in ours)
    assert seen.keys() == KINDS[name]
    assert min(seen.values()) >= 3
    once = Counter(tuple(place) for _, *place in ours if place[0] in ("final", "drained"))
    assert set(once.values()) <= {1}


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
    ours, theirs = last_rows(story.cut[name].output, *kinds), closed(story)
    assert exact_differences(ours, theirs, RESULTS)[:5] == []


@pytest.mark.slow
@pytest.mark.versions
def test_what_goes_out_while_the_input_is_silent(spark, tmp_path):
    """Windows of 4 minutes by 2, delay 1 minute; what is behind the last watermark stays open, whatever the clock says.

    minute    0   2   4   6   8  10          W
    file 0    1      2                       -
    file 1                 1                 5:30       [2, 6) and later wait
    file 2          1                        5:30       late for [0, 4), counts in [2, 6)
    file 3    2 at minute 30                 29:00      [28, 32) and [30, 34) wait
    """
    window = hopping("4 minutes", "2 minutes")
    minutes = [(0.5, 1), (3.5, 2)], [(6.5, 1)], [(3, 1)], [(30, 2)]
    tables = [table([record(world, START + int(at * MINUTE)) for at, world in each]) for each in minutes]
    write(tables[:1], tmp_path / "files")
    windowed = group_by(source(spark, tmp_path / "files", "1 minute"), "world").window(window, time="ts")
    queries = {}
    for emission, grace in SILENT.items():
        frame = windowed.grace(f"{grace} microseconds").emit(emission).aggregate(**RESULTS)
        queries[emission] = Running(frame, tmp_path / str(emission), {"processingTime": "200 milliseconds"})
    plain, corrected, ticking = queries.values()

    def went_out(running):
        return sorted((kind, world, (start - START) // MINUTE) for _, kind, world, start in put_out(running))

    def finals(*places):
        return sorted(("final", *place) for place in places)

    write(tables[1:2], tmp_path / "files", first=1)
    silence(queries.values(), 2, START + 5.5 * MINUTE)
    closed = [(1, -2), (1, 0), (2, 0)]
    assert went_out(plain) == went_out(corrected) == finals(*closed)
    looked = [place for kind, *place in went_out(ticking) if kind == "early" and tuple(place) not in closed]
    assert looked == [[1, 4], [1, 6], [2, 2]]
    before = [went_out(each) for each in queries.values()]
    for each in queries.values():
        each.query.stop()
        each.start()  # Spark runs no micro-batch before records come, not even for a tick.

    write(tables[2:3], tmp_path / "files", first=2)
    silence(queries.values(), 3, START + 5.5 * MINUTE)
    before[1].insert(0, ("correction", 1, 0))
    before[2].insert(before[2].index(("early", 1, 4)), ("early", 1, 2))
    assert [went_out(each) for each in queries.values()] == before

    write(tables[3:], tmp_path / "files", first=3)
    silence(queries.values(), 4, START + 29 * MINUTE)
    closed += [(2, 2), (1, 2), (1, 4), (1, 6)]
    assert [row for row in went_out(ticking) if row[0] == "final"] == went_out(plain) == finals(*closed)
    assert went_out(corrected) == [("correction", 1, 0), *finals(*closed)]
    assert went_out(ticking)[: -len(closed)][-2:] == [("early", 2, 28), ("early", 2, 30)]
    for (emission, grace), running in zip(SILENT.items(), queries.values(), strict=True):
        running.query.stop()
        assert put_out(running) == expected(tables, running, window, emission, grace)


SILENT = {on_close(): 0, on_close(corrections=True): 2 * MINUTE, early(every="500 milliseconds"): 0}


@pytest.mark.slow
def test_early_by_the_clock_ends_with_available_now_without_micro_batches_without_data(spark, tmp_path):
    """And a clock that was far ahead once: by the checkpoint the first micro-batch is of the year 2100, and repeated.

    Every micro-batch is at a tick, so that all but the first look at the windows that are open.
    """
    minutes = [(0.5, 1), (3.5, 2)], [(4.5, 1)], [(5, 1)], [(5.5, 2)], [(30, 2)], [(31, 2)]
    write([table([record(w, START + int(at * MINUTE)) for at, w in each]) for each in minutes], tmp_path / "files")
    windowed = group_by(source(spark, tmp_path / "files"), "world").window(tumbling("4 minutes"), time="ts")
    emission = early(every="1 millisecond")
    frame = windowed.emit(emission).aggregate(**RESULTS)
    with ending(spark, emission):
        running = Running(frame, tmp_path / "checkpoint", {"availableNow": True}, Output(cuts={0}), attempts=1)
        with pytest.raises(StreamingQueryException, match=POWER_CUT):
            running.query.awaitTermination()
        trigger_at(tmp_path / "checkpoint" / "offsets" / "0", 4_102_444_800_000)
        running.output.lost.clear()
        running.start()
        output = running.finish()
    assert sorted(output.tables) == list(range(6)), "one for each file, and it ended"
    found = [(batch, kind, world, (start - START) // MINUTE) for batch, kind, world, start in put_out(running)]
    assert sorted(found) == [
        (2, "early", 1, 4),
        (2, "final", 1, 0),
        (2, "final", 2, 0),
        (3, "early", 2, 4),
        (4, "early", 2, 28),
        (5, "early", 2, 28),
        (5, "final", 1, 4),
        (5, "final", 2, 4),
    ]


def trigger_at(offsets, millis):
    """Let a micro-batch that has not been done be of another time, in a checkpoint."""
    head, times, *rest = offsets.read_text().splitlines()
    offsets.with_name(f".{offsets.name}.crc").unlink(missing_ok=True)
    offsets.write_text("\n".join([head, json.dumps(json.loads(times) | {"batchTimestampMs": millis}), *rest]))


def silence(queries, files, watermark):
    """Wait until all files are through and the watermark has come to its end; then for three ticks, by the last query.

    That one has a micro-batch at every trigger; the others have the same triggers.
    """
    *_, ticking = queries
    since = None

    def over():
        nonlocal since
        if not all(is_through(each, files, watermark) for each in queries):
            return False
        *_, (_, _, _, now) = ticking.micro_batches()
        since = since or now
        return now - since >= 3 * 500

    wait_until(over, queries)


def is_through(running, files, watermark):
    """Whether a micro-batch with this watermark is done by which all files had been read."""
    return any((read, 1000 * mark) == (files, watermark) for _, read, mark, _ in running.micro_batches())


@pytest.mark.slow
@pytest.mark.versions
def test_emission_may_change_on_a_live_checkpoint(spark, tmp_path):
    """A query is started with one emission after another, beside one that is started as often and stays on_close."""
    emissions = [on_close(), on_update(), on_change(), on_close(), on_close(corrections=True), on_close()]
    tables = worlds("changing emission", files=10, count=8)
    steps = [tables[at : at + 1] for at in range(len(emissions) - 1)] + [tables[len(emissions) - 1 :]]
    ours, plain = [], []
    for number, (emission, files) in enumerate(zip(emissions, steps, strict=True)):
        write(files, tmp_path / "files", first=number)
        windowed = group_by(source(spark, tmp_path / "files", DELAY), "world").window(WINDOW, time="ts").grace(GRACE)
        both = [
            Running(windowed.emit(each).aggregate(**RESULTS), tmp_path / name, {"availableNow": True})
            for name, each in (("ours", emission), ("plain", on_close()))
        ]
        for each, found in zip(both, (ours, plain), strict=True):
            found.append({place[1:]: row for place, row in each.finish().rows("world").items()})
    assert exact_differences(ours[0], plain[0], RESULTS) == []
    assert exact_differences(ours[3], plain[3], RESULTS) == [], "the caches are made anew, and right"
    assert not set(ours[5]) & set(ours[4]), "what went out under corrections does not go out again"
    assert exact_differences(ours[5], {place: plain[5][place] for place in ours[5]}, RESULTS) == []
    assert len(ours[5]) > 20


# --- what follows in the same query -----------------------------------------------------------------------------------


@pytest.mark.slow
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
    expected = [(START + 390 * SECOND, 1)]
    for begin in range(0, 120, 30):
        sums = Counter()
        for n in range(begin, begin + 30):
            sums[n % 3, n // 10] += n
        expected.append((START + begin * SECOND, max(sums.values())))
    for output in outputs:
        found = [(place[-1], row["most"]) for place, row in output.rows().items()]
        assert sorted(found) == sorted(expected), "each window once, and no other"


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
    functions = (lambda: 0, lambda n: n + 1, lambda a, b: a + b)
    each = {"lower": lambda n: 1 / n, "returns": "double", "name": "each"}
    stream.emit(on_change()).aggregate(*functions, **each)
    with pytest.raises(InvalidValue, match="result of no records, which `each` does not have: ZeroDivisionError"):
        stream.emit(on_change(drained=True)).aggregate(*functions, **each)


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
