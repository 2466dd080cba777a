"""Edges on wall clocks against `zoneinfo` and `datetime`, asked one wall time at a time."""

import json
import pickle
import random
from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pandas as pd
import pytest

from slicing.errors import InvalidType, InvalidValue, StateMismatch
from slicing.windows.specs import from_spec
from slicing.windows.time.edges import AFTER, BEFORE, YEAR_9999
from slicing.windows.time.local import Local
from slicing.windows.time.zones import Zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = 60 * 10**6
HOUR = 60 * MINUTE
DAY = 24 * HOUR
UNITS = [("minute", 15), ("hour", 1), ("hour", 6), ("day", 1), ("day", 3), ("week", 1), ("month", 1), ("quarter", 1)]
CHANGES = {
    "Europe/Berlin": [datetime(2025, 3, 30, 1), datetime(2025, 10, 26, 1)],
    "America/New_York": [datetime(2025, 3, 9, 7), datetime(2025, 11, 2, 6)],
    "America/Santiago": [datetime(2025, 4, 6, 3), datetime(2025, 9, 7, 4)],
    "Australia/Lord_Howe": [datetime(2025, 4, 5, 15), datetime(2025, 10, 4, 15, 30)],
    "Pacific/Apia": [datetime(2011, 12, 30, 10)],  # 2011-12-30 was left out
    "Pacific/Kwajalein": [datetime(1993, 8, 21, 12), datetime(1969, 9, 30, 13)],  # a day left out; 23 hours back
    "America/Juneau": [datetime(1867, 10, 19, 0, 31, 13)],  # a day twice
    "Asia/Manila": [datetime(1844, 12, 31, 15, 56, 8)],  # the last day of a year left out
    "America/St_Johns": [datetime(2006, 10, 29, 2, 31), datetime(2006, 4, 2, 3, 31)],  # at 00:01, back over midnight
    "Africa/Casablanca": [datetime(2026, 2, 15, 2), datetime(2026, 3, 22, 2)],
    "UTC": [datetime(2025, 3, 30, 1)],
}


def micros(instant):
    return (instant - EPOCH) // timedelta(microseconds=1)


def wall_of(unit, count, number):
    """The wall time of an edge: dates by `datetime`, from 1970-01-01, weeks from Monday 1970-01-05."""
    months = {"month": 1, "quarter": 3, "year": 12}.get(unit)
    if months:
        year, month = divmod(number * count * months, 12)
        return datetime(1970 + year, month + 1, 1)
    length = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(1), "week": timedelta(7)}[
        unit
    ]
    return datetime(1970, 1, 5 if unit == "week" else 1) + number * count * length


def first_instant(zone, wall):
    """The first instant at which a clock shows a wall time, or, in a gap, the instant of the jump."""
    early = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if early.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return micros(early)
    # In a gap fold=1 reads the time by the offset after the jump, which gives an instant before it.
    low, high = wall.replace(tzinfo=zone, fold=1).astimezone(UTC), early
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        low, high = (middle, high) if middle.astimezone(zone).utcoffset() == before else (low, middle)
    return micros(high)


@cache
def expected_edge(name, unit, count, number):
    return first_instant(ZoneInfo(name), wall_of(unit, count, number))


