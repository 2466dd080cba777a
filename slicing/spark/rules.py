"""The rules of the call of a windowed aggregation, `RULES` in the order of application, and its resolution by them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import TypeAlias

from slicing.aggregates.aggregate import EVENT_TIME, Bound
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.records import KeptRecords
from slicing.assembly.choice import EAGER, EAGER_RATIO, TREES
from slicing.errors import InvalidValue
from slicing.spark.call import Call
from slicing.spark.columns import check_time_type
from slicing.spark.late import LATE, TIMES
from slicing.spark.query import EMISSION, Query, Time
from slicing.spark.resolution import Draft, OfHistory, Resolution
from slicing.spark.watermarks import check_watermark
from slicing.stages.support_of import support_of
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import COUNTS, RECORDS
from slicing.triggers.trigger import FIRING, Trigger
from slicing.windows.clock import ProcessingTime
from slicing.windows.families.family import Family
from slicing.windows.time.durations import show

# --- input and time -------------------------------------------------------------------------------------------------


def input_is_final(asked: Resolution) -> None:
    """A stream must not aggregate windows that may be emitted more than once or after the watermark."""
    for field in asked.given_schema.fields if asked.streaming else ():
        if emission := (field.metadata or {}).get(EMISSION):
            raise InvalidValue(
                f"`{field.name}` comes from windows with {emission}, and windows over them would count some twice or "
                "not at all. Emit the first windows with on_close(), without grace."
            )


def time_is_a_timestamp(asked: Resolution) -> None:
    """The time column must exist and be a timestamp."""
    if asked.time is not None:
        check_time_type(asked.time.name, asked.time.dataType, asked.computed(asked.time.name))


def stream_has_a_watermark(asked: Resolution) -> None:
    """A stream in event time must have its watermark on the time column."""
    if asked.time is not None and asked.by_event_time and asked.given.frame is not None:
        check_watermark(asked.given.frame, asked.given_schema, asked.time, asked.ntz)


def windows_take_the_options(asked: Resolution) -> None:
    """The windows must support the tree and the trigger of the call."""
    trigger = asked.call.options.trigger if asked.call.options.trigger.ends else asked.trigger
    asked.asked_support.check(asked.call.options.tree, asked.clock is Time.CLOCK, trigger, asked.streaming)


def windows_take_functions_of_records(asked: Resolution) -> None:
    """Functions of records or of results must suit the windows, the tree and the trigger of the call."""
    call = asked.call
    if any(isinstance(bound, Bound) and bound.names for bound in call.named.values()):
        asked.asked_support.check_process(call.options.tree, asked.trigger, asked.streaming)
    if call.then is not None:
        asked.asked_support.check_then(asked.trigger, call.options.late, asked.streaming)


def windows_take_the_options_somewhere(asked: Draft) -> None:
    """The windows must support the tree and the trigger of the call, either on a stream or on bounded input."""
    call, support = asked.call, support_of(asked.call.window)
    if isinstance(call.time, ProcessingTime):  # processing time exists only on streams
        support.check(call.options.tree, True, call.options.trigger, True)
        if call.options.grace:
            raise InvalidValue(_no_grace(Time.CLOCK, call.options.grace))
        if call.options.trigger.fires_late:
            raise InvalidValue(_no_late_firings(Time.CLOCK, call.options.trigger))
        return
    with suppress(InvalidValue):
        support.check(call.options.tree, False, call.options.trigger, True)
        return
    support.check(call.options.tree, False, ON_CLOSE, False)


def state_of_windows_goes_with_their_records(asked: Resolution) -> None:
    """A function may have a `window_state` only if the trigger's firings alone decide when records are purged."""
    trigger = asked.trigger
    if not (asked.streaming and trigger.purges and not trigger.drops("early")):
        return
    kept = (each.aggregate for each in asked.result_kernels)
    functions = [each.call for each in kept if isinstance(each, KeptRecords)]
    if any(each.states.window for each in (*functions, *([asked.call.then] if asked.call.then else []))):
        raise InvalidValue(
            f"`window_state` is cleared when the records of a window are dropped, and {trigger} decides that for each "
            "window. Use early(..., purge=True), or keep what the function needs in `key_state`."
        )


