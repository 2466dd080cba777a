"""Queries that change on one bucket, and what they must emit by the raw records alone."""

import random
from dataclasses import dataclass, field, replace

import pyarrow as pa

import combinators as C
from slicing import Aggregate, cumulating, hopping, on_close, tumbling
from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import EAGER, choose
from slicing.content.block import Shape
from slicing.stages.execution_plan import Aggregation
from slicing.stages.output import flat_windows
from slicing.stages.support_of import support_of
from slicing.state.format.fingerprint import PARTIALS, WINDOWS, fingerprint_of
from slicing.state.store import MemoryStore
from slicing.triggers.trigger import MicroBatchTime
from slicing.windows.sets import windows_of_call

SECOND = 1_000_000
KINDS = {"n": "bigint", "s": "string"}


def _squares(acc, n):
    return acc if n is None else acc + n * n


def _plus(a, b):
    return a + b


def _minus(ab, a):
    return ab - a


def _appended(acc, s):
    return f"{acc}{s}" if s else acc


SQUARES = Aggregate(lambda: 0, _squares, _plus, _minus, nulls=True)
PLAIN_SQUARES = Aggregate(lambda: 0, _squares, _plus, nulls=True, version="without invert")
JOINED = Aggregate(lambda: "", _appended, nulls=True)


def _some(records, at):
    return [each[at] for each in records if each[at] is not None]


def _last(acc, s):
    return s


LAST = Aggregate(lambda: "", _last, version="last")


def _mean(records):
    found = _some(records, 2)
    return sum(found) / len(found) if found else None


def _variance(records):
    found = _some(records, 2)
    mean = sum(found) / len(found) if found else 0
    return sum((each - mean) ** 2 for each in found) / (len(found) - 1) if len(found) > 1 else None


RESULTS = {
    "rows": (C.count(), len),
    "count": (C.count("n"), lambda records: len(_some(records, 2))),
    "total": (C.sum("n"), lambda records: sum(found) if (found := _some(records, 2)) else None),
    "mean": (C.mean("n"), _mean),
    "variance": (C.variance("n"), _variance),
    "most": (C.max("s"), lambda records: max(_some(records, 3), default=None)),
    "least": (C.min("n"), lambda records: min(_some(records, 2), default=None)),
    "squares": (SQUARES.on("n"), lambda records: sum(n * n for n in _some(records, 2))),
    "plain": (PLAIN_SQUARES.on("n"), lambda records: sum(n * n for n in _some(records, 2))),
    "last": (LAST.on("s"), lambda records: (["", *_some(records, 3)])[-1]),
    "joined": (JOINED.on("s"), lambda records: "".join(_some(records, 3))),
}
"""By name: a result, and the same of records (time, key, n, s) in their order."""
FIELDS = {
    "count": ["n"],
    "total": ["n", "sum"],
    "mean": ["n", "sum"],
    "variance": ["n", "moments"],
    "least": ["n", "least"],
    "most": ["most"],
}
"""What results are made of, where they share it; what one of them has another one is made of."""
EAGER_ONES = ("last", "joined")

POOL = [
    hopping("5 seconds", "1 second"),
    hopping("12 seconds", "4 seconds"),
    hopping("20 seconds", "1 second"),
    hopping("6 seconds", "3 seconds", offset="1 second"),
    tumbling("1 second"),
    tumbling("20 seconds"),
    cumulating("24 seconds", step="2 seconds"),
]
"""Windows whose edges are whole seconds."""


