"""The plan of a query, without Spark: `explain` prints a `Plan`; tests and tools read its figures."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

from slicing.aggregates.fields import Field, decimal_of, numpy_type, width_of
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.records import KeptRecords
from slicing.aggregates.sharing import Sharing
from slicing.assembly.choice import EAGER, choose, few_slices
from slicing.content.block import Shape
from slicing.drawing import counted, lines, number, pictured
from slicing.errors import InvalidValue, hinted
from slicing.explain.coefficients import Coefficients
from slicing.explain.costs import MERGING, TYPICAL, Cost, Costs, Merged
from slicing.explain.scale import Scale, scale_of
from slicing.options import NO_OPTIONS, Options
from slicing.tracing import by_rows, mode
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import COUNTS, PARTIALS
from slicing.triggers.trigger import NEWEST
from slicing.windows.families.family import RUNNING, RUNS, TAILED, Family
from slicing.windows.families.tailed import tailed
from slicing.windows.session import MERGING as MERGED
from slicing.windows.time.durations import Duration, show
from slicing.windows.window import Window

_BYTES = {"boolean": 1, "date": 4, "timestamp": 8, "timestamp_ntz": 8, "string": 16, "binary": 16}
_BY_KIND = {
    RUNNING: "windows that begin alike",
    RUNS: "windows that differ in slices",
    MERGED: "records decide where windows end",
}
_ROW_BYTES = 20  # slice (8), code of the key (4), count of records (8)
_BY_CLOCK = "one that keeps running; availableNow ends only without spark.sql.streaming.noDataMicroBatches.enabled"


@dataclass(frozen=True)
class ResultPlan:
    """The assembly of one result, and the figures that follow from its tree, `slices` per window and the ratio R.

    Figures are per key, for a stream whose windows close one after another, see `slicing.explain.costs`. For the
    three-layer tree they are averages: once per slice group it reads the group's slices and writes their suffix
    aggregates. `host` is the result whose stored fields this one uses, empty if it stores its own.
    """

    kernel: Kernel
    tree: str
    reason: str
    slices: int
    ratio: float
    costs: Costs
    windows: str = ""
    host: str = ""

    @property
    def name(self) -> str:
        """The name of the result, with the name of its windows if there are several."""
        return f"{self.kernel.label}, {self.windows}" if self.windows else self.kernel.label

    @property
    def mode(self) -> str:
        """How its functions are called: "columns"; "rows"; "traced" if rows run as columns; or "traced in part"."""
        return mode(self.kernel)

    @property
    def combines_per_window(self) -> float:
        """The average calls of `combine` and `invert` per window; 0 for eager results, which only call `agg`.

        If only the latest window is emitted: per row, while the latest window of the key does not change.
        """
        if self.is_newest:
            return self.costs.newest(total=True)
        few = {"two_layer": 2.0, "three_layer": 4.0, RUNNING: 1.0, RUNS: math.sqrt(self.slices), EAGER: 0.0}
        combines = few.get(self.tree, self._in_tree - 1.0)
        if self._has_tail and self.tree != EAGER:  # running total and whole tails; the tree advances once per tail
            return 2 + combines / tailed(self.costs.family).per_tail
        return combines

    @property
    def worst_combines(self) -> float:
        """The maximum calls for one window; the three-layer tree computes suffixes when it reaches a slice group.

        If only the latest window is emitted: for the first row of a window.
        """
        if self.is_newest:
            return self.costs.newest(total=False)
        if self._has_tail and self.tree == "three_layer":
            return 2 + 2 * math.sqrt(self._in_tree)
        return 2 * math.sqrt(self.slices) if self.tree in ("three_layer", RUNS) else self.combines_per_window

    @property
    def combines_per_tail(self) -> float:
        """The maximum calls for a key in a window when a tail ends: its slices are merged, and the tree advances."""
        if not self._has_tail or self.tree == EAGER:
            return 0.0
        advance = 2 * math.sqrt(self._in_tree) if self.tree == "three_layer" else 2.0
        return tailed(self.costs.family).per_tail - 1 + advance

    @property
    def _has_tail(self) -> bool:
        return self.costs.family.assembled == TAILED

    @property
    def _in_tree(self) -> int:
        """The number of slices in the tree: for windows with a tail, the whole tails."""
        return tailed(self.costs.family).whole if self._has_tail else self.slices

    @property
    def is_newest(self) -> bool:
        """Whether only the latest window of a key is emitted, from the bucket cache, without the tree."""
        return NEWEST in self.costs.asks and self.tree != EAGER

    @property
    def per_record(self) -> Cost:
        """The maximum partials read and written per record; records of one slice and key in a micro-batch share it."""
        return self.costs.record_at_most()

    @property
    def per_window(self) -> Cost:
        """The average partials read and written when a window closes."""
        return self.costs.close()

    @property
    def slices_kept(self) -> float:
        """The partials in the state except nodes of the tree: one per slice; for eager results one per open window."""
        if self.tree == EAGER:
            return math.ceil(self.ratio)
        return Merged(self.costs.family).partials if self._has_tail and self.merges else self.slices

    @property
    def merges(self) -> bool:
        """Whether slices of windows with a tail are merged: not if partials are ordered or are records."""
        return not (self.kernel.aggregate.ordered or self.kernel.aggregate.keeps_records)

    @property
    def nodes_kept(self) -> int:
        """The partials in the state that are nodes of the tree."""
        nodes = {"two_layer": 1, RUNNING: 1, "three_layer": math.ceil(3 * math.sqrt(self._in_tree))}.get(self.tree, 0)
        return nodes + 2 if self._has_tail and self.tree != EAGER else nodes

    @property
    def partial_bytes(self) -> int:
        """The approximate bytes of one partial before compression, of one record if records are kept.

        A text or binary counts 16 bytes; a partial that grows counts as holding one thing.
        """
        if isinstance(self.kernel.aggregate, KeptRecords):
            return sum(map(_bytes_of, self.kernel.aggregate.values))
        if growth := self.kernel.aggregate.growth:
            fixed = [field for field in self.kernel.fields if field.kind != "binary"]
            return sum(map(_bytes_of, fixed)) + growth.bytes + (16 if growth.text else 0)
        return sum(map(_bytes_of, self.kernel.fields))

    @property
    def size(self) -> str:
        """The size of a partial, in words."""
        growth = self.kernel.aggregate.growth
        if self.kernel.aggregate.keeps_records:
            return f"{self.partial_bytes} bytes a record, about; each is stored once, whatever R"
        if growth is None:
            return f"{self.partial_bytes} bytes a partial, about"
        most = f", {growth.most:,} at most" if growth.most else ""
        return f"{growth.bytes} bytes{' and its text' if growth.text else ''} for each {growth.thing}{most}"


@dataclass(frozen=True)
class Plan:
    """The plan that `explain` prints. `trees` has the tree of each kernel of `shape`, family by family.

    Figures are per key; they count partials, not bytes, unless the name says so. `values` are the input columns of
    aggregates, and `sharing` says which results share fields. `by_clock` says whether something waits for the trigger's
    clock: ticks, ends of windows, or the TTL of keys.
    """

    windows: Window
    shape: Shape
    trees: tuple[str, ...]
    streaming: bool
    buckets: int
    partitions: int
    options: Options = NO_OPTIONS
    values: tuple[Field, ...] = ()
    sharing: Sharing | None = None
    by_clock: bool = False

    _is_timed: ClassVar[bool] = True
    """Whether windows depend on time alone, not on records."""

    @property
    def slices_per_window(self) -> int:
        """The number of slices per window: n in the costs of the documentation."""
        return self.shape.family.longest

    @property
    def ratio(self) -> float:
        """R, the windows per record: size / advance. It is an average if not a whole number, and below 1 with gaps."""
        return self.shape.family.ratio

    @property
    def slices_per_group(self) -> int:
        """The number of slices per slice group."""
        return self.shape.family.slices_per_group

    @property
    def buckets_per_partition(self) -> float:
        """The buckets per shuffle partition; if it is not a whole number, some partitions have one more than others."""
        return self.buckets / self.partitions

    @property
    def record_bytes(self) -> int:
        """The bytes of one shuffled record before compression, with its slice and time."""
        return 16 + sum(map(_bytes_of, (*self.shape.keys, *self.values)))

    @property
    def assemblies(self) -> tuple[ResultPlan, ...]:
        """The plans of the results, in their order, family by family."""
        pairs = list(product(range(len(self.shape.family.families)), range(len(self.shape.kernels))))
        return tuple(self._assembly(*pair) for pair in pairs)

    @property
    def stored(self) -> tuple[ResultPlan, ...]:
        """The plans of the results that store fields of their own."""
        return tuple(each for each in self.assemblies if not each.host)

    @property
    def eager(self) -> Plan:
        """The plan for comparison: each record is read and written once for each of its windows."""
        return replace(self, trees=(EAGER,) * len(self.trees), sharing=None)

    @property
    def costs(self) -> Costs:
        """The cost of the state for all results together: a row of a slice holds all of them, nodes are per tree."""
        return self._costs_of(tuple(each.tree for each in self.stored))

    @property
    def per_record(self) -> Cost:
        """The maximum partials read and written per record, for all results together."""
        return self.costs.record_at_most()

    @property
    def per_window(self) -> Cost:
        """The average partials read and written per closing window and key, for all results; summed over families."""
        families = self.shape.family.families
        count = len(self.shape.kernels)
        leaders = range(count) if self.sharing is None else self.sharing.leaders
        trees = (tuple(self.trees[i * count + leader] for leader in leaders) for i in range(len(families)))
        costs = (self._costs_of(some, family).close() for some, family in zip(trees, families, strict=True))
        return sum(costs, Cost(0, 0))

    @property
    def state_bytes_per_key(self) -> int:
        """The estimated bytes of a stream's state for a key with records in each slice, before compression; bounded: 0.

        It leaves out the key itself and the data that waits for the watermark: slices of the delay, grace and last
        window.
        """
        if not self.streaming:
            return 0
        rows: dict[bool, float] = {}
        partials: dict[str, float] = {}
        for each in self.stored:  # windows of several families share slices; the longest window needs all of them
            is_eager, label = each.tree == EAGER, each.kernel.label
            rows[is_eager] = max(rows.get(is_eager, 0), each.slices_kept)
            partials[label] = max(partials.get(label, 0), each.slices_kept * each.partial_bytes)
        nodes = sum(each.nodes_kept * (each.partial_bytes + _ROW_BYTES) for each in self.stored)
        if self._merges and rows.get(False):
            together = self._merged.partials  # families share slices, and each needs some of them unmerged
            rows[False] = together
            partials |= {e.kernel.label: together * e.partial_bytes for e in self.stored if e.tree != EAGER}
        kept = sum(rows.values()) * _ROW_BYTES + sum(partials.values()) + nodes - self._once
        return int(kept) + self.retained_bytes_per_key

    @hinted
    def at(
        self,
        *,
        keys: int,
        records_per_second: float,
        cores: int,
        trigger: Duration,
        coefficients: Coefficients | None = None,
    ) -> Scale:
        """Return the prediction for numbers of keys, records and cores, with a micro-batch every `trigger`.

        It has the seconds of a micro-batch, the bytes of state, checkpoint and workers, and the first bottleneck;
        `.large` is the same for a billion keys on a thousand cores. By default, `coefficients` are those that
        `python -m slicing.calibrate` has measured on this machine, else the shipped ones. Raises InvalidType and
        InvalidValue for arguments that are no sizes, and for plans without a prediction: bounded input, triggers other
        than `on_close()`, windows that depend on records.
        """
        if not self.streaming or self.options.trigger != ON_CLOSE or self.costs.eager or not self._is_timed:
            raise InvalidValue(
                "a plan is predicted for a stream of windows that time decides, assembled from slices, that fire by "
                f"`on_close()`; got {self.windows} on {'a stream' if self.streaming else 'bounded input'}, "
                f"{self.options.trigger}. Ask the plan of such a query."
            )
        return scale_of(self, keys, records_per_second, cores, trigger, coefficients)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row with the partials of all results, its slice, key and record count, before compression."""
        return _ROW_BYTES + sum({each.kernel.label: each.partial_bytes for each in self.stored}.values())

    @property
    def slices_stored(self) -> list[tuple[int, int]]:
        """The lengths of stored slices in microseconds, with the maximum number of each per key."""
        if self._merges:
            return self._merged.levels
        family = self.shape.family
        first = family.slice_at(TYPICAL)
        length = int(family.slice_start(first + self.slices_per_window) - family.slice_start(first))
        return [(length // self.slices_per_window, self.slices_per_window)]

    @property
    def slices_retained(self) -> int:
        """The number of slices of a stream that only `retain` keeps, beyond those of a window."""
        if not (self.streaming and self.options.retain):
            return 0
        last = self.shape.family.slice_at(TYPICAL)
        return max(0, int(last - self.shape.family.slice_at(TYPICAL - self.options.retain)) - self.slices_per_window)

    @property
    def retained_bytes_per_key(self) -> int:
        """The bytes that retained slices add to `state_bytes_per_key`."""
        partials: dict[str, int] = {each.kernel.label: each.partial_bytes for each in self.stored}
        return self.slices_retained * (_ROW_BYTES + sum(partials.values()) - self._once_in_a_row)

    @property
    def _merged(self) -> Merged:
        """The stored slices, where some are merged."""
        return Merged(self.shape.family, self.trees)

    @property
    def _merges(self) -> bool:
        """Whether slices are merged: if a family has a tail, and each result in their rows can be merged."""
        return self._merged.applies and all(each.merges for each in self.stored if each.tree != EAGER)

    @property
    def without_tail(self) -> int:
        """The partials of a key in slices that would be stored without tails."""
        families = self.shape.family.families
        return max(f.longest - (tailed(f).per_tail - 1 if f.assembled == TAILED else 0) for f in families)

    @property
    def _once(self) -> float:
        """The bytes of slice fields that several groups of results use but that are stored once."""
        if self.sharing is None:
            return 0
        kept = self._merged.partials if self._merges else max(each.slices_kept for each in self.stored)
        return kept * self._once_in_a_row

    @property
    def _once_in_a_row(self) -> int:
        """The same for a single row."""
        same = self.sharing.same if self.sharing is not None else ()
        return sum(_bytes_of(self.stored[group].kernel.fields[field]) for group, field in same)

    def __str__(self) -> str:
        parts = [self._overview(), self._results(), self._costs()]
        return "\n\n".join([*parts, self._state()] if self.streaming else parts)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a picture of some windows, then the text."""
        return pictured(self.windows._repr_svg_(), str(self))

    def _assembly(self, number: int, result: int) -> ResultPlan:
        family, count = self.shape.family.families[number], len(self.shape.kernels)
        leader = result if self.sharing is None else self.sharing.views[result].leader
        kernel, tree = self.shape.kernels[result], self.trees[number * count + leader]
        costs = self._costs_of((tree,), family)
        trusted = "" if kernel.aggregate.laws or kernel.aggregate.combine is None else ", laws not tried"
        trusted += ", approximate" if kernel.aggregate.approximate else ""
        host = "" if leader == result else self.shape.kernels[leader].label
        reason = f"fields of {host}" if host else self._reason(kernel, tree, family) + trusted
        windows = self.windows.calls[number] if len(self.shape.family.families) > 1 else ""
        return ResultPlan(kernel, tree, reason, family.longest, family.ratio, costs, windows, host)

    def _costs_of(self, trees: tuple[str, ...], family: Family | None = None) -> Costs:
        # On bounded input each window fires once, whatever the trigger.
        trigger = self.options.trigger if self.streaming else ON_CLOSE
        return Costs(family or self.shape.family, frozenset(trees), trigger)

    def _reason(self, kernel: Kernel, tree: str, family: Family) -> str:
        if tree == EAGER:
            return "no `combine`" if kernel.aggregate.combine is None else "asked for"
        if tree in _BY_KIND:
            return _BY_KIND[tree]
        few = few_slices(family)
        if tree == "recompute" and family.longest <= few:
            return f"few slices: {family.longest} <= {few}"
        if tree != choose(kernel, family):
            return "asked for"
        return "exact `invert`" if tree == "two_layer" else "only `combine`"

    def _tree(self, each: ResultPlan) -> str:
        """The name of a result's tree, as printed."""
        return each.tree.replace("_", "-")

    def _overview(self) -> str:
        source = "a stream" if self.streaming else "bounded input"
        partitions = counted(self.partitions, "shuffle partition")
        return columns(
            [
                ("windows", f"{self.windows} on {source}"),
                ("keys", ", ".join(map(str, self.shape.keys))),
                *self._shape(),
                *([("emits", f"{self.options.trigger}: {self.options.trigger.meaning}")] if self.streaming else []),
                *([("trigger", _BY_CLOCK)] if self.streaming and self.by_clock else []),
                ("buckets", f"{self.buckets:,} over {partitions}, {number(self.buckets_per_partition)} each"),
                *([("late", self._late())] if self.options.late != COUNTS else []),
                *([("retains", self._retains())] if self.streaming and self.options.retain else []),
                *([("eager", self._eager())] if self.costs.eager else []),
            ]
        )

    def _shape(self) -> list[tuple[str, str]]:
        """The lines about slices."""
        return [
            ("ratio", f"R = {number(self.ratio)} windows per record"),
            ("slices", self._slices()),
            ("groups", counted(self.slices_per_group, "slice") + " each"),
            *(
                [("merged", self._tails()), ("tails", self._tail_ends())]
                if self._merged.applies and self.streaming
                else []
            ),
        ]

    def _tail_ends(self) -> str:
        """The line about the combines of a tail that ends, which do not depend on the new records."""
        most = math.ceil(max(each.combines_per_tail for each in self.assemblies))
        return (
            f"one that ends costs up to {most:,} combines of a result, for each key in a window: most of the cost of "
            "keys with few records in a tail"
        )

    def _tails(self) -> str:
        """The line about stored slices of windows with a tail, compared with the slices without tails."""
        row = self.row_bytes
        without = f"{self.without_tail:,} without tails, {size_of(self.without_tail * row)}"
        if not self._merges:
            names = ", ".join(each.name for each in self.stored if not each.merges)
            return f"no slices: late records of {names} have a place among the others; {without}"
        kept = self._merged.partials
        return f"slices kept: {self._merged}; {kept:,} partials of a key, {size_of(kept * row)}, instead of {without}"

    def _slices(self) -> str:
        families = self.shape.family.families
        if len(families) > 1:
            each = ", ".join(f"{family.longest:,}" for family in families)
            return f"n = {each} per window, shared"
        step = self.shape.family.step
        if step is None:
            return f"n = {self.slices_per_window:,} per window at most"
        return f"n = {self.slices_per_window:,} per window, {step} per advance"

    def _late(self) -> str:
        if not self.streaming:
            return "nothing is late on bounded input"
        if self.options.late == PARTIALS:
            return "late rows are emitted; nothing more is shuffled or stored"
        size = f"about {self.record_bytes} bytes each"
        return f"late rows and records are emitted; the shuffle carries every record, {size}"

    def _retains(self) -> str:
        beyond = counted(self.slices_retained, "slice")
        return (
            f"slices for {show(self.options.retain)} after the watermark, {beyond} beyond a window: at most "
            f"{size_of(self.retained_bytes_per_key)} more per key"
        )

    def _eager(self) -> str:
        names = ", ".join(each.name for each in self.assemblies if each.tree == EAGER)
        return (
            f"{names}: the shuffle carries every record, about {self.record_bytes} bytes each, and each is folded into "
            f"{counted(math.ceil(self.ratio), 'window')}"
        )

    def _results(self) -> str:
        rows = [
            (each.name, self._tree(each), each.reason, each.mode, ", ".join(map(str, each.kernel.fields)))
            for each in self.assemblies
        ]
        table = columns([("result", "tree", "because", "functions by", "partial"), *rows])
        reasons = [f"by rows: {a.name}: {why}" for a in self.assemblies if (why := by_rows(a.kernel))]
        return "\n".join([table, *reasons])

    def _costs(self) -> str:
        head = ("partials of a key", "this plan", "eager plan")
        eager = self.eager.assemblies[0]
        record = ("per record, at most", str(self.per_record), str(self.eager.per_record))
        if not self.streaming:
            windows = [(f"per window: {a.name}", combines(a), combines(eager)) for a in self.stored]
            shuffled = ("per record, at most", "1 through the shuffle", str(self.eager.per_record))
            return columns([head, shuffled, *windows])
        rows = [
            (f"per window: {a.name}", f"{a.per_window}; {combines(a)}", f"{eager.per_window}; {combines(eager)}")
            for a in self.stored
        ]
        return columns([head, record, *self._by_strategy(), *self._more_per_record(), *rows, *self._together()])

    def _by_strategy(self) -> list[tuple[str, str, str]]:
        """The rows with the cost of a record for each result, if only some results are eager."""
        if not (self.costs.eager and self.costs.sliced):
            return []
        pairs = zip(self.assemblies, self.eager.assemblies, strict=True)
        return [(f"  per record: {a.name}", str(a.per_record), str(eager.per_record)) for a, eager in pairs]

    def _more_per_record(self) -> list[tuple[str, str, str]]:
        """The rows with conditions that change the cost of a record: cached slices, and many small pages."""
        costs, eager = self.costs, self.eager.costs
        if not costs.sliced:
            return []
        rows = [("  if small pages are merged, more", str(MERGING), str(Cost(0, 0)))]
        if costs.record_at_most(held=True) != costs.record_at_most():
            ours, theirs = (str(each.record_at_most(held=True)) for each in (costs, eager))
            rows.append(("  latest slices held by the process", ours, theirs))
        return rows

    def _together(self) -> list[tuple[str, str, str]]:
        if len({each.tree for each in self.stored}) == 1:
            return []
        return [("per window, together", str(self.per_window), str(self.eager.per_window))]

    def _state(self) -> str:
        kept = [
            (each.name, f"fields of {each.host}" if each.host else _kept(each), "" if each.host else each.size)
            for each in self.assemblies
        ]
        aggregates = [each.kernel.aggregate for each in self.stored]
        grows = any(each.growth for each in aggregates)
        one = ", with one thing in each partial that grows" if grows else ""
        one += (
            "; records of a slice beyond the first come on top"
            if any(each.keeps_records for each in aggregates)
            else ""
        )
        total = (
            f"about {size_of(self.state_bytes_per_key)} per key before compression, if every slice has a record of it"
        )
        total += one
        return columns([("state per key", "partials kept, at most", "size"), *kept]) + f"\n{total}"


def _bytes_of(field: Field) -> int:
    if decimal_of(field.kind):
        return 16
    if width := width_of(field.kind):
        return width
    return _BYTES.get(field.kind) or numpy_type(field.kind).itemsize


def _kept(assembly: ResultPlan) -> str:
    if assembly.tree == EAGER:
        return counted(assembly.slices_kept, "open window")
    nodes = f" and {counted(assembly.nodes_kept, 'cached node')}" if assembly.nodes_kept else ""
    return counted(assembly.slices_kept, "slice") + nodes


def combines(assembly: ResultPlan) -> str:
    """Return the number of combines per window of a result, in words."""
    text = counted(assembly.combines_per_window, "combine")
    varies = assembly.worst_combines > assembly.combines_per_window
    return f"{text}, {number(assembly.worst_combines)} at worst" if varies else text


def size_of(count: int) -> str:
    """Return a number of bytes as text, in KiB from 10,000 on."""
    return f"{count:,} bytes" if count < 10_000 else f"{count / 1024:,.0f} KiB"


def columns(rows: list[tuple[str, ...]]) -> str:
    """Return rows as text in aligned columns."""
    return "\n".join(lines(rows))
