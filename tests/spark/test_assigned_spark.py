"""Windows that a function assigns, against brute force over raw records; a stream equals bounded input."""

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime

import pytest
from own_triggers import EveryNth
from pyspark.errors import PythonException
from pyspark.sql import functions as F
from streams import MINUTE, SECOND, START, micros, record, run, source, table, write

import combinators as C
from slicing import (
    assigned_by,
    early,
    group_by,
    late_records,
    on_change,
    on_update,
    processing_time,
    results,
)
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, reason


def odd(time, n):
    """Windows of three kinds: aligned minutes, one around each record, and points; some records have none."""
    start = time // MINUTE * MINUTE
    found = [(start, start + MINUTE)] if n % 5 else []
    found += [(time - n % 3 * SECOND, time + 20 * SECOND)] if n % 2 else []
    return found + ([(start, start)] if n % 7 == 0 else [])


def no_points(time, n):
    """A point in the past has closed when its record comes."""
    return [(start, end) for start, end in odd(time, n) if start < end]


def records(seed, count=120):
    rng, now = random.Random(seed), START
    for _ in range(count):
        now += rng.randrange(4 * SECOND)
        yield record(rng.randrange(1, 4), now - rng.randrange(3) * SECOND, n=rng.randrange(1, 40))
    for time in (-5 * MINUTE - 1, -1, 0):  # before 1970
        yield record(1, time, n=6)


def brute(rows, assign=odd):
    held = defaultdict(list)
    for row in rows:
        for start, end in assign(row["ts"], row["n"]):
            held[row["world"], start, end].append((row["ts"], row["n"]))
    return {place: (len(found), sum(n for _, n in found), max(found)[0]) for place, found in held.items()}


def aggregated(frame, assign=odd):
    windows = group_by(frame, "world").window(assigned_by(assign, columns="n"), time="ts")
    return windows.aggregate(records=C.count(), total=C.sum("n"), last=C.last("ts"))


def found(rows):
    return {
        (row.world, micros(row.window.start), micros(row.window.end)): (row.records, row.total, micros(row.last))
        for row in rows
    }


def test_bounded_windows_are_those_of_raw_records(spark, tmp_path):
    rows = list(records("bounded"))
    write([table(rows)], tmp_path / "in")
    frame = aggregated(spark.read.parquet(str(tmp_path / "in")))
    assert frame.columns == ["world", "window", "records", "total", "last"]
    assert found(frame.collect()) == brute(rows)
    assert any(start == end for _, start, end in brute(rows))


def test_a_stream_closes_windows_as_they_end_and_counts_what_is_late(spark, tmp_path):
    rows = list(records("stream"))[:-3]
    end = max(row["ts"] for row in rows)
    late = record(1, START + SECOND, n=2)  # of one window, which has closed
    parts = [rows[:50], rows[50:], [record(9, end + 10 * MINUTE, n=5)], [late], [record(9, end + 30 * MINUTE, n=5)]]
    write([table(part) for part in parts], tmp_path / "in")
    frame = aggregated(source(spark, tmp_path / "in", "4 seconds"), no_points)
    query = frame.writeStream.format("memory").queryName("assigned").trigger(availableNow=True).start()
    query.awaitTermination()
    assert found(spark.table("assigned").where("world < 9").collect()) == brute(rows, no_points)
    counts = [each for progress in query.recentProgress for each in progress.observedMetrics.values()]
    assert sum(each["late"] for each in counts) == 1
    assert sum(each["no_window"] for each in counts) == sum(not no_points(row["ts"], row["n"]) for row in rows)


def test_triggers_fire_them(spark, tmp_path):
    write([table(list(records("early"))[:-3])], tmp_path / "in")
    windows = group_by(source(spark, tmp_path / "in"), "world").window(assigned_by(odd, columns="n"), time="ts")
    frame = windows.emit(early(records=2, per="window", final=False)).aggregate(records=C.count())
    query = frame.writeStream.format("memory").queryName("assigned_early").trigger(availableNow=True).start()
    query.awaitTermination()
    rows = list(records("early"))[:-3]
    there = [row.records for row in spark.table("assigned_early").collect()]
    assert sorted(there) == sorted(n for n, *_ in brute(rows).values() if n >= 2)


def emitted(spark, tmp_path, parts, trigger, assign=odd, delay="1 hour"):
    """The rows of a stream with a micro-batch for each part: its number, the key, the window, the count of records."""
    write([table(part) for part in parts], tmp_path / "in")
    windows = group_by(source(spark, tmp_path / "in", delay), "world")
    windows = windows.window(assigned_by(assign, columns="n"), time="ts").emit(trigger)
    (output,) = run(windows.aggregate(records=C.count()))
    return sorted(
        (batch, row["world"], *map(micros, row["window"].values()), row["records"])
        for batch, each in output.tables.items()
        for row in each.to_pylist()
    )


