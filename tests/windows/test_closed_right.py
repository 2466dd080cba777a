"""Windows that hold their ends: as in pandas, closed when the watermark has passed their end, and never mixed."""

import random
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from slicing import cumulating, hopping, tumbling
from slicing.errors import InvalidValue
from slicing.stages.local_runner import bounded, stream
from slicing.windows.as_of import held_now
from slicing.windows.sets import windows_of_call

SECOND = 10**6
START = datetime(2026, 3, 28, 12, tzinfo=UTC)
RESAMPLED = {
    "10min": (tumbling("10 minutes", closed="right"), "UTC", timedelta(minutes=1)),
    "D": (tumbling("1 day", zone="Europe/Berlin", closed="right"), "Europe/Berlin", timedelta(hours=1)),
}


@pytest.mark.parametrize("rule", RESAMPLED)
def test_windows_are_resampled_bins_of_pandas(rule):
    window, zone, unit = RESAMPLED[rule]
    rng = random.Random(rule)
    edges = [START + rng.randrange(200) * unit for _ in range(300)]
    instants = [edge + rng.choice([-1, 0, 0, 1]) * timedelta(microseconds=1) for edge in edges]
    bins = pd.Series(1, pd.DatetimeIndex(instants).tz_convert(zone)).sort_index()
    counts = bins.resample(rule, closed="right", label="left").sum()
    found = {row.start: row.records for row in bounded(window, [micros(each) for each in instants]).rows}
    assert found == {micros(start): count for start, count in counts.items() if count}


def micros(instant):
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_a_window_closes_when_the_watermark_has_passed_its_end():
    window = tumbling("1 second", closed="right")
    watermarks = [0, SECOND, SECOND, SECOND + 1000]
    rows = stream(window, [[1, SECOND], [], [SECOND], []], watermarks).rows
    assert [(row.start, row.end, row.records, row.batch) for row in rows] == [(0, SECOND, 3, 3)]
    late = stream(window, [[1], [], [SECOND, SECOND + 1]], [0, SECOND + 1000, SECOND + 1000])
    assert late.batches[2].outcomes == ("late", "taken")
    kept = stream(window, [[1], [], [SECOND]], [0, SECOND + 1000, SECOND + 1000], grace=1000)
    assert kept.batches[2].outcomes == ("taken",)


def test_windows_of_the_clock_hold_their_end():
    window = tumbling("1 second", closed="right")
    rows = stream(window, [[0], [0], []], 0, clock=[SECOND - 1000, SECOND, SECOND + 1000], by_clock=True).rows
    assert [(row.start, row.end, row.records, row.batch) for row in rows] == [(0, SECOND, 2, 2)]


def test_methods_say_which_windows_hold_an_instant():
    hops = hopping("2 seconds", "1 second", closed="right")
    assert hops.windows_of(SECOND) == [(-SECOND, SECOND), (0, 2 * SECOND)]
    assert hops.slice_of(SECOND) == (0, SECOND)
    assert hops.between(SECOND, SECOND + 1) == hops.windows_of(SECOND)
    assert hopping("1 second", "2 seconds", gaps=True, closed="right").windows_of(0) == []
    assert hops != hopping("2 seconds", "1 second")


def test_all_windows_of_a_call_hold_the_same_end():
    with pytest.raises(InvalidValue, match=r"by the same `closed`; got .*Give them the same"):
        windows_of_call([tumbling("1 hour"), tumbling("1 day", closed="right")], {}, False)
    both = [tumbling("1 hour", closed="right"), cumulating("1 day", "2 hours", closed="right")]
    assert windows_of_call(both, {}, False).family.closed_right


@pytest.mark.parametrize("closed", ["both", "none"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_both_ends_or_none_are_refused_with_the_calls_that_have_them(closed, zone):
    with pytest.raises(InvalidValue, match=f"got '{closed}'.*`sliding.*`features_at`.*one microsecond longer"):
        tumbling("1 day", zone=zone, closed=closed)


def test_values_as_of_an_instant_are_refused():
    with pytest.raises(InvalidValue, match=r"closed on the right hold those at their end.*Leave `closed` out"):
        held_now(tumbling("1 hour", closed="right"))
