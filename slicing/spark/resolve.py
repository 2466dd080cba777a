"""A windowed aggregation resolved against a DataFrame: every name and type checked, nothing run yet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from slicing.aggregates.aggregate import EVENT_TIME, Aggregate, Bound, Struct
from slicing.aggregates.dry_run import trial
from slicing.aggregates.fields import Field
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import EAGER, EAGER_RATIO, TREES, choose
from slicing.content.block import Shape
from slicing.errors import InvalidType, InvalidValue, RowFailure, SlicingError
from slicing.explain.costs import number
from slicing.spark.columns import Key, check_time_type, kind_of_type
from slicing.spark.columns_of import columns_of
from slicing.spark.declared import Declared
from slicing.spark.late import DELAY, LATE
from slicing.spark.names import DeclaredNames, Names
from slicing.spark.query import EMISSION, Nesting, Query, Time
from slicing.stages.support_of import support_of
from slicing.triggers.emission import CHANGED, ON_CLOSE, WITH_DRAINED, WITH_OLD, Emission
from slicing.triggers.lateness import COUNTS, RECORDS
from slicing.windows.clock import ProcessingTime
from slicing.windows.families.family import Family
from slicing.windows.families.several import end_together
from slicing.windows.time.durations import show
from slicing.windows.window import Window

_NO_KEY = Field("(all)", "boolean")
_TIMED = "spark.slicing.timers"


def check_defined(
    keys: tuple[Any, ...],
    window: Window,
    time: Any,
    named: Mapping[str, Bound | Struct],
    tree: str,
    grace: int,
    emission: Emission,
) -> None:
    """Check what needs no DataFrame. Raises InvalidValue.

    What holds on a stream alone is left out, unless there is no other way: a definition is of bounded input too.
    """
    results = _flat(named)
    _check_either(window, isinstance(time, ProcessingTime), tree, grace, emission)
    names = tuple(key for key in keys if isinstance(key, str) and "." not in key)
    _check_names(names, output_names(named, window), window, ON_CLOSE, COUNTS)
    if time is None:
        _check_untimed(results)
    untyped = {name: bound for name, bound in results.items() if isinstance(bound.source, Aggregate)}
    kernels = tuple(kernel(name, bound.resolve(())) for name, bound in untyped.items())
    shape, families = Shape(window.family, (_NO_KEY,), kernels), window.family.families
    _check_eager(window, kernels, tree)
    trees = support_of(window).trees(tuple(_tree(each, shape.over(one), tree) for one in families for each in kernels))
    if len(families) > 1 and kernels:
        _check_several(window, families, kernels, trees, ON_CLOSE)


def _check_either(window: Window, by_clock: bool, tree: str, grace: int, emission: Emission) -> None:
    """Refuse what windows support neither on a stream nor on bounded input; by the clock there are streams only."""
    support = support_of(window)
    if by_clock:
        support.check(tree, by_clock, emission, True)
        _check_clock(Time.CLOCK, True, grace, emission)
        return
    with suppress(InvalidValue):
        support.check(tree, by_clock, emission, True)
        return
    support.check(tree, by_clock, ON_CLOSE, False)


def resolve(
    frame: DataFrame | None,
    keys: tuple[Any, ...],
    window: Window,
    time: Any,
    named: Mapping[str, Bound | Struct],
    tree: str,
    grace: int,
    emission: Emission,
    late: str,
    declared: Declared | None = None,
) -> Query:
    """Check everything that the schema decides, that of the DataFrame or a declared one, which needs no DataFrame.

    Raises InvalidValue and InvalidType.
    """
    names = _names(frame, declared)
    streaming = names.streaming
    if streaming:
        _check_source(names.given_schema)
    known = Time.of(time, window, streaming)
    timed_by = None if time is None or isinstance(time, ProcessingTime) else names.field(time, "time column")
    ntz = timed_by is not None and _check_time(names.schema, timed_by, streaming and known is Time.EVENT)
    support_of(window).check(tree, known is Time.CLOCK, emission if streaming else ON_CLOSE, streaming)
    _check_clock(known, streaming, grace, emission)
    resolved = tuple(map(names.key, keys))
    window = columns_of(window).resolved(names)
    support = support_of(window)
    outputs = tuple(key.name for key in resolved)
    _check_names(outputs, output_names(named, window), window, emission if streaming else ON_CLOSE, late)
    results = {name: _named(bound, names) for name, bound in _flat(named).items()}
    schema = names.schema
    fields = tuple(field for key in resolved for _, field in key.leaves()) or (_NO_KEY,)
    columns = tuple(dict.fromkeys(c for bound in results.values() for c in bound.inputs if c != EVENT_TIME))
    kinds = {name: kind_of_type(schema[name].dataType, name, "column") for name in columns}
    kernels = tuple(kernel(name, _resolved(bound, kinds)) for name, bound in results.items())
    arguments = tuple(
        tuple(-1 if column == EVENT_TIME else columns.index(column) for column in bound.inputs)
        for bound in results.values()
    )
    if time is None:
        _check_untimed(results)
    columns += support.inputs
    kernels, arguments = support.kernels(kernels, arguments, timed_by is not None)
    shape = Shape(window.family, fields, kernels)
    if late == RECORDS:
        _check_columns(columns, resolved)
    _check_eager(window, kernels, tree)
    families = window.family.families
    trees = support.trees(tuple(_tree(each, shape.over(family), tree) for family in families for each in kernels))
    if len(families) > 1:
        _check_several(window, families, kernels, trees, emission if streaming else ON_CLOSE)
    for name, bound in results.items():
        if isinstance(bound.source, Aggregate) or bound.own:
            trial(kernels[list(results).index(name)], [kinds.get(column, "bigint") for column in bound.columns])
    if streaming and window.by_time:
        _check_short(window, grace)
    if streaming:
        _check_limited(window, results)
        _check_emission(emission, grace, kernels)
    timed = streaming and declared is None and _is_timed(names.given)
    options = grace, emission, streaming, late, timed, _nesting(named), declared
    return Query(
        names.frame,
        schema,
        resolved,
        support,
        columns_of(window),
        "" if timed_by is None else timed_by.name,
        known,
        ntz,
        shape,
        trees,
        columns,
        arguments,
        *options,
    )


def _names(frame: DataFrame | None, declared: Declared | None) -> Names:
    if declared is not None:
        return DeclaredNames(frame, declared)
    assert frame is not None, "who has none declares its schema"
    return Names(frame)


def _is_timed(frame: DataFrame) -> bool:
    return str(frame.sparkSession.conf.get(_TIMED, "false")).lower() == "true"


def _named(bound: Bound, names: Names) -> Bound:
    """The same of columns by name, with those of Spark's Columns computed."""
    columns = [c if isinstance(c, str) and c == EVENT_TIME else names.field(c, "column").name for c in bound.columns]
    condition = None if bound.condition is None else names.field(bound.condition, "column").name
    return replace(bound, columns=tuple(columns), condition=condition)


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