def in_batches(parts, assign=odd):
    """Each micro-batch with each window that gets records in it: the values of these, and the count of all so far."""
    held = Counter()
    for batch, part in enumerate(parts):
        new = defaultdict(list)
        for row in part:
            for start, end in assign(row["ts"], row["n"]):
                new[row["world"], start, end].append(row["n"])
        for place, values in new.items():
            held[place] += len(values)
            yield batch, place, values, held[place]


def test_a_trigger_with_a_state_needs_no_rule_for_merging(spark, tmp_path):
    rows = list(records("own"))[:-3]
    parts, seen, wanted = [rows[:40], rows[40:80], rows[80:]], Counter(), []
    for batch, place, values, count in in_batches(parts):
        seen[place] += len(values)
        if seen[place] >= 3:
            wanted.append((batch, *place, count))
        seen[place] %= 3
    assert emitted(spark, tmp_path, parts, EveryNth(3)) == sorted(wanted)
    assert {batch for batch, *_ in wanted} == {0, 1, 2}


def test_a_value_fires_the_windows_in_which_it_differs(spark, tmp_path):
    rows = list(records("delta"))[:-3]
    parts, reference, wanted = [rows[:40], rows[40:80], rows[80:]], {}, []
    for batch, place, values, count in in_batches(parts):
        fires = False
        for value in values:
            if abs(value - reference.setdefault(place, value)) > 9:
                reference[place], fires = value, True
        wanted += [(batch, *place, count)] * fires
    assert emitted(spark, tmp_path, parts, early(delta=("n", 9.0), final=False)) == sorted(wanted)
    assert {batch for batch, *_ in wanted} == {0, 1, 2}


@pytest.mark.parametrize(
    ("trigger", "remedy"),
    [
        (early(records=3), 'per="window"'),
        (early(records=3, per="key", final=False), 'per="window"'),
        (early(records=3, per="key", after="10 seconds"), 'per="window"'),
        (on_update(latest_only=True), r"Use on_update\(\)"),
    ],
    ids=str,
)
def test_what_goes_by_key_is_refused(spark, tmp_path, trigger, remedy):
    """The windows of a key are in different buckets, and a record is there once for each of its windows."""
    write([table([record(1, START)])], tmp_path / "in")
    windows = group_by(source(spark, tmp_path / "in"), "world").window(assigned_by(odd, columns="n"), time="ts")
    with pytest.raises(InvalidValue, match=rf"and assigned_by\(odd, .* stores each window of a key alone.*{remedy}"):
        windows.emit(trigger).aggregate(n=C.count())


def long(time, n):
    """One window of 1,000 seconds."""
    start = START + (time - START) // (1000 * SECOND) * 1000 * SECOND
    return [(start, start + 1000 * SECOND)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("also", ["alone", "when", "delta"])
def test_a_delay_of_event_time_begins_at_the_record(spark, tmp_path, also):
    """::

    window     [0                                   1000)
    key 1                             900                    waits until the watermark is at 950
    watermark  at 850, 910, 949 and 951 in micro-batches 1 to 4
    """
    parts = [
        [record(world, START + at * SECOND, n=n)]
        for world, at, n in ((1, 900, 1), (3, 960, 9), (2, 999, 1), (2, 1001, 1), (2, 1002, 1))
    ]
    others = {"when": {"when": F.col("n") == 9}, "delta": {"delta": ("n", 100.0)}}.get(also, {})
    trigger = early(after="50 seconds", by="event", final=False, **others)
    found = emitted(spark, tmp_path, parts, trigger, long, "50 seconds")
    window = START, START + 1000 * SECOND
    assert found == [(1, 3, *window, 1)] * (also == "when") + [(4, 1, *window, 1)]


@pytest.mark.parametrize("streaming", [True, False])
def test_no_record_ends_them(spark, tmp_path, streaming):
    write([table([record(1, START)])], tmp_path / "in")
    frame = source(spark, tmp_path / "in") if streaming else spark.read.parquet(str(tmp_path / "in"))
    windows = group_by(frame, "world").window(assigned_by(odd, columns="n"), time="ts")
    with pytest.raises(InvalidValue, match=r"ends=True\) lets records end sessions, and other windows end when they"):
        windows.emit(early(when=F.col("n") > 5, ends=True)).aggregate(n=C.count())


def test_what_they_refuse_is_said_of_them(spark, tmp_path):
    write([table([record(1, START)])], tmp_path / "in")
    windows = group_by(source(spark, tmp_path / "in"), "world").window(assigned_by(odd, columns="n"), time="ts")
    for call, why in (
        (windows.emit(on_change()), "compares a window with the one before it, and a function assigns windows in no"),
        (windows.assemble("recompute"), "has no slices to assemble; got `recompute`"),
        (windows.retain("1 hour"), "keeps a partial of each open window, and no slices"),
    ):
        with pytest.raises(InvalidValue, match=why) as raised:
            call.aggregate(n=C.count())
        assert "assigned_by(odd, columns=['n'])" in str(raised.value)
        assert "session" not in str(raised.value)


def broken(time, n):
    return [(time, time + 1)] if n != 7 else [(time, 1 / 0)]


def test_a_function_that_fails_names_the_record(spark, tmp_path):
    write([table([record(1, START, n=3), record(1, START + SECOND, n=7)])], tmp_path / "in")
    frame = spark.read.parquet(str(tmp_path / "in"))
    with pytest.raises(PythonException) as raised:
        group_by(frame, "world").window(assigned_by(broken, columns=["n"]), time="ts").aggregate(n=C.count()).collect()
    assert "`broken` gives the windows of a record" in reason(raised.value)
    assert "with 7: ZeroDivisionError" in reason(raised.value)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda time: [time], "a window is a pair of its start and its end"),
        (lambda time: [(time, time - 1)], "a window does not end before it starts"),
        (lambda time: [(time, "later")], "an instant is a datetime with a zone.*got 'later'"),
        (lambda time: None, "TypeError"),
    ],
)
def test_what_is_no_window_is_refused(function, message):
    with pytest.raises(FunctionFailed, match=message):
        assigned_by(function).of(5)


