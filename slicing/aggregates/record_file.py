"""Records of a window in a temporary file, for windows that do not fit into memory: written once, read part by part.

::

    file       part 0      part 1      part 2          bounded in rows and bytes, each one Arrow batch
    records    0 .. 64k    .. 128k     .. 150k         in their order, as in a table of records in memory
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import IO, TypeAlias

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array, Partials

PART_ROWS = 1 << 16
PART_BYTES = 4 << 20
"""The maximum number of rows and the approximate maximum of bytes of a part of a window's records."""


class RecordFile:
    """Records of one Arrow struct type in a file, deleted when closed; a place is the number of a record in it."""

    def __init__(self, type_: pa.DataType):
        self.type = type_
        self.schema = pa.schema(list(type_))
        self.nbytes = 0
        self._file: IO[bytes] | None = None
        self._ends: list[int] = []  # the end of each part, as a place
        self._at: list[tuple[int, int]] = []  # offset and length in bytes of each part in the file

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def put(self, records: pa.StructArray) -> None:
        """Append records, in parts."""
        for part in array_parts(records, 0, len(records)):
            data = pa.RecordBatch.from_arrays(part.flatten(), schema=self.schema).serialize()
            self._file = self._file or temporary()
            at = self._file.seek(0, os.SEEK_END)
            self._file.write(data)
            self._at.append((at, data.size))
            self._ends.append(len(self) + len(part))
            self.nbytes += data.size

    def parts(self, first: int, end: int) -> Iterator[pa.StructArray]:
        """Yield the records of places `first` up to but not including `end`, part by part."""
        number = bisect_right(self._ends, first)
        while first < end:
            until = min(end, self._ends[number])
            start = self._ends[number - 1] if number else 0
            yield self._part(number).slice(first - start, until - first)
            first, number = until, number + 1

    def _part(self, number: int) -> pa.StructArray:
        assert self._file is not None, "there are records"
        at, length = self._at[number]
        self._file.seek(at)
        batch = pa.ipc.read_record_batch(pa.py_buffer(self._file.read(length)), self.schema)
        return pa.StructArray.from_arrays(batch.columns, fields=list(self.schema))

    def joined(self, partials: Partials, starts: Array) -> Partials:
        """Merge runs of rows into one row each; the rows with records must be consecutive in the file."""
        first, end = partials
        counts = end - first
        held = np.flatnonzero(counts)
        assert np.all(first[held[1:]] == end[held[:-1]]), "one window, in its order"
        sizes = np.add.reduceat(counts, starts) if len(starts) else counts[:0]
        ends = np.cumsum(sizes) + (int(first[held[0]]) if len(held) else 0)
        return [ends - sizes, ends]

    def close(self) -> None:
        """Delete the file."""
        if self._file:
            self._file.close()


Records: TypeAlias = pa.StructArray | RecordFile
"""Records in memory, or in a file."""


def parts_of(records: Records, first: int, end: int) -> Iterator[pa.StructArray]:
    """Yield the records of places `first` up to but not including `end`, in parts of bounded size."""
    return records.parts(first, end) if isinstance(records, RecordFile) else array_parts(records, first, end)


def array_parts(records: pa.StructArray, first: int, end: int) -> Iterator[pa.StructArray]:
    """Yield the same as `parts_of` for records in memory; no records are copied."""
    each = records.nbytes / max(1, len(records))
    step = max(1, min(PART_ROWS, int(PART_BYTES / max(1.0, each))))
    return (records.slice(at, min(step, end - at)) for at in range(first, end, step))


def whole(parts: Sequence[pa.StructArray], type_: pa.DataType) -> pa.StructArray:
    """Concatenate parts."""
    return pa.concat_arrays(parts) if parts else pa.array([], type_)


def temporary() -> IO[bytes]:
    """Return a temporary file in the directory where Spark's workers spill; `/tmp` may be in memory."""
    directory = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return tempfile.TemporaryFile(dir=directory or None)
