"""Cumulating windows, windows by a wall clock and by edges on real queries: restarted streams, and bounded input.

On streams the truth is a list of the records that each window takes, by its edges and the watermark alone; on bounded
input Spark's `date_trunc` in the session's zone is another one.
"""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from streams import EPOCH, HOUR, MINUTE, START, Output, Running, micros, record, run, source, table, write

import combinators as C
from slicing import by_edges, cumulating, group_by, hopping, late_partials, on_update, results, tumbling

DELAY = 10 * MINUTE
SHIFTS = [START + 5 * HOUR * i for i in range(8)], [START + 5 * HOUR * i + 4 * HOUR for i in range(8)]


class Shifts:
    """Edges every five hours, `after` the start."""

    def __init__(self, after):
        self.after = after

    def edge(self, number):
        return START + self.after + 5 * HOUR * number

    def count(self, time):
        return (time - START - self.after) // (5 * HOUR)

    def spec(self):
        return ["shifts", self.after]


KINDS = {
    "cumulating": cumulating("6 hours", step="2 hours"),
    "cumulating in a zone": cumulating("1 day", step="6 hours", zone="America/New_York"),
    "days in a zone": tumbling("1 day", zone="Europe/Berlin"),
    "long, with a tail": hopping("9 hours", advance="1 hour", tail="3 hours"),
    "closed on the right": hopping("6 hours", advance="2 hours", closed="right"),
    "shifts with gaps": by_edges(*SHIFTS),
    "shifts of a class": by_edges(Shifts(0), Shifts(4 * HOUR)),
}
SHORT = "cumulating", "days in a zone", "long, with a tail", "closed on the right"
AGGREGATES = {"records": C.count(), "total": C.sum("n"), "most": C.max("n"), "mean": C.mean("x")}


def tables():
    """Records of three keys over a day and a half, some of them hours late."""
    made = []
    for file in range(8):
        base = START + 5 * HOUR * file
        times = [base + (7919 * i * MINUTE) % (5 * HOUR) - (9 * HOUR if i % 9 == 4 else 0) for i in range(40)]
        made.append(table([record(i % 3, time, n=i * file - 50, x=float(i)) for i, time in enumerate(times)]))
    return made


def truth(window, files, micro_batches):
    """The values of n in each (key, window) that went out, and how many records were refused by cause.

    A micro-batch judges by the watermark of the one before, and closes by its own.
    """
    held, taken, counts = {}, defaultdict(list), defaultdict(int)
    last = int("closed='right'" in str(window))  # a window that holds its end closes a microsecond later
    read = before = 0
    for _, until, watermark, _ in micro_batches:
        for row in [row for file in files[read:until] for row in file.to_pylist()]:
            windows = window.windows_of(micros(row["ts"]))
            opened = [each for each in windows if each[1] + last > before * 1000]
            counts["no_window"] += not windows
            counts["late"] += bool(windows) and not opened
            counts["late_for_some"] += 0 < len(opened) < len(windows)
            for each in opened:
                taken[row["world"], each].append(row["n"])
        read, before = until, watermark
        for place in [place for place in taken if place[1][1] + last <= watermark * 1000]:
            held[place] = taken.pop(place)
    return held, counts


def rows_of(output):
    """What went out, by key and window."""
    found = {}
    for each in output.tables.values():
        for row in each.to_pylist():
            start, end = (micros(row["window"][edge]) for edge in ("start", "end"))
            assert (row["world"], (start, end)) not in found, "a window goes out once"
            found[row["world"], (start, end)] = row
    return found


@pytest.mark.slow
@pytest.mark.versions
@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in KINDS]
)
def test_a_stream_that_is_stopped_and_started_again_has_the_rows_of_its_windows(name, spark, tmp_path):
    window, files = KINDS[name], tables()
    write(files[:4], tmp_path / "files")
    grouped = group_by(source(spark, tmp_path / "files", f"{DELAY} microseconds"), "world")
    frame = grouped.window(window, time="ts").late("partials").aggregate(**AGGREGATES)
    output, late = Output(), []
    may_be_chained = frame.schema["window"].metadata != {"spark.timeWindow": True}  # it has the delay of the watermark
    assert may_be_chained == ("closed='right'" not in str(window))

    def sink(found, batch):
        found.persist()  # before Spark 4.3 the counters are of all runs
        late.extend(late_partials(found).collect())
        Output.sink(output, results(found), batch)
        found.unpersist()

    collected = Output(tables=output.tables, progress=output.progress)
    collected.sink = sink
    for part in (files[4:], []):
        running = Running(frame, tmp_path / "checkpoint", {"availableNow": True}, collected)
        running.finish()
        write(part, tmp_path / "files", 4)
    held, counts = truth(window, files, running.micro_batches())
    found = rows_of(output)
    assert found.keys() == held.keys()
    for place, values in held.items():
        row = found[place]
        assert (row["records"], row["total"], row["most"]) == (len(values), sum(values), max(values))
    for cause in ("no_window", "late", "late_for_some"):
        assert sum(collected.counters(cause).values()) == counts[cause], cause
    assert sum(row["late"]["records"] for row in late) == counts["late"] + counts["late_for_some"] > 0
    assert len(found) >= 4


