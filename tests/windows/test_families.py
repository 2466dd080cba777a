"""Families against their definition by brute force, the even one by edges too, and Flink's own cases."""

import json
import pickle
import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from slicing.errors import InvalidType, InvalidValue, SlicingError, StateMismatch
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.families.cumulating import Cumulating
from slicing.windows.families.even import Even
from slicing.windows.families.family import OverSharedCut, repeats, slice_of, windows_of
from slicing.windows.families.several import several
from slicing.windows.families.slices_of import SlicesOf
from slicing.windows.families.stepped import Stepped
from slicing.windows.families.tailed import Tailed
from slicing.windows.families.timed import (
    by_edges,
    calendar_cumulating,
    calendar_hopping,
    calendar_tailed,
    cumulating_family,
    hopping_family,
    tailed_family,
)
from slicing.windows.specs import from_spec
from slicing.windows.time.cut import Cut
from slicing.windows.time.durations import calendar_units
from slicing.windows.time.edges import AFTER, BEFORE, YEAR_1, YEAR_9999, Every, Own
from slicing.windows.time.local import Local
from slicing.windows.time.zones import Zone
from slicing.windows.window import hopping

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = 60 * 10**6
HOUR = 60 * MINUTE
DAY = 24 * HOUR
METHODS = ["slice_at", "slice_start", "window_start", "window_end", "first_slice", "first_window", "last_window"]
FAR = [BEFORE, BEFORE + 1, -(1 << 62), YEAR_1, YEAR_9999, 1 << 62, AFTER - 1, AFTER]


def micros(instant):
    return (instant - EPOCH) // timedelta(microseconds=1)


def at(year, month, day, hour=0, minute=0, zone="UTC"):
    return micros(datetime(year, month, day, hour, minute, tzinfo=ZoneInfo(zone)))


def cumulating(size, step, offset=0):
    return Cumulating(Every(size, offset), Every(step, offset))


class TradingDays:
    """Opens (or closes) of a made-up exchange that trades from Monday to Friday: at the hour of 09:00 UTC (17:00)."""

    def __init__(self, hour):
        self.hour = hour

    def edge(self, number):
        return (number // 5 * 7 + number % 5 + 4) * DAY + self.hour * HOUR

    def count(self, time):
        days = (time - self.hour * HOUR) // DAY - 4
        return (
            days // 7 * 5 + np.minimum(days % 7, 4)
            if isinstance(time, np.ndarray)
            else days // 7 * 5 + min(days % 7, 4)
        )

    def spec(self):
        return ["trading days", self.hour]


def exchange():
    """Opens and closes of New York from 2019 to 2026: 09:30 to 16:00, to 13:00 on half days, closed on holidays."""
    zone, opens, closes = ZoneInfo("America/New_York"), [], []
    for day in (date(2019, 1, 1) + timedelta(n) for n in range(8 * 365)):
        if day.weekday() >= 5 or (day.month, day.day) in {(1, 1), (7, 4), (12, 25)}:
            continue
        half = (day.month, day.day) in {(7, 3), (12, 24)} or (
            day.month == 11 and day.weekday() == 4 and 23 <= day.day <= 29
        )
        for hour, minute, instants in ((9, 30, opens), (13 if half else 16, 0, closes)):
            instants.append(micros(datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)))
    return opens, closes


