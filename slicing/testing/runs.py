"""Runs a definition on micro-batches in this process; see `run`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from slicing.definition import Definition
from slicing.drafts.call import Time
from slicing.errors import InvalidType, InvalidValue, check_flag, excerpt
from slicing.spark.ddl import struct_of
from slicing.spark.query import Query
from slicing.spark.simulated import SimulatedStream, schema_of
from slicing.spark.window_columns import columns_of
from slicing.testing.records import Record, Records, inferred, instant, rows_of
from slicing.testing.rows import Rows, counters_of
from slicing.windows.clock import ProcessingTime
from slicing.windows.time.durations import Duration
from slicing.windows.time.instants import Instant
from slicing.windows.time.zones import zone_info

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Watermark: TypeAlias = Duration | Sequence[Instant | None] | None


class MicroBatch(NamedTuple):
    """The outcome of a micro-batch: the emitted rows, the late rows, the counters by name, and the watermark."""

    rows: list[Any]
    late: list[Any]
    counters: dict[str, int]
    watermark: datetime | None


def run(
    definition: Definition,
    micro_batches: Iterable[Any],
    watermark: Watermark = None,
    *,
    schema: str | StructType | None = None,
    clock: Sequence[Instant] | None = None,
    restart_between: bool = False,
    zone: str = "UTC",
) -> list[MicroBatch]:
    """Return what a stream of these micro-batches emits in each of them, without a JVM.

    A micro-batch is a list of dicts, or of tuples in the order of `schema`, an Arrow table or a pandas DataFrame. Times
    are datetimes, ISO text, or microseconds since 1970. Those without a zone are in `zone`, the time zone of the
    session, and so are the timestamps of rows. `schema` has the types of columns, as DDL or a StructType, by default
    those that the definition declares, or that Arrow infers from the records.

    `rows` and `late` are rows as Spark collects them, named tuples; `late` has the columns of `late_records` or
    `late_partials`, and is empty unless the definition emits late rows. `counters` are those of Spark's progress:
    `late`, `late_for_some`, `no_time`, `no_window`, `results` and so on.

    `watermark` is the delay for `withWatermark`. As in Spark, the watermark of a micro-batch is the greatest time of
    all earlier ones minus the delay, None before there is one, and a micro-batch without records follows at the end if
    that moves the watermark. An empty list is a micro-batch without records. In place of the delay, `watermark` may be
    a list with the watermark of each micro-batch. `clock` has the processing time of each micro-batch, by default a
    millisecond after the one before, from 1970 on. If one of the lists is longer than `micro_batches`, micro-batches
    without records follow.

    First stage, state and trigger are those of a stream on Spark, with one shuffle partition. Functions are pickled
    and start anew in each micro-batch, as in Spark. With `restart_between` nothing else is kept in memory between
    micro-batches: the state is read from its stored form. Columns are names or paths of fields; expressions of Spark,
    `assigned_by` and `warm` need Spark and are refused. Cost: a few milliseconds per micro-batch. Raises InvalidType,
    InvalidValue, and the errors of the query.

    >>> import combinators as C
    >>> from slicing import group_by, tumbling
    >>> hourly = group_by("user").window(tumbling("1 hour"), time="ts").define(orders=C.count())
    >>> records = [{"user": "ada", "ts": "2024-05-01 12:03"}], [{"user": "ada", "ts": "2024-05-01 14:00"}]
    >>> [[(row.user, row.window.end.hour, row.orders) for row in each.rows] for each in run(hourly, records, "1 hour")]
    [[], [], [('ada', 13, 1)]]
    """
    check_flag(restart_between, "`restart_between` says whether each micro-batch starts anew")
    _check(definition)
    types = _types(definition, schema)
    batches = [rows_of(each, types.names if types else ()) for each in micro_batches]
    types = schema_of(inferred(batches, definition.windowed.time)) if types is None else types
    listed = None if watermark is None or isinstance(watermark, str | timedelta) else watermark
    query = _query(definition, types, watermark)
    if query.by_clock and clock is None:
        raise InvalidValue(
            f"{query.window} with {query.options.trigger} reads the clock, and there is none. Say the time of each "
            'micro-batch, for example clock=["2024-05-01T12:00:00Z"].'
        )
    records = Records(query, tuple(types.names), UTC if zone == "UTC" else zone_info(zone))
    clocks = None if clock is None else [instant(each, records.zone) // 1000 for each in clock]
    marks = None if listed is None else [0 if each is None else instant(each, records.zone) // 1000 for each in listed]
    return list(_steps(records, batches, marks, clocks, restart_between))


def _check(definition: Definition) -> None:
    """Raise InvalidType and InvalidValue for what cannot run without Spark."""
    if not isinstance(definition, Definition):
        raise InvalidType(
            f"`run` takes a definition; got {excerpt(definition)}. Write `.define(...)` in place of `.aggregate(...)`."
        )
    columns_of(definition.windowed.windows).check_call("slicing.testing.run")
    if definition.history is not None:
        raise InvalidValue(
            f"`run` starts without a history, which is a DataFrame of Spark; got {definition.history}. Leave `warm` "
            "out, and give its records as the first micro-batch."
        )


def _types(definition: Definition, schema: str | StructType | None) -> StructType | None:
    """The types of columns, None if they are those of the records."""
    if isinstance(schema, str):
        return struct_of(schema)
    if schema is None and definition.declared is not None:
        return definition.declared.schema
    frame = definition.windowed.df
    return frame.schema if schema is None and frame is not None else schema


def _query(definition: Definition, types: StructType, delay: Any) -> Query:
    """The query of a stream with these columns; without a delay that of the declared watermark."""
    asked, declared = definition.windowed, definition.declared
    waits = asked.windows.by_time and not isinstance(asked.time, ProcessingTime)
    if delay is None and declared is not None and declared.watermark is not None:
        delay = timedelta(milliseconds=declared.watermark[1])
    if waits and not isinstance(delay, str | timedelta | None):  # the watermarks are listed
        delay = timedelta(0)
    if delay is None and waits:
        raise InvalidValue(
            'time closes these windows, and there is no watermark. Say how late records may be: watermark="10 minutes".'
        )
    plain = replace(definition, windowed=replace(asked, df=None), declared=None)
    return plain.declare(types, streaming=True, watermark=delay, partitions=1).query()


def _steps(
    records: Records,
    batches: Sequence[Sequence[Record]],
    marks: Sequence[int] | None,
    clocks: Sequence[int] | None,
    restart_between: bool,
) -> Iterator[MicroBatch]:
    """Run the micro-batches. `marks` and `clocks` are in milliseconds."""
    query, greatest, mark = records.query, 0, 0
    stream, rows = SimulatedStream(query), Rows(query, records.zone)
    count, number = max(map(len, (batches, marks or (), clocks or ()))), 0
    delay = (query.delay or 0) // 1000
    waits = query.clock is Time.EVENT and marks is None
    while number < count or (waits and mark < greatest - delay):
        given = batches[number] if number < len(batches) else ()
        mark = max(mark, greatest - delay if marks is None else marks[min(number, len(marks) - 1)])
        clock = number if clocks is None else clocks[min(number, len(clocks) - 1)]
        packed = list(stream.step(records.batch(given, 1000 * clock), mark, clock))
        yield MicroBatch(*rows.of(packed), counters_of(packed), rows.instant(1000 * mark) if mark else None)
        if waits:
            greatest = max([greatest, *(time // 1000 for time in records.times(given) if time is not None)])
        if restart_between:
            stream.restart()
        number += 1
