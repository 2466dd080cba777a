"""Write the records of one window of one key, which do not fit into memory, to a file in order.

Slices that fit together are sorted in memory. A slice that does not fit is split by time::

    as stored    a c b | b d a | e c                   runs of records, each run ordered by time
    in a file    a c b b d a e c                       all runs; nothing else is done if they are in order
    split        a b b a | c d c | e                   ranges of time that fit, each in the order of arrival
    in order     a a b b | c c d | e                   the sorted ranges, one after another
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.record_file import RecordFile, whole
from slicing.aggregates.records import RecordsKernel, expanded, taken, times_of
from slicing.content.block import Block, Shape, concat
from slicing.content.folding import regroup

SAMPLE = 64
"""One of this number of times of a large slice is sampled, to find ranges of time that fit."""


def written(
    shape: Shape,
    ranges: Iterable[tuple[int, int, bool]],
    read: Callable[[int, int], Iterator[Block]],
    file: RecordFile,
    most: int,
) -> Block:
    """Write the records of ranges of slices to a file, and return a folded block whose partials refer to the file.

    A range is (first slice, end, whether its rows take at most `most` bytes). A range that does not fit is a single
    slice. `read(first, end)` yields the rows of slices, those of a slice in order. All rows must have the same key.
    """
    index, counts, names = [], [], shape.key_schema.empty_table()
    for first, end, fits in ranges:
        if fits:
            block = regroup(shape, concat(shape, list(read(first, end))))
            if len(block):
                file.put(block.dictionaries[0])
                index.append(block.index)
                counts.append(block.records)
                names = block.names.slice(int(block.keys[0]), 1)
        else:
            before = len(file)
            names = _one_slice(shape, read(first, end), file, most) or names
            index.append(np.array([first]))
            counts.append(np.array([len(file) - before]))
    records = np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)
    ends = np.cumsum(records)
    slices = np.concatenate(index) if index else records
    return Block(slices, np.zeros_like(records), names, records, [[ends - records, ends]], [file])


def _one_slice(shape: Shape, blocks: Iterator[Block], file: RecordFile, most: int) -> pa.Table | None:
    """Append the records of one slice to a file in the order of time, and return the key of the slice.

    Records of equal time keep their order.
    """
    (kernel,) = shape.kernels
    assert isinstance(kernel, RecordsKernel), "others fold"
    at, key = kernel.aggregate.time, None
    with closing(RecordFile(file.type)) as unsorted:
        samples, latest, is_sorted = [], -(1 << 63), True
        for block in blocks:
            key = block.names.slice(int(block.keys[0]), 1)
            first, end = block.partials[0]
            records = taken(block.dictionaries[0], expanded(first, end - first))
            unsorted.put(records)
            if at is not None and len(records):
                times = times_of(records, at)
                is_sorted &= latest <= int(times[0]) and bool(np.all(times[1:] >= times[:-1]))
                latest = max(latest, int(times.max()))
                samples.append(times[::SAMPLE].copy())
        if at is None or is_sorted:
            _append(unsorted, file)
        else:
            _by_time(unsorted, at, _cuts(np.sort(np.concatenate(samples)), unsorted.nbytes, most), file)
    return key


def _append(source: RecordFile, file: RecordFile) -> None:
    for part in source.parts(0, len(source)):
        file.put(part)


def _cuts(samples: Array, size: int, most: int) -> Array:
    """Return the sorted times that separate ranges of about `most` / 2 bytes; equal times stay in one range."""
    count = 2 * size // most + 1
    cuts: Array = np.unique(samples[np.arange(1, count) * len(samples) // count])
    return cuts


def _by_time(unsorted: RecordFile, at: int, cuts: Array, file: RecordFile) -> None:
    """Append records to a file in the order of time, range by range."""
    with ExitStack() as stack:
        ranges = [stack.enter_context(closing(RecordFile(file.type))) for _ in range(len(cuts) + 1)]
        for part in unsorted.parts(0, len(unsorted)):
            numbers = np.searchsorted(cuts, times_of(part, at), side="right")
            for number in np.unique(numbers).tolist():
                ranges[number].put(part.take(pa.array(np.flatnonzero(numbers == number))))
        for number, some in enumerate(ranges):
            if _is_one_time(some, at, cuts, number):
                _append(some, file)
                continue
            records = whole(list(some.parts(0, len(some))), file.type)
            file.put(records.take(pa.array(np.argsort(times_of(records, at), kind="stable"))))


def _is_one_time(some: RecordFile, at: int, cuts: Array, number: int) -> bool:
    """Return whether all records of a range have the time of its lower edge, so that they need no sorting."""
    if not number or not len(some):
        return False
    return all(bool(np.all(times_of(part, at) == cuts[number - 1])) for part in some.parts(0, len(some)))
