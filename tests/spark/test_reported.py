"""Data of public reports, with the values that the people who answered them call right: facts only, by numbers.

The name in front of each case is the repository and the number of its report. Times are days, hours or texts in UTC;
index values of a report are days. Where a library returns 0 for a sum of nothing, here it is null, as in SQL.
"""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import combinators as C
from slicing import frame, group_by, on_close, tumbling

US = pa.timestamp("us", "UTC")


def day(number):
    """Midnight of a day of January 2020, counted from 1."""
    return datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=number - 1)


def at(text):
    """An instant of ISO text in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def of_a_key(spark, times, values, keys=None):
    """A DataFrame of records `v` at `ts`, of one key `k` if no keys are given; rows are numbered by `n`."""
    keys = ["a"] * len(times) if keys is None else keys
    columns = {"k": pa.array(keys), "ts": pa.array(times, US), "v": pa.array(values, pa.int64())}
    return spark.createDataFrame(pa.table({**columns, "n": pa.array(range(len(times)))}))


THRICE = ([day(d) for d in (1, 2, 3, 4) for _ in range(3)], list(range(12)))
"""pola-rs/polars#6691: all records of a time have the same window."""
HOURS = ([at(f"2000-01-01 {hour:02}:00") for hour in range(5)], list(range(5)))
AFTER = [at(f"2017-02-02 15:0{rest}") for rest in ("0:01", "0:02", "1:00", "3:05", "8:00")]
LENGTHS = {
    "day": "1 day",
    "two": "2 days",
    "month": "30 days",
    "around": frame("-1 hour", "1 hour"),
    "minutes": frame("0 seconds", "300 seconds"),
    "days": frame("0 days", "2 days"),
}


def thrice(*values):
    return [value for value in values for _ in range(3)]


FRAMES = {
    "left": [
        ("pola-rs/polars#11281", [day(1), day(2), day(2)], [1, 2, 2], "total_day", [None, 1, 1]),
        ("pola-rs/polars#15097", [day(1), day(2), day(3)], [4, 5, 6], "total_two", [None, 4, 9]),
        ("alteryx/featuretools#930", [day(5), day(10), day(30)], [20, 14, 10], "total_month", [None, 20, 34]),
        ("least of #6691", *THRICE, "least_two", thrice(None, 0, 0, 3)),
        ("most of #6691", *THRICE, "most_two", thrice(None, 2, 5, 8)),
    ],
    "right": [
        ("stackoverflow 48855400", [day(1), day(2), day(2), day(4)], [1, 4, 3, 2], "most_two", [1, 4, 4, 2]),
        ("least of #6691", *THRICE, "least_two", thrice(0, 0, 3, 6)),
        ("most of #6691", *THRICE, "most_two", thrice(2, 5, 8, 11)),
    ],
    "none": [
        ("least of #6691", *THRICE, "least_two", thrice(None, 0, 3, 6)),
        ("most of #6691", *THRICE, "most_two", thrice(None, 2, 5, 8)),
    ],
    "both": [
        ("least of #6691", *THRICE, "least_two", thrice(0, 0, 0, 3)),
        ("most of #6691", *THRICE, "most_two", thrice(2, 5, 8, 11)),
        ("pola-rs/polars#10338", *HOURS, "mean_around", [0.5, 1.0, 2.0, 3.0, 3.5]),
        ("least of #10338", *HOURS, "least_around", [0, 0, 1, 2, 3]),
        ("stackoverflow 48809812", AFTER, [1, 2, 3, 14, 5], "most_minutes", [14, 14, 14, 14, 5]),
        (
            "stackoverflow 22820292",
            [day(n) for n in range(10, 20)],
            list(range(10)),
            "total_days",
            [3, 6, 9, 12, 15, 18, 21, 24, 17, 9],
        ),
    ],
}
"""By which ends count: report, times, values, the result of a frame, and that result for each record.

Two reports want a frame after each record, the others before it or about it.
"""


@pytest.mark.parametrize("closed", FRAMES)
def test_records_before_and_after_each_record(spark, closed):
    cases = FRAMES[closed]
    times, values = ([each for case in cases for each in case[column]] for column in (1, 2))
    records = of_a_key(spark, times, values, [case for case, each, *_ in cases for _ in each])
    asked = group_by(records, "k").features_at(records, **LENGTHS, time="ts", closed=closed)
    rows = asked.aggregate(total=C.sum("v"), mean=C.mean("v"), least=C.min("v"), most=C.max("v")).orderBy("n").collect()
    found = {case: [row[name] for row in rows if row["k"] == case] for case, _, _, name, _ in cases}
    assert found == {case: expected for case, *_, expected in cases}


