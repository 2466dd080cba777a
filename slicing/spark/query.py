"""A windowed aggregation resolved against a DataFrame: every name and type checked, nothing run yet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.aggregate import EVENT_TIME, Aggregate, Bound, Struct
from slicing.assembly import EAGER, EAGER_RATIO, TREES, choose
from slicing.blocks import Shape
from slicing.costs import number
from slicing.durations import show
from slicing.emission import KINDS, ON_CLOSE, WITH_DRAINED, WITH_OLD, Emission
from slicing.errors import InvalidType, InvalidValue, RowFailure, SlicingError
from slicing.families import Family
from slicing.kernel import Kernel, kernel
from slicing.kinds import Field
from slicing.lateness import COUNTS, RECORDS
from slicing.spark.columns import Key, check_time_type, kind_of_type, logical, physical, quoted
from slicing.spark.late import DELAY, HELD_DELAY, LATE, LateColumns
from slicing.trial import trial
from slicing.windows import Window

_WINDOW = "spark.timeWindow"
_EMISSION = "slicing.emission"
"""Metadata of columns of windows that go out more than once, or behind the watermark."""
_NO_KEY = Field("(all)", "boolean")


Nesting: TypeAlias = tuple[tuple[str, Any], ...]
"""The names of results in their order, each with the nesting of its parts if it is a struct, else None."""


@dataclass(frozen=True)
class Query:
    """What `aggregate` was called for. `tree` is "auto" or one of `assembly.TREES`; `grace` is in microseconds."""

    frame: DataFrame
    keys: tuple[Key, ...]
    window: Window
    time: str
    ntz: bool
    shape: Shape
    trees: tuple[str, ...]
    columns: tuple[str, ...]
    arguments: tuple[tuple[int, ...], ...]
    grace: int
    emission: Emission
    streaming: bool
    late: str
    timed: bool
    nesting: Nesting

    def records(self) -> DataFrame:
        """What the first stage reads: time, leaves of the key, values."""
        leaves = [column for key in self.keys for column, _ in key.leaves()]
        named = [leaf.alias(f"k{i}") for i, leaf in enumerate(leaves or [F.lit(True)])]
        values = [quoted(name).alias(f"v{i}") for i, name in enumerate(self.columns)]
        return self.frame.select(quoted(self.time).alias("time"), *named, *values)

    def flat_schema(self) -> str:
        """The columns that the second stage emits, all nullable: a row is a window, a count, or came late.

        `cause` is null for windows, the position in COUNTERS of what `start` counts, or LATE_CAUSE. One column more is
        all that counting costs the rows of windows. `kind` is the position in `emission.KINDS`, `o0` and so on are
        results that are replaced, where `replaces` says that there were any.
        """
        return ", ".join(map(str, self.flat_fields()))

    def flat_fields(self) -> tuple[Field, ...]:
        """The columns of `flat_schema`."""
        results = [physical(field.kind) for field in self.results()]
        more = [] if self.once else [Field("kind", "tinyint"), Field("revision", "bigint")]
        if self.with_old:
            more += [Field("replaces", "boolean"), *_numbered("o", results)]
        late = self.late_columns.fields() if self.late_columns else []
        keys = _numbered("k", [physical(field.kind) for field in self.shape.keys])
        stop = [Field("stop", "bigint")] if self.window.family.size is None else []
        return (*keys, Field("start", "bigint"), *stop, *_numbered("r", results), *more, Field("cause", "int"), *late)

    @property
    def once(self) -> bool:
        """Whether there are no columns but keys, window and results; bounded input is never emitted twice."""
        return self.emission.once or not self.streaming

    @property
    def with_old(self) -> bool:
        """Whether rows carry what they replace."""
        return self.streaming and self.emission.what == WITH_OLD

    @property
    def late_columns(self) -> LateColumns | None:
        """What late rows have besides, None if they are only counted; on bounded input nothing is late."""
        if self.late == COUNTS or not self.streaming:
            return None
        return LateColumns(self.values if self.late == RECORDS else None, self.window.family.size)

    @property
    def values(self) -> tuple[Field, ...]:
        """The columns of values and their kinds."""
        schema = self.frame.schema
        return tuple(Field(name, kind_of_type(schema[name].dataType, name, "column")) for name in self.columns)

    def results(self) -> list[Field]:
        """The fields of all results, in order."""
        return [field for kernel in self.shape.kernels for field in kernel.results]

    def finish(self, flat: DataFrame) -> DataFrame:
        """Observe the counts, then build keys, `window` and results from the flat columns."""
        counts = [
            F.coalesce(
                (F.max if counter in EXTENT else F.sum)(F.when(F.col("cause") == cause, F.col("start"))), F.lit(0)
            ).alias(counter)
            for cause, counter in enumerate((*COUNTERS, *TIMERS) if self.timed else COUNTERS)
        ]
        rows = flat.observe(self.metrics_name(), *counts)
        rows = rows.where("cause is null or cause < 0" if self.late_columns else "cause is null")
        leaves = iter([F.col(f"k{i}") for i in range(len(self.shape.keys))])
        keys = [key.rebuild(leaves) for key in self.keys]
        results = self._result_columns("r")
        if not self.once:
            marks = {_EMISSION: str(self.emission)}
            kind = F.element_at(F.array(*map(F.lit, KINDS)), F.col("kind") + 1)
            results.append(kind.alias("emission", metadata=marks))
            results.append(F.col("revision").alias("revision", metadata=marks))
        if self.with_old:
            results.append(F.when(F.col("replaces"), F.struct(*self._result_columns("o"))).alias("old"))
        return rows.select(*keys, self._window_column(), *results, *self._late_tag(keys))

    def metrics_name(self) -> str:
        """The name of the observed metrics; Spark wants them to differ between the aggregations of a query."""
        results = ", ".join(kernel.label for kernel in self.shape.kernels)
        keys = ", ".join(key.name for key in self.keys)
        return f"{METRICS}{results} in {self.window} of {self.time}" + (f" by {keys}" if keys else "")

    @property
    def _time_kind(self) -> str:
        return "timestamp_ntz" if self.ntz else "timestamp"

    def _window_column(self) -> Column:
        size = self.window.family.size
        stop = F.col("stop") if size is None else F.col("start") + F.lit(size)
        start, end = (logical(column, self._time_kind) for column in (F.col("start"), stop))
        metadata: dict[str, object] = {_WINDOW: True}
        if not self.once:
            metadata[_EMISSION] = str(self.emission)
        elif self.streaming and not self.grace:
            # With grace a window goes out behind the watermark, where Spark's operators would drop it without a word.
            # Beside late rows, which have no window, it waits until `results` has taken them away.
            name = HELD_DELAY if self.late_columns else DELAY
            metadata[name] = self.frame.schema[self.time].metadata[DELAY]
        window = F.struct(start.alias("start"), end.alias("end"))
        if self.late_columns:
            window = F.when(F.col("cause").isNull(), window)
        return window.alias("window", metadata=metadata)

    def _late_tag(self, keys: list[Column]) -> list[Column]:
        """The column that tags late rows, if they are put out. A late record has each of its columns once."""
        if self.late_columns is None:
            return []
        record = {key.name: column for key, column in zip(self.keys, keys, strict=True)}
        record.setdefault(self.time, logical(F.col("time"), self._time_kind).alias(self.time))
        for i, field in enumerate(self.late_columns.values or ()):
            record.setdefault(field.name, logical(F.col(f"v{i}"), field.kind).alias(field.name))
        return [self.late_columns.tag(self._time_kind, F.struct(*record.values()))]

    def _result_columns(self, prefix: str) -> list[Column]:
        columns, at = [], 0
        for each in self.shape.kernels:
            fields = [
                logical(F.col(f"{prefix}{at + i}"), field.kind).alias(field.name)
                for i, field in enumerate(each.results)
            ]
            at += len(each.results)
            single = len(fields) == 1 and not isinstance(each.aggregate.init(), tuple)
            lowered = each.aggregate.lower is not None and len(fields) == 1
            columns.append(fields[0] if single or lowered else F.struct(*fields))
        return list(_nested(self.nesting, iter(columns)))


METRICS = "slicing: "
"""How the names of all observed metrics begin."""

REFUSED = ("late", "late_for_some", "no_time", "no_window")
"""Refused records by cause, as the observed metrics name them."""

IMPLAUSIBLE = "implausible"
"""Records whose time `slicing.spark.plausible` made null; observed there, under names that begin so."""

EXTENT = ("open_windows", "slices")
"""The size of the state. Buckets share their slices, so the metric is that of the bucket with most."""

COUNTERS = (*REFUSED, "partials_read", "partials_written", "results", *EXTENT)
"""All observed metrics; what a stream reads and writes is counted in partials of its state."""

PREAGGREGATE = "micros_preaggregate"
TIMERS = (
    PREAGGREGATE,
    *(f"micros_{stage}" for stage in ("decode", "read", "assemble", "combine", "encode", "write", "output")),
)
"""More observed metrics where a stream is timed: microseconds of the stages in Python, see `slicing.spark.timers`."""
_TIMED = "spark.slicing.timers"


def resolve(
    frame: DataFrame,
    keys: tuple[str, ...],
    window: Window,
    time: str,
    named: Mapping[str, Bound | Struct],
    tree: str,
    grace: int,
    emission: Emission,
    late: str,
) -> Query:
    """Check everything that the DataFrame's schema decides. Raises InvalidValue and InvalidType."""
    streaming = frame.isStreaming
    if streaming:
        _check_source(frame)
    ntz = _check_time(frame, time, streaming)
    resolved = tuple(Key(name, _field(frame, name, "key column").dataType) for name in keys)
    _check_names(keys, named, emission if streaming else ON_CLOSE, late)
    frame, results = _computed(frame, _flat(named))
    fields = tuple(field for key in resolved for _, field in key.leaves()) or (_NO_KEY,)
    columns = tuple(dict.fromkeys(c for bound in results.values() for c in bound.inputs if c != EVENT_TIME))
    kinds = {name: kind_of_type(_field(frame, name, "column").dataType, name, "column") for name in columns}
    kernels = tuple(kernel(name, _resolved(bound, kinds)) for name, bound in results.items())
    shape = Shape(window.family, fields, kernels)
    arguments = tuple(
        tuple(-1 if column == EVENT_TIME else columns.index(column) for column in bound.inputs)
        for bound in results.values()
    )
    if late == RECORDS:
        _check_columns(columns)
    trees = tuple(_tree(each, shape, tree) for each in kernels)
    for name, bound in results.items():
        if isinstance(bound.source, Aggregate) or bound.own:
            trial(kernels[list(results).index(name)], [kinds.get(column, "bigint") for column in bound.columns])
    if streaming:
        _check_short(window, grace)
        _check_limited(window, results)
        _check_emission(emission, grace, kernels)
    timed = streaming and str(frame.sparkSession.conf.get(_TIMED, "false")).lower() == "true"
    options = grace, emission, streaming, late, timed, _nesting(named)
    return Query(frame, resolved, window, time, ntz, shape, trees, columns, arguments, *options)


