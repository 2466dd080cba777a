"""What the tests of the core share: windows by definition, aggregates with a truth of their own, a store that counts.

Nothing here uses the arithmetic or the trees that it judges: windows are tried one by one, and the results come from
`sum`, `max`, `math.fsum` and `numpy.var` on all values of a window.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicing.aggregates.tracing  # noqa: F401  # kernels of plain functions run on columns, as in queries
from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import EAGER, choose
from slicing.content.block import Shape, encode_keys
from slicing.content.codec import decode, encode
from slicing.content.folding import from_records
from slicing.content.records import Records, decode_records, encode_records
from slicing.engines.eager.bucket import EagerBucket
from slicing.engines.mixed import MixedBucket, Split
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import MemoryStore
from slicing.triggers.change import OnChange
from slicing.triggers.early_by_clock import EarlyByClock
from slicing.triggers.trigger import MicroBatchTime
from slicing.windows.time.slices import Slicing

INT = pa.int64()
FINGERPRINT = Fingerprint({"keys": ["key0 bigint"]})


def moment(watermark, clock=0):
    """The moment of a micro-batch, from milliseconds."""
    return MicroBatchTime(watermark * 1000, clock * 1000)


def seeds(short, every):
    """So many seeds of random streams for each run of the tests, and the rest of `every` for the long one."""
    return [*range(short), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(short, every))]


def few(chosen, every):
    """What is chosen for each run of the tests, and the rest of `every` for the long one."""
    values = ((each, each if isinstance(each, tuple) else (each,)) for each in every)
    return [each if each in chosen else pytest.param(*some, marks=pytest.mark.long) for each, some in values]


def windows_of(family, time):
    """The windows that hold an instant, each tried."""
    nearest = (time - family.offset) // family.advance
    tried = range(nearest - family.size // family.advance - 1, nearest + 2)
    return [w for w in tried if 0 <= time - family.offset - w * family.advance < family.size]


def last_edge(family, time):
    """The last start or end of a window up to an instant, which is where its slice starts."""
    edges = (family.offset, family.offset + family.size)
    return max(time - (time - edge) % family.advance for edge in edges)


@dataclass(frozen=True)
class Case:
    """An aggregate, how it sees the values of the records, the truth, and how near to it a result must be.

    `of_time`: it and its truth see the event times, in microseconds, in place of the values. `timed`: it sees them
    beside the values.
    """

    aggregate: Aggregate
    truth: Callable
    argument: Callable = lambda column: column
    tolerance: Callable = lambda values: 0
    of_time: bool = False
    timed: bool = False


def ones(values):
    return np.ones(values.shape, np.int64)


def join_moments(a, b):
    """Counts, means and sums of squared distances of two parts; Chan, Golub and LeVeque (1979)."""
    count = a[0] + b[0]
    share = b[0] / np.maximum(count, 1)
    apart = b[1] - a[1]
    return count, a[1] + apart * share, a[2] + b[2] + apart * apart * (a[0] * share)


def tenths(values):
    return np.array(values) * 0.1


CASES = {
    "sum": Case(
        Aggregate(
            lambda: (0, 0, 0),
            lambda acc, v: (v >> 32, v & 0xFFFFFFFF, ones(v)),
            fieldwise(np.add, np.add, np.add),
            fieldwise(np.subtract, np.subtract, np.subtract),
            lambda p: (p[0] << 32) + p[1],
            returns="long",
            columns=True,
        ),
        sum,
    ),
    "rows": Case(
        Aggregate(
            lambda: (0, 0),
            lambda acc, v: (acc[0] + v, acc[1] + 1),
            lambda a, b: (a[0] + b[0], a[1] + b[1]),
            lambda ab, a: (ab[0] - a[0], ab[1] - a[1]),
        ),
        lambda values: (sum(values), len(values)),
    ),
    "floats": Case(
        Aggregate(lambda: 0.0, lambda acc, v: acc + v, fieldwise(np.add), columns=True),
        lambda values: math.fsum(tenths(values)),
        lambda column: pc.multiply(column.cast(pa.float64()), 0.1),
        lambda values: 1e-12 * math.fsum(abs(tenths(values))),
    ),
    "variance": Case(
        Aggregate(
            lambda: (0, 0.0, 0.0),
            lambda acc, v: (ones(v), v, np.zeros(v.shape)),
            join_moments,
            lower=lambda p: p[2] / np.maximum(p[0], 1),
            returns="double",
            columns=True,
        ),
        lambda values: float(np.var(tenths(values).astype(np.longdouble))) if values else 0.0,
        lambda column: pc.multiply(column.cast(pa.float64()), 0.1),
        lambda values: 1e-10 * max(np.var(tenths(values)), 1e-4 * np.mean(tenths(values)) ** 2) if values else 0.0,
    ),
    "highest": Case(
        Aggregate(
            lambda: (-1, 0),
            lambda acc, v: (v, ones(v)),
            fieldwise(np.maximum, np.add),
            partial="v string, n long",
            columns=True,
            view="ranks",
        ),
        lambda values: (max(map(str, values), default=None), len(values)),
        lambda column: column.cast(pa.string()),
    ),
    "joined": Case(
        Aggregate(lambda: "", lambda acc, v: f"{acc}{v},", lambda a, b: a + b, ordered=True),
        lambda values: "".join(f"{v}," for v in values),
    ),
}


def cases(*names):
    return [CASES[name] for name in names]


def shape_of(family, cases, kinds=("bigint",)):
    keys = tuple(Field(f"key{i}", kind) for i, kind in enumerate(kinds))
    return Shape(family, keys, tuple(kernel(f"result{i}", case.aggregate) for i, case in enumerate(cases)))


def records_of(shape, cases, records, value=INT):
    """Records (time, key, value), with a column for each case; those in a gap are left out, as the first stage does."""
    times = np.array([time for time, _, _ in records], np.int64)
    slices = shape.family.slice_at(times)
    kept = np.flatnonzero(~np.broadcast_to(shape.family.in_gap(slices), slices.shape))
    names = pa.table([pa.array([records[i][1] for i in kept], shape.key_schema.types[0])], shape.key_schema)
    values = pa.array([records[i][2] for i in kept], value)
    columns = [pa.array(times[kept]) if case.of_time else case.argument(values) for case in cases]
    return Records(slices[kept], times[kept], names, columns)


def block_of(shape, cases, records, value=INT):
    """The block of records (time, key, value)."""
    columns = records_of(shape, cases, records, value)
    codes, names = encode_keys(columns.names)
    times = [[pa.array(columns.times)] if case.timed else [] for case in cases]
    arguments = [[column, *time] for column, time in zip(columns.values, times, strict=True)]
    return from_records(shape, columns.index, codes, names, arguments)


def results(shape, frames):
    """Results by (key, window): the number of records, then what each aggregate shows."""
    rows = {}
    for frame in frames:
        columns = [frame.records.tolist(), *columns_of(shape, frame)]
        keys = frame.names["k0"].take(pa.array(frame.keys)).to_pylist()
        for key, window, *row in zip(keys, frame.windows.tolist(), *columns, strict=True):
            assert (key, window) not in rows, "a window goes out once"
            rows[key, window] = row
    return rows


def brute_force(family, records):
    """The values of every (key, window), in the order of slices and inside a slice in that of the records."""
    held = defaultdict(list)
    for time, key, value in sorted(records, key=lambda record: last_edge(family, record[0])):
        for window in windows_of(family, time):
            held[key, window].append(value)
    return held


def assert_right(got, held, cases):
    """Exactly the windows that hold records went out, each with the true results."""
    assert got.keys() == held.keys()
    for place, values in held.items():
        assert_row(got[place], values, cases, place)


def assert_row(row, values, cases, place):
    """The number of records and the results of a row are those of these values."""
    count, *found = row
    assert count == len(values), place
    for case, result in zip(cases, found, strict=True):
        truth, tolerance = case.truth(values), case.tolerance(values)
        assert result == truth or (tolerance and abs(result - truth) <= tolerance), (place, result, truth)


class CountingStore(MemoryStore):
    """Counts the pages read and written and their bytes."""

    def __init__(self):
        super().__init__()
        self.forget_counts()

    def forget_counts(self):
        self.reads = self.bytes_read = self.writes = self.bytes_written = 0

    @contextmanager
    def counting_nothing(self):
        """For checks."""
        counts = self.reads, self.bytes_read
        yield
        self.reads, self.bytes_read = counts

    def get(self, page):
        self.reads += 1
        self.bytes_read += len(self.pages[page])
        return super().get(page)

    def put(self, page, text):
        assert page not in self.pages, "pages are written once"
        self.writes += 1
        self.bytes_written += len(text)
        super().put(page, text)


class Stream:
    """A bucket driven by micro-batches, beside the list of what every window must hold by the rule of lateness.

    `judged=False` leaves out that list and the checks after each step, for runs that only measure. `key` is the kind of
    the key, `value` the Arrow type of the values.
    """

    def __init__(self, family, cases, trees=None, grace=0, judged=True, key="bigint", value=INT):
        self.family, self.cases, self.grace, self.judged, self.value = family, cases, grace, judged, value
        self.shape = shape_of(family, cases, (key,))
        self.trees = trees or [choose(kernel_, family) for kernel_ in self.shape.kernels]
        self.fingerprint = FINGERPRINT
        self.store = CountingStore()
        self.watermark = 0
        self.taken = []
        self.windows = defaultdict(set)
        self.got = {}
        self.late, self.true_late = [0, 0], [0, 0]
        self.refused, self.true_refused = [], []

    def bucket(self):
        """What the next micro-batch sees: everything is read from the store anew."""
        return SlicedBucket(self.shape, self.trees, self.grace, self.fingerprint, self.store)

    def shipped(self, records):
        """What reaches the bucket of the records of one input partition."""
        return decode(self.shape, encode(self.shape, block_of(self.shape, self.cases, records, self.value)))

    def step(self, records, watermark=0, partitions=2):
        """One micro-batch: records, in order, from some input partitions; then the watermark, in milliseconds."""
        bucket = self.bucket()
        self.true_refused.append([])
        if self.judged:
            for record in records:
                self._judge(record)
        cuts = [len(records) * i // partitions for i in range(partitions + 1)]
        late = bucket.accept([self.shipped(records[a:b]) for a, b in pairwise(cuts)])
        self.refused.append(late)
        self.late = [self.late[0] + late.all, self.late[1] + late.some]
        self.watermark = max(watermark, self.watermark)
        out = results(self.shape, list(bucket.close(moment(self.watermark))))
        assert not out.keys() & self.got.keys(), "a window goes out once"
        self.got |= out
        if self.judged:
            self._check_counting_nothing()
        return out

    def _judge(self, record):
        time, _, _ = record
        windows = windows_of(self.family, time)
        opened = [w for w in windows if self._takes(w)]
        self.true_late[0] += bool(windows) and not opened
        self.true_late[1] += 0 < len(opened) < len(windows)
        if len(opened) < len(windows):
            self.true_refused[-1].append(
                (record, self.watermark, min(opened, default=None), len(windows) - len(opened))
            )
        if opened:
            self.taken.append((record, opened))

    def _takes(self, window):
        """Whether a window takes records."""
        return not self._passed(window, self.watermark, self.grace)

    def _passed(self, window, watermark, wait):
        end = self.family.offset + window * self.family.advance + self.family.size
        return end + wait <= watermark * 1000

    def _check_counting_nothing(self):
        counts = self.store.reads, self.store.bytes_read
        self.bucket().check()
        self.store.reads, self.store.bytes_read = counts

    def held(self):
        """The values that every (key, window) must hold."""
        held = defaultdict(list)
        for (_, key, value), windows in sorted(self.taken, key=lambda taken: last_edge(self.family, taken[0][0])):
            for window in windows:
                held[key, window].append(value)
        return held

    def drain(self):
        """Let all windows go out, and assert that all is right and nothing is left."""
        self.step([], 1 << 43)
        assert_right(self.got, self.held(), self.cases)
        assert self.late == self.true_late
        assert not self.store.pages
        head = self.bucket().head
        assert (head.newest, head.fresh, head.slice_groups, head.late, head.lists) == (None, [], {}, [], {})


def evenly(family, slices, keys=1, value=lambda index, key: index):
    """One record of each key in each slice, at the start of the slice."""
    starts = [(index, int(family.slice_start(index))) for index in slices]
    return [(start, key, value(index, key)) for index, start in starts for key in range(keys)]


def hopping(n, advance=1000):
    """Windows of n slices, of one millisecond each unless said otherwise."""
    return Slicing(n * advance, advance)


# --- emission -------------------------------------------------------------------------------------------------------


def emitted(shape, frames):
    """Results of windows by (kind, key, window), and what each one replaces: None if there was no result."""
    rows = {}
    for frame in frames:
        columns = columns_of(shape, frame)
        old = [[None] * len(frame) for _ in shape.kernels]
        if frame.old is not None:
            there = frame.old.records > 0
            before = columns_of(shape, frame.old)
            old = [[value if some else None for value, some in zip(column, there, strict=True)] for column in before]
        keys = frame.names["k0"].take(pa.array(frame.keys)).to_pylist()
        for at, place in enumerate(zip(keys, frame.windows.tolist(), strict=True)):
            assert (frame.kind, *place) not in rows, "a window goes out once in a micro-batch"
            rows[(frame.kind, *place)] = [column[at] for column in columns], [column[at] for column in old]
    return rows


def columns_of(shape, frame):
    """What the rows of windows, or of a block, show: a column for each aggregate."""
    columns = []
    for kernel_, partials, dictionary in zip(shape.kernels, frame.partials, frame.dictionaries, strict=True):
        arrays = [array.to_pylist() for array in kernel_.results_to_arrow(partials, dictionary)]
        columns.append(arrays[0] if len(arrays) == 1 else list(zip(*arrays, strict=True)))
    return columns


CASES["most"] = Case(
    Aggregate(lambda: -(2**63), lambda acc, v: v // 40, fieldwise(np.maximum), columns=True),
    lambda values: max(v // 40 for v in values) if values else -(2**63),
)
CASES["parity"] = Case(
    Aggregate(
        lambda: 0,
        lambda acc, v: acc + v,
        lambda a, b: a + b,
        lambda ab, a: ab - a,
        lower=lambda total: None if total % 3 == 0 else total % 2,
        returns="long",
    ),
    lambda values: None if sum(values) % 3 == 0 else sum(values) % 2,
)


class EmittingStream(Stream):
    """A bucket under any emission, beside the rows that must go out in each micro-batch, from the raw records.

    Every window is tried by its definition; what differs from emission to emission is in `_expect_...` only.
    """

    def __init__(self, family, cases, emission, trees=None, grace=0, eager=False, **kinds):
        super().__init__(family, cases, trees, grace, **kinds)
        self.emission, self.eager = emission, eager
        # By wait, the watermark that closed windows: those that have gone out, and those that take no records.
        self.gone, self.refusing = {self.wait: 0}, {grace: 0}
        self.compares = False  # whether the last window that has gone out is still there, for `on_change`
        self.batch = []  # taken in this micro-batch, as in `taken`
        self.went = {}  # the last result of each key that went out on change
        self.since = []  # taken since its key went out early
        self.tick, self.clock = None, 0
        self.rows = 0

    @property
    def wait(self):
        """From a window's end until it goes out."""
        return 0 if self.emission.fires_late else self.grace

    def change(self, emission):
        """From the next micro-batch on another emission; it goes on as if it had always been there.

        What went out is closed, unless both correct it. What counts towards an early result begins anew. The window
        that `on_change` compares with is the last one that has gone out, if it is still there: until another one went
        out under an emission that neither compares nor corrects.
        """
        if not (str(self.emission).startswith("early") and str(emission).startswith("early")):
            self.since = []
        if isinstance(emission, OnChange) and not isinstance(self.emission, OnChange):
            window = self._last_gone()
            keys = {key for key, _ in self._pairs(self.taken)} if self.compares else ()
            held = {key: self._held(key, window, self.taken) for key in keys}
            self.went = {key: [case.truth(values) for case in self.cases] for key, values in held.items() if values}
        self.emission = emission

    def _last_gone(self):
        """The last window that has gone out; those near the watermark are tried."""
        tried = (
            (watermark * 1000 - wait - self.family.size - self.family.offset) // self.family.advance + step
            for wait, watermark in self.gone.items()
            for step in (-1, 0, 1)
        )
        return max(window for window in tried if self._closed(window, self.gone))

    def bucket(self):
        if self.eager:
            arguments = [[i] for i in range(len(self.cases))]
            return EagerBucket(self.shape, arguments, self.grace, self.fingerprint, self.store, self.emission)
        return SlicedBucket(self.shape, self.trees, self.grace, self.fingerprint, self.store, self.emission)

    def shipped(self, records):
        if not self.eager:
            return super().shipped(records)
        columns = records_of(self.shape, self.cases, records, self.value)
        return decode_records(self.shape, encode_records(self.shape, columns))

    def arriving(self, records, partitions):
        """What reaches the bucket of a micro-batch, from some input partitions."""
        cuts = [len(records) * i // partitions for i in range(partitions + 1)]
        return [self.shipped(records[a:b]) for a, b in pairwise(cuts)]

    def step(self, records, watermark=0, now=0, partitions=2):
        """One micro-batch, as in `Stream`, and the time of its trigger in milliseconds; checks what went out."""
        expected = self.expect(records, watermark, now)
        bucket = self.bucket()
        late = bucket.accept(self.arriving(records, partitions))
        self.refused.append(late)
        self.late = [self.late[0] + late.all, self.late[1] + late.some]
        revision = bucket.head.revision
        got = emitted(self.shape, bucket.close(moment(self.watermark, now)))
        assert bucket.head.revision == revision + (not self.emission.fires_once)
        self._compare(got, expected)
        self._check_counting_nothing()
        self.rows += len(got)
        return got

    def expect(self, records, watermark, now=0):
        """What has to go out in one micro-batch: (kind, key, window) -> values, and the values that were replaced."""
        if not self.emission.fires_late:
            self._close(self.refusing, self.gone)
        known = len(self.taken)
        self.true_refused.append([])
        for record in records:
            self._judge(record)
        self.batch = self.taken[known:]
        before, last, self.watermark = dict(self.gone), self._last_gone(), max(watermark, self.watermark)
        self._close(self.gone, {self.wait: self.watermark})
        rows = self._expected(before, now)
        self._close(self.refusing, {self.grace: self.watermark} if self.emission.fires_late else self.gone)
        if self._last_gone() > last:
            is_accepting = self.emission.fires_late and not self._closed(self._last_gone(), self.refusing)
            self.compares = isinstance(self.emission, OnChange) or is_accepting
        return rows

    @staticmethod
    def _close(closed, more):
        for wait, watermark in more.items():
            closed[wait] = max(watermark, closed.get(wait, 0))

    def _closed(self, window, closed):
        return any(self._passed(window, watermark, wait) for wait, watermark in closed.items())

    def _takes(self, window):
        return not self._closed(window, self.refusing)

    def _compare(self, got, expected):
        assert got.keys() == expected.keys()
        for place, (values, old) in expected.items():
            for found, wanted in zip(got[place], (values, old), strict=True):
                for case, result in zip(self.cases, found, strict=True):
                    if wanted is None:
                        assert result is None, place
                        continue
                    truth = case.truth(wanted)
                    tolerance = case.tolerance(wanted) if wanted else 0
                    assert result == truth or (tolerance and abs(result - truth) <= tolerance), (place, result, truth)

    def _held(self, key, window, taken):
        chosen = [record for record, windows in taken if record[1] == key and window in windows]
        if self.eager:
            return [value for _, _, value in chosen]
        return [value for _, _, value in sorted(chosen, key=lambda record: last_edge(self.family, record[0]))]

    def _pairs(self, taken):
        return {(record[1], window) for record, windows in taken for window in windows}

    def _expected(self, before, now):
        text = str(self.emission)
        if text.startswith("on_update"):
            return self._expect_updates(text != "on_update()")
        if text.startswith("on_change"):
            return self._expect_changes(before, text != "on_change()")
        rows = {
            ("final", key, window): (self._held(key, window, self.taken), None)
            for key, window in self._pairs(self.taken)
            if self._closed(window, self.gone) and not self._closed(window, before)
        }
        if "corrections" in text:
            rows |= self._expect_corrections(before, text)
        if text.startswith("early"):
            rows |= self._expect_early(now)
        return rows

    def _expect_updates(self, latest_only):
        pairs = self._pairs(self.batch)
        if latest_only:
            pairs &= {(key, self._newest(key)) for key, _ in pairs}
        return {("update", *pair): (self._held(*pair, self.taken), None) for pair in pairs}

    def _newest(self, key):
        newest = max(record[0] for record, _ in self.taken if record[1] == key)
        return min(w for w in windows_of(self.family, newest) if self._takes(w))

    def _expect_corrections(self, before, text):
        earlier = self.taken[: len(self.taken) - len(self.batch)]
        rows = {}
        for pair in self._pairs(self.batch):
            if self._closed(pair[1], before):
                values, old = self._held(*pair, self.taken), self._held(*pair, earlier) or None
                if "discarding" in text:
                    values = self._held(*pair, self.batch)
                rows["correction", *pair] = values, old if "old" in text else None
        return rows

    def _expect_changes(self, before, drained):
        """Window by window, as its definition says; `went` has the last result of a key."""
        pairs, rows = self._pairs(self.taken), {}
        tried = {window for _, window in pairs}
        for window in sorted(tried | {window + 1 for window in tried}):
            if not self._closed(window, self.gone) or self._closed(window, before):
                continue
            for key in {key for key, _ in pairs}:
                values = self._held(key, window, self.taken)
                result = [case.truth(values) for case in self.cases] if values else None
                if values and result != self.went.get(key):
                    rows["final", key, window] = values, None
                if not values and key in self.went and drained:
                    rows["drained", key, window] = [], None
                self.went[key] = result
                if result is None:
                    del self.went[key]
        return rows

    def _expect_early(self, now):
        self.since += self.batch
        self.since = [
            (record, windows) for record, windows in self.since if not all(self._closed(w, self.gone) for w in windows)
        ]
        when = self.emission
        if isinstance(when, EarlyByClock):
            # A clock that is back by more than an interval is right now, and was wrong before.
            self.clock = now if self.clock - now > when.microseconds // 1000 else max(now, self.clock)
            tick = self.clock // (when.microseconds // 1000)
            due = self.since if self.tick is not None and tick > self.tick else []
            self.tick = tick
        else:
            counts = Counter(record[1] for record, _ in self.since)
            due = [taken for taken in self.since if counts[taken[0][1]] >= when.count]
        self.since = [taken for taken in self.since if taken not in due]
        return {
            ("early", *pair): (self._held(*pair, self.taken), None)
            for pair in self._pairs(due)
            if not self._closed(pair[1], self.gone)
        }

    def drain(self):
        """Let all windows go out, and assert that nothing is left."""
        self.step([], 1 << 43, 1 << 43)
        self.step([], (1 << 43) + 10**6, 1 << 43)
        assert self.late == self.true_late
        assert not self.store.pages


class MixedStream(EmittingStream):
    """A bucket in which every second aggregate is eager; without `combine` there is no other way for it."""

    def __init__(self, family, cases, emission, **options):
        super().__init__(family, cases, emission, **options)
        self.trees = [EAGER if i % 2 else tree for i, tree in enumerate(self.trees)]
        split = Split(tuple(self.trees)).sliced
        self.of_slices = self.shape.select(split), [cases[i] for i in split]

    def bucket(self):
        arguments = [[i] for i in range(len(self.cases))]
        return MixedBucket(self.shape, self.trees, arguments, self.grace, self.fingerprint, self.store, self.emission)

    def shipped(self, records):
        shape, cases = self.of_slices
        block = decode(shape, encode(shape, block_of(shape, cases, records, self.value)))
        columns = records_of(self.shape, self.cases, records, self.value)
        return [block, decode_records(self.shape, encode_records(self.shape, columns))]

    def arriving(self, records, partitions):
        return [each for parts in super().arriving(records, partitions) for each in parts]


ARRIVED = Case(
    Aggregate(lambda: (0, 0), lambda acc, v: (acc[0] + v * v, max(acc[1], v))),
    lambda values: (sum(v * v for v in values), max([0, *values])),
)
"""Without `combine`."""
