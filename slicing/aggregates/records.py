"""Partials that hold records: a partial is a run of rows of one Arrow table, which all rows of a block share.

::

    rows of a block, by key and slice      a 0    a 1    b 0
    their partials, first and end          0 3    3 4    4 6
    the table of records                   . . .  .      . .         in the order of the rows; within a row by time

A record is stored once, however many windows hold it. In a block sorted by key and slice, the rows of a window are
consecutive, and so are their records. A window is therefore also a run of the table. It is found from its first and its
last row, without combining or copying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.arrays import Array, Partials, is_varying
from slicing.aggregates.arrow import cast
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.record_file import RecordFile


def _none() -> None:
    return None


def _never(*_: object) -> NoReturn:
    raise AssertionError("records are put together by their places, and not combined")


@dataclass(frozen=True, kw_only=True, repr=False)
class KeptRecords(Aggregate):
    """The aggregate that keeps the records of a slice or window: `values` are their columns, as they are stored.

    `time` is the position of the column by which the records of a row are sorted; None keeps the order of arrival.
    `call` makes rows with the fields `rows` from the records of a window. The records may take at most `window_bytes`;
    None for the default limit. `call` gets all records at once, or part by part if `by_parts`.
    """

    values: tuple[Field, ...]
    time: int | None = None
    rows: tuple[Field, ...] = ()
    call: Any = None
    window_bytes: int | None = None
    by_parts: bool = False

    @property
    def keeps_records(self) -> bool:
        """True: partials hold the records."""
        return True

    @property
    def fields(self) -> tuple[Field, ...]:
        """One field, a list of records."""
        return (Field("records", f"array<{self.record}>"),)

    @property
    def record(self) -> str:
        """The kind of a record, with column positions; the column names are in the fingerprint."""
        return f"struct<{','.join(f'v{at}:{field.kind}' for at, field in enumerate(self.values))}>"

    @property
    def results(self) -> tuple[Field, ...]:
        """The fields of the rows that are made from a window."""
        return self.rows


def kept_records(values: Sequence[Field], time: int | None, **options: Any) -> KeptRecords:
    """Return the aggregate that keeps records of these columns."""
    return KeptRecords(_none, _never, _never, values=tuple(values), time=time, laws=False, nulls=True, **options)


class RecordsKernel(Kernel):
    """The kernel of records; partials are two `int64[n]`: the first record of each row, and the end of its run."""

    width = 2
    aggregate: KeptRecords

    @property
    def record_type(self) -> pa.DataType:
        """The Arrow type of a record."""
        return arrow_type(self.aggregate.record)

    @property
    def no_dictionary(self) -> pa.Array:
        return pa.array([], self.record_type)

    @property
    def object_bytes(self) -> float:
        return 0.0

    def spread(self, shape: int | tuple[int, ...]) -> Partials:
        return [np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)]

    def singles(self, arrays: Sequence[pa.Array]) -> tuple[Partials, pa.Array]:
        record = self.record_type
        columns = [cast(array, field.type) for array, field in zip(arrays, record.fields, strict=True)]
        each = np.arange(len(columns[0]))
        return [each, each + 1], pa.StructArray.from_arrays(columns, fields=record.fields)

    def joined(self, partials: Partials, dictionary: pa.Array | None, starts: Array) -> tuple[Partials, pa.Array]:
        """Return runs of rows merged into one row each, over a table with their records in the order of the runs."""
        if isinstance(dictionary, RecordFile):
            return dictionary.joined(partials, starts), dictionary
        first, end = partials
        counts = end - first
        sizes = np.add.reduceat(counts, starts) if len(starts) else counts[:0]
        ends, rows = np.cumsum(sizes), expanded(first, counts)
        records = taken(dictionary, rows)
        if (order := self._order(records, sizes, rows)) is not None:
            records = records.take(pa.array(order))
        return [ends - sizes, ends], records

    def _order(self, records: pa.Array, sizes: Array, rows: Array) -> Array | None:
        """Return the order of the records by row and time; None if they are in order.

        Records of one time stay in the order of their table, `rows`: runs of sessions are not in the order of arrival.
        """
        if self.aggregate.time is None or len(records) < 2:
            return None
        times = times_of(records, self.aggregate.time)
        groups = np.repeat(np.arange(len(sizes)), sizes)
        later = np.diff(times)
        if np.all((later > 0) | ((later == 0) & (np.diff(rows) > 0)) | (np.diff(groups) > 0)):
            return None
        found: Array = np.lexsort((rows, times, groups))
        return found

    def unified(
        self, partials: Sequence[Partials], dictionaries: Sequence[pa.Array | None]
    ) -> tuple[list[Partials], pa.Array]:
        if all(dictionary is dictionaries[0] for dictionary in dictionaries):
            return list(partials), dictionaries[0]
        if files := [each for each in dictionaries if isinstance(each, RecordFile)]:
            return list(partials), files[0]  # the other dictionaries belong to rows without records
        parts = [_compact(*pair) for pair in zip(partials, dictionaries, strict=True)]
        offsets = np.cumsum([0] + [len(records) for _, records in parts])
        moved = [[column + at for column in some] for at, (some, _) in zip(offsets, parts, strict=False)]
        return moved, pa.concat_arrays([records for _, records in parts])

    def runs(self, partials: Partials, low: Array, high: Array) -> Partials:
        first, end = partials
        return [first[low], end[high - 1]]

    def to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        (first, end), records = _compact(partials, dictionary)
        offsets = np.append(first, end[-1:] if len(end) else 0).astype(np.int32)
        return [pa.ListArray.from_arrays(pa.array(offsets), records).cast(arrow_type(self.fields[0].kind))]

    def from_arrow(
        self, arrays: Sequence[pa.Array], dictionary: pa.Array | None = None
    ) -> tuple[Partials, pa.Array | None]:
        (lists,) = arrays
        offsets = np.asarray(lists.offsets, dtype=np.int64)
        return [offsets[:-1], offsets[1:]], lists.values

    def sizes(self, partials: Partials, dictionary: pa.Array | None) -> Array:
        """Return the bytes of each partial, `float64[n]`; text and binaries exactly, other values by their mean."""
        assert dictionary is not None
        first, end = partials
        if isinstance(dictionary, RecordFile):
            return 4.0 + dictionary.nbytes / max(1, len(dictionary)) * (end - first)
        found, others = np.full(len(first), 4.0), 0.0
        for column, field in zip(dictionary.flatten(), self.aggregate.values, strict=True):
            if is_varying(field):
                lengths = np.asarray(pc.binary_length(column).fill_null(0), dtype=np.int64)
                before = np.concatenate([[0], np.cumsum(lengths)])
                found += before[end] - before[first]
                others += 4.0
            else:
                others += column.nbytes / max(1, len(column))
        return found + others * (end - first)

    def lengths(self, partials: Partials, dictionary: pa.Array | None) -> Array | float:
        return 0.0 if dictionary is None else self.sizes(partials, dictionary)

    def memory(self, partials: Partials, dictionary: pa.Array | None) -> float:
        return float(np.sum(self.sizes(partials, dictionary))) + 16.0 * len(partials[0])

    def results_to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        """Return nulls, for late partials and retractions; the function of the call makes rows from windows."""
        return [pa.nulls(len(partials[0]), arrow_type(field.kind)) for field in self.results]


class RecordKernel(RecordsKernel):
    """The kernel of rows that hold one record each, stored as one column per value."""

    def __init__(self, label: str, aggregate: KeptRecords):
        super().__init__(label, aggregate)
        self.fields = aggregate.values

    def to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        columns: list[pa.Array] = taken(dictionary, partials[0]).flatten()
        return columns

    def from_arrow(
        self, arrays: Sequence[pa.Array], dictionary: pa.Array | None = None
    ) -> tuple[Partials, pa.Array | None]:
        return self.singles(arrays)


def times_of(records: pa.Array, at: int) -> Array:
    """Return the times of records in microseconds, `int64[n]`."""
    return np.asarray(records.field(at).cast(pa.int64()))


def expanded(first: Array, counts: Array) -> Array:
    """Return the numbers of all rows of runs, run after run.

    >>> expanded(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    before = np.cumsum(counts) - counts
    rows: Array = np.arange(int(counts.sum())) + np.repeat(first - before, counts)
    return rows


def taken(records: pa.Array, rows: Array) -> pa.Array:
    """Return the records at `rows`; they are not copied if the rows are consecutive."""
    count = len(rows)
    if count and rows[-1] - rows[0] == count - 1 and (count < 2 or bool((np.diff(rows) == 1).all())):
        return records.slice(int(rows[0]), count)
    return records.take(pa.array(rows))


def _compact(partials: Partials, records: pa.Array) -> tuple[Partials, pa.Array]:
    """Return partials over a table that has only their own records, in the order of the rows."""
    first, end = partials
    counts = end - first
    ends = np.cumsum(counts)
    return [ends - counts, ends], taken(records, expanded(first, counts))