def clock_is_of_a_stream(asked: Resolution) -> None:
    """Processing time is for streams only."""
    if asked.clock is Time.CLOCK and not asked.streaming:
        raise InvalidValue(
            "`processing_time()` is for streams: bounded input is read at once, and its clock says nothing about its "
            'records. Name a column, for example time="ts".'
        )


def grace_is_by_event_time(asked: Resolution) -> None:
    """On a stream, a grace requires event time."""
    if asked.streaming and not asked.by_event_time and asked.call.options.grace:
        raise InvalidValue(_no_grace(asked.clock, asked.call.options.grace))


def _no_grace(clock: Time, grace: int) -> str:
    return f"`grace` waits for late records, and nothing is late {clock.value}; got {show(grace)}. Leave it out."


def retained_are_slices(asked: Resolution) -> None:
    """A stream may retain records after their windows only if its state consists of slices."""
    if asked.streaming and asked.call.options.retain:
        asked.support.check_retain(asked.trees)


def idleness_is_of_event_time(asked: Resolution) -> None:
    """On a stream, `idle` requires event time."""
    if asked.streaming and not asked.by_event_time and asked.call.options.idle:
        raise InvalidValue(
            f"`idle` closes windows while no record moves the watermark, and there is none {asked.clock.value}; got "
            f"{show(asked.call.options.idle)}. Leave it out."
        )


def late_firings_are_by_event_time(asked: Resolution) -> None:
    """On a stream, late firings require event time."""
    if asked.streaming and not asked.by_event_time and asked.trigger.fires_late:
        raise InvalidValue(_no_late_firings(asked.clock, asked.trigger))


def _no_late_firings(clock: Time, trigger: Trigger) -> str:
    return f"{trigger} is about late records, and nothing is late {clock.value}. Leave it out."


# --- names ----------------------------------------------------------------------------------------------------------


def keys_and_windows_name_columns(asked: Resolution) -> None:
    """The columns that keys and windows name must exist."""
    _ = asked.keys, asked.window


Fold: TypeAlias = Callable[[str], str]


def _first(asked: Resolution, found: Callable[[Fold], str | None]) -> str | None:
    """Return the first name that is not free, by Spark's rule for names that differ in case only."""
    name = found(str.casefold)
    return found(str) if name is not None and asked.is_case_sensitive else name


def _among(names: Iterable[str], taken: Iterable[str]) -> Callable[[Fold], str | None]:
    def found(fold: Fold) -> str | None:
        others = set(map(fold, taken))
        return next((name for name in names if fold(name) in others), None)

    return found


def _repeated(names: Collection[str]) -> Callable[[Fold], str | None]:
    def found(fold: Fold) -> str | None:
        counts = Counter(map(fold, names))
        return next((name for name in names if counts[fold(name)] > 1), None)

    return found


def _reserved(asked: Resolution) -> tuple[str, ...]:
    """The names of output columns that are neither keys nor results.

    `results` and `late_partials` know columns by their names alone, as rows may come from a table. So with late rows
    the time columns of all windows and the columns of all triggers that fire again are reserved.
    """
    found = (*asked.window.columns, *asked.trigger.columns)
    if asked.call.options.late == COUNTS:
        return found
    return (*found, LATE, *TIMES, *(FIRING if asked.trigger.columns else ()))


def _by_late(asked: Resolution) -> str:
    return "" if asked.call.options.late == COUNTS else ", or one that `.late(...)` reserves"


def keys_are_not_columns_of_the_emission(asked: Resolution) -> None:
    """A key must not have the name of a column that the trigger adds."""
    if name := _first(asked, _among(asked.key_names, asked.trigger.columns)):
        raise InvalidValue(
            f"a key column cannot be called `{name}`: {asked.trigger} adds a column of that name. Rename it."
        )


