"""A resolved windowed aggregation over its DataFrame: the columns it reads and emits; it runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.aggregates.fields import Field
from slicing.aggregates.records import KeptRecords
from slicing.aggregates.results import Nesting, is_single
from slicing.content.block import Shape
from slicing.content.signals import FIRST, SIGNALS
from slicing.drafts.call import Time
from slicing.options import Options
from slicing.process.function import Then, WindowFunction
from slicing.spark.columns import Key, logical, nested_kind_of_type, quoted
from slicing.spark.ddl import struct_of
from slicing.spark.declared import Declared, told
from slicing.spark.late import DELAY, HELD_DELAY, LateColumns
from slicing.spark.observed import counted, delays
from slicing.spark.packing import unpacked
from slicing.spark.window_columns import Times, WindowColumns
from slicing.stages import flat
from slicing.stages.execution_plan import Aggregation, Arguments, ExecutionPlan
from slicing.stages.flat import Flat, physical
from slicing.stages.metrics import (
    COUNTERS,
    METRICS,
    OF_WARM_STARTS,
    TIMERS,
)
from slicing.stages.packed import Packed
from slicing.stages.support import WindowSupport
from slicing.triggers.lateness import COUNTS, RECORDS
from slicing.triggers.trigger import KINDS
from slicing.windows.window import Window

EMISSION = "slicing.emission"
"""Metadata of window columns whose windows may fire more than once, or after the watermark has passed them."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """A resolved call of `aggregate`. `trees` has one tree per kernel.

    `result_names` are the columns of results, before a function (`then`) makes others of them. `labels` says of what
    each result is, as "mean of bid".
    """

    frame: DataFrame | None
    schema: T.StructType
    keys: tuple[Key, ...]
    support: WindowSupport
    window_columns: WindowColumns
    time: str
    clock: Time
    ntz: bool
    shape: Shape
    trees: tuple[str, ...]
    columns: tuple[str, ...]
    arguments: Arguments
    options: Options
    streaming: bool
    timed: bool
    nesting: Nesting
    result_names: tuple[str, ...]
    then: Then | None = None
    declared: Declared | None = None
    warm: bool = False
    labels: tuple[str, ...] = ()

    @property
    def function(self) -> WindowFunction | None:
        """The function of the call that turns windows into rows, None if there is none."""
        if self.then is not None:
            return self.then
        first = self.shape.kernels[0].aggregate if self.shape.kernels else None
        return first.call if isinstance(first, KeptRecords) else None

    @property
    def remembers(self) -> WindowFunction | None:
        """The function, if it has states; None otherwise."""
        found = self.function
        return found if found is not None and found.states else None

    @property
    def source(self) -> DataFrame:
        """The DataFrame. Only a query with a DataFrame may be asked for it."""
        assert self.frame is not None, "who asks has one"
        return self.frame

    @property
    def window(self) -> Window:
        """The windows."""
        return self.support.window

    @property
    def execution_plan(self) -> ExecutionPlan:
        """The execution plan: what is shipped and what runs after the shuffle. Records are late only on a stream."""
        asked = Aggregation(
            shape=self.shape,
            trees=self.trees,
            arguments=self.arguments,
            may_be_late=self.streaming,
            values=self.values,
            ends=self.options.trigger.ends,
            fires_short=self.options.trigger.fires_short,
            empty=self.options.trigger.empty,
        )
        return self.support.execution_plan(asked)

    def records(self, signals: bool = False) -> DataFrame:
        """Return the first stage's input: time, leaves of the key, values, and with `signals` the trigger's columns."""
        time = self.record_time()
        leaves = [column for key in self.keys for column in key.leaves()]
        leaves = (leaves or [F.lit(True)]) + self.window_columns.leaves(self.schema, time, self.times)
        named = [leaf.alias(name) for name, leaf in flat.numbered(flat.KEY, leaves).items()]
        values = [quoted(name).alias(as_) for as_, name in flat.numbered(flat.VALUE, self.columns).items()]
        read = self._signals.items() if signals else ()
        values += [column.cast(SIGNALS[name].kind).alias(SIGNALS[name].column) for name, column in read]
        found = self.source.select(time.alias(flat.TIME), *named, *values)
        return found if self.declared is None else told(found, self._record_schema(len(leaves), signals))

    @property
    def _signals(self) -> dict[str, Column]:
        """The columns that are read for signals, by signal. `slicing.stages.signalled` removes them again."""
        times = {} if self.signal_time is None else {FIRST: self.signal_time}
        return {name: quoted(column) for name, column in self.options.trigger.reads.items()} | times

    @property
    def signal_time(self) -> Column | None:
        """The event time of a record in microseconds, None if the trigger needs none or it is the time of the row."""
        return self.window_columns.event_time() if FIRST in self.options.trigger.signals else None

    def _record_schema(self, leaves: int, signals: bool) -> T.StructType:
        """The schema of `records`. The columns after the leaves of the key are gaps of sessions, in microseconds."""
        kinds = [part.field.kind for key in self.keys for part in key.parts()] or ["boolean"]
        kinds += ["bigint"] * (leaves - len(kinds))
        columns = {flat.TIME: self.time_kind, **flat.numbered(flat.KEY, kinds)}
        columns |= flat.numbered(flat.VALUE, [field.kind for field in self.values])
        columns |= {SIGNALS[name].column: SIGNALS[name].kind for name in self._signals} if signals else {}
        return struct_of(", ".join(f"{name} {kind}" for name, kind in columns.items()))

    def record_time(self) -> Column:
        """The time of a record: its time column, or the trigger's clock, which is constant within a micro-batch."""
        if self.clock is Time.CLOCK:
            return F.current_timestamp()
        return quoted(self.time) if self.time else F.timestamp_micros(F.lit(0))

    @property
    def by_clock(self) -> bool:
        """Whether the timers of the stateful operator go by the clock."""
        waits = self.options.trigger.by_clock or self.clock is Time.CLOCK
        return waits or self.window.ttl is not None or self.options.idle > 0

    @property
    def reads_clock(self) -> bool:
        """Whether the stateful operator reads the clock of a micro-batch, also without timers of processing time.

        Functions are told the clock of their call.
        """
        has_function = self.then is not None or any(kernel.aggregate.keeps_records for kernel in self.shape.kernels)
        return self.by_clock or self.options.trigger.reads_clock or has_function

    @property
    def needs_timer(self) -> bool:
        """Whether a bucket without new records needs a timer."""
        return self.clock is not Time.NONE or self.options.trigger.by_clock

    @property
    def flat(self) -> Flat:
        """The flat columns that the second stage emits."""
        results = [physical(field.kind) for _ in range(self.widths) for field in self.results()]
        late, differ = self.late_columns, self.window.family.fixed_size is None
        distinguished = self._calls if late else self.window.names and not self.window.wide
        return Flat(
            keys=tuple(physical(field.kind) for field in self.shape.keys),
            results=tuple(results),
            values=late.kinds if late else None,
            stops=differ and not self.window.wide,
            families=bool(distinguished),
            again=not self.once,
            replaces=self.with_old,
            late=late is not None,
            untils=differ,
        )

    @property
    def widths(self) -> int:
        """The number of times that a row holds all results: once, or once for each aligned window."""
        return len(self.window.names or ()) if self.window.wide else 1

    @property
    def once(self) -> bool:
        """Whether each window is emitted at most once, so that rows have only keys, window and results."""
        return self.options.trigger.fires_once or not self.streaming

    @property
    def with_old(self) -> bool:
        """Whether rows have the column `old` with the result that they replace."""
        return self.streaming and self.options.trigger.accumulation.retracts

    @property
    def late_columns(self) -> LateColumns | None:
        """The additional columns of late rows, None if late records are only counted or the input is bounded."""
        if self.options.late == COUNTS or not self.streaming or self.clock is not Time.EVENT:
            return None
        values = self.values if self.options.late == RECORDS else None
        return LateColumns(values=values, size=self.window.family.fixed_size, names=self._calls)

    @property
    def _calls(self) -> tuple[str, ...] | None:
        """What distinguishes several windows in late rows: their names, else the calls that make them."""
        return tuple(self.window.calls) if len(self.window.family.families) > 1 else None

    @property
    def values(self) -> tuple[Field, ...]:
        """The columns of values and their kinds."""
        schema = self.schema
        return tuple(Field(name, nested_kind_of_type(schema[name].dataType, name)) for name in self.columns)

    def results(self) -> list[Field]:
        """Return the fields of all results, in order, then the fields that make the `window` of count windows.

        If a function makes the rows, the fields of its rows take the place of the results.
        """
        if self.then is not None:
            return [*self.then.returns, *(self.shape.kernels[-1].results if self.then.spans else ())]
        return [field for kernel in self.shape.kernels for field in kernel.results]

    def finish(self, table: DataFrame) -> DataFrame:
        """Observe the counts of packed rows, then build keys, `window` and results from the flat columns."""
        counters = (*COUNTERS, *TIMERS * self.timed, *OF_WARM_STARTS * self.warm)
        metrics = [*map(counted, counters), *(delays(self.delay, self.retained) if self.delay is not None else ())]
        rows = table.observe(self.metrics_name(), *map(F.expr, metrics))
        return unpacked(rows, Packed(self.flat)).select(*self.row_columns())

    def row_columns(self) -> list[Column]:
        """Return the columns of keys, windows and results, built from the flat columns."""
        leaves = map(F.col, flat.numbered(flat.KEY, self.shape.keys))
        keys = {key.name: key.rebuild(leaves) for key in self.keys}
        keys = {name: keys[name] for name in self.window_columns.shown(list(keys))}
        results = self.result_columns(flat.RESULT)
        if not self.once:
            firing_metadata = {EMISSION: str(self.options.trigger)}
            kind = F.element_at(F.array(*map(F.lit, KINDS)), F.col(flat.KIND) + 1)
            results.append(kind.alias("emission", metadata=firing_metadata))
            results.append(F.col(flat.REVISION).alias("revision", metadata=firing_metadata))
        if self.with_old:
            results.append(F.when(F.col(flat.REPLACES), F.struct(*self.result_columns(flat.OLD))).alias("old"))
        windows = self.window_columns.of_rows(self.flat, self.times, self._time_column)
        return [*keys.values(), *windows, *results, *self._late_tag(keys)]

    @property
    def delay(self) -> int | None:
        """The watermark delay in microseconds, None where no record is late."""
        if not self.streaming or self.clock is not Time.EVENT:
            return None
        return int(self.schema[self.time].metadata[DELAY]) * 1000

    @property
    def retained(self) -> int | None:
        """How long a record stays in the state, in microseconds of event time; None if windows differ in length."""
        sizes = [family.fixed_size for family in self.window.family.families]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        return max(max(known) + self.options.grace, self.options.retain) + (self.delay or 0)

    def metrics_name(self) -> str:
        """Return the name of the observed metrics; Spark requires different names for the aggregations of a query."""
        results = ", ".join(kernel.label for kernel in self.shape.kernels)
        keys = ", ".join(key.name for key in self.keys)
        return f"{METRICS}{results} in {self.window} of {self.time or self.clock.value}" + (
            f" by {keys}" if keys else ""
        )

    @property
    def time_kind(self) -> str:
        """The Spark type of times in rows."""
        return "timestamp_ntz" if self.ntz else "timestamp"

    def instant(self, microseconds: int) -> Column:
        """Return an instant as a literal of the type of times. Spark would cast another type by the session's zone."""
        return logical(F.lit(microseconds), self.time_kind)

    @property
    def times(self) -> Times:
        """The time of records."""
        return Times(self.time, self.time_kind)

    def _time_column(self, column: Column, name: str, metadata: dict[str, Any]) -> Column:
        """The time column of results, with the metadata by which Spark and this package recognize it."""
        if not self.once:
            metadata[EMISSION] = str(self.options.trigger)
        elif self.streaming and not self.options.grace and self.clock is Time.EVENT:
            # With grace a window is emitted after the watermark has passed it, so Spark's operators would drop its row.
            # Late rows have no window, so the delay is hidden from Spark until `results` has removed them.
            delay = HELD_DELAY if self.late_columns else DELAY
            metadata[delay] = self.schema[self.time].metadata[DELAY]
        if self.late_columns:
            column = F.when(F.col(flat.CAUSE).isNull(), column)
        return column.alias(name, metadata=metadata)

    def _late_tag(self, keys: dict[str, Column]) -> list[Column]:
        """The column that tags late rows, if they are emitted. A late record contains each column once."""
        if self.late_columns is None:
            return []
        record = keys | self.window_columns.own_time(self.times) | keys  # A key that is the time stays a key.
        for column, field in flat.numbered(flat.VALUE, self.late_columns.values or ()).items():
            record.setdefault(field.name, logical(F.col(column), field.kind).alias(field.name))
        columns = [record[name] for name in self.window_columns.shown(list(record))]
        return [self.late_columns.tag(self.time_kind, F.struct(*columns))]

    def result_columns(self, prefix: str) -> list[Column]:
        """Return the result columns by name, built from the flat columns with this prefix."""
        if self.then is not None:
            rows = flat.numbered(prefix, self.then.returns)
            return [logical(F.col(column), field.kind).alias(field.name) for column, field in rows.items()]
        columns, at = [], 0
        for each in self.widths * self.shape.kernels:
            fields = [
                logical(F.col(column), field.kind).alias(field.name)
                for column, field in flat.numbered(prefix, each.results, at).items()
            ]
            at += len(each.results)
            if each.aggregate.keeps_records:
                return fields
            columns.append(fields[0] if is_single(each) else F.struct(*fields))
        found = iter(columns)
        if not self.window.wide:
            return list(_nested(self.nesting, found))
        names = self.window.names or ()
        return [column for name in names for column in _nested(self.nesting, found, f"_{name}")]


def _nested(nesting: Nesting, columns: Iterator[Column], suffix: str = "") -> Iterator[Column]:
    """One column for each result, the fields of a struct in one column."""
    for name, parts in nesting:
        yield (F.struct(*_nested(parts, columns)) if parts else next(columns)).alias(name + suffix)
