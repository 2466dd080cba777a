"""Sliding windows by definition, and a bucket of them beside: what the tests of sliding windows share.

The model keeps all records that ever counted and makes all windows of their times, each by its interval; which records
count it finds by trying them until nothing changes.
"""

import itertools
from collections import defaultdict

import pyarrow as pa
from oracle import CASES, FINGERPRINT, CountingStore, assert_row, columns_of, moment, shape_of

from slicing.engines.sliding.bucket import SlidingBucket
from slicing.stages.execution_plan import Aggregation
from slicing.stages.preaggregate import Dropped
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache as memory
from slicing.triggers.accumulation import DISCARDING
from slicing.triggers.early_by_count import EarlyByCount
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.latest import OnUpdateLatest
from slicing.triggers.trigger import WAITING
from slicing.triggers.update import OnUpdate


def windows_of(window, times):
    """The windows `[start, end)` of the times of one key, in microseconds."""
    difference, unit, times = window.difference, window.unit, sorted(times)
    found = {(time - difference, time + unit) for time in times}
    for one, other in itertools.pairwise(times) if window.right else ():
        if other < one + difference + 2 * unit:
            found.add((one + unit, one + difference + 2 * unit))
    return found


class Model:
    """What must go out, and what must be refused, micro-batch by micro-batch."""

    def __init__(self, window, emission=ON_CLOSE, grace=0):
        self.window, self.emission, self.grace = window, emission, grace
        self.held, self.watermark, self.number = defaultdict(list), 0, 0
        self.refused, self.some = [], {}
        self.waiting, self.tick = defaultdict(set), None  # by key the numbers of records since its windows went out

    def floored(self, time):
        return time // self.window.unit * self.window.unit

    def takes(self, end):
        return end + self.grace > self.watermark

    def step(self, records, watermark, now=0):
        """The rows of a micro-batch by (kind, key, start, end): values and old ones; records are (time, key, value)."""
        batch = []
        for time, key, value in records:
            batch.append((self.floored(time), key, value, self.number))
            self.number += 1
        before = {key: sorted(held) for key, held in self.held.items()}
        self.judge(sorted(batch, key=lambda record: record[0]))
        last, self.watermark = self.watermark, max(self.watermark, watermark * 1000)
        rows = {}
        for key, held in self.held.items():
            old = before.get(key, [])
            there = windows_of(self.window, {record[0] for record in old})
            held_by = sorted(windows_of(self.window, {record[0] for record in held}))
            newest = [w for w in held_by if w[1] + self.grace > last and w[0] <= max(held)[0] < w[1]][:1]
            for start, end in held_by:
                values = [r[2] for r in sorted(held) if start <= r[0] < end]
                known = [r[2] for r in old if start <= r[0] < end] if (start, end) in there else []
                kind = self.kind(last, end, len(values) > len(known), (start, end) in newest)
                if kind == "correction" and self.emission.accumulation is DISCARDING and known:
                    new = {r[3] for r in held} - {r[3] for r in old}
                    values = [r[2] for r in sorted(held) if start <= r[0] < end and r[3] in new]
                if kind is not None:
                    shown = known if kind == "correction" and self.emission.accumulation.retracts else []
                    rows[kind, key, start, end] = values, shown or None
        return rows | self.early(before, now)

    def early(self, before, now):
        """Open windows that hold a record since the key went out, or are there because of one, if it is time."""
        if WAITING not in self.emission.asks:
            return {}
        for key, held in self.held.items():
            known = {record[3] for record in before.get(key, ())}
            self.waiting[key] |= {record[3] for record in held} - known
            self.waiting[key] -= {record[3] for record in held if record[0] < self.oldest()}
        rows = {}
        for key in self.due(now):
            waiting, self.waiting[key] = self.waiting[key], set()
            there = windows_of(self.window, {record[0] for record in self.held[key] if record[3] not in waiting})
            for start, end in windows_of(self.window, {record[0] for record in self.held[key]}):
                inside = [record for record in sorted(self.held[key]) if start <= record[0] < end]
                changed = (start, end) not in there or any(record[3] in waiting for record in inside)
                if self.takes(end) and changed and waiting:
                    rows["early", key, start, end] = [record[2] for record in inside], None
        return rows

    def oldest(self):
        """The first time that an open window holds, or that one may be behind."""
        unit, size = self.window.unit, self.window.difference + self.window.unit
        first = (self.watermark - self.grace - size) // unit * unit + unit
        return first - self.window.right * unit

    def due(self, now):
        """The keys whose windows go out early."""
        if isinstance(self.emission, EarlyByCount):
            return [key for key, waiting in self.waiting.items() if len(waiting) >= self.emission.count]
        tick, last = now * 1000 // self.emission.microseconds, self.tick
        self.tick = tick
        return list(self.waiting) if last is not None and tick > last else []

    def kind(self, last, end, changed, is_newest):
        """Why a window goes out in this micro-batch, None if it does not."""
        if isinstance(self.emission, OnUpdate | OnUpdateLatest):
            shown = changed and end + self.grace > last and (is_newest or not isinstance(self.emission, OnUpdateLatest))
            return "update" if shown else None
        if self.emission.fires_late:
            if last < end <= self.watermark:
                return "final"
            return "correction" if changed and end <= last < end + self.grace else None
        return "final" if last < end + self.grace <= self.watermark else None

    def judge(self, waiting):
        """Let records count that are in an open window, until no other is; the others are refused."""
        self.some, again = {}, True
        while again:
            again = False
            for record in waiting:
                if self.home(record) is not None:
                    time, key, value, number = record
                    self.held[key].append((time, number, value, number))
                    waiting = [each for each in waiting if each is not record]
                    again = True
                    break
        self.refused = waiting
        for key, held in self.held.items():
            for time, number, *_ in held:
                if not self.takes(time + self.window.unit):
                    home = self.home((time, key, None, number))
                    self.some[number] = home

    def home(self, record):
        """The first open window that holds a record, if it is one of its key's."""
        time, key, *_ = record
        times = {other[0] for other in self.held[key]} | {time}
        return min(
            (w for w in windows_of(self.window, times) if w[0] <= time < w[1] and self.takes(w[1])), default=None
        )


