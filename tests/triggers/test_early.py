"""Early triggers of several conditions against brute force over raw records, on every kind of windows.

The model knows nothing of slices and counts: it keeps each record of each open window with the clock at which it came,
whether it has been emitted, and whether it has been counted, and tries all windows.
"""

import copy
import random
from collections import Counter, defaultdict
from types import MethodType

import pyarrow as pa
import pytest
from eager import Eager, Mixed
from oracle import CASES, few, moment, seeds
from scenarios.expected import Call
from scenarios.kind import Place
from scenarios.kinds import KINDS as WINDOWS
from scenarios.kinds.sliding import Sliding
from scenarios.scenario import Scenario, records_of
from scenarios.streams import stream
from test_several import Together, sets
from test_several import stream as several_stream
from test_unbounded import Forever
from test_unbounded import records as unbounded_records

from slicing.content.signals import ABSENT, TRUE
from slicing.stages.preaggregate import PreAggregate
from slicing.stages.signalled import Signalled
from slicing.state import bucket_cache
from slicing.state.store import MemoryStore
from slicing.triggers.buffer import buffer
from slicing.triggers.emission import ON_CLOSE, early
from slicing.windows.families.even import Even
from slicing.windows.sliding import sliding
from slicing.windows.time.slices import FOREVER

CHOSEN = [CASES["sum"], CASES["highest"]]


class Firings:
    """When pairs fire, record by record; `pairs` are those that are open, each with the numbers of its records."""

    def __init__(
        self,
        count=None,
        every=None,
        after=None,
        repeat=False,
        key_count=None,
        event=None,
        event_delay=None,
        when=False,
        delta=None,
        room=None,
        disjoint=False,
    ):
        self.room = room
        self.delta, self.compared = delta, {}  # by pair the value that others are compared with
        self.event_delay, self.when = event_delay, when
        self.key_count, self.of_key = key_count, Counter()
        self.event, self.passed = event, 0
        self.count, self.every, self.after, self.repeat, self.disjoint = count, every, after, repeat, disjoint
        # (pair, record): the clock when it came, whether it was emitted, whether it is counted, since when it waits
        self.seen = {}
        self.tick = None

    def due(self, pairs, now, watermark, came, there, records=None, new=()):
        """The pairs that fire; `came` are the keys of the new records, `there` those that had open windows before.

        `records` are all by their numbers, of which `new` are of this micro-batch.
        """
        self.of_key = Counter({key: n for key, n in self.of_key.items() if key in there})
        self.of_key.update(came)
        left = {}
        ticks = False
        if self.every:
            tick, last = now // self.every, self.tick
            ticks, self.tick = last is not None and tick > last, tick
        if self.event:
            multiples = watermark // self.event - 1, watermark // self.event
            passed = max((each for each in multiples if each * self.event < watermark), default=0)
            ticks, self.passed = passed > self.passed, max(passed, self.passed)
        fired, waiting = set(), []
        for pair, numbers in pairs.items():
            places = [(None if self.disjoint else pair, n) for n in numbers]
            held = [self.seen.setdefault(place, [now, False, False, None]) for place in places]
            fresh = [each for each in held if not each[1]]
            counting = [each for each in held if not each[2]]
            until = self.waits(held, numbers, records) if self.event_delay and fresh else None
            by_time = ticks or (self.after and any(each[0] + self.after <= now for each in fresh))
            by_time = by_time or (until is not None and until <= watermark)
            by_time = by_time or (self.when and any(n in new and marked(records[n]) for n in numbers))
            key = pair if isinstance(pair, int) else pair[-3]
            by_key = self.key_count and self.of_key[key] >= self.key_count
            by_count = by_key or (self.count and len(counting) >= self.count)
            others = by_time or by_count
            by_time = self.differs(pair, numbers, records, new) or by_time
            if (by_time or by_count) and (fresh or self.repeat):
                fired.add(pair)
                self.fire(pair, numbers, records, held, counting, by_time, by_key, others, left)
            elif fresh:
                since = min(each[0] for each in fresh) if until is None else until
                window = () if isinstance(pair, int) else pair[-2:]
                waiting.append((since, window, key, pair, numbers, held, counting))
        for *_, pair, numbers, held, counting in self.crowded(waiting):
            fired.add(pair)
            self.fire(pair, numbers, records, held, counting, True, False, True, left)
        self.of_key.update({key: n - self.of_key[key] for key, n in left.items()})
        return fired

    def crowded(self, waiting):
        """The oldest of the pairs that wait for which there is no room; equally old ones by window, then by key."""
        return sorted(waiting)[: max(0, len(waiting) - self.room)] if self.room is not None else []

    def fire(self, pair, numbers, records, held, counting, by_time, by_key, others, left):
        """Let a pair fire, so that all conditions begin anew."""
        key = pair if isinstance(pair, int) else pair[-3]
        if self.delta is not None and others:
            self.compared[pair] = records[numbers[-1]][2]
        if by_time or by_key:
            left[key] = min(left.get(key, 10**9), 0 if by_time else self.of_key[key] % self.key_count)
        for each in held:
            each[1] = True
        for each in counting if by_time or by_key else counting[: len(counting) - len(counting) % self.count]:
            each[2] = True

    def differs(self, pair, numbers, records, new):
        """Whether a new value of a pair is far from that of the last firing, which is the last one that is."""
        if self.delta is None:
            return False
        found = False
        for value in (records[n][2] for n in numbers if n in new):
            if abs(value - self.compared.setdefault(pair, value)) > self.delta:
                self.compared[pair], found = value, True
        return found

    def waits(self, held, numbers, records):
        """Until when a pair waits: its first records of all are those of the micro-batch in which it began to."""
        fresh = [(each, records[n][0]) for each, n in zip(held, numbers, strict=True) if not each[1]]
        known = [each[3] for each, _ in fresh if each[3] is not None]
        since = min(known or [time for _, time in fresh])
        for each, _ in fresh:
            each[3] = since
        return since + self.event_delay


