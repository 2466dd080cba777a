"""The resolution of a call against the schema of its DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from slicing.aggregates.aggregate import EVENT_TIME, Aggregate, Bound
from slicing.aggregates.conversions import as_number
from slicing.aggregates.fields import Field
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.kernels import kernel
from slicing.aggregates.results import flat_results, nesting_of
from slicing.column_names import as_column
from slicing.content.block import Shape
from slicing.content.signals import SIGNALS
from slicing.drafts.call import Call, Time
from slicing.drafts.draft import NO_KEY, Draft, output_names
from slicing.errors import InvalidType, Remedy
from slicing.options import Options
from slicing.process.function import Then
from slicing.spark.columns import COLUMN, Key, kind_of_type, nested_kind_of_type
from slicing.spark.names import DeclaredNames, Names, NamesOfHistory
from slicing.spark.query import Query
from slicing.spark.window_columns import columns_of
from slicing.stages.execution_plan import Arguments
from slicing.stages.support import WindowSupport
from slicing.stages.support_of import support_of
from slicing.state.format.result_texts import label_text
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import RECORDS
from slicing.triggers.trigger import Trigger
from slicing.windows.clock import ProcessingTime
from slicing.windows.window import Window

TIMERS_SETTING = "spark.slicing.timers"


class Resolution(Draft):
    """A call resolved against the schema of its DataFrame; each property is resolved when it is first read.

    Every property raises InvalidValue or InvalidType for names and types that are not in the schema. The order in which
    `slicing.spark.rules` reads the properties decides which error is raised first. Computed columns are added to the
    DataFrame in the order time, keys, windows, results.
    """

    def __init__(self, call: Call):
        self.given, self.window_columns = call, columns_of(call.window)
        self.call = call = self.window_columns.prepared(call)
        self._names = _names(call)
        self.streaming = self._names.streaming
        self.asked_trigger = call.options.trigger if self.streaming else ON_CLOSE
        self.clock = Time.of(call.time, call.window, self.streaming)

    @cached_property
    def trigger(self) -> Trigger:
        """The trigger, with its columns replaced by their names."""
        return self._named(self.asked_trigger)

    @cached_property
    def _trigger_that_ends(self) -> Trigger:
        """The trigger on bounded input: it fires nothing, but the records of its column may end sessions."""
        given = self.call.options.trigger
        return self._named(given) if given.ends else given

    def _named(self, trigger: Trigger) -> Trigger:
        return trigger.reading(partial(_read, self._names))

    @property
    def given_schema(self) -> T.StructType:
        """The schema of the DataFrame as it was given or declared, without computed columns."""
        return self._names.given_schema

    @property
    def by_event_time(self) -> bool:
        """Whether the input is a stream whose watermark closes windows."""
        return self.streaming and self.clock is Time.EVENT

    @property
    def asked_support(self) -> WindowSupport:
        """The support of the windows in the call, whose columns need not exist yet."""
        return support_of(self.call.window)

    @cached_property
    def time(self) -> T.StructField | None:
        """The time column, None if there is none."""
        given = self.call.time
        return None if given is None or isinstance(given, ProcessingTime) else self._names.field(given, "time column")

    @property
    def ntz(self) -> bool:
        """Whether times are timestamp_ntz."""
        return self.time is not None and isinstance(self.time.dataType, T.TimestampNTZType)

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The keys."""
        return tuple(map(self._names.key, self.call.keys))

    @cached_property
    def window(self) -> Window:
        """The windows, with their columns spelled as in the schema."""
        return self.window_columns.resolved(self._names)

    @property
    def support(self) -> WindowSupport:
        """The support of the windows."""
        return support_of(self.window)

    @cached_property
    def key_fields(self) -> tuple[Field, ...]:
        """The fields of the leaves of the keys."""
        return tuple(part.field for key in self.keys for part in key.parts()) or (NO_KEY,)

    @property
    def is_case_sensitive(self) -> bool:
        """Whether names that differ in case are different names."""
        return self._names.is_case_sensitive

    def computed(self, name: str) -> str:
        """Return the code of the expression that computes a column, "" for a column of the DataFrame."""
        return self._names.computed(name)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return tuple(key.name for key in self.keys)

    @cached_property
    def results(self) -> dict[str, Bound]:
        """The results by name; those inside structs separately, under names such as `candle.open`."""
        return {name: _named(bound, self._names) for name, bound in flat_results(self.call.named).items()}

    @cached_property
    def frame(self) -> DataFrame | None:
        """The DataFrame with all computed columns; None if there is only a declared schema."""
        _ = self.schema
        return self._names.frame

    @cached_property
    def schema(self) -> T.StructType:
        """The schema of all columns, computed ones included."""
        _ = self.time, self.keys, self.window, self.results, self.trigger, self._trigger_that_ends
        return self._names.schema

    @cached_property
    def value_columns(self) -> tuple[str, ...]:
        """The input columns of the results."""
        inputs = (column for bound in self.results.values() for column in bound.inputs)
        return tuple(dict.fromkeys(column for column in inputs if column != EVENT_TIME))

    @property
    def columns(self) -> tuple[str, ...]:
        """The value columns of a record: inputs of results, inputs of windows, then columns for late records only."""
        late = self.window_columns.late_inputs(self.given) if self.call.options.late == RECORDS else ()
        found = self.value_columns + self.support.inputs
        return found + tuple(name for name in late if name not in found)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kinds of the input columns of results, by name."""
        schema = self.schema
        plain = {column for bound in self.results.values() if not bound.nested for column in bound.inputs}
        return {
            name: kind_of_type(schema[name].dataType, name, COLUMN, self._names.code(name))
            if name in plain
            else nested_kind_of_type(schema[name].dataType, name, self._names.code(name))
            for name in self.value_columns
        }

    @cached_property
    def result_kernels(self) -> tuple[Kernel, ...]:
        """The kernel of each result."""
        return tuple(kernel(name, _resolved(bound, self.kinds, self._names)) for name, bound in self.results.items())

    @cached_property
    def _stored(self) -> tuple[tuple[Kernel, ...], Arguments]:
        arguments = tuple(
            tuple(-1 if column == EVENT_TIME else self.value_columns.index(column) for column in bound.inputs)
            for bound in self.results.values()
        )
        return self.support.kernels(self.result_kernels, arguments, self.time is not None)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the results, then additional kernels that the windows need."""
        return self._stored[0]

    @property
    def arguments(self) -> Arguments:
        """For each kernel, the positions of its input columns among the value columns; -1 is the event time."""
        return self._stored[1]

    @cached_property
    def trees(self) -> tuple[str, ...]:
        """The tree of each kernel, family by family."""
        shapes = map(self.shape.over, self.families)
        return self.support.trees(tuple(self._tree(each, shape) for shape in shapes for each in self.kernels))

    def _tree(self, each: Kernel, shape: Shape) -> str:
        return self.support.tree_of(each, shape.family, self.trigger, self.call.options.tree)

    def _is_timed(self) -> bool:
        if not self.streaming or self.call.declared is not None:
            return False
        assert self.frame is not None
        return str(self.frame.sparkSession.conf.get(TIMERS_SETTING, "false")).lower() == "true"

    @property
    def _then(self) -> Then | None:
        if self.call.then is None:
            return None
        return replace(self.call.then, zoned=not self.ntz, spans=self.window.counts and self.time is not None)

    @property
    def _options(self) -> Options:
        """The options, with the columns of the trigger replaced by their names.

        A window that holds its end closes a microsecond after it: the grace is so much longer.
        """
        if self.streaming:
            grace = self.call.options.grace + self.window.family.closed_right
            return replace(self.call.options, trigger=self.trigger, grace=grace)
        return replace(self.call.options, trigger=self._trigger_that_ends, idle=0)

    def query(self) -> Query:
        """Return the query."""
        return Query(
            frame=self.frame,
            schema=self.schema,
            keys=self.keys,
            support=self.support,
            window_columns=self.window_columns.spelled(self._names),
            time="" if self.time is None else self.time.name,
            clock=self.clock,
            ntz=self.ntz,
            shape=self.shape,
            trees=self.trees,
            columns=self.columns,
            arguments=self.arguments,
            options=self._options,
            streaming=self.streaming,
            timed=self._is_timed(),
            nesting=nesting_of(self.call.named),
            result_names=tuple(output_names(self.call.named, self.window)),
            then=self._then,
            declared=self.call.declared,
            labels=tuple(label_text(bound.label) for bound in self.results.values()),
        )


