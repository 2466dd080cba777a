"""A query's stages and the state of its buckets, run in this process and compared with what is expected of them.

A restart may lie between any two micro-batches: nothing is kept between them but the store, and what a process caches,
and the cache may be lost in part or in whole. A micro-batch may fail anywhere, and runs again on the state before it.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from oracle import CASES, FINGERPRINT, CountingStore, assert_row, columns_of, moment

from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import EAGER, FEW_SLICES, choose
from slicing.content.block import Shape
from slicing.content.signals import SIGNALS, Signals, folded
from slicing.stages.execution_plan import Aggregation, not_before
from slicing.stages.signalled import Signalled, first_stage
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache
from slicing.state.format.fingerprint import fingerprint_of
from slicing.triggers.trigger import CHANGED, LATE, WAITING
from slicing.windows.time.slices import FOREVER

from . import changes, coverage
from .expected import Call
from .kind import MIXED, PARTIALS, RECORDS, Record, marked

END = 1 << 43
"""A watermark and a clock, in milliseconds, after all windows."""


@dataclass
class Process:
    """What a process still has of its buckets when a micro-batch begins: all, nothing, or some, as `rng` says."""

    rng: object
    loses: str = "nothing"

    def forget(self):
        lost = (
            self.rng.choice(["all", "slices", "derived", "nothing", "nothing"]) if self.loses == "some" else self.loses
        )
        for nonce, entry in list(bucket_cache._entries.items()):
            if lost == "all":
                del bucket_cache._entries[nonce]
            elif lost == "slices":
                bucket_cache._entries[nonce] = replace(entry, first=FOREVER, parts=[], slices_bytes=0)
            elif lost == "derived":
                bucket_cache._entries[nonce] = replace(entry, derived={}, derived_bytes=0)


class Scenario:
    """One kind of windows under one trigger; `step` runs a micro-batch and compares all that comes of it.

    `results` are names of `oracle.CASES`, or cases; `key` is the kind of the keys, `value` that of the values. Records
    `by_clock` have the greatest time that a clock has shown when they come. `tree` is that of all results, in place of
    the one that is chosen. `judged=False` leaves out what is compared and checked, for runs that only measure. `retain`
    is in microseconds. Only a query that `adapts` may change its windows and results.
    """

    def __init__(
        self,
        kind,
        trigger,
        grace=0,
        content=PARTIALS,
        results=None,
        labels=(0,),
        store=CountingStore,
        key="bigint",
        by_clock=False,
        tree=None,
        value="bigint",
        judged=True,
        retain=0,
        adapts=False,
    ):
        self.trigger, self.content, self.labels, self.adapts = trigger, content, labels, adapts
        self.key, self.value, self.by_clock, self.tree, self.judged = key, value, by_clock, tree, judged
        self.define(kind, results or kind.results, grace, retain)
        self.fine = self.merged = self.warm = -FOREVER  # instants of changes, as `changes` has them
        self.since = [None] * len(self.cases)  # by result, the start of the first window that has it, if not all have
        self.stores = {label: store() for label in labels}
        self.heard = defaultdict(lambda: Signals(folded(self.trigger.signals)))  # by bucket
        self.process = None
        self.call = Call(kind, trigger, grace, self._order, self._truth)
        self.watermark, self.seen = 0, Counter()

    # --- the query ---

    def define(self, kind, results, grace, retain):
        """Make the query of some windows and results."""
        self.kind, self.grace, self.retain, self.names = kind, grace, retain, results
        self.cases = [CASES[each] if isinstance(each, str) else each for each in results]
        self.eager = [self._is_eager(at) for at in range(len(results))]
        self.family, self.families = kind.window.family, kind.window.family.families
        self.execution_plan = self._execution_plan()
        self.fingerprint = replace(self._fingerprint() if self.adapts else FINGERPRINT, retain=retain)

    def _fingerprint(self):
        """What the state depends on; results are identified by the names of their columns."""
        plan = self.execution_plan
        columns = [*map(str, self.names), *(f"more {at}" for at in range(len(self.shape.kernels)))]
        bound = [[None if at < 0 else columns[at] for at in places] for places in self.arguments]
        trees = [self._tree(each, family) for family in self.families for each in self.shape.kernels]
        contents = ["windows" if tree == EAGER else PARTIALS for tree in trees[: len(bound)]]
        fixed = support_of(self.kind.window).fixed(self.trigger, trees)
        found = fingerprint_of(plan.shape, contents, bound, "1 over 1 shuffle partitions", adapt="allow", fixed=fixed)
        return replace(found, trigger=tuple(self.trigger.stored))

    def _execution_plan(self, may_be_late=True):
        support = support_of(self.kind.window)
        aggregates = [self._aggregate(at, case) for at, case in enumerate(self.cases)]
        kernels = tuple(kernel(f"result{at}", each) for at, each in enumerate(aggregates))
        arguments = tuple(_argument(at, case) for at, case in enumerate(self.cases))
        kernels, self.arguments = support.kernels(kernels, arguments, True)
        self.shape = Shape(self.kind.window.family, (Field("key0", self.key),), kernels)
        trees = [self._tree(each, family) for family in self.families for each in kernels]
        values = [_kind(case.argument(self._array([])).type, self.value) for case in self.cases]
        values += ["bigint"] * (len(kernels) - len(values))
        fields = tuple(Field(f"v{at}", kind) for at, kind in enumerate(values))
        return support.execution_plan(
            Aggregation(
                self.shape, support.trees(tuple(trees)), self.arguments, may_be_late, fields, empty=self.trigger.empty
            )
        )

    def _tree(self, kernel_, family):
        """The tree that is asked for, where there may be one."""
        chosen = choose(kernel_, family)
        asked = self.tree and chosen != EAGER and (self.tree != "three_layer" or family.per_window > FEW_SLICES)
        return self.tree if asked else chosen

    def _is_eager(self, at):
        return self.content == RECORDS or (self.content == MIXED and at % 2)

    def _aggregate(self, at, case):
        return replace(case.aggregate, eager=True) if self._is_eager(at) else case.aggregate

    def _order(self, record):
        """Partials are combined in the order of their slices; records are folded in the order in which they come."""
        if self.content != RECORDS and not self.kind.window.counts:
            return int(self.family.slice_start(self.family.slice_of_record(record.time))), record.number
        return (record.number,)

    def _truth(self, records, place):
        return [
            case.truth(self._values(at, records)) if self.has(at, place.start) else None
            for at, case in enumerate(self.cases)
        ]

    def has(self, at, start):
        """Whether windows that begin at an instant have a result; all that have no instant have it."""
        return None in (start, self.since[at]) or start >= self.since[at]

    def _values(self, at, records):
        """What a result sees of the records of a window, which are in order; eager ones beside others go by number."""
        if self.content == MIXED and self._is_eager(at):
            records = sorted(records, key=lambda record: record.number)
        if self.cases[at].of_time:
            return [record.time for record in records]
        return [record.value for record in records if record.value is not None]

    def _array(self, values):
        return pa.array(values, arrow_type(self.value))

    def ship(self, records, execution_plan=None):
        """By bucket, what reaches it of the records of one input partition."""
        execution_plan = execution_plan or self.execution_plan
        stage, found = self.first_stage(execution_plan), {}
        rows = self.pre_aggregate(records, stage)
        for label in self.labels:
            mine = rows.filter(pa.array(np.asarray(rows["bucket"]) == label)).to_pydict()
            found[label] = execution_plan.shipped(mine)
            if isinstance(stage, Signalled):
                heard, more = self.heard[label], stage.heard(mine)
                self.heard[label] = Signals(more.names, [*heard.blocks, *more.blocks], [*heard.numbers, *more.numbers])
        return found

    def pre_aggregate(self, records, stage):
        """The rows of a first stage for the records of one input partition."""
        values = self._array([record.value for record in records])
        columns = {
            "time": pa.array([record.time for record in records], pa.timestamp("us", "UTC")),
            "k0": pa.array([record.key for record in records], arrow_type(self.key)),
        }
        if getattr(self.kind.window, "gap_column", None):
            columns["k1"] = pa.array([record.gap for record in records], pa.int64())
        columns |= {f"v{at}": case.argument(values) for at, case in enumerate(self.cases)}
        if self.kind.window.counts:
            columns["at"] = columns["time"].cast(pa.int64())  # what orders bounded input
        columns |= self._asked(records)
        batch = pa.RecordBatch.from_pydict(columns)
        half = len(records) // 2 if len(records) % 2 else 0  # some come in two batches
        batches = [batch.slice(0, half), batch.slice(half)] if half else [batch]
        return pa.Table.from_batches(stage(batches))

    def first_stage(self, execution_plan):
        """The stage before the shuffle, which also ships what the trigger asks of records."""
        of, trigger = execution_plan.first_stage(self.labels), self.trigger
        return first_stage(of, trigger.signals)

    def _asked(self, records):
        """The columns that the trigger reads: whether a condition is true of each record, and their values."""
        of = {"boolean": marked, "double": lambda record: record.value}
        read = [SIGNALS[name] for name in self.trigger.reads]
        return {each.column: pa.array(map(of[each.kind], records), arrow_type(each.kind)) for each in read}

    def arriving(self, records, partitions, execution_plan=None):
        """By bucket, what reaches it from some input partitions."""
        cuts, found = [len(records) * at // partitions for at in range(partitions + 1)], defaultdict(list)
        self.heard = defaultdict(lambda: Signals(folded(self.trigger.signals)))
        for low, high in pairwise(cuts):
            for label, shipped in self.ship(records[low:high], execution_plan).items() if high > low else ():
                found[label] += shipped
        return found

    def bucket(self, label=0):
        """The state of a bucket, as a micro-batch finds it."""
        grace = self.grace + self.kind.window.family.closed_right
        return self.execution_plan.bucket(grace, self.fingerprint, self.stores[label], self.trigger)

    def hearing(self, label):
        """The state of a bucket that has heard what the trigger asks of the records that reach it."""
        bucket = self.bucket(label)
        bucket.take_signals(self.heard[label])
        return bucket

    # --- micro-batches ---

    @property
    def store(self):
        """The store of the only bucket."""
        (store,) = self.stores.values()
        return store

    def step(self, records, watermark=0, now=0, partitions=2):
        """One micro-batch: records (time, key, value, ...) in their order, its watermark and clock in milliseconds."""
        got = self.emit(records, watermark, now, partitions)
        if not self.judged:
            return got
        self.compare(got, self.known(records, watermark, now))
        self.check_late(self.late)
        coverage.check(self)
        return got

    def emit(self, records, watermark=0, now=0, partitions=2):
        """The rows of a micro-batch, compared with nothing.

        `opened` has its buckets, `late` what each one refused, by the watermark `late_by`; `read` and `written` are its
        pages and rows.
        """
        if self.process:
            self.process.forget()
        self.late_by = 1000 * self.watermark
        self.watermark = max(self.watermark, watermark)
        at, arriving = moment(self.watermark, now), self.arriving(records_of(records), partitions)
        got, self.late, self.opened, self.read, self.written = {}, [], [], 0, 0
        for label in self.labels:
            bucket = self.hearing(label)
            self.opened.append(bucket)
            if self.by_clock:
                shipping, seen = self.execution_plan.shipping, bucket.head.watermark
                arriving[label] = [not_before(shipping, each, seen) for each in arriving[label]]
            self.late.append(bucket.accept(arriving[label]))
            revision = bucket.head.revision
            rows = self.rows(bucket.close(at), bucket.coverage.results)
            assert bucket.head.revision == revision + (not self.trigger.fires_once)
            assert not got.keys() & rows.keys(), "a key is in one bucket"
            got |= rows
            self.read, self.written = self.read + bucket.pages.read, self.written + bucket.pages.written
            if self.judged:
                self.check(label)
        return got

    def check(self, label=0):
        """Check the state of a bucket, as the next micro-batch finds it."""
        with self.stores[label].counting_nothing():
            self.bucket(label).check()

    def load(self, records, until, parts=1):
        """Begin with what a warm start reads of a history before a time, in microseconds, in some parts."""
        first = support_of(self.kind.window).history_from(until, self.trigger, self.retain)
        records = [r for r in records if r[0] is not None and r[0] < until and (first is None or r[0] >= first)]
        size = len(records) // parts + 1
        for at in range(0, len(records) + 1, size):
            arriving = self.arriving(records_of(records[at : at + size]), 2)
            for label in self.labels:
                self.bucket(label).load(arriving[label], moment(until // 1000))
                self.check(label)
        self.call.load(self.call.made(records), until)
        self.warm = until

    def change(self, trigger=None, kind=None, results=None, grace=None, retain=None):
        """Go on as another query from the next micro-batch on; what is refused changes nothing, and is raised.

        The windows and results that are added begin with a window that the state names, if `changes` finds it right.
        """
        before, trigger = dict(vars(self)), trigger or self.trigger
        self.trigger = trigger
        if (kind, results, grace, retain) != (None,) * 4:
            given = (kind, self.kind), (results, self.names), (grace, self.grace), (retain, self.retain)
            try:
                self.define(*(one if new is None else new for new, one in given))
                first, self.since = changes.begun(self, before)
            except Exception:
                vars(self).update(before)
                raise
            if str(trigger) != str(before["trigger"]):
                self.call.change(trigger, self.content != RECORDS)
            self.call.adapt(self.kind, self.grace, first)
        else:
            self.call.change(trigger, self.content != RECORDS)  # records are not stored by slices

    def known(self, records, watermark=0, now=0):
        """What a micro-batch has to emit, by (kind, key, part, start, end); the stores may have it already."""
        self.watermark = max(self.watermark, watermark)
        made = self.call.made(records)
        if self.by_clock:
            made = [record._replace(time=1000 * self.watermark) for record in made]
        return self.call.step(made, self.watermark, now)

    def fail(self, records, watermark, now, steps):
        """A micro-batch that ends before its state is written, after so many frames; its state is put back."""
        arriving = self.arriving(records_of(records), 2)
        for label, store in self.stores.items():
            text, pages = store.text, dict(store.pages)
            bucket = self.hearing(label)
            bucket.accept(arriving[label])
            frames = bucket.close(moment(max(watermark, self.watermark), now))
            for _, _ in zip(range(steps), frames, strict=False):
                pass
            frames.close()
            store.text, store.pages = text, pages

    def rows(self, frames, since=()):
        """Rows by (kind, key, part, start, end): the number of records and the results, and those that are replaced."""
        found = {}
        for frame in frames:
            family = self.families[frame.family]
            keys = frame.names["k0"].take(pa.array(frame.keys)).to_pylist()
            starts, ends = family.window_start(frame.windows).tolist(), frame.ends_by(family).tolist()
            shown = self.results(frame, since, family) if frame.kind != "merged" else [()] * len(frame)
            old = self.results(frame.old, since, family) if frame.old is not None else [None] * len(frame)
            for key, start, end, row, before in zip(keys, starts, ends, shown, old, strict=True):
                if row is None:
                    continue
                place = frame.kind, key, frame.family, start, end
                assert place not in found, "a row is emitted once in a micro-batch"
                if frame.kind == "merged":
                    later = [p for p in found if p[1] == key and p[3] <= start and end <= p[4] and p[0] != "merged"]
                    nested = self.kind.splits  # windows may lie in each other
                    assert nested or not later, "what is taken back comes before what takes its place"
                found[place] = row or None, before if before and before[0] else None
            beside = self.beside(frame, keys, ends, since)
            assert not found.keys() & beside.keys(), "a window is in one row"
            found |= beside
        return found

    def beside(self, frame, keys, ends, since):
        """The windows that are in the rows of others, as if they had rows of their own."""
        others, found = [at for at in range(len(self.families)) if at != frame.family], {}
        for at, (part, side) in enumerate(zip(others, frame.aligned, strict=False)):
            own = self.families[part]
            starts = own.window_start(side.windows).tolist()
            assert own.window_end(side.windows).tolist() == ends
            old = self.results(frame.old.aligned[at], since, own) if frame.old is not None else [None] * len(frame)
            rows = self.results(side, since, own)
            for key, start, end, row, before in zip(keys, starts, ends, rows, old, strict=True):
                shown = {(frame.kind, key, part, start, end): (row, before if before and before[0] else None)}
                found |= shown if row is not None and row[0] else {}
        return found

    def results(self, frame, since, family):
        """The number of records and the results of each window, None if it lacks some of its records.

        A result is null in windows that begin before the first one that has it, by `since`.
        """
        columns = columns_of(self.shape, frame)
        starts = family.window_start(frame.windows).tolist()
        for at, begin in enumerate(since):
            if begin is not None:
                columns[at] = [x if start >= begin else None for start, x in zip(starts, columns[at], strict=True)]
        whole = [True] * len(frame) if frame.is_complete is None else frame.is_complete.tolist()
        rows = zip(frame.records.tolist(), *columns, strict=True)
        return [row if is_whole else None for row, is_whole in zip(rows, whole, strict=True)]

    def compare(self, got, wanted):
        assert got.keys() == wanted.keys(), (sorted(got.keys() - wanted.keys(), key=str), wanted.keys() - got.keys())
        for place, (records, old) in wanted.items():
            row, before = got[place]
            self.seen[place[0]] += 1
            self.seen["replaced"] += old is not None
            for found, held in ((row, records), (before, old)):
                assert (found is None) == (held is None), (place, found, held)
                if held:
                    self.assert_row(found, held, place)
                elif held == []:
                    assert found[0] == 0, place

    def assert_row(self, row, records, place):
        """The number of records, then the results of what is known of their values; of counted ones their times."""
        begins = None if len(place) == 2 else place[-2]  # late rows have the results of their own records
        # Where time decides on windows, an engine counts the new records only, of windows that are open.
        assert row[0] == len(records) or (place[0] != "final" and not self.kind.counts_all), place
        if self.kind.window.counts:
            times = [record.time for record in records]
            assert row[-1] == (min(times), max(times)), place
        for at, case in enumerate(self.cases):
            if not self.has(at, begins):
                assert row[1 + at] is None, place
                self.seen["null"] += 1
                continue
            known = self._values(at, records)
            assert_row((len(known), row[1 + at]), known, [case], place)

    # --- late records ---

    def check_late(self, late):
        """Counters, and what each family refused: records, how many windows they missed, the first one open."""
        by_all = [by_all for _, by_all in self.call.late()]
        counts = sum(each.all for each in late), sum(each.some for each in late)
        assert counts == (sum(by_all), len(by_all) - sum(by_all))
        self.seen["late"] += counts[0]
        self.seen["late for some"] += counts[1]
        for part, family in enumerate(self.families if self.kind.window.by_time else ()):
            wanted = defaultdict(list)
            for record, is_open, places in self.call.verdicts[part]:
                if len(is_open) < len(places):
                    start = int(family.slice_start(family.slice_of_record(record.time)))
                    first = is_open[0].start if is_open else None
                    count = len(places) - len(is_open) if self.kind.separate else None
                    wanted[record.key, start].append((record, count, first))
            found = {}
            for each in late:
                assert each.refused[part].watermark == self.late_by
                found |= self.refused(family, each.refused[part])
            if self.kind.late_details:
                assert found.keys() == wanted.keys()
                for place, some in wanted.items():
                    row, *met = found[place]
                    assert {(count, first) for _, count, first in some} == {tuple(met)}, place
                    self.assert_row(row, [record for record, *_ in some], place)
            assert sum(row[0] for row, *_ in found.values()) == sum(map(len, wanted.values()))

    def refused(self, family, refused):
        """By key and start of its slice: number of records and results of late partials, and what they met."""
        block = self.execution_plan.late_partials(refused)
        rows, met = self.by_slice(family, block), self.met(family, refused, block)
        return {place: (row, *some) for (place, row), some in zip(rows.items(), met, strict=True)}

    def by_slice(self, family, block):
        """By key and start of its slice the number of records and the results of partials."""
        keys = block.names["k0"].take(pa.array(block.keys)).to_pylist()
        places = zip(keys, family.slice_start(block.index).tolist(), strict=True)
        return dict(zip(places, zip(block.records.tolist(), *columns_of(self.shape, block), strict=True), strict=True))

    def met(self, family, refused, rows):
        """How many windows each late row has missed, and the start of the first one that accepted it, if one did."""
        missed = refused.missed_by(family, rows)
        counts = missed.windows.tolist() if self.kind.separate else [None] * len(missed.by_all)
        firsts = family.window_start(missed.taken).tolist()
        return [
            (count, None if none else first)
            for count, first, none in zip(counts, firsts, missed.by_all.tolist(), strict=True)
        ]

    def late_records(self, records):
        """Of each part the late records of the micro-batch of these records, as (time, key, value), and what each met.

        A value is what the first result sees.
        """
        rows = self.pre_aggregate(records_of(records), self.execution_plan.first_stage(self.labels, with_records=True))
        found = [[] for _ in self.families]
        for label, late in zip(self.labels, self.late, strict=True):
            beside = rows.filter(pa.array(np.asarray(rows["bucket"]) == label)).to_pydict().get("records", ())
            encoded = [each for each in beside if each is not None]
            for family, refused, some in zip(self.families, late.refused, found, strict=True):
                for each in self.execution_plan.late_records(family, refused, encoded):
                    keys, values = each.names["k0"].to_pylist(), each.values[0].to_pylist()
                    shown = zip(each.times.tolist(), keys, values, strict=True)
                    some += zip(shown, self.met(family, refused, each), strict=True)
        return found

    # --- the end, and bounded input ---

    def drain(self):
        """Let all windows close and all keys be idle; nothing may be left."""
        self.step([], END, END)
        self.step([], END + 10**6, END + 10**6)
        for label, store in self.stores.items() if self.is_emptied else ():
            head = self.bucket(label).head
            assert not store.pages
            left = head.fresh, head.slice_groups, head.late, head.lists
            assert left == ([], {}, [], {}), left
            assert head.newest is None or not self.kind.is_endless

    @property
    def is_emptied(self):
        """Whether nothing may be left at the end."""
        asks, window = self.trigger.asks, self.kind.window
        if not window.by_time:
            return window.ttl is not None and WAITING not in asks  # what forgotten keys waited for goes later
        if (self.retain or self.adapts) and not self.kind.is_endless:
            return False  # slices retained, or of removed windows, leave at a close; none comes after the last window
        # The last window of all is kept to be compared with, or for late records: none comes after it.
        return self.kind.is_endless or not asks & {CHANGED, LATE}

    def bounded(self, records, partitions=3):
        """Rows of the same records as bounded input, compared with the definition."""
        made = records_of(records)
        execution_plan = self._execution_plan(may_be_late=False)
        arriving = self.arriving(made, partitions, execution_plan)
        got = {}
        for label in self.labels:
            got |= self.rows(execution_plan.all_windows(arriving[label]))
        valid = [record for record in made if self.kind.is_valid(record)]
        wanted = {}
        for part, kind in enumerate(self.kind.parts):
            for key in {record.key for record in valid}:
                held = [r._replace(order=self._order(r)) for r in valid if r.key == key]
                # Bounded input is counted by what orders it, here the time.
                order = (lambda r: (r.time, r.number)) if kind.window.counts else (lambda r: r.order)
                found = kind.definition(sorted(held, key=order))
                shown = {place: some for place, some in found.items() if some or kind in self.kind.leads}
                for place, some in shown.items():  # in rows of others, windows without records are not told from none
                    wanted["final", key, part, *place] = some, None
        self.compare(got, wanted)
        return got


def records_of(given):
    """Records (time, key, value, ...) with numbers of their own."""
    return [Record(*each[:4], number=at) for at, each in enumerate(given)]


def _argument(at, case):
    """The columns of a case, by the positions of its values; -1 is the time."""
    return (-1,) if case.of_time else (at, -1) if case.timed else (at,)


def _kind(type_, kind):
    """The kind of the values of a case; most are of that of all."""
    return {pa.string(): "string", pa.float64(): "double", arrow_type(kind): kind}.get(type_, "bigint")