@pytest.mark.slow
def test_updates_of_cumulating_windows_end_at_what_bounded_input_says(spark, tmp_path):
    files = tables()
    write(files, tmp_path)
    window = KINDS["cumulating in a zone"]
    stream = group_by(source(spark, tmp_path, "3 days"), "world").window(window, time="ts").emit(on_update())
    (output,) = run(stream.aggregate(**AGGREGATES))
    last = {}
    for each in output.tables.values():
        for row in each.to_pylist():
            last[row["world"], row["window"]["start"], row["window"]["end"]] = [row[name] for name in AGGREGATES]
    bounded = group_by(spark.read.parquet(str(tmp_path)), "world").window(window, time="ts").aggregate(**AGGREGATES)
    wanted = {
        (row["world"], row["window"]["start"], row["window"]["end"]): [row[name] for name in AGGREGATES]
        for row in bounded.toArrow().to_pylist()
    }
    assert last == wanted
    assert len(wanted) > 15


@pytest.mark.slow
def test_a_stream_of_windows_with_a_tail_has_the_rows_of_bounded_input(spark, tmp_path):
    """Slices are merged while the stream runs and after it is started again; records differ by less than the delay."""
    window, files = hopping("12 hours", advance="1 hour", tail="4 hours"), []
    for file in range(10):
        times = [START + 6 * HOUR * file + 20 * i * MINUTE - (7 * i % 9) * MINUTE for i in range(18)]
        files.append(table([record(i % 2, time, n=i + file, x=i / 8) for i, time in enumerate(times)]))
    write(files[:6], tmp_path / "files")
    grouped = group_by(source(spark, tmp_path / "files", f"{DELAY} microseconds"), "world")
    frame, output = grouped.window(window, time="ts").aggregate(**AGGREGATES), Output()
    for part in (files[6:], []):
        running = Running(frame, tmp_path / "checkpoint", {"availableNow": True}, output)
        running.finish()
        write(part, tmp_path / "files", 6)
    passed = max(watermark for _, _, watermark, _ in running.micro_batches()) * 1000
    frame = group_by(spark.read.parquet(str(tmp_path / "files")), "world").window(window, time="ts")
    wanted = {
        (row["world"], tuple(micros(row["window"][edge]) for edge in ("start", "end"))): row
        for row in frame.aggregate(**AGGREGATES).toArrow().to_pylist()
    }
    found = rows_of(output)
    assert found == {place: row for place, row in wanted.items() if place[1][1] <= passed}
    assert {end - start for _, (start, end) in found} == {length * HOUR for length in (12, 13, 14, 15)}
    held, counts = truth(window, files, running.micro_batches())
    assert {place: row["total"] for place, row in found.items()} == {place: sum(held[place]) for place in held}
    assert not any(counts.values())


@pytest.fixture
def at_zone(spark):
    """Sets the session's zone, until the test ends."""
    yield lambda name: spark.conf.set("spark.sql.session.timeZone", name)
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.one_in(3)
@pytest.mark.versions
@pytest.mark.parametrize("unit", ["day", "week", "month", "quarter", "year"])
def test_bounded_windows_in_a_zone_are_those_of_date_trunc(unit, zone):
    spark, begin = zone, micros(EPOCH.replace(year=1969, month=10))
    times = [begin + i * 29 * HOUR + i * i for i in range(800)]
    names = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "n": range(len(times))})
    frame = spark.createDataFrame(names)
    window = tumbling(f"1 {unit}", zone="America/New_York")
    ours = group_by(frame).window(window, time="ts").aggregate(records=C.count(), total=C.sum("n"))
    theirs = frame.groupBy(F.date_trunc(unit, "ts").alias("start")).agg(F.count("*").alias("records"), F.sum("n"))
    found = {row["window"]["start"]: (row["records"], row["total"]) for row in ours.collect()}
    assert found == {row["start"]: (row["records"], row["sum(n)"]) for row in theirs.collect()}
    lengths = {row["window"]["end"] - row["window"]["start"] for row in ours.collect()}
    assert unit != "day" or lengths == {timedelta(hours=hours) for hours in (23, 24, 25)}


