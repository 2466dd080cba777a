"""A kind of windows that records decide, made here: sessions of a greatest length, against brute force.

::

    times of a key, gap 10, longest 20     0    8    15   22   30
    sessions                              [0              25)            ends 10 after its last record, 15
                                                         [22        40)  begins 20 or more after the first record

A record that arrives before them may change where all later sessions of its key begin.
"""

import random
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest
from oracle import CASES
from scenarios.kinds.sessions import Sessions
from scenarios.scenario import Process, Scenario

from slicing.assembly.ranges.merging import chains
from slicing.content.intervals import ends_of
from slicing.content.pairs import Pairs
from slicing.engines.sessions.kinds import SessionKind
from slicing.stages import support_of
from slicing.stages.sessions import SessionSupport
from slicing.triggers.accumulation import DISCARDING
from slicing.triggers.emission import early, on_close, on_update
from slicing.windows.session import SESSION, Session

GAP, LONGEST, MS, COUNT = 10_000, 20_000, 1000, 3
RESULTS = ("sum", "highest")


@dataclass(frozen=True)
class LongestSession(Session):
    """A session to which no record belongs that is `longest` or more after its first one."""

    longest: int = LONGEST


class OfLongest(SessionKind):
    """The kind: all that it says is where sessions begin. Others say too what is late, and what is needed."""

    def derive(self, rows):
        """The first session of each run without a gap begins with it, and each further one where the last is full."""
        order, found = chains(rows.keys, rows.index, ends_of(rows))
        runs = np.cumsum(np.isin(np.arange(len(order)), found))
        pairs = Pairs.over(np.append(rows.index, rows.index + self.session.longest), len(order) + 1)
        at, begins = pairs.pack(runs, rows.index[order]), found
        while len(begins):
            after = np.searchsorted(at, pairs.pack(runs[begins], rows.index[order][begins] + self.session.longest))
            inside = after < len(order)
            begins = after[inside][runs[after[inside]] == runs[begins[inside]]]
            found = np.append(found, begins)
        return order, np.sort(found)


class LongestSupport(SessionSupport):
    """The support of the kind."""

    kind = OfLongest


@pytest.fixture(autouse=True)
def supported(monkeypatch):
    """The line of the kind."""
    monkeypatch.setitem(support_of._SUPPORT, LongestSession, LongestSupport)


def sessions(records):
    """By (start, end) the records (time, key, value, number) of the sessions of one key, one record after another."""
    found, held = {}, []
    for record in [*sorted(records), None]:
        if held and (record is None or record[0] > held[-1][0] + GAP or record[0] >= held[0][0] + LONGEST):
            found[held[0][0], held[-1][0] + GAP] = held
            held = []
        held = [*held, record]
    return found


