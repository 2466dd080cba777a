"""Every kind of windows that time decides, as a stream and as bounded input, against windows tried one by one.

The truth asks a family for the edges of windows only, not for slices: a record is in the windows whose edges enclose
its time. Streams have disorder, late records, gaps and closes over many windows at once.
"""

import random
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from oracle import CASES, FINGERPRINT, assert_right, block_of, moment, results, shape_of

from slicing.assembly.assembling import assemble, without_repeats
from slicing.assembly.choice import choose
from slicing.content.folding import fold
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.state.store import MemoryStore
from slicing.triggers.emission import ON_CLOSE, on_change, on_update
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.families.cumulating import Cumulating
from slicing.windows.families.even import Even
from slicing.windows.families.family import OverSharedCut
from slicing.windows.families.slices_of import SlicesOf
from slicing.windows.families.stepped import Stepped
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import Every, Listed
from slicing.windows.time.local import Local
from slicing.windows.time.zones import Zone

MS, HOUR = 10**3, 3600 * 10**6


@dataclass(frozen=True)
class Kind:
    """A family, the instant at which streams begin, and the length of its shortest step."""

    family: object
    begin: int = 0
    unit: int = 2 * MS
    wanted: int = 15


@cache
def kinds():
    berlin, lord_howe = Zone.of("Europe/Berlin"), Zone.of("Australia/Lord_Howe")
    spring, autumn = 1_774_656_000 * 10**6, 1_775_300_000 * 10**6
    lists = Listed([0, 10 * MS, 25 * MS, 25 * MS, 60 * MS]), Listed([8 * MS, 30 * MS, 40 * MS, 41 * MS, 90 * MS])
    steps = Cumulating(Every(6 * MS), Every(2 * MS))
    return {
        "cumulating": Kind(steps),
        "cumulating, long": Kind(Cumulating(Every(60 * MS, 500), Every(MS, 500)), unit=MS),
        "cumulating in a zone": Kind(Cumulating(Local("day", 1, berlin), Local("hour", 6, berlin)), spring, 5 * HOUR),
        "tumbling in a zone": Kind(Stepped(Local("day", 1, lord_howe), 1, 1), autumn, 9 * HOUR),
        "hopping in a zone": Kind(Stepped(Local("day", 1, berlin), 1, 7), spring, 11 * HOUR),
        "by lists": Kind(ByEdges(*lists), wanted=3),
        "by edges": Kind(ByEdges(Every(7 * MS), Every(7 * MS, 10 * MS)), unit=3 * MS),
        "steps": Kind(Stepped(Every(2 * MS), 2, 5, 1)),
        "gaps": Kind(Stepped(Every(2 * MS), 3, 2)),
        "slices": Kind(SlicesOf(Even(10 * MS, 4 * MS))),
        "cumulating, other edges": Kind(OverSharedCut(steps, Cut([Every(2 * MS), Every(3 * MS)]))),
        "hopping, other edges": Kind(OverSharedCut(Even(10 * MS, 2 * MS), Cut([Every(2 * MS), Every(5 * MS)]))),
    }


def windows_of(family, time):
    """The windows that hold an instant, each of many tried; those that repeat the one before do not count."""
    near = int(family.last_window(family.slice_at(time)))
    tried = np.arange(near - 90, near + 91)
    start, end = family.window_start(tried), family.window_end(tried)
    again = np.append(False, (np.diff(start) == 0) & (np.diff(end) == 0))
    return tried[(start <= time) & (time < end) & ~again].tolist()


