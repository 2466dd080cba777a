"""`early(when=, ends=True)`: records end their sessions, against brute force over raw records.

The model knows nothing of rows and marks: it puts the records of a key in the order of their time, and begins a session
where the gap is over or where a record before has ended the last one.
"""

import copy
import random
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from oracle import CASES, FINGERPRINT, CountingStore, columns_of, moment, seeds, shape_of
from scenarios.due import Conditions, Known, MicroBatch, Pair
from scenarios.kind import Place, Record, marked

from slicing import InvalidValue, counting, hopping, session, sliding, tumbling, unbounded
from slicing.content.signals import Signals
from slicing.engines.looking import Look
from slicing.errors import StateMismatch
from slicing.stages.execution_plan import Aggregation
from slicing.stages.looking import ReadOnly, pages_looked_up
from slicing.stages.signalled import Signalled
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache
from slicing.state.format.changes import changes_of
from slicing.state.format.header import Header
from slicing.triggers.emission import early, on_close
from slicing.windows.session import SESSION

CHOSEN = [CASES["sum"], CASES["highest"]]
GAPS = (4_000, 10_000, 25_000)
WINDOWS = {
    "a gap": session("10 milliseconds"),
    "gaps": session(gap_column="gap"),
    "late by session": session("10 milliseconds", late_by="session"),
    "gaps, late by session": session(gap_column="gap", late_by="session"),
    "a greatest length": session("10 milliseconds", longest="20 milliseconds"),
    "gaps, a greatest length": session(gap_column="gap", longest="20 milliseconds"),
    "a unit": session("10 milliseconds", late_by="session", unit="1 millisecond"),
}
WITH = {
    "when": {},
    "count": {"records": 3},
    "delay": {"after": "3 milliseconds"},
    "count, clock": {"records": 4, "every": "5 milliseconds"},
}