class Model:
    """What fires, from raw records; `shown` has the number of records of each extent that has fired, by key."""

    def __init__(self, trigger, grace, late_by):
        self.trigger, self.grace, self.late_by = trigger, grace, late_by
        self.held, self.shown, self.watermark, self.late, self.number = defaultdict(list), defaultdict(dict), 0, 0, 0

    def step(self, records, watermark):
        """By (kind, key, start, end) the records of each row and those of the row that it replaces, None for none."""
        refusing, fired = self.watermark - self.grace, self.watermark - self.trigger.wait(self.grace)
        self.watermark = max(self.watermark, watermark)
        new, rows = defaultdict(list), {}
        for time, key, value in records:
            new[key].append((time, key, value, self.number))
            self.number += 1
        for key in {*self.held, *new}:
            old, came = sessions(self.held[key]), set(self.accepted(self.held[key], new[key], refusing))
            self.late += len(new[key]) - len(came)
            now = sessions([*self.held[key], *came])
            fires = self.fires(now, old, self.shown[key], fired)
            for place, kind in fires.items():
                gone = [p for p in self.shown[key] if p != place and p[0] in {record[0] for record in now[place]}]
                for other in gone if not self.trigger.fires_once else ():
                    rows["merged", key, *other] = None, None
                    del self.shown[key][other]
                self.shown[key][place] = len(now[place])
                rows[kind, key, *place] = self.row(kind, now[place], came)
            self.held[key] = [r for (_, end), held in now.items() for r in held if end > self.watermark - self.grace]
            times = {record[0] for record in self.held[key]}
            self.shown[key] = {place: count for place, count in self.shown[key].items() if place[0] in times}
        return rows

    def accepted(self, held, new, refusing):
        if self.late_by != SESSION:
            return [record for record in new if record[0] + GAP > refusing]
        return [r for (_, end), some in sessions([*held, *new]).items() for r in some if r in new and end > refusing]

    def fires(self, now, old, shown, fired):
        """The kind of firing of each session that fires; a session has changed if it held other records before."""
        closed, asks = self.watermark - self.trigger.wait(self.grace), self.trigger.asks
        if asks & {"touched", "newest"}:
            changed = [place for place, held in now.items() if old.get(place) != held]
            return {place: "update" for place in changed if "touched" in asks or place == max(now)}
        ended = [place for place in now if place[1] <= closed]
        rows = {place: "final" for place in ended if place[1] > fired or place not in shown}
        again = [place for place in ended if place not in rows] if "late" in asks else ()
        rows |= {place: "correction" for place in again if len(now[place]) > shown[place]}
        waiting = {place: self.waits(place, held, shown) for place, held in now.items() if place[1] > closed}
        if "waiting" in asks and sum(waiting.values()) >= COUNT:
            rows |= {place: "early" for place, count in waiting.items() if count}
        return rows

    @staticmethod
    def waits(place, held, shown):
        """The number of records since the last firing; a firing of a session that has been split does not count."""
        times = {record[0] for record in held}
        return max(0, len(held) - sum(n for (start, end), n in shown.items() if start in times and end <= place[1]))

    def row(self, kind, held, came):
        again, before = kind == "correction", [record for record in held if record not in came]
        discards = again and self.trigger.accumulation is DISCARDING
        held = [record for record in held if record in came] if discards else held
        return held, before if again and self.trigger.accumulation.retracts else None


TRIGGERS = {
    "close": on_close(),
    "corrections": on_close(corrections=True),
    "old": on_close(corrections=True, old=True),
    "discarding": on_close(corrections=True, discarding=True),
    "update": on_update(),
    "newest": on_update(latest_only=True),
    "early": early(records=COUNT),
}


def micro_batches(rng, count):
    """Records (time, key, value) around a clock, some at times of others before, and watermarks in microseconds."""
    clock, times = 0, [0]
    for _ in range(count):
        clock += rng.choice([0, GAP // 2, GAP, 3 * GAP])
        times = rng.choices(times, k=3) + [clock + rng.randrange(-3 * GAP, GAP) for _ in range(rng.randrange(8))]
        times = [max(0, time // 500 * 500) for time in times]
        records = [(time, rng.randrange(2), rng.randrange(-50, 100)) for time in times]
        yield records, max(0, clock - rng.choice([0, 1, 3]) * GAP) // MS * MS


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("late_by", ["record", "session"])
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_sessions_of_a_greatest_length_are_those_of_raw_records(trigger, late_by, seed):
    rng, emission = random.Random(f"{trigger} {late_by} {seed}"), TRIGGERS[trigger]
    grace = 3 * GAP if emission.fires_late else rng.choice([0, GAP])
    kind = Sessions(LongestSession(GAP, late_by=late_by))
    made = Scenario(kind, emission, grace, results=RESULTS, judged=False)
    made.process, model, seen = Process(rng, "some"), Model(emission, grace, late_by), set()
    for records, watermark in [*micro_batches(rng, 40), ([], 1 << 43)]:
        late, wanted = model.late, model.step(records, watermark)
        got = made.step(records, watermark // MS)
        got = {(name, key, *place): rows for (name, key, _, *place), rows in got.items()}
        assert got == {place: tuple(map(results, rows)) for place, rows in wanted.items()}
        assert sum(each.all for each in made.late) == model.late - late
        made.check()
        seen |= {name for name, *_ in wanted}
    assert not made.store.pages
    assert "correction" in seen or not emission.fires_late
    assert ("merged" in seen) != emission.fires_once


def results(records):
    values = [record[2] for record in records or ()]
    return None if records is None else (len(values), *(CASES[name].truth(values) for name in RESULTS))