def starts(spark, window, times, values, *, emit=None):
    """The sums of the windows of bounded input by their starts."""
    query = group_by(of_a_key(spark, times, values), "k").window(window, time="ts")
    query = query if emit is None else query.emit(emit)
    rows = query.aggregate(n=C.count(), total=C.sum("v")).selectExpr("window.start AS s", "n", "total").collect()
    return {row["s"].astimezone(UTC): (row["n"], row["total"]) for row in rows}


def test_days_from_a_morning(spark):
    """pola-rs/polars#12035, a day from six to six, and #15241, one from five: no record is left out."""
    early = [at(f"2021-01-01 0{rest}") for rest in ("0:00:00", "0:00:01", "0:01:00", "0:05:00", "1:00:00", "6:00:00")]
    times = [*early, at("2021-12-31 23:55:00"), at("2022-01-01 00:00:00")]
    found = starts(spark, tumbling("1 day", offset="6 hours"), times, list(range(1, 9)))
    expected = {"2020-12-31": (5, 15), "2021-01-01": (1, 6), "2021-12-31": (2, 15)}
    assert found == {at(f"{date} 06:00"): sums for date, sums in expected.items()}
    hours = [at(f"2024-03-22 0{hour}:00") for hour in (3, 4, 5, 6)]
    found = starts(spark, tumbling("1 day", offset="5 hours"), hours, [1, 10, 100, 1000])
    assert found == {at("2024-03-21 05:00"): (2, 11), at("2024-03-22 05:00"): (2, 1100)}


def test_days_from_a_morning_where_the_clock_changes(spark):
    """pola-rs/polars#15966: six o'clock in Paris before and after both changes of 2023."""
    times = [at(f"2023-{rest} 14:56") for rest in ("03-26", "03-27", "10-29", "10-30")]
    found = starts(spark, tumbling("1 day", zone="Europe/Paris", offset="6 hours"), times, [4, 5, 6, 7])
    expected = ["2023-03-26 04:00", "2023-03-27 04:00", "2023-10-29 05:00", "2023-10-30 05:00"]
    assert [text.strftime("%Y-%m-%d %H:%M") for text in sorted(found)] == expected


def test_eight_in_zurich_is_eight_after_the_change():
    """influxdata/influxdb#10194: the day that begins at eight on 26 March 2017 begins at six in UTC, and ends so."""
    day_of = tumbling("1 day", zone="Europe/Zurich", offset="8 hours").windows_of
    assert [day_of(at(f"2017-03-{date} 12:00"))[0] for date in (25, 26)] == [
        tuple(int(at(f"2017-03-{each}").timestamp()) * 10**6 for each in pair)
        for pair in (("25 07:00", "26 06:00"), ("26 06:00", "27 06:00"))
    ]