def test_datetimes_are_instants():
    at = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert assigned_by(lambda time: [(0, at)]).of(5) == [(0, 1_000_000)]
    assert assigned_by(lambda time: [(0, at), (0, 7), (0, 1_000_000)]).of(5) == [(0, 1_000_000), (0, 7)]
    with pytest.raises(InvalidType, match="`assigned_by` takes a function"):
        assigned_by("hour")


def summed(key, window, records, context):
    """A row of all that is known of a window."""
    assert len(key) == 1
    values = records["n"].to_pylist()
    return [(window.start_us, window.end_us, len(values), sum(values))]


def test_functions_of_records_and_of_results(spark, tmp_path):
    """They get the key of the query and the window as it was assigned; also as a definition."""
    rows = list(records("process"))
    write([table(rows)], tmp_path / "in")
    windows = group_by("world").window(assigned_by(odd, columns="n"), time="ts")
    made = windows.define_process(summed, returns="start long, end long, size long, total long", columns="n")
    frame = spark.read.parquet(str(tmp_path / "in")).transform(made)
    assert frame.columns == ["world", "window", "start", "end", "size", "total"]
    wanted = {place: value[:2] for place, value in brute(rows).items()}
    assert {(row.world, row.start, row.end): (row["size"], row.total) for row in frame.collect()} == wanted

    def stretched(key, window, results, context):
        yield {"start": window.start_us, "end": window.end_us, "twice": (2 * results["n"], *key)[0], "world2": key[0]}

    frame = spark.read.parquet(str(tmp_path / "in"))
    frame = group_by(frame, "world").window(assigned_by(odd, columns="n"), time="ts")
    frame = frame.aggregate(n=C.count(), then=stretched, returns="start long, end long, twice long, world2 long")
    assert {(row.world2, row.start, row.end): row.twice // 2 for row in frame.collect()} == {
        place: value[0] for place, value in wanted.items()
    }
    assert frame.columns == ["world", "window", "start", "end", "twice", "world2"]


def closed(assign, row, watermark):
    """For each window of a record whether it has closed; one without a length ends a microsecond later."""
    return [max(end, start + 1) <= watermark for start, end in assign(row["ts"], row["n"])]


def in_seconds(time, n):
    """Windows whose ends do not depend on the record; those of 0 are open."""
    of = {
        0: [(0, 5000)],
        1: [(0, 10), (0, 1000)],
        2: [(0, 10), (1, 11), (2, 12)],
        3: [(0, 10), (0, 1000), (5, 20)],
        4: [(0, 1000), (3, 1000)],
        5: [(100, 100), (99, 100)],
    }[n]
    return [(START + start * SECOND, START + end * SECOND) for start, end in of]


