"""Draws which windows fire when, by running a few records through the stages of a real query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, cast

from slicing.drawing.clock import Clock
from slicing.drawing.svg import CELLS, svg
from slicing.drawing.timeline import Cell, Data, Dot, Row, Timeline
from slicing.drawing.windows import Interval, bar, edges, hull, is_finite, picture, slices, zone
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.stages.local_runner import LATE, LOST, PARTLY, Out, Replay, bounded, check, stream
from slicing.triggers.emission import ON_CLOSE, Emission
from slicing.triggers.own import emission_of
from slicing.triggers.user_trigger import Trigger as UserTrigger
from slicing.windows.clock import ProcessingTime
from slicing.windows.time.durations import Duration, microseconds, show
from slicing.windows.time.instants import microseconds_of
from slicing.windows.window import Window

Instant = int | str | datetime
MOST = 16
"""The maximum number of windows of each kind in a picture; of more, only the first and the last ones are shown."""
_DASH = "\N{EN DASH}"
_DOTS = {PARTLY: "late for some", LATE: "late", LOST: "in no window"}
_BARS = {"open": "still open", "empty": "nothing is emitted"}
_CELLS = {"final": ("3", "result"), "drained": ("0", "empty window"), "merged": (_DASH, "retracted")}


class Drawing(str):
    """A picture as SVG text. Notebooks show it; elsewhere write it to a file."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self):,} characters of SVG>"

    def _repr_svg_(self) -> str:
        return str(self)


def draw(
    windows: Window,
    records: Sequence[Instant] | Sequence[Sequence[Instant]] = (),
    watermark: Duration | Sequence[Instant | None] | None = None,
    *,
    emit: Emission | UserTrigger = ON_CLOSE,
    grace: Duration = "0 seconds",
    time: ProcessingTime | None = None,
    clock: Sequence[Instant] | None = None,
) -> Drawing:
    """Draw windows, and the rows that they emit for the records of one key, as SVG.

    `records` are the times of records: datetimes, microseconds, or ISO text such as "2024-05-01 12:03"; text without a
    day, such as "12:03", is on 1970-01-01. With `watermark`, the delay for `withWatermark`, they are a stream:
    `records` is a list of micro-batches, each a list of times. Without it they are bounded input. `emit` and `grace`
    are those of the query. If other keys move the watermark too, `watermark` is a list of its values, one per
    micro-batch, None until there is one. With `time=processing_time()`, and for triggers that go by the clock,
    `clock` has the time of each micro-batch; by default they are a millisecond apart.

    The picture shows the real behaviour: first stage, state and trigger of a query run in this process. Spark is not
    started, but must be installed. Cells count records: `orders=C.count()`. Cost: about a millisecond per micro-batch.
    Raises InvalidType for other values than windows or times, InvalidValue.

    >>> from slicing import hopping
    >>> picture = draw(hopping("10 minutes", advance="5 minutes"), [["12:03"], ["12:20"]], watermark="2 minutes")
    >>> picture[:4]
    '<svg'
    """
    if not isinstance(windows, Window):
        raise InvalidType(
            f"`windows` must be made with `hopping`, `tumbling` or one of the others; got {excerpt(windows)}."
        )
    batches, emit = _batches(records), emission_of(emit)
    # Windows that time does not close need no watermark.
    is_stream = not (watermark is None and time is None and clock is None) or (not windows.by_time and len(batches) > 1)
    if not batches and not clock:
        found = picture(windows)
        if found is None:
            raise InvalidValue(f'{windows} has no windows without records. Give some times, for example ["12:03"].')
        return Drawing(found)
    check(windows, emit if is_stream else ON_CLOSE, time is not None, is_stream)
    if not is_stream:
        if len(batches) > 1 or emit != ON_CLOSE:
            raise InvalidValue(
                f"micro-batches and emissions are those of a stream; got {len(batches)} micro-batches and {emit} "
                'without `watermark`. Say for example watermark="2 minutes".'
            )
        return Drawing(_drawn(windows, bounded(windows, batches[0]), repr(windows)))
    if time is not None and clock is None:
        raise InvalidValue('windows by the clock need the time of each trigger: say for example clock=["12:00:02"].')
    wait = microseconds(grace, "grace")
    mark = [None] if watermark is None and not windows.by_time else _watermark(watermark)
    triggers = None if clock is None else [_instant(each) for each in clock]
    replay = stream(windows, batches, mark, emit, wait, triggers, time is not None)
    said = [
        repr(windows),
        *([f"time={time}"] if time else []),
        *([f"watermark {show(mark)} behind"] if mark and isinstance(mark, int) else []),
    ]
    said += [str(emit)] if emit != ON_CLOSE else []
    said += [f"grace {show(wait)}"] if wait else []
    return Drawing(_drawn(windows, replay, ", ".join(said), triggers or ()))


