"""Our queries: different windows, and different numbers and widths of aggregates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame

import combinators as C
from benchmarks.baselines.query import keys_of, labels_of
from slicing import (
    Aggregate,
    Bound,
    Emission,
    counting,
    cumulating,
    fieldwise,
    group_by,
    hopping,
    session,
    sliding,
    tumbling,
)
from slicing.triggers.emission import ON_CLOSE
from slicing.windows.window import Window


@dataclass(frozen=True)
class Ours:
    """Count and sum of a column; `tree` is an argument of `.assemble`, `more` is a name in MORE.

    `retain` is how long slices stay after the watermark, `buckets` their number if it is not that of the partitions.
    """

    column: str = "v"
    tree: str = "auto"
    more: str = ""
    emission: Emission = ON_CLOSE
    retain: str = "0 seconds"
    buckets: int | None = None

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows with columns `records` and `total`, or the columns of `more`."""
        windowed = group_by(frame, *keys_of(frame)).window(hopping(size, advance), time="ts").assemble(self.tree)
        windowed = windowed.retain(self.retain)
        if self.buckets is not None:
            windowed = windowed.buckets(self.buckets)
        if self.more:
            return windowed.aggregate(**MORE[self.more])
        out = windowed.emit(self.emission).aggregate(records=C.count(), total=C.sum(self.column))
        return out if self.emission.fires_once else out.drop("emission", "revision")


@dataclass(frozen=True)
class OurSizes:
    """Count and sum of a column in hopping windows of several sizes with the same advance, in one call."""

    sizes: tuple[str, ...]
    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows of each size with columns `records` and `total`; `size` is ignored."""
        windows = [hopping(each, advance) for each in self.sizes]
        windowed = group_by(frame, *keys_of(frame)).window(*windows, time="ts")
        return windowed.aggregate(records=C.count(), total=C.sum(self.column))


@dataclass(frozen=True)
class OurLengths:
    """Count and sum of a long in the given windows; size and advance of the call are ignored."""

    windows: tuple[Window, ...]

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows of each length with columns `records` and `total`."""
        windowed = group_by(frame, *keys_of(frame)).window(*self.windows, time="ts")
        return windowed.aggregate(records=C.count(), total=C.sum("v"))


@dataclass(frozen=True)
class OurCumulating:
    """Count and sum of a long in cumulating windows: a common start, an end at each `advance`."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows with columns `records` and `total`."""
        windowed = group_by(frame, *keys_of(frame)).window(cumulating(size, step=advance), time="ts")
        return windowed.aggregate(records=C.count(), total=C.sum("v"))


@dataclass(frozen=True)
class OurDays:
    """Count and sum of a long in days by the wall clock of a zone."""

    zone: str

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return days with columns `records` and `total`; their length is that of the wall clock's day."""
        windowed = group_by(frame, *keys_of(frame)).window(tumbling("1 day", zone=self.zone), time="ts")
        return windowed.aggregate(records=C.count(), total=C.sum("v"))


@dataclass(frozen=True)
class OurSessions:
    """Count and sum of a long in sessions; `size` is their gap."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return sessions with columns `records` and `total`."""
        windowed = group_by(frame, *keys_of(frame)).window(session(size), time="ts")
        return windowed.aggregate(records=C.count(), total=C.sum("v"))


@dataclass(frozen=True)
class OurCounting:
    """Count and sum of a long in count windows; bounded input is ordered by time."""

    records: int
    advance: int

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows with columns `records` and `total`; size and advance of the call are ignored."""
        window = counting(self.records, self.advance, order_by=None if frame.isStreaming else "ts")
        windowed = group_by(frame, *keys_of(frame)).window(window, time="ts")
        return windowed.aggregate(records=C.count(), total=C.sum("v")).drop("first_record", "last_record")


@dataclass(frozen=True)
class OurSliding:
    """Count and sum of a long in a window for each distinct time of a key; `size` is the difference."""

    unit: str = "1 microsecond"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows that end with a record, with columns `records` and `total`."""
        window = sliding(size, unit=self.unit, right=False)
        windowed = group_by(frame, *keys_of(frame)).window(window, time="ts")
        return windowed.aggregate(records=C.count(), total=C.sum("v"))


