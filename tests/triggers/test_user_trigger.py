"""Triggers of a user's own against brute force over raw records, on every kind of windows that fires early."""

import pickle
import random
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from oracle import seeds
from scenarios.due import DUE, Pair, Pairs
from scenarios.kinds import KINDS as WINDOWS
from scenarios.kinds.even import Even
from scenarios.kinds.unbounded import Unbounded
from scenarios.scenario import Process, Scenario
from scenarios.streams import stream
from test_early import DECIDED, EVERY_CONDITION, KINDS, fired

from slicing import Trigger, draw, session, sliding, tumbling, unbounded
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, StateMismatch
from slicing.stages import local_runner
from slicing.stages.support_of import support_of
from slicing.state.format.changes import changes_of
from slicing.state.format.header import Header
from slicing.triggers.emission import early, on_update
from slicing.triggers.own import own


@dataclass(frozen=True)
class EveryNth(Trigger):
    """After each `n` records of a window; the state has the remainder."""

    n: int
    final: bool = True
    state = "seen bigint"

    def on_records(self, windows, at):
        seen = windows["seen"] + windows.came
        windows["seen"] = seen % self.n
        return np.where(seen >= self.n, self.FIRE, self.CONTINUE)

    def on_merge(self, parts, starts):
        return {"seen": np.add.reduceat(parts["seen"], starts)}


@dataclass(frozen=True)
class Quiet(Trigger):
    """Three milliseconds by the clock after the last record of a window."""

    state = "last bigint, waits boolean"
    final = False

    def on_records(self, windows, at):
        windows["last"], windows["waits"] = at.clock, True
        return np.zeros(len(windows), int)

    def on_clock(self, windows, at):
        due = windows["waits"] & (windows["last"] + 3000 <= at.clock)
        windows["waits"] &= ~due
        return due * self.FIRE

    def on_merge(self, parts, starts):
        return {name: np.maximum.reduceat(part, starts) for name, part in parts.items()}