def _resolved(bound: Bound, kinds: Mapping[str, str]) -> Aggregate:
    if bound.condition is not None and kinds[bound.condition] != "boolean":
        raise InvalidType(
            f"`{bound.label}` takes a column of booleans; `{bound.condition}` is {kinds[bound.condition]}. "
            f'Compute one first, for example `withColumn("paid", F.col("{bound.condition}") > 0)`.'
        )
    return bound.resolve(tuple("bigint" if c == EVENT_TIME else kinds[c] for c in bound.columns))


def _check_untimed(results: Mapping[str, Bound]) -> None:
    for name, bound in results.items():
        if EVENT_TIME in bound.inputs:
            raise InvalidValue(
                f"`{name}` is {bound.label}, which goes by the event time, and no time is given. "
                'Name its column, for example time="ts".'
            )


def _check_columns(columns: tuple[str, ...], keys: tuple[Key, ...]) -> None:
    for key in keys:
        if key.name != key.source and key.name in columns:
            raise InvalidValue(
                f'with `.late("records")` the key `{key.name}`, computed as `{key.source}`, and the column '
                f"`{key.name}` would share a name in late records. Give the key another one with `.alias(...)`."
            )
    if LATE in map(str.casefold, columns):
        raise InvalidValue(
            f'with `.late("records")` a column cannot be called `{LATE}`, as late records have a column of that name. '
            "Rename it."
        )


def output_names(named: Mapping[str, object], window: Window) -> list[str]:
    """The columns of results, of windows side by side one for each."""
    return [f"{name}_{each}" for each in window.names or () for name in named] if window.wide else list(named)