class World:
    """A bucket driven by random micro-batches, and the values that every (key, window) must hold."""

    def __init__(self, kind, names, seed, grace=0, emission=ON_CLOSE):
        self.kind, self.family, self.grace, self.emission = kind, kind.family, grace, emission
        self.rng, self.cases = random.Random(seed), [CASES[name] for name in names]
        self.shape = shape_of(self.family, self.cases)
        self.trees = [choose(kernel, self.family) for kernel in self.shape.kernels]
        self.store, self.watermark, self.now = MemoryStore(), 0, kind.begin
        self.records, self.held = [], defaultdict(list)
        self.late, self.true_late = [0, 0], [0, 0]

    def step(self):
        """One micro-batch; what went out, and what had a record."""
        rng, unit = self.rng, self.kind.unit
        came = [
            (max(0, self.now + rng.randrange(-12 * unit, 2 * unit)), rng.randrange(3), rng.randrange(-50, 100))
            for _ in range(rng.choice([0, 1, 5, 20]))
        ]
        self.now += rng.choice([0, unit // 4, unit, 4 * unit, 40 * unit if rng.random() < 0.1 else 0])
        touched = {(record[1], window) for record in came for window in self._judged(record)}
        out = self.micro_batch(came, max(self.watermark, (self.now - rng.randrange(6 * unit)) // 1000))
        return out, touched

    def _judged(self, record):
        windows = windows_of(self.family, record[0])
        opened = [w for w in windows if self.family.window_end(w) + self.grace > self.watermark * 1000]
        self.true_late[0] += bool(windows) and not opened
        self.true_late[1] += 0 < len(opened) < len(windows)
        if opened:
            self.records.append((record, opened))
        return opened

    def bucket(self):
        return SlicedBucket(self.shape, self.trees, self.grace, FINGERPRINT, self.store, self.emission)

    def micro_batch(self, came, watermark):
        bucket = self.bucket()
        inside = [r for r in came if not self.shape.family.in_gap(self.family.slice_at(r[0]))]
        half = len(inside) // 2
        late = bucket.accept(
            [block_of(self.shape, self.cases, part) for part in (inside[:half], inside[half:]) if part]
        )
        self.late = [self.late[0] + late.all, self.late[1] + late.some]
        self.watermark = watermark
        out = results(self.shape, list(bucket.close(moment(watermark))))
        self.bucket().check()
        return out

    def truth(self, records=None):
        held = defaultdict(list)
        for record, windows in sorted(records or self.records, key=lambda r: int(self.family.slice_at(r[0][0]))):
            for window in windows:
                held[record[1], window].append(record[2])
        return held


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("names", "seed", "grace"), [(("sum", "floats", "joined"), 1, 0), (("rows", "highest"), 2, 3)], ids=str
)
@pytest.mark.parametrize("name", kinds())
def test_a_stream_of_any_kind_puts_out_what_its_windows_hold(name, names, seed, grace):
    world, got = World(kinds()[name], names, seed, grace * kinds()[name].unit), {}
    for _ in range(20):
        out, _ = world.step()
        assert not out.keys() & got.keys(), "a window goes out once"
        got |= out
    got |= world.micro_batch([], 1 << 43)
    assert_right(got, world.truth(), world.cases)
    assert world.late == world.true_late
    assert not world.store.pages
    assert len(got) >= kinds()[name].wanted


@pytest.mark.parametrize("name", kinds())
def test_bounded_input_of_any_kind_equals_its_stream_to_the_last_bit(name):
    world, got = World(kinds()[name], ("floats", "variance"), 5, 60 * kinds()[name].unit), {}
    for _ in range(20):
        got |= world.step()[0]
    got |= world.micro_batch([], 1 << 43)
    taken = [record for record, _ in world.records]
    if world.true_late != [0, 0]:
        pytest.fail("a stream in which nothing is late was wanted")
    rows = fold(world.shape, [block_of(world.shape, world.cases, taken)])
    frames = without_repeats(world.family, assemble(world.shape, world.trees, rows))
    bounded = results(world.shape, list(frames))
    assert bounded.keys() == got.keys()
    assert_right(bounded, world.truth(), world.cases)


@pytest.mark.parametrize("name", kinds())
def test_updates_of_any_kind_are_of_the_open_windows_that_got_a_record(name):
    world = World(kinds()[name], ("sum",), 7, 0, on_update())
    for _ in range(20):
        out, touched = world.step()
        held = world.truth()
        assert out.keys() == touched
        assert all(row[1] == sum(held[place]) for place, row in out.items())


@pytest.mark.parametrize("name", kinds())
def test_the_newest_window_of_any_kind_is_the_first_open_one_with_the_newest_record(name):
    world = World(kinds()[name], ("sum",), 8, 0, on_update(latest_only=True))
    for _ in range(20):
        before = world.watermark
        out, touched = world.step()
        held, newest = world.truth(), defaultdict(lambda: -(1 << 62))
        for (time, key, _), _ in world.records:
            newest[key] = max(newest[key], int(world.family.slice_at(time)))
        for (key, window), row in out.items():
            assert (key, window) in touched
            assert row[1] == sum(held[key, window])
            start = int(world.family.slice_start(newest[key]))
            assert world.family.window_start(window) <= start < world.family.window_end(window)
            assert world.family.window_end(window) > before * 1000
        assert len({key for key, _ in out}) == len(out), "a key has one row at most"


@pytest.mark.parametrize("name", kinds())
def test_changes_of_any_kind_are_the_windows_that_differ_from_the_one_before(name):
    world, got = World(kinds()[name], ("sum",), 9, 0, on_change()), {}
    for _ in range(20):
        got |= world.step()[0]
    got |= world.micro_batch([], 1 << 43)
    held = world.truth()
    sums = {place: sum(values) for place, values in held.items()}
    wanted = {(k, w): total for (k, w), total in sums.items() if sums.get((k, w - 1)) != total}
    assert {place: row[1] for place, row in got.items()} == wanted
