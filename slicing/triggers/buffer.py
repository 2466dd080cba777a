"""`buffer=`: a limit on the (key, window) pairs that wait for a firing, as Kafka's `BufferConfig`.

::

    buffer(records=2)    waiting, by how long:  a 12:00   b 12:01   c 12:02
    full="emit"                                 fires     waits     waits
    full="fail"                                 the query stops
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.errors import InvalidType, InvalidValue, TooLarge, excerpt
from slicing.triggers.candidates import Candidates

Full = Literal["emit", "fail"]
EMIT: Full = "emit"
FAIL: Full = "fail"
FULL = (EMIT, FAIL)
"""The reactions to a full buffer: fire the oldest pairs, or stop the query."""


@dataclass(frozen=True)
class Buffer:
    """The limit of the waiting pairs of a bucket: `records` pairs, or `bytes` bytes. Printing one shows its call."""

    records: int | None = None
    bytes: int | None = None
    full: Full = EMIT

    @property
    def meaning(self) -> str:
        """Return the limit in a few words."""
        bounds = [f"{self.records:,} windows of keys"] if self.records is not None else []
        bounds += [f"{self.bytes:,} bytes of them"] if self.bytes is not None else []
        then = "then the oldest fire" if self.full == EMIT else "more stop the query"
        return f"at most {' or '.join(bounds)} wait in a bucket, {then}"

    def overflow(
        self, some: Sequence[Candidates], waits: Sequence[Array], since: Sequence[Array], size: int
    ) -> list[Array]:
        """Return which waiting pairs fire because the buffer is full: `bool[n]` for each of `some`.

        `waits` says which pairs wait, `since` has the clock or the event time at which each began to wait, and `size`
        is the bytes of one pair. The pairs that have waited longest fire first; ties are broken by the start of the
        window, then by the values of the key. Raises TooLarge if the buffer is full and `full` is "fail".
        """
        held, limit = sum(int(np.count_nonzero(each)) for each in waits), self._limit(size)
        if held <= limit:
            return [np.zeros(len(each), dtype=bool) for each in some]
        if self.full == FAIL:
            raise TooLarge(
                f"{held:,} windows of keys wait in a bucket, and {self} has room for {limit:,}. Allow more, let "
                'windows fire sooner, or say full="emit".'
            )
        order = np.argsort(_ranks(some, since), kind="stable")
        waiting = np.concatenate(waits)
        fires = np.zeros(len(order), dtype=bool)
        fires[order[waiting[order]][: held - limit]] = True
        return np.split(fires, np.cumsum([len(each) for each in some])[:-1])

    def check_room(self, size: int, keeps_records: bool) -> None:
        """Raise InvalidValue if `bytes` has no room for one pair of `size` bytes, or records are kept with pairs."""
        if self.bytes is None:
            return
        if keeps_records:
            raise InvalidValue(
                "`bytes` bounds the results that wait, by an estimate of their size, and `process` and `evict` keep "
                f"records instead, whose size it does not know; got {self}. Bound the number of windows: "
                "buffer(records=100_000)."
            )
        if self.bytes < size:
            raise InvalidValue(
                f"`bytes` must have room for one window of a key, whose results and key take about {size:,} bytes; "
                f"got {self}. Allow more, or bound their number: buffer(records=100_000)."
            )

    def _limit(self, size: int) -> int:
        limits = [self.records] if self.records is not None else []
        limits += [self.bytes // size] if self.bytes is not None else []
        return min(limits)

    def __repr__(self) -> str:
        said = [f"{name}={value}" for name, value in (("records", self.records), ("bytes", self.bytes)) if value]
        return f"buffer({', '.join(said + ([f'full={self.full!r}'] if self.full != EMIT else []))})"


def _ranks(some: Sequence[Candidates], since: Sequence[Array]) -> Array:
    """Return the position of each pair in the order of firing: `int64[n]`, over all of `some` together."""
    tables = []
    for each, times in zip(some, since, strict=True):
        extents = each.extents()
        table = pa.table({"since": times, "start": extents.start, "end": extents.end})
        names = extents.names.take(pa.array(extents.keys))
        for at, column in enumerate(names.columns):
            table = table.append_column(f"key {at}", column)
        tables.append(table)
    table = pa.concat_tables(tables)
    order = np.asarray(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names]))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def buffer(*, records: int | None = None, bytes: int | None = None, full: Full = EMIT) -> Buffer:
    """Limit the number of (key, window) pairs per bucket that have new records and wait for an early firing.

    At most `records` pairs wait, or as many as fit into `bytes`, by an estimate of the size of their results and keys.
    If there are more, the oldest pairs fire (`full="emit"`), or the query stops (`full="fail"`). The oldest pairs are
    those that have waited longest, then those whose window starts first. A pair waits from the clock of the micro-batch
    that brought its first record since its last firing; with `after=, by="event"` from the event time of that record.
    For `early(..., buffer=...)`. It is checked at the end of each micro-batch, without timers, and bounds how many
    results are missing downstream: memory it does not bound. With `process` and `evict` use `records`. Raises
    InvalidValue, InvalidType. Cost: every micro-batch reads the memory of all open windows.

    >>> buffer(records=1000)
    buffer(records=1000)
    """
    if records is None and bytes is None:
        raise InvalidValue("`buffer` takes `records`, `bytes`, or both: buffer(records=100_000).")
    for name, value in (("records", records), ("bytes", bytes)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise InvalidType(f"`{name}` must be a whole number; got {excerpt(value)}.")
        if value is not None and value < 1:
            raise InvalidValue(
                f"`{name}` must be positive; got {excerpt(value)}. For a firing in every micro-batch use on_update()."
            )
    if full not in FULL:
        raise InvalidValue(f"`full` takes {', '.join(FULL)}; got {excerpt(full)}.")
    return Buffer(records, bytes, full)