def test_two_hours_over_an_hour_that_is_left_out():
    """influxdata/influxdb#8607: from midnight to three by the clock, as two is three; then to four."""
    of = tumbling("2 hours", zone="America/New_York").windows_of
    spans = [of(at(f"2017-03-12 {hour}:30"))[0] for hour in ("05", "07")]
    hours = [tuple(datetime.fromtimestamp(edge // 10**6, UTC).hour for edge in span) for span in spans]
    assert hours == [(5, 7), (7, 8)]


@pytest.mark.parametrize(
    ("closed", "expected"),
    [("left", {0: 10, 5: 35, 10: 21}), ("right", {-5: 0, 0: 15, 5: 40, 10: 11})],
)
def test_bins_of_five_minutes(spark, closed, expected):
    """pandas-dev/pandas#4197: the twelve minutes of a book, by which end counts."""
    times = [at("2000-01-01 00:00") + timedelta(minutes=n) for n in range(12)]
    found = starts(spark, tumbling("5 minutes", closed=closed), times, list(range(12)))
    midnight = at("2000-01-01 00:00")
    assert {start: total for start, (_, total) in found.items()} == {
        midnight + timedelta(minutes=minutes): total for minutes, total in expected.items()
    }


def test_months_by_which_end_counts(spark):
    """pandas-dev/pandas#36806: a month that ends on its last midnight has that instant if its right end is closed."""
    times = [at("2011-01-31 00:00"), at("2011-02-01 00:00"), at("2011-02-28 00:00")]
    left = starts(spark, tumbling("1 month", zone="UTC"), times, [1, 2, 4])
    right = starts(spark, tumbling("1 month", zone="UTC", closed="right"), times, [1, 2, 4])
    assert {start.month: total for start, (_, total) in left.items()} == {1: 1, 2: 6}
    assert {start.month: total for start, (_, total) in right.items()} == {1: 3, 2: 4}


def test_hours_without_records(spark):
    """pola-rs/polars#8831: the hour between is there, with 0."""
    times = [at(f"2023-05-13 0{hour}:05") for hour in (6, 7, 9)]
    found = starts(spark, tumbling("1 hour"), times, [1, 2, 3], emit=on_close(empty="1 day"))
    between = {start.hour: sums for start, sums in found.items() if start <= max(times)}
    assert between == {6: (1, 1), 7: (1, 2), 8: (0, None), 9: (1, 3)}


def test_days_without_records_of_each_key(spark):
    """pandas-dev/pandas#13151: each buyer has a row for each day between its first and its last."""
    dates = {1: (1, 3, 5), 2: (1, 2, 5)}
    times, keys = zip(*((day(d), str(key)) for key, found in dates.items() for d in found), strict=True)
    query = group_by(of_a_key(spark, list(times), [1] * 6, list(keys)), "k").window(tumbling("1 day"), time="ts")
    rows = query.emit(on_close(empty="3 days")).aggregate(n=C.count()).selectExpr("k", "window.start AS s", "n")
    counts = {(row["k"], row["s"].day): row["n"] for row in rows.collect() if row["s"].astimezone(UTC) <= day(5)}
    assert counts == {(key, d): int(d in dates[int(key)]) for key in "12" for d in range(1, 6)}


def test_weeks_without_records(spark):
    """influxdata/influxdb#20238: weeks from Thursdays in Rome over the change of the clock; one of them is empty."""
    seconds = [1585555200, 1584518400, 1584432000, 1584345600]
    times = [datetime.fromtimestamp(each, UTC) for each in seconds]
    window = tumbling("1 week", zone="Europe/Rome", offset="3 days")
    found = starts(spark, window, times, [4, 3, 2, 1], emit=on_close(empty="14 days"))
    counts = [n for start, (n, _) in sorted(found.items()) if start <= max(times)]
    assert counts == [3, 0, 1]
    assert min(found) == at("2020-03-11 23:00")


def one(spark, rows, **results):
    """The results of all rows `(time, key or order, value)` in one window."""
    frame = spark.createDataFrame(rows, "ts timestamp, a long, b string")
    return group_by(frame).window(tumbling("365 days"), time="ts").aggregate(**results).first()


def test_the_largest_of_each_group(spark):
    """duckdb/duckdb#12834: the three largest of each group; #11894: whose salary is largest, where nulls do not win."""
    rows = [(day(1), v, g) for g, v in [("a", 2), ("a", 1), ("b", 5), ("b", 4), ("a", 3), ("b", 6)]]
    grouped = group_by(spark.createDataFrame(rows, "ts timestamp, a long, b string"), "b")
    found = grouped.window(tumbling("1 day"), time="ts").aggregate(most=C.largest("a", 3)).collect()
    assert {row["b"]: row["most"] for row in found} == {"a": [3, 2, 1], "b": [6, 5, 4]}
    paid = [("1001", 10000), ("1020", 9000), ("1030", 8000), ("900", 15000), ("2000", None), ("2020", 8000)]
    row = one(
        spark, [(day(1), salary, who) for who, salary in paid], most=C.max_by("b", "a"), few=C.max_by("b", "a", 2)
    )
    assert row["most"] == "900"
    assert row["few"] == ["900", "1001"]


def test_the_latest_value_that_is_there(spark):
    """apache/doris#49855: 10 is carried forward; confluentinc/ksql#5729: nulls count unless they are ignored."""
    rows = [(day(1), 1, None), (day(2), 2, None), (day(3), 3, "10"), (day(4), 4, None)]
    row = one(
        spark,
        rows,
        held=C.last("b", ignore_nulls=True),
        last=C.last("b"),
        two=C.last_n("b", 2),
        those=C.last_n("b", 2, ignore_nulls=True),
    )
    assert (row["held"], row["last"], row["two"], row["those"]) == ("10", None, ["10", None], ["10"])