def _watermark(given: Duration | Sequence[Instant | None] | None) -> int | list[int | None]:
    """The delay of the watermark in microseconds, or the watermarks of the micro-batches."""
    if given is None or isinstance(given, (str, timedelta)):
        return 0 if given is None else microseconds(given, "watermark")
    return [None if each is None else _instant(each) for each in given]


def _batches(records: Sequence[Instant] | Sequence[Sequence[Instant]]) -> list[list[int]]:
    """The times by micro-batch; a plain list of times is one micro-batch."""
    if isinstance(records, str):
        raise InvalidType(f"`records` are a list of times, or lists of them; got {excerpt(records)}.")
    nested = [isinstance(each, Sequence) and not isinstance(each, str) for each in records]
    if all(nested):
        return [[_instant(each) for each in batch] for batch in cast("Sequence[Sequence[Instant]]", records)]
    if any(nested):
        raise InvalidType("`records` are either times or lists of times, one for each micro-batch; got both.")
    return [[_instant(each) for each in cast("Sequence[Instant]", records)]]


def _instant(given: Instant) -> int:
    """The microseconds since 1970 of an instant. Raises InvalidValue and InvalidType."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given if "-" in given else f"1970-01-01 {given}")
        except ValueError:
            raise InvalidValue(
                f'a time is ISO text such as "2024-05-01 12:03" or "12:03"; got {excerpt(given)}.'
            ) from None
    if isinstance(given, datetime) and given.tzinfo is None:  # the picture has one clock, in UTC
        given = given.replace(tzinfo=UTC)
    return microseconds_of(given, "a time")


def _drawn(windows: Window, replay: Replay, title: str, triggers: Sequence[int] = ()) -> str:
    """The SVG of a replay."""
    times = [time for batch in replay.batches for time in batch.times]
    shown = [_windows_of(part, number, replay, times) for number, part in enumerate(windows.parts)]
    every = [window for part in shown for window in part]
    low, high = hull([*every, *((time, time + 1) for time in [*times, *triggers])])
    if not all(map(is_finite, every)):
        margin = (high - low) // 12
        low, high = low - margin, high + margin
    named = Clock([*edges(every), *(each.watermark for each in replay.batches if each.watermark)], zone(windows))
    accepted = [t for each in replay.batches for t, fate in zip(each.times, each.outcomes, strict=True) if fate != LATE]
    is_stream = any(out.batch is not None for out in replay.rows) or any(each.watermark for each in replay.batches)
    rows = [*_batch_rows(replay, named, is_stream), *slices(windows, low, high, accepted)]
    rows += [row for group in _groups(windows, shown, replay, named) for row in group]
    heading = "emitted in micro-batch" if is_stream else "result"
    heads = tuple(str(number) if is_stream else "" for number in range(len(replay.batches)))
    ticks = tuple(edges(every))
    return svg(Timeline(title, tuple(rows), low, high, ticks, zone(windows), heading, heads, _legend(rows)))


def _windows_of(part: Window, number: int, replay: Replay, times: Sequence[int]) -> list[Interval]:
    """The windows of one kind that hold records or were emitted, and the windows between them."""
    known = {(out.start, out.end) for out in [*replay.rows, *replay.open] if out.part == number}
    known |= {window for time in times for window in part.between(time, time + 1)}
    low, high = hull(known)
    between = part.between(low, high) if low < high else []
    return sorted(known | {each for each in between if low <= each[0] and each[1] <= high})


def _batch_rows(replay: Replay, clock: Clock, is_stream: bool) -> list[Row]:
    """The rows of records, one per micro-batch, each with the watermark that closes windows in it."""
    rows = []
    for number, batch in enumerate(replay.batches):
        dots = [
            Dot(time, fate, {"time": time, "batch": number, "fate": fate})
            for time, fate in zip(batch.times, batch.outcomes, strict=True)
        ]
        label = f"micro-batch {number}" if is_stream else "records"
        note = f"W {clock.text(batch.watermark) if batch.watermark else _DASH}" if is_stream else ""
        rows.append(Row(label, note, dots=tuple(dots), mark=batch.watermark, is_first=number == 0))
    return rows


def _groups(windows: Window, shown: list[list[Interval]], replay: Replay, clock: Clock) -> Iterator[list[Row]]:
    """The rows of windows, one group per kind."""
    going, closing = defaultdict(list), {(out.part, out.start, out.end) for out in replay.open}
    for out in replay.rows:
        going[out.part, out.start, out.end].append(out)
    for number, (part, call) in enumerate(zip(shown, windows.calls, strict=True)):
        name = call.partition("(")[0] if len(shown) > 1 else ""
        rows = [
            Row(
                f" {_DASH} ".join(map(clock.text, window)) if is_finite(window) else "one window",
                name,
                (bar(window, _look((number, *window), going, closing)),),
                cells=tuple(_cells(window, going[number, *window])),
            )
            for window in part
        ]
        yield [replace(row, is_first=i == 0) for i, row in enumerate(_some(rows))]


def _some(rows: list[Row]) -> list[Row]:
    """The rows; of too many, the first and the last ones with their number between."""
    if len(rows) <= MOST:
        return rows
    return [*rows[: MOST // 2], Row(f"{len(rows) - MOST:,} more"), *rows[-(MOST // 2) :]]


def _look(window: tuple[int, int, int], going: Mapping[Any, list[Out]], open_: Container[Any]) -> str:
    return "open" if window in open_ else "window" if going.get(window) else "empty"


def _cells(window: Interval, rows: Sequence[Out]) -> Iterator[Cell]:
    """The cells of a window, one per micro-batch that emitted it."""
    for batch, group in groupby(rows, key=lambda out: out.batch):
        outs = list(group)
        kind = outs[-1].emission
        data: Data = {
            "out": f"{window[0]} {window[1]}",
            "batch": "" if batch is None else batch,
            "records": " ".join(str(out.records) for out in outs),
            "emission": " ".join(out.emission for out in outs),
        }
        text = ", ".join(_DASH if out.emission == "merged" else str(out.records) for out in outs)
        yield Cell(batch or 0, text, kind if kind in CELLS else "gone", data)


def _legend(rows: Sequence[Row]) -> tuple[tuple[str, str, str], ...]:
    """The legend: one entry per look that occurs and needs an explanation."""
    dots = {dot.look for row in rows for dot in row.dots}
    bars = {bar.look for row in rows for bar in row.bars}
    cells = {word: cell.look for row in rows for cell in row.cells for word in str(cell.data["emission"]).split()}
    found = [("mark", "", "watermark W")] if any(row.mark is not None for row in rows) else []
    found += [(f"dot-{look}", "", meaning) for look, meaning in _DOTS.items() if look in dots]
    found += [(look, "", meaning) for look, meaning in _BARS.items() if look in bars]
    if set(cells) - {"final"}:
        found += [(f"cell-{look}", *_CELLS.get(word, ("3", word))) for word, look in cells.items()]
    return tuple(found)