class World:
    """A bucket of sliding windows and its model; `step` runs both and compares them. Records are (time, key, value)."""

    def __init__(self, window, names=("sum", "highest"), emission=ON_CLOSE, grace=0, held=True, key="bigint"):
        self.window, self.emission, self.grace, self.held = window, emission, grace, held
        self.cases = [CASES[name] for name in names]
        self.shape = shape_of(window.family, self.cases, (key,))
        arguments = tuple((at,) for at in range(len(names)))
        self.strategy = support_of(window).strategy(Aggregation(self.shape, ("places",) * len(names), arguments))
        self.store, self.model = CountingStore(), Model(window, emission, grace)
        self.fingerprint, self.read, self.written = FINGERPRINT, 0, 0

    def shipped(self, records, chunks=2):
        """The blocks that one input partition ships."""
        stage = self.strategy.first_stage((0,))
        cuts = [len(records) * i // chunks for i in range(chunks + 1)]
        blocks = []
        for low, high in itertools.pairwise(cuts):
            times, keys, values = ([r[i] for r in records[low:high]] for i in range(3))
            column = pa.array(values, pa.int64())
            columns = {"time": pa.array(times, pa.timestamp("us", "UTC")), "k0": pa.array(keys, pa.int64())}
            columns |= {f"v{i}": case.argument(column) for i, case in enumerate(self.cases)}
            blocks.append(stage._block(stage._read(pa.table(columns), Dropped())))
        label, block = next(iter(stage._by_bucket(stage._fold(blocks))))
        return [self.strategy.decode(page) for _, page in stage._pages({label: block})]

    def bucket(self):
        return SlidingBucket(self.shape, self.grace, self.fingerprint, self.store, self.emission)

    def step(self, records, watermark, partitions=2, now=0):
        if not self.held:
            memory._kept.clear()
        bucket = self.bucket()
        cuts = [len(records) * i // partitions for i in range(partitions + 1)]
        parts = [records[low:high] for low, high in itertools.pairwise(cuts)]
        late = bucket.accept([block for part in parts if part for block in self.shipped(part)])
        got = self.rows(bucket.close(moment(watermark, now)))
        self.read, self.written = self.read + bucket.pages.read, self.written + bucket.pages.written
        bucket.check()
        numbered = self.model.number
        self.compare(got, self.model.step(records, watermark, now))
        self.judged(late, {number: at for number, at in self.model.some.items() if number >= numbered})
        return got

    def judged(self, late, some):
        """What was refused, and by which window what was not."""
        assert (late.all, late.some) == (len(self.model.refused), len(some))
        refused = late.refused[0]
        missed = refused.missed_by(self.window.family, refused.rows)
        keys = refused.rows.names["k0"].take(pa.array(refused.rows.keys)).to_pylist()
        starts = self.window.family.window_start(missed.taken).tolist()
        found = {
            (key, at): None if by_all else start
            for key, at, by_all, start in zip(
                keys,
                self.window.family.slice_start(refused.rows.index).tolist(),
                missed.by_all.tolist(),
                starts,
                strict=True,
            )
        }
        wanted = {(record[1], record[0]): None for record in self.model.refused}
        for key, held in self.model.held.items():
            wanted |= {(key, time): some[number][0] for time, number, *_ in held if number in some}
        assert found == wanted
        assert int(refused.rows.records.sum()) == late.all + late.some

    def rows(self, frames):
        """Rows by (kind, key, start, end): the number of records, then the results, and those that are replaced."""
        found = {}
        for frame in frames:
            keys = frame.names["k0"].take(pa.array(frame.keys)).to_pylist()
            family = self.window.family
            places = zip(
                keys,
                family.window_start(frame.windows).tolist(),
                frame.ends_by(family).tolist(),
                self.results(frame),
                self.results(frame.old) if frame.old else itertools.repeat(None),
                strict=frame.old is not None,
            )
            for key, start, end, row, old in places:
                assert (frame.kind, key, start, end) not in found, "a row goes out once"
                found[frame.kind, key, start, end] = row, old
        return found

    def results(self, frame):
        return list(zip(frame.records.tolist(), *columns_of(self.shape, frame), strict=True))

    def compare(self, got, wanted):
        assert got.keys() == wanted.keys(), (sorted(got.keys() - wanted.keys(), key=str), wanted.keys() - got.keys())
        for place, (values, known) in wanted.items():
            row, old = got[place]
            assert_row(row, values, self.cases, place)
            assert (old is None) == (known is None), place
            if known is not None:
                assert_row(old, known, self.cases, place)

    def drain(self):
        """Close all, and assert that nothing is left."""
        self.step([], 1 << 43)
        assert not self.store.pages


def stream(rng, batches, unit=1000, difference=10, keys=3, spread=3, most=10):
    """Micro-batches of records with disorder, late ones and equal times, and watermarks in milliseconds.

    Half of the times are multiples of half the difference, so that windows meet. Watermarks are whole milliseconds.
    """
    clock = rng.choice([0, 40 * difference]) * unit
    length = max(1, difference) * unit
    for _ in range(batches):
        clock += rng.choice([0, length // 2, length, 3 * length])
        records = [
            (
                clock
                + rng.choice([rng.randrange(-spread * length, length), rng.randrange(-2 * spread, 2) * length // 2]),
                rng.randrange(keys),
                rng.randrange(-50, 100),
            )
            for _ in range(rng.randrange(most))
        ]
        records += rng.choices(records, k=2) if records else []
        yield records, max(0, (clock - rng.choice([0, 1, 2, 4]) * length // 2) // 1000)
