"""Windows of so many records by definition, and a bucket of them beside: what the tests of counting share.

The model keeps all records of a key since it began, in a list, and cuts windows out of it.
"""

from collections import defaultdict
from itertools import pairwise

import pyarrow as pa
from oracle import CASES, FINGERPRINT, Case, CountingStore, moment, records_of, results, shape_of

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.fields import Field
from slicing.assembly.choice import EAGER, choose
from slicing.content.records import decode_records, encode_records
from slicing.stages.counting import SPAN
from slicing.stages.execution_plan import Aggregation
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache as memory
from slicing.triggers.emission import ON_CLOSE

ALONE = Case(Aggregate(lambda: "", lambda acc, v: f"{acc}{v},"), CASES["joined"].truth)
"""Records in their order, by an aggregate that cannot combine."""
TIMES = Case(SPAN.aggregate, lambda values: values, of_time=True)
ALL_CASES = {**CASES, "alone": ALONE}


def windows(size, advance, values):
    """The windows of a key's records, by number: the last `size` at each multiple of `advance`."""
    ends = range(advance, len(values) + 1, advance)
    return {number: values[max(0, end - size) : end] for number, end in enumerate(ends)}


class World:
    """A bucket and its model; `step` runs both and compares them. Records are (time, key, value), values may be None.

    `held` says whether the process keeps what it can between micro-batches.
    """

    def __init__(self, window, names=("sum", "joined"), held=True, key="bigint", tree=None):
        self.window, self.names, self.held = window, names, held
        self.cases = [*(ALL_CASES[name] for name in names), TIMES]
        self.shape = shape_of(window.family, self.cases, (key,))
        trees = [tree or choose(kernel, window.family) for kernel in self.shape.kernels]
        trees = [EAGER] * len(trees) if EAGER in trees else trees
        arguments = tuple((-1,) if case.of_time else (at,) for at, case in enumerate(self.cases))
        kinds = [*(_kind(case) for case in self.cases[:-1]), "bigint"]
        values = tuple(Field(f"v{at}", kind) for at, kind in enumerate(kinds))
        self.strategy = support_of(window).strategy(Aggregation(self.shape, tuple(trees), arguments, values=values))
        self.store, self.fingerprint = CountingStore(), FINGERPRINT
        self.came, self.last = defaultdict(list), {}

    def records(self, records):
        """Records as one input partition ships them."""
        made = records_of(self.shape, self.cases, records)
        return decode_records(self.shape, encode_records(self.shape, made))

    def bucket(self):
        return self.strategy.bucket(0, self.fingerprint, self.store, ON_CLOSE)

    def step(self, records, now=0, partitions=2):
        if not self.held:
            memory._kept.clear()  # another process has the bucket now
        wanted = self.expect(records, now)
        bucket = self.bucket()
        cuts = [len(records) * i // partitions for i in range(partitions + 1)]
        late = bucket.accept([self.records(records[low:high]) for low, high in pairwise(cuts)])
        assert (late.all, late.some, late.refused) == (0, 0, ())
        got = results(self.shape, list(bucket.close(moment(0, now))))
        bucket.check()
        self.compare(got, wanted)
        return got

    def expect(self, records, now):
        before = {}
        for time, key, value in records:
            if self.window.ttl is not None and self.last.get(key, now) < now - self.window.ttl // 1000:
                self.came[key] = []
            before.setdefault(key, len(self.came[key]))
            self.came[key].append((time, value))
            self.last[key] = now
        found = {}
        for key, count in before.items():
            for number, values in windows(self.window.size, self.window.advance, self.came[key]).items():
                if (number + 1) * self.window.advance > count:
                    found[key, number] = values
        return found

    def compare(self, got, wanted):
        assert got.keys() == wanted.keys(), (got.keys() - wanted.keys(), wanted.keys() - got.keys())
        for place, records in wanted.items():
            count, *found, span = got[place]
            assert count == len(records), place
            times, values = [time for time, _ in records], [value for _, value in records if value is not None]
            assert span == (min(times), max(times)), place
            for case, result in zip(self.cases, found, strict=False):
                if values or "variance" not in self.names:
                    truth, tolerance = case.truth(values), case.tolerance(values)
                    assert result == truth or (tolerance and abs(result - truth) <= tolerance), (place, result, truth)

    def live(self, now=0):
        """Keys that are not idle."""
        ttl = self.window.ttl
        return {key for key, last in self.last.items() if ttl is None or last >= now - ttl // 1000}

    def stored(self):
        """The rows of the ledger."""
        return len(self.bucket().ledger.rows())


def _kind(case):
    type_ = case.argument(pa.array([1])).type
    return {pa.string(): "string", pa.float64(): "double"}.get(type_, "bigint")


def stream(rng, batches, keys=4, most=12, nulls=True):
    """Micro-batches of records, some of them empty, times in no order and before 1970 too."""
    for number in range(batches):
        yield [
            (
                rng.randrange(-(10**9), 10**12),
                rng.randrange(keys) if number % 5 else 0,
                rng.choice([None] * nulls + [*range(-50, 100)]),
            )
            for _ in range(rng.randrange(most))
        ]
