"""What is said about the delay of the watermark: the value, its text, and the counters of a stream with a restart."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import functions as F
from streams import HOUR, MINUTE, SECOND, START, Output, record, run, source, table, times_of, write

import combinators as C
from slicing import InvalidValue, Lateness, ProgressListener, group_by, hopping, lateness
from slicing.spark.progress import micro_batch
from slicing.triggers.required_delay import BOUNDS
from slicing.windows.time.slices import FOREVER


def lateness_of(required, delay, retained=65 * MINUTE, state=13 << 20):
    """Of records that need these delays, in microseconds."""
    counts = [0] * (len(BOUNDS) + 1)
    for each in required:
        counts[sum(each > bound for bound in BOUNDS)] += 1
    late = sum(each > delay for each in required)
    return Lateness(tuple(counts), max(required, default=0), late, delay, retained, state)


DISORDER = [0] * 900 + [3 * SECOND] * 96 + [7 * MINUTE] * 3 + [640 * SECOND]


@pytest.mark.parametrize(
    ("required", "delay", "text"),
    [
        ([], MINUTE, "no record has been counted yet"),
        (
            DISORDER,
            5 * MINUTE,
            "a delay of 5 min kept 99.6 % of 1,000 records; 5 min 40 s more would have kept all "
            "(about 1.1 MiB more state)",
        ),
        (
            [*DISORDER * 3, 3 * HOUR],
            MINUTE,
            "a delay of 1 min kept 99.5 % of 3,001 records; 15 min would have kept 99.96 % (about 2.8 MiB more "
            "state); "
            "2 h 59 min more would have kept all (about 35.8 MiB more state)",
        ),
        (
            DISORDER,
            HOUR,
            "a delay of 1 h kept all of 1,000 records; 10 min 40 s would have been enough (about 9.9 MiB less state)",
        ),
        ([0, FOREVER], HOUR, "a delay of 1 h kept 50 % of 2 records"),
        ([0], 0, "a delay of 0 s kept all of 1 record"),
    ],
)
def test_it_says_what_another_delay_would_have_kept(required, delay, text):
    assert str(lateness_of(required, delay)) == text


@pytest.mark.parametrize(
    ("required", "dropped", "text"),
    [
        ([0] * 3, 0, "a delay of 1 min kept all of 3 records"),
        (
            [0] * 3,
            1,
            "a delay of 1 min kept all of 3 records that reached the windows; another operator dropped 1 record; its "
            "delay is the watermark's",
        ),
        ([], 2, "no record has been counted yet; another operator dropped 2 records; its delay is the watermark's"),
        (
            [0, HOUR],
            1200,
            "a delay of 1 min kept 50 % of 2 records that reached the windows; 59 min more would have kept all; "
            "another operator dropped 1,200 records; its delay is the watermark's",
        ),
    ],
)
def test_no_shorter_delay_is_advised_where_other_operators_drop_by_it_too(required, dropped, text):
    found = replace(lateness_of(required, MINUTE, state=0), dropped=dropped)
    assert str(found) == text
    assert found.kept("1 minute") == sum(each <= MINUTE for each in required) / (len(required) + dropped)
    assert found.delay_for(0) == timedelta(minutes=1), "what it drops with a shorter one is not known"
    assert (found.delay_for(1) is None) == (dropped > 0)
    assert str(found + found) == str(replace(lateness_of(required * 2, MINUTE, state=0), dropped=dropped * 2))


def test_shares_and_delays():
    found = lateness_of(DISORDER, 5 * MINUTE)
    assert found.records == 1000
    assert [found.kept(delay) for delay in ("0 seconds", "5 seconds", "4 seconds", "10 minutes", "11 minutes")] == [
        0.9,
        0.996,
        0.9,
        0.999,
        1.0,
    ], "between bounds it is that of the bound before"
    seconds = {share: found.delay_for(share).total_seconds() for share in (0, 0.9, 0.95, 0.999, 1)}
    assert seconds == {0: 0, 0.9: 0, 0.95: 5, 0.999: 600, 1: 640}
    assert lateness_of([FOREVER], 0).delay_for(1) is None
    assert lateness_of([], 0).kept("1 minute") == 1.0
    assert found.cumulative()[:3] == [(0.0, 900), (1.0, 900), (2.0, 900)]
    assert found.cumulative()[-1] == (float("inf"), 1000)
    for call in (lambda: found.kept("-1 second"), lambda: found.delay_for(1.5)):
        with pytest.raises(InvalidValue, match="got"):
            call()


def test_micro_batches_are_added_up_also_over_a_change_of_the_delay():
    first, second = lateness_of(DISORDER, 90 * SECOND), lateness_of([0, 50 * SECOND], 90 * SECOND, state=1)
    both = first + second
    assert both == lateness_of([*DISORDER, 0, 50 * SECOND], 90 * SECOND, state=1)
    assert both.kept("90 seconds") == 998 / 1002
    changed = first + lateness_of([40 * SECOND], 45 * SECOND)
    assert changed.late is None
    assert changed.kept("45 seconds") == 996 / 1001, "of that in between only the lower bound is known"
    assert str(changed).startswith("a delay of 45 s kept 99.5 % of 1,001 records; ")


def files(seed):
    """Records of three keys, with disorder and without times; the last one closes all windows."""
    choice, at, found = random.Random(seed), START, []
    for _ in range(8):
        at += choice.choice([20 * SECOND, 3 * MINUTE, 20 * MINUTE])
        back = (choice.choice([0, 0, SECOND, MINUTE, 10 * MINUTE, 4 * HOUR]) for _ in range(40))
        times = [at - int(choice.random() * most) for most in back]
        found.append(table([record(choice.randrange(3), time) for time in (*times, at, None)]))
    return [*found, table([record(1, at + HOUR)])]


def required(tables, size, advance):
    """Record by record: how far the newest record of the micro-batches that count was after its first window."""
    found = []
    for batch, each in enumerate(tables):
        newest = max((time for earlier in tables[: max(0, batch - 1)] for time in times_of(earlier) if time), default=0)
        for time in times_of(each):
            if time is not None:
                first = (time - size) // advance * advance + advance  # the first start after time - size
                passed = newest // 1000 - (first + size) / 1000
                found.append(0 if passed < 0 else (int(passed) + 1) * 1000)
    return found


@pytest.mark.slow
@pytest.mark.versions
def test_counters_of_a_stream_are_those_of_its_records_also_over_a_restart(spark, tmp_path):
    tables, listener = files(7), ProgressListener(lines=False)
    write(tables[:5], tmp_path / "files")
    windowed = group_by(source(spark, tmp_path / "files", "2 minutes"), "world").window(
        hopping("10 minutes", "1 minute"), time="ts"
    )
    frame, reports = windowed.aggregate(total=C.sum("n")), []
    for later in ([], tables[5:]):
        write(later, tmp_path / "files", first=5)
        output = Output()
        query = (
            frame.writeStream.foreachBatch(output.sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        output.note(query)
        for each in output.progress.values():
            listener.onQueryProgress(type("Event", (), {"progress": each}))
        reports += output.progress.values()
    # Where the first run ends is a micro-batch without data.
    needed = required([*tables[:5], None, *tables[5:]], 10 * MINUTE, MINUTE)
    expected = lateness_of(needed, 2 * MINUTE, retained=12 * MINUTE, state=0)
    assert expected.late > 10
    found = lateness(reports)
    assert (found.counts, found.longest, found.late) == (expected.counts, expected.longest, expected.late)
    assert (found.delay, found.retained) == (2 * MINUTE, 12 * MINUTE)
    assert listener.lateness(micro_batch(reports[0]).query) == found
    assert listener.lateness("other") is None
    assert found.delay_for(1) == timedelta(microseconds=max(needed))


def deduplicated(spark, root):
    return source(spark, root, "1 minute").dropDuplicatesWithinWatermark(["n"])


def joined(spark, root):
    """With the records of the other file, an hour around each."""
    left, right = (source(spark, root, "1 minute") for _ in range(2))
    right = right.selectExpr("n AS other", "ts AS at").withMetadata("at", right.schema["ts"].metadata)
    near = "n = other AND at BETWEEN ts - INTERVAL 1 HOUR AND ts + INTERVAL 1 HOUR"
    return left.join(right, F.expr(near)).drop("at", "other")


@pytest.mark.parametrize(("before", "dropped"), [(deduplicated, 1), pytest.param(joined, 2, marks=pytest.mark.slow)])
def test_records_that_another_operator_drops_are_counted(spark, tmp_path, before, dropped):
    """The record of 00:05 is behind the watermark of 01:00, and of an open window of two hours."""
    times = [HOUR, HOUR + MINUTE, 5 * MINUTE, 3 * HOUR + 20 * MINUTE]
    write([table([record(1, START + time, n=number)]) for number, time in enumerate(times)], tmp_path)
    windowed = group_by(before(spark, tmp_path), "world").window(hopping("2 hours", "1 hour"), time="ts")
    (output,) = run(windowed.aggregate(records=C.count()))
    found = {(start - START) // HOUR: row["records"] for (_, start), row in output.rows().items()}
    assert found[0] == 2, "with the record of 00:05 there are 3"
    reports = list(output.progress.values())
    listener = ProgressListener(lines=False)
    for each in reports:
        listener.onQueryProgress(type("Event", (), {"progress": each}))
    batches = [micro_batch(each) for each in reports]
    said = f"another operator dropped {dropped} record{'s' * (dropped > 1)}; its delay is the watermark's"
    assert str(lateness(reports)).endswith(said)
    assert [each.line() for each in batches if f"{dropped:,} dropped by other operators" in each.line()]
    (query,) = listener.totals
    assert listener.totals[query]["dropped_by_other_operators"] == dropped
    assert listener.totals[query]["late"] == 0
