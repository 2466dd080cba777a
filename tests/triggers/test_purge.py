"""Triggers that drop the records of a firing, against brute force over raw records.

Windows, conditions and counts are those of other triggers; only what a row has in it is others'.
"""

import random
from dataclasses import dataclass

import numpy as np
import pytest
from oracle import FINGERPRINT, seeds
from scenarios.due import DUE, Pairs
from scenarios.kind import PARTIALS, RECORDS
from scenarios.kinds import KINDS as WINDOWS
from scenarios.kinds.even import Even
from scenarios.kinds.sessions import Sessions
from scenarios.scenario import Process, Scenario
from test_early import WITH, stepped

from slicing import InvalidValue, Trigger, counting, cumulating, hopping, session, sliding, tumbling, unbounded
from slicing.engines.looking import Look
from slicing.engines.unbounded.bucket import TOTALS
from slicing.stages import local_runner
from slicing.stages.support_of import support_of
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.triggers.emission import early
from slicing.triggers.own import own

CONDITIONS = ("count", "count, delay", "key, clock", "event, count", "event delay, count", "when", "when, count")
KINDS = {
    "tumbling": (lambda rng: Even.of(10, 10), RECORDS),
    "overlapping": (WINDOWS["several, the longest in the middle"], RECORDS),
    "sessions": (WINDOWS["sessions"], PARTIALS),
    "unbounded": (WINDOWS["unbounded"], PARTIALS),
}
"""Windows that may drop their records."""


def scenario(rng, name, trigger):
    """Windows of `KINDS`, with any grace; their process may lose what it caches."""
    made, content = KINDS[name]
    kind = made(rng)
    grace = rng.choice([0, 3 * kind.step]) // 1000 * 1000
    made = Scenario(kind, trigger, grace, content, ("sum", "highest"))
    made.process = Process(rng, rng.choice(["nothing", "some", "all"]))
    return made


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 6))
@pytest.mark.parametrize("conditions", CONDITIONS)
@pytest.mark.parametrize("kind", ["tumbling", "overlapping", "sessions"])
def test_a_firing_has_the_records_since_the_one_before(kind, conditions, seed):
    rng, kinds = random.Random(f"{kind} {conditions} {seed}"), []
    for _ in range(4):
        made = scenario(rng, kind, early(**WITH[conditions], purge=True))
        for rows in stepped(rng, made, 20):
            kinds += [place[0] for place in rows]
        made.drain()
        if kinds.count("early") > 5 and "final" in kinds:
            break
    assert kinds.count("early") > 5
    assert "final" in kinds or conditions not in ("count", "when")


@pytest.mark.parametrize("conditions", ["count", "count, delay", "key", "when", "when, count"])
def test_a_window_that_never_closes_drops_them_too(conditions):
    rng = random.Random(conditions)
    made, fired = scenario(rng, "unbounded", early(**WITH[conditions], final=False, purge=True)), 0
    for rows in stepped(rng, made, 60):
        fired += len(rows)
        stored = PageLists(Pages(made.store, FINGERPRINT, [0]), TOTALS, made.shape).read(TOTALS)
        assert sum(map(len, stored)) <= 2 * len(made.call.parts[0].held) + 2
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


class Alternates(Pairs):
    """What `Alternating` does with a window, from its records that are left."""

    def __init__(self, trigger):
        super().__init__(trigger)
        self.fired = {}  # of windows that merge, by a record of theirs

    def chosen(self, pairs, batch):
        n, fires, drops = self.trigger.n, [], []
        for pair, held in pairs.items():
            marks = [self.mark(pair, record) for record in held]
            fired, left = sum(self.fired.pop(mark, 0) for mark in marks), len(self.left(pair, held))
            if any(record.number in batch.new for record in held):
                again = left >= 2 * n
                fires += [pair] if (left >= n and not fired and not again) or 3 * n > left >= 2 * n else []
                drops += [pair] if again else []
                fired = 0 if again else fired + (left >= n and not fired)
            self.fired[marks[0]] = fired
        return fires, drops


@pytest.mark.parametrize("seed", seeds(1, 6))
@pytest.mark.parametrize("kind", ["tumbling", "overlapping", "sessions"])
def test_a_trigger_of_ones_own_drops_what_it_says(kind, seed, monkeypatch):
    monkeypatch.setitem(DUE, Alternating, Alternates)
    rng, fired = random.Random(f"own {kind} {seed}"), 0
    for _ in range(4):
        made = scenario(rng, kind, own(Alternating(2)))
        for _ in stepped(rng, made, 20):
            pass
        made.drain()
        fired += made.seen["early"]
        if fired > 5:
            break
    assert fired > 5


def test_a_lookup_leaves_out_sessions_whose_records_have_been_dropped():
    window = session("10 milliseconds")
    one = Scenario(Sessions(window), early(records=2, purge=True), results=("sum",))
    one.emit([(0, 1, 5, 0), (1000, 1, 6, 0), (0, 2, 7, 0)], 0)
    found = [row for windows in one.bucket().look(Look()) for row in zip(windows.keys, windows.records, strict=True)]
    assert [records for _, records in found] == [1]
    one.emit([(2000, 1, 8, 0)], 0)
    assert [int(n) for windows in one.bucket().look(Look()) for n in windows.records] == [1, 1]


def test_a_micro_batch_that_runs_again_drops_the_same_records():
    rng = random.Random(5)
    made = scenario(rng, "tumbling", early(records=3, after="3 milliseconds", purge=True))
    for _ in stepped(rng, made, 25, fails=1):
        pass
    assert made.seen["early"] > 5


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
