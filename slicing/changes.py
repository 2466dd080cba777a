"""Closed windows whose result is not that of the window before: only where a slice with records enters or leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.assembly import Windows, show_window
from slicing.blocks import Block, Shape, encode_keys, fold, memory
from slicing.kernel import Array, locating
from slicing.pairs import Pairs
from slicing.picking import pick

STEP_BYTES = 8 << 20
"""Of so many bytes of rows the windows are picked at once, which takes some times as many."""


def changes(
    shape: Shape,
    stored: Block,
    fresh: Block,
    first: int,
    until: int,
    known: bool,
    drained: bool,
    shown: Shape,
    whole: Callable[[Windows], Windows],
    seen: bool = False,
) -> Iterator[Windows]:
    """The windows `first` up to `until` that differ from the one before, of every key.

    `stored` has the folded slices that window `first` - 1 saw, and `fresh` what came since. Without `known` the window
    before `first` is not, and every key with records in `first` has a row. With `seen` it saw what is fresh too. The
    last result of a key is not kept: it is that of the window before, which is made from slices too. `whole` completes
    windows of `shape` to those of `shown`, which are compared and yielded.
    """
    slicing = shape.slicing
    everything = fold(shape, [stored, fresh])
    before, news = (everything if seen else stored), (fresh if known and not seen else everything)
    before, news = (_coded(block, everything.names) for block in (before, news))
    count = max(1, -(-memory(shape, everything) // STEP_BYTES))
    edges = np.linspace(0, len(everything.names), count + 1).astype(np.int64)
    for low, high in pairwise(edges.tolist()):
        old, new, rows = (
            block.take(np.flatnonzero((block.keys >= low) & (block.keys < high)))
            for block in (before, news, everything)
        )
        entering = np.maximum(slicing.first_window(new.slices), first)
        keys = np.concatenate([new.keys, rows.keys])
        windows = np.concatenate([entering, slicing.last_window(rows.slices) + 1])
        inside = (windows >= first) & (windows < until)
        pairs = Pairs.over(windows[inside], len(everything.names))
        keys, windows = pairs.unpack(np.unique(pairs.pack(keys[inside], windows[inside])))
        some = np.unique(keys)
        there = whole(pick(shape, rows, keys, windows))
        last_one = whole(pick(shape, old if known else old.take(slice(0)), some, np.full(len(some), first - 1)))
        now, last = result_codes(shown, [there, last_one])
        heads = np.diff(keys, prepend=-1) != 0
        previous = np.append(-1, now[:-1])
        previous[heads] = last
        yield from differing(there, now, previous, drained)


def _coded(block: Block, names: pa.Table) -> Block:
    """A block with the codes of other names, which have all of its keys."""
    if block.names is names:
        return block
    codes, _ = encode_keys(pa.concat_tables([names, block.names]))
    return replace(block, keys=codes[len(names) :][block.keys], names=names)


def differing(there: Windows, now: Array, previous: Array, drained: bool) -> Iterator[Windows]:
    """Those of some windows whose results, as codes, are not the previous ones; -1 is the code of an empty window."""
    changed = np.flatnonzero((now >= 0) & (now != previous))
    if len(changed):
        yield there.take(changed)
    gone = np.flatnonzero((now < 0) & (previous >= 0))
    if drained and len(gone):
        yield replace(there.take(gone), kind="drained")


def result_codes(shape: Shape, frames: Sequence[Windows]) -> list[Array]:
    """For every window of some frames a number that equal results share, over all frames; -1 if it is empty.

    Null equals null, NaN equals NaN, and other floats are compared by their bits.
    """
    held = [np.flatnonzero(frame.records) for frame in frames]
    columns: list[list[pa.Array]] = []
    for frame, rows in zip(frames, held, strict=True):
        some = frame.take(rows)
        with locating(lambda row, some=some: show_window(shape, some, row)):  # type: ignore[misc]
            results = [
                _one_nan(array)
                for kernel, partials, dictionary in zip(shape.kernels, some.partials, some.dictionaries, strict=True)
                for array in kernel.results_to_arrow(partials, dictionary)
            ]
        columns.append(results)
    table = pa.table({f"r{i}": pa.chunked_array(arrays) for i, arrays in enumerate(zip(*columns, strict=True))})
    codes, _ = encode_keys(table)
    found, at = [], 0
    for frame, rows in zip(frames, held, strict=True):
        mine = np.full(len(frame), -1)
        mine[rows] = codes[at : at + len(rows)]
        at += len(rows)
        found.append(mine)
    return found


def _one_nan(array: pa.Array) -> pa.Array:
    if pa.types.is_nested(array.type):
        # pyarrow makes no dictionaries of lists; as text they are equal where they are the same, NaN for NaN.
        return pa.array([None if item is None else repr(item) for item in array.to_pylist()], pa.string())
    if not pa.types.is_floating(array.type):
        return array
    # pyarrow's dictionaries tell NaNs of different bits apart.
    return pc.if_else(pc.is_nan(array), pa.scalar(math.nan, array.type), array)
