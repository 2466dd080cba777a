"""Sort rows by integers, stably: by radix where they are narrow, as whole numbers where they are not.

numpy sorts integers of 16 bits by radix, and others by comparison. Where its vectorised sort is fast, that takes as
long as two passes of 16 bits; on processors without it, and on AMD's Zen 4, two to four times as long.
"""

from __future__ import annotations

import numpy as np

from slicing.aggregates.arrays import Array

_DIGIT = 16
_TWO_DIGIT_ROWS = 1 << 19
"""The most rows that are sorted in two passes, in up to four thirds of the time of a fast vectorised sort, and half the
time of others."""
_RUNS = 64
"""Runs that are sorted already, as in blocks one after another, are merged: up to so many in less time than two passes
take, and those of so many rows on average in less time than a sort of all rows."""


def order(slices: Array, keys: Array) -> tuple[Array, Array]:
    """Return the rows stably sorted by (slice, key), and where each run of equal (slice, key) starts: `int64` each.

    Both are int64. They may be swapped to sort by (key, slice).
    """
    rows, starts, _ = ordered(slices, keys)
    return rows, starts


def ordered(first: Array, then: Array) -> tuple[Array, Array, tuple[Array, Array] | None]:
    """Return the same as `order`, and both columns in that order unless they were not needed.

    Both columns are sorted as one, `first * width + then`, if that fits together with the row number into 63 bits.
    """
    count = len(first)
    if count == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), None
    lowest, least = int(first.min()), int(then.min())
    width = int(then.max()) + 1 - least
    most = (int(first.max()) - lowest + 1) * width - 1
    if not _fits(most, count):
        rows = sorted_rows(first, then)
        columns = first[rows], then[rows]
        return rows, heads(*columns), columns
    together = (first - lowest) * width + (then - least if least else then)
    rows, found = (np.arange(count), together) if _is_sorted(together) else _sorted(together, most)
    return rows, heads(together[rows] if found is None else found), None


def heads(*columns: Array) -> Array:
    """Return where the values of sorted columns change, 0 included: `int64[n]`."""
    change = np.ones(len(columns[0]), dtype=bool)
    change[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(change)


def sorted_rows(first: Array, then: Array) -> Array:
    """Return the row numbers stably sorted by two columns of int64 or narrower, `int64[n]`."""
    rows = argsorted(then)
    return rows[argsorted(first[rows])]


def argsorted(values: Array) -> Array:
    """Return the row numbers sorted by int64 or narrower, `int64[n]`; rows of equal values keep their order."""
    if _is_sorted(values):
        return np.arange(len(values))
    least, most = int(values.min()), int(values.max())
    if not _fits(most - least, len(values)):
        return np.argsort(values, kind="stable")
    return _sorted(np.subtract(values, least, dtype=np.int64) if least else values, most - least)[0]


def _sorted(values: Array, most: int) -> tuple[Array, Array | None]:
    """Return the row numbers stably sorted by values from 0 to `most`, and the values in that order if they are there.

    Values and row numbers fit into 63 bits. Packed they are sorted several times faster than rows by values, and
    numpy's stable sort merges runs that are sorted.
    """
    if most < 1 << _DIGIT:
        return np.argsort(values.astype(np.min_scalar_type(most)), kind="stable"), None
    runs = np.count_nonzero(values[1:] < values[:-1])
    if most < 1 << 2 * _DIGIT and runs > _RUNS and len(values) <= _TWO_DIGIT_ROWS:
        rows = np.argsort(values.astype(np.uint16), kind="stable")
        return rows[np.argsort((values >> _DIGIT).astype(np.uint16)[rows], kind="stable")], None
    bits = _bits(len(values))
    packed = values.astype(np.int64)
    packed <<= bits
    packed |= np.arange(len(values))
    packed.sort(kind="stable" if runs * _RUNS < len(values) else "quicksort")
    rows = packed & ((1 << bits) - 1)
    packed >>= bits
    return rows, packed


def _fits(most: int, count: int) -> bool:
    """Whether numbers up to `most`, each with the number of one of `count` rows, fit into 63 bits."""
    return most < 1 << (63 - _bits(count))


def _bits(count: int) -> int:
    return max(1, (count - 1).bit_length())


def _is_sorted(values: Array) -> bool:
    """Whether numbers are sorted. The first 1,000 are checked first, as they mostly decide."""
    return all(bool((part[1:] >= part[:-1]).all()) for part in (values[:1000], values))
