"""Windows that no instant is in, a day that a zone left out or a repeated edge: as if they did not exist.

The truth is a walk over the windows that have a length, key by key, with all records.
"""

import random
from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from adapting import Query
from oracle import Case
from scenarios.kind import PARTIALS, RECORDS, Kind
from scenarios.kinds.even import Even
from scenarios.kinds.several import several
from scenarios.scenario import Scenario

from slicing import hopping, tumbling
from slicing.aggregates.aggregate import Aggregate
from slicing.state.store import MemoryStore
from slicing.triggers.emission import on_change, on_close
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.families.stepped import Stepped
from slicing.windows.sets import Set
from slicing.windows.time.edges import Listed
from slicing.windows.time.local import Local
from slicing.windows.time.zones import Zone
from slicing.windows.window import Timed

MS, DAY = 1000, 86_400 * 10**6
APIA = Local("day", 1, Zone.of("Pacific/Apia"))
CHRISTMAS = int(datetime(2011, 12, 25, tzinfo=UTC).timestamp()) * 10**6  # the 30th was left out
REPEATED = ByEdges(
    Listed([at * 10 * MS for at in (0, 1, 2, 2, 2, 3, 4, 5, 5, 6, 7, 8)]),
    Listed([at * 10 * MS for at in (1, 2, 2, 2, 3, 4, 5, 5, 6, 7, 8, 9)]),
)
FAMILIES = {
    "days in Apia": (Stepped(APIA, 1, 1), CHRISTMAS, DAY),
    "three days in Apia": (Stepped(APIA, 1, 3), CHRISTMAS, DAY),
    "repeated edges": (REPEATED, 0, 10 * MS),
}
PLACED = Case(
    Aggregate(lambda: 0, lambda acc, v: acc + v % 3, lambda a, b: a + b, lambda ab, a: ab - a),
    lambda values: sum(v % 3 for v in values),
)


