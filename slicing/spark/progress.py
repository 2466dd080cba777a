"""Progress of a stream's micro-batches: a line of text and gauges for export."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from operator import add
from typing import Any, TextIO

from pyspark.sql import Row
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from slicing.drawing import Display, bars, counted, duration, size, table
from slicing.errors import reason
from slicing.spark.lateness import Lateness
from slicing.stages.metrics import (
    COUNTERS,
    ELSEWHERE,
    EXTENT,
    IMPLAUSIBLE,
    LOADED,
    METRICS,
    OF_WARM_STARTS,
    REFUSED,
    TIMERS,
)

Gauges = dict[str, float]

_LOG = logging.getLogger("slicing")


@dataclass(frozen=True)
class MicroBatch:
    """The figures of one micro-batch; several aggregations in one query are added up.

    `lag` is the distance of the watermark behind the clock in seconds; `watermark` and `lag` are None until there is a
    watermark. `in_memory` and `on_disk` are bytes of state as Spark reports them, with RocksDB's caches and buffers.
    `lateness` is None where time closes no window.
    """

    query: str
    number: int
    records: int
    seconds: float
    watermark: datetime | None
    lag: float | None
    counts: dict[str, int]
    in_memory: int
    on_disk: int
    lateness: Lateness | None = None

    @property
    def rate(self) -> float:
        """Records per second of the micro-batch."""
        return self.records / self.seconds if self.seconds else 0.0

    def gauges(self) -> Gauges:
        """Return all figures by name; those of the watermark are left out until there is one."""
        found = {
            "micro_batch": self.number,
            "records": self.records,
            "seconds": self.seconds,
            "records_per_second": self.rate,
            "state_memory_bytes": self.in_memory,
            "state_disk_bytes": self.on_disk,
            **self.counts,
        }
        if self.watermark is not None and self.lag is not None:
            found |= {"watermark_seconds": self.watermark.timestamp(), "watermark_lag_seconds": self.lag}
        return {name: float(value) for name, value in found.items()}

    def additions(self) -> Gauges:
        """Return the figures that may be summed over micro-batches, by name."""
        counts = {name: count for name, count in self.counts.items() if name not in EXTENT}
        return {"micro_batches": 1, "records": self.records, "seconds": self.seconds, **counts}

    def line(self) -> str:
        """Return all figures as a line of text; causes of refusal that did not occur are left out, except `late`."""
        counts = self.counts
        reported = [
            f"{counted(self.records, 'record')} ({self.rate:,.0f}/s)",
            f"watermark {self.mark()}",
            counted(counts["results"], "result"),
            f"{counts['late']:,} late",
            *(f"{counts[name]:,} {name.replace('_', ' ')}" for name in ("late_for_some", *_IF_ANY) if counts.get(name)),
            counted(counts["open_windows"], "open window"),
            counted(counts["slices"], "slice"),
            f"state {size(self.in_memory)} in memory and {size(self.on_disk)} on disk",
            *([str(self.lateness)] if self.lateness and (self.lateness.late or self.lateness.dropped) else []),
            *(f"{name.removeprefix('micros_')} {counts[name] / 1e6:.2f} s" for name in TIMERS if name in counts),
        ]
        return f"micro-batch {self.number}: {', '.join(reported)}, {self.seconds:.1f} s"

    def cells(self) -> tuple[str, ...]:
        """Return the figures for the columns of `HEAD`, as text."""
        counts = self.counts
        return (
            self.query,
            f"{self.number:,}",
            f"{self.records:,}",
            f"{self.rate:,.0f}",
            f"{self.seconds:.1f} s",
            "-" if self.lag is None else duration(self.lag),
            f"{counts['results']:,}",
            f"{counts['late'] + counts['late_for_some']:,}",
            f"{counts['open_windows']:,}",
            f"{size(self.in_memory)}, {size(self.on_disk)}",
        )

    def mark(self) -> str:
        """Return the watermark and its lag as text, "-" if there is none."""
        if self.watermark is None or self.lag is None:
            return "-"
        return f"{self.watermark:%Y-%m-%dT%H:%M:%S} ({duration(self.lag)} ago)"


HEAD = (
    "query",
    "micro-batch",
    "records",
    "per second",
    "took",
    "watermark behind",
    "results",
    "late",
    "open windows",
    "state in memory, on disk",
)
"""The headings of `MicroBatch.cells`."""
_IF_ANY = (*REFUSED[2:], IMPLAUSIBLE, ELSEWHERE, *OF_WARM_STARTS)
"""Counts that are shown only if they are not zero."""
REMEMBERED = 40
"""The number of micro-batches per query that are kept and drawn as bars."""


def micro_batch(progress: Mapping[str, Any]) -> MicroBatch | None:
    """Return the figures of Spark's progress report; None if no micro-batch ran, or none of this package's windows."""
    reported = {name: _observed(row) for name, row in progress["observedMetrics"].items()}
    # Without "addBatch" no micro-batch ran: the query is waiting for records.
    if not any(name.startswith(METRICS) for name in reported) or "addBatch" not in progress["durationMs"]:
        return None
    observed = [row for name, row in reported.items() if name.startswith((METRICS, f"{IMPLAUSIBLE}: "))]
    watermark = _instant(progress["eventTime"].get("watermark", "1970-01-01T00:00:00Z"))
    known = watermark.timestamp() > 0
    operators = progress["stateOperators"]
    on_disk = sum(operator["customMetrics"].get("rocksdbSstFileSize", 0) for operator in operators)
    dropped = sum(operator["numRowsDroppedByWatermark"] for operator in operators)
    has_others = len(operators) > sum(name.startswith(METRICS) for name in reported)
    delays = _added(Lateness.of(row, on_disk) for row in observed)
    return MicroBatch(
        progress["name"] or str(progress["id"]),
        progress["batchId"],
        _records(progress),
        progress["durationMs"].get("triggerExecution", 0) / 1000,
        watermark if known else None,
        (_instant(progress["timestamp"]) - watermark).total_seconds() if known else None,
        {
            name: (max if name in EXTENT else sum)(row.get(name, 0) for row in observed)
            for name in (*COUNTERS, IMPLAUSIBLE, *TIMERS, *OF_WARM_STARTS)
            if name in COUNTERS or any(name in row for row in observed)
        }
        | {ELSEWHERE: dropped},
        sum(operator["memoryUsedBytes"] for operator in operators),
        on_disk,
        delays and replace(delays, dropped=dropped if has_others else None),
    )


def lateness(reports: Iterable[Mapping[str, Any]]) -> Lateness | None:
    """Return how late the records of some micro-batches were, from their progress reports, the newest last.

    `lateness(query.recentProgress)` covers the micro-batches that Spark still has. Printed, the value says how many
    records another watermark delay would have kept. None if no report is of a query whose windows are closed by time.

    A repeated micro-batch counts once; before Spark 4.3 repeated tasks count again. If other stateful operators share
    the watermark, no shorter delay is advised, because they would drop more. The size of the state is an estimate,
    proportional to window length, grace and delay, and left out for sessions and windows of different lengths. With
    `session(..., late_by="session")` the counts are exact only for the delay of the query. A record of a window that
    ended before 1970 is late under any delay.
    """
    found = [micro_batch(report) for report in reports]
    return _added(each.lateness for each in found if each is not None)


def _added(several: Iterable[Lateness | None]) -> Lateness | None:
    known = [each for each in several if each is not None]
    return reduce(add, known) if known else None


def _observed(row: Row) -> dict[str, Any]:
    """The metrics by name. With Spark Connect, a row has the two fields `values` and `schema`, from JSON."""
    found = row.asDict()
    if found.keys() != {"values", "schema"}:
        return found
    return dict(zip((field["name"] for field in found["schema"]["fields"]), found["values"], strict=True))


def _records(progress: Mapping[str, Any]) -> int:
    """The number of input records. Spark Connect does not report the sum, so the sources are added up."""
    found = progress["numInputRows"]
    return sum(source["numInputRows"] or 0 for source in progress["sources"]) if found is None else int(found)


def _instant(text: str) -> datetime:
    """A timestamp of Spark. For years after 9999, which datetime does not support, the last datetime."""
    year = text.lstrip("+").partition("-")[0]
    return datetime.max.replace(tzinfo=UTC) if len(year) > 4 else datetime.fromisoformat(text)


def panel(batches: Sequence[MicroBatch]) -> str:
    """Return a query's newest micro-batch as a few lines of text, with a bar for each remembered micro-batch."""
    now, counts = batches[-1], batches[-1].counts
    late = sum(each.counts["late"] + each.counts["late_for_some"] for each in batches)
    delays = _added(each.lateness for each in batches)
    rows = [
        ("records/s", f"{now.rate:>10,.0f}  {bars([each.rate for each in batches])}"),
        ("seconds", f"{now.seconds:>10.1f}  {bars([each.seconds for each in batches])}"),
        ("watermark", now.mark()),
        ("windows", f"{counted(counts['results'], 'result')}, {counted(counts['open_windows'], 'open window')}"),
        (
            "state",
            f"{counted(counts['slices'], 'slice')}, {size(now.in_memory)} in memory, {size(now.on_disk)} on disk",
        ),
        ("late", f"{counts['late'] + counts['late_for_some']:,}, {late:,} since micro-batch {batches[0].number}"),
        *([("delay", str(delays))] if delays else []),
        *((name.replace("_", " "), f"{counts[name]:,}") for name in _IF_ANY if counts.get(name)),
    ]
    first = f"{now.query}: micro-batch {now.number}, {counted(now.records, 'record')}"
    return "\n".join([first, *(f"  {f'{name} ':<12}{text}" for name, text in rows)])


