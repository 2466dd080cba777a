"""Chains of live changes, lookups and histories in any order, of every kind under every trigger, against the records.

::

    history | records | change | records | lookup | change | records | a process is lost | records ...
"""

import random
from collections import Counter

import pytest
from scenarios.changes import has_edges_of, lack
from scenarios.kind import MIXED, MS, PARTIALS, RECORDS
from scenarios.kinds import KINDS
from scenarios.kinds.calendar import DaysByEnd
from scenarios.kinds.even import Even
from scenarios.kinds.sessions import made as made_session
from scenarios.kinds.several import several
from scenarios.kinds.tailed import Coarse
from scenarios.lookups import Lookups
from scenarios.scenario import Process, Scenario
from scenarios.streams import stream
from test_scenarios import TRIGGERS, allowed, for_seeds, in_turns

from slicing.errors import StateMismatch
from slicing.triggers.emission import early, on_close
from slicing.triggers.trigger import CHANGED
from slicing.windows.families.family import TAILED

CHAINS = list(allowed())
RESULTS = ("sum", "highest", "rows", "most", "parity", "joined")
COMPARED = ("sum", "highest", "most", "parity")
EXCHANGED = ("close", "corrections", "old", "discarding", "update", "newest"), ("change", "change, drained")
"""Triggers that may take the place of one another."""