BERLIN, APIA, JOHNS = Zone.of("Europe/Berlin"), Zone.of("Pacific/Apia"), Zone.of("America/St_Johns")
LORD_HOWE, MANILA = Zone.of("Australia/Lord_Howe"), Zone.of("Asia/Manila")
MARCH, LEFT_OUT, BACK = at(2025, 3, 30), at(2011, 12, 30), at(2006, 10, 29)
ALONE = {
    "hopping": (Even(7 * HOUR, 2 * HOUR, -HOUR), 0),
    "tumbling": (Even(HOUR, HOUR, 5), 0),
    "gaps": (Even(HOUR, 5 * HOUR), 0),
    "cumulating": (cumulating(6 * HOUR, HOUR, 7), -3 * DAY),
    "days": (calendar_hopping(("day", 1), ("day", 1), BERLIN), MARCH),
    "hours": (calendar_hopping(("hour", 1), ("hour", 1), BERLIN), MARCH),
    "7 days by 1": (calendar_hopping(("day", 7), ("day", 1), APIA), LEFT_OUT),
    "2 weeks by 1": (calendar_hopping(("week", 2), ("week", 1), JOHNS), BACK),
    "a quarter by months": (calendar_hopping(("quarter", 1), ("month", 1), BERLIN), MARCH),
    "month to date": (calendar_cumulating(("month", 1), ("day", 1), APIA), LEFT_OUT),
    "month to date, back over midnight": (calendar_cumulating(("month", 1), ("day", 1), JOHNS), BACK),
    "month to date, its last day left out": (calendar_cumulating(("month", 1), ("day", 1), MANILA), at(1844, 12, 31)),
    "day to hour": (calendar_cumulating(("day", 1), ("hour", 1), BERLIN), MARCH),
    "day to half an hour": (calendar_cumulating(("day", 1), ("minute", 30), LORD_HOWE), at(2025, 10, 4, 15, 30)),
    "week to day": (calendar_cumulating(("week", 1), ("day", 1), APIA), LEFT_OUT),
    "year to quarter": (calendar_cumulating(("year", 1), ("quarter", 1), BERLIN), MARCH),
    "tail": (tailed_family("18 hours", "2 hours", "6 hours"), -HOUR),
    "tail, of another length than the size": (tailed_family("1 day", "1 hour", "7 hours", "5 minutes"), 0),
    "tail, not at the end of a slice": (Tailed(Every(6 * HOUR), Every(HOUR), 2, 90 * MINUTE), 5),
    "tail, days": (calendar_tailed(("day", 2), ("hour", 1), ("day", 1), BERLIN), MARCH),
    "tail, a day left out": (calendar_tailed(("week", 1), ("day", 1), ("week", 1), APIA), LEFT_OUT),
    "tail, an hour left out": (calendar_tailed(("hour", 1), ("minute", 30), ("hour", 1), BERLIN), MARCH),
    "tail, half an hour left out": (
        calendar_tailed(("minute", 30), ("minute", 10), ("minute", 30), LORD_HOWE),
        at(2025, 10, 4, 15, 30),
    ),
    "tail, all its hours left out": (calendar_tailed(("day", 1), ("hour", 1), ("day", 1), APIA), LEFT_OUT),
    "two tails, one of them left out": (calendar_tailed(("day", 2), ("hour", 6), ("day", 1), APIA), LEFT_OUT),
    "tail, months": (calendar_tailed(("month", 2), ("day", 1), ("month", 1), JOHNS), BACK),
    "exchange": (by_edges(*exchange()), at(2024, 11, 29)),
    "overlapping lists": (by_edges([-DAY, 0, 0, HOUR, DAY], [0, HOUR, DAY, DAY, DAY]), 0),
    "a user's class": (by_edges(TradingDays(9), TradingDays(17)), 0),
    "a day from each hour": (by_edges(Every(HOUR), Every(HOUR, DAY + MINUTE)), 0),
}
SETS = {
    "one grid": [Even(5 * MINUTE, MINUTE), Even(DAY, MINUTE)],
    "a grid twice as fine": [Even(3 * HOUR, 3 * HOUR, HOUR), Even(5 * HOUR, 2 * HOUR)],
    "a day beside its hours": [Even(DAY, DAY), cumulating(DAY, HOUR), Even(7 * HOUR, 2 * HOUR)],
    "edges too many for a grid": [Even(7 * HOUR, 7 * HOUR, 3 * MINUTE), Even(HOUR, HOUR), cumulating(DAY, 8 * HOUR)],
    "calendars": [ALONE["days"][0], ALONE["day to hour"][0], calendar_hopping(("month", 1), ("month", 1), BERLIN)],
    "fixed and by a clock": [Even(90 * MINUTE, HOUR), ALONE["7 days by 1"][0], ALONE["month to date"][0]],
    "tails of two lengths": [ALONE["tail"][0], tailed_family("1 day", "3 hours", "12 hours"), Even(HOUR, HOUR)],
    "an exchange beside hours": [ALONE["exchange"][0], Even(HOUR, HOUR), ALONE["days"][0]],
    "a user's beside hours": [ALONE["a user's class"][0], Even(3 * HOUR, HOUR)],
}
WHEN = {"calendars": MARCH, "fixed and by a clock": LEFT_OUT, "an exchange beside hours": at(2024, 11, 29)}
SHARED = {
    f"{name}, {i}": (family, WHEN.get(name, 0))
    for name, families in SETS.items()
    for i, family in enumerate(several(families).families)
}
SLICES = {
    "slices of three by seven minutes": (SlicesOf(Even(7 * MINUTE, 3 * MINUTE)), 0),
    "slices of days by a clock": (SlicesOf(ALONE["7 days by 1"][0]), LEFT_OUT),
    "slices of several windows": (SlicesOf(several(SETS["a day beside its hours"])), 0),
}
FAMILIES = ALONE | SHARED | SLICES