@dataclass(frozen=True)
class OurSlidings:
    """Count and sum of a long in windows of several lengths that end with a record; `size` is ignored."""

    lengths: tuple[str, ...]

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return wide rows, with columns `records` and `total` for each length."""
        named = {f"l{number}": length for number, length in enumerate(self.lengths)}
        windowed = group_by(frame, *keys_of(frame)).window(sliding(**named, right=False), time="ts")
        return windowed.aggregate(records=C.count(), total=C.sum("v"))


@dataclass(frozen=True)
class OurFeatures:
    """Count, sum and mean of a column in each of the lengths before a label; `size` is ignored."""

    lengths: tuple[str, ...]
    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return the labels with columns `records`, `total` and `average` for each length."""
        named = {f"l{number}": length for number, length in enumerate(self.lengths)}
        grouped = group_by(frame, *keys_of(frame)).features_at(labels_of(frame), **named, time="ts")
        return grouped.aggregate(records=C.count(), total=C.sum(self.column), average=C.mean(self.column))


@dataclass(frozen=True)
class DistinctFeatures:
    """The number of distinct values in the window before a label, by `distinct`; `advance` is ignored."""

    distinct: Callable[[str], Bound]

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return the labels with a column `values`."""
        grouped = group_by(frame, *keys_of(frame)).features_at(labels_of(frame), size, time="ts")
        return grouped.aggregate(values=self.distinct("d"))


def _wide(fields: int) -> Bound:
    """A sum of a long whose partial has the sum `fields` times, 8 bytes each."""
    names = ", ".join(f"x{i} bigint" for i in range(fields))
    init = (0,) * fields if fields > 1 else 0

    def agg(acc: Any, v: Any) -> Any:
        return tuple(x + v for x in acc) if fields > 1 else acc + v

    return Aggregate(
        lambda: init,
        agg,
        fieldwise(*[np.add] * fields),
        fieldwise(*[np.subtract] * fields),
        lambda acc: acc[0] if fields > 1 else acc,
        partial=names,
        returns="bigint",
        columns=True,
    ).on("v")


_TEN = {
    "records": C.count(),
    "total": C.sum("v"),
    "largest": C.max("v"),
    "smallest": C.min("v"),
    "average": C.mean("v"),
    "total_d": C.sum("d"),
    "largest_d": C.max("d"),
    "smallest_d": C.min("d"),
    "average_d": C.mean("d"),
    "spread": C.stddev("d"),
}
_SUMS = {"records": C.count(), "total": C.sum("v")} | {f"average{i}": C.mean("v") for i in range(8)}
MORE: dict[str, dict[str, Bound]] = (
    {f"{count} aggregates": dict(list(_TEN.items())[:count]) for count in (1, 3, 10)}
    | {f"{count} invertible": dict(list(_SUMS.items())[:count]) for count in (1, 3, 10)}
    | {name: {name: bound} for name, bound in (("mean", C.mean("v")), ("distinct", C.approx_count_distinct("v")))}
    | {"variance": {"variance": C.variance("d")}}
    | {
        "five": {
            "mean": C.mean("v"),
            "variance": C.variance("v"),
            "stddev": C.stddev("v"),
            "count": C.count("v"),
            "sum": C.sum("v"),
        },
        "percentiles": {"percentiles": C.percentile_relative("v", [0.5, 0.95, 0.99], 0.01)},
        "bins": {"bins": C.percentile_relative("v", [0.5, 0.95, 0.99], 0.01, between=(1, 1000))},
        "total": {"total": C.sum("v")},
        "ranks": {"ranks": C.approx_percentile("v", [0.5, 0.95, 0.99], 100)},
        "top": {"top": C.top_k("v", 10, exact=False)},
        "largest": {"largest": C.largest("v", 10)},
    }
    | {f"{8 * fields} bytes": {"total": _wide(fields)} for fields in (1, 4, 16, 128)}
)