@dataclass(frozen=True)
class Halfway(Trigger):
    """Once, when the watermark is in the second half of a window."""

    state = "fired boolean"

    def on_time(self, windows, at):
        due = ~windows["fired"] & (at.watermark >= windows.start // 2 + windows.end // 2)
        windows["fired"] |= due
        return np.where(due, self.FIRE, self.CONTINUE)

    def on_merge(self, parts, starts):
        return {"fired": np.logical_and.reduceat(parts["fired"], starts)}


@dataclass(frozen=True)
class AtEnd(Trigger):
    """Whenever the watermark moves `delay` microseconds past the end of a window, or further."""

    delay: int = 0
    final = False

    def on_time(self, windows, at):
        return np.where(at.watermark >= windows.end + self.delay, self.FIRE, self.CONTINUE)


@dataclass(frozen=True)
class OnceAtEnd(AtEnd):
    """Only the first time."""

    state = "fired boolean"

    def on_time(self, windows, at):
        due = ~windows["fired"] & (at.watermark >= windows.end + self.delay)
        windows["fired"] |= due
        return due * self.FIRE

    def on_merge(self, parts, starts):
        return {"fired": np.logical_or.reduceat(parts["fired"], starts)}


class Nth(Pairs):
    """What `EveryNth` does, record by record: whether each has been counted for a firing."""

    def __init__(self, trigger):
        super().__init__(trigger)
        self.counted = {}

    def chosen(self, pairs, batch):
        fires = []
        for pair, held in pairs.items():
            marks = [self.mark(pair, record) for record in held]
            waiting = [mark for mark in marks if not self.counted.get(mark)]
            if len(waiting) >= self.trigger.n and any(mark not in self.counted for mark in marks):
                fires.append(pair)
                self.counted |= dict.fromkeys(waiting[: len(waiting) - len(waiting) % self.trigger.n], True)
            self.counted |= {mark: False for mark in marks if mark not in self.counted}
        return fires, ()


class Quietly(Pairs):
    """What `Quiet` does: of each record, the clock at the last one of its window, and whether that waits."""

    def __init__(self, trigger):
        super().__init__(trigger)
        self.last = {}

    def chosen(self, pairs, batch):
        fires = []
        for pair, held in pairs.items():
            marks = [self.mark(pair, record) for record in held]
            old = [self.last[mark] for mark in marks if mark in self.last]
            is_new = len(old) < len(marks)
            last = batch.now if is_new else max(clock for clock, _ in old)
            waits = is_new or any(waits for _, waits in old)
            is_due = waits and last + 3 <= batch.now
            fires += [pair] if is_due else []
            self.last |= dict.fromkeys(marks, (last, waits and not is_due))
        return fires, ()


class Half(Pairs):
    """What `Halfway` does, which is asked when the watermark has moved."""

    def __init__(self, trigger):
        super().__init__(trigger)
        self.fired, self.watermark = set(), None

    def chosen(self, pairs, batch):
        has_moved, self.watermark = batch.watermark != self.watermark, batch.watermark
        past = {pair for pair in pairs if batch.watermark >= pair.place.start // 2 + pair.place.end // 2}
        fires = past - self.fired if has_moved else set()
        self.fired |= fires
        return fires, ()


class Ends(Pairs):
    """What `AtEnd` does; a window that closes fires if no firing has had one of its records."""

    once = False

    def __init__(self, trigger):
        super().__init__(trigger)
        self.fired, self.watermark = set(), None

    def early(self, parts):
        found = super().early(parts)
        last = [
            [(key, place) for (key, place), held in part.closing().items() if self.is_due(Pair(at, key, place), held)]
            for at, part in enumerate(parts)
        ]
        return [([*fires, *more], drops) for (fires, drops), more in zip(found, last, strict=True)]

    def chosen(self, pairs, batch):
        has_moved, self.watermark = batch.watermark != self.watermark, batch.watermark
        fires = [pair for pair, held in pairs.items() if has_moved and self.has_ended(pair, held)]
        self.fired |= {self.mark(pair, record) for pair in fires for record in pairs[pair]}
        return fires, ()

    def has_ended(self, pair, held):
        had = any(self.mark(pair, record) in self.fired for record in held)
        return self.watermark >= pair.place.end + self.trigger.delay and not (self.once and had)

    def is_due(self, pair, held):
        return self.has_ended(pair, held) and any(self.mark(pair, record) not in self.fired for record in held)


class EndsOnce(Ends):
    """What `OnceAtEnd` does."""

    once = True


TRIED = {"count": EveryNth(3), "clock": Quiet()}


@pytest.fixture(autouse=True)
def _due(monkeypatch):
    """Say what these triggers do."""
    for trigger, due in (
        (EveryNth, Nth),
        (Quiet, Quietly),
        (Halfway, Half),
        (AtEnd, Ends),
        (OnceAtEnd, EndsOnce),
    ):
        monkeypatch.setitem(DUE, trigger, due)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize(
    ("kind", "trigger"),
    [
        (kind, trigger)
        for at, kind in enumerate(KINDS)
        for number, trigger in enumerate(TRIED)
        if kind in EVERY_CONDITION or (number + at) % 2
    ],
)
def test_firings_are_those_of_raw_records(kind, trigger, seed):
    assert fired(kind, f"{trigger} {seed}", own(TRIED[trigger])) > 5


def test_a_window_that_never_closes_needs_no_final_firing():
    rng = random.Random("never closes")
    made = Scenario(WINDOWS["unbounded"](rng), own(EveryNth(3, final=False)), results=("sum", "highest"))
    for records, _, now in stream(rng, made.kind):
        made.step(records, 0, now)
    assert made.seen["early"] > 5


BY_TIME = [
    (kind, trigger)
    for at, kind in enumerate(KINDS)
    for number, trigger in enumerate((AtEnd(), OnceAtEnd(7000)))
    if kind != "unbounded" and (kind in (*EVERY_CONDITION, *DECIDED) or (number + at) % 2)
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize(("kind", "trigger"), BY_TIME, ids=str)
def test_no_firing_by_time_is_lost_where_the_watermark_closes_the_window_as_well(kind, trigger, seed):
    assert fired(kind, f"{trigger} {seed}", own(trigger)) > 5


@dataclass(frozen=True)
class PurgingAtEnd(AtEnd):
    """Flink's event time trigger, purging."""

    purges = True

    def on_time(self, windows, at):
        return super().on_time(windows, at) * self.FIRE_AND_PURGE


CLOSES_AT_60 = [
    ([15, 60], {}, [(1, 1)]),
    ([60], {}, [(1, 1)]),
    ([12, 60], {"delay": 5_000_000}, [(2, 1)]),
    ([15, 60], {"late": 2}, [(1, 1), (2, 2)]),
    ([5, 60], {"late": 2}, [(2, 2)]),
]


@pytest.mark.parametrize(
    ("window", "time", "type_"),
    [
        *((tumbling("10 seconds"), 1, each) for each in (AtEnd, OnceAtEnd, PurgingAtEnd)),
        *((session("9 seconds"), 1, each) for each in (AtEnd, OnceAtEnd, PurgingAtEnd)),
        *((sliding("9 seconds", right=False), 9.999999, each) for each in (AtEnd, OnceAtEnd)),
    ],
)
@pytest.mark.parametrize(("watermarks", "of", "wanted"), CLOSES_AT_60)
def test_a_window_fires_at_its_end_however_far_the_watermark_moves(window, time, type_, watermarks, of, wanted):
    """A record whose window ends at 10 s; or a second one, in the micro-batch that closes it. Grace is 10 s."""
    time, trigger, late = round(time * 1e6), type_(of.get("delay", 0)), of.get("late")
    times = [[time], *([time] * (at == late) for at in range(1, len(watermarks) + 1))]
    marks = [0, *(1_000_000 * mark for mark in watermarks)]
    rows = local_runner.stream(window, times, marks, own(trigger), grace=10_000_000).rows
    if late and wanted == [(1, 1), (2, 2)]:
        wanted = {AtEnd: wanted, OnceAtEnd: wanted[:1], PurgingAtEnd: [(1, 1), (2, 1)]}[type_]
    assert [(row.batch, row.records) for row in rows] == wanted


def together(trigger):
    """Windows that share slices, and micro-batches of theirs."""
    rng = random.Random(8)
    kind = WINDOWS["several that end together"](rng)
    return Scenario(kind, own(trigger), results=("sum", "highest")), stream(rng, kind)


def test_the_watermark_asks_all_open_windows_and_each_fires_once():
    one, batches = together(Halfway())
    fired = Counter()
    for records, watermark, now in batches:
        for kind, *place in one.step(records, watermark, now):
            fired[kind, *place] += 1
            *_, start, end = place
            assert kind == "final" or start // 2 + end // 2 <= 1000 * one.watermark < end
    assert set(fired.values()) == {1}
    assert sum(place[0] == "early" for place in fired) > 20


@pytest.mark.one_in(3)
@pytest.mark.parametrize("trigger", [EveryNth(3), Quiet(), Halfway()])
def test_a_micro_batch_that_runs_again_fires_the_same_pairs(trigger):
    assert fired("hopping", f"{trigger} again", own(trigger), fails=1) > 5


def test_state_is_forgotten_with_its_windows():
    one, batches = together(EveryNth(1000))
    most = 0
    for records, watermark, now in [*batches, ([], 1 << 43, 0)]:
        one.emit(records, watermark, now)
        bucket = one.bucket()
        most = max(
            [most, *(len(each.memory.rows) for each in bucket.pairs(own(EveryNth(1000)).remembered, False)._families)]
        )
    assert most > 5
    bucket = one.bucket()
    assert not any("early state" in name for name in bucket.head.lists)


# --- another version of a trigger ---------------------------------------------------------------------------------


def version(**members):
    def on_records(self, windows, at):
        for name in windows.state:
            windows[name] = windows[name] + 1
        return np.zeros(len(windows), int)

    return dataclass(frozen=True)(type("Versioned", (Trigger,), {"on_records": on_records, **members}))()


def states(one, trigger):
    one.trigger = own(trigger)
    pairs = one.bucket().pairs(own(trigger).remembered, False)
    return {
        (number, key, window): tuple(field[at] for field in each.memory.rows.partials[0])
        for number, each in enumerate(pairs._families)
        for at, (window, key) in enumerate(
            zip(
                each.memory.rows.index,
                each.memory.rows.names["k0"].take(each.memory.rows.keys).to_pylist(),
                strict=True,
            )
        )
    }


def test_fields_of_the_state_come_and_go():
    old, new = version(state="seen bigint, gone bigint"), version(state="fresh double, seen bigint")
    one, batches = together(old)
    for _, (records, watermark, now) in zip(range(8), batches, strict=False):
        one.emit(records, watermark, now)
    before = states(one, old)
    assert len(before) > 3
    assert states(one, new) == {place: (0.0, seen) for place, (seen, _) in before.items()}


def test_a_field_of_another_type_is_refused_by_name():
    one, batches = together(version(state="seen bigint"))
    one.emit(*next(each for each in batches if each[0]))
    with pytest.raises(StateMismatch, match=r"`seen` in the state of `Versioned` is bigint .*, and double now"):
        states(one, version(state="seen double"))
    kept, other = (own(version(state=f"seen {kind}")).stored for kind in ("bigint", "double"))
    assert not changes_of([Header.from_text(one.store.text)], replace(one.fingerprint, trigger=tuple(kept)))
    (change,) = changes_of([Header.from_text(one.store.text)], replace(one.fingerprint, trigger=tuple(other)))
    assert (change.stored, change.wanted) == ("Versioned: seen bigint", "seen double")
    assert not change.allowed
    assert "Give the field another name" in change.effect


def test_the_state_of_another_trigger_is_not_taken_over():
    one, batches = together(EveryNth(100))
    one.emit(*next(each for each in batches if each[0]))
    assert states(one, EveryNth(100))
    assert states(one, version(state="seen bigint")) == {}


# --- what is refused ------------------------------------------------------------------------------------------------


def returning(value, **members):
    return dataclass(frozen=True)(type("Odd", (Trigger,), {"on_records": lambda self, windows, at: value, **members}))()


@pytest.mark.parametrize(
    ("trigger", "error", "message"),
    [
        (
            returning(None),
            InvalidType,
            r"`Odd.on_records` returns CONTINUE, FIRE.*, as integers; got None",
        ),
        (returning(np.zeros(3)), InvalidType, r"`Odd.on_records` returns .* as integers"),
        (returning(np.zeros(2, int)), InvalidValue, r"an action for each of 3 windows; got an array of \(2,\)"),
        (returning(np.array([0, 7, 0])), InvalidValue, r"`Odd.on_records` returned 7, which is no action"),
        (returning(np.array([0, 2, 0])), InvalidValue, r"returned PURGE, .* Give it `purges = True`"),
        (returning(np.zeros(3, int), state="name string"), InvalidType, r"`Odd.state` has `name string`"),
        (returning(np.zeros(3, int), state="n int, n int"), InvalidValue, r"names a field twice"),
        (Trigger(), InvalidValue, r"`Trigger` implements no hook"),
    ],
)
def test_what_cannot_run_is_refused_when_it_is_given(trigger, error, message):
    with pytest.raises(error, match=message):
        own(trigger)


def test_a_hook_that_raises_says_so_when_it_is_given():
    with pytest.raises(InvalidValue, match=r"there is no field 'sen' in `state`, which has none"):
        own(dataclass(frozen=True)(type("Typo", (Trigger,), {"on_records": lambda s, windows, at: windows["sen"]}))())


@dataclass(frozen=True)
class Fragile(Trigger):
    def on_records(self, windows, at):
        if (windows.records > 3).any():
            raise ZeroDivisionError("too many")
        return np.where(windows.records == 3, 9, self.CONTINUE)


def test_a_hook_that_fails_names_the_key_and_the_window():
    one, batches = together(Fragile())
    records, watermark, now = next(each for each in batches if len(each[0]) > 3)
    with pytest.raises(FunctionFailed, match=r"`Fragile.on_records` .*key \((\d|None),\) in window \["):
        one.emit(records * 2, watermark, now)


def test_sessions_need_a_merge_of_the_state_and_say_so():
    class Merging(EveryNth):
        on_merge = Trigger.on_merge

    with pytest.raises(InvalidValue, match=r"sessions merge. Let a trigger of your own implement `on_merge`"):
        support_of(session("1 minute")).check("auto", False, own(Merging(3)), True)
    support_of(session("1 minute")).check("auto", False, own(EveryNth(3)), True)


def test_a_class_or_a_field_says_whether_windows_fire_at_their_close():
    assert [own(each).of.final for each in (EveryNth(3), EveryNth(3, final=False), Quiet(), Halfway())] == [
        True,
        False,
        False,
        True,
    ]
    assert "closing" not in own(Quiet()).asks


def test_a_trigger_is_a_value():
    assert EveryNth(3) == pickle.loads(pickle.dumps(EveryNth(3))) != EveryNth(4)
    assert str(own(EveryNth(3))) == "EveryNth(n=3, final=True)"
    with pytest.raises(AttributeError):
        EveryNth(3).n = 4


def test_explain_says_what_it_keeps_and_looks_at():
    assert own(EveryNth(3)).meaning == (
        "the open windows that it chooses of those with new records; a row of seen bigint per (window, key); then each "
        "at its close"
    )
    assert own(Quiet()).meaning.startswith(
        "the open windows that it chooses of those with new records, all in every micro-batch; a row of last bigint, "
    )


def test_it_is_drawn_as_other_triggers_are():
    batches = [["12:01"], ["12:02"], ["12:03", "12:04"]]
    picture = draw(tumbling("10 minutes"), batches, watermark="1 minute", emit=EveryNth(3, final=False))
    assert picture.count('data-emission="early"') >= 1


@pytest.mark.parametrize("before", ["own", "early"])
def test_a_trigger_by_event_time_that_follows_another_one_fires_at_its_first_multiple(before):
    """A trigger of one's own notes watermarks, `every` numbers of intervals: neither is taken for the other."""
    by_event = early(every="1 second", by="event", final=False)
    triggers = [own(Halfway()), by_event] if before == "own" else [by_event, own(Halfway())]
    one = Scenario(Even.of(60_000, 60_000), triggers[0], results=("sum",))
    one.emit([(1_000_000, 1, 5)], 40_500)
    one.trigger = triggers[1]
    assert [place[0] for place in one.emit([(2_000_000, 1, 6)], 40_600)] == ([] if before == "own" else ["early"])
    assert [place[0] for place in one.emit([], 41_100)] == (["early"] if before == "own" else [])


@dataclass(frozen=True)
class Once(Trigger):
    """At the second record of a key, and not again."""

    state = "fired boolean"
    final = False

    def on_records(self, windows, at):
        fires = (windows.records >= 2) & ~windows["fired"]
        windows["fired"] |= fires
        return fires * self.FIRE


@pytest.mark.parametrize("loses", ["nothing", "all"])
def test_a_key_that_is_forgotten_begins_with_no_state(loses):
    """Others keep the list of states long, so that what is void in it is not written anew."""
    one, fired = Scenario(Unbounded(unbounded("7 milliseconds")), own(Once()), results=("sum",)), []
    one.process = Process(None, loses)
    others = [(0, key, 1) for key in range(10, 30)]
    for now in range(100, 130, 3):
        comes = [(0, 1, 1)] * (now in (100, 103, 118, 121))
        rows = one.emit([*others, *comes], 0, now)
        fired.append((now, 1 in {key for _, key, *_ in rows}))
    assert [now for now, is_fired in fired if is_fired] == [103, 121]


@pytest.mark.parametrize("window", [tumbling("1 second"), session("400 milliseconds")], ids=str)
@pytest.mark.parametrize(
    "trigger", [early(records=3, per="window", final=False), own(EveryNth(3, final=False))], ids=["early", "own"]
)
def test_a_window_fires_for_a_record_of_the_micro_batch_that_closes_it(window, trigger):
    """Without a final firing. The watermark of a micro-batch closes windows after its records, and on_update agrees."""
    times, marks = [[100_000], [200_000], [300_000]], [0, 500_000, 1_000_001]
    rows = local_runner.stream(window, times, marks, trigger).rows
    assert [(row.batch, row.records, row.emission) for row in rows] == [(2, 3, "early")]
    assert {row.batch for row in local_runner.stream(window, times, marks, on_update()).rows} == {0, 1, 2}
