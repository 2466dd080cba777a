"""The rules of the call of a windowed aggregation, `RULES` in the order of application, and its resolution by them."""

from __future__ import annotations

from collections.abc import Callable

from slicing.aggregates.aggregate import EVENT_TIME, Bound
from slicing.aggregates.records import KeptRecords
from slicing.assembly.choice import EAGER
from slicing.drafts.call import Call, Time
from slicing.drafts.rules import (
    among,
    first_taken,
    keys_are_not_columns_of_the_emission,
    keys_differ,
    keys_differ_from_columns_of_windows,
    no_grace,
    no_late_firings,
    results_differ_from_other_columns,
    times_of_results_are_given,
    trees_suit_their_results,
    windows_that_keep_partials_have_some,
)
from slicing.errors import InvalidValue
from slicing.spark.columns import check_time_type
from slicing.spark.query import EMISSION, Query
from slicing.spark.resolution import OfHistory, Resolution
from slicing.spark.watermarks import check_watermark
from slicing.triggers.lateness import LATE, RECORDS
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
        raise InvalidValue(no_grace(asked.clock, asked.call.options.grace))


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
        raise InvalidValue(no_late_firings(asked.clock, asked.trigger))


# --- names ----------------------------------------------------------------------------------------------------------


def keys_and_windows_name_columns(asked: Resolution) -> None:
    """The columns that keys and windows name must exist."""
    _ = asked.keys, asked.window


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
    if asked.call.options.late == RECORDS and first_taken(asked, among((LATE,), asked.columns)):
        raise InvalidValue(
            f'with `.late("records")` a column cannot be called `{LATE}`, as late records have a column of that name. '
            "Rename it."
        )


# --- trees ----------------------------------------------------------------------------------------------------------


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

    for each in (
        asked.kernels if (asked.streaming and asked.trigger.tombstones) or asked.call.options.trigger.empty else ()
    ):
        if cause := why_no_result(each):
            raise InvalidValue(
                f"{asked.trigger} emits the result of no records, which `{each.label}` does not have: {cause}. "
                "Let `lower` return None for `init()`."
            )


def windows_without_records_have_slices(asked: Resolution) -> None:
    """If windows without records are emitted, all results must be assembled from the partials of slices."""
    trigger = asked.call.options.trigger
    if trigger.empty and (EAGER in asked.trees or asked.shape.keeps_records):
        raise InvalidValue(
            f"{trigger} fires windows without records, which have no partial: all results must combine, and "
            "`process` and `evict` need records. Give each aggregate a `combine`, or leave `empty` out."
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
    windows_without_records_have_slices,
    buffers_have_room,
)
"""The rules of a call, in order; the first broken rule raises InvalidValue or InvalidType."""
RULES_OF_HISTORIES: tuple[Callable[[Resolution], None], ...] = (
    time_is_a_timestamp,
    keys_and_windows_name_columns,
    results_name_columns,
    keys_are_atomic,
    results_take_their_columns,
)
"""The rules of a stream's history: the columns of the call must exist; all else is checked on the stream."""


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