def marked(record):
    """The condition of `when`."""
    return record[2] % 5 == 0


def hearing(one, stage, trigger):
    """Let the buckets of a world hear the signals of records, as the stages before and behind the shuffle hand them."""
    signalled, make = Signalled(stage, trigger.signals, trigger.number is not None), one.bucket

    def tell(records):
        rows = {"signals": (), "numbers": ()}
        if records and (trigger.signals or trigger.number):
            gaps = len(signalled.stage.shape.keys) > 1
            columns = {"time": pa.array([r[0] for r in records], pa.timestamp("us", "UTC"))}
            columns |= {"k0": pa.array([r[1] for r in records], pa.int64())}
            columns |= {"k1": pa.array([r[3] for r in records], pa.int64())} if gaps else {}
            columns |= {f"v{i}": pa.array([r[2] for r in records]) for i in range(len(one.cases))}
            if trigger.column:
                columns["s0"] = pa.array([TRUE if marked(r) else ABSENT for r in records], pa.int64())
            if trigger.number:
                columns["s1"] = pa.array([r[2] for r in records], pa.float64())
            batch = pa.RecordBatch.from_pydict(columns)
            cut = len(records) // 3
            rows = pa.Table.from_batches(signalled([batch.slice(0, cut), batch.slice(cut)])).to_pydict()
        heard = signalled.heard(rows), signalled.numbers(rows)

        def opened():
            bucket = make()
            bucket.hear(*heard)
            return bucket

        one.bucket = opened

    return tell