class Chain:
    """A scenario that changes: to windows over its edges, other results, triggers, grace, `retain`."""

    def __init__(self, rng, kind, content, trigger):
        self.rng, self.origin, self.trigger = rng, KINDS[kind](rng), trigger
        self.pool = {repr(part.window): part for part in self.origin.parts}
        others = [self.origin.other(rng) for _ in range(3)] if self.origin.timed else []
        if kind == "side by side":
            others = [Even.of(rng.randrange(1, 30), 1) for _ in range(3)]
        self.pool |= {repr(each.window): each for each in others if each is not None}
        self.fixed = (MIXED, RECORDS) if self.origin.window.counts else (MIXED,)  # results depend on their places
        self.content = content
        self.made = Scenario(
            self.origin, TRIGGERS[trigger], self.grace(trigger), content, self.results(trigger, content),
            retain=self.retain(self.origin), adapts=True,
        )  # fmt: skip
        self.made.process = Process(rng, rng.choice(["nothing", "some", "all"]))

    def grace(self, trigger):
        some = [max(1000, each // 1000 * 1000) for each in (self.origin.step, self.origin.reach)]
        return self.rng.choice(some if TRIGGERS[trigger].fires_late else [0, *some])

    def retain(self, kind):
        """How long slices are retained; those that are merged for a tail, and pages of windows, are not."""
        tails = any(part.window.family.assembled == TAILED for part in kind.parts)
        may = kind.timed and self.content == PARTIALS and not tails
        return self.rng.choice([0, 0, 2, 5]) * self.origin.reach if may else 0

    def results(self, trigger, content=None):
        if content == MIXED:
            return ("joined", "joined", "sum")
        of = COMPARED if CHANGED in TRIGGERS[trigger].asks else RESULTS
        of = [each for each in of if each != "joined" or each in self.origin.results]
        return tuple(self.rng.sample(of, self.rng.choice([1, 2, 3])))

    def windows(self):
        """Some windows, and whether they are in one row."""
        if not self.origin.timed:
            return self.origin
        left_out = isinstance(self.origin.parts[0], DaysByEnd)  # which are said for wide rows only
        least = 2 if left_out else 1
        chosen = self.rng.sample(list(self.pool.values()), self.rng.randint(least, min(3, len(self.pool))))
        wide = self.origin.window.wide and len(chosen) > 1 and (left_out or self.rng.random() < 0.8)
        reach = max(each.reach for each in chosen)
        return several(*chosen, reach=reach, wide=wide) if len(chosen) > 1 else chosen[0]

    def begun(self, batches):
        """What is left of some micro-batches for the stream: in some chains the first ones are a history."""
        of, kind = self.trigger, self.origin
        if self.rng.random() < 0.6 or "early" in of or kind.grows:  # as what they fire first is not said
            return batches
        until, history, live = loaded(self.rng, kind, batches)
        self.made.load(history, until, self.rng.choice([1, 2]))
        self.made.seen["loaded"] += 1
        return live

    def change(self):
        """Another query; what is refused is said by the rules, and leaves all as it is."""
        rng, made = self.rng, self.made
        if made.store.text is None:
            return  # nothing is there that changes
        kind = self.windows() if rng.random() < 0.7 else made.kind
        alike = next((some for some in EXCHANGED if self.trigger in some), [self.trigger])
        trigger = rng.choice(alike) if rng.random() < 0.3 else self.trigger
        if not kind.allows(TRIGGERS[trigger]):
            trigger = self.trigger
        if not kind.allows(TRIGGERS[trigger]):
            return
        compares = CHANGED in TRIGGERS[trigger].asks
        results = made.names
        if made.content not in self.fixed and (rng.random() < 0.5 or (compares and not {*results} <= {*COMPARED})):
            results = self.results(trigger)
        grace = self.grace(trigger) if rng.random() < 0.3 or TRIGGERS[trigger].fires_late else made.grace
        why = refused(made, self.origin, kind, TRIGGERS[trigger], results)
        wanted = TRIGGERS[trigger], kind, results, grace, self.retain(kind)
        if why:
            state = made.store.text
            with pytest.raises(StateMismatch):
                made.change(*wanted)
            assert made.store.text == state
            made.seen["refused"] += 1
        else:
            made.change(*wanted)
            self.trigger = trigger
            made.seen["changed"] += 1


def refused(made, origin, kind, trigger, results):
    """Why a change is refused, by the rules of the documentation; "" if it is not."""
    held, wanted = ({repr(part.window) for part in each.parts} for each in (made.kind, kind))
    added = [each for each in results if each not in made.names]
    once = trigger.fires_once and trigger.asks == TRIGGERS["close"].asks
    begins = wanted != held or (kind.timed and lack(made.call.parts))
    if begins and kind.window.wide and not (once and made.content == PARTIALS):
        return "windows of wide rows"
    if wanted != held and not has_edges_of(origin, kind):
        return "edges"
    if wanted - held and made.family.has_gaps:
        return "gaps"
    if added and not (made.kind.window.closes and made.kind.window.by_time):
        return "added"
    return ""


def loaded(rng, kind, batches):
    """Where the history of a stream ends, its records, and the micro-batches after it."""
    cut = rng.randrange(1, len(batches) - 2)
    times = [record[0] for records, *_ in batches[:cut] for record in records if record[0] is not None]
    until = max(times, default=kind.begin) // 1000 * 1000 + rng.choice([0, 1000, kind.step // 1000 * 1000])
    live = [([r for r in records if r[0] is None or r[0] >= until], *when) for records, *when in batches[cut:]]
    return max(until, 0), [record for records, *_ in batches for record in records], live


def run(rng, kind, content, trigger, batches):
    """A random chain; what was seen of it."""
    chain = Chain(rng, kind, content, trigger)
    made, lookups = chain.made, Lookups(chain.made)
    for records, watermark, now in chain.begun(list(stream(rng, made.kind, batches=batches))):
        if rng.random() < 0.25:
            chain.change()
        if rng.random() < 0.1:
            made.fail(records, watermark, now, rng.choice([0, 1, 1000]))
        made.step(records, watermark, now, partitions=rng.choice([1, 2]))
        if rng.random() < 0.3:
            lookups.check(rng)
    made.drain()
    return made.seen


@pytest.mark.parametrize(("kind", "content", "trigger"), list(in_turns(3)))
def test_chains_are_as_the_records_say(kind, content, trigger, monkeypatch):
    for_seeds(
        f"chains {kind} {content} {trigger}",
        range(1),
        monkeypatch,
        lambda rng: run(rng, kind, content, trigger, 8 if content == PARTIALS else 5),
    )


@pytest.mark.long
@pytest.mark.parametrize(("kind", "content", "trigger"), CHAINS)
def test_more_chains_are_as_the_records_say(kind, content, trigger, monkeypatch):
    for_seeds(
        f"more chains {kind} {content} {trigger}",
        range(4),
        monkeypatch,
        lambda rng: run(rng, kind, content, trigger, 24),
    )


def test_records_of_windows_that_have_closed_do_not_wait_in_longer_ones():
    """Their marks may be stored still; those in windows that are open wait."""
    made = Scenario(Even.of(5, 5), early(records=3), results=("rows",), retain=60 * MS, adapts=True)
    made.step([(1 * MS, 1, 5), (2 * MS, 1, 5), (6 * MS, 2, 5), (7 * MS, 2, 5)], 0)
    made.step([(6 * MS, 1, 5)], 5)
    made.change(kind=Even.of(20, 5), retain=60 * MS)
    assert not made.step([(8 * MS, 1, 5)], 5)
    assert made.step([(8 * MS, 2, 5)], 5).keys() == {("early", 2, 0, at, at + 20 * MS) for at in (0, 5 * MS)}
    assert made.step([(9 * MS, 1, 5)], 5)
    made.drain()


def test_records_of_windows_that_are_removed_do_not_wait_in_gaps_of_others():
    """They count for no window of their key that is left."""
    kept, removed = Even.of(2, 10), Even.of(2, 10, 5)
    made = Scenario(several(kept, removed), early(records=3), results=("rows",), adapts=True)
    made.step([(6 * MS, 1, 5)], 0)
    made.change(kind=kept)
    assert not made.step([(11 * MS, 1, 5), (11 * MS, 1, 5)], 0)
    assert made.step([(11 * MS, 1, 5)], 0)
    made.drain()


def test_added_windows_end_where_slices_stay_separate():
    """Not at an edge that only windows know which the same change removes, as slices before may be merged."""
    short, long = Even.of(5, 1), Even.of(44, 8)
    made = Scenario(several(Coarse.of(12, 1, 4), short, long), on_close(), results=("rows",), adapts=True)
    for at in range(30):
        made.step([(at * MS, 1, 5)], at)
    made.change(kind=several(short, long))
    made.step([(30 * MS, 1, 5)], 29)
    made.change(kind=Even.of(2, 3, 1), grace=16 * MS)  # else they would begin after all that are merged
    made.step([(31 * MS, 1, 5)], 29)
    made.drain()


def test_sessions_that_have_fired_are_forgotten_under_a_trigger_without_corrections():
    """A record that touches one begins another session."""
    made = Scenario(made_session("7 milliseconds", late_by="session"), on_close(corrections=True), 10 * MS, adapts=True)
    made.step([(1 * MS, 1, 5)], 9)
    made.change(on_close())
    made.step([(5 * MS, 1, 5)], 9)
    assert Lookups(made).ask().keys() == {(1, 0, 5 * MS, 12 * MS)}
    Lookups(made).check(random.Random(0))
    made.drain()


def test_chains_find_what_they_are_for():
    """Changes and refusals, results that are null for a while, windows that are whole and some that are not."""
    seen = Counter()
    for kind in ("hopping", "tail", "side by side", "hopping, gaps"):
        seen += run(random.Random(f"seen {kind}"), kind, PARTIALS, "close", 24)
    wanted = ("changed", "refused", "null", "looked up", "looked up, other", "whole", "not whole", "final", "loaded")
    assert min(seen[each] for each in wanted) > 1, seen


@pytest.mark.parametrize("final", [False, True])
def test_added_windows_fire_at_their_end_for_the_slices_that_were_retained(final):
    """Slices from before the windows that were open, which no trigger has counted since."""
    short, long = Even.of(5, 5), Even.of(20, 5)
    trigger = early(on_time=True, late=True, final=final)
    made = Scenario(short, trigger, 5 * MS, results=("sum",), retain=40 * MS, adapts=True)
    made.step([(1 * MS, 1, 7)], 0, 0)
    made.step([(13 * MS, 2, 5)], 12, 0)
    made.step([], 12, 0)
    made.change(kind=several(short, long))
    rows = made.step([], 21, 0)
    assert rows["on_time", 1, 1, 0, 20 * MS][0][1] == 7
    made.step([(6 * MS, 1, 2)], 22, 0)
    made.drain()
