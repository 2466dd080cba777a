"""The hook `clear` of a user's own trigger against brute force: which pairs are forgotten, with what they are then."""

import random
from collections import Counter
from dataclasses import dataclass, field
from types import MethodType

import numpy as np
import pytest
from eager import Eager
from oracle import seeds
from test_early import CHOSEN, KINDS, result, truth
from test_purge import KINDS as PURGED
from test_several import Together
from test_unbounded import Forever
from test_unbounded import records as unbounded_records

from slicing import Trigger
from slicing.errors import FunctionFailed, InvalidValue
from slicing.state import bucket_cache
from slicing.triggers.own import own
from slicing.windows.families.even import Even


@dataclass(frozen=True)
class Counted(Trigger):
    """Counts the records of each pair in its state; with `n` fires and purges so many. `log` has what is forgotten."""

    n: int = 10**9
    final: bool = True
    log: list = field(default_factory=list, repr=False, compare=False)
    state = "seen bigint"
    purges = True

    def on_records(self, windows, at):
        windows["seen"] = windows["seen"] + windows.came
        return np.where(windows.records >= self.n, self.FIRE_AND_PURGE, self.CONTINUE)

    def on_merge(self, parts, starts):
        return {"seen": np.add.reduceat(parts["seen"], starts)}

    def clear(self, windows, at):
        fields = windows.start, windows.end, windows.records, windows.came, windows["seen"]
        self.log.extend(zip(*(each.tolist() for each in fields), strict=True))
        windows["seen"] = 0


@dataclass(frozen=True)
class Kept(Counted):
    """The same on windows that share records."""

    purges = False

    def on_records(self, windows, at):
        return super().on_records(windows, at) * 0


def clearing(model, n, disjoint):
    """Let a model note in `cleared` what closes, and drop the records of pairs with `n` or more."""
    place = (lambda pair, number: number) if disjoint else (lambda pair, number: (pair, number))
    model.cleared, dropped, before = Counter(), set(), {}

    def rows(self, firings, now):
        pairs, self.cleared = self.pairs(), Counter()
        new, values = self.records.keys() - self.old, {}
        self.old |= set(self.records)
        for pair, numbers in pairs.items():
            came = [n for n in numbers if n in new or (not disjoint and pair not in before)]
            left = [n for n in numbers if place(pair, n) not in dropped]
            closes = not self.is_open(pair)
            drops = not closes and bool(came) and len(left) >= n
            if (closes and left) or drops:
                values["final" if closes else "early", pair] = [self.records[n][2] for n in left]
            if closes or drops:
                seen = len(left) - len(came) * closes
                self.cleared[(*pair[-2:], len(left), len(came), seen)] += 1
            if drops:
                dropped.update(place(pair, n) for n in numbers)
        kept = {number for pair, numbers in pairs.items() if self.is_open(pair) for number in numbers}
        before.clear()
        before.update(pairs)
        self.forget(kept)
        return values

    model.rows = MethodType(rows, model)
    return model


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize(
    ("kind", "trigger"), [*((each, Kept()) for each in KINDS), *((f"{each}, purged", Counted(4)) for each in PURGED)]
)
def test_what_is_forgotten_is_what_closes_and_what_is_purged(kind, trigger, seed):
    run, model, batches, disjoint = {**KINDS, **{f"{name}, purged": each for name, each in PURGED.items()}}[kind](
        seed, own(trigger)
    )
    rng, cleared, now = random.Random(seed), Counter(), 0
    clearing(model, trigger.n, disjoint)
    for batch, records, watermark in batches:
        if rng.random() < 0.5:
            bucket_cache._entries.clear()  # another process goes on
        now += rng.choice([0, 1, 2, 6])
        trigger.log.clear()
        found = {place: result(row) for place, row in run(batch, now).items()}
        wanted = model.step(records, watermark, None, now)
        assert found == {place: truth(values)[1:] for place, values in wanted.items()}
        assert Counter(trigger.log) == model.cleared
        cleared += model.cleared
    assert cleared.total() > 5
    assert any(seen for *_, seen in cleared)


def test_keys_of_a_window_that_never_closes_are_forgotten_once():
    trigger = Counted(final=False)
    one, rng, now, total = Forever(own(trigger), ttl=7), random.Random(4), 100, 0
    for step in range(150):
        one.held, now = rng.random() < 0.5, now + rng.choice([0, 1, 3, 9 * (step % 5 == 0)])
        trigger.log.clear()
        idle = [key for key, last in one.last.items() if last < now - one.ttl]
        wanted = Counter((len(one.values[key]), 0, len(one.values[key])) for key in idle)
        one.step(unbounded_records(rng), now)
        assert Counter(row[2:] for row in trigger.log) == wanted
        total += len(idle)
    assert total > 20


def test_windows_have_fired_when_they_are_forgotten_and_nothing_is_asked_about_none():
    fired, family = [], Even(10_000, 10_000)

    @dataclass(frozen=True)
    class Ordered(Kept):
        def clear(self, windows, at):
            assert len(windows)
            fired.append((at.watermark, at.clock, windows.records.tolist(), windows.came.tolist()))

    one = Together([family], CHOSEN, 0, own(Ordered()))
    fired.clear()  # it has been tried
    one.step([(1000, 1, 5)], 0, 1)
    one.step([], 9, 2)
    assert fired == []
    found, _ = one.step([], 10, 3)
    assert [place[1] for place in found] == ["final"]
    assert fired == [(10_000, 3000, [1], [0])]
    one.step([], 30, 4)
    assert len(fired) == 1
    one.step([(31_000, 1, 5)], 30, 5)
    one.step([(32_000, 1, 5)], 40, 6)
    assert fired[1:] == [(40_000, 6000, [2], [1])]


@dataclass(frozen=True)
class Fragile(Counted):
    def clear(self, windows, at):
        if (windows.records > 2).any():
            raise ZeroDivisionError("too many")


def test_a_hook_that_fails_names_the_key_and_the_window():
    one = Eager([Even(10_000, 10_000)], CHOSEN, 0, own(Fragile()))
    one.step([(1000, each, 5) for each in (1, 2, 2, 2)], 0)
    with pytest.raises(FunctionFailed, match=r"`Fragile.clear` raised ZeroDivisionError.*key \(2,\) in window \["):
        one.step([], 10)


def test_it_is_no_hook_that_fires():
    class Only(Trigger):
        def clear(self, windows, at):
            pass

    with pytest.raises(InvalidValue, match="implements no hook"):
        own(Only())
    with pytest.raises(InvalidValue, match=r"there is no field 'sen'"):
        own(dataclass(frozen=True)(type("Typo", (Kept,), {"clear": lambda s, windows, at: windows["sen"]}))())
    assert own(Kept()).meaning.endswith("; then each at its close; looks at what closes")