class Query:
    """Windows and results by name."""

    def __init__(self, windows, results, emission=None, grace=0, adapt="allow", retain=0, wide=False):
        named = {f"w{at}": each for at, each in enumerate(windows)}
        self.windows = windows_of_call((), named, long=not wide) if len(named) > 1 else windows[0]
        self.members, self.names, self.grace = list(windows), list(results), grace
        self.emission = emission or on_close()
        columns, bounds = list(KINDS), [RESULTS[name][0] for name in results]
        kernels = tuple(
            kernel(name, bound.resolve(tuple(KINDS[column] for column in bound.columns)))
            for name, bound in zip(results, bounds, strict=True)
        )
        arguments = tuple(tuple(map(columns.index, bound.inputs)) for bound in bounds)
        self.family = self.windows.family
        self.shape = Shape(self.family, (Field("key", "bigint"),), kernels)
        trees = tuple(choose(each, own) for own in self.family.families for each in kernels)
        support = support_of(self.windows)
        values = tuple(Field(each, kind) for each, kind in KINDS.items())
        self.execution_plan = support.execution_plan(Aggregation(self.shape, trees, arguments, True, values))
        self.stage = self.execution_plan.first_stage((0,))
        contents = [WINDOWS if tree == EAGER else PARTIALS for tree in trees[: len(kernels)]]
        bound = [[None if at < 0 else columns[at] for at in places] for places in arguments]
        fixed = support.fixed(self.emission, trees)
        made = fingerprint_of(self.shape, contents, bound, "1 over 1 shuffle partitions", adapt=adapt, fixed=fixed)
        self.fingerprint = replace(made, retain=retain)

    def bucket(self, store):
        """The bucket over a store."""
        return self.execution_plan.bucket(self.grace, self.fingerprint, store, self.emission)

    def shipped(self, records):
        """What the first stage ships of records."""
        names = ["time", "key", *KINDS]
        arrays = [pa.array([r[at] for r in records], pa.string() if at == 3 else pa.int64()) for at in range(4)]
        batch = pa.RecordBatch.from_arrays(arrays, names)
        return self.execution_plan.shipped(pa.Table.from_batches(self.stage([batch])).to_pydict())

    def wide_step(self, store, records, watermark):
        """The rows of a micro-batch where windows are side by side: (end, key, results by window and name)."""
        bucket, found = self.bucket(store), []
        bucket.accept(self.shipped(records))
        for frame in bucket.close(MicroBatchTime(watermark)):
            shape = replace(self.shape, since=bucket.coverage.results)
            table = flat_windows(shape, frame, self.emission, bucket.head.revision, True)
            places = [(repr(each), name) for each in self.members for name in self.names]
            for row in table.to_pylist():
                found.append((row["start"], row["k0"], {at: row[f"r{i}"] for i, at in enumerate(places)}))
        self.bucket(store).check()
        return found

    def step(self, store, records, watermark):
        """The rows of a micro-batch, (start, end, key, results by name), and how many records all windows refuse."""
        bucket, found = self.bucket(store), []
        late = bucket.accept(self.shipped(records))
        for frame in bucket.close(MicroBatchTime(watermark)):
            shape = Shape(self.shape.family, self.shape.keys, self.shape.kernels, since=bucket.coverage.results)
            table = flat_windows(shape, frame, self.emission, bucket.head.revision)
            own = self.family.families[frame.family]
            ends = frame.ends_by(own).tolist()
            starts = own.window_start(frame.windows).tolist()
            for row, start, end in zip(table.to_pylist(), starts, ends, strict=True):
                results = {name: row[f"r{at}"] for at, name in enumerate(self.names)}
                found.append((start, end, row["k0"], results))
        self.bucket(store).check()
        return found, late.all


@dataclass
class Model:
    """What a bucket holds by the records alone: since when windows and results are whole."""

    records: list = field(default_factory=list)  # records, each with the watermark by which it is late or not
    begins: dict = field(default_factory=dict)
    passed: dict = field(default_factory=dict)  # by windows: the end up to which they had ended when they were added
    fields: dict = field(default_factory=dict)
    known: dict = field(default_factory=dict)
    newest: int | None = None
    watermark: int = 0
    query: Query | None = None
    fine_from: int | None = None

    def change(self, query):
        """Let another query go on."""
        old, self.query = self.query, query
        if old is None:
            self.begins = {repr(each): None for each in query.members}
            self.known = dict.fromkeys(query.names)
            self.fields = {field: None for name in query.names for field in FIELDS.get(name, [name])}
            return
        frontier = None if self.newest is None else self._end(old, self.newest)
        accepting = min(self._oldest_open(old, each) for each in old.members)
        finer = any(self._is_inside(old, edge) for edge in self._edges(query))
        if finer and frontier is not None:
            self.fine_from = frontier
        begin = accepting if self.fine_from is None else max(accepting, self.fine_from)
        if set(EAGER_ONES) & set(old.names) and frontier is not None:
            begin = max(begin, frontier)
        self.begins = {repr(each): self.begins.get(repr(each), begin) for each in query.members}
        closed = self.watermark - query.emission.wait(query.grace)
        passed = {repr(each): closed for each in query.members if repr(each) not in map(repr, old.members)}
        self.passed = {**{k: v for k, v in self.passed.items() if k in self.begins}, **passed}
        self.fields = {
            field: self.fields.get(field, frontier) for name in query.names for field in FIELDS.get(name, [name])
        }
        self.known = {name: self._of_fields(name) for name in query.names}

    def _of_fields(self, name):
        return max((at for each in FIELDS.get(name, [name]) if (at := self.fields[each]) is not None), default=None)

    def _edges(self, query):
        period = 120 * SECOND
        slices = range(query.family.slice_at(0), query.family.slice_at(period) + 1)
        return {int(query.family.slice_start(each)) % period for each in slices}

    def _is_inside(self, old, edge):
        return int(old.family.slice_start(old.family.slice_at(edge))) != edge

    @staticmethod
    def _end(query, time):
        family = query.family
        return int(family.slice_start(family.slice_at(time) + 1))

    def _oldest_open(self, old, member):
        family = member.family
        first = family.first_open(self.watermark, old.grace)
        begin = self.begins[repr(member)]
        while begin is not None and family.window_start(first) < begin:
            first += 1
        return int(family.window_start(first))

    def _intervals(self, time):
        for each in self.query.members:
            begin, passed = self.begins[repr(each)], self.passed.get(repr(each), -(1 << 60))
            for start, end in each.windows_of(time):
                if (begin is None or start >= begin) and end > passed:
                    yield repr(each), start, end

    def add(self, records):
        """Count the records of a micro-batch, judged by the watermark before."""
        for record in records:
            taken = any(end + self.query.grace > self.watermark for _, _, end in self._intervals(record[0]))
            self.records.append((record, self.watermark))
            if taken:
                self.newest = record[0] if self.newest is None else max(self.newest, record[0])

    def close(self, watermark):
        """The rows of windows that a watermark closes; the results are of all records that came in time."""
        before, self.watermark = self.watermark, max(self.watermark, watermark)
        grace = self.query.grace
        return self.rows(lambda end: before < end + grace <= self.watermark)

    def rows(self, asked=lambda end: True):
        """The rows of some windows by their ends, of all records so far that came in time."""
        groups = {}
        for record, judged in self.records:
            for name, start, end in self._intervals(record[0]):
                if asked(end) and end + self.query.grace > judged:
                    groups.setdefault((name, start, end, record[1]), []).append(record)
        rows = []
        for (_, start, end, key), found in groups.items():
            results = {
                name: RESULTS[name][1](found) if self.known[name] is None or start >= self.known[name] else None
                for name in self.query.names
            }
            rows.append((start, end, key, results))
        return rows


