"""The content of the rows of count windows, partials or records, and the assembly of their windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import Field
from slicing.aggregates.kernel import locating
from slicing.aggregates.records import RecordKernel, kept_records
from slicing.aggregates.sorting import heads
from slicing.assembly.choice import EAGER
from slicing.assembly.ranges.row_runs import assemble_rows
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, place
from slicing.content.folding import fold_arrays, from_runs
from slicing.content.records import Records, columns_of
from slicing.content.sizes import at_once, even_runs
from slicing.windows.counting import CountingFamily

FOLDED_RECORDS = 1 << 20
"""The most records of the windows that are folded at once; a record counts once per window."""


class Content(Protocol):
    """The interface of the content of a row, which has a key and a slice. Rows are sorted by key and slice."""

    family: CountingFamily
    stored: Shape

    def lifted(self, records: Records, slices: Array, codes: Array, names: pa.Table, rows: Array) -> Block:
        """Return the rows of records, by key and slice; `rows` sorts the records by key, stably."""

    def windows(self, block: Block, lows: Array, counts: Array) -> Iterator[Windows]:
        """Yield for each row of a block `counts[i]` windows of its key, from window `lows[i]` on."""


def content(shape: Shape, trees: Sequence[str], arguments: Sequence[Sequence[int]], values: Sequence[Field]) -> Content:
    """Return the content of rows for results of this shape; `values` are the columns of records without the keys."""
    assert isinstance(shape.family, CountingFamily)
    if EAGER in trees:
        return Whole(shape, shape.family.by_record, arguments, values)
    return Partials(shape, shape.family, arguments)


class Partials:
    """Rows of partials of slices, for aggregates with `combine`. `stored` is also the shape of the results."""

    def __init__(self, stored: Shape, family: CountingFamily, arguments: Sequence[Sequence[int]]):
        self.stored, self.family, self.arguments = stored, family, arguments

    def lifted(self, records: Records, slices: Array, codes: Array, names: pa.Table, rows: Array) -> Block:
        """Return one row per key and slice."""
        starts = heads(codes[rows], slices[rows])
        return from_runs(self.stored, slices, codes, names, columns_of(records, self.arguments), rows, starts)

    def windows(self, block: Block, lows: Array, counts: Array) -> Iterator[Windows]:
        """Yield the windows, assembled from runs of rows, see `slicing.assembly.ranges.row_runs`."""
        return assemble_rows(self.stored, block, lows, counts)


class Whole:
    """Rows of records in order of arrival, for aggregates without `combine`: each window folds its own records.

    A row is a record: its only partial has all values of the record, and its time. `shape` is that of the results.
    """

    def __init__(
        self,
        shape: Shape,
        family: CountingFamily,
        arguments: Sequence[Sequence[int]],
        values: Sequence[Field],
    ):
        self.shape, self.family, self.arguments = shape, family, arguments
        self.stored = replace(shape, family=family, kernels=(record_kernel(values),), same={})

    def lifted(self, records: Records, slices: Array, codes: Array, names: pa.Table, rows: Array) -> Block:
        """Return one row per record."""
        (kernel,) = self.stored.kernels
        each = np.arange(len(rows))
        partials, dictionary = fold_arrays(kernel, [*records.values, pa.array(records.times)], rows, each)
        ones = np.ones(len(rows), dtype=np.int64)
        return Block(slices[rows], codes[rows], names, ones, [partials], [dictionary])

    def windows(self, block: Block, lows: Array, counts: Array) -> Iterator[Windows]:
        """Yield the windows, each folded from its records, about `FOLDED_RECORDS` records at a time."""
        (kernel,) = self.stored.kernels
        *values, times = kernel.to_arrow(block.partials[0], block.dictionaries[0])
        records = Records(block.index, np.asarray(times), block.names, values)
        numbers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        begins, windows = np.repeat(np.arange(len(block)), counts), np.repeat(lows, counts) + numbers
        for some in even_runs(0, len(windows), at_once(FOLDED_RECORDS, self.family.longest)):
            rows = slice(*some)
            yield self._folded(block, columns_of(records, self.arguments), begins[rows], windows[rows])

    def _folded(self, block: Block, columns: Sequence[Sequence[pa.Array]], begins: Array, windows: Array) -> Windows:
        """Return some windows, folded; `begins[i]` is the first row of the key of window i."""
        first = np.maximum(self.family.first_slice(windows), block.index[begins])
        last = np.searchsorted(block.keys, block.keys[begins], side="right") - 1
        each = np.minimum(self.family.end_slice(windows), block.index[last] + 1) - first
        starts = np.cumsum(each) - each
        rows = np.arange(each.sum()) + np.repeat(begins + first - block.index[begins] - starts, each)
        partials, dictionaries = [], []
        with locating(lambda at: place(self.stored, block.names, block.keys[rows[at]], block.index[rows[at]])):
            for kernel, arrays in zip(self.shape.kernels, columns, strict=True):
                folded, dictionary = fold_arrays(kernel, arrays, rows, starts)
                partials.append(folded)
                dictionaries.append(dictionary)
        return Windows(windows, block.keys[begins], block.names, each, partials, dictionaries)


def record_kernel(values: Sequence[Field]) -> RecordKernel:
    """Return the kernel of rows of one record each: a field for each value, which may be null, and one for the time."""
    return RecordKernel("record", kept_records((*values, Field("time", "bigint")), None))