class OfHistory(Resolution):
    """The resolution of a stream's call against its history, a bounded DataFrame with the same columns."""

    def __init__(self, call: Call):
        assert call.frame is not None, "a history is a DataFrame"
        self.given, self.window_columns = call, columns_of(call.window)
        self.call, self._names = call, NamesOfHistory(call.frame)
        self.streaming, self.asked_trigger = True, call.options.trigger
        self.clock = Time.of(call.time, call.window, True)


def _names(call: Call) -> Names:
    if call.declared is not None:
        return DeclaredNames(call.frame, call.declared)
    assert call.frame is not None, "a call without a DataFrame declares its schema"
    return Names(call.frame)


def _read(names: Names, condition: str, signal: str, column: Any) -> str:
    """The name of the column of a trigger's condition. Raises InvalidValue, and InvalidType for another type."""
    found = names.field(column, f"column of `{condition}`")
    kind = found.dataType.simpleString()
    if SIGNALS[signal].kind == "boolean":
        expected, is_taken = "booleans", isinstance(found.dataType, T.BooleanType)
        remedy = f'Compare it, for example early({condition}=F.col("event") == "logout").'
    else:
        expected, is_taken = "numbers", isinstance(found.dataType, T.NumericType)
        remedy = as_number(kind, names.code(found.name))
    if not is_taken:
        raise InvalidType(f"`{condition}` takes a column of {expected}; `{found.name}` is {kind}. {remedy}")
    return found.name


def _named(bound: Bound, names: Names) -> Bound:
    """The result with its columns replaced by their names; Columns of Spark are computed."""
    columns = [c if isinstance(c, str) and c == EVENT_TIME else names.field(c, "column").name for c in bound.columns]
    condition = None if bound.condition is None else names.field(bound.condition, "column").name
    return replace(bound, columns=tuple(columns), condition=condition)


def _resolved(bound: Bound, kinds: Mapping[str, str], names: Names) -> Aggregate:
    """The aggregate for the kinds of its columns; its remedy for one that holds no numbers names that column."""
    if bound.condition is not None and kinds[bound.condition] != "boolean":
        raise InvalidType(
            f"`{bound.label}` takes a column of booleans; `{bound.condition}` is {kinds[bound.condition]}. "
            f'Compute one first, for example `withColumn("paid", {as_column(names.code(bound.condition))} > 0)`.'
        )
    of = tuple("bigint" if c == EVENT_TIME else kinds[c] for c in bound.columns)
    try:
        return bound.resolve(of)
    except InvalidType as error:
        *rule, remedy = error.parts
        if not (isinstance(remedy, Remedy) and remedy.values):
            raise
        (kind,) = remedy.values
        code = names.code(str(bound.columns[of.index(kind)]))
        raise InvalidType(*rule, replace(remedy, text=as_number(kind, code))) from None