def stream(rng, begin, step):
    """Micro-batches in order: records, and a watermark in milliseconds that no record is behind."""
    now = begin
    for _ in range(12):
        many = rng.choice([0, 0, 1, 4])
        yield [(now + rng.randrange(step), rng.randrange(3), rng.randrange(9)) for _ in range(many)], now // 1000
        now += rng.choice([step // 2, step, 2 * step])
    yield [], (now + 90 * step) // 1000


def real_windows(family, low, high):
    """The windows that have a length, by start and end, each interval once."""
    first, last = family.first_window(family.slice_at(low)), family.last_window(family.slice_at(high))
    numbers = np.arange(first - 12, last + 13)
    pairs = zip(family.window_start(numbers).tolist(), family.window_end(numbers).tolist(), strict=True)
    return sorted({pair for pair in pairs if pair[0] < pair[1]}, key=lambda pair: (pair[1], pair[0]))


def walked(family, taken, drained, truth):
    """The rows of changes, by (kind, key, start, end)."""
    low, high = min(time for time, _, _ in taken), max(time for time, _, _ in taken)
    last, rows = {}, {}
    for start, end in real_windows(family, low, high):
        held = defaultdict(list)
        for time, key, value in taken:
            if start <= time < end:
                held[key].append(value)
        for key in range(3):
            if key in held:
                if truth(held[key]) != last.get(key):
                    rows["final", key, start, end] = truth(held[key])
                last[key] = truth(held[key])
            elif last.pop(key, None) is not None and drained:
                rows["drained", key, start, end] = None
    return rows


def inside(family, records):
    return [each for each in records if not family.in_gap(family.slice_at(each[0]))]


def changes(family, drained, content, seed):
    """The rows of a stream, by (kind, key, start, end), and the records of its windows."""
    (_, begin, step), got, taken = FAMILIES[family], {}, []
    family = FAMILIES[family][0]
    made = Scenario(Kind(Timed(family, "")), on_change(drained), content=content, results=(PLACED,))
    for came, watermark in stream(random.Random(seed), begin, step):
        taken += inside(family, came)
        for (kind, key, _, start, end), (row, _) in made.emit(came, watermark).items():
            assert (kind, key, start, end) not in got
            got[kind, key, start, end] = None if kind == "drained" else row[1]
    return got, taken


@pytest.mark.one_in(3)
@pytest.mark.parametrize("drained", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("content", [PARTIALS, RECORDS])
def test_changes_pass_over_windows_without_length(name, drained, content):
    (family, begin, step), ended = FAMILIES[name], Counter()
    for seed in range(12 if content == PARTIALS else 5):
        got, taken = changes(name, drained, content, seed)
        ended.update(kind for kind, _, start, _ in got if start >= begin + 3 * step)
        if taken:
            assert got == walked(family, taken, drained, PLACED.truth), seed
    assert ended["final"] > (30 if content == PARTIALS else 10)
    assert (ended["drained"] > (10 if content == PARTIALS else 3)) == drained


def test_a_key_ends_with_the_first_day_that_has_a_length():
    """Records on the 29th; the 30th was left out; the 31st is empty."""
    made = Scenario(Kind(Timed(FAMILIES["days in Apia"][0], "")), on_change(drained=True), results=(PLACED,))
    noon = int(datetime(2011, 12, 29, 22, tzinfo=UTC).timestamp()) * 10**6  # 12 o'clock of the 29th there
    made.emit([(noon, 1, 1)], noon // 1000)
    found = made.emit([], (noon + 9 * DAY) // 1000)
    assert sorted(kind for kind, *_ in found) == ["drained", "final"]
    ((*_, start, end),) = [place for place in found if place[0] == "drained"]
    assert end - start == DAY


@pytest.mark.one_in(3)
@pytest.mark.parametrize("drained", [False, True])
@pytest.mark.parametrize("emission", ["on_close", "on_change"])
def test_wide_rows_have_each_end_once(emission, drained):
    """Days in rows of seven days, beside three: several windows end with the day that was left out."""
    windows = Set(tuple(Timed(Stepped(APIA, 1, days), "") for days in (1, 3, 7)), wide=True)
    for seed in range(8):
        given = on_close() if emission == "on_close" else on_change(drained)
        wide, seen = Scenario(Kind(windows), given, results=("sum",)), Counter()
        for came, watermark in stream(random.Random(seed), CHRISTMAS, DAY):
            rows = wide.emit(came, watermark)
            seen.update((key, end) for _, key, part, _, end in rows if part == 2)
        assert set(seen.values()) <= {1}


MIDNIGHTS = {
    zone: [
        int(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).timestamp()) * 10**6
        for day in (first + timedelta(days=at) for at in range(30))
    ]
    for zone, first in (("Pacific/Apia", date(2011, 12, 24)), ("Pacific/Kwajalein", date(1993, 8, 15)))
}
"""By zone, the midnights of a month; two of them are one instant."""


def days_of(zone, days):
    """Windows of some days in a zone; those of more than two days have a tail."""
    return hopping(f"{days} days", "1 day", zone=zone, **({"tail": "1 day"} if days > 2 else {}))


def of_days(zone, days, end, records):
    """How many records the first window has that ends at a midnight; None if it has none."""
    at = MIDNIGHTS[zone].index(end)
    return sum(MIDNIGHTS[zone][at - days] <= time < end for time, *_ in records) or None


@pytest.mark.parametrize("zone", MIDNIGHTS)
def test_a_wide_row_of_a_day_that_was_left_out_has_all_windows_that_end_with_it(zone):
    midnights, store = MIDNIGHTS[zone], MemoryStore()
    gap = next(at for at in range(29) if midnights[at] == midnights[at + 1])
    query = Query([tumbling("1 day", zone=zone), hopping("2 days", "1 day", zone=zone)], ["rows"], wide=True)
    noons = [midnights[at] + DAY // 2 for at in (gap - 2, gap - 1)]
    query.wide_step(store, [(noon, 1, 1, "a") for noon in noons], noons[0])
    rows = [query.wide_step(store, [], at) for at in (midnights[gap - 1], midnights[gap], midnights[gap + 2])]
    assert [[(end, *found.values()) for end, _, found in some] for some in rows] == [
        [(midnights[gap - 1], 1, 1)],
        [(midnights[gap], 1, 2)],
        [],
    ]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("zone", MIDNIGHTS)
@pytest.mark.parametrize("changes", [False, True])
def test_wide_rows_have_the_first_window_of_each_length_that_ends_with_them(zone, changes):
    """Windows in any order; some are added on the way, and show nothing until they are whole."""
    midnights, seen = MIDNIGHTS[zone], Counter()
    for seed in range(8):
        rng, store, records = random.Random(seed), MemoryStore(), []
        lengths, now = rng.sample([1, 2, 3, 5], 3), midnights[5]
        before = lengths[:2] if changes else lengths
        for number in range(8):
            chosen = before if number < 3 else lengths
            query = Query([days_of(zone, days) for days in chosen], ["rows"], wide=True)
            new = [(now + rng.randrange(DAY), 1, 1, "a") for _ in range(rng.choice([0, 1, 2]))]
            records, now = records + new, now + rng.choice([DAY // 2, DAY, 2 * DAY])
            for end, _, found in query.wide_step(store, new, now if number < 7 else midnights[-1]):
                wanted = [of_days(zone, days, end, records) for days in chosen]
                rows = list(found.values())
                lacks = [at for at, days in enumerate(chosen) if rows[at] is None and days not in before]
                assert rows == [None if at in lacks else count for at, count in enumerate(wanted)], (seed, end)
                seen["lacks"] += any(wanted[at] for at in lacks)
                seen["at the day"] += midnights.count(end) > 1
    assert seen["at the day"] > 2
    assert bool(seen["lacks"]) == changes


def test_a_wide_row_that_shows_what_the_row_before_showed_is_not_emitted():
    """A window whose result is null is shown as an empty one is."""
    nothing = Aggregate(
        lambda: 0, lambda acc, v: acc + v, lambda a, b: a + b, lower=lambda a: a or None, returns="bigint"
    )
    case = Case(nothing, lambda values: sum(values) or None)
    wide, shown = Scenario(several(Even.of(5, 1), Even.of(60, 1), wide=True), on_change(), results=(case,)), {}
    rng, now = random.Random(5), 0
    for step in range(120):
        now += rng.choice([1, 2, 7])
        came = [(now * MS, key, rng.choice([0, 0, 0, 5])) for key in range(3) if rng.random() < 0.6 or not step]
        for (_, key, part, _, end), (row, _) in wide.emit(came, now).items():
            shown.setdefault(key, {}).setdefault(end, {})[part] = row[1]
    for rows in shown.values():
        # Of an empty window nothing is shown, as of one without a result.
        in_order = [[rows[end].get(part) for part in (0, 1)] for end in sorted(rows)]
        assert all(one != other for one, other in pairwise(in_order))
        assert len(in_order) > 20