def _log_history(first: MicroBatch) -> None:
    """Log that a query does not read its history again, if its first micro-batch since its start is a later one."""
    if first.number and LOADED in first.counts:
        _LOG.info(
            "%s: micro-batch 0 of the checkpoint has loaded the history of `.warm`, which is not read again. `.warm` "
            "may stay, or go when the source brings no more records from before `until`.",
            first.query,
        )


class ProgressListener(StreamingQueryListener):
    """Print a line for every micro-batch of windowed aggregations, and pass its figures on as gauges.

    Register it with `spark.streams.addListener(ProgressListener())`. Lines are written to `stream`, by default stderr.
    In a terminal, each query has a few lines that are updated, with a bar for each micro-batch. `lines=False` prints
    nothing. `on_gauges(query, gauges)` is called after each micro-batch with the newest gauges of this query, in the
    unit that ends their names (seconds, bytes), else numbers; `query` is its name or, without a name, its id. The
    attribute `gauges` has the newest gauges of each running query. Queries without an aggregation of this package are
    ignored. If a query fails, a line says why. If a query with a warm start is started again, the logger "slicing" says
    that its history is not read again.

    The gauges are micro_batch, records, records_per_second, seconds, results, late, late_for_some, no_time,
    implausible, no_window, dropped_by_other_operators, partials_read, partials_written, open_windows (from the first to
    the last that may hold a record) and slices, both in the bucket with the most, state_memory_bytes, state_disk_bytes,
    watermark_seconds, watermark_lag_seconds (in a replay the age of the data), and `micros_...` with stage timings.

    In a notebook, the listener is displayed as a table of running and finished queries, and `live()` shows a table that
    is updated. `batches` has the last micro-batches of each query, `totals` the sums over all micro-batches of each
    running query.
    """

    def __init__(
        self,
        on_gauges: Callable[[str, Gauges], None] | None = None,
        *,
        stream: TextIO | None = None,
        lines: bool = True,
    ):
        self.gauges: dict[str, Gauges] = {}
        self.batches: dict[str, deque[MicroBatch]] = {}
        self.totals: dict[str, Gauges] = {}
        self._lateness: dict[str, Lateness] = {}
        self._on_gauges = on_gauges
        self._display = Display(stream or sys.stderr) if lines else None
        self._started: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._shown: Any = None

    def lateness(self, query: str) -> Lateness | None:
        """Return how late the records of a query, by name or id, were since the listener was registered.

        None if the query had no micro-batch, or if time closes none of its windows.
        """
        return self._lateness.get(query)

    def live(self) -> None:
        """Show the table in this notebook cell and keep it up to date. Raises ModuleNotFoundError without IPython."""
        from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

        self._shown = display(self, display_id=True)  # type: ignore[no-untyped-call, unused-ignore]

    def _repr_html_(self) -> str:
        """A table with a row for each query: the figures of its newest micro-batch, and bars of their durations."""
        rows = [(*known[-1].cells(), bars([each.seconds for each in known])) for known in self.batches.values()]
        return table((*HEAD, "seconds of each"), rows)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Called by Spark."""
        self._started[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Called by Spark."""
        found = micro_batch(event.progress)
        if found is None:
            return
        if (id_ := str(event.progress.id)) in self._started and id_ not in self._names:
            _log_history(found)
        self._names[id_] = found.query
        self.batches.setdefault(found.query, deque(maxlen=REMEMBERED)).append(found)
        before = self.totals.get(found.query, {})
        self.totals[found.query] = {name: before.get(name, 0) + value for name, value in found.additions().items()}
        if both := _added([self._lateness.get(found.query), found.lateness]):
            self._lateness[found.query] = both
        self.gauges[found.query] = found.gauges()
        if self._display:
            live = self._display.live
            text = panel(self.batches[found.query]) if live else f"{found.query}: {found.line()}"
            self._display.show(found.query, text)
        if self._on_gauges:
            self._on_gauges(found.query, self.gauges[found.query])
        if self._shown:
            self._shown.update(self)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Called by Spark."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Called by Spark."""
        started = self._started.pop(str(event.id), str(event.id))
        query = self._names.pop(str(event.id), None)
        if query is not None:
            del self.gauges[query], self.totals[query]
            if self._display:
                self._display.end(query)
        # For a query that failed before its first progress report, only the error tells whether it is of this package.
        if event.exception and self._display and (query is not None or "slicing.errors." in event.exception):
            print(f"{query or started}: failed: {reason(event.exception)}", file=self._display.stream, flush=True)
