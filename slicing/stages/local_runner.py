"""Run micro-batches of one key in this process, without Spark: the first stage, the state of a bucket, emitted rows.

The objects are those of real queries. Only the source, the shuffle and the watermark, which are Spark's, are simulated:
in each micro-batch the watermark is the greatest time of all earlier micro-batches minus the delay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.aggregates.record_count import RECORD_COUNT
from slicing.assembly.results import Windows, in_time
from slicing.content.block import Shape
from slicing.content.signals import Signals, folded
from slicing.errors import InvalidValue
from slicing.stages.execution_plan import Aggregation, not_before
from slicing.stages.signalled import first_stage
from slicing.stages.support_of import support_of
from slicing.state.format.fingerprint import fingerprint_of
from slicing.state.store import MemoryStore
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import Late
from slicing.triggers.trigger import MicroBatchTime, Trigger
from slicing.windows.window import Window

TAKEN, PARTLY, LATE, LOST = "taken", "partly", "late", "lost"
"""The outcome of a record: accepted, late for some of its windows, late for all of them, or in no window."""
_KEY = Field("(all)", "boolean")
_END = 1 << 62
"""A watermark that closes all windows."""


@dataclass(frozen=True)
class Out:
    """An emitted row: the window `[start, end)` of family `part`, its record count, and its micro-batch."""

    part: int
    start: int
    end: int
    records: int
    emission: str
    batch: int | None


@dataclass(frozen=True)
class Batch:
    """A micro-batch: the times of its records, the outcome of each, and its watermark, None before there is one."""

    times: tuple[int, ...]
    outcomes: tuple[str, ...]
    watermark: int | None


@dataclass
class Replay:
    """The outcome: micro-batches, emitted rows in order, and rows that would be emitted if all windows closed now."""

    batches: list[Batch] = field(default_factory=list)
    rows: list[Out] = field(default_factory=list)
    open: list[Out] = field(default_factory=list)


def check(window: Window, trigger: Trigger, by_clock: bool, streaming: bool) -> None:
    """Raise InvalidValue as a query would, and also for columns: records here have no values, only times."""
    if getattr(window, "gap_column", None) is not None:
        raise InvalidValue(f'records are times alone here, without gaps; got {window}. Draw session("10 minutes").')
    if trigger.reads:
        raise InvalidValue(f"records are times alone here, without conditions and values; got {trigger}. Leave it out.")
    support_of(window).check("auto", by_clock, trigger, streaming)


def bounded(window: Window, times: Sequence[int]) -> Replay:
    """Run bounded input, and return all windows."""
    run = _Run(window, ON_CLOSE, 0, may_be_late=False)
    shipped = run.ship(times)
    rows = [out for windows in run.execution_plan.all_windows(shipped[0]) for out in run.out(windows, None)]
    return Replay([Batch(tuple(times), run.outcomes(times, None, shipped[1]), None)], rows)


def stream(
    window: Window,
    batches: Sequence[Sequence[int]],
    watermark: int | Sequence[int | None],
    trigger: Trigger = ON_CLOSE,
    grace: int = 0,
    clock: Sequence[int] | None = None,
    by_clock: bool = False,
) -> Replay:
    """Run a stream of micro-batches. All times are in microseconds.

    `watermark` is the delay, or the watermark of each micro-batch. With a delay, a micro-batch without data follows at
    the end if the watermark has moved, as in Spark. `clock` has the processing time of each micro-batch, by default a
    millisecond after the previous one; with `by_clock` it is also the time of the records, and the watermark.
    """
    run, found, greatest = _Run(window, trigger, grace), Replay(), None
    given = None if isinstance(watermark, int) else list(watermark)
    delay = watermark if isinstance(watermark, int) else 0
    clocks = [_clock_of(clock, number) for number in range(max(len(batches), len(clock or ()), len(given or ())))]
    for number, now in enumerate(clocks):
        times = batches[number] if number < len(batches) else ()
        times = [now] * len(times) if by_clock else times
        reached = now if by_clock else None if greatest is None else greatest - delay
        reached = reached if given is None else given[min(number, len(given) - 1)]
        found.batches.append(run.step(times, reached, now, number, found.rows, by_clock))
        greatest = max([*times, *([] if greatest is None else [greatest])], default=None)
    last = found.batches[-1].watermark if found.batches else None
    if not by_clock and given is None and greatest is not None and (last is None or last < greatest - delay):
        found.batches.append(run.step((), greatest - delay, _clock_of(clock, len(clocks)), len(clocks), found.rows))
    found.open = run.rest()
    return found


def _clock_of(clock: Sequence[int] | None, number: int) -> int:
    return clock[min(number, len(clock) - 1)] if clock else number * 1000


class _Run:
    """The objects of one query and the state of its only bucket."""

    def __init__(self, window: Window, trigger: Trigger, grace: int, may_be_late: bool = True):
        support = support_of(window)
        kernels, arguments = support.kernels((kernel("records", RECORD_COUNT),), ((),), has_time=True)
        self.shape, self.counts = Shape(window.family, (_KEY,), kernels), window.counts
        self.families = window.family.families
        trees = tuple(support.tree_of(self.shape.kernels[0], family, trigger) for family in self.families)
        self.execution_plan: Any = support.execution_plan(
            Aggregation(self.shape, trees * len(kernels), arguments, may_be_late)
        )
        self.heard = Signals(folded(trigger.signals))  # the signals of the records that were shuffled last
        self.stage: Any = first_stage(self.execution_plan.first_stage((0,), with_records=True), self.heard.names)
        self.fingerprint = fingerprint_of(
            self.shape, ["partials"] * len(kernels), [[]] * len(kernels), "1 over 1 shuffle partition"
        )
        self.store, self.trigger, self.grace = MemoryStore(), trigger, grace + window.family.closed_right

    def ship(self, times: Sequence[int]) -> tuple[list[Any], list[bytes]]:
        """Return the output of the first stage: decoded blocks, and the encoded records that accompany them."""
        key = pa.nulls(len(times), pa.bool_())
        columns = {"time": pa.array(times, pa.int64()), _KEY.name: key}
        # The last column orders bounded input of count windows.
        columns |= {"order": columns["time"]} if self.counts else {}
        batch = pa.RecordBatch.from_pydict(columns)
        rows = pa.Table.from_batches(self.stage([batch])).to_pydict()
        self.heard = self.stage.heard(rows) if self.heard.names else self.heard
        return self.execution_plan.shipped(rows), [data for data in rows.get("records", ()) if data is not None]

    def bucket(self, trigger: Trigger) -> Any:
        """Open the bucket over the stored state."""
        return self.execution_plan.bucket(self.grace, self.fingerprint, self.store, trigger)

    def step(
        self,
        times: Sequence[int],
        watermark: int | None,
        now: int,
        number: int,
        rows: list[Out],
        by_clock: bool = False,
    ) -> Batch:
        """Run one micro-batch and append the emitted rows to `rows`."""
        bucket = self.bucket(self.trigger)
        shipped, encoded = self.ship(times)
        if by_clock:
            shipped = [not_before(self.execution_plan.shipping, each, bucket.head.watermark) for each in shipped]
        bucket.take_signals(self.heard)
        late = bucket.accept(shipped)
        outcomes = self.outcomes(times, late, encoded)
        for windows in bucket.close(MicroBatchTime(max(0, watermark or 0), now)):
            rows += self.out(windows, number)
        return Batch(tuple(times), outcomes, watermark)

    def rest(self) -> list[Out]:
        """Return the rows that would be emitted if all windows closed now."""
        self.store = deepcopy(self.store)
        closed = self.bucket(ON_CLOSE).close(MicroBatchTime(_END))
        return [out for windows in closed for out in self.out(windows, None)]

    def out(self, windows: Windows, batch: int | None) -> Iterator[Out]:
        """Yield the rows of windows; aligned windows become separate rows."""
        family = self.families[windows.family]
        windows = in_time(family, windows)
        starts, ends = family.window_start(windows.windows), windows.ends_by(family)
        if self.counts:
            # The window ends at its last record: one microsecond more would not be visible.
            starts, ends = windows.partials[1][0], np.maximum(windows.partials[1][1], windows.partials[1][0] + 1)
        counts = windows.partials[0][0].tolist()
        for start, end, records in zip(starts.tolist(), ends.tolist(), counts, strict=True):
            yield Out(windows.family, start, end, records, windows.kind, batch)
        if windows.aligned:
            others = [number for number in range(len(self.families)) if number != windows.family]
            for number, other in zip(others, windows.aligned, strict=True):
                yield from self.out(replace(other.take(np.flatnonzero(other.records)), family=number), batch)

    def outcomes(self, times: Sequence[int], late: Late[Any] | None, encoded: list[bytes]) -> tuple[str, ...]:
        """Return the outcome of each record."""
        family = self.shape.family
        slices = family.slice_of_record(np.array(times, np.int64))
        gap = family.has_gaps & np.broadcast_to(family.in_gap(slices), slices.shape)
        lost = gap | ~family.in_time(slices, np.array(times, np.int64))
        outcomes = {time: LOST if is_lost else TAKEN for time, is_lost in zip(times, lost, strict=True)}
        if late is None or not late.any:
            return tuple(outcomes[time] for time in times)
        refused = [self._refused(number, each, encoded) for number, each in enumerate(late.refused)]
        for time in {time for each in refused for time in each}:
            place = np.array([family.slice_of_record(time)])
            holding = [i for i, each in enumerate(self.families[: len(refused)]) if not np.any(each.in_gap(place))]
            outcomes[time] = LATE if all(refused[i].get(time, False) for i in holding) else PARTLY
        return tuple(outcomes[time] for time in times)

    def _refused(self, number: int, refused: Any, encoded: list[bytes]) -> dict[int, bool]:
        """Return the times that one family refused, and whether all of its windows did."""
        found: dict[int, bool] = {}
        for records in self.execution_plan.late_records(self.families[number], refused, encoded):
            by_all = refused.missed_by(self.families[number], records).by_all
            found |= dict(zip(records.times.tolist(), by_all.tolist(), strict=True))
        return found