def results_differ_from_other_columns(asked: Resolution) -> None:
    """A result must not have the name of another output column."""
    others = _among(asked.result_names, (*_reserved(asked), *asked.key_names))
    if name := _first(asked, others) or _first(asked, _repeated(asked.result_names)):
        raise InvalidValue(
            f"result name `{name}` collides with a column of the output{_by_late(asked)}. Choose another name."
        )


def keys_differ(asked: Resolution) -> None:
    """No two keys may have the same name."""
    if _first(asked, _repeated(asked.key_names)):
        raise InvalidValue(f"key columns must differ; got {', '.join(asked.key_names)}.")


def keys_differ_from_columns_of_windows(asked: Resolution) -> None:
    """A key must not have the name of a column of windows or of late rows."""
    if name := _first(asked, _among(asked.key_names, _reserved(asked))):
        raise InvalidValue(
            f"a key column cannot be called `{name}`: it is a column of the output{_by_late(asked)}. Rename it."
        )


# --- results --------------------------------------------------------------------------------------------------------


def results_name_columns(asked: Resolution) -> None:
    """The input columns of results must exist, and no two results may have the same name."""
    _ = asked.results


def keys_are_atomic(asked: Resolution) -> None:
    """Keys must have atomic types, or be structs of atomic types."""
    _ = asked.key_fields


def results_take_their_columns(asked: Resolution) -> None:
    """The results must support the types of their input columns."""
    _ = asked.result_kernels


def times_of_results_are_given(asked: Resolution) -> None:
    """Without a time column, no result may use the event time."""
    for name, bound in asked.results.items() if asked.call.time is None else ():
        if EVENT_TIME in bound.inputs:
            raise InvalidValue(
                f"`{name}` is {bound.label}, which goes by the event time, and no time is given. "
                'Name its column, for example time="ts".'
            )


def keys_of_late_records_differ_from_their_columns(asked: Resolution) -> None:
    """A late record contains its input columns, so a computed key must not have the name of one of them."""
    for key in asked.keys if asked.call.options.late == RECORDS else ():
        if key.name != key.source and key.name in asked.columns:
            raise InvalidValue(
                f'with `.late("records")` the key `{key.name}`, computed as `{key.source}`, and the column '
                f"`{key.name}` would share a name in late records. Give the key another one with `.alias(...)`."
            )


def columns_of_late_records_differ_from_their_tag(asked: Resolution) -> None:
    """No input column of a late record may have the name of the tag column."""
    if asked.call.options.late == RECORDS and _first(asked, _among((LATE,), asked.columns)):
        raise InvalidValue(
            f'with `.late("records")` a column cannot be called `{LATE}`, as late records have a column of that name. '
            "Rename it."
        )


# --- trees ----------------------------------------------------------------------------------------------------------


def windows_that_keep_partials_have_some(asked: Resolution) -> None:
    """Windows that store partials must not have eager results."""
    wanted = asked.call.options.tree
    eager = [k.label for k in asked.kernels if wanted == EAGER or k.aggregate.eager or k.aggregate.combine is None]
    if asked.window.keeps and eager:
        raise InvalidValue(
            f"{asked.window} {asked.window.keeps}, and `{eager[0]}` is eager: it has no partials. Give it a `combine`."
        )


def trees_suit_their_results(asked: Resolution) -> None:
    """Each result must provide the functions that its tree needs; see `OF_TREES`."""
    for shape in map(asked.shape.over, asked.families):
        for each in asked.kernels:
            if asked.call.options.tree != EAGER and not each.aggregate.eager:
                for rule in OF_TREES:
                    rule(each, shape.family, asked.call.options.tree)


def tree_has_combine(each: Kernel, family: Family, wanted: str) -> None:
    """An explicitly chosen tree needs `combine`."""
    if wanted in TREES and each.aggregate.combine is None:
        raise InvalidValue(
            f"a tree needs `combine`, which `{each.label}` does not have. Give it one, or say that it is eager: "
            "`Aggregate(..., eager=True)`."
        )