def expected_count(name, unit, count, time):
    """The greatest number with an edge at or before an instant, looked for around the local date."""
    local = (EPOCH + timedelta(microseconds=time)).astimezone(ZoneInfo(name)).replace(tzinfo=None)
    mean = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "month": 2_629_746, "quarter": 7_889_238}
    mean["year"] = 31_556_952
    guess = int((local - wall_of(unit, count, 0)).total_seconds() // (count * mean[unit]))
    reach = 27 * 3600 // (count * mean[unit]) + 3
    numbers = range(guess - reach, guess + reach + 1)
    edges = [expected_edge(name, unit, count, number) for number in numbers]
    assert edges == sorted(edges)
    at = bisect_right(edges, time) - 1
    assert 0 <= at < len(edges) - 1
    return numbers[at]


def repeats(unit, count):
    """Whether a unit divides an hour: both instants of a repeated hour are edges then."""
    return unit in ("minute", "hour") and 60 % (count * {"minute": 1, "hour": 60}[unit]) == 0


@cache
def edges_of(name, unit, count, number):
    """The instants of an edge: one, or both at which a clock shows it."""
    zone, wall = ZoneInfo(name), wall_of(unit, count, number)
    first, again = first_instant(zone, wall), wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    shown = again.astimezone(zone).replace(tzinfo=None, fold=0) == wall
    return (first, micros(again)) if repeats(unit, count) and shown and micros(again) > first else (first,)


def edges_around(name, unit, count, low, high):
    """All edges from before `low` until after `high`; edges that a clock skips only of units that do not repeat."""
    reach = 27 * HOUR
    first, last = (expected_count(name, unit, count, time) for time in (low - reach, high + reach))
    found = [edge for number in range(first - 1, last + 3) for edge in edges_of(name, unit, count, number)]
    return sorted(set(found) if repeats(unit, count) else found)


@pytest.mark.parametrize("name", CHANGES)
def test_minute_by_minute_over_changes_of_the_clock(name):
    zone = Zone.of(name)
    for change in CHANGES[name]:
        at = micros(change.replace(tzinfo=UTC))
        times = np.arange(at - 26 * HOUR, at + 26 * HOUR, MINUTE)
        times = np.unique(np.concatenate([times, times - 1, [at - 1, at, at + 1]]))
        for unit, count in UNITS:
            edges, expected = Local(unit, count, zone), edges_around(name, unit, count, int(times[0]), int(times[-1]))
            places = [bisect_right(expected, time) - 1 for time in times.tolist()]
            low, high = places[0], places[-1] + 1
            begin = edges.count(int(times[0])) - low
            assert edges.edge(np.arange(low, high + 1) + begin).tolist() == expected[low : high + 1], (name, unit)
            assert edges.count(times).tolist() == [begin + place for place in places], (name, unit)
            assert repeats(unit, count) or begin + low == expected_count(name, unit, count, int(times[0]))


def check_instants(name, unit, count, times):
    """Compare the edges before and after instants."""
    edges = Local(unit, count, Zone.of(name))
    numbers = edges.count(np.array(times))
    for time, number, *found in zip(
        times, numbers.tolist(), edges.edge(numbers).tolist(), edges.edge(numbers + 1).tolist(), strict=True
    ):
        expected = edges_around(name, unit, count, time, time)
        at = bisect_right(expected, time)
        assert found == expected[at - 1 : at + 1], (name, unit, count, time)
        assert repeats(unit, count) or number == expected_count(name, unit, count, time)
    assert [edges.count(time) for time in times[:5]] == numbers.tolist()[:5]
    assert [edges.edge(number) for number in numbers.tolist()[:5]] == edges.edge(numbers).tolist()[:5]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(30))
def test_random_instants_in_random_zones(seed):
    rng = random.Random(seed)
    name = rng.choice(sorted(available_timezones()))
    unit, count = rng.choice([*UNITS, ("year", 1), ("month", 5), ("week", 2), ("minute", 90), ("minute", 20)])
    first, last = (micros(datetime(year, 1, 1, tzinfo=UTC)) for year in (1900, 2200))
    times = [rng.randrange(first, last) for _ in range(40)]
    # Instants about the changes of the clock, where it matters.
    changes = [0, *Zone.of(name).transitions]
    times += [1_000_000 * rng.choice(changes) + rng.randint(-2 * HOUR, 2 * HOUR) for _ in range(40)]
    check_instants(name, unit, count, times)


@pytest.mark.parametrize("name", ["Europe/Berlin", "Australia/Lord_Howe", "America/Nuuk", "Asia/Gaza", "Pacific/Apia"])
def test_the_rule_of_the_zone_holds_to_the_year_9999(name):
    rng = random.Random(9)
    years = [2038, 2100, 2101, 2499, 2500, 2501, 2899, 2900, 3300, 9998]
    years += [rng.randrange(2100, 9998) for _ in range(20)]
    times = [micros(datetime(year, 1, 1, tzinfo=UTC)) + rng.randrange(365) * DAY for year in years]
    times += [micros(datetime(year, 1, 1, tzinfo=UTC)) + rng.randint(-DAY, DAY) for year in years]
    for unit, count in (("hour", 1), ("minute", 15), ("day", 1), ("month", 1)):
        check_instants(name, unit, count, times)


