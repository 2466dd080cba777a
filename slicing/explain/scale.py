"""Predicts the cost of a micro-batch for given numbers of keys, records and cores, and the first bottleneck.

Seconds and bytes are from `coefficients`, counts are averages of a steady stream. The records of a key are assumed to
be independent of each other. So a given key has a record in the share `1 - exp(-d * records per second / keys)` of all
intervals of d seconds of event time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from html import escape
from typing import Protocol

from slicing.assembly.partitions import PARTITION_BYTES
from slicing.content.block import Shape
from slicing.content.sizes import ASSEMBLY_BYTES
from slicing.drawing import duration, lines, size, table
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.explain.coefficients import Coefficients, known
from slicing.explain.costs import TYPICAL, Cost
from slicing.stages.preaggregate import CHUNK_ROWS
from slicing.windows.families.family import Family
from slicing.windows.time.durations import Duration, microseconds

_SAMPLE = 4096
"""The number of windows or slices over which distances are averaged."""


@dataclass(frozen=True)
class Pace:
    """The frequency of windows or slices per second of event time, and their length in seconds."""

    per_second: float
    seconds: float


def windows_of(family: Family) -> Pace:
    """Return the pace of the windows of one family."""
    first = int(family.first_open(TYPICAL))
    last = first + _SAMPLE
    span = (int(family.window_end(last)) - int(family.window_end(first))) / 1e6
    length = sum(int(family.window_end(i)) - int(family.window_start(i)) for i in range(first, first + 64)) / 64e6
    return Pace(_SAMPLE / span if span > 0 else 0.0, length)


def slices_of(family: Family) -> Pace:
    """Return the pace of the slices that families share."""
    first = int(family.slice_at(TYPICAL))
    span = (int(family.slice_start(first + _SAMPLE)) - int(family.slice_start(first))) / 1e6
    return Pace(_SAMPLE / span, span / _SAMPLE) if span > 0 else Pace(0.0, math.inf)


@dataclass(frozen=True)
class Load:
    """The work of a micro-batch.

    `shipped` counts the shuffled partials, `entered` the partials of slices that enter the state, `nodes` the nodes of
    trees that are read or written, `written` all partials that are written, `emitted` the emitted rows, and `closes`
    the windows that close, over all families.
    """

    records: float
    shipped: float
    entered: float
    nodes: float
    written: float
    emitted: float
    closes: float

    @property
    def partials(self) -> float:
        """The number of partials that are shuffled or enter the state."""
        return self.shipped + self.entered


def load_of(
    family: Family, per_window: Cost, keys: int, rate: float, cores: int, seconds: float, closing: bool = False
) -> Load:
    """Return the load of a micro-batch of `seconds`; with `closing`, of one in which at least one window closes."""
    slices, families = slices_of(family), [windows_of(each) for each in family.families]
    each = rate / keys

    def active(length: float, part: float = 1.0) -> float:
        return keys * -math.expm1(-each * part * length)

    count, length = max(1.0, seconds * slices.per_second), min(seconds, slices.seconds)
    shipped = cores * count * active(length, 1 / cores)
    closes = [max(1.0 if closing else 0.0, seconds * windows.per_second) for windows in families]
    entered = active(slices.seconds) * max(seconds * slices.per_second, max(closes) if closing else 0.0)
    emitted = sum(count * active(windows.seconds) for count, windows in zip(closes, families, strict=True))
    moving = sum(min(1.0, count) * active(windows.seconds) for count, windows in zip(closes, families, strict=True))
    # The nodes of a window are read and written once per micro-batch, even if several windows close.
    nodes, written = (
        max(1.0, of / len(families) - 1) for of in (per_window.reads + per_window.writes - 1, per_window.writes)
    )
    # Slices that look complete are written once, straight to their own pages: all but the newest of a micro-batch.
    slices_written = entered * (1 + 1 / count)
    longest = max(windows.seconds for windows in families)
    if seconds > longest:  # the slices of the windows that stay open are written again, to their slice groups
        slices_written += entered * longest / seconds
    return Load(
        rate * seconds, shipped, entered, nodes * moving, slices_written + written * moving, emitted, sum(closes)
    )


LARGE_KEYS, LARGE_CORES = 10**9, 1000
"""The keys and cores of `Scale.large`."""
CORE_MEMORY, CORE_DISK, CORE_BYTES_PER_SECOND, BUCKET_KEYS = 2 << 30, 100 << 30, 50 << 20, 1_000_000
"""The resources of a core: bytes of memory for its Python worker, bytes of disk for its state, changelog bytes per
second. The last number is the maximum keys of a bucket, because a close reads all of its keys."""
BUCKETS_PER_CORE = 4
RECORD_MEMORY, COPIES = 130, 4
"""The memory of a worker: bytes per record of a chunk that is folded, and copies of the partials of a micro-batch."""


class Planned(Protocol):
    """The figures of a plan that a prediction needs."""

    @property
    def shape(self) -> Shape:
        """The keys, windows and results."""

    @property
    def per_window(self) -> Cost:
        """The partials read and written per window and key."""

    @property
    def row_bytes(self) -> int:
        """The bytes of a row with the partials of all results, its slice and key."""

    @property
    def state_bytes_per_key(self) -> int:
        """The bytes of the state of a key with records in every slice."""

    @property
    def slices_stored(self) -> list[tuple[int, int]]:
        """The lengths of stored slices in microseconds, and the number of each."""

    @property
    def buckets(self) -> int:
        """The number of buckets."""


@dataclass(frozen=True)
class Limit:
    """A resource that a query may exhaust: the share of it in use, and the remedy."""

    name: str
    share: float
    remedy: str

    @property
    def headroom(self) -> str:
        """The multiple of its use that the resource has, in words."""
        if self.share > 1:
            return f"none, {self.name} first: {self.share:.2f} x of what there is"
        return f"{_times(1 / self.share)} x, {self.name} first"


@dataclass(frozen=True)
class Scale:
    """The prediction for one size: `rate` records per second, and `seconds` of event time per micro-batch.

    It prints as a table. `large` is the same query for a billion keys.
    """

    plan: Planned
    keys: int
    rate: float
    cores: int
    seconds: float
    buckets: int
    coefficients: Coefficients

    @property
    def load(self) -> Load:
        """The counts of an average micro-batch."""
        return self._load(closing=False)

    def _load(self, closing: bool) -> Load:
        plan = self.plan
        return load_of(plan.shape.family, plan.per_window, self.keys, self.rate, self.cores, self.seconds, closing)

    @property
    def busy(self) -> int:
        """The number of cores that have a bucket."""
        return min(self.cores, self.buckets)

    @property
    def seconds_per_micro_batch(self) -> float:
        """The seconds of an average micro-batch."""
        return self._seconds(self.load)

    @property
    def longest_micro_batch(self) -> float:
        """The seconds of a micro-batch in which windows close."""
        return self._seconds(self._load(closing=True))

    @property
    def counts(self) -> dict[str, float]:
        """The multiplier of each coefficient in seconds, for an average micro-batch."""
        return self._counts(self.load)

    def _counts(self, load: Load) -> dict[str, float]:
        return {
            "trigger": 1.0,
            "bucket": min(1.0, load.closes) * math.ceil(self.buckets / self.cores),
            "record": load.records / self.cores,
            "partial": load.partials / self.busy,
            "node": load.nodes / self.busy,
            "emitted": load.emitted / self.busy,
            "spilled": load.entered / self.busy if self._closed_bytes(load) > PARTITION_BYTES else 0.0,
        }

    def _closed_bytes(self, load: Load) -> float:
        """The bytes of the rows that a bucket reads to close windows."""
        return (load.entered + load.nodes) / self.buckets * self.plan.row_bytes

    def _seconds(self, load: Load) -> float:
        return float(sum(getattr(self.coefficients, name) * count for name, count in self._counts(load).items()))

    @property
    def state_bytes(self) -> float:
        """The compressed bytes of the state of all keys, with the slices of the last micro-batch."""
        each, plan = self.rate / self.keys, self.plan
        slices = plan.slices_stored
        newest = min(length for length, _ in slices)
        counts = [*slices, (newest, self.seconds * 1e6 / newest)]
        held = sum(count * -math.expm1(-each * length / 1e6) for length, count in counts)
        nodes = max(0.0, plan.state_bytes_per_key - sum(count for _, count in slices) * plan.row_bytes)
        longest = max(windows_of(family).seconds for family in plan.shape.family.families)
        live = -math.expm1(-each * longest)
        return self.keys * (held * plan.row_bytes + live * nodes) * self.coefficients.stored

    @property
    def checkpoint_bytes(self) -> float:
        """The bytes that an average micro-batch adds to the checkpoint. Spark keeps the last 100 micro-batches."""
        pages = self.load.written * self.plan.row_bytes * self.coefficients.stored
        return self.coefficients.files * self.buckets + pages

    @property
    def worker_bytes(self) -> float:
        """The bytes of the largest Python worker, which pre-aggregates records in chunks, or processes one bucket.

        A bucket takes the partials of its micro-batch, a few times, and windows that are emitted in partitions.
        """
        load = self._load(closing=True)
        per_row = self.plan.row_bytes / self.buckets
        bucket = COPIES * load.entered * per_row
        bucket += min(3.0 * ASSEMBLY_BYTES, (load.entered + load.nodes + load.emitted) * per_row)
        chunk = RECORD_MEMORY * min(load.records / self.cores, CHUNK_ROWS)
        return self.coefficients.worker + max(chunk, bucket)

    @property
    def limits(self) -> list[Limit]:
        """The resources that the query may exhaust, the scarcest first."""
        found = [
            Limit("time", self.longest_micro_batch / self.seconds, "Add cores, or lengthen the trigger."),
            Limit("memory", self.worker_bytes / CORE_MEMORY, "Ask for more buckets."),
            Limit("disk", self.state_bytes / self.cores / CORE_DISK, "Add cores with disks, or coarsen `tail`."),
            Limit(
                "upload",
                self.checkpoint_bytes / self.cores / self.seconds / CORE_BYTES_PER_SECOND,
                "Add cores, or lengthen the trigger.",
            ),
            Limit("keys of a bucket", self.keys / self.buckets / BUCKET_KEYS, "Ask for more buckets."),
        ]
        return sorted(found, key=lambda limit: -limit.share)

    @property
    def breaks_first(self) -> Limit:
        """The scarcest resource."""
        return self.limits[0]

    @property
    def large(self) -> Scale:
        """The same query for a billion keys on a thousand cores, with equally many records per key."""
        rate, buckets = self.rate / self.keys * LARGE_KEYS, max(self.buckets, LARGE_CORES * BUCKETS_PER_CORE)
        return replace(self, keys=LARGE_KEYS, cores=LARGE_CORES, rate=rate, buckets=buckets)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The printed figures, by name."""
        return [
            ("keys", f"{self.keys:,}"),
            ("records a second", f"{self.rate:,.0f}"),
            ("cores", f"{self.cores:,}"),
            ("buckets", f"{self.buckets:,}"),
            ("micro-batch", f"{_seconds(self.seconds_per_micro_batch)} of {_seconds(self.seconds)}"),
            ("longest micro-batch", _seconds(self.longest_micro_batch)),
            ("rows a micro-batch", f"{self.load.emitted:,.0f}"),
            ("state", size(self.state_bytes)),
            ("checkpoint", f"{size(self.checkpoint_bytes)} a micro-batch"),
            ("worker memory", size(self.worker_bytes)),
            ("headroom", self.breaks_first.headroom),
        ]

    @property
    def _notes(self) -> list[str]:
        limit = self.breaks_first
        too_large = f"too large for {self.cores:,} cores: {limit.name}. {limit.remedy}"
        return [f"coefficients: {self.coefficients.machine}", *([too_large] if limit.share > 1 else [])]

    def __str__(self) -> str:
        return "\n".join([*lines(self.rows), *self._notes])

    def _repr_html_(self) -> str:
        """The same as an HTML table, for notebooks."""
        head, *rows = self.rows
        return table(head, rows) + "".join(f"<div>{escape(note)}</div>" for note in self._notes)


def _times(multiple: float) -> str:
    return f"{multiple:,.0f}" if multiple >= 10 else f"{multiple:.1f}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)


def scale_of(
    plan: Planned,
    keys: int,
    records_per_second: float,
    cores: int,
    trigger: Duration,
    coefficients: Coefficients | None = None,
) -> Scale:
    """Return the prediction for a plan. Raises InvalidType and InvalidValue for invalid sizes, rates or triggers."""
    for name, count in (("keys", keys), ("cores", cores)):
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InvalidValue(f"`{name}` must be a positive integer; got {excerpt(count)}.")
    if isinstance(records_per_second, bool) or not isinstance(records_per_second, (int, float)):
        raise InvalidType(f"`records_per_second` must be a number; got {excerpt(records_per_second)}.")
    if not 0 < records_per_second < math.inf:
        raise InvalidValue(f"`records_per_second` must be positive and finite; got {records_per_second!r}.")
    seconds = microseconds(trigger, "trigger") / 1e6
    if seconds <= 0:
        raise InvalidValue(f"`trigger` must be positive; got {excerpt(trigger)}. It is the time between micro-batches.")
    return Scale(plan, keys, float(records_per_second), cores, seconds, plan.buckets, coefficients or known())
