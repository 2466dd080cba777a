"""The rows that the soak must emit, computed from the records of its files and the watermarks of its micro-batches.

Nothing of the framework is used. The first window of a record is the first one that ends after its time, and after the
watermark that decides its lateness, minus the grace. Its last window is the last one that begins at or before its time.
So a window of a key has the records whose first window is not after it, minus those whose last window is before it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.soak.feed import START, STEP
from benchmarks.soak.windows import GRACE, LENGTHS

Array = npt.NDArray[np.int64]
_MINUTE = 60 * 10**6
_BEFORE = 200
"""The number of windows before the first record that are considered."""


@dataclass(frozen=True)
class Records:
    """Keys, times and values, and the watermarks that decided their lateness; times are in microseconds."""

    keys: Array
    times: Array
    values: Array
    watermarks: Array


@dataclass(frozen=True)
class Rows:
    """The emitted rows of one length: keys, window numbers, record counts, totals, and micro-batch numbers."""

    keys: Array
    windows: Array
    records: Array
    totals: Array
    batches: Array


def keep(checkpoint: Path, kept: Path) -> None:
    """Copy offsets and commits of completed micro-batches from a checkpoint, as Spark removes them after 100 more."""
    for name in ("offsets", "commits"):
        (kept / name).mkdir(parents=True, exist_ok=True)
    for done in (checkpoint / "commits").glob("[0-9]*"):
        if not (kept / "commits" / done.name).exists():
            shutil.copy(checkpoint / "offsets" / done.name, kept / "offsets")
            shutil.copy(done, kept / "commits")


def micro_batches(checkpoint: Path) -> list[tuple[int, int, int]]:
    """Return number, files read so far and watermark in microseconds of each completed micro-batch.

    `checkpoint` may also be a copy made by `keep`.
    """
    found = []
    for number in sorted(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")):
        _, times, source = (checkpoint / "offsets" / str(number)).read_text().splitlines()
        mark, read = json.loads(times)["batchWatermarkMs"], json.loads(source)["logOffset"] + 1
        found.append((number, read, mark * 1000))
    return found


def records_of(files: Path, done: list[tuple[int, int, int]]) -> Records:
    """Return all records that were read; the watermark of the previous micro-batch decides their lateness."""
    parts, read, previous = [], 0, 0
    for _, until, watermark in done:
        for number in range(read, until):
            table = pq.read_table(files / f"{number:06d}.parquet")
            times = table["ts"].cast("int64").to_numpy()
            parts.append((table["key"].to_numpy(), times, table["v"].to_numpy(), np.full(len(times), previous)))
        read, previous = until, watermark
    return Records(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def starts_and_ends(size: int, tail: int, count: int) -> tuple[Array, Array]:
    """Return starts and ends of windows 0 to `count` - 1, in microseconds; `size` and `tail` are in minutes."""
    ends = START + (np.arange(count) - _BEFORE + 1) * STEP
    starts = ends - size * _MINUTE
    return (starts // (tail * _MINUTE) * (tail * _MINUTE) if tail else starts), ends


class Truth:
    """The record counts and totals of all windows of one length."""

    def __init__(self, records: Records, size: int, tail: int, count: int):
        self.starts, self.ends = starts_and_ends(size, tail, count)
        first = np.searchsorted(self.ends, np.maximum(records.times, records.watermarks - GRACE), "right")
        last = np.searchsorted(self.starts, records.times, "right") - 1
        there = first <= last
        self.count, self.keys = count, int(records.keys.max()) + 1
        keys, values = records.keys[there], records.values[there]
        self.first_window_sums = _sums(keys * count + first[there], values)
        self.last_window_sums = _sums(keys * count + np.minimum(last[there] + 1, count - 1), values)

    def of(self, keys: Array, windows: Array) -> tuple[Array, Array]:
        """Return record counts and totals of some windows."""
        low, at = keys * self.count, keys * self.count + windows
        found = []
        for held in (0, 1):
            sums = (self.first_window_sums, self.last_window_sums)
            started, ended = (_until(of, at, held) - _until(of, low - 1, held) for of in sums)
            found.append(started - ended)
        return found[0], found[1]


def _sums(places: Array, values: Array) -> tuple[Array, Array, Array]:
    order = np.argsort(places, kind="stable")
    return places[order], np.arange(len(places) + 1), np.append(0, np.cumsum(values[order]))


def _until(of: tuple[Array, Array, Array], places: Array, held: int) -> Array:
    """The number of records at or before some places (`held` = 0), or their total (`held` = 1)."""
    return np.asarray(of[1 + held][np.searchsorted(of[0], places, "right")])


def rows_of(sink: Path, done: list[tuple[int, int, int]], starts: Mapping[str, tuple[Array, Array]]) -> dict[str, Rows]:
    """Return the sink's rows of completed micro-batches, by length. Raises AssertionError for unexpected edges."""
    found: dict[str, list[tuple[Array, ...]]] = {name: [] for name in starts}
    for number, *_ in done:
        folder = sink / f"{number:06d}"
        table = pq.read_table(folder) if list(folder.glob("*.parquet")) else None
        for name, (begin, ends) in starts.items() if table is not None and len(table) else ():
            some = table.filter(np.asarray(table["windows"]) == name)
            edges = [_microseconds(some["window"].combine_chunks().field(edge)) for edge in ("start", "end")]
            windows = np.searchsorted(ends, edges[1])
            assert np.array_equal(begin[windows], edges[0]), f"{name}: windows of other edges"
            assert np.array_equal(ends[windows], edges[1]), f"{name}: windows of other edges"
            columns = (some[column].to_numpy() for column in ("records", "total"))
            found[name].append((some["key"].to_numpy(), windows, *columns, np.full(len(some), number)))
    return {name: Rows(*(np.concatenate(column) for column in zip(*of, strict=True))) for name, of in found.items()}