def _computed(frame: DataFrame, results: dict[str, Bound]) -> tuple[DataFrame, dict[str, Bound]]:
    """Conditions that are Columns as columns with their texts as names, the same ones once."""
    for name, bound in results.items():
        if not isinstance(bound.condition, (str, type(None))):
            text = str(bound.condition).removeprefix("Column<'").removesuffix("'>")
            if text not in frame.columns:
                frame = frame.withColumn(text, bound.condition)
            results[name] = replace(bound, condition=text)
    return frame, results


def _flat(named: Mapping[str, Bound | Struct], within: str = "") -> dict[str, Bound]:
    """The results with those of structs each for itself, under names such as `candle.open`."""
    found: dict[str, Bound] = {}
    for name, result in named.items():
        more = _flat(result.results, f"{within}{name}.") if isinstance(result, Struct) else {within + name: result}
        if twice := found.keys() & more.keys():
            raise InvalidValue(f"two results are called `{min(twice)}`. Rename one.")
        found |= more
    return found


def _nesting(named: Mapping[str, Bound | Struct]) -> Nesting:
    return tuple((name, _nesting(r.results) if isinstance(r, Struct) else None) for name, r in named.items())


def _nested(nesting: Nesting, columns: Iterator[Column]) -> Iterator[Column]:
    """One column for each result, those of a struct together."""
    for name, parts in nesting:
        yield (F.struct(*_nested(parts, columns)) if parts else next(columns)).alias(name)


