"""The records of a window, one part at a time, for functions with `batches=True`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from slicing.aggregates.arrays import Array

Part: TypeAlias = tuple[pa.Table, Array]
"""Some of the records, and their times in microseconds."""


@dataclass(frozen=True)
class Parts:
    """Records in their order. Each call of `read` iterates over all of them, one part of bounded size at a time."""

    read: Callable[[], Iterator[Part]]

    def __iter__(self) -> Iterator[Part]:
        return (part for part in self.read() if len(part[0]))

    def left(self, kept: Callable[[pa.Table, Array, int], slice | Array]) -> Parts:
        """Return the records that `kept` selects from each part, as a range or as booleans.

        `kept` gets the records, their times, and the position of the first of them in the window.
        """

        def read() -> Iterator[Part]:
            place = 0
            for records, times in self:
                chosen = kept(records, times, place)
                place += len(records)
                yield chosen_of(records, chosen), times[chosen]

        return Parts(read)


def chosen_of(records: pa.Table, kept: slice | Array) -> pa.Table:
    """Return the records of a range, without a copy, or those whose boolean is true."""
    if isinstance(kept, slice):
        return records.slice(kept.start, max(0, kept.stop - kept.start))
    return records.filter(pa.array(kept))
