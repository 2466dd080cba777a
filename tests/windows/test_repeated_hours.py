"""Windows of clock units about hours that a clock shows twice or leaves out, against `zoneinfo`, minute by minute."""

from bisect import bisect_left, bisect_right
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from slicing import cumulating, hopping, session, tumbling
from slicing.stages.local_runner import bounded, stream
from slicing.windows.sets import windows_of_call

MINUTE = 60 * 10**6
HOUR = 60 * MINUTE
CHANGES = {
    "US/Central": ["2021-11-07T07:00Z", "2021-03-14T08:00Z"],
    "Australia/Lord_Howe": ["2026-04-04T15:00Z", "2026-10-03T15:30Z"],  # by half an hour
    "America/Sao_Paulo": ["2019-02-17T02:00Z", "2018-11-04T03:00Z"],  # at midnight
    "Cuba": ["2024-11-03T05:00Z", "2024-03-10T05:00Z"],  # at 01:00 back to midnight
    "Asia/Kathmandu": ["1985-12-31T18:30Z"],  # by a quarter
    "Pacific/Apia": ["2011-12-30T10:00Z"],  # a day left out
}


def micros(text):
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@cache
def wall(zone, time):
    """Minutes since its own 1970 that a clock shows, rounded down."""
    shown = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)).astimezone(ZoneInfo(zone))
    return (shown.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(minutes=1)


def edges(zone, minutes, first, end):
    """Each minute of `[first, end)` at which a clock shows a multiple of some minutes, or has just left one out."""
    found = []
    for time in range(first, end, MINUTE):
        before, now = wall(zone, time - MINUTE), wall(zone, time)
        if now % minutes == 0 or (now > before and now // minutes > before // minutes):
            found.append(time)
    return found


def days(zone, first, end):
    """The first minute of each date; of a date that is left out, of the next one."""
    dates = {}
    for time in range(first, end, MINUTE):
        dates.setdefault(wall(zone, time) // 1440, time)
    return [dates.get(date, dates.get(date + 1)) for date in range(min(dates), max(dates) + 1)]


def after(sorted_edges, time):
    return sorted_edges[bisect_right(sorted_edges, time)]


def last(sorted_edges, time):
    return sorted_edges[bisect_right(sorted_edges, time) - 1]


def windows(zone, change):
    """By name: the call, and the windows of an instant by definition."""
    first, end = change - 60 * HOUR, change + 60 * HOUR
    quarters, hours, midnights = edges(zone, 15, first, end), edges(zone, 60, first, end), days(zone, first, end)

    def one(of, time):
        return [(last(of, time), after(of, time))]

    def to_date(time):
        return [(last(midnights, time), at) for at in quarters if time < at <= after(midnights, time)]

    def tail(time):
        starts = {
            at: min(midnights[bisect_right(midnights, at) - 2], midnights[bisect_left(midnights, at) - 1])
            for at in quarters
            if at > midnights[1]
        }
        return [(start, at) for at, start in starts.items() if start <= time < at]

    return {
        "quarters": (tumbling("15 minutes", zone=zone), lambda time: one(quarters, time)),
        "hours": (tumbling("1 hour", zone=zone), lambda time: one(hours, time)),
        "day to date": (cumulating("1 day", step="15 minutes", zone=zone), to_date),
        "tails": (hopping("1 day", advance="15 minutes", tail="1 day", zone=zone), tail),
        "hours and quarters": (
            windows_of_call([], {"a": tumbling("15 minutes", zone=zone), "b": tumbling("1 hour", zone=zone)}, True),
            lambda time: one(quarters, time) + one(hours, time),
        ),
    }


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("zone", "change"), [(zone, change) for zone, found in CHANGES.items() for change in found])
def test_rows_are_those_of_the_clock(zone, change):
    at = micros(change)
    times = [at + shift * MINUTE - (shift % 3 == 0) for shift in range(-150, 150, 10)]
    for name, (window, of) in windows(zone, at).items():
        wanted = Counter(each for time in times for each in of(time))
        batches = [[time] for time in times] + [[at + 90 * 24 * HOUR], []]
        for replay in (bounded(window, times), stream(window, batches, 5 * MINUTE)):
            found = {(row.start, row.end): row.records for row in replay.rows if row.start <= at + 150 * MINUTE}
            assert found == wanted, (name, zone)


def test_a_day_of_25_hours_has_25_hours_and_100_quarters():
    first, end = micros("2021-11-07T05:00Z"), micros("2021-11-08T06:00Z")
    assert tumbling("1 day", zone="US/Central").windows_of(first) == [(first, end)]
    for size, count in (("1 hour", 25), ("15 minutes", 100), ("1 minute", 1500)):
        found = tumbling(size, zone="US/Central").between(first, end, most=2000)
        assert len(found) == count
        assert {length for start, stop in found for length in [stop - start]} == {25 * HOUR // count}
    assert len(tumbling("6 hours", zone="US/Central").between(first, end)) == 4


def test_wide_rows_have_a_row_per_quarter():
    zone, at = "US/Central", micros("2021-11-07T07:00Z")
    wide = windows_of_call(
        [], {"now": tumbling("15 minutes", zone=zone), "day": cumulating("1 day", "15 minutes", zone=zone)}, False
    )
    times = [at + shift * MINUTE for shift in range(-60, 90, 15)]
    ends = {row.end for row in bounded(wide, times).rows}
    assert {time + 15 * MINUTE for time in times} <= ends


def test_sessions_have_no_clock():
    at = micros("2021-11-07T07:00Z")
    times = [at + shift * MINUTE for shift in (-10, 0, 10)]
    assert [(row.start, row.end) for row in bounded(session("15 minutes"), times).rows] == [
        (times[0], times[-1] + 15 * MINUTE)
    ]