class Ended:
    """A bucket of sessions that records end."""

    def __init__(self, window, trigger, ends=True):
        self.window, self.emission, self.store, self.cases = window, trigger, CountingStore(), CHOSEN
        self.shape = shape_of(window.family, self.cases, ("bigint",))
        arguments = tuple((at,) for at in range(len(self.cases)))
        asked = Aggregation(self.shape, ("merging",) * len(self.cases), arguments, ends=ends)
        self.execution_plan = support_of(window).execution_plan(asked)
        self.bucket = partial(self.execution_plan.bucket, 0, FINGERPRINT, self.store, trigger)

    def shipped(self, records):
        """What one input partition ships of records (time, key, value, gap)."""
        rows = self.staged(self.execution_plan.first_stage((0,)), self.columns(records), len(records) // 2)
        return self.execution_plan.shipped(rows)

    def heard(self, records):
        """The signals of records, as the stages before and behind the shuffle hand them on."""
        stage = Signalled(self.execution_plan.first_stage((0,)), self.emission.signals)
        signals = {"s0": pa.array([marked(Record(*r)) or None for r in records], pa.bool_())}
        if not records:
            return Signals(self.emission.signals)
        return stage.heard(self.staged(stage, self.columns(records) | signals, len(records) // 3))

    def columns(self, records):
        times, keys, values, gaps = ([r[i] for r in records] for i in range(4))
        columns = {"time": pa.array(times, pa.timestamp("us", "UTC")), "k0": pa.array(keys, pa.int64())}
        columns |= {"k1": pa.array(gaps, pa.int64())} if self.window.gap is None else {}
        return columns | {f"v{i}": case.argument(pa.array(values, pa.int64())) for i, case in enumerate(self.cases)}

    @staticmethod
    def staged(stage, columns, cut):
        batch = pa.RecordBatch.from_pydict(columns)
        return pa.Table.from_batches(stage([batch.slice(0, cut), batch.slice(cut)])).to_pydict()

    def rows(self, frames):
        """As of others; with gaps of records a window may lie in that of a session before it."""
        found = {}
        for frame in frames:
            keys = frame.names["k0"].take(pa.array(frame.keys)).to_pylist()
            columns = [frame.records.tolist(), *(() if frame.kind == "merged" else columns_of(self.shape, frame))]
            for place, *row in zip(
                zip(keys, frame.windows.tolist(), frame.ends.tolist(), strict=True), *columns, strict=True
            ):
                assert (frame.kind, *place) not in found, "a row is emitted once"
                found[frame.kind, *place] = None if frame.kind == "merged" else row
        return found


def parted(window, records):
    """The sessions of (number, record): (key, start, end): the numbers of its records, in order of time."""
    found = {}
    for key in {record[1] for _, record in records}:
        held, last, reached, ended = [], None, 0, 0
        for number, record in sorted(records, key=lambda each: (each[1][0], each[0])):
            if record[1] != key:
                continue
            time, end = record[0], record[0] + record[3]
            too_long = held and window.longest is not None and time > held[0][1][0] + window.longest
            if held and (time > reached or (last is not None and time > last) or too_long):
                ended = reached if window.longest is None else max(reached, ended)
                found[key, held[0][1][0], ended + window.unit] = [n for n, _ in held]
                held, last = [], None
            reached = max(reached, end) if held else end
            held.append((number, record))
            last = time if marked(record) else last
        if held:
            ended = reached if window.longest is None else max(reached, ended)
            found[key, held[0][1][0], ended + window.unit] = [n for n, _ in held]
    return found


class Model:
    """Open sessions and the rows of each micro-batch, from raw records."""

    def __init__(self, window, trigger):
        self.window, self.firings, self.watermark = window, Conditions(trigger), 0
        self.firings.merges = True
        self.records, self.old, self.number, self.late, self.shown = {}, {}, 0, 0, {}

    def step(self, records, watermark, now):
        """(kind, key, start, end): the values of the records."""
        came = {}
        for time, key, value, gap in records:
            gap = gap if self.window.gap is None else self.window.gap
            came[self.number] = Record(time, key, value, gap, self.number)
            self.number += 1
        came = self.accepted(came)
        held = set(self.records)
        self.records |= came
        self.watermark = max(self.watermark, watermark * 1000)
        pairs = parted(self.window, list(self.records.items()))
        is_open = {pair: numbers for pair, numbers in pairs.items() if pair[2] > self.watermark}
        for numbers in pairs.values():
            for number in numbers:
                if number in held and self.old[number] not in numbers:
                    self.firings.known[number] = Known(now)  # a new session holds it
            self.old |= dict.fromkeys(numbers, numbers[0])
        there = {self.records[number][1] for number in held}
        batch = MicroBatch(now, self.watermark, {number: record.key for number, record in came.items()}, there)
        asked = {Pair(0, key, Place(*edges)): numbers for (key, *edges), numbers in is_open.items()}
        fires, _ = self.firings.chosen({pair: [self.records[n] for n in asked[pair]] for pair in asked}, batch)
        due = {(pair.key, *pair.place) for pair in fires}
        rows = {("final", *pair): numbers for pair, numbers in pairs.items() if pair not in is_open}
        rows |= {("early", *pair): is_open[pair] for pair in due}
        found = {place: [self.records[n][2] for n in sorted(numbers)] for place, numbers in rows.items()}
        found |= dict.fromkeys(self.retracted(rows))
        for (kind, *pair), numbers in rows.items():
            if kind == "early":
                self.shown[pair[0], numbers[0]] = tuple(pair)
        kept = {number for numbers in is_open.values() for number in numbers}
        self.records = {number: record for number, record in self.records.items() if number in kept}
        self.shown = {at: pair for at, pair in self.shown.items() if at[1] in kept}
        return found

    def accepted(self, came):
        if self.window.late_by != SESSION:
            found = {n: r for n, r in came.items() if r[0] + r[3] + self.window.unit > self.watermark}
        else:
            pairs = parted(self.window, [*self.records.items(), *came.items()])
            late = {n for pair, numbers in pairs.items() for n in numbers if pair[2] <= self.watermark}
            found = {n: r for n, r in came.items() if n not in late}
        self.late += len(came) - len(found)
        return found

    def retracted(self, rows):
        """What has been emitted of the sessions that fire, by their first records, and has another extent now."""
        for (_, *pair), numbers in rows.items():
            firsts = {number: self.shown.get((pair[0], number)) for number in numbers}
            for number, shown in firsts.items():
                if shown is not None and shown != tuple(pair):
                    del self.shown[pair[0], number]
                    yield ("merged", *shown)


def stream(rng, batches, gap=10_000, spread=3, keys=3):
    """Micro-batches of records with disorder, late ones and duplicates, and watermarks in milliseconds.

    Half of the times are quarters of the gap, so that intervals touch each other and end where the watermark is.
    """
    clock = 0
    for _ in range(batches):
        clock += rng.choice([0, gap // 2, gap, 3 * gap])
        records = [
            (
                clock + rng.choice([rng.randrange(-spread * gap, gap), rng.randrange(-4 * spread, 4) * (gap // 4)]),
                rng.randrange(keys),
                rng.randrange(-50, 100),
                rng.choice(GAPS),
            )
            for _ in range(rng.randrange(12))
        ]
        records += rng.choices(records, k=2) if records else []
        yield records, max(0, (clock - rng.choice([1, 2, 4]) * gap) // 1000)


def world(window, conditions="when", final=True):
    one = Ended(window, early(when="marked", ends=True, final=final, **WITH[conditions]))
    return one, Model(window, one.emission)


def stepped(one, records, watermark, now):
    bucket = one.bucket()
    bucket.take_signals(one.heard(records))
    late = bucket.accept([block for part in (records[::2], records[1::2]) if part for block in one.shipped(part)])
    found = one.rows(bucket.close(moment(watermark, now)))
    bucket.check()
    return late.all, found


def test_what_is_left_of_a_session_that_a_late_record_ends_is_late_too():
    """The session had ended, and had fired; the record at 9 is the last one of the first part."""
    one = Ended(WINDOWS["a gap"], early(when="is_last", ends=True, on_time=True, late=True))
    one.bucket = partial(one.execution_plan.bucket, 20_000, FINGERPRINT, one.store, one.emission)
    records = [(time, 1, 1, 10_000) for time in (0, 6000, 11_000, 17_000)]
    assert {place: row[0] for place, row in stepped(one, records, 28, 0)[1].items()} == {("on_time", 1, 0, 27_000): 4}
    assert stepped(one, [], 28, 0)[1] == {}
    _, found = stepped(one, [(9000, 1, 5, 10_000)], 28, 0)
    late = {("late", 1, 0, 19_000): 3, ("late", 1, 11_000, 27_000): 2}
    assert found.pop(("merged", 1, 0, 27_000), 0) is None
    assert {place: row[0] for place, row in found.items()} == late


def truth(values):
    return [len(values), *(case.truth(values) for case in CHOSEN)]


def results(found):
    return {place: None if row is None else list(row)[-len(CHOSEN) :] for place, row in found.items()}


def batches_of(seed, count=40):
    return stream(random.Random(seed), count)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 12))
@pytest.mark.parametrize("conditions", WITH)
@pytest.mark.parametrize("kind", WINDOWS)
def test_rows_are_those_of_raw_records(kind, conditions, seed):
    one, model = world(WINDOWS[kind], conditions)
    rng, now, late, seen = random.Random(seed), 0, 0, set()
    for records, watermark in batches_of(seed):
        if rng.random() < 0.5:
            bucket_cache._entries.clear()  # another process continues
        now += rng.choice([0, 1, 2, 6])
        refused, found = stepped(one, records, watermark, now)
        late += refused
        wanted = model.step(records, watermark, now)
        assert results(found) == {p: None if v is None else truth(v)[1:] for p, v in wanted.items()}
        assert late == model.late
        seen |= {place[0] for place in found}
    assert seen == {"early", "final", "merged"}
    assert late or WINDOWS[kind].late_by == SESSION  # few sessions are late as a whole
    stepped(one, [], 1 << 43, now)
    assert not one.store.pages


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize("kind", WINDOWS)
def test_lookups_find_the_open_sessions_of_raw_records(kind, seed):
    """From the pages that lookups read, in another process. Buckets open without a page, as they are checked first."""
    one, model = world(WINDOWS[kind])
    sessions = parted_by_end = 0
    for now, (records, watermark) in enumerate(batches_of(seed)):
        stepped(one, records, watermark, now)
        model.step(records, watermark, now)
        bucket_cache._entries.clear()
        needed = pages_looked_up(Header.from_text(one.store.text))
        pages = {name: text for name, text in one.store.pages.items() if name in needed}
        for held in ({}, pages):
            store = ReadOnly("bucket 0", one.store.text, held)
            bucket = one.execution_plan.bucket(0, FINGERPRINT, store, one.emission)
        wanted = {
            ("final", *pair): truth([model.records[n][2] for n in sorted(numbers)])[1:]
            for pair, numbers in parted(one.window, [*model.records.items()]).items()
            if pair[2] > model.watermark
        }
        assert results(one.rows(bucket.look(Look()))) == wanted
        sessions += len(wanted)
        parted_by_end += len(bucket.kind.stored.rows())
    assert sessions > 20
    assert parted_by_end


def test_a_session_that_has_fired_is_parted_by_an_end_that_comes_later():
    one, _ = world(WINDOWS["a gap"], "count")
    step = partial(stepped, one)
    first = [(0, 1, 1, 0), (5_000, 1, 2, 0), (9_000, 1, 3, 0)]
    assert set(step(first, 0, 0)[1]) == {("early", 1, 0, 19_000)}
    assert results(step([(6_000, 1, 5, 0)], 0, 1)[1]) == {
        ("merged", 1, 0, 19_000): None,
        ("early", 1, 0, 16_000): truth([1, 2, 5])[1:],
    }
    # The later part is another session, which has not fired.
    assert results(step([], 30, 2)[1]) == {
        ("final", 1, 0, 16_000): truth([1, 2, 5])[1:],
        ("final", 1, 9_000, 19_000): truth([3])[1:],
    }


def test_the_end_of_a_session_that_closes_at_once_is_forgotten():
    """A record before it joins the next session, which is open, and stays there. Key 2 has an end that is needed."""
    one, _ = world(WINDOWS["a unit"])
    step = partial(stepped, one)
    ends, other = (next(v for v in range(100) if marked(Record(0, 1, v)) is wanted) for wanted in (True, False))
    step([(20_000, 1, other, 0), (25_000, 2, ends, 0)], 10, 0)
    assert results(step([(18_000, 1, ends, 0)], 30, 1)[1]) == {("final", 1, 18_000, 29_000): truth([ends])[1:]}
    assert step([(15_000, 1, other, 0)], 30, 2) == (0, {})
    assert results(step([], 31, 3)[1]) == {("final", 1, 15_000, 31_000): truth([other, other])[1:]}


@pytest.mark.parametrize("kind", ["gaps", "gaps, late by session"])
def test_an_end_that_only_an_earlier_session_reaches_is_forgotten(kind):
    """The first record has a gap beyond all others, and ends its session; the end at 95 ms then separates nothing."""
    one, model = world(WINDOWS[kind])
    ends, other = (next(v for v in range(100) if marked(Record(0, 1, v)) is wanted) for wanted in (True, False))
    late = [(95_000, 1, other, 10_000), (97_500, 1, other, 1_250)] if "late" in kind else [(94_000, 1, other, 20_000)]
    micro_batches = [
        ([(82_500, 1, ends, 25_000), (87_500, 1, other, 4_000)], 80),
        ([(101_250, 1, other, 25_000), (95_000, 1, ends, 1_250)], 100),
        (late, 100),
        ([], 100 if "late" in kind else 115),
        ([], 130),
    ]
    for now, (records, watermark) in enumerate(micro_batches):
        refused, found = stepped(one, records, watermark, now)
        wanted = model.step(records, watermark, now)
        assert refused == 0
        assert results(found) == {p: None if v is None else truth(v)[1:] for p, v in wanted.items()}


def test_records_at_the_time_of_an_end_are_in_the_session_that_ends():
    one, _ = world(WINDOWS["a gap"])
    records = [(0, 1, 5, 0), (0, 1, 1, 0), (1, 1, 2, 0)]
    assert results(stepped(one, records, 20, 0)[1]) == {
        ("final", 1, 0, 10_000): truth([5, 1])[1:],
        ("final", 1, 1, 10_001): truth([2])[1:],
    }


@pytest.mark.parametrize("kind", ["a gap", "gaps"])
def test_bounded_input_has_the_same_sessions(kind):
    one, model = world(WINDOWS[kind])
    records = [record for records, _ in batches_of(7, 50) for record in records]
    shipped = [block for part in (records[::2], records[1::2]) for block in one.shipped(part)]
    found = one.rows(one.execution_plan.all_ended(shipped, one.heard(records)))
    model.watermark = -(1 << 50)
    wanted = model.step(records, 1 << 43, 0)
    assert results(found) == {place: truth(values)[1:] for place, values in wanted.items()}
    assert len(found) > 80


@pytest.mark.one_in(3)
@pytest.mark.parametrize("others", [0, 5])
@pytest.mark.parametrize("kind", ["a gap", "gaps"])
def test_ends_of_sessions_that_close_at_once_do_not_pile_up(kind, others):
    """Also where a key has a row of a closed session, which stays beside those of sessions of other keys."""
    one, model = world(WINDOWS[kind])
    value = next(value for value in range(100) if marked(Record(0, 1, value)))
    records = [(1 << 50, key, 1, 4_000) for key in range(2, 2 + others)]
    records += [(0, 1, value, 4_000)] if others else []
    for number in range(1, 60):
        tell_of = partial(stepped, one, records)
        _, found = tell_of(number * 100 - 50 if number > 1 else 0, number)
        wanted = model.step(records, number * 100 - 50 if number > 1 else 0, number)
        assert results(found) == {place: truth(values)[1:] for place, values in wanted.items()}
        assert len(one.bucket().kind.stored.rows()) <= 2 * (1 + others)
        records = [(number * 100_000 + at, 1, value, 4_000) for at in (0, 1_000, 2_000)]


def test_a_micro_batch_that_runs_again_has_the_same_rows():
    one, _ = world(WINDOWS["a gap"], "count")
    rng = random.Random(3)
    for now, (records, watermark) in enumerate(batches_of(3)):
        before = copy.deepcopy(vars(one.store))
        first = stepped(one, records, watermark, now)
        vars(one.store).update(before)
        if rng.random() < 0.5:
            bucket_cache._entries.clear()
        assert stepped(one, records, watermark, now) == first


def test_a_checkpoint_with_ended_sessions_refuses_a_trigger_that_does_not_end_them():
    one, _ = world(WINDOWS["a gap"])
    stepped(one, [(0, 1, 5, 0)], 0, 0)
    plain = Ended(WINDOWS["a gap"], on_close(), ends=False)
    with pytest.raises(StateMismatch, match=r"on_close\(\) does not keep them apart. Continue with early\(when"):
        plain.execution_plan.bucket(0, FINGERPRINT, one.store, on_close())
    for trigger in (on_close(), early(when="marked", ends=True)):
        wanted = replace(FINGERPRINT, fixed=support_of(WINDOWS["a gap"]).fixed(trigger, ()))
        found = changes_of([Header.from_text(one.store.text)], wanted)
        assert [(change.what, change.allowed) for change in found] == ([] if trigger.ends else [("trigger", False)])


@pytest.mark.parametrize(
    "window",
    [tumbling("1 hour"), hopping("1 hour", "1 minute"), sliding("1 minute"), unbounded(), counting(3)],
    ids=str,
)
@pytest.mark.parametrize("streaming", [True, False])
def test_other_windows_refuse_it(window, streaming):
    with pytest.raises(InvalidValue, match=r"ends=True.* (lets records end sessions|a window of .* fires once)"):
        support_of(window).check("auto", False, early(when="logout", ends=True), streaming)


def test_it_needs_a_condition():
    with pytest.raises(InvalidValue, match="there is no `when`"):
        early(records=3, ends=True)
    assert str(early(when="logout", ends=True)) == "early(when='logout', ends=True)"