def _microseconds(times: pa.Array) -> Array:
    """The times in microseconds; Spark writes nanoseconds by default."""
    return np.asarray(times.cast(pa.timestamp("us")).cast("int64").to_numpy())


def differences(files: Path, sink: Path, checkpoint: Path, changed: int) -> list[str]:
    """Return the differences between the sink and the truth, one per line; empty if all rows are right.

    From micro-batch `changed` on, windows fire by `on_change()`, so a window with the same result as the previous one
    may be missing. Before that, each window with a record must fire.
    """
    done = micro_batches(checkpoint)
    records, closed = records_of(files, done), done[-1][2]
    count = _BEFORE + done[-1][1] + 300
    edges = {name: starts_and_ends(*minutes, count) for name, minutes in LENGTHS.items()}
    emitted, found = rows_of(sink, done, edges), []
    changes = next((mark for number, _, mark in done if 0 < changed <= number + 1), closed)
    for name, minutes in LENGTHS.items():
        rows, truth = emitted[name], Truth(records, *minutes, count)
        last = int(np.searchsorted(truth.ends + GRACE, closed, "right"))
        places = rows.keys * count + rows.windows
        if len(np.unique(places)) < len(places):
            found.append(f"{name}: {len(places) - len(np.unique(places)):,} windows were emitted twice")
        right = [a == b for a, b in zip(truth.of(rows.keys, rows.windows), (rows.records, rows.totals), strict=True)]
        if wrong := int((~(right[0] & right[1])).sum()):
            found.append(f"{name}: {wrong:,} of {len(places):,} rows are wrong")
        if missing := _missing(truth, places, last, int(np.searchsorted(truth.ends + GRACE, changes, "right"))):
            found.append(f"{name}: {missing:,} windows were not emitted")
    return found


def _missing(truth: Truth, places: Array, last: int, changes: int) -> int:
    """The number of missing windows before `last` that hold records; from `changes` on, only changed ones."""
    missing, known = 0, np.sort(places)
    windows = np.arange(last)
    for key in range(truth.keys):
        at = np.full(last, key)
        counts, totals = truth.of(at, windows)
        must = counts > 0
        same = np.append(False, (counts[1:] == counts[:-1]) & (totals[1:] == totals[:-1]))
        must &= ~(same & (windows >= changes))
        wanted = key * truth.count + windows[must]
        there = known[np.minimum(np.searchsorted(known, wanted), max(0, len(known) - 1))] if len(known) else wanted - 1
        missing += int((there != wanted).sum())
    return missing
