"""Triggers that drop the records of a firing, against brute force over raw records.

The model remembers of each pair which of its records a firing has dropped. Windows, conditions and counts are those of
the other models; only what a row has in it is others'.
"""

import copy
import random
from dataclasses import dataclass
from types import MethodType

import numpy as np
import pytest
from eager import Eager
from oracle import seeds
from scenarios.kinds.sessions import Sessions
from scenarios.scenario import Scenario
from test_early import (
    CHOSEN,
    WITH,
    Firings,
    OfFamilies,
    OfKeys,
    compared,
    hearing,
    of_sessions,
    result,
    truth,
)
from test_several import sets
from test_several import stream as several_stream
from test_unbounded import Forever
from test_unbounded import records as unbounded_records

from slicing import InvalidValue, Trigger, counting, cumulating, hopping, session, sliding, tumbling, unbounded
from slicing.engines.looking import Look
from slicing.stages import local_runner
from slicing.stages.preaggregate import ShuffleRecords
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache
from slicing.state.store import MemoryStore
from slicing.triggers.emission import early
from slicing.triggers.own import own
from slicing.windows.families.even import Even

MS = 1000
CONDITIONS = ("count", "count, delay", "key, clock", "event, count", "event delay, count", "when", "when, count")


def purging(model):
    """Let a model drop the records of pairs that fire."""
    model.purged, model.drops = set(), lambda pair, fires: fires
    place = (lambda pair, n: n) if model.disjoint else (lambda pair, n: (pair, n))

    def rows(self, firings, now):
        pairs = self.pairs()
        is_open = {pair: numbers for pair, numbers in pairs.items() if self.is_open(pair)}
        found = {("final", pair): numbers for pair, numbers in pairs.items() if pair not in is_open}
        new = self.records.keys() - self.old
        came, there = [self.records[number][1] for number in new], self.there(pairs)
        self.old |= set(self.records)
        due = firings.due(is_open, now, self.now_at(), came, there, self.records, new)
        found |= {("early", pair): is_open[pair] for pair in due}
        left = {at: [n for n in numbers if place(at[1], n) not in self.purged] for at, numbers in found.items()}
        values = {at: [self.records[n][2] for n in numbers] for at, numbers in left.items() if numbers}
        self.purged |= {place(pair, n) for pair in due for n in is_open[pair]}
        self.forget({number for numbers in is_open.values() for number in numbers})
        return values

    model.rows = MethodType(rows, model)
    return model


def eager(chosen, step):
    def build(seed, trigger):
        one = Eager(chosen, CHOSEN, 3 * step, trigger)
        tell = hearing(one, ShuffleRecords(one.shape, (0,)), trigger)

        def run(batch, now):
            tell(batch[0])
            found = one.step(batch[0], batch[1], now)[0]
            return {(kind, (number, key, *window)): row for (number, kind, key, *window), (row, _) in found.items()}

        model, batches = OfFamilies(chosen, 3 * step), list(several_stream(random.Random(seed), 0, step))
        return run, model, [(each, each[0], each[1]) for each in batches], False

    return build


