"""Convert values of every kind to int64 numbers of the same order, and back; text is bytes in a sorted dictionary."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from combinators._common import Array
from slicing.aggregates.arrow import column_to_arrow
from slicing.aggregates.fields import FLOATS, INTERVAL, Field, arrow_type, decimal_of, is_nested, numpy_type
from slicing.aggregates.ordered_bytes import decoded, encoded, floats, ordered_bits

_TEXT = ("string", "binary")
_SIGN = np.int64(-(2**63))
_LOW = np.uint64(0xFFFFFFFF)
_ROOMY = Context(prec=80)
_EXACT, _EXACT_SCALE = 2.0**53, 22
"""The double below which all integers are exact, and the exponent up to which all powers of ten are."""


@dataclass(frozen=True)
class Items:
    """The values of a kind as `width` int64 numbers each, in the order of the values; NaN is the largest.

    Text, binary, arrays, maps and structs are ranks in a dictionary of bytes instead. The functions of an aggregate get
    the values by `view="limbs"`. With `equal_zeros`, 0.0 and -0.0 are one value.
    """

    kind: str
    equal_zeros: bool = True

    @property
    def varied(self) -> bool:
        """Whether values differ in length."""
        return self.kind in _TEXT or is_nested(self.kind)

    @property
    def width(self) -> int:
        """The number of int64 numbers per value."""
        return 2 if decimal_of(self.kind) else 1

    def numbers(self, value: Any) -> tuple[Array, ...]:
        """Return the numbers of values that are not text, each `int64[n]`."""
        if decimal_of(self.kind):
            low, second, third, top = (np.ma.getdata(limb).ravel().astype(np.int64) for limb in value)
            return (top << 32) | third, ((second << 32) | low) ^ _SIGN
        flat = np.ma.getdata(value).ravel()
        if self.kind not in FLOATS:
            return (flat.astype(np.int64),)
        wide = flat.astype(np.float64)
        return (ordered_bits(wide + 0.0 if self.equal_zeros else wide),)

    def texts(self, value: Any) -> tuple[Array, pa.Array]:
        """Return the ranks of texts, and their dictionary."""
        return ranked(self.data(value))

    def data(self, value: Any) -> pa.Array:
        """Return the bytes of values as large_binary; those of equal arrays, maps and structs as `equal_zeros` says."""
        items = np.ma.getdata(value).ravel().tolist()
        plain = pa.array(items, pa.large_string() if self.kind == "string" else pa.large_binary())
        if not (self.equal_zeros and is_nested(self.kind)):
            return plain.cast(pa.large_binary())
        different = plain.dictionary_encode()
        return encoded(decoded(different.dictionary, arrow_type(self.kind)), True).take(different.indices)

    def values(self, numbers: tuple[Array, ...], texts: pa.Array | None) -> Array | pa.Array:
        """Return the values of numbers, in the form of a result of `lower`; dates and timestamps are numbers.

        Arrays, maps and structs are in Arrow.
        """
        if texts is not None and is_nested(self.kind):
            return decoded(texts, arrow_type(self.kind)).take(pa.array(numbers[-1]))
        if texts is not None:
            taken = texts.take(pa.array(numbers[-1]))
            if self.kind == "string":
                taken = taken.cast(pa.large_string())
            return _objects(taken.to_pylist())
        if decimal := decimal_of(self.kind):
            high, low = numbers
            pairs = zip(high.tolist(), (low ^ _SIGN).view(np.uint64).tolist(), strict=True)
            return _objects([Decimal((h << 64) | x).scaleb(-decimal[1], _ROOMY) for h, x in pairs])
        if self.kind in FLOATS:
            return floats(numbers[0]).astype(numpy_type(self.kind))
        if self.kind in ("date", "timestamp", "timestamp_ntz", INTERVAL):
            return numbers[0]
        return numbers[0].astype(numpy_type(self.kind))


def as_doubles(kind: str, value: Any) -> Array:
    """Return numbers of any kind, in the form of `view="limbs"`, as the nearest doubles."""
    if decimal := decimal_of(kind):
        limbs, scale = [np.asarray(limb).ravel() for limb in value], decimal[1]
        negative = limbs[-1] < 0
        # The absolute value, so that all summands have the same sign and no digit is lost.
        low, second, third, top = (np.where(negative, ~limb & 0xFFFFFFFF, limb).astype(np.float64) for limb in limbs)
        size = (top * 2.0**96 + third * 2.0**64) + (second * 2.0**32 + (low + negative))
        signed: Array = np.where(negative, -size, size) / 10.0**scale
        # Where digits or the power of ten were rounded, the division has rounded again. Text is rounded once.
        twice = np.flatnonzero((size >= _EXACT) | (scale > _EXACT_SCALE))
        if len(twice):
            words = np.stack([limb[twice] for limb in limbs], axis=1).astype(np.uint32)
            exact = pa.Array.from_buffers(pa.decimal128(38, scale), len(words), [None, pa.py_buffer(words)])
            signed[twice] = exact.cast(pa.string()).cast(pa.float64()).to_numpy()
        return signed
    return np.ma.getdata(value).ravel().astype(np.float64)


def in_arrow(kind: str, value: Any, label: str) -> pa.Array:
    """Return a column in the form of `view="limbs"`, masked where it is null, in Arrow."""
    items, null = Items(kind, equal_zeros=False), mask_of(value)
    if is_nested(kind):
        return decoded(items.data(value), arrow_type(kind))
    values = np.ma.getdata(value) if items.varied else items.values(items.numbers(value), None)
    return column_to_arrow(np.ma.MaskedArray(values, null), Field("value", kind), label)


def mask_of(value: Any) -> Array:
    """Return where a column in the form of `view="limbs"` is null."""
    return np.ma.getmaskarray(value[0] if isinstance(value, tuple) else value).ravel()


def ranked(texts: pa.Array) -> tuple[Array, pa.Array]:
    """Return the ranks of binary values in the sorted dictionary of all of them, and the dictionary."""
    encoded = texts.dictionary_encode()
    order = np.asarray(pc.array_sort_indices(encoded.dictionary)).astype(np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[np.asarray(encoded.indices)], encoded.dictionary.take(pa.array(order))


def _objects(items: list[Any]) -> Array:
    array = np.empty(len(items), object)
    array[:] = items
    return array