def windows_around(family, instant):
    """Numbers of windows, more of them than hold instants within three days, and their intervals."""
    low, high = family.first_open(instant - 4 * DAY), family.last_window(family.slice_at(instant + 4 * DAY))
    windows = np.arange(low - 3, high + 4)
    return windows, family.window_start(windows), family.window_end(windows)


def instants_around(instant, *edges):
    """Random ones within three days, and those about edges."""
    rng = random.Random(7)
    times = [instant + rng.randint(-3 * DAY, 3 * DAY) for _ in range(300)]
    known = sorted({t for some in edges for t in some.tolist() if abs(t - instant) < 3 * DAY})
    known = rng.sample(known, min(len(known), 100))
    return sorted({*times, *(edge + shift for edge in known for shift in (-1, 0, 1))})


@pytest.mark.parametrize("name", FAMILIES)
def test_the_windows_of_a_slice_are_those_that_hold_its_instants(name):
    family, instant = FAMILIES[name]
    windows, starts, ends = windows_around(family, instant)
    times = instants_around(instant, starts, ends)
    slices = family.slice_at(np.array(times))
    found = zip(times, family.first_window(slices).tolist(), family.last_window(slices).tolist(), strict=True)
    for time, first, last in found:
        holding = windows[(starts <= time) & (time < ends)].tolist()
        assert list(range(first, last + 1)) == holding, time


@pytest.mark.parametrize("name", FAMILIES)
def test_windows_are_ranges_of_slices_and_never_step_back(name):
    family, instant = FAMILIES[name]
    windows, starts, ends = windows_around(family, instant)
    assert np.all(starts[1:] >= starts[:-1])
    assert np.all(ends[1:] >= ends[:-1])
    assert np.all(starts <= ends)
    first, end = family.first_slice(windows), family.end_slice(windows)
    assert np.all(first <= end)
    inside = (starts > BEFORE) & (ends < AFTER)
    assert family.slice_start(first)[inside].tolist() == starts[inside].tolist(), "windows start where a slice does"
    assert family.slice_start(end)[inside].tolist() == ends[inside].tolist(), "windows end where a slice does"
    slices = np.arange(end[0], first[-1])[:1000]  # windows before and after those here have none of them
    found = zip(slices.tolist(), family.first_window(slices).tolist(), family.last_window(slices).tolist(), strict=True)
    for index, low, high in found:
        covering = windows[(first <= index) & (index < end)].tolist()
        assert list(range(low, high + 1)) == covering, index


@pytest.mark.parametrize("name", FAMILIES)
def test_the_first_open_window_is_the_first_that_ends_later(name):
    family, instant = FAMILIES[name]
    windows, starts, ends = windows_around(family, instant)
    times = instants_around(instant, starts, ends)
    for grace in (0, 1, HOUR, 2 * DAY):
        expected = [windows.tolist()[int(np.sum(ends <= time))] for time in times]
        assert [family.first_open(time + grace, grace) for time in times[::40]] == expected[::40]
        assert family.first_open(np.array(times) + grace, grace).tolist() == expected


@pytest.mark.parametrize("name", FAMILIES)
def test_the_lengths_that_are_told_are_kept(name):
    family, instant = FAMILIES[name]
    windows, _, _ = windows_around(family, instant)
    lengths = family.end_slice(windows) - family.first_slice(windows)
    emitted = lengths[~repeats(family, windows)]  # others may have empty slices beside those of the window they repeat
    assert emitted.max() <= (family.longest if not isinstance(family, OverSharedCut) else 1.1 * family.longest + 2)
    assert lengths.max() == family.longest or not isinstance(family, Cumulating) or "month" in name or "year" in name
    if family.step is not None:
        assert set(lengths.tolist()) == {family.longest}
        assert set(np.diff(family.first_slice(windows)).tolist()) == {family.step}
    assert family.entered(windows).tolist() == family.end_slice(windows - 1).tolist()


