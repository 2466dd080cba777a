"""Records that are shuffled without pre-aggregation, for aggregates that cannot be assembled from partials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.aggregates.kernel import locating
from slicing.aggregates.sorting import order
from slicing.content.block import Block, Shape, empty, encode_keys, place
from slicing.content.folding import fold_arrays, from_records
from slicing.errors import RowFailure


@dataclass(frozen=True)
class Records:
    """Records in the order of the input.

    `index` has their slices and `times` their event times in microseconds, `int64[n]` each. `names` has the leaves of
    their keys, and `values` the columns of values.
    """

    index: Array
    times: Array
    names: pa.Table
    values: list[pa.Array]

    def take(self, rows: Array) -> Records:
        """Return some of the records."""
        chosen = pa.array(rows)
        return Records(
            self.index[rows], self.times[rows], self.names.take(chosen), [value.take(chosen) for value in self.values]
        )

    def slice(self, start: int, count: int) -> Records:
        """Return a run of records without a copy."""
        rows = slice(start, start + count)
        values = [value.slice(start, count) for value in self.values]
        return Records(self.index[rows], self.times[rows], self.names.slice(start, count), values)


def fold_records(shape: Shape, batches: Sequence[Records], arguments: Sequence[Sequence[int]]) -> Block:
    """Return one folded block of all records, aggregated in their order."""
    batches = [records for records in batches if len(records.index)]
    if not batches:
        return empty(shape)
    records = joined(batches)
    codes, names = encode_keys(records.names)
    return from_records(shape, records.index, codes, names, columns_of(records, arguments))


def joined(batches: Sequence[Records]) -> Records:
    """Return all records of the batches in order. There must be at least one batch."""
    slices, times = (np.concatenate([getattr(r, name) for r in batches]) for name in ("index", "times"))
    values = [pa.concat_arrays(arrays) for arrays in zip(*(records.values for records in batches), strict=True)]
    return Records(slices, times, pa.concat_tables([records.names for records in batches]), values)


def columns_of(records: Records, arguments: Sequence[Sequence[int]]) -> list[list[pa.Array]]:
    """Return the input columns of each kernel, given by their positions in `values`; -1 is the event time."""
    times = pa.array(records.times)
    return [[times if i < 0 else records.values[i] for i in positions] for positions in arguments]


def fold_onto(shape: Shape, page: Block, window: int, records: Records, arguments: Sequence[Sequence[int]]) -> Block:
    """Return a page of one window after adding records in their order.

    `agg` continues from the stored partial; aggregates with `combine` fold the records first and then combine.
    """
    codes, names = encode_keys(pa.concat_tables([page.names, records.names]))
    known, codes = codes[page.keys], codes[len(page.names) :]
    rows, starts = order(np.zeros_like(codes), codes)
    heads = codes[rows[starts]]
    counts = np.zeros(len(names), dtype=np.int64)
    counts[known] = page.records
    counts[heads] += np.diff(np.append(starts, len(rows)))
    partials, dictionaries = [], []
    times = pa.array(records.times)
    with locating(lambda index: place(shape, names, codes[rows[index]], records.index[rows[index]])):
        for kernel, old, old_dictionary, positions in zip(
            shape.kernels, page.partials, page.dictionaries, arguments, strict=True
        ):
            arrays = [times if i < 0 else records.values[i] for i in positions]
            columns = kernel.spread(len(names))
            for column, there in zip(columns, old, strict=True):
                column[known] = there
            if kernel.aggregate.combine is None:
                added, dictionary = fold_arrays(kernel, arrays, rows, starts, onto=[c[heads] for c in columns])
            else:
                new, new_dictionary = fold_arrays(kernel, arrays, rows, starts)
                (columns, new), dictionary = kernel.unified([columns, new], [old_dictionary, new_dictionary])
                try:
                    added = kernel.combine([c[heads] for c in columns], new)
                except RowFailure as failure:
                    raise failure.at(int(starts[failure.index])) from failure.__cause__
            for column, item in zip(columns, added, strict=True):
                column[heads] = item
            partials.append(columns)
            dictionaries.append(dictionary)
    return Block(np.full(len(names), window), np.arange(len(names)), names, counts, partials, dictionaries)


def encode_records(shape: Shape, records: Records) -> bytes:
    """Return records as an Arrow stream: slice, event time, the key's leaves, values."""
    columns = {"slice": pa.array(records.index), "time": pa.array(records.times)}
    columns |= dict(zip(shape.key_schema.names, records.names.columns, strict=True))
    columns |= {f"v{i}": value for i, value in enumerate(records.values)}
    table = pa.table(columns).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def decode_records(shape: Shape, data: bytes) -> Records:
    """Return the records of an Arrow stream: the inverse of `encode_records`."""
    table = pa.ipc.open_stream(data).read_all()
    first = 2 + len(shape.keys)
    slices, times = (np.asarray(table[name].combine_chunks()) for name in ("slice", "time"))
    values = [column.combine_chunks() for column in table.columns[first:]]
    return Records(slices, times, table.select(range(2, first)), values)


def sorted_by(column: pa.Array) -> Array:
    """Return the rows in the order in which Spark sorts a column: nulls first, NaN last, equal values as before."""
    if pa.types.is_floating(column.type):
        # Arrow would put NaN next to nulls, and would distinguish -0.0 from 0.0.
        rows = np.argsort(np.asarray(column.fill_null(0.0)), kind="stable")
    else:
        rows = np.asarray(pc.sort_indices(column)).astype(np.int64)
    valid = np.asarray(column.is_valid())
    return rows[np.argsort(valid[rows], kind="stable")]
