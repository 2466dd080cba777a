"""Sessions by definition, and a bucket of them beside: what the tests of sessions share.

The model keeps records and merges intervals two at a time until none touches another. Its sessions are lists
`[start, end, pieces]`, where a piece is what one record, or one open session, has brought.
"""

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from oracle import CASES, FINGERPRINT, CountingStore, assert_row, columns_of, moment, shape_of

from slicing.engines.sessions.bucket import SessionBucket
from slicing.stages.execution_plan import Aggregation
from slicing.stages.preaggregate import Dropped
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache as memory
from slicing.triggers.accumulation import DISCARDING, RETRACTING
from slicing.triggers.early_by_clock import EarlyByClock
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.latest import OnUpdateLatest
from slicing.triggers.update import OnUpdate
from slicing.windows.session import SESSION


@dataclass(eq=False)
class Held:
    """A session: half-open in microseconds, its values in order, what has gone out of it as (start, end): records."""

    start: int
    end: int
    values: list
    fresh: bool = True
    shown: dict = field(default_factory=dict)
    new: list = field(default_factory=list)  # the values of this micro-batch
    last: list | None = None  # the values when it went out last


def merge(pieces):
    """Sessions of pieces of one key: two that overlap or touch become one, until none do."""
    found = list(pieces)
    again = True
    while again:
        again = False
        for a in found:
            for b in found:
                if a is not b and a.start <= b.end and b.start <= a.end:
                    first, second = sorted((a, b), key=lambda piece: piece.start)
                    parts = getattr(first, "parts", [first]) + getattr(second, "parts", [second])
                    both = Held(first.start, max(a.end, b.end), [], a.fresh or b.fresh, a.shown | b.shown)
                    both.parts, both.last = parts, a.last or b.last
                    found = [each for each in found if each is not a and each is not b] + [both]
                    again = True
                    break
            if again:
                break
    for each in found:
        parts = sorted(getattr(each, "parts", [each]), key=lambda piece: (piece.start, piece.number))
        each.values = [value for part in parts for value in part.values]
        each.new = [value for part in parts if part.number >= 0 for value in part.values]
        each.__dict__.pop("parts", None)
    return found


class Model:
    """What must go out, and what must be refused, micro-batch by micro-batch."""

    def __init__(self, window, emission=ON_CLOSE, grace=0):
        self.window, self.emission, self.grace = window, emission, grace
        self.open = defaultdict(list)
        self.watermark, self.tick, self.late, self.refused = 0, None, 0, []
        self.replaced = {}  # by row of the micro-batch, the values that it replaces

    def closed(self, end):
        return end + self.window.unit + self.grace <= self.watermark * 1000

    def step(self, records, watermark, now=0):
        """The rows of a micro-batch: (kind, key, start, end): values."""
        pieces, self.refused, self.replaced = defaultdict(list), [], {}
        for number, (time, key, value, gap) in enumerate(records):
            if self.window.late_by != SESSION and self.closed(time + gap):
                self.refuse([value])
                continue
            piece = Held(time, time + gap, [value])
            piece.number = number
            pieces[key].append(piece)
        for key in {*pieces, *self.open}:
            for each in self.open[key]:
                each.fresh, each.number = False, -1
            together = merge(self.open[key] + pieces[key])
            for each in [each for each in together if self.window.late_by == SESSION and self.closed(each.end)]:
                self.refuse(each.values)
                together.remove(each)
            self.open[key] = sorted(together, key=lambda each: each.start)
        self.watermark = max(watermark, self.watermark)
        rows = dict(self.rows(now))
        self.open = {key: [s for s in sessions if not self.closed(s.end)] for key, sessions in self.open.items()}
        self.open = defaultdict(list, {key: sessions for key, sessions in self.open.items() if sessions})
        return rows

    def refuse(self, values):
        self.late += len(values)
        self.refused += values

    def rows(self, now):
        waiting = {
            key: sum(len(s.values) - sum(s.shown.values()) for s in held if not self.closed(s.end))
            for key, held in self.open.items()
        }
        ticks = False
        if isinstance(self.emission, EarlyByClock):
            tick = now // (self.emission.microseconds // 1000)
            ticks, self.tick = self.tick is not None and tick > self.tick, tick
        for key, held in self.open.items():
            for each in held:
                kind = self.kind(each, each is held[-1], ticks, waiting[key])
                if kind is None:
                    continue
                if not self.emission.fires_once:
                    for start, end in each.shown:
                        if (start, end) != (each.start, each.end):
                            yield ("merged", key, start, end + self.window.unit), None
                place = kind, key, each.start, each.end + self.window.unit
                each.shown = {(each.start, each.end): len(each.values)}
                if kind == "correction" and self.emission.accumulation is RETRACTING:
                    self.replaced[place] = each.last
                each.last = list(each.values)
                alone = kind == "correction" and self.emission.accumulation is DISCARDING
                yield place, list(each.new if alone else each.values)

    def kind(self, each, is_newest, ticks, waiting):
        """Why a session goes out now, None if it does not."""
        new = len(each.values) - sum(each.shown.values())
        if isinstance(self.emission, OnUpdate | OnUpdateLatest):
            return "update" if each.fresh and (is_newest or not isinstance(self.emission, OnUpdateLatest)) else None
        if self.emission.fires_late:
            if each.end + self.window.unit > self.watermark * 1000:
                return None
            if each.shown.keys() != {(each.start, each.end)}:
                return "final"
            return "correction" if new else None
        if self.closed(each.end):
            return "final"
        if self.emission.fires_once or not new:
            return None
        due = ticks if isinstance(self.emission, EarlyByClock) else waiting >= self.emission.count
        return "early" if due else None


