"""The hook `clear` of a user's own trigger against brute force: which pairs are forgotten, with what they are then."""

import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from oracle import seeds
from scenarios.due import DUE, Pair, Pairs
from scenarios.kind import RECORDS
from scenarios.kinds import KINDS as WINDOWS
from scenarios.kinds.even import Even
from scenarios.scenario import Process, Scenario
from scenarios.streams import stream
from test_early import KINDS, scenario, stepped
from test_purge import KINDS as PURGED
from test_purge import scenario as purged_scenario

from slicing import Trigger
from slicing.errors import FunctionFailed, InvalidValue
from slicing.triggers.own import own


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


class Clears(Pairs):
    """Which windows are purged, and in `cleared` what the hook is told: of those that close, and of these."""

    def early(self, parts):
        self.cleared = Counter()
        found = super().early(parts)
        for at, part in enumerate(parts):
            for (key, place), held in part.closing().items():
                self.note(Pair(at, key, place), held, True)
        return found

    def chosen(self, pairs, batch):
        drops = [pair for pair, held in pairs.items() if self.came(pair, held) and len(self.left(pair, held)) >= self.n]
        for pair in drops:
            self.note(pair, pairs[pair], False)
        return drops, drops

    @property
    def n(self):
        return self.trigger.n

    def came(self, pair, held):
        """The new records of a window; all of them if it was not there before."""
        part = self.parts[pair.part]
        is_new = not self.merges and pair.place not in part.before.get(pair.key, {})
        return [record for record in held if is_new or record.number in part.new]

    def note(self, pair, held, closes):
        """What the hook is told of a window; if it fires at its close, new records have not been counted."""
        came, left = len(self.came(pair, held)), len(self.left(pair, held))
        self.cleared[(*pair.place, left, came, left - came * (closes and self.trigger.final))] += 1


CASES = [*((each, Kept()) for each in KINDS), *((each, Counted(4)) for each in PURGED)]
CASES += [(each, Kept(final=False)) for each in ("hopping", "eager", "sessions")]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize(("kind", "trigger"), [each for each in CASES if each[0] != "unbounded"], ids=str)
def test_what_is_forgotten_is_what_closes_and_what_is_purged(kind, trigger, seed, monkeypatch):
    monkeypatch.setitem(DUE, type(trigger), Clears)
    rng, cleared = random.Random(f"{kind} {trigger} {seed}"), Counter()
    for _ in range(4):
        made = (purged_scenario if trigger.purges else scenario)(rng, kind, own(trigger))
        trigger.log.clear()
        for _ in stepped(rng, made, 16, fails=0):
            assert Counter(trigger.log) == made.call.due.cleared
            cleared += made.call.due.cleared
            trigger.log.clear()
        if cleared.total() > 5 and any(seen for *_, seen in cleared):
            break
    assert cleared.total() > 5
    assert any(seen for *_, seen in cleared)


def test_keys_of_a_window_that_never_closes_are_forgotten_once(monkeypatch):
    monkeypatch.setitem(DUE, Counted, Clears)
    trigger, rng, total = Counted(final=False), random.Random(4), 0
    made = Scenario(WINDOWS["unbounded, with a ttl"](rng), own(trigger), results=("sum", "highest"))
    made.process, (part,) = Process(rng, "some"), made.call.parts
    for records, _, now in stream(rng, made.kind, batches=120):
        trigger.log.clear()
        idle = [len(part.held[key]) for key, last in part.last.items() if last < now - 20]
        made.step(records, 0, now)
        assert Counter(row[2:] for row in trigger.log) == Counter((count, 0, count) for count in idle)
        total += len(idle)
    assert total > 20


def test_windows_have_fired_when_they_are_forgotten_and_nothing_is_asked_about_none():
    fired = []

    @dataclass(frozen=True)
    class Ordered(Kept):
        def clear(self, windows, at):
            assert len(windows)
            fired.append((at.watermark, at.clock, windows.records.tolist(), windows.came.tolist()))

    one = Scenario(Even.of(10, 10), own(Ordered()), results=("sum",))
    fired.clear()  # it has been tried
    one.emit([(1000, 1, 5)], 0, 1)
    one.emit([], 9, 2)
    assert fired == []
    assert [place[0] for place in one.emit([], 10, 3)] == ["final"]
    assert fired == [(10_000, 3000, [1], [0])]
    one.emit([], 30, 4)
    assert len(fired) == 1
    one.emit([(31_000, 1, 5)], 30, 5)
    one.emit([(32_000, 1, 5)], 40, 6)
    assert fired[1:] == [(40_000, 6000, [2], [1])]


@dataclass(frozen=True)
class Fragile(Counted):
    def clear(self, windows, at):
        if (windows.records > 2).any():
            raise ZeroDivisionError("too many")


def test_a_hook_that_fails_names_the_key_and_the_window():
    one = Scenario(Even.of(10, 10), own(Fragile()), content=RECORDS, results=("sum",))
    one.emit([(1000, each, 5) for each in (1, 2, 2, 2)])
    with pytest.raises(FunctionFailed, match=r"`Fragile.clear` raised ZeroDivisionError.*key \(2,\) in window \["):
        one.emit([], 10)


def test_it_is_no_hook_that_fires():
    class Only(Trigger):
        def clear(self, windows, at):
            pass

    with pytest.raises(InvalidValue, match="implements no hook"):
        own(Only())
    with pytest.raises(InvalidValue, match=r"there is no field 'sen'"):
        own(dataclass(frozen=True)(type("Typo", (Kept,), {"clear": lambda s, windows, at: windows["sen"]}))())
    assert own(Kept()).meaning.endswith("; then each at its close; looks at what closes")
