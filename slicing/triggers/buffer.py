"""`buffer=`: a bound on the pairs of key and window that wait for a firing, as Kafka's `BufferConfig`.

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
"""What happens to a buffer that is full."""


@dataclass(frozen=True)
class Buffer:
    """At most `records` pairs, or as many as take `bytes`, wait in a bucket. Printing one shows its call."""

    records: int | None = None
    bytes: int | None = None
    full: Full = EMIT

    @property
    def meaning(self) -> str:
        """The bound, in a few words."""
        bounds = [f"{self.records:,} windows of keys"] if self.records is not None else []
        bounds += [f"{self.bytes:,} bytes of them"] if self.bytes is not None else []
        then = "then the oldest fire" if self.full == EMIT else "more stop the query"
        return f"at most {' or '.join(bounds)} wait in a bucket, {then}"

    def pushed(
        self, some: Sequence[Candidates], waits: Sequence[Array], since: Sequence[Array], size: int
    ) -> list[Array]:
        """Return which of the pairs that wait fire because the buffer is full: `bool[n]` for each of `some`.

        `since` says since when they wait, and `size` how many bytes one of them takes. Of those that wait for equally
        long the window that starts first fires first, then by the values of the key. Raises TooLarge if it fails.
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
        pushed = np.zeros(len(order), dtype=bool)
        pushed[order[waiting[order]][: held - limit]] = True
        return np.split(pushed, np.cumsum([len(each) for each in some])[:-1])

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
    """The place of each pair in the order in which they fire."""
    tables = []
    for each, begun in zip(some, since, strict=True):
        extents = each.extents()
        table = pa.table({"since": begun, "start": extents.start, "end": extents.end})
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
    """Bound what waits for an early firing: pairs of key and window with records since they fired last, per bucket.

    At most `records` pairs wait, or as many as take `bytes`, by an estimate of their results and keys. If there are
    more the oldest fire ("emit"), or the query stops ("fail"): those that have waited for longest, by what the trigger
    goes by; then those of the window that starts first. For `early(..., buffer=...)`. Raises InvalidValue, InvalidType.
    Cost: a look at all open windows in each micro-batch.

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
                f"`{name}` must be positive; got {excerpt(value)}. For every micro-batch use on_update()."
            )
    if full not in FULL:
        raise InvalidValue(f"`full` takes {', '.join(FULL)}; got {excerpt(full)}.")
    return Buffer(records, bytes, full)