class World:
    """A bucket of sessions and its model; `step` runs both and compares them.

    Records are (time, key, value, gap); with a gap that the window has, theirs is left out of account.
    """

    def __init__(self, window, names=("sum", "highest"), emission=ON_CLOSE, grace=0, held=True, key="bigint"):
        self.window, self.emission, self.grace, self.held = window, emission, grace, held
        self.cases = [CASES[name] for name in names]
        self.shape = shape_of(window.family, self.cases, (key,))
        arguments = tuple((at,) for at in range(len(names)))
        self.strategy = support_of(window).strategy(Aggregation(self.shape, ("merging",) * len(names), arguments))
        self.store, self.model = CountingStore(), Model(window, emission, grace)
        self.late, self.fingerprint = 0, FINGERPRINT

    def chunk(self, records):
        """Records as the first stage reads them."""
        times, keys, values, gaps = ([r[i] for r in records] for i in range(4))
        column = pa.array(values, pa.int64())
        columns = {"time": pa.array(times, pa.timestamp("us", "UTC")), "k0": pa.array(keys, pa.int64())}
        if self.window.gap is None:
            columns["k1"] = pa.array(gaps, pa.int64())
        return pa.table(columns | {f"v{i}": case.argument(column) for i, case in enumerate(self.cases)})

    def shipped(self, records, chunks=2):
        """The block that one input partition ships."""
        stage = self.strategy.first_stage((0,))
        cuts = [len(records) * i // chunks for i in range(chunks + 1)]
        blocks = []
        for low, high in itertools.pairwise(cuts):
            if high > low:
                found = stage._read(self.chunk(records[low:high]), Dropped())
                blocks.append(stage._block(found))
        for label, block in stage._by_bucket(stage._fold(blocks)):
            assert label == 0
            return [self.strategy.decode(page) for _, page in stage._pages({label: block})]
        return []

    def bucket(self):
        return SessionBucket(self.shape, self.window, self.grace, self.fingerprint, self.store, self.emission)

    def step(self, records, watermark, now=0, partitions=2):
        if not self.held:
            memory._kept.clear()
        bucket = self.bucket()
        cuts = [len(records) * i // partitions for i in range(partitions + 1)]
        parts = [records[low:high] for low, high in itertools.pairwise(cuts)]
        late = bucket.accept([block for part in parts if part for block in self.shipped(part)])
        self.late += late.all
        got = self.rows(bucket.close(moment(watermark, now)))
        bucket.check()
        wanted = self.model.step([self.known(r) for r in records if self.counts(r)], watermark, now)
        self.compare(got, wanted)
        assert self.late == self.model.late
        assert int(late.refused[0].rows.records.sum()) == late.all
        assert bucket.extent()["open_windows"] == sum(map(len, self.model.open.values()))
        return got

    def known(self, record):
        return (*record[:3], record[3] if self.window.gap is None else self.window.gap)

    def counts(self, record):
        gap = self.known(record)[3]
        return record[0] is not None and gap is not None and gap > 0

    def rows(self, frames):
        """Rows by (kind, key, start, end): the number of records, then the results; None for what is taken back."""
        found, self.replaced = {}, {}
        for frame in frames:
            keys = frame.names["k0"].take(pa.array(frame.keys)).to_pylist()
            places = list(zip(keys, frame.windows.tolist(), frame.ends.tolist(), strict=True))
            if frame.kind == "merged":
                for key, start, end in places:
                    covering = [at for at in found if at[1] == key and at[2] <= start and end <= at[3]]
                    assert not covering, "what is taken back comes before what replaces it"
            columns = [frame.records.tolist(), *(() if frame.kind == "merged" else columns_of(self.shape, frame))]
            if frame.old is not None:
                before = [frame.old.records.tolist(), *columns_of(self.shape, frame.old)]
                self.replaced |= {(frame.kind, *at): row for at, *row in zip(places, *before, strict=True)}
            for place, *row in zip(places, *columns, strict=True):
                assert (frame.kind, *place) not in found, "a row goes out once"
                found[frame.kind, *place] = None if frame.kind == "merged" else row
        return found

    def compare(self, got, wanted):
        assert self.replaced.keys() == self.model.replaced.keys()
        for place, values in self.model.replaced.items():
            assert_row(self.replaced[place], values, self.cases, place)
        assert got.keys() == wanted.keys(), (sorted(got.keys() - wanted.keys(), key=str), wanted.keys() - got.keys())
        for place, values in wanted.items():
            if values is None:
                assert got[place] is None
            else:
                assert_row(got[place], values, self.cases, place)

    def drain(self):
        """Close all, and assert that nothing is left."""
        self.step([], 1 << 43)
        assert not self.model.open
        assert not self.store.pages


def stream(rng, batches, gap=10_000, keys=4, spread=6, start=0, gaps=None):
    """Micro-batches of records with disorder, late ones and duplicates, and watermarks in milliseconds.

    Half of the times are quarters of the gap, so that intervals touch each other and end where the watermark is.
    """
    clock = start
    for _ in range(batches):
        clock += rng.choice([0, gap // 2, gap, 3 * gap])
        records = [
            (
                clock + rng.choice([rng.randrange(-spread * gap, gap), rng.randrange(-4 * spread, 4) * (gap // 4)]),
                rng.randrange(keys),
                rng.randrange(-50, 100),
                rng.choice(gaps or [gap]),
            )
            for _ in range(rng.randrange(12))
        ]
        records += rng.choices(records, k=2) if records else []
        yield records, max(0, (clock - rng.choice([1, 2, 4]) * gap) // 1000)


def day(count, keys, gap, seed=0):
    """Many records at random in a day, as arrays of times and keys."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.integers(0, 86_400_000_000, count)), rng.integers(0, keys, count)
