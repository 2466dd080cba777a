"""Compare the results of windows. Results are equal if all their bits are equal; null equals null."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.aggregates.kernel import locating
from slicing.aggregates.ordered_bytes import encoded
from slicing.assembly.results import Windows, null_if_incomplete, show_window
from slicing.content.block import Shape, encode_keys


def differing(there: Windows, now: Array, previous: Array, drained: bool) -> Iterator[Windows]:
    """Yield the windows whose result code differs from the previous one; a code of -1 marks an empty window.

    Windows that became empty are yielded only if `drained`, with the kind `drained`.
    """
    changed = np.flatnonzero((now >= 0) & (now != previous))
    if len(changed):
        yield there.take(changed)
    emptied = np.flatnonzero((now < 0) & (previous >= 0))
    if drained and len(emptied):
        yield replace(there.take(emptied), kind="drained")


def result_codes(shape: Shape, frames: Sequence[Windows]) -> list[Array]:
    """Return one code per window, `int64[n]` for each frame: equal results have equal codes; empty windows have -1.

    Codes are comparable across all frames. Null equals null, every NaN equals every NaN, other floats are compared by
    their bits. Aligned windows (`aligned`) are compared too: an empty one is emitted as nulls, so it equals one whose
    results are all null.
    """
    own = _codes(shape, frames)
    sides = [_codes(shape, sides, shows_nulls=True) for sides in zip(*(frame.aligned for frame in frames), strict=True)]
    if not sides:
        return own
    rows = [np.column_stack([mine, *others]) for mine, *others in zip(own, *sides, strict=True)]
    _, codes = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    split = np.split(codes.reshape(-1), np.cumsum([len(frame) for frame in frames])[:-1])
    return [np.where(mine < 0, -1, code) for mine, code in zip(own, split, strict=True)]


def _codes(shape: Shape, frames: Sequence[Windows], shows_nulls: bool = False) -> list[Array]:
    """Return the result codes of frames of one family, -1 for empty windows.

    With `shows_nulls`, windows whose results are all null have -1 as well.
    """
    held = [np.flatnonzero(frame.records) for frame in frames]
    columns: list[list[pa.Array]] = []
    for frame, rows in zip(frames, held, strict=True):
        some = frame.take(rows)
        results = [
            _one_nan(array)
            for number in range(len(shape.kernels))
            for array in null_if_incomplete(shape, number, some, partial(_lowered, shape, number))
        ]
        columns.append(results)
    table = pa.table({f"r{i}": pa.chunked_array(arrays) for i, arrays in enumerate(zip(*columns, strict=True))})
    codes, _ = encode_keys(table)
    if shows_nulls:
        nulls = [column.is_null().to_numpy() for column in table.columns]
        codes = np.where(np.logical_and.reduce(nulls), -1, codes) if nulls else codes
    found, at = [], 0
    for frame, rows in zip(frames, held, strict=True):
        mine = np.full(len(frame), -1)
        mine[rows] = codes[at : at + len(rows)]
        at += len(rows)
        found.append(mine)
    return found


def _lowered(shape: Shape, number: int, windows: Windows) -> list[pa.Array]:
    with locating(lambda row: show_window(shape, windows, row)):
        return shape.kernels[number].results_to_arrow(windows.partials[number], windows.dictionaries[number])


def _one_nan(array: pa.Array) -> pa.Array:
    if pa.types.is_nested(array.type):
        # pyarrow cannot dictionary-encode lists. Equal values have equal bytes, and NaN equals NaN.
        return encoded(array)
    if not pa.types.is_floating(array.type):
        return array
    # pyarrow's dictionary encoding distinguishes NaNs of different bits.
    return pc.if_else(pc.is_nan(array), pa.scalar(math.nan, array.type), array)
