"""Functions of records run without Spark: the first stage, the state of a bucket, rows; and brute force beside it."""

from copy import deepcopy

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import EVENT_TIME
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import choose
from slicing.content.block import Shape
from slicing.process.call import processing
from slicing.process.evicted import evicted
from slicing.process.evictors import evictor
from slicing.process.remembered import FunctionStates
from slicing.process.states import NO_STATES
from slicing.stages.execution_plan import Aggregation
from slicing.stages.output import flat_windows, framed
from slicing.stages.processed import NO_CALLS, FunctionCalls
from slicing.stages.stored_states import StoredStates
from slicing.stages.support_of import support_of
from slicing.state.format.fingerprint import fingerprint_of
from slicing.state.store import MemoryStore
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.trigger import KINDS, MicroBatchTime

MINUTE = 60_000_000
END = 4_102_444_800_000_000  # 2100


class Play:
    """One query of a function of records, or of results that evictors go before, and its only bucket.

    Records are rows (time, key, *values) of some kinds.
    """

    def __init__(
        self,
        window,
        function,
        returns=None,
        *,
        trigger=ON_CLOSE,
        grace=0,
        evict=(),
        kinds=(("v", "bigint"),),
        streaming=True,
        timed=True,
        states=NO_STATES,
        after=(),
        window_bytes=None,
        batches=False,
        key="string",
    ):
        self.key = key
        support = support_of(window)
        support.check("auto", False, trigger, streaming)
        support.check_process("auto", trigger, streaming)
        names = [name for name, _ in kinds]
        before, later = tuple(map(evictor, evict)), tuple(map(evictor, after))
        if isinstance(function, dict):  # results by their names
            made = evicted(function, "ts" if timed else None, window, before, later)
        else:
            options = {"returns": returns, "columns": names, "window_bytes": window_bytes, "batches": batches}
            made = processing(function, "ts" if timed else None, window, before, later, states, **options)
        states = made.source.call.states
        types = {"ts": "timestamp", **dict(kinds)}
        self.inputs, self.types, self.window = made.inputs, types, window
        made_of = kernel("process", made.resolve(tuple(types.get(name, "bigint") for name in made.inputs)))
        places = tuple(-1 if name == EVENT_TIME else at for at, name in enumerate(made.inputs))
        kernels, arguments = support.kernels((made_of,), (places,), timed)
        self.shape = Shape(window.family, (Field("user", key),), kernels)
        families = window.family.families
        trees = support.trees(tuple(choose(each, family) for family in families for each in kernels))
        values = tuple(Field(name, types[name]) for name in made.inputs)
        if window.counts:
            values += (Field("order", "bigint"),)
        self.execution_plan = support.execution_plan(Aggregation(self.shape, trees, arguments, streaming, values))
        self.trigger, self.grace, self.store = trigger, grace, MemoryStore()
        columns = [list(made.inputs)] + [[None]] * (len(kernels) - 1)
        self.call = made_of.aggregate.call
        self.fingerprint = fingerprint_of(
            self.shape, ["partials"] * len(kernels), columns, "1 over 1", states=states.text
        )
        self.number = 0

    def ship(self, records):
        """What the first stage ships, of records in two input partitions."""
        shipped = []
        half = len(records) if self.window.counts else len(records) // 2
        stage = self.execution_plan.first_stage((0,))
        for part, some in enumerate((records[:half], records[half:])):
            for batch in stage([self._batch(some, part)], part):
                shipped += self.execution_plan.shipped(batch.to_pydict())
        return shipped

    def _batch(self, records, part):
        times = pa.array([record[0] for record in records], pa.int64())
        columns = {"time": times, "user": pa.array([record[1] for record in records], arrow_type(self.key))}
        for name in self.inputs:
            at = list(self.types).index(name)
            column = [record[0] if name == "ts" else record[1 + at] for record in records]
            columns[f"v_{name}"] = pa.array(column, arrow_type(self.types[name]))
        if self.window.counts:
            columns["order"] = pa.array(range(len(records)), pa.int64())
        return pa.RecordBatch.from_pydict(columns)

    def step(self, records, watermark, clock=0):
        """The rows of one micro-batch."""
        bucket = self.execution_plan.bucket(self.grace, self.fingerprint, self.store, self.trigger)
        bucket.accept(self.ship(records))
        rows = []
        states = StoredStates(self.call, self.shape, bucket, self.grace) if self.call.states else None
        calling = FunctionCalls(remembered=states.remembered) if states else NO_CALLS
        for windows in bucket.close(MicroBatchTime(watermark, clock)):
            at = MicroBatchTime(bucket.head.watermark, bucket.head.clock)
            rows += self.rows(windows, at, bucket.head.revision, calling)
        if states:
            states.save()
        self.execution_plan.bucket(self.grace, self.fingerprint, self.store, self.trigger).check()
        return rows

    def stream(self, batches, delay=0, last=True):
        """The rows of micro-batches, with the watermarks that Spark would have."""
        rows, greatest = [], 0
        for records in batches:
            rows += self.step(records, max(0, greatest - delay))
            greatest = max([greatest, *(record[0] for record in records)])
        return rows + (self.step([], END) if last else [])

    def bounded(self, records):
        """All rows of bounded input."""
        calling = FunctionCalls(remembered=FunctionStates(self.call.states)) if self.call.states else NO_CALLS
        frames = self.execution_plan.all_windows(self.ship(records))
        return [row for windows in frames for row in self.rows(windows, calling=calling)]

    def rows(self, windows, at=None, revision=0, calling=NO_CALLS):
        found = []
        for some in framed(self.execution_plan.shape, windows):
            found += flat_rows(self.execution_plan.shape, some, self.trigger, revision, at, calling)
        return found

    def restarted(self):
        """The same query, with another function if one is set, over a copy of what is stored."""
        other = deepcopy(self)
        return other


def flat_rows(shape, windows, trigger, revision, at, calling=NO_CALLS):
    table = flat_windows(shape, windows, trigger, revision, at=at, calling=calling)
    names = [name for name in table.column_names if name.startswith("r") and name[1:].isdigit()]
    for name, field in zip(names, shape.kernels[0].results, strict=False):
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(arrow_type(field.kind)))
    for row in table.to_pylist():
        kind = KINDS[row["kind"]] if "kind" in row else "final"
        yield (row["k0"], row["start"], row["stop"], *(row[name] for name in names), kind)


def random_records(seed, count, span, keys=3, values=lambda random: int(random.integers(100))):
    """Records in rising time, some out of order and some at equal times; values are distinct from record to record."""
    random = np.random.default_rng(seed)
    times = np.sort(random.integers(-span // 4, span, count)) // 1000 * 1000
    late = random.random(count) < 0.15
    times = times - late * random.integers(0, span // 4, count) // 1000 * 1000
    return [(int(time), f"k{random.integers(keys)}", values(random)) for time in times]


def cut(records, seed, most=12):
    """Records in micro-batches of random lengths."""
    random, batches, at = np.random.default_rng(seed), [], 0
    while at < len(records):
        step = int(random.integers(0, most))
        batches.append(records[at : at + step])
        at += step
    return batches