def many_windows_of_a_record_are_asked_for(each: Kernel, family: Family, wanted: str) -> None:
    """Without `combine`, more than `EAGER_RATIO` windows per record require an explicit `eager=True`."""
    if each.aggregate.combine is None and (ratio := family.ratio) > EAGER_RATIO:
        from slicing.drawing import number

        pages = math.ceil(ratio)
        raise InvalidValue(
            f"`{each.label}` has no `combine`, so that every record is folded into every window that covers it, "
            f"R = {number(ratio)}: {pages:,} pages of windows are read and {pages:,} written for a record. "
            f"Above R = {EAGER_RATIO} that has to be asked for. Give it a `combine`, with which a record costs one "
            "write at any R, or say `Aggregate(..., eager=True)`."
        )


def two_layers_have_invert(each: Kernel, family: Family, wanted: str) -> None:
    """The two-layer tree needs an exact `invert`."""
    if wanted == "two_layer" and each.aggregate.invert is None:
        raise InvalidValue(
            f"the two-layer tree needs an exact `invert`, which `{each.label}` does not have. "
            'Use `.assemble("auto")`, which chooses a tree for each aggregate.'
        )


def functions_run(asked: Resolution) -> None:
    """Functions of users must run on a generated record of the columns' types."""
    from slicing.laws import dry_run

    for bound, each in zip(asked.results.values(), asked.result_kernels, strict=True):
        kinds = [asked.kinds.get(column, "bigint") for column in bound.columns]
        nullable = [column != EVENT_TIME and asked.schema[column].nullable for column in bound.columns]
        for tried in bound.tried(each, kinds, nullable):
            dry_run(*tried)


# --- streams --------------------------------------------------------------------------------------------------------

_SHORT = "must be at least 1 ms on a stream, whose watermark counts milliseconds; got"


def windows_of_streams_are_not_shorter_than_the_watermark(asked: Resolution) -> None:
    """Window edges on a stream must not be closer than the resolution of the watermark."""
    if asked.streaming and asked.window.by_time and asked.window.family.shortest < asked.window.finest:
        shortest = show(asked.window.family.shortest)
        raise InvalidValue(f"edges of windows {_SHORT} {shortest} for ", asked.window.written, ".")


def grace_is_not_shorter_than_the_watermark(asked: Resolution) -> None:
    """A grace must not be shorter than the resolution of the watermark."""
    if asked.streaming and asked.window.by_time and 0 < asked.call.options.grace < 1000:
        raise InvalidValue(f"`grace` {_SHORT} {show(asked.call.options.grace)}.")


def windows_that_never_close_bound_their_results(asked: Resolution) -> None:
    """On a stream, a result of windows that never close must bound the number of records that it keeps."""
    for name, bound in asked.results.items() if asked.streaming else ():
        if bound.unlimited and not asked.window.closes:
            raise InvalidValue(
                f"`{name}` is {bound.label}, which keeps {bound.unlimited} of a window; on a stream in {asked.window}, "
                "which never closes, that has to be bounded. Say how many a key may have, for example `limit=10_000`: "
                "more are an error."
            )


def windows_that_overlap_bound_their_results(asked: Resolution) -> None:
    """On a stream, a result of overlapping windows must bound the number of records that it keeps."""
    overlap = asked.streaming and asked.window.by_time and asked.window.family.ratio > 1
    for name, bound in asked.results.items() if overlap else ():
        if bound.unlimited:
            from slicing.drawing import number

            raise InvalidValue(
                f"`{name}` is {bound.label}, which keeps {bound.unlimited} of a window; on a stream whose windows "
                f"overlap, here R = {number(asked.window.family.ratio)}, that has to be bounded. Say how many a "
                "window may have, for example `limit=10_000`: more are an error."
            )


def late_firings_have_grace(asked: Resolution) -> None:
    """Late firings require a grace, during which delayed records are accepted."""
    if asked.streaming and asked.trigger.fires_late and not asked.call.options.grace:
        raise InvalidValue(
            f"{asked.trigger} needs time in which delayed records are accepted, and there is no grace. "
            'Say how long, for example `.grace("10 minutes")`.'
        )