def _numbered(prefix: str, kinds: list[str]) -> list[Field]:
    return [Field(f"{prefix}{i}", kind) for i, kind in enumerate(kinds)]


def _resolved(bound: Bound, kinds: Mapping[str, str]) -> Aggregate:
    if bound.condition is not None and kinds[bound.condition] != "boolean":
        raise InvalidType(
            f"`{bound.label}` takes a column of booleans; `{bound.condition}` is {kinds[bound.condition]}. "
            f'Compute one first, for example `withColumn("paid", F.col("{bound.condition}") > 0)`.'
        )
    return bound.resolve(tuple("bigint" if c == EVENT_TIME else kinds[c] for c in bound.columns))


def _field(frame: DataFrame, name: str, what: str) -> T.StructField:
    if name not in frame.columns:
        raise InvalidValue(f"{what} `{name}` does not exist; the columns are {', '.join(frame.columns)}.")
    if frame.columns.count(name) > 1:
        raise InvalidValue(
            f"{what} `{name}` is ambiguous: {frame.columns.count(name)} columns have this name. Rename one."
        )
    return frame.schema[name]


def _check_columns(columns: tuple[str, ...]) -> None:
    if LATE in map(str.casefold, columns):
        raise InvalidValue(
            f'with `.late("records")` a column cannot be called `{LATE}`, as late records have a column of that name. '
            "Rename it."
        )


