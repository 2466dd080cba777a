"""Windows with a tail around changes of the clock, against their definition by `zoneinfo`, one instant at a time."""

import random
from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from test_zones import HOUR, MINUTE, first_instant, micros

from slicing import hopping
from slicing.stages.local_runner import bounded, stream

CHANGES = {
    "Europe/Berlin": ["2026-03-29T01:00Z", "2026-10-25T01:00Z"],
    "America/Havana": ["2024-03-10T05:00Z", "2024-11-03T05:00Z"],  # at midnight
    "America/Sao_Paulo": ["2018-11-04T03:00Z", "2019-02-17T02:00Z"],  # at midnight
    "Pacific/Apia": ["2011-12-30T10:00Z", "2011-04-02T14:00Z"],  # a day left out
    "Australia/Lord_Howe": ["2025-10-04T15:30Z", "2026-04-04T15:00Z"],  # by half an hour
}
LENGTHS = [(1, 60, 30), (1, 60, 60), (1, 30, 10), (1, 20, 20), (1, 120, 15), (1, 720, 60)]
LENGTHS += [(1, 1440, 60), (1, 1440, 1440), (2, 1440, 360), (3, 1440, 1440), (1, 2880, 720)]
"""The tails of a size, and the minutes of a tail and of an advance."""


@cache
def edge(zone, minutes):
    """The first instant at which a clock shows so many minutes since its own 1970, or more."""
    return first_instant(ZoneInfo(zone), datetime(1970, 1, 1) + timedelta(minutes=minutes))


@cache
def again(zone, minutes):
    """The later instant at which a clock shows so many minutes, None if it does so once."""
    wall = (datetime(1970, 1, 1) + timedelta(minutes=minutes)).replace(fold=1, tzinfo=ZoneInfo(zone))
    found = wall.astimezone(UTC)
    is_shown = found.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0) == wall.replace(tzinfo=None, fold=0)
    return micros(found) if is_shown and micros(found) > edge(zone, minutes) else None


def edges(zone, length, first, end):
    """The edges of a range of minutes, in order; both instants of a repeated hour if their length divides an hour."""
    found = [edge(zone, minutes) for minutes in range(first, end, length)]
    if 60 % length == 0:
        found += [at for minutes in range(first, end, length) if (at := again(zone, minutes)) is not None]
        return sorted(set(found))
    return found


def expected(zone, whole, tail, advance, time):
    """All windows that hold an instant: each end that may be meant is tried."""
    near, reach = time // MINUTE, (whole + 3) * tail + 2 * 1440
    tails = edges(zone, tail, (near - reach) // tail * tail, near + reach)
    ends = set(edges(zone, advance, (near - 1440) // advance * advance, near + reach))
    found = []
    for end in sorted(ends):
        if time < end <= tails[-1]:
            start = min(tails[bisect_right(tails, end) - 1 - whole], tails[bisect_left(tails, end) - 1])
            found += [(start, end)] if start <= time else []
    return found


def window_of(zone, whole, tail, advance):
    tail, days = f"{tail} minutes" if tail < 1440 else f"{tail // 1440} days", whole * tail // 1440
    size = tail if whole == 1 else f"{days} days"
    return hopping(size, f"{advance} minutes" if advance < 1440 else f"{advance // 1440} days", tail=tail, zone=zone)


def instants(rng, zone, length):
    """Instants around the changes of a clock: more of them near by, and some a microsecond from a multiple."""
    for change in CHANGES[zone]:
        at = micros(datetime.fromisoformat(change))
        yield from (at + shift for shift in (-1, 0, 1))
        for reach in (2 * HOUR, 2 * HOUR, 30 * HOUR, 2 * length * MINUTE):
            time = at + rng.randint(-reach, reach)
            yield from (time, time // (10 * MINUTE) * 10 * MINUTE + rng.choice([-1, 0]))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: "-".join(map(str, lengths)))
@pytest.mark.parametrize("zone", CHANGES)
def test_windows_are_those_of_the_definition(zone, lengths):
    rng, window = random.Random(f"{zone} {lengths}"), window_of(zone, *lengths)
    for time in instants(rng, zone, lengths[0] * lengths[1]):
        found = window.windows_of(time)
        assert found == expected(zone, *lengths, time), time
        assert found, "each instant is in a window"


@pytest.mark.parametrize(("zone", "lengths"), [("Europe/Berlin", (1, 60, 30)), ("Pacific/Apia", (1, 1440, 60))])
def test_records_before_a_gap_are_in_rows(zone, lengths):
    time, window = micros(datetime.fromisoformat(CHANGES[zone][0])) - MINUTE, window_of(zone, *lengths)
    wanted = [(start, end, 1) for start, end in expected(zone, *lengths, time)]
    for replay in (bounded(window, [time]), stream(window, [[time], [time + 4000 * HOUR], []], 0)):
        assert [(row.start, row.end, row.records) for row in replay.rows if row.start <= time] == wanted
        assert replay.batches[0].outcomes == ("taken",)


@pytest.mark.parametrize("zone", CHANGES)
def test_no_window_is_empty(zone):
    for lengths in LENGTHS:
        family, at = window_of(zone, *lengths).family, micros(datetime.fromisoformat(CHANGES[zone][0]))
        windows = np.arange(family.first_open(at - 48 * HOUR), family.first_open(at + 48 * HOUR))
        assert np.all(family.window_start(windows) < family.window_end(windows))
        assert np.all(family.first_slice(windows) < family.end_slice(windows))


def test_a_window_of_a_tail_that_was_left_out_begins_a_tail_earlier():
    #   Berlin, 2026-03-29: the hour from 2 to 3 is left out, at 01:00 UTC
    window, at = hopping("1 hour", "30 minutes", tail="1 hour", zone="Europe/Berlin"), datetime.fromisoformat
    begin, change = micros(at("2026-03-29T00:00Z")), micros(at("2026-03-29T01:00Z"))
    assert window.windows_of(begin + 45 * MINUTE) == [(begin, change), (begin, change + 30 * MINUTE)]
    #   Apia: 2011-12-30 is left out; two days before the 31st began the 29th, a day before it ended the 29th
    first, change = micros(at("2011-12-29T10:00Z")), micros(at("2011-12-30T10:00Z"))
    for days in (1, 2):
        window = hopping(f"{days} days", "1 day", tail="1 day", zone="Pacific/Apia")
        assert window.windows_of(change - 1)[0] == (first, change)