def emptied_windows_have_results(asked: Resolution) -> None:
    """If empty windows are emitted, each result must exist for a window without records."""
    from slicing.laws import why_no_result

    for each in asked.kernels if asked.streaming and asked.trigger.tombstones else ():
        if cause := why_no_result(each):
            raise InvalidValue(
                f"{asked.trigger} emits the result of no records, which `{each.label}` does not have: {cause}. "
                "Let `lower` return None for `init()`."
            )


def buffers_have_room(asked: Resolution) -> None:
    """The trigger's buffer must hold at least one stored pair of key and window."""
    if asked.streaming:
        asked.trigger.check_room(asked.query().execution_plan.shipping.pair_bytes, asked.shape.keeps_records)


RULES: tuple[Callable[[Resolution], None], ...] = (
    input_is_final,
    time_is_a_timestamp,
    stream_has_a_watermark,
    windows_take_the_options,
    windows_take_functions_of_records,
    clock_is_of_a_stream,
    grace_is_by_event_time,
    idleness_is_of_event_time,
    late_firings_are_by_event_time,
    keys_and_windows_name_columns,
    keys_are_not_columns_of_the_emission,
    results_differ_from_other_columns,
    keys_differ,
    keys_differ_from_columns_of_windows,
    results_name_columns,
    keys_are_atomic,
    results_take_their_columns,
    state_of_windows_goes_with_their_records,
    times_of_results_are_given,
    keys_of_late_records_differ_from_their_columns,
    columns_of_late_records_differ_from_their_tag,
    windows_that_keep_partials_have_some,
    trees_suit_their_results,
    retained_are_slices,
    functions_run,
    windows_of_streams_are_not_shorter_than_the_watermark,
    grace_is_not_shorter_than_the_watermark,
    windows_that_never_close_bound_their_results,
    windows_that_overlap_bound_their_results,
    late_firings_have_grace,
    emptied_windows_have_results,
    buffers_have_room,
)
"""The rules of a call, in order; the first broken rule raises InvalidValue or InvalidType."""
RULES_OF_DRAFTS: tuple[Callable[[Draft], None], ...] = (
    windows_take_the_options_somewhere,
    keys_are_not_columns_of_the_emission,
    results_differ_from_other_columns,
    keys_differ,
    keys_differ_from_columns_of_windows,
    times_of_results_are_given,
    windows_that_keep_partials_have_some,
    trees_suit_their_results,
)
"""The rules of a call without a DataFrame: those that need no schema and hold for streams and bounded input alike."""
RULES_OF_HISTORIES: tuple[Callable[[Resolution], None], ...] = (
    time_is_a_timestamp,
    keys_and_windows_name_columns,
    results_name_columns,
    keys_are_atomic,
    results_take_their_columns,
)
"""The rules of a stream's history: the columns of the call must exist; all else is checked on the stream."""
OF_TREES: tuple[Callable[[Kernel, Family, str], None], ...] = (
    tree_has_combine,
    many_windows_of_a_record_are_asked_for,
    two_layers_have_invert,
)
"""The rules of a result that is not eager: its kernel, the family of its windows, and the tree in the call."""


def resolve(call: Call) -> Query:
    """Return the query of a call. Raises InvalidValue or InvalidType for the first rule that it breaks."""
    resolution = Resolution(call)
    for rule in RULES:
        rule(resolution)
    return resolution.query()


def resolve_history(call: Call) -> Query:
    """Return the query of a stream's call over its history. Raises InvalidValue or InvalidType."""
    resolution = OfHistory(call)
    for rule in RULES_OF_HISTORIES:
        rule(resolution)
    return resolution.query()


def check_defined(call: Call) -> None:
    """Check a call without a DataFrame. Raises InvalidValue or InvalidType for the first rule that it breaks."""
    draft = Draft(call)
    for rule in RULES_OF_DRAFTS:
        rule(draft)