def _check_names(keys: tuple[str, ...], results: Mapping[str, Bound | Struct], emission: Emission, late: str) -> None:
    more = () if emission.once else ("emission", "revision", *(("old",) if emission.what == WITH_OLD else ()))
    reserved = ("window", *more, *(() if late == COUNTS else (LATE,)))
    taken = {*reserved, *map(str.casefold, keys)}
    for name in keys:
        if name.casefold() in more:
            raise InvalidValue(
                f"a key column cannot be called `{name}`: {emission} adds a column of that name. Rename it."
            )
    for name in results:
        if name.casefold() in taken:
            raise InvalidValue(f"result name `{name}` collides with a column of the output. Choose another name.")
        taken.add(name.casefold())
    if len(set(map(str.casefold, keys))) < len(keys):
        raise InvalidValue(f"key columns must differ; got {', '.join(keys)}.")
    for name in reserved:
        if name in map(str.casefold, keys):
            raise InvalidValue(
                f"a key column cannot be called `{name}`, as the output has a column of that name. Rename it."
            )


def _tree(each: Kernel, shape: Shape, wanted: str) -> str:
    if wanted == EAGER or each.aggregate.eager:
        return EAGER
    if wanted in TREES and each.aggregate.combine is None:
        raise InvalidValue(
            f"a tree needs `combine`, which `{each.label}` does not have. Give it one, or say that it is eager: "
            "`Aggregate(..., eager=True)`."
        )
    if each.aggregate.combine is None:
        _check_ratio(each.label, shape.slicing)
    if wanted == "two_layer" and each.aggregate.invert is None:
        raise InvalidValue(
            f"the two-layer tree needs an exact `invert`, which `{each.label}` does not have. "
            'Use `.assemble("auto")`, which chooses a tree for each aggregate.'
        )
    best = choose(each, shape.slicing)
    return best if wanted == "auto" or best in (EAGER, "recompute") else wanted


