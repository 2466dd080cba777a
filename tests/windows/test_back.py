"""Months and days back by a wall clock: against `datetime` and `zoneinfo`, pandas and Polars, one instant at a time."""

import random
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pandas as pd
import pytest
from test_zones import CHANGES, EPOCH, first_instant, micros

from slicing.errors import InvalidType, InvalidValue
from slicing.windows.time.back import Back, back_of
from slicing.windows.time.edges import AFTER, BEFORE
from slicing.windows.time.zones import Zone

UNITS = [("month", 1), ("month", 5), ("month", 12), ("day", 1), ("day", 30), ("week", 1)]
DAYS = {"day": 1, "week": 7}


def expected(zone, unit, count, time):
    """The instant at which the clock shows the same time so many units before."""
    wall = (EPOCH + timedelta(microseconds=time)).astimezone(zone).replace(tzinfo=None, fold=0)
    if unit in DAYS:
        wall -= timedelta(count * DAYS[unit])
    else:
        year, month = divmod(wall.year * 12 + wall.month - 1 - count, 12)
        wall = wall.replace(year=year, month=month + 1, day=min(wall.day, monthrange(year, month + 1)[1]))
    second = wall.replace(microsecond=0)
    found = first_instant(zone, second)
    is_shown = (EPOCH + timedelta(microseconds=found)).astimezone(zone).replace(tzinfo=None, fold=0) == second
    return found + wall.microsecond if is_shown else found


def instants(rng, name, count):
    """Around changes of the clock, those to which a month before or so leads too, and ends of months."""
    for _ in range(count):
        change = rng.choice(CHANGES.get(name, CHANGES["Europe/Berlin"])).replace(tzinfo=UTC)
        near = change + timedelta(microseconds=rng.choice([-1, 0, 1, rng.randrange(-2 * 10**10, 2 * 10**10)]))
        end = datetime(rng.randrange(1925, 2200), rng.randrange(1, 13), 1, tzinfo=UTC) + timedelta(rng.randrange(-4, 3))
        end += timedelta(microseconds=rng.randrange(86_400 * 10**6))
        yield micros(rng.choice([end, near, near + timedelta(rng.choice([1, 7, 28, 30, 31, 92, 365, 366]))]))


@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize("name", CHANGES)
def test_the_clock_shows_the_same_time_so_many_units_before(name, unit):
    rng, back = random.Random(f"{name} {unit}"), Back(*unit, Zone.of(name))
    times = list(instants(rng, name, 60))
    found = back.before(np.array(times))
    assert found.tolist() == [expected(ZoneInfo(name), *unit, time) for time in times]
    assert back.before(times[0]) == found[0]
    assert all(0 <= time - each <= back.longest for time, each in zip(times, found.tolist(), strict=True))


@pytest.mark.slow
def test_all_zones():
    for name in sorted(available_timezones()):
        rng = random.Random(name)
        unit = rng.choice(UNITS)
        times = list(instants(rng, name, 10))
        found = Back(*unit, Zone.of(name)).before(np.array(times)).tolist()
        assert found == [expected(ZoneInfo(name), *unit, time) for time in times], (name, unit)


@pytest.mark.parametrize("months", [1, 3, 12])
def test_months_are_those_of_pandas(months):
    times = pd.date_range("1999-12-25", "2004-04-05", freq="7h13min")
    found = Back("month", months, Zone.of("UTC")).before(times.as_unit("us").asi8)
    wanted = times - pd.DateOffset(months=months)
    assert found.tolist() == wanted.as_unit("us").asi8.tolist()


def test_instants_are_those_of_polars():
    polars = pytest.importorskip("polars")
    times = pd.date_range("2025-01-01", "2026-12-31", freq="5h17min", tz="UTC").as_unit("us").asi8
    column = polars.Series(times).cast(polars.Datetime("us", "UTC")).dt.convert_time_zone("Europe/Berlin")
    # Polars refuses wall times that the clock skips or shows twice.
    shown = column.dt.replace_time_zone(None)
    is_plain = ~(shown.dt.month().is_in([4, 11]) & (shown.dt.hour() < 4))
    for text, months in (("-1mo", 1), ("-1q", 3), ("-1y", 12)):
        chosen = column.filter(is_plain & ~(shown.dt.month().is_in([3, 10, 6, 1]) & (shown.dt.hour() < 4)))
        wanted = chosen.dt.offset_by(text).dt.timestamp("us").to_list()
        found = Back("month", months, Zone.of("Europe/Berlin")).before(chosen.dt.timestamp("us").to_numpy())
        assert found.tolist() == wanted


def test_the_ends_of_time():
    for unit in UNITS:
        found = Back(*unit, Zone.of("Europe/Berlin")).before(np.array([BEFORE, BEFORE + 1, AFTER - 1, AFTER]))
        assert np.all(found[:-1] <= found[1:])
        assert found[0] < -(1 << 62) < 1 << 62 < found[-1]
    assert Back("day", 1, Zone.of("UTC")).before(np.array([], dtype=np.int64)).tolist() == []


def test_lengths_in_a_zone():
    assert back_of("10 minutes", "length", "UTC") is None
    assert back_of(timedelta(7), "length", "UTC") == Back("day", 7, Zone.of("UTC"))
    assert str(back_of("2 quarters", "length", "UTC")) == "6 months"
    for error, rule, length in [
        (InvalidValue, "shorter than 10,000 years; got '20000 years'", "20000 years"),
        (InvalidValue, "`length` must be positive", "-1 month"),
        (InvalidValue, "has one unit, and a whole number", "1 month 1 day"),
        (InvalidType, "a duration needs a unit", 3),
    ]:
        with pytest.raises(error, match=rule):
            back_of(length, "length", "UTC")


@pytest.mark.parametrize("length", ["10 minutes", "1 month"])
def test_a_zone_that_is_none_is_refused_with_every_length(length):
    for zone, error, rule in [("Nowhere", InvalidValue, "no time zone 'Nowhere' here"), (5, InvalidType, "got 5")]:
        with pytest.raises(error, match=rule):
            back_of(length, "length", zone)
