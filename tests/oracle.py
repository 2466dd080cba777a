"""What the tests of the core share: windows by definition, aggregates with a truth of their own, a store that counts.

Nothing here uses the arithmetic or the trees that it judges: windows are tried one by one, and the results come from
`sum`, `max`, `math.fsum` and `numpy.var` on all values of a window.
"""

import math
from collections import defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.content.block import Shape, encode_keys
from slicing.content.folding import from_records
from slicing.content.records import Records
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import MemoryStore
from slicing.triggers.trigger import MicroBatchTime
from slicing.windows.families.even import Even

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
    "most": Case(
        Aggregate(lambda: -(2**63), lambda acc, v: v // 40, fieldwise(np.maximum), columns=True),
        lambda values: max(v // 40 for v in values) if values else -(2**63),
    ),
    "parity": Case(
        Aggregate(
            lambda: 0,
            lambda acc, v: acc + v,
            lambda a, b: a + b,
            lambda ab, a: ab - a,
            lower=lambda total: None if total % 3 == 0 else total % 2,
            returns="long",
        ),
        lambda values: None if sum(values) % 3 == 0 else sum(values) % 2,
    ),
}
ARRIVED = Case(
    Aggregate(lambda: (0, 0), lambda acc, v: (acc[0] + v * v, max(acc[1], v))),
    lambda values: (sum(v * v for v in values), max([0, *values])),
)
"""Without `combine`."""


def cases(*names):
    return [CASES[name] for name in names]


def shape_of(family, cases, kinds=("bigint",)):
    keys = tuple(Field(f"key{i}", kind) for i, kind in enumerate(kinds))
    return Shape(family, keys, tuple(kernel(f"result{i}", case.aggregate) for i, case in enumerate(cases)))


def records_of(shape, cases, records, value=INT):
    """Records (time, key, value), with a column for each case; those in a gap are left out, as the first stage does."""
    times = np.array([time for time, _, _ in records], np.int64)
    slices = shape.family.slice_of_record(times)
    gap = shape.family.has_gaps & np.broadcast_to(shape.family.in_gap(slices), slices.shape)
    kept = np.flatnonzero(~gap)
    names = pa.table([pa.array([records[i][1] for i in kept], shape.key_schema.types[0])], shape.key_schema)
    values = pa.array([records[i][2] for i in kept], value)
    columns = [case.argument(values) for case in cases]
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


def evenly(family, slices, keys=1, value=lambda index, key: index):
    """One record of each key in each slice, at the start of the slice."""
    starts = [(index, int(family.slice_start(index))) for index in slices]
    return [(start, key, value(index, key)) for index, start in starts for key in range(keys)]


def hopping(n, advance=1000):
    """Windows of n slices, of one millisecond each unless said otherwise."""
    return Even(n * advance, advance)


def columns_of(shape, frame):
    """What the rows of windows, or of a block, show: a column for each aggregate."""
    columns = []
    for kernel_, partials, dictionary in zip(shape.kernels, frame.partials, frame.dictionaries, strict=True):
        arrays = [array.to_pylist() for array in kernel_.results_to_arrow(partials, dictionary)]
        columns.append(arrays[0] if len(arrays) == 1 else list(zip(*arrays, strict=True)))
    return columns