def _check_ratio(name: str, slicing: Family) -> None:
    ratio = slicing.ratio
    if ratio > EAGER_RATIO:
        pages = math.ceil(ratio)
        raise InvalidValue(
            f"`{name}` has no `combine`, so that every record is folded into every window that covers it, "
            f"R = {number(ratio)}: {pages:,} pages of windows are read and {pages:,} written for a record. "
            f"Above R = {EAGER_RATIO} that has to be asked for. Give it a `combine`, with which a record costs one "
            "write at any R, or say `Aggregate(..., eager=True)`."
        )


def _check_time(frame: DataFrame, time: str, streaming: bool) -> bool:
    """Whether the time column is timestamp_ntz."""
    field = _field(frame, time, "time column")
    check_time_type(time, field.dataType)
    ntz = isinstance(field.dataType, T.TimestampNTZType)
    if streaming and DELAY not in field.metadata:
        others = [f.name for f in frame.schema.fields if DELAY in (f.metadata or {})]
        found = (
            f"the watermark is on `{others[0]}`" if others else "there is none, or an expression on the column lost it"
        )
        cast = f"Cast `{time}` to timestamp, the only type that takes one, then call" if ntz else "Call"
        raise InvalidValue(
            f"a stream needs a watermark on the time column `{time}`; {found}. "
            f'{cast} `.withWatermark("{time}", "10 minutes")` last before `group_by`.'
        )
    return ntz


def _check_limited(window: Window, results: Mapping[str, Bound]) -> None:
    """Refuse what keeps its records without end, where a stream holds several windows at once."""
    for name, bound in results.items():
        if bound.unlimited and window.family.ratio > 1:
            raise InvalidValue(
                f"`{name}` is {bound.label}, which keeps {bound.unlimited} of a window; on a stream whose windows "
                f"overlap, here R = {number(window.family.ratio)}, that has to be bounded. Say how many a "
                "window may have, for example `limit=10_000`: more are an error."
            )


def _check_source(frame: DataFrame) -> None:
    for field in frame.schema.fields:
        if emission := (field.metadata or {}).get(_EMISSION):
            raise InvalidValue(
                f"`{field.name}` comes from windows with {emission}, and windows over them would count some twice or "
                "not at all. Let the first windows go out with on_close(), without grace."
            )


def _check_emission(emission: Emission, grace: int, kernels: tuple[Kernel, ...]) -> None:
    if emission.corrects and not grace:
        raise InvalidValue(
            f"{emission} needs time in which late records are taken, and there is no grace. "
            'Say how long, for example `.grace("10 minutes")`.'
        )
    if emission.what == WITH_DRAINED:
        for each in kernels:
            try:
                each.results_to_arrow(each.spread(1), each.no_dictionary)
            except (SlicingError, RowFailure) as error:
                raise InvalidValue(
                    f"{emission} puts out the result of no records, which `{each.label}` does not have: "
                    f"{getattr(error, 'cause', error)}. Let `lower` return None for `init()`."
                ) from error


def _check_short(window: Window, grace: int) -> None:
    rule = "must be at least 1 ms on a stream, whose watermark counts milliseconds; got"
    if window.family.shortest < 1000:
        raise InvalidValue(f"edges of windows {rule} {show(window.family.shortest)} for {window}.")
    if 0 < grace < 1000:
        raise InvalidValue(f"`grace` {rule} {show(grace)}.")