def test_a_late_record_is_counted_once(spark, tmp_path):
    """Whatever its windows, and in whichever buckets its copies are; late rows are there for each closed window.

    The watermark of micro-batch 2 is at 100 s.
    """
    late = [record(world, START + SECOND, n=n) for world in range(1, 7) for n in range(6)]
    others = [[record(9, START + at * SECOND, n=0)] for at in (0, 100, 101, 102)]
    write([table(part) for part in (*others[:3], late, others[3])], tmp_path / "in")
    windows = group_by(source(spark, tmp_path / "in"), "world").window(assigned_by(in_seconds, columns="n"), time="ts")
    frame = windows.late("records").aggregate(records=C.count())
    query = frame.writeStream.format("memory").queryName("counted_once").trigger(availableNow=True).start()
    query.awaitTermination()
    refused = [closed(in_seconds, row, START + 100 * SECOND) for row in late]
    assert (sum(map(all, refused)), sum(map(any, refused)), sum(map(sum, refused))) == (6, 24, 42)
    counts = [each for progress in query.recentProgress for each in progress.observedMetrics.values()]
    assert [sum(each[name] for each in counts) for name in ("late", "late_for_some")] == [6, 18]
    assert sum(sum(each["required_delays"]) for each in counts) == len(late) + len(others)
    assert late_records(spark.table("counted_once")).count() == 42


def test_late_records_are_those_of_raw_records(spark, tmp_path):
    rows = list(records("late", 240))[:-3]
    rows = [row | {"ts": row["ts"] - row["n"] % 4 * MINUTE} for row in rows]
    parts = [rows[first : first + 40] for first in range(0, len(rows), 40)]
    write([table(part) for part in parts], tmp_path / "in")
    (output,) = run(aggregated(source(spark, tmp_path / "in"), odd))
    watermarks, wanted = output.watermarks(), {"late": Counter(), "late_for_some": Counter()}
    for batch, part in enumerate(parts):
        for row in part:
            refused = closed(odd, row, 1000 * watermarks[batch - 1] if batch else 0)
            if any(refused):
                wanted["late" if all(refused) else "late_for_some"][batch] += 1
    assert {name: output.counters(name) for name in wanted} == wanted
    assert all(map(len, wanted.values()))


@pytest.mark.slow
def test_late_records_have_their_own_columns(spark, tmp_path):
    """A late record is there for each window that it is late for, with the time that it had."""
    first, last = record(1, START + SECOND, n=5), record(1, START + 10 * MINUTE, n=5)
    late = record(1, START + 2 * SECOND, n=4)  # of one window
    write([table([each]) for each in (first, last, last, late, last)], tmp_path / "in")
    windows = group_by(source(spark, tmp_path / "in", "4 seconds"), "world")
    windows = windows.window(assigned_by(no_points, columns="n"), time="ts").late("records")
    for name, frame in (
        ("aggregated", windows.aggregate(total=C.sum("n"))),
        (
            "processed",
            windows.define_process(summed, returns="a long, b long, c long, d long", columns="n").dataframe(),
        ),
    ):
        assert sorted(late_records(frame).columns) == ["late", "n", "ts", "world"]
        assert results(frame).columns[:2] == ["world", "window"]
        query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
        query.awaitTermination()
        (found,) = late_records(spark.table(name)).collect()
        assert (found.world, found.n, micros(found.ts)) == (1, 4, late["ts"])
        ((start, end),) = no_points(late["ts"], 4)
        assert (micros(found.late.slice.start), micros(found.late.slice.end)) == (start, end)


def test_what_is_not_built_is_refused(spark, tmp_path, capsys):
    write([table([record(1, START)])], tmp_path / "in")
    grouped = group_by(spark.read.parquet(str(tmp_path / "in")), "world")
    windows = grouped.window(assigned_by(odd, columns="n"), time="ts")
    made = windows.define(n=C.count())
    for call in (
        lambda: made.lookup(str(tmp_path)),
        lambda: made.declare("world long, ts timestamp, n long"),
        lambda: made.warm(spark.read.parquet(str(tmp_path / "in")), until="2024-01-01T00:00:00Z"),
    ):
        with pytest.raises(InvalidValue, match=r"is not built for assigned_by\(odd, columns=\['n'\]\).* Use windows"):
            call()
    with pytest.raises(InvalidValue, match="remembers keys and windows that time decides"):
        windows.process(summed, returns="n long", columns="n", key_state="n long")
    with pytest.raises(InvalidValue, match=r"column of assigned_by.* `other` does not exist; the columns are"):
        grouped.window(assigned_by(odd, columns="other"), time="ts").aggregate(n=C.count())
    with pytest.raises(InvalidValue, match=r"`time` of .* is the name of a column"):
        grouped.window(assigned_by(odd, columns="n"), time=processing_time()).aggregate(n=C.count())
    windows.explain(n=C.count())
    assert "every record is copied into each of its windows before the shuffle, R times" in capsys.readouterr().out