KINDS = {
    "tumbling": eager([Even(10 * MS, 10 * MS)], 2 * MS),
    "overlapping": eager(*sets()["longest in the middle"][::2]),
    "sessions": of_sessions,
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 6))
@pytest.mark.parametrize("conditions", CONDITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_firing_has_the_records_since_the_one_before(kind, conditions, seed):
    arguments, options = WITH[conditions]
    run, model, batches, disjoint = KINDS[kind](seed, early(**arguments, purge=True))
    firings, rng, kinds = Firings(**options, disjoint=disjoint), random.Random(seed), []
    model.disjoint = disjoint
    purging(model)
    for found in compared(rng, run, model, batches, firings):
        kinds += [kind for kind, _ in found]
    assert kinds.count("early") > 5
    assert "final" in kinds or conditions not in ("count", "when")


@pytest.mark.parametrize("conditions", ["count", "count, delay", "key", "when", "when, count"])
def test_a_window_that_never_closes_drops_them_too(conditions):
    arguments, options = WITH[conditions]
    one, model, firings = Forever(early(**arguments, final=False, purge=True)), OfKeys(), Firings(**options)
    model.disjoint = False
    purging(model)
    tell = hearing(one, ShuffleRecords(one.shape, (0,)), one.emission)
    rng, now, fired = random.Random(7), 0, 0
    for _ in range(40):
        one.held = rng.random() < 0.5
        now += rng.choice([0, 1, 2, 6])
        records = unbounded_records(rng)
        tell(records)
        found = one.step(records, now)
        wanted = model.step(records, 0, firings, now)
        assert found == {
            key: [len(values), *(case.truth(values) for case in one.cases)] for (_, key), values in wanted.items()
        }
        fired += len(found)
        assert one.stored() <= 2 * len({record[1] for record in model.records.values()}) + 2
    assert fired > 20


@dataclass(frozen=True)
class Alternating(Trigger):
    """Fires at `n` records; fires and drops them at twice as many; from three times as many on drops them only."""

    n: int
    purges = True
    state = "fired bigint"

    def on_records(self, windows, at):
        again = windows.records >= 2 * self.n
        fires = (windows.records >= self.n) & (windows["fired"] == 0)
        windows["fired"] = np.where(again, 0, windows["fired"] + fires)
        drops = windows.records >= 3 * self.n
        return np.select([drops, again, fires], [self.PURGE, self.FIRE_AND_PURGE, self.FIRE], self.CONTINUE)

    def on_merge(self, parts, starts):
        return {"fired": np.add.reduceat(parts["fired"], starts)}


class Actions:
    """What `Alternating` does with a pair, from its records that are left."""

    def __init__(self, n, purged, place):
        self.n, self.purged, self.place, self.fired = n, purged, place, {}

    def of(self, pair, numbers, new):
        state = [self.fired.pop(n) for n in numbers if n in self.fired] if self.place(pair, 0) == 0 else None
        fired = sum(state) if state is not None else self.fired.get(pair, 0)
        left = len([n for n in numbers if self.place(pair, n) not in self.purged])
        fires, drops = False, False
        if any(n in new for n in numbers):
            again, drops = left >= 2 * self.n, left >= 3 * self.n
            fires = left >= self.n and fired == 0 and not again
            fired, fires, drops = 0 if again else fired + fires, (fires or again) and not drops, again
        self.fired[numbers[0] if state is not None else pair] = fired
        return fires, drops


@pytest.mark.parametrize("seed", seeds(1, 6))
@pytest.mark.parametrize("kind", KINDS)
def test_a_trigger_of_ones_own_drops_what_it_says(kind, seed):
    run, model, batches, disjoint = KINDS[kind](seed, own(Alternating(2)))
    rng, seen = random.Random(seed), []
    place = (lambda pair, n: n) if disjoint else (lambda pair, n: (pair, n))
    purged = set()
    actions = Actions(2, purged, place)
    for now, (batch, records, watermark) in enumerate(batches, 1):
        if rng.random() < 0.5:
            bucket_cache._entries.clear()

        def rows(self, firings, now):
            pairs = self.pairs()
            is_open = {pair: numbers for pair, numbers in pairs.items() if self.is_open(pair)}
            new = self.records.keys() - self.old
            self.old |= set(self.records)
            found = {("final", pair): numbers for pair, numbers in pairs.items() if pair not in is_open}
            drops = []
            for pair, numbers in is_open.items():
                fires, dropped = actions.of(pair, numbers, new)
                found |= {("early", pair): numbers} if fires else {}
                drops += [place(pair, n) for n in numbers] if dropped else []
            left = {at: [n for n in numbers if place(at[1], n) not in purged] for at, numbers in found.items()}
            purged.update(drops)
            values = {at: [self.records[n][2] for n in numbers] for at, numbers in left.items() if numbers}
            self.forget({number for numbers in is_open.values() for number in numbers})
            return values

        model.rows = MethodType(rows, model)
        found = {at: result(row) for at, row in run(batch, now).items()}
        wanted = model.step(records, watermark, None, now)
        assert found == {at: truth(values)[1:] for at, values in wanted.items()}
        seen += [kind for kind, _ in found]
    assert seen.count("early") > 5


def test_a_lookup_leaves_out_sessions_whose_records_have_been_dropped():
    window = session("10 milliseconds")
    one = Scenario(Sessions(window), early(records=2, purge=True), results=("sum",))
    one.emit([(0, 1, 5, 0), (1000, 1, 6, 0), (0, 2, 7, 0)], 0)
    found = [row for windows in one.bucket().look(Look()) for row in zip(windows.keys, windows.records, strict=True)]
    assert [records for _, records in found] == [1]
    one.emit([(2000, 1, 8, 0)], 0)
    assert [int(n) for windows in one.bucket().look(Look()) for n in windows.records] == [1, 1]


def test_a_micro_batch_that_runs_again_drops_the_same_records():
    one = Eager([Even(10 * MS, 10 * MS)], CHOSEN, 0, early(records=3, after="3 milliseconds", purge=True))
    store = next(each for each in one.bucket.args if isinstance(each, MemoryStore))
    for now, (records, watermark, _) in enumerate(several_stream(random.Random(5), 0, 2 * MS)):
        before = copy.deepcopy(vars(store))
        first, _ = one.step(records, watermark, now)
        vars(store).update(before)
        assert one.step(records, watermark, now)[0] == first


@pytest.mark.parametrize(
    ("window", "tree", "message"),
    [
        (hopping("1 hour", "1 minute"), "auto", r"overlap .* stored R = 60 times.*`\.assemble\(\"eager\"\)`"),
        (cumulating("1 hour", "1 minute"), "auto", r"windows that overlap share them"),
        (hopping("1 hour", "1 minute"), "two_layer", r"which trees of slices share; got `two_layer`"),
        (sliding("1 minute"), "auto", r"sliding windows share theirs"),
        (counting(3), "auto", r"a window of counting\(3\) fires once"),
    ],
)
@pytest.mark.parametrize("trigger", [early(records=3, purge=True), own(Alternating(2))], ids=str)
def test_windows_that_share_records_refuse_it(window, tree, message, trigger):
    with pytest.raises(InvalidValue, match=message):
        support_of(window).check(tree, False, trigger, True)


def test_windows_with_records_of_their_own_take_it():
    trigger = early(records=3, final=False, purge=True)
    for window, tree in [
        (tumbling("1 hour"), "auto"),
        (session("1 hour"), "auto"),
        (unbounded(), "auto"),
        (hopping("1 hour", "1 minute"), "eager"),
    ]:
        support_of(window).check(tree, False, trigger, True)


def test_a_trigger_says_that_it_purges():
    class Silent(Alternating):
        purges = False

        def on_records(self, windows, at):
            return np.full(len(windows), self.PURGE)

    with pytest.raises(InvalidValue, match=r"returned PURGE, .* Give it `purges = True`"):
        own(Silent(2))
    with pytest.raises(InvalidValue, match="Leave out one of them"):
        early(every="1 second", repeat=True, purge=True)
    assert str(early(records=3, purge=True)) == "early(records=3, per='window', purge=True)"


@pytest.mark.parametrize("window", [tumbling("1 second"), session("1 second"), unbounded()], ids=str)
def test_a_timeline_shows_firings_that_drop_their_records(window):
    trigger = early(records=2, per="window", final=window.closes, purge=True)
    support_of(window).check("auto", False, trigger, streaming=True)
    replay = local_runner.stream(window, [[100_000], [200_000], [300_000], [5_000_000]], 0, trigger)
    found = [(row.emission, row.batch, row.records) for row in replay.rows]
    assert found == [("early", 1, 2), *([("final", 4, 1)] if window.closes else [("early", 3, 2)])]


@pytest.mark.parametrize("clock", [None, [0, 100_000, 300_000, 5_000_000]])
def test_a_timeline_counts_late_records_of_windows_that_drop_theirs(clock):
    trigger = early(records=2, per="window", purge=True)
    times = [[100_000, 200_000], [5_000_000], [300_000], [5_100_000, 300_000]]
    replay = local_runner.stream(tumbling("1 second"), times, 0, trigger, clock=clock, by_clock=clock is not None)
    if clock is None:
        assert [each.outcomes for each in replay.batches][2:4] == [("taken",), ("taken", "late")]
    assert replay.rows[0].records == 2
