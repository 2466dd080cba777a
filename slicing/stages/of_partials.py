"""The first stage for a table of partials: its rows become blocks without `agg`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import arrow_type, width_of
from slicing.content.block import Block, encode_keys
from slicing.content.folding import regroup
from slicing.errors import InvalidValue
from slicing.stages.preaggregate import Dropped, PreAggregate, plain
from slicing.windows.time.durations import show_instant


@dataclass(frozen=True)
class OfPartials(PreAggregate):
    """`PreAggregate` for rows with columns time, stop, the key's leaves, records, then the fields of all kernels.

    `time` and `stop` are the start and the end of a slice in microseconds. A slice of the table must lie within one
    slice of `shape`. `until` is the end of a history in microseconds; no slice may contain it inside.

    `first` has for each family the first window that is made of the table. Slices that were merged, because no later
    window begins or ends inside them, may then lie in several slices of `shape`.
    """

    until: int | None = None
    first: tuple[int, ...] | None = None

    def _read(self, chunk: pa.Table, refused: Dropped) -> Block:  # type: ignore[override]
        if chunk["time"].null_count:
            without = chunk.filter(chunk["time"].is_null())
            refused.no_time += pc.sum(without["records"]).as_py() or 0
            chunk = chunk.filter(chunk["time"].is_valid())
        start, stop = (np.asarray(chunk[name].combine_chunks()) for name in ("time", "stop"))
        slices, records = self._slices(start, stop), np.asarray(chunk["records"].combine_chunks())
        names_to = 2 + len(self.shape.keys)
        names = pa.table([plain(column) for column in chunk.columns[2:names_to]], schema=self.shape.key_schema)
        codes, names = encode_keys(names)
        fields = iter(chunk.columns[names_to + 1 :])
        partials, dictionaries = [], []
        for kernel in self.shape.kernels:
            arrays = [_typed(next(fields), field.kind) for field in kernel.fields]
            found, dictionary = kernel.from_arrow(arrays)
            partials.append(found)
            dictionaries.append(dictionary)
        block = Block(slices, codes, names, records, partials, dictionaries)
        if self.shape.family.has_gaps:
            inside = ~np.broadcast_to(self.shape.family.in_gap(slices), slices.shape)
            refused.no_window += int(records[~inside].sum())
            block = block.take(np.flatnonzero(inside))
        return block

    def _slices(self, start: Array, stop: Array) -> Array:
        """Return the slices of `shape` that contain the slices of the table: `int64[n]`.

        Raises InvalidValue if a slice of the table lies in several of them, or contains `until` inside.
        """
        slices = self.shape.family.slice_at(start)
        cut = slices != self.shape.family.slice_at(stop - 1)
        if cut.any() and self.first is not None:
            cut &= self._is_cut(self.first, start, stop)
        if cut.any():
            at = int(np.flatnonzero(cut)[0])
            edge = int(self.shape.family.slice_start(int(slices[at]) + 1))
            raise InvalidValue(
                "windows from partials begin and end where slices of the table do; the slice "
                f"{_shown(start[at], stop[at])} is cut at {show_instant(edge)}. "
                "Use windows whose edges are edges of the slices, or make the partials for both."
            )
        if self.until is not None and (over := stop > self.until).any():
            at = int(np.flatnonzero(over)[0])
            raise InvalidValue(
                f"`until` must be where a slice of the table ends; {show_instant(self.until)} is inside of "
                f"{_shown(start[at], stop[at])}. Give the end of a slice."
            )
        return np.asarray(slices)

    def _is_cut(self, firsts: tuple[int, ...], start: Array, stop: Array) -> Array:
        """Return whether a window that is made of the table begins or ends inside each of some slices: `bool[n]`."""
        slices, lasts = (self.shape.family.slice_at(at) for at in (start, stop - 1))
        found = np.zeros(len(start), dtype=bool)
        for family, first in zip(self.shape.family.families, firsts, strict=True):
            begins, ends = family.last_window(lasts), np.maximum(first, family.first_window(slices))
            found |= (begins >= first) & (family.window_start(begins) > start)
            found |= family.window_end(ends) < stop
        return found

    def _folded(self, records: Block) -> Iterator[Block]:  # type: ignore[override]
        yield regroup(self.shape, records)


def _shown(start: int, stop: int) -> str:
    return f"[{show_instant(int(start))}, {show_instant(int(stop))})"


def _typed(column: pa.ChunkedArray, kind: str) -> pa.Array:
    array = plain(column)
    target = arrow_type(kind)
    if array.type == target:
        return array
    # Spark has no type for binaries of fixed length.
    return pa.array(array.to_pylist(), target) if width_of(kind) else array.cast(target)