@pytest.mark.parametrize("name", FAMILIES)
def test_arrays_give_what_integers_give_at_the_ends_of_int64_too(name):
    family, instant = FAMILIES[name]
    times = [instant, *FAR]
    slices = [family.slice_at(time) for time in times]
    windows = [family.last_window(index) for index in slices]
    for method, values in [
        ("slice_at", times),
        ("first_open", times),
        *((method, slices) for method in ("slice_start", "first_window", "last_window")),
        *((method, windows) for method in ("window_start", "window_end", "first_slice", "end_slice", "entered")),
    ]:
        ask = getattr(family, method)
        results = ask(np.array(values))
        assert results.dtype == np.int64
        assert results.tolist() == [ask(value) for value in values], method
        ascending = [result for _, result in sorted(zip(values, results.tolist(), strict=True))]
        assert ascending == sorted(ascending), method
        assert ask(np.array([], np.int64)).size == 0
        assert isinstance(ask(values[0]), int)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_made_again_from_their_specs(name):
    family, _ = FAMILIES[name]
    spec = json.loads(json.dumps(family.spec()))
    own = [Own(TradingDays(9)), Own(TradingDays(17))]
    assert from_spec(spec, own=own) == family
    assert from_spec(spec, own=own).spec() == spec
    assert pickle.loads(pickle.dumps(family)) == family


# --- the even family ------------------------------------------------------------------------------------------------


def others(slicing):
    """The windows of a slicing by edges alone, and over slices of other cuts."""
    starts, ends = Every(slicing.advance, slicing.offset), Every(slicing.advance, slicing.offset + slicing.size)
    return OverSharedCut(slicing, slicing.cut), ByEdges(starts, ends).over(slicing.cut)


@pytest.mark.parametrize("seed", range(10))
def test_hopping_windows_are_those_of_slicing_method_for_method(seed):
    rng = random.Random(seed)
    for _ in range(100):
        unit = rng.choice([1, 1000, MINUTE])
        size, advance = (unit * rng.randint(1, 60) + rng.choice([0, 0, 1]) for _ in range(2))
        slicing = Even(size, advance, rng.randint(-2 * advance, 2 * advance))
        times = np.array([rng.randint(-9 * size, 9 * size) for _ in range(20)] + [rng.randrange(YEAR_1, YEAR_9999)])
        slices = slicing.slice_at(times)
        windows = slicing.last_window(slices)
        arguments = {"slice_at": times, "window_start": windows, "window_end": windows, "first_slice": windows}
        for family in others(slicing):
            for method in METHODS:
                values = arguments.get(method, slices)
                expected = getattr(slicing, method)(values).tolist()
                assert getattr(family, method)(values).tolist() == expected, (slicing, method)
                assert getattr(family, method)(int(values[0])) == expected[0]
            assert family.first_open(times, 5).tolist() == [slicing.first_open(time, 5) for time in times.tolist()]
            assert family.entered(windows).tolist() == [slicing.entered(window) for window in windows.tolist()]
        assert (family.window_end(windows) - family.window_start(windows)).tolist() == [size] * len(times)


def test_an_even_family_has_a_sequence_of_edges_for_each_slice_of_an_advance():
    for even in (Even(5, 2), Even(6, 2, 1), Even(2, 5, -1), Even(3, 3)):
        assert len(even.cut.sequences) == even.step


# --- calendars ------------------------------------------------------------------------------------------------------


def test_month_to_date_in_berlin():
    family = calendar_cumulating(("month", 1), ("day", 1), BERLIN)
    start = at(2025, 3, 1, zone="Europe/Berlin")
    ends = [at(2025, 3, day, zone="Europe/Berlin") for day in range(2, 32)] + [at(2025, 4, 1, zone="Europe/Berlin")]
    assert windows_of(family, start) == [(start, end) for end in ends]
    assert windows_of(family, at(2025, 3, 30, 12)) == [(start, end) for end in ends[-2:]]
    assert slice_of(family, at(2025, 3, 30, 12)) == (at(2025, 3, 29, 23), at(2025, 3, 30, 22)), "23 hours"
    assert family.longest == 31


@pytest.mark.parametrize(
    ("size", "step", "longest"),
    [(("year", 1), ("day", 1), 366), (("quarter", 1), ("day", 1), 92), (("month", 1), ("hour", 1), 744),
     (("week", 1), ("day", 1), 7), (("day", 1), ("minute", 1), 1440), (("year", 2), ("month", 1), 24),
     (("year", 5), ("day", 1), 1827), (("year", 1000), ("year", 1), 1000)],
)  # fmt: skip
def test_the_longest_window_of_a_calendar(size, step, longest):
    assert calendar_cumulating(size, step, LORD_HOWE).longest == longest