@pytest.mark.parametrize(
    ("name", "change", "minutes", "wanted"),
    [
        ("US/Central", "2021-11-07T07:00Z", 15, [15] * 16),
        ("US/Central", "2021-11-07T07:00Z", 60, [60] * 4),
        ("US/Central", "1883-11-18T18:00Z", 60, [60, 9.4, 60]),  # from 12:09:24 to 12:00
        ("Australia/Lord_Howe", "2026-04-04T15:00Z", 30, [30] * 8),  # from 02:00 to 01:30
        ("Australia/Lord_Howe", "2026-04-04T15:00Z", 60, [60, 90, 60]),  # 02:00 is shown once
        ("Australia/Lord_Howe", "2026-04-04T15:00Z", 20, [20] * 5 + [30] + [20] * 4),
        ("America/Sao_Paulo", "2019-02-17T02:00Z", 60, [60] * 4),  # from midnight to 23:00
        ("Cuba", "2024-11-03T05:00Z", 15, [15] * 16),  # from 01:00 to midnight
        ("Asia/Kathmandu", "1985-12-31T18:30Z", 60, [60, 60, 45, 60]),  # from 00:00 to 00:15
        ("Pacific/Apia", "2011-12-30T10:00Z", 60, [60] * 4),  # a day left out
        ("Europe/Berlin", "2026-10-25T01:00Z", 40, [40, 40, 40, 100, 40]),  # no part of an hour: midnight + 40 minutes
    ],
)
def test_lengths_between_edges_about_a_change(name, change, minutes, wanted):
    edges, at = Local("minute", minutes, Zone.of(name)), micros(datetime.fromisoformat(change))
    first = edges.count(at - (1 + len(wanted) // 2) * minutes * MINUTE)
    lengths = np.diff(edges.edge(np.arange(first, first + 40)))
    lengths = (lengths[lengths > 0] / MINUTE).tolist()
    assert any(lengths[begin : begin + len(wanted)] == wanted for begin in range(4)), lengths[:20]


@pytest.mark.parametrize(("unit", "count"), [("hour", 1), ("minute", 15), ("second", 1)])
def test_numbers_are_those_of_the_wall_time_until_the_next_change(unit, count):
    """State of earlier versions has these numbers. A zone without rules to come keeps them."""
    for name, first, end in (
        ("Europe/Berlin", "2026-10-25T01:00Z", "2027-03-28T01:00Z"),
        ("Australia/Sydney", "2026-10-03T16:00Z", "2027-04-03T16:00Z"),
        ("Asia/Kolkata", "1945-10-14T17:30Z", "2500-01-01T00:00Z"),
    ):
        now, before = (Local(unit, count, Zone.of(name), repeats=each) for each in (True, False))
        low, high = (micros(datetime.fromisoformat(each)) for each in (first, end))
        times = np.linspace(low + HOUR, high - 1, 999).astype(np.int64)
        assert now.count(times).tolist() == before.count(times).tolist()
        if name != "Asia/Kolkata":
            assert now.count(low - HOUR) != before.count(low - HOUR)
            assert now.count(high + HOUR) != before.count(high + HOUR)


def test_numbers_do_not_depend_on_the_summer_times_of_a_zone():
    """So time zone data may change as long as the offset of the stored slices and of the anchor does not."""
    whole = Zone.of("Europe/Berlin")
    some = [i for i in range(len(whole.transitions)) if i % 8 in (0, 1, 2, 5)]
    offsets = [whole.offsets[0], *(3600 if number % 2 else 7200 for number in range(len(some)))]
    other = Zone("Europe/Berlin", tuple(whole.transitions[i] for i in some), tuple(offsets))
    at = np.array([micros(datetime(year, 1, 10, tzinfo=UTC)) for year in range(1990, 2090)])
    for minutes in (15, 60):
        found = [Local("minute", minutes, zone).count(at) for zone in (whole, other)]
        assert (found[0] - found[1]).tolist() == [int(found[0][0] - found[1][0])] * len(at)


@pytest.mark.parametrize("name", ["Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca"])
def test_four_hundred_years_have_the_same_numbers_everywhere(name):
    """Numbers after year 2500 are those of the 400 years before, and so many more."""
    begin = micros(datetime(2100, 1, 1, tzinfo=UTC))
    cycle = 146_097 * DAY
    for minutes in (1, 10, 12, 15, 20, 30, 60):
        edges = Local("minute", minutes, Zone.of(name))
        assert edges.count(begin + cycle) - edges.count(begin) == cycle // (minutes * MINUTE)


@pytest.mark.parametrize(
    ("name", "unit"),
    [(name, unit) for name in ("US/Central", "Europe/Dublin", "America/Havana") for unit in ("h", "15min")]
    + [("Australia/Lord_Howe", "15min")],  # pandas has no hours of half-hour changes
)
def test_windows_are_the_groups_of_pandas(name, unit):
    """`floor` of pandas, asked for both instants of a repeated hour."""
    rng = random.Random(f"{name} {unit}")
    changes = [each for each in Zone.of(name).transitions if 10**9 < each < 1 << 31]
    times = np.array([rng.choice(changes) * 10**6 + rng.randint(-3 * HOUR, 3 * HOUR) for _ in range(300)])
    local = pd.to_datetime(times, unit="us", utc=True).tz_convert(name)
    again = np.array([bool(each.fold) for each in local])
    floors = local.floor(unit, ambiguous=~again, nonexistent="shift_forward").asi8
    edges = Local("minute", 60 if unit == "h" else 15, Zone.of(name))
    found = edges.edge(edges.count(times))
    if (
        name == "Australia/Lord_Howe" and unit == "h"
    ):  # the second 01:30 belongs to the first 01:00, which pandas misses
        found, floors = found[~again], floors[~again]
    assert found.tolist() == pd.DatetimeIndex(floors).as_unit("us").asi8.tolist()


SHIFTED = [
    ("day", 1, 6 * HOUR, 0),
    ("day", 1, 150 * MINUTE, 0),  # in a gap and in a fold
    ("day", 3, 2 * DAY + HOUR, 0),
    ("week", 1, 6 * DAY, 0),  # from Sunday
    ("hour", 6, 2 * HOUR, 0),
    ("month", 1, 3 * DAY, 0),
    ("quarter", 1, 0, 1),
    ("year", 1, 30 * MINUTE, 3),
]


@pytest.mark.parametrize(("unit", "count", "offset", "months"), SHIFTED)
@pytest.mark.parametrize("name", CHANGES)
def test_shifted_edges_are_those_of_zoneinfo(name, unit, count, offset, months):
    edges, zone = Local(unit, count, Zone.of(name), offset=offset, months=months), ZoneInfo(name)
    at = [micros(change.replace(tzinfo=UTC)) for change in CHANGES[name]]
    times = [time + step * HOUR + extra for time in at for step in range(-30, 31, 3) for extra in (-1, 0, 1)]
    numbers = edges.count(np.array(times))
    assert (np.diff(edges.edge(np.arange(numbers.min() - 2, numbers.max() + 3))) >= 0).all()
    for time, number in zip(times, numbers.tolist(), strict=True):
        for each in (number, number + 1):
            if months:
                own = {"month": 1, "quarter": 3, "year": 12}[unit] * count
                year, month = divmod(each * own + months, 12)
                wall = datetime(1970 + year, month + 1, 1)
            else:
                wall = wall_of(unit, count, each)
            assert edges.edge(each) == first_instant(zone, wall + timedelta(microseconds=offset))
        assert edges.edge(number) <= time < edges.edge(number + 1)
    assert from_spec(json.loads(json.dumps(edges.spec()))) == edges


def test_offsets_are_those_of_zoneinfo():
    # A clock that only goes forward has shown what it shows; so past a change by a day `reached` is the wall time.
    rng = random.Random(4)
    for name in rng.sample(sorted(available_timezones()), 5):
        zone, info = Zone.of(name), ZoneInfo(name)
        changes = np.array([*zone.transitions, 1 << 40]) * 10**6
        for _ in range(200):
            time = rng.randrange(micros(datetime(1, 1, 3, tzinfo=UTC)), micros(datetime(2500, 1, 1, tzinfo=UTC)))
            if np.any((changes <= time) & (time < changes + 25 * HOUR)):
                continue
            offset = (EPOCH + timedelta(microseconds=time)).astimezone(info).utcoffset()
            assert zone.clock.reached(time) - time == offset // timedelta(microseconds=1), (name, time)


# --- by hand --------------------------------------------------------------------------------------------------------


def at(year, month, day, hour=0, minute=0):
    return micros(datetime(year, month, day, hour, minute, tzinfo=UTC))


def test_a_day_that_a_zone_left_out_is_an_empty_slice_with_a_number():
    #   Apia went from 2011-12-29 24:00 straight to 2011-12-31 00:00, at 10:00 UTC of the 30th
    days = Local("day", 1, Zone.of("Pacific/Apia"))
    left_out = (date(2011, 12, 30) - date(1970, 1, 1)).days
    instants = [days.edge(left_out + i) for i in (-1, 0, 1, 2)]
    assert instants == [at(2011, 12, 29, 10), at(2011, 12, 30, 10), at(2011, 12, 30, 10), at(2011, 12, 31, 10)]
    assert days.count(at(2011, 12, 30, 10) - 1) == left_out - 1
    assert days.count(at(2011, 12, 30, 10)) == left_out + 1


def test_a_clock_that_goes_back_over_midnight_does_not_begin_the_day_twice():
    #   St John's at 00:01 of 2006-10-29 went back to 23:01 of the 28th; the 29th began at 02:30 UTC
    days = Local("day", 1, Zone.of("America/St_Johns"))
    number = (date(2006, 10, 29) - date(1970, 1, 1)).days
    assert days.edge(number) == at(2006, 10, 29, 2, 30)
    assert [days.count(at(2006, 10, 29, 2, minute)) for minute in (29, 30, 31, 59)] == [number - 1] + 3 * [number]
    assert days.count(at(2006, 10, 29, 3, 30)) == number


def test_an_edge_in_a_gap_is_the_first_instant_after_it_and_in_a_fold_the_earlier():
    hours = Local("hour", 1, Zone.of("Europe/Berlin"))
    spring = hours.count(at(2025, 3, 29, 23))
    autumn = 24 * (date(2025, 10, 26) - date(1970, 1, 1)).days
    assert [hours.edge(spring + i) for i in (1, 2, 3)] == [at(2025, 3, 30, hour) for hour in (0, 1, 2)]
    pairs, midnight = Local("hour", 2, Zone.of("Europe/Berlin")), 12 * (date(2025, 3, 30) - date(1970, 1, 1)).days
    instants = [at(2025, 3, 29, 23), at(2025, 3, 30, 1), at(2025, 3, 30, 2)]
    assert [pairs.edge(midnight + i) for i in (0, 1, 2)] == instants, "2 is left out"
    sixths = Local("hour", 6, Zone.of("Europe/Berlin"))
    instants = [at(2025, 10, 25, 22), at(2025, 10, 26, 5), at(2025, 10, 26, 11)]
    assert [sixths.edge(autumn // 6 + i) for i in (0, 1, 2)] == instants, "the hour from 2 to 3 comes twice"
    instants = [at(2025, 10, 25, 22), at(2025, 10, 26, 0), at(2025, 10, 26, 3)]
    assert [pairs.edge(autumn // 2 + i) for i in (0, 1, 2)] == instants, "2 comes twice, and the earlier is the edge"
    begin = hours.count(at(2025, 10, 25, 22))
    assert [hours.edge(begin + i) for i in range(6)] == [at(2025, 10, 25, 22) + i * HOUR for i in range(6)]


def test_the_microseconds_about_a_change():
    clock = Local("microsecond", 1, Zone.of("Europe/Berlin"))
    spring, autumn = at(2025, 3, 30, 1), at(2025, 10, 26, 1)
    for time in (spring - 2, spring - 1, spring, spring + 1, autumn - 2, autumn, autumn + 7, autumn + HOUR + 1):
        assert clock.edge(clock.count(time)) == time
    assert clock.count(spring) - clock.count(spring - 1) == 1
    assert clock.count(autumn + HOUR) - clock.count(autumn) == HOUR, "each microsecond of both hours is an edge"


def test_clocks_that_change_again_before_they_have_caught_up():
    # No zone does so: a clock that goes back by more than it runs until its next change.
    rng = random.Random(5)
    for _ in range(20):
        transitions = np.cumsum([rng.randint(1, 5) for _ in range(30)]).tolist()
        offsets = [rng.randint(-20, 20) for _ in range(31)]
        zone = Zone("X", tuple(transitions), tuple(offsets))
        changes = np.array(transitions) * 10**6
        times = np.unique(np.concatenate([np.arange(-30 * 10**6, 150 * 10**6, 10**6 // 4), changes - 1]))
        shown = times + np.array(offsets)[np.searchsorted(changes, times, "right")] * 10**6
        assert zone.clock.reached(times).tolist() == np.maximum.accumulate(shown).tolist()
        walls = np.arange(-10 * 10**6, 100 * 10**6, 10**6 // 3)
        first = zone.clock.first(walls)
        assert np.all(zone.clock.reached(first) >= walls)
        assert np.all(zone.clock.reached(first - 1) < walls)


def test_weeks_begin_on_mondays_and_seven_days_on_thursdays():
    utc = Zone.of("UTC")
    weeks, sevens = Local("week", 1, utc), Local("day", 7, utc)
    assert (weeks.edge(0), sevens.edge(0)) == (at(1970, 1, 5), 0)
    assert weeks.count(at(1970, 1, 4)) == -1
    assert {(datetime.fromtimestamp(weeks.edge(i) // 10**6, UTC)).weekday() for i in range(-500, 500)} == {0}
    assert weeks != sevens


def test_equal_edges_are_equal_values():
    zone = Zone.of("Europe/Berlin")
    for a, b in [(("minute", 60), ("hour", 1)), (("hour", 24), ("day", 1)), (("month", 3), ("quarter", 1))]:
        assert Local(*a, zone) == Local(*b, zone)
        assert Local(*a, zone).spec() == Local(*b, zone).spec()
    assert Local("year", 1, zone) == Local("quarter", 4, zone) == Local("month", 12, zone)
    assert Local("day", 1, zone) != Local("day", 1, Zone.of("Europe/Paris"))


def test_which_edges_are_edges_of_others():
    zone = Zone.of("Europe/Berlin")
    ladder = [Local(unit, 1, zone) for unit in ("minute", "hour", "day", "month", "quarter", "year")]
    for fine, edges in enumerate(ladder):
        assert [edges.refines(other) for other in ladder] == [fine <= coarse for coarse in range(len(ladder))]
    week, sevens = Local("week", 1, zone), Local("day", 7, zone)
    assert Local("day", 1, zone).refines(week)
    assert not Local("day", 2, zone).refines(Local("month", 1, zone))
    assert not week.refines(Local("month", 1, zone))
    assert not week.refines(sevens)
    assert not sevens.refines(Local("week", 2, zone))
    assert week.refines(Local("week", 2, zone))
    assert not Local("day", 1, Zone.of("UTC")).refines(Local("day", 1, zone))


@pytest.mark.parametrize("unit", ["microsecond", "hour", "day", "week", "month", "year"])
def test_the_ends_of_int64(unit):
    edges = Local(unit, 1, Zone.of("America/St_Johns"))
    day = 24 * HOUR
    times = [BEFORE, BEFORE + 1, BEFORE + day, BEFORE + 3 * day, BEFORE + 5 * day, -(1 << 62), 1 << 62]
    times += [YEAR_9999, AFTER - 5 * day, AFTER - 3 * day, AFTER - day, AFTER - 1, AFTER, 1 << 70, -(1 << 70)]
    counts = [edges.count(time) for time in times]
    for time, number in zip(times, counts, strict=True):
        time = min(max(time, BEFORE), AFTER)
        assert edges.edge(number) <= time
        assert time < edges.edge(number + 1) or time == AFTER
    inside = [min(max(time, BEFORE), AFTER) for time in times]
    assert edges.count(np.array(inside)).tolist() == counts
    numbers = np.array([BEFORE, -(1 << 62), *counts, 1 << 62, AFTER])
    assert edges.edge(numbers).tolist() == [edges.edge(number) for number in numbers.tolist()]
    assert edges.edge(BEFORE) == BEFORE or unit == "microsecond"
    assert np.all(np.diff(edges.edge(np.sort(numbers)).astype(object)) >= 0)


# --- the value ------------------------------------------------------------------------------------------------------


def test_a_zone_travels_and_is_made_again_from_its_spec():
    zone = Zone.of("Europe/Berlin")
    used = Local("day", 1, zone)
    used.count(np.array([0, at(2025, 7, 1)]))  # tables that are made on first use do not travel
    assert pickle.loads(pickle.dumps(used)) == used
    assert len(pickle.dumps(used)) < 20_000
    assert from_spec(json.loads(json.dumps(zone.spec()))) == zone
    assert from_spec(json.loads(json.dumps(used.spec()))) == used
    assert hash(from_spec(used.spec())) == hash(used)
    assert zone.digest == Zone.of("Europe/Berlin").digest != Zone.of("Europe/London").digest


def test_the_digest_is_of_the_table_alone():
    assert Zone("X", (0,), (0, 3600)).digest == Zone("Y", (0,), (0, 3600)).digest == "e0b59b21340ff559"


def test_workers_use_the_table_they_are_sent():
    # As if the time zone data here were of another version.
    sent = Zone("Europe/Berlin", (0,), (3600, 7200))
    edges = Local("day", 1, sent)
    assert edges.edge(1) == DAY - 2 * HOUR
    with pytest.raises(StateMismatch, match="time zone data of 'Europe/Berlin'"):
        from_spec(edges.spec())
    assert from_spec(edges.spec(), zones=[Zone.of("UTC"), sent]) == edges
    unknown = Local("day", 1, Zone("Mars/Base", (0,), (3600, 7200)))
    assert from_spec(unknown.spec(), zones=[unknown.zone]) == unknown


def test_before_the_first_transition_the_first_offset_holds():
    zone = Zone.of("Europe/Berlin")
    assert zone.offsets[0] == 53 * 60 + 28, "local mean time"
    assert Local("day", 1, zone).edge(-700_000) == -700_000 * DAY - zone.offsets[0] * 10**6


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Zone.of("Europe/Nowhere"), InvalidValue, "no time zone 'Europe/Nowhere'"),
        (lambda: Zone.of("Europe"), InvalidValue, "no time zone 'Europe'"),
        (lambda: Zone.of("../etc/passwd"), InvalidValue, "no time zone"),
        (lambda: Zone.of(""), InvalidValue, "no time zone"),
        (lambda: Zone.of(3600), InvalidType, "name of a time zone"),
        (lambda: Zone("X", (1, 1), (0, 1, 2)), InvalidValue, "transitions ascend"),
        (lambda: Zone("X", (1,), (0,)), InvalidValue, "one offset more"),
        (lambda: Zone("X", (), (86_400,)), InvalidValue, "below a day"),
        (lambda: Local("hour", 5, Zone.of("UTC")), InvalidValue, "must divide the day; got 5 hours"),
        (lambda: Local("hour", 48, Zone.of("UTC")), InvalidValue, "must divide the day; got 48 hours"),
        (lambda: Local("fortnight", 1, Zone.of("UTC")), InvalidValue, "`unit` must be one of"),
        (lambda: Local("day", 0, Zone.of("UTC")), InvalidValue, "`count` of units must be a positive integer"),
        (lambda: Local("week", 1 << 40, Zone.of("UTC")), InvalidValue, "100,000 years at most"),
        (lambda: Local("day", 1.0, Zone.of("UTC")), InvalidValue, "`count` of units must be a positive integer"),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