ODD = {
    "Europe/Berlin": ["2025-03-30", "2025-10-26"],
    "America/Santiago": ["2025-04-06", "2025-09-07"],  # south of the equator, at midnight
    "Australia/Lord_Howe": ["2025-04-06", "2025-10-05"],  # by half an hour
    "Pacific/Apia": ["2011-12-30"],  # a day that was left out
    "America/St_Johns": ["2006-04-02", "2006-10-29", "1965-10-31"],  # at 00:01, back over midnight; before 1970
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ODD)
def test_days_about_changes_of_the_clock_are_those_of_date_trunc(name, spark, at_zone):
    """Every minute of four days about each change, but where the local date steps back.

    A day with two midnights is left out too: here it begins at the first one, in Spark at both.
    """
    zone, times = ZoneInfo(name), []
    for day in ODD[name]:
        first = micros(datetime.fromisoformat(day).replace(tzinfo=UTC)) - 2 * 24 * HOUR
        newest = None
        for time in range(first, first + 4 * 24 * HOUR, MINUTE):
            local = (EPOCH + timedelta(microseconds=time)).astimezone(zone).date()
            newest = max(newest or local, local)
            first_and_last = (datetime(local.year, local.month, local.day, fold=fold, tzinfo=zone) for fold in (0, 1))
            offsets = [each.utcoffset() for each in first_and_last]
            if local == newest and offsets[0] <= offsets[1]:
                times.append(time)
    frame = spark.createDataFrame(pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "n": range(len(times))}))
    at_zone(name)
    windows = tumbling("1 day", zone=name), tumbling("1 month", zone=name)
    ours = group_by(frame).window(*windows, time="ts").aggregate(records=C.count(), total=C.sum("n")).collect()
    lengths = {each["window"]["end"] - each["window"]["start"] for each in ours}
    for unit, is_month in (("day", False), ("month", True)):
        theirs = frame.groupBy(F.date_trunc(unit, "ts").alias("start")).agg(F.count("*").alias("records"), F.sum("n"))
        found = {
            row["window"]["start"]: (row["records"], row["total"])
            for row in ours
            if (row["window"]["end"] - row["window"]["start"] > timedelta(27)) == is_month
        }
        assert found == {row["start"]: (row["records"], row["sum(n)"]) for row in theirs.collect()}
    assert any(length < timedelta(27) and length != timedelta(1) for length in lengths) == (name != "Pacific/Apia")


def test_hours_and_minutes_that_a_clock_shows_twice_are_those_of_date_trunc(spark, at_zone):
    first = micros(datetime(2021, 11, 7, 4, tzinfo=UTC))
    times = [first + i * 20 * 10**6 for i in range(8 * 180)]
    frame = spark.createDataFrame(pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "n": range(len(times))}))
    at_zone("US/Central")
    windows = {unit: tumbling(f"1 {unit}", zone="US/Central") for unit in ("hour", "minute")}
    ours = group_by(frame).window(**windows, time="ts", long=True).aggregate(total=C.sum("n")).collect()
    for unit in windows:
        theirs = frame.groupBy(F.unix_micros(F.date_trunc(unit, "ts")).alias("start")).agg(F.sum("n")).collect()
        found = {micros(row["window"]["start"].astimezone(UTC)): row["total"] for row in ours if row["windows"] == unit}
        assert found == {row["start"]: row["sum(n)"] for row in theirs}
        assert len(found) == {"hour": 8, "minute": 480}[unit]


def test_seven_days_by_the_day_in_a_zone_are_sums_of_its_days(spark):
    times = [START + i * 5 * HOUR for i in range(300)]
    frame = spark.createDataFrame(pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "n": range(300)}))
    days, weeks = (
        {
            (row["window"]["start"], row["window"]["end"]): row["total"]
            for row in group_by(frame).window(window, time="ts").aggregate(total=C.sum("n")).collect()
        }
        for window in (
            tumbling("1 day", zone="Australia/Lord_Howe"),
            hopping("7 days", advance="1 day", zone="Australia/Lord_Howe"),
        )
    )
    for (start, end), total in weeks.items():
        assert total == sum(sums for (low, high), sums in days.items() if start <= low and high <= end)
    edges = sorted(start for start, _ in weeks)
    assert all(timedelta(hours=23) < b - a < timedelta(hours=25) for a, b in pairwise(edges))
    assert len(weeks) == len(days) + 6 > 60