def _check_several(
    window: Window, families: Sequence[Family], kernels: tuple[Kernel, ...], trees: tuple[str, ...], emission: Emission
) -> None:
    """Refuse what several windows of one call cannot do together."""
    if EAGER in trees:
        name = kernels[trees.index(EAGER) % len(kernels)].label
        raise InvalidValue(
            f"several windows of one call share slices, and `{name}` is eager: it has none. Give it a `combine`, or "
            "a call of its own for each window."
        )
    if emission.which == CHANGED and not end_together(families):
        raise InvalidValue(
            f"{emission} compares a window with the one before, for which several windows of one call must end "
            f"together; got {window}. Give them the same `advance`, or a call each."
        )


def _check_names(keys: tuple[str, ...], results: Sequence[str], window: Window, emission: Emission, late: str) -> None:
    more = () if emission.once else ("emission", "revision", *(("old",) if emission.what == WITH_OLD else ()))
    reserved = (*window.columns, *more, *(() if late == COUNTS else (LATE,)))
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


def _check_eager(window: Window, kernels: Sequence[Kernel], wanted: str) -> None:
    """Refuse what has no partials where there must be some."""
    eager = [k.label for k in kernels if wanted == EAGER or k.aggregate.eager or k.aggregate.combine is None]
    if window.keeps and eager:
        raise InvalidValue(
            f"{window} {window.keeps}, and `{eager[0]}` is eager: it has no partials. Give it a `combine`."
        )


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


def _check_time(schema: T.StructType, field: T.StructField, streaming: bool) -> bool:
    """Whether the time column is timestamp_ntz."""
    time = field.name
    check_time_type(time, field.dataType)
    ntz = isinstance(field.dataType, T.TimestampNTZType)
    if streaming and DELAY not in field.metadata:
        others = [f.name for f in schema.fields if DELAY in (f.metadata or {})]
        found = (
            f"the watermark is on `{others[0]}`" if others else "there is none, or an expression on the column lost it"
        )
        cast = f"Cast `{time}` to timestamp, the only type that takes one, then call" if ntz else "Call"
        raise InvalidValue(
            f"a stream needs a watermark on the time column `{time}`; {found}. "
            f'{cast} `.withWatermark("{time}", "10 minutes")` last before `group_by`.'
        )
    return ntz


def _check_clock(time: Time, streaming: bool, grace: int, emission: Emission) -> None:
    """Refuse what windows by the clock, and those that time does not close, cannot do."""
    if time is Time.CLOCK and not streaming:
        raise InvalidValue(
            "`processing_time()` is for streams: bounded input is read at once, and its clock says nothing about its "
            'records. Name a column, for example time="ts".'
        )
    if time is Time.EVENT or not streaming:
        return
    if grace:
        raise InvalidValue(
            f"`grace` waits for late records, and nothing is late {time.value}; got {show(grace)}. Leave it out."
        )
    if emission.corrects:
        raise InvalidValue(f"{emission} is about late records, and nothing is late {time.value}. Leave it out.")


def _check_limited(window: Window, results: Mapping[str, Bound]) -> None:
    """Refuse what keeps its records without end, where a stream holds several windows at once, or one for ever."""
    for name, bound in results.items():
        if bound.unlimited and not window.closes:
            raise InvalidValue(
                f"`{name}` is {bound.label}, which keeps {bound.unlimited} of a window; on a stream in {window}, which "
                "never closes, that has to be bounded. Say how many a key may have, for example `limit=10_000`: more "
                "are an error."
            )
        if bound.unlimited and window.by_time and window.family.ratio > 1:
            raise InvalidValue(
                f"`{name}` is {bound.label}, which keeps {bound.unlimited} of a window; on a stream whose windows "
                f"overlap, here R = {number(window.family.ratio)}, that has to be bounded. Say how many a "
                "window may have, for example `limit=10_000`: more are an error."
            )


def _check_source(schema: T.StructType) -> None:
    for field in schema.fields:
        if emission := (field.metadata or {}).get(EMISSION):
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
    if window.family.shortest < window.finest:
        raise InvalidValue(f"edges of windows {rule} {show(window.family.shortest)} for {window}.")
    if 0 < grace < 1000:
        raise InvalidValue(f"`grace` {rule} {show(grace)}.")
