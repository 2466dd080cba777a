"""Windows that no instant is in, a day that a zone left out or a repeated edge: as if they did not exist.

The truth is a walk over the windows that have a length, key by key, with all records.
"""

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest
from oracle import CASES, FINGERPRINT, Case, block_of, moment, records_of, shape_of
from test_several import Alone, Together, results_of

from slicing.aggregates.aggregate import Aggregate
from slicing.engines.eager.bucket import EagerBucket
from slicing.state.store import MemoryStore
from slicing.triggers.emission import on_change, on_close
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.families.even import Even
from slicing.windows.families.stepped import Stepped
from slicing.windows.time.edges import Listed
from slicing.windows.time.local import Local
from slicing.windows.time.zones import Zone

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


class Eager:
    """A family by the eager strategy."""

    def __init__(self, family, cases, emission):
        self.family, self.cases, self.emission, self.store = family, cases, emission, MemoryStore()
        self.shape = shape_of(family, cases)

    def bucket(self):
        return EagerBucket(self.shape, [[0]] * len(self.cases), 0, FINGERPRINT, self.store, self.emission)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("drained", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_changes_pass_over_windows_without_length(name, drained):
    (family, begin, step), ended = FAMILIES[name], Counter()
    for seed in range(12):
        alone, got, taken = Alone(family, [PLACED], 0, on_change(drained)), {}, []
        for came, watermark in stream(random.Random(seed), begin, step):
            came = alone.inside(came)
            taken += came
            found, _ = alone.step(came, watermark)
            for (_, kind, key, start, end), (row, _) in found.items():
                assert (kind, key, start, end) not in got
                got[kind, key, start, end] = None if kind == "drained" else row[0]
                ended[kind] += start >= begin + 3 * step
        if taken:
            assert got == walked(family, taken, drained, PLACED.truth), seed
    assert ended["final"] > 30
    assert (ended["drained"] > 10) == drained


def test_a_key_ends_with_the_first_day_that_has_a_length():
    """Records on the 29th; the 30th was left out; the 31st is empty."""
    family = FAMILIES["days in Apia"][0]
    alone = Alone(family, [PLACED], 0, on_change(drained=True))
    noon = int(datetime(2011, 12, 29, 22, tzinfo=UTC).timestamp()) * 10**6  # 12 o'clock of the 29th there
    alone.step([(noon, 1, 1)], noon // 1000)
    found, _ = alone.step([], (noon + 9 * DAY) // 1000)
    assert sorted(kind for _, kind, *_ in found) == ["drained", "final"]
    ((_, _, _, start, end),) = [place for place in found if place[1] == "drained"]
    assert end - start == DAY


@pytest.mark.one_in(3)
@pytest.mark.parametrize("drained", [False, True])
@pytest.mark.parametrize("emission", ["on_close", "on_change"])
def test_wide_rows_have_each_end_once(emission, drained):
    """Days beside three and seven days: several windows end with the day that was left out."""
    families = [Stepped(APIA, 1, 1), Stepped(APIA, 1, 3), Stepped(APIA, 1, 7)]
    for seed in range(8):
        given = on_close() if emission == "on_close" else on_change(drained)
        wide, seen = Together(families, [CASES["sum"]], 0, given, wide=True), Counter()
        for came, watermark in stream(random.Random(seed), CHRISTMAS, DAY):
            bucket = wide.bucket()
            bucket.accept([block_of(wide.shape, wide.cases, came)])
            for frame in bucket.close(moment(watermark)):
                own = wide.shape.family.families[frame.family]
                ends = own.window_end(frame.windows).tolist()
                keys = frame.names["k0"].take(frame.keys).to_pylist()
                seen.update(zip(keys, ends, strict=True))
        assert set(seen.values()) <= {1}


def test_a_wide_row_that_shows_what_the_row_before_showed_is_not_emitted():
    """A window whose result is null is shown as an empty one is."""
    nothing = Aggregate(
        lambda: 0, lambda acc, v: acc + v, lambda a, b: a + b, lower=lambda a: a or None, returns="bigint"
    )
    case = Case(nothing, lambda values: sum(values) or None)
    families, shown = [Even(5 * MS, MS), Even(60 * MS, MS)], defaultdict(list)
    wide = Together(families, [case], 0, on_change(), wide=True)
    rng, now = random.Random(5), 0
    for step in range(120):
        now += rng.choice([1, 2, 7])
        came = [(now * MS, key, rng.choice([0, 0, 0, 5])) for key in range(3) if rng.random() < 0.6 or not step]
        bucket = wide.bucket()
        bucket.accept([block_of(wide.shape, wide.cases, came)])
        for frame in bucket.close(moment(now)):
            keys = frame.names["k0"].take(frame.keys).to_pylist()
            sides = [
                results_of(wide.shape.over(wide.shape.family.families[0]), side) for side in (frame, *frame.aligned)
            ]
            held = [side.records for side in (frame, *frame.aligned)]
            ends = wide.shape.family.families[frame.family].window_end(frame.windows).tolist()
            for at, key in enumerate(keys):
                row = [side[at][0] if records[at] else None for side, records in zip(sides, held, strict=True)]
                shown[key].append((ends[at], row))
    for rows in shown.values():
        in_order = [row for _, row in sorted(rows, key=lambda each: each[0])]
        assert all(one != other for one, other in pairwise(in_order))
        assert len(in_order) > 20


@pytest.mark.one_in(3)
@pytest.mark.parametrize("drained", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_eager_strategy_passes_over_them_too(name, drained):
    family, begin, step = FAMILIES[name]
    for seed in range(5):
        eager, got, taken = Eager(family, [PLACED], on_change(drained)), {}, []
        for came, watermark in stream(random.Random(seed), begin, step):
            came = [each for each in came if not family.in_gap(family.slice_at(each[0]))]
            taken += came
            bucket = eager.bucket()
            bucket.accept([records_of(eager.shape, eager.cases, came)] if came else [])
            for frame in bucket.close(moment(watermark)):
                starts, ends = family.window_start(frame.windows).tolist(), family.window_end(frame.windows).tolist()
                keys = frame.names["k0"].take(frame.keys).to_pylist()
                for key, start, end, row in zip(keys, starts, ends, results_of(eager.shape, frame), strict=True):
                    got[frame.kind, key, start, end] = None if frame.kind == "drained" else row[0]
        if taken:
            assert got == walked(family, taken, drained, PLACED.truth), seed
