"""A served stream without Spark: its stages, the state of its only bucket, and the function that writes its rows."""

from copy import deepcopy
from dataclasses import replace

import pyarrow as pa
from serving import stored
from serving.in_process import hand

from slicing.aggregates.aggregate import Bound
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernels import kernel
from slicing.aggregates.record_count import RECORD_COUNT
from slicing.aggregates.results import flat_results
from slicing.assembly.choice import choose
from slicing.content.block import Shape
from slicing.serving import Levels
from slicing.spark.partials import RECORDS, _partials
from slicing.spark.serving import windows_to_store
from slicing.stages.execution_plan import Aggregation
from slicing.stages.output import flat_windows
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache
from slicing.state.format.fingerprint import PARTIALS, fingerprint_of
from slicing.state.store import MemoryStore
from slicing.triggers.stored import OnStored
from slicing.triggers.trigger import MicroBatchTime

SLICE = 5 * 60 * 1_000_000
VALUES = {name: stored.KINDS[name] for name in ("n", "x", "s", "m", "d")}


class Served:
    """What `card.serve(...)` makes of a definition by one key, a text."""

    def __init__(self, card):
        self.card, options, windows = card, card.windowed.options, card.windowed.windows
        levels = Levels.of(windows)
        window, grace = windows_to_store(windows, levels)
        self.window = window
        self.grace, self.trigger = options.grace + grace, OnStored(1 + len(levels.tails))
        bounds = flat_results({RECORDS: Bound(RECORD_COUNT, label=RECORDS), **_partials(dict(card.results))})
        kernels = tuple(
            kernel(name, bound.resolve(tuple(stored.KINDS[column] for column in bound.columns)))
            for name, bound in bounds.items()
        )
        self.shape = Shape(window.family, (Field("key", "string"),), kernels)
        inputs = [list(bound.inputs) for bound in bounds.values()]
        places = tuple(tuple(map(list(VALUES).index, each)) for each in inputs)
        trees = tuple(choose(each, own) for own in window.family.families for each in kernels)
        fields = tuple(Field(*each) for each in VALUES.items())
        self.plan = support_of(window).execution_plan(Aggregation(self.shape, trees, places, True, fields))
        made = fingerprint_of(self.shape, [PARTIALS] * len(kernels), inputs, "1 over 1 shuffle partitions")
        self.fingerprint = replace(made, retain=options.retain, adapt=options.adapt)

    def bucket(self, state):
        """The bucket over a state."""
        return self.plan.bucket(self.grace, self.fingerprint, state, self.trigger)

    def load(self, state, records, until):
        """Load a history."""
        self.bucket(state).load(self._shipped(records), MicroBatchTime(self.closed(until)))

    def closed(self, until):
        """The end of the windows that have closed in a history that ends then."""
        return until - self.grace

    def past(self, until):
        """What a writer must know of a history that ends then."""
        support, retain = support_of(self.window), self.card.windowed.options.retain
        first = support.history_from(self.closed(until), self.trigger, retain)
        return {"until": self.closed(until), "first": first}

    def rows(self, state, records, watermark):
        """The rows that a micro-batch emits, as the columns of `card.serve(...)`."""
        bucket = self.bucket(state)
        bucket.accept(self._shipped(records))
        shape = replace(self.shape, since=bucket.coverage.results)
        found = [flat_windows(shape, each) for each in bucket.close(MicroBatchTime(watermark or 0))]
        self.last = pa.concat_tables(map(self._as_served, found)) if found else self.last.slice(0, 0)
        return self.last

    def _shipped(self, records):
        columns = {"time": pa.array([each["ts"] for each in records], pa.int64())}
        columns["key"] = pa.array([each["key"] for each in records], pa.string())
        columns |= {name: pa.array([each[name] for each in records], arrow_type(VALUES[name])) for name in VALUES}
        stage = self.plan.first_stage((0,))
        return self.plan.shipped(pa.Table.from_batches(stage([pa.RecordBatch.from_pydict(columns)])).to_pydict())

    def _as_served(self, found):
        found = found.combine_chunks()
        edges = [found[name].chunk(0).cast(pa.timestamp("us", "UTC")) for name in ("start", "stop")]
        columns = {
            str(self.card.windowed.keys[0]): found["k0"],
            "slice": pa.StructArray.from_arrays(edges, ["start", "end"]),
            "level": found["family"],
        }
        at = 0
        for each in self.shape.kernels:
            fields = [found[f"r{at + number}"].combine_chunks() for number in range(len(each.fields))]
            plain = len(fields) == 1 and not isinstance(each.aggregate.init(), tuple)
            names = [field.name for field in each.fields]
            columns[each.label] = fields[0] if plain else pa.StructArray.from_arrays(fields, names)
            at += len(fields)
        return pa.table(columns)


class Stream:
    """A query that serves: what its checkpoint has, its records, and its watermark, cut to milliseconds."""

    def __init__(self, delay, query="query"):
        self.query = query
        self.state, self.delay, self.number = MemoryStore(), delay, 0
        self.read, self.known, self._past = [], None, None

    def warm(self, served, history, until):
        """Start with a history."""
        served.load(self.state, history, until)
        self.read, self._past = history, served.past(until)

    def step(self, served, to, records, fails=False):
        """Run a micro-batch in a new process; one that `fails` leaves what it has written, and is repeated."""
        bucket_cache._entries.clear()
        state = deepcopy(self.state)
        streamed = self.read if self.number else []
        watermark = (max(each["ts"] for each in streamed) - self.delay) // 1000 * 1000 if streamed else None
        rows = served.rows(state, records, watermark)
        hand(to, self.number, rows, served.card, watermark, self.query, self._past)
        if not fails:
            self.state, self.number, self.read = state, self.number + 1, self.read + records
            self.known = watermark

    @property
    def end(self):
        """The end of the newest slice of five minutes."""
        return (max(each["ts"] for each in self.read) // SLICE + 1) * SLICE

    def is_merged(self, served):
        """Whether slices in the state are merged."""
        return served.bucket(self.state).coverage.is_merged
