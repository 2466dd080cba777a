"""A 64-bit hash of keys that is the same on every machine and with every version of Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.arrow import to_numpy
from slicing.aggregates.ranks import limbs

PIECE_BYTES = 1 << 17
"""The bytes of text that are hashed at once, so that the intermediate numbers fit into the processor's cache."""


def hashes(names: pa.Table) -> Array:
    """Return the hash of each row of a table of keys: `uint64[n]`. Equal keys have equal hashes."""
    bits = np.zeros(len(names), dtype=np.uint64)
    for column in names.columns:
        bits = mixed(bits * _ODD + _hashed(column.combine_chunks()))
    return bits


_ODD = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0xD1B54A32D192ED03)


def _hashed(array: pa.Array) -> Array:
    """Return 64 bits for each value of one column: `uint64[n]`. Equal values have equal bits."""
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        hashed = _hashed_bytes(array)
    elif pa.types.is_decimal(array.type):
        low, second, third, top = (limb.astype(np.uint64) for limb in limbs(array))
        hashed = mixed(low | second << np.uint64(32)) + (third | top << np.uint64(32))
    elif pa.types.is_floating(array.type):
        hashed = to_numpy(array, np.dtype(np.float64)).view(np.uint64)
    else:
        hashed = to_numpy(array, np.dtype(np.int64)).view(np.uint64)
    return np.where(np.asarray(array.is_null()), _NULL, hashed) if array.null_count else hashed


def _hashed_bytes(array: pa.Array) -> Array:
    """Return a polynomial in an odd base over the bytes of each value.

    It is `length + sum((byte + 1) * base ** (place + 1))`. All values are computed together, one piece of their bytes
    after another, because the 64-bit numbers take many times the memory of the bytes.
    """
    array = array.fill_null("" if pa.types.is_string(array.type) else b"")
    ends = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(ends).astype(np.int64)
    hashed = lengths.astype(np.uint64)
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return hashed
    text = np.frombuffer(array.buffers()[2], dtype=np.uint8)[ends[0] : ends[-1]]
    starts = (ends[:-1] - ends[0])[filled].astype(np.int64)
    powers = np.multiply.accumulate(np.full(min(PIECE_BYTES, int(lengths.max())), _ODD))
    for low in range(0, len(text), PIECE_BYTES):
        high = min(low + PIECE_BYTES, len(text))
        first, end = int(np.searchsorted(starts, low, side="right")) - 1, int(np.searchsorted(starts, high))
        begins = np.maximum(starts[first:end], low) - low
        place = np.arange(high - low) - np.repeat(begins, np.diff(begins, append=high - low))
        sums = np.add.reduceat((text[low:high].astype(np.uint64) + np.uint64(1)) * powers[place], begins)
        # The first value of a piece may have begun in an earlier piece.
        sums[:1] *= np.uint64(pow(int(_ODD), max(0, low - int(starts[first])), 1 << 64))
        hashed[filled[first:end]] += sums
    return hashed


def mixed(bits: Array) -> Array:
    """Return values in which every input bit affects all bits: MurmurHash3's finalizer (Appleby, public domain)."""
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        bits = (bits ^ bits >> np.uint64(33)) * factor
    spread: Array = bits ^ bits >> np.uint64(33)
    return spread