def test_seven_days_have_seven_slices_even_where_one_was_left_out():
    family = calendar_hopping(("day", 7), ("day", 1), APIA)
    assert (family.longest, family.step) == (7, 1)
    windows = windows_of(family, at(2011, 12, 31, 9))
    assert len(windows) == 7
    assert [(end - start) // DAY for start, end in windows] == [6, 6, 6, 6, 6, 6, 7], "six hold the day left out"


@pytest.mark.parametrize(
    ("size", "advance", "tail", "offset"), [(18, 2, 6, 0), (7, 1, 3, 0), (8, 2, 8, 1), (5, 1, 5, 0)]
)
def test_a_window_with_a_tail_begins_at_the_last_multiple_before_its_size(size, advance, tail, offset):
    family = tailed_family(*(f"{hours} hours" for hours in (size, advance, tail)), f"{offset} hours")
    windows = np.arange(-50, 50)
    ends = family.window_end(windows) // HOUR - offset
    assert (ends % advance == 0).all()
    assert ((family.window_start(windows) // HOUR - offset) == (ends - size) // tail * tail).all()
    assert family.ratio == np.mean([len(windows_of(family, at * HOUR)) for at in range(10 * tail)])
    assert family.per_tail == tail // advance


def test_a_window_with_a_tail_in_a_zone_begins_at_a_midnight():
    family = calendar_tailed(("day", 7), ("minute", 1), ("day", 1), BERLIN)
    start, end = at(2025, 3, 25, zone="Europe/Berlin"), at(2025, 4, 1, 13, 30, zone="Europe/Berlin")
    assert family.window_start(family.first_open(end - 1)) == start
    assert family.window_end(family.first_open(end - 1)) == end


def test_windows_that_a_clock_leaves_no_room_for_never_go_out():
    #   Berlin, 2025-03-30: the time from 02:00 to 03:00 is left out, so [0:00, 02:40) is [0:00, 02:00) once more
    midnight = at(2025, 3, 29, 23)
    for family in (
        cumulating_family("1 day", "40 minutes", zone=BERLIN),
        hopping_family("40 minutes", "40 minutes", 0, BERLIN),
    ):
        first = family.first_open(midnight)
        windows = np.arange(first, first + 36)
        assert np.flatnonzero(repeats(family, windows)).tolist() == [3]
    days = cumulating_family("1 day", "1 hour", zone=BERLIN)
    assert windows_of(days, midnight) == [(midnight, midnight + i * HOUR) for i in range(1, 24)]
    assert not repeats(days, np.arange(days.first_open(midnight), days.first_open(midnight) + 23)).any()


def test_the_exchange_closes_early():
    family = by_edges(*exchange())
    opened, closed = at(2024, 11, 29, 14, 30), at(2024, 11, 29, 18)
    assert windows_of(family, opened) == windows_of(family, closed - 1) == [(opened, closed)]
    assert windows_of(family, opened - 1) == windows_of(family, closed) == []
    assert family.longest == 1
    last = len(family.starts.instants)
    assert family.first_open(YEAR_9999) == last
    assert (family.window_start(last), family.window_end(last)) == (AFTER, AFTER)


# --- several at once ------------------------------------------------------------------------------------------------


def test_a_grid_is_taken_when_it_has_at_most_twice_as_many_slices_as_edges():
    # Edges every 3 and every 5 of 15: 8; the grid has 15 slices. Every 4 and every 5 of 20: 9, and 20.
    assert several([Even(3, 3), Even(5, 5)]).cut == Cut([Every(1)])
    assert several([Even(4, 4), Even(5, 5)]).cut == Cut([Every(4), Every(5)])
    assert several([Even(5, 2), Even(4, 4)]).cut == Cut([Every(1)]), "starts and ends are edges both"
    assert several([Even(6, 6), Even(6, 6, 3)]).cut == Cut([Every(3)])
    assert several([Even(60, 60), cumulating(60, 10), Even(20, 5)]).cut == Cut([Every(5)])


def test_on_a_grid_every_family_is_even_and_keeps_its_tree():
    chosen = several([Even(7 * HOUR, 3 * HOUR, HOUR), Even(5 * HOUR, 2 * HOUR)])
    assert chosen.families == (Stepped(Every(HOUR), 3, 7, 1), Stepped(Every(HOUR), 2, 5))
    assert chosen.longest == 7


def test_slices_keep_their_numbers_when_windows_of_the_same_advance_come_and_go():
    alone = Even(HOUR, MINUTE, -7)
    both = several([alone, Even(DAY, MINUTE, -7)])
    assert both.cut == alone.cut
    assert both.families == (alone, Even(DAY, MINUTE, -7))
    assert several([alone]).families == (alone,)
    uneven = Even(5, 2)
    assert several([uneven, uneven]).families == (uneven, uneven)


def test_the_cut_does_not_depend_on_the_order_of_families():
    for families in SETS.values():
        expected = several(families).cut
        for _ in range(4):
            random.Random(4).shuffle(families)
            assert several(families).cut.spec() == expected.spec()


def test_edges_that_others_have_too_are_not_counted_again():
    chosen = several(SETS["calendars"])
    assert chosen.cut == Cut([Local("hour", 1, BERLIN)])
    assert several([ALONE["days"][0], ALONE["month to date"][0]]).cut != ALONE["days"][0].cut, "other zones"


def test_every_edge_of_every_window_is_one_of_the_shared_cut():
    for name, families in SETS.items():
        cut = several(families).cut
        for family in families:
            _, starts, ends = windows_around(family, WHEN.get(name, 0))
            edges = np.unique(np.concatenate([starts, ends]))
            edges = edges[(edges > BEFORE) & (edges < AFTER)]
            assert cut.slice_start(cut.slice_at(edges)).tolist() == edges.tolist()


@pytest.mark.parametrize("name", SETS)
def test_sets_are_made_again_from_their_specs(name):
    chosen = several(SETS[name])
    made = from_spec(json.loads(json.dumps(chosen.spec())), own=[Own(TradingDays(9)), Own(TradingDays(17))])
    assert made == chosen
    assert made.families == chosen.families
    assert pickle.loads(pickle.dumps(chosen)) == chosen


# --- durations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duration", "units"),
    [
        ("1 month", ("month", 1)),
        ("7 days", ("day", 7)),
        ("2 quarters", ("quarter", 2)),
        ("1 year", ("year", 1)),
        ("INTERVAL 3 Weeks", ("week", 3)),
        ("+2months", ("month", 2)),
        ("6 hours", ("hour", 6)),
        ("90 minutes", ("minute", 90)),
        ("1 hour 30 minutes", ("microsecond", 90 * MINUTE)),
        (timedelta(days=7), ("day", 7)),
        (timedelta(hours=6), ("microsecond", 6 * HOUR)),
    ],
)
def test_durations_on_a_wall_clock(duration, units):
    assert calendar_units(duration, "size") == units


@pytest.mark.parametrize(
    ("duration", "error", "message"),
    [
        ("1 month 2 days", InvalidValue, "has one unit"),
        ("1 day 12 hours", InvalidValue, "has one unit"),
        ("1month2days", InvalidValue, "has one unit"),
        ("month", InvalidValue, "not a duration"),
        ("0 days", InvalidValue, "must be positive"),
        ("-1 month", InvalidValue, "must be positive"),
        (timedelta(0), InvalidValue, "must be positive"),
        ("-5 minutes", InvalidValue, "must be positive"),
        ("1 fortnight", InvalidValue, "unknown unit"),
        ("1.5 days", InvalidValue, "has one unit|not a duration"),
        ("", InvalidValue, "empty"),
        (7, InvalidType, "needs a unit"),
        (None, InvalidType, "needs a unit"),
    ],
)
def test_durations_that_are_refused(duration, error, message):
    with pytest.raises(error, match=f"`size`.*({message})"):
        calendar_units(duration, "size")


# --- what is refused ------------------------------------------------------------------------------------------------

REFUSED = {
    "days by months": (lambda: hopping_family("2 months", "1 day", 0, "UTC"), "both in days or weeks"),
    "months by weeks": (lambda: hopping_family("1 month", "1 week", 0, "UTC"), "both in days or weeks"),
    "no multiple": (
        lambda: hopping_family("10 days", "1 week", 0, "UTC"),
        "multiple of the second; got 10 days and 1 week",
    ),
    "no multiple of months": (lambda: hopping_family("1 year", "5 months", 0, "UTC"), "multiple of the second"),
    "gaps": (lambda: hopping_family("1 day", "2 days", 0, "UTC"), "multiple of the second"),
    "hopping hours": (lambda: hopping_family("6 hours", "1 hour", 0, "UTC"), "got 6 hours and 1 hour"),
    "a day by hours": (lambda: hopping_family("1 day", "1 hour", 0, "UTC"), "got 1 day and 1 hour"),
    "an offset of days": (
        lambda: hopping_family("2 days", "1 day", "1 day", "UTC"),
        "must be shorter than `advance`, 1 day",
    ),
    "an offset of months": (lambda: hopping_family("2 days", "1 day", "1 month", "UTC"), "has months where `advance`"),
    "a year later": (lambda: cumulating_family("1 year", "1 day", "1 year", "UTC"), "shorter than `size`, 1 year"),
    "hours later": (
        lambda: hopping_family("1 hour", "1 hour", "5 minutes", "UTC"),
        "that divide an hour begin with the hour in a zone; got 1 hour from 5 minutes on. .* or `by_edges`",
    ),
    "days from six by hours and a half": (
        lambda: cumulating_family("1 day", "1 hour", "330 minutes", "UTC"),
        "got 1 hour from 30 minutes on",
    ),
    "months without a zone": (
        lambda: hopping("1 month", "1 month"),
        "`size`: months, quarters and years need a zone",
    ),
    "a year without a zone": (lambda: cumulating_family("1 year", "1 day"), "need a zone"),
    "cumulating by a part": (lambda: cumulating_family("1 hour", "7 minutes"), "`size` must be a multiple of `step`"),
    "cumulating backwards": (lambda: cumulating_family("1 hour", "1 day"), "`size` must be a multiple of `step`"),
    "no step": (lambda: cumulating_family("1 hour", "0 seconds"), "`step` must be positive"),
    "no size": (lambda: cumulating_family("-1 hour", "1 hour"), "`size` must be positive"),
    "a long offset": (
        lambda: cumulating_family("1 hour", "1 minute", "1 hour"),
        "`offset` must be shorter than `size`",
    ),
    "weeks in months": (lambda: cumulating_family("1 month", "1 week", zone="UTC"), "must be an edge of `step`"),
    "weeks in 14 days": (lambda: cumulating_family("14 days", "1 week", zone="UTC"), "got 14 days and 1 week"),
    "2 days in months": (lambda: cumulating_family("1 month", "2 days", zone="UTC"), "must be an edge of `step`"),
    "edges of two kinds": (
        lambda: Cumulating(Every(DAY), Local("hour", 1, BERLIN)),
        "begin and end where a `step` does",
    ),
    "a part of a step": (lambda: cumulating_family("10 seconds", "3 seconds"), "multiple of `step`"),
    "lists of two lengths": (lambda: by_edges([1, 2], [3]), "must be as many: .*got 2 and 1"),
    "a list and none": (lambda: by_edges([1, 2], Every(5)), "got 2 and no list"),
    "ends before starts": (lambda: by_edges([1, 5], [2, 4]), "window 1 would be \\[5, 4\\)"),
    "ends before starts for ever": (lambda: by_edges(Every(10, 5), Every(10)), "must not come before `starts"),
    "an unsorted list": (lambda: by_edges([2, 1], [3, 4]), "edges never step back"),
    "no edges at all": (lambda: by_edges(5, Every(10)), "has no `edge`"),
    "no families": (lambda: several([]), "at least one"),
    "no such zone": (lambda: hopping_family("1 day", "1 day", 0, "Mars"), "no time zone 'Mars'"),
    "no spec": (lambda: from_spec([]), "cannot be read"),
    "a spec with too little": (lambda: from_spec(["every"]), "cannot be read"),
    "a spec of a user's class": (lambda: from_spec(["trading days", 9]), "user's class"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    make, message = REFUSED[name]
    with pytest.raises(SlicingError, match=message) as raised:
        make()
    assert isinstance(raised.value, InvalidValue | InvalidType | StateMismatch)
    assert type(raised.value)(*raised.value.args).args == raised.value.args


def test_what_is_asked_for_is_made():
    assert hopping("1 hour", "1 minute", offset="30 seconds").family == Even(HOUR, MINUTE, 30 * 10**6)
    assert hopping("1 week", "1 week").family == Even(7 * DAY, 7 * DAY), "without a zone from Thursday, as in Spark"
    assert hopping_family("1 week", "1 week", 0, "Europe/Berlin") == Stepped(Local("week", 1, BERLIN), 1, 1)
    assert hopping_family("2 weeks", "1 day", 0, BERLIN) == Stepped(Local("day", 1, BERLIN), 1, 14)
    assert hopping_family("1 hour", "1 hour", 0, BERLIN) == Stepped(Local("hour", 1, BERLIN), 1, 1)
    assert cumulating_family("1 day", "1 hour", "30 minutes") == cumulating(DAY, HOUR, 30 * MINUTE)


# --- Flink's cases --------------------------------------------------------------------------------------------------

HERE = Path(__file__).parents[1] / "vectors"
FILES = sorted(HERE.glob("slices/*.json")) + sorted(HERE.glob("flink.*SliceAssignerTest.json"))
CASES = {case["name"]: case for file in FILES for case in json.loads(file.read_text(encoding="utf-8"))["cases"]}


def family_of(window, zone=None):
    """The windows of a case, whose times are milliseconds."""
    size, advance = (timedelta(milliseconds=window.get(name, window["size"])) for name in ("size", "advance"))
    offset = timedelta(milliseconds=window["offset"]) if "offset" in window else 0
    if window["kind"] == "cumulative":
        return cumulating_family(size, advance, offset, zone)
    return hopping(size, advance, offset=offset, zone=zone).family


def ending(family, end):
    """The newest window that ends at an instant; of cumulating windows there is one."""
    window = family.first_open(end) - 1
    assert family.window_end(window) == end
    return window


def slice_end(family, index):
    return family.slice_start(index + 1) // 1000


def expired(family, window):
    """The slices, by their ends, that no later window needs, if the first one of a window holds its running total."""
    first, newest = family.first_slice(window), family.end_slice(window) - 1
    done = [] if newest == first else [slice_end(family, newest)]
    return done + [slice_end(family, first)] * (family.last_window(first) == window)


def merged(family, window):
    first, newest = family.first_slice(window), family.end_slice(window) - 1
    return slice_end(family, first), [] if newest == first else [slice_end(family, newest)]


def following(family, window):
    """The end of the next window of the same start."""
    later = window + 1
    return family.window_end(later) // 1000 if later <= family.last_window(family.first_slice(window)) else None


def wall_clock(zone, milliseconds):
    """The instant at which a clock shows a time; of a time left out, that of the jump."""
    wall = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)
    return micros(wall.replace(tzinfo=ZoneInfo(zone)))


SHOWN_TWICE = 1_636_272_000_000
"""01:00 in Los Angeles, which it is again an hour later. Flink's window ends after both hours, ours after the first."""


def fact(case, check):
    """What holds here and what should, in milliseconds."""
    if check["fact"] == "local_window":
        family = family_of(case["window"], check["zone"])
        window = family.first_window(family.slice_at(1000 * check["time"]))
        start, end = (wall_clock(check["zone"], check[name]) for name in ("start", "end"))
        should = start, end - HOUR * (check["time"] == SHOWN_TWICE)
        return (family.window_start(window), family.window_end(window)), should
    family = family_of(case["window"])
    if check["fact"] == "slice_end":
        return slice_end(family, family.slice_at(1000 * check["time"])), check["is"]
    window = ending(family, 1000 * check["end"])
    if check["fact"] == "window_start":
        return family.window_start(window) // 1000, check["is"]
    if check["fact"] == "expired_slices":
        return expired(family, window), check["is"]
    if check["fact"] == "slices_to_merge":
        return merged(family, window), (check["merged_into"], check["is"])
    assert check["fact"] == "next_window"
    if case["window"]["kind"] == "cumulative":
        return following(family, window), check["is"]
    # A hopping window is followed by one while its slices hold a record.
    return None if check["empty"] else family.window_end(window + 1) // 1000, check["is"]


@pytest.mark.parametrize("name", sorted(CASES))
def test_flinks_slices(name):
    for check in CASES[name]["checks"]:
        found, should = fact(CASES[name], check)
        assert found == should, check


def test_all_of_flinks_slices_are_here():
    assert len(CASES) >= 14
    assert {case["window"]["kind"] for case in CASES.values()} == {"tumbling", "hopping", "cumulative"}
    for file in FILES:
        content = json.loads(file.read_text(encoding="utf-8"))
        assert content["upstream"]["path"].endswith(file.stem.partition(".")[2] + ".java")
        assert all(case["test"] for case in content["cases"])


def test_the_smallest_distance_between_edges_of_a_class_is_sampled():
    """A stream refuses edges that are closer than its watermark can tell."""
    assert by_edges(TradingDays(9), TradingDays(17)).shortest == DAY