def stream(rng, batches, step=SECOND):
    """Records with disorder, late ones, duplicates and nulls, from before 1970 on; and the watermark of each."""
    found, greatest, begin = [], 0, rng.choice([1_000_000, 40]) * SECOND
    for number in range(batches):
        records = [
            (
                max(1, begin + int((2 * number + rng.random() * 3 - rng.expovariate(0.25)) * step)),
                rng.choice([None, 1, 2]),
                rng.choice([None, *range(-9, 10)]),
                rng.choice([None, "a", "bb", "ccc", "z"]),
            )
            for _ in range(rng.choice([0, 1, 3, 8]))
        ]
        records += records[:1] * rng.choice([0, 1])
        found.append((records, max(0, greatest)))
        greatest = max([greatest, *((record[0] - 3 * step) // 1000 * 1000 for record in records)])
        if rng.random() < 0.08:
            begin += 45 * step  # a gap, in which all windows close
    return found


def close_to(a, b):
    """Whether rows are equal, floats nearly."""
    return a[:3] == b[:3] and all(
        x == y or (isinstance(x, float) and y is not None and abs(x - y) < 1e-9 * max(1, abs(y)))
        for x, y in zip(a[3].values(), b[3].values(), strict=True)
    )


def order(row):
    """Rows in some order."""
    return row[0], row[1], row[2] is None, row[2] or 0


def any_query(rng, grace, sliced=True, eager=False, emission=None):
    """Some windows and results, in any order: of slices, eager ones, or at least one of slices where there are both."""
    names = list(RESULTS)[:-2] if sliced else list(EAGER_ONES)
    chosen = rng.sample(names, rng.choice([1, 2] if not sliced else [1, 2, 4]))
    if sliced and eager:
        chosen += rng.sample(EAGER_ONES, rng.choice([0, 1, 2]))
    rng.shuffle(chosen)
    return Query(rng.sample(POOL, rng.choice([1, 1, 2, 3])), chosen, emission, grace)


def run(seed, changes=3, batches=40, sliced=True, eager=False, emission=None, grace=None):
    """A chain of changes on a random stream, compared with the records after each micro-batch; how often what was.

    On close all rows are told by the records; of other emissions every row is one that the records so far make.
    """
    rng = random.Random(seed)
    grace = rng.choice([0, 0, 4 * SECOND]) if grace is None else grace
    store, model, seen = MemoryStore(), Model(), {"rows": 0, "nulls": 0, "changes": 0}
    chosen = any_query(rng, grace, sliced, eager).names
    query = Query([POOL[0], *rng.sample(POOL[1:], rng.choice([0, 1]))], chosen, emission, grace)
    model.change(query)
    at = set(rng.sample(range(5, batches), changes))
    for number, (records, watermark) in enumerate(stream(rng, batches)):
        if number in at:
            query = any_query(rng, grace, sliced, eager, emission)
            model.change(query)
            seen["changes"] += 1
        model.add(records)
        found, _ = query.step(store, records, watermark)
        if emission is None:
            wanted = model.close(watermark)
        else:
            known = {row[:3]: row for row in model.rows()}
            model.close(watermark)
            wanted = [known[row[:3]] for row in found if row[:3] in known]
        found, wanted = sorted(found, key=order), sorted(wanted, key=order)
        assert len(found) == len(wanted), (seed, number, found, wanted)
        assert all(map(close_to, found, wanted)), (seed, number, found, wanted)
        seen["rows"] += len(found)
        seen["nulls"] += sum(value is None for row in found for value in row[3].values())
    return seen