class Accepted:
    """Raw records that open windows accept, by number."""

    def __init__(self):
        self.records, self.watermark, self.old = {}, 0, set()

    def rows(self, firings, now):
        """(kind, pair): the values of the pairs that fire."""
        pairs = self.pairs()
        is_open = {pair: numbers for pair, numbers in pairs.items() if self.is_open(pair)}
        found = {("final", pair): numbers for pair, numbers in pairs.items() if pair not in is_open}
        new = self.records.keys() - self.old
        came = [self.records[number][1] for number in new]
        there = self.there(pairs)
        self.old |= set(self.records)
        due = firings.due(is_open, now, self.now_at(), came, there, self.records, new)
        found |= {("early", pair): is_open[pair] for pair in due}
        kept = {number for numbers in is_open.values() for number in numbers}
        values = {place: [self.records[n][2] for n in numbers] for place, numbers in found.items()}
        self.forget(kept)
        return values

    def now_at(self):
        return self.watermark

    def there(self, pairs):
        """The keys that had records in open windows when the micro-batch began."""
        return {self.records[n][1] for numbers in pairs.values() for n in numbers if n in self.old}

    def forget(self, kept):
        self.records = {number: each for number, each in self.records.items() if number in kept}


class OfFamilies(Accepted):
    """Windows of families, tried one by one; a pair is (family, key, start, end)."""

    def __init__(self, families, grace):
        super().__init__()
        self.families, self.grace, self.gone, self.number = families, grace, set(), 0
        self.slices = {}  # the bounds of the windows of a slice, by family and slice

    def is_open(self, pair):
        return pair[3] + self.grace > self.watermark

    def windows(self, record):
        for number, family in enumerate(self.families):
            at = family.slice_at(record[0])
            if (number, at) not in self.slices:
                self.slices[number, at] = list(self.bounds(family, at))
            for start, end in self.slices[number, at]:
                if start <= record[0] < end:
                    yield number, record[1], start, end

    def bounds(self, family, at):
        if not family.in_gap(at):
            for window in range(family.first_window(at), family.last_window(at) + 1):
                yield family.window_start(window), family.window_end(window)

    def step(self, records, watermark, firings, now):
        for record in records:
            into = {pair for pair in self.windows(record) if self.is_open(pair)}
            if into:
                self.records[self.number] = (*record, into)
            self.number += 1
        self.watermark = max(self.watermark, watermark * 1000)
        return self.rows(firings, now)

    def pairs(self):
        found = defaultdict(list)
        for number, record in self.records.items():
            for pair in record[3] - self.gone:
                found[pair].append(number)
        self.gone |= {pair for pair in found if not self.is_open(pair)}
        return found


class OfSessions(Accepted):
    """Sessions by merging two intervals at a time; a pair is (key, start, end)."""

    def __init__(self, window):
        super().__init__()
        self.window, self.number = window, 0

    def is_open(self, pair):
        return pair[2] > self.watermark

    def step(self, records, watermark, firings, now):
        for time, key, value, gap in records:
            if time + gap + self.window.unit > self.watermark:
                self.records[self.number] = time, key, value, gap
            self.number += 1
        self.watermark = max(self.watermark, watermark * 1000)
        return self.rows(firings, now)

    def pairs(self):
        found = defaultdict(list)
        for number, (time, key, _, gap) in sorted(self.records.items(), key=lambda each: (each[1][1], each[1][0])):
            last = next((pair for pair in found if pair[0] == key and time <= pair[2] - self.window.unit), None)
            pair = (key, last[1], max(last[2], time + gap + self.window.unit)) if last else None
            pair = pair or (key, time, time + gap + self.window.unit)
            numbers = found.pop(last, []) if last else []
            found[pair] = [*numbers, number]
        return {pair: sorted(numbers) for pair, numbers in found.items()}


class OfSliding(Accepted):
    """Windows of the times that are there; a pair is (key, start, end). `Call` says which records are accepted."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.call = kind, Call(kind, ON_CLOSE)
        (self.expected,) = self.call.parts

    def is_open(self, pair):
        return self.expected.accepts(Place(*pair[1:]))

    def step(self, records, watermark, firings, now):
        self.last, self.oldest = self.now_at(), self.first_time()
        self.call.step(self.call.made(records), watermark, now)
        floored = self.kind.floored
        self.records = {r.number: (floored(r), r.key, r.value) for held in self.expected.held.values() for r in held}
        return self.rows(firings, now)

    def first_time(self):
        """The first time that an open window holds, or that one may be behind."""
        window = self.kind.window
        size = window.difference + window.unit
        return (self.now_at() - size) // window.unit * window.unit + window.unit - window.right * window.unit

    def pairs(self):
        windows = self.expected.windows.items()
        return {
            (key, *place): sorted(record.number for record in held)
            for key, some in windows
            for place, held in some.items()
            if place.end > self.last
        }

    def now_at(self):
        return self.expected.watermark

    def there(self, pairs):
        """A record is kept for as long as a window may begin behind it."""
        return {record[1] for n, record in self.records.items() if n in self.old and record[0] >= self.oldest}

    def forget(self, kept):
        pass


class OfKeys(Accepted):
    """The only window of each key; a pair is the key."""

    def is_open(self, pair):
        return True

    def step(self, records, watermark, firings, now):
        for record in records:
            self.records[len(self.records)] = record
        return self.rows(firings, now)

    def pairs(self):
        found = defaultdict(list)
        for number, record in self.records.items():
            found[record[1]].append(number)
        return found


def truth(values):
    return [len(values), *(case.truth(values) for case in CHOSEN)]


def families(made, name, seed, trigger, wide=False):
    chosen, begin, step = sets()[name]
    grace = 3 * step
    one = made(chosen, CHOSEN, grace, trigger, wide)
    tell = hearing(one, PreAggregate(one.shape, ((0,),) * len(CHOSEN), (0,)), trigger)

    def run(batch, now):
        records, watermark, _ = batch
        tell(records)
        found = one.step(records, watermark, now)[0]
        if wide:
            lead = max(range(len(chosen)), key=lambda at: chosen[at].longest)
            found = {place: row for place, row in found.items() if place[0] == lead}
        return {(kind, (number, key, start, end)): row for (number, kind, key, start, end), (row, _) in found.items()}

    asked = [chosen[max(range(len(chosen)), key=lambda at: chosen[at].longest)]] if wide else chosen
    model = OfFamilies(asked, grace)
    if wide:
        lead = chosen.index(asked[0])
        windows = model.windows
        model.windows = lambda record: ((lead, *pair[1:]) for pair in windows(record))
    return run, model, list(several_stream(random.Random(seed), begin, step))


def world(kind, seed, trigger):
    """A bucket that hears, and micro-batches of whole records."""
    one = Scenario(kind, trigger, results=("sum", "highest"))
    tell = hearing(one, one.execution_plan.first_stage((0,)), trigger)

    def run(batch, now):
        records, watermark = batch
        tell(records)
        bucket = one.bucket()
        bucket.accept(one.arriving(records_of(records), 2)[0])
        found = one.rows(bucket.close(moment(watermark, now)))
        bucket.check()
        return {(how, (key, *edges)): row[0] for (how, key, _, *edges), row in found.items() if how != "merged"}

    batches = []
    for records, watermark, _ in stream(random.Random(seed), kind, batches=40):
        gap = getattr(kind.window, "gap", 0)
        whole = [(*record[:3], gap) for record in records if None not in record[:3]]
        batches.append(((whole, watermark), whole, watermark))
    return run, batches


WITH = {
    "count": ({"records": 3, "per": "window"}, {"count": 3}),
    "delay": ({"after": "3 milliseconds"}, {"after": 3}),
    "count, delay": ({"records": 4, "after": "3 milliseconds"}, {"count": 4, "after": 3}),
    "count, clock": ({"records": 4, "every": "5 milliseconds"}, {"count": 4, "every": 5}),
    "key": ({"records": 5, "per": "key"}, {"key_count": 5}),
    "key, clock": ({"records": 5, "per": "key", "every": "5 milliseconds"}, {"key_count": 5, "every": 5}),
    "all": (
        {"records": 5, "every": "7 milliseconds", "after": "3 milliseconds"},
        {"count": 5, "every": 7, "after": 3},
    ),
    "event": ({"every": "5 milliseconds", "by": "event"}, {"event": 5000}),
    "event, count": ({"records": 3, "every": "9 milliseconds", "by": "event"}, {"count": 3, "event": 9000}),
    "event delay": ({"after": "3 milliseconds", "by": "event"}, {"event_delay": 3000}),
    "event delay, count": ({"records": 4, "after": "8 milliseconds", "by": "event"}, {"count": 4, "event_delay": 8000}),
    "when": ({"when": "marked"}, {"when": True}),
    "when, count": ({"records": 6, "per": "window", "when": "marked"}, {"count": 6, "when": True}),
    "when, event delay, key": (
        {"records": 9, "per": "key", "when": "marked", "after": "20 milliseconds", "by": "event"},
        {"key_count": 9, "when": True, "event_delay": 20_000},
    ),
    "delta": ({"delta": ("value", 60)}, {"delta": 60}),
    "delta, count": ({"records": 4, "delta": ("value", 80)}, {"count": 4, "delta": 80}),
    "delta, delay": ({"after": "3 milliseconds", "delta": ("value", 80)}, {"after": 3, "delta": 80}),
    "count, buffer": ({"records": 5, "per": "window", "buffer": buffer(records=6)}, {"count": 5, "room": 6}),
    "delay, key, buffer": (
        {"records": 9, "per": "key", "after": "9 milliseconds", "buffer": buffer(records=4)},
        {"key_count": 9, "after": 9, "room": 4},
    ),
    "event delay, buffer": (
        {"after": "40 milliseconds", "by": "event", "buffer": buffer(records=4)},
        {"event_delay": 40_000, "room": 4},
    ),
    "repeating": (
        {"records": 5, "every": "4 milliseconds", "repeat": True},
        {"count": 5, "every": 4, "repeat": True},
    ),
}


def of_families(made, name, wide=False):
    def build(seed, trigger):
        run, model, batches = families(made, name, seed, trigger, wide)
        return run, model, [(each, each[0], each[1]) for each in batches], False

    return build


def of_sessions(seed, trigger):
    kind = WINDOWS["sessions"](random.Random(seed))
    run, batches = world(kind, seed, trigger)
    return run, OfSessions(kind.window), batches, True


def of_sliding(seed, trigger):
    kind = WINDOWS["sliding"](random.Random(seed))
    run, batches = world(kind, seed, trigger)
    return run, OfSliding(kind), batches, False


KINDS = {
    "hopping": of_families(Together, "ends together"),
    "seldom and often": of_families(Together, "seldom beside always"),
    "wide": of_families(Together, "ends together", wide=True),
    "gaps": of_families(Together, "gaps"),
    "cumulating": of_families(Together, "cumulating"),
    "lists": of_families(Together, "lists"),
    "a zone": of_families(Together, "a zone"),
    "eager": of_families(Eager, "longest in the middle"),
    "mixed": of_families(Mixed, "ends together"),
    "mixed and wide": of_families(Mixed, "ends together", wide=True),
    "sessions": of_sessions,
    "sliding": of_sliding,
}


def result(row):
    """The results of a row without the number of records, which some worlds have."""
    row = row[0] if isinstance(row, tuple) and isinstance(row[0], list | tuple) else row
    return list(row)[-len(CHOSEN) :]


EVERY_CONDITION = ("hopping",)
DECIDED = ("sessions", "sliding")
"""Windows that records decide on."""
TRIED = [
    (kind, conditions)
    for at, kind in enumerate(KINDS)
    for number, conditions in enumerate(WITH)
    # Other kinds have every fifth condition, each one others, so that all of them have each twice; those with windows
    # that take ten times as long have fewer, and those that records decide on have more.
    if kind in EVERY_CONDITION or (number + at) % (12 if "mixed" in kind else 2 if kind in DECIDED else 5) == 0
    if not ("delta" in conditions and kind in DECIDED)
]


def compared(rng, run, model, batches, firings):
    """Yield the rows of each micro-batch, which are those of raw records; caches may be lost before it."""
    now = 0
    for batch, records, watermark in batches:
        if rng.random() < 0.5:
            bucket_cache._entries.clear()  # another process goes on
        now += rng.choice([0, 1, 2, 6])
        found = {place: result(row) for place, row in run(batch, now).items()}
        wanted = model.step(records, watermark, firings, now)
        assert found == {place: truth(values)[1:] for place, values in wanted.items()}
        yield found


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize(("kind", "conditions"), TRIED)
def test_firings_are_those_of_raw_records(kind, conditions, seed):
    arguments, options = WITH[conditions]
    run, model, batches, disjoint = KINDS[kind](seed, early(**arguments))
    firings, rng, fired = Firings(**options, disjoint=disjoint), random.Random(seed), 0
    for found in compared(rng, run, model, batches, firings):
        fired += sum(kind == "early" for kind, _ in found)
    assert fired > 5


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "conditions", [name for name, (_, options) in WITH.items() if not options.keys() & {"event", "event_delay"}]
)
def test_a_window_that_never_closes_fires_as_others_do(conditions):
    arguments, options = WITH[conditions]
    one, model, firings = Forever(early(**arguments)), OfKeys(), Firings(**options)
    tell = hearing(one, PreAggregate(one.shape, ((0,),) * len(one.cases), (0,)), one.emission)
    rng, now = random.Random(7), 0
    for _ in range(30):
        one.held = rng.random() < 0.5
        now += rng.choice([0, 1, 2, 6])
        records = unbounded_records(rng)
        tell(records)
        found = one.step(records, now)
        wanted = model.step(records, 0, firings, now)
        assert found == one.truth({key for _, key in wanted})


RUN_AGAIN = [(("ends together", "cumulating")[at % 2], name) for at, name in enumerate(WITH)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "conditions"), few(RUN_AGAIN[::3], RUN_AGAIN))
def test_a_micro_batch_that_runs_again_fires_the_same_pairs(name, conditions):
    """The store is as it was before; the process may have kept what it had then, or nothing."""
    chosen, begin, step = sets()[name]
    one, rng, fired = Together(chosen, CHOSEN, 0, early(**WITH[conditions][0])), random.Random(3), 0
    store = next(each for each in one.bucket.args if isinstance(each, MemoryStore))
    tell = hearing(one, PreAggregate(one.shape, ((0,),) * len(CHOSEN), (0,)), early(**WITH[conditions][0]))
    for now, (records, watermark, _) in enumerate(several_stream(random.Random(8), begin, step)):
        before = copy.deepcopy(vars(store))
        tell(records)
        first, _ = one.step(records, watermark, 2 * now)
        vars(store).update(before)
        if rng.random() < 0.5:
            bucket_cache._entries.clear()
        assert one.step(records, watermark, 2 * now)[0] == first
        fired += sum(place[1] == "early" for place in first)
    assert fired > 5


def reporting(model, disjoint):
    """Let windows of a model that close be emitted, as early, if one of their records has not been."""

    def rows(self, firings, now):
        pairs = self.pairs()
        closing = {pair: numbers for pair, numbers in pairs.items() if not self.is_open(pair)}

        def has_news(pair, numbers):
            seen = [firings.seen.get((None if disjoint else pair, n)) for n in numbers]
            return not all(each and each[1] for each in seen)

        wanted = {pair: numbers for pair, numbers in closing.items() if has_news(pair, numbers)}
        values = {("early", pair): [self.records[n][2] for n in numbers] for pair, numbers in wanted.items()}
        self.pairs = lambda: pairs  # asked once in a micro-batch, as it notes what has closed
        found = Accepted.rows(self, firings, now)
        del self.pairs
        return values | {place: row for place, row in found.items() if place[0] == "early"}

    model.rows = MethodType(rows, model)
    return model


OUTLASTING = [
    (kind, conditions, least)
    for kind in KINDS
    for conditions, least in [("event delay", 6), ("event delay, count", 1), ("event delay, buffer", 0)]
    if conditions == "event delay" or kind in (*EVERY_CONDITION, *DECIDED)
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize(("kind", "conditions", "least"), OUTLASTING)
def test_the_last_state_of_a_window_is_emitted_without_a_final_firing(kind, conditions, least, seed):
    arguments, options = WITH[conditions]
    run, model, batches, disjoint = KINDS[kind](seed, early(**arguments, final=False))
    firings, rng, last = Firings(**options, disjoint=disjoint), random.Random(seed), {}
    reporting(model, disjoint)
    rows, held, closed = model.rows, {}, 0

    def noted(self, firings, now):
        pairs = self.pairs()
        held.clear()
        held.update({pair: [self.records[n][2] for n in numbers] for pair, numbers in pairs.items()})
        self.pairs = lambda: pairs
        return rows(firings, now)

    model.rows = MethodType(noted, model)
    for found in compared(rng, run, model, batches, firings):
        last |= {pair: row for (_, pair), row in found.items()}
        for pair, values in held.items():
            if not model.is_open(pair):
                assert last[pair] == truth(values)[1:]
                closed += ("early", pair) in found
    assert closed >= least


def test_sliding_windows_wait_since_the_unit_of_a_record_whether_they_are_new_or_not():
    """In units of 2 ms a record of 11 ms is at 10: [6 .. 12) begins with it, [8 .. 14) was there before."""
    window, grace = sliding("4 milliseconds", unit="2 milliseconds", right=False), 100_000
    trigger = early(records=2, per="window", after="20 milliseconds", by="event")
    one = Scenario(Sliding(window), trigger, grace, results=("sum",))
    tell = hearing(one, one.execution_plan.first_stage((0,)), trigger)
    fired = []
    for records, watermark in [([(12_000, 1, 1)] * 2, 0), ([(11_000, 1, 5)], 0), ([], 29), ([], 30), ([], 31)]:
        made = [(*record, 0) for record in records]
        tell(made)
        bucket = one.bucket()
        bucket.accept(one.arriving(records_of(made), 2)[0] if made else [])
        fired.append(sorted(place[-2:] for place in one.rows(bucket.close(moment(watermark, 0)))))
    assert fired == [[(8000, 14_000)], [], [], [(6000, 12_000), (8000, 14_000)], []]


def test_without_a_final_firing_nothing_is_emitted_at_the_close():
    chosen, begin, step = sets()["ends together"]
    with_final, without = (
        Together(chosen, CHOSEN, 0, early(records=3, per="window", final=final)) for final in (True, False)
    )
    kinds = set()
    for records, watermark, now in several_stream(random.Random(5), begin, step):
        ours, theirs = (each.step(records, watermark, now)[0] for each in (without, with_final))
        kinds |= {place[1] for place in theirs}
        assert ours == {place: row for place, row in theirs.items() if place[1] == "early"}
    assert kinds == {"early", "final"}


@pytest.mark.parametrize("ratio", [1, 60])
def test_a_count_trigger_keeps_a_number_for_each_slice_and_key_whatever_the_overlap(ratio):
    family = Even(60_000, 60_000 // ratio)
    one, rng, seen = Together([family], CHOSEN, 0, early(records=4, per="window")), random.Random(1), set()
    fired = 0
    for _ in range(20):
        records = [(rng.randrange(60_000), rng.randrange(5), 1) for _ in range(30)]
        seen |= {(family.slice_at(time), key) for time, key, _ in records}
        fired += len(one.step(records, 0)[0])
    assert fired > 90
    bucket = one.bucket()
    assert {name for name in bucket.head.lists if "early" in name} == {"early counts"}
    rows = bucket.all_pairs(None, False)._counts.rows(-FOREVER)
    assert len(rows) == len(seen) == (5 if ratio == 1 else len(seen))
