"""Count distinct values: exactly, by a table of the values, or approximately, by the registers of HyperLogLog.

The registers are those of P. Flajolet, É. Fusy, O. Gandouet, F. Meunier, "HyperLogLog: the analysis of a near-optimal
cardinality estimation algorithm" (2007). The estimate is that of O. Ertl, "New cardinality estimation algorithms for
HyperLogLog sketches" (2017): it needs no tables of biases, and is almost exact for few values.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from combinators._common import CARRIED, Array, constant, require
from combinators._counted import OfRuns, checked_limit, counted
from combinators._items import Items
from combinators._packed import packed, unpacked
from combinators._tables import Layout, Limit, Tables
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Gathered, Input
from slicing.aggregates.fields import is_nested
from slicing.content.hashing import hashes, mixed
from slicing.errors import InvalidValue, excerpt

_CAST = "Choose or compute a column of one of these first."
_FEWEST, _MOST = 6, 16
"""Bounds of the number of bits of a hash that choose a register."""
_RANKS = 52
"""The number of bits of a hash in which leading zeros are counted: the precision of a double."""
_SALT = np.uint64(0x9E3779B97F4A7C15)


def count_distinct(column: Input, *, limit: int | None = None, where: Condition = None) -> Bound:
    """The number of distinct values of `column`; 0.0 and -0.0 are one value, and all NaN are one value.

    No value gives 0, never null. Returns bigint. Exact; the partial is a table of the values and their counts: 16 bytes
    per different value of a slice, more for decimals and text; invertible: 2 combines a window. More different values
    in a window than `limit` raise TooLarge; streams whose windows overlap need a `limit`. Structs are equal if all
    fields are, maps if their entries are, in any order: `count_distinct(F.struct("a", "b"))`. Raises InvalidType for a
    column of intervals or variants. Reference: Spark's `count_distinct`.

    >>> count_distinct("x", limit=1000).label
    'count_distinct(x)'
    """
    label = f"count_distinct({column})"
    limits = Limit(label, "every value", checked_limit(limit))
    return counted(label, column, limits, CARRIED, _CAST, _sizes, "bigint", _of_runs).where(where)


def approx_count_distinct(column: Input, rsd: float = 0.05, *, where: Condition = None) -> Bound:
    """The approximate number of distinct values; `rsd` is the maximum relative standard deviation of the error.

    No value gives 0, never null. Returns bigint. A partial has 2^p bytes, where p is the least with 1.106 / sqrt(2^p)
    <= rsd: at least 64, 512 for 5 %, 16 KiB for 1 %. Not invertible: 4 combines a window on average, 2 sqrt(n) at
    worst. Structs and maps as in `count_distinct`. Raises InvalidType for a column of intervals or variants,
    InvalidValue for an `rsd` outside of 0.0044 to 1. Reference: Spark's `approx_count_distinct`, which uses another
    estimate with the same bound.

    >>> approx_count_distinct("x").resolve(("string",)).partial
    'registers binary(512)'
    """
    label = f"approx_count_distinct({column})"
    return Bound(partial(_registers, label, _bits(rsd)), (column,), label, nested=True).where(where)


def _sizes(_items: Items, tables: Tables) -> Array:
    return tables.sizes()


def _of_runs(layout: Layout, limit: Limit, partials: Array) -> OfRuns:
    """Prepare the numbers of distinct values of runs of tables: a value counts in a run where it occurs first."""
    tables = layout.read(partials)
    order = np.lexsort((tables.cells, *tables.numbers[::-1]))
    last, next_ = order[:-1], order[1:]
    again = np.logical_and.reduce([column[last] == column[next_] for column in tables.numbers])
    before = np.full(len(order), -1)
    before[next_[again]] = tables.cells[last[again]]
    return partial(_distinct, limit, tables.cells, before)


def _distinct(limit: Limit, tables: Array, before: Array, low: Array, high: Array) -> Array | None:
    """Return the number of distinct values of the tables `low[i]` up to `high[i]`; None if a run contains another.

    Table `tables[j]` has a value that table `before[j]` had last, -1 for none. It is counted in the runs that have the
    former and begin after the latter. These are neighbours if runs are sorted.
    """
    order = np.lexsort((high, low))
    starts, ends = low[order], high[order]
    if np.any(ends[1:] < ends[:-1]):
        return None
    first = np.maximum(np.searchsorted(ends, tables, "right"), np.searchsorted(starts, before, "right"))
    end = np.searchsorted(starts, tables, "right")
    counted = first < end
    count = len(order) + 1
    change = np.bincount(first[counted], minlength=count) - np.bincount(end[counted], minlength=count)
    found = np.zeros(len(order), np.int64)
    found[order] = np.cumsum(change)[:-1]
    limit.check(found)
    return found


def _bits(rsd: float) -> int:
    known = isinstance(rsd, (int, float)) and not isinstance(rsd, bool) and 0 < rsd < 1
    bits = math.ceil(2 * math.log2(1.106 / rsd)) if known else 0
    if not known or bits > _MOST:
        raise InvalidValue(
            f"`rsd`, the relative standard deviation of the error, must be from 0.0044 up to 1; got {excerpt(rsd)}. "
            "To count exactly take `count_distinct`."
        )
    return max(bits, _FEWEST)


def _registers(label: str, bits: int, kind: str) -> Aggregate:
    require(label, CARRIED, kind, _CAST)
    return Aggregate(
        constant(bytes(1 << bits)),
        Gathered(partial(_gather, bits, Items(kind))),
        _maxima,
        lower=partial(_estimate, bits),
        partial=f"registers binary({1 << bits})",
        version="combinators.approx_count_distinct",
        returns="bigint",
        columns=True,
        view="limbs",
        meanings=("registers",),
    )


def _gather(bits: int, items: Items, starts: Array, value: Any) -> Array:
    hashed = _hashed(items, value)
    cells = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(hashed))))
    place = (cells << bits) + (hashed >> np.uint64(64 - bits)).astype(np.int64)
    # The remaining bits as a double: its exponent tells the number of leading zeros.
    rest = (hashed << np.uint64(bits)) >> np.uint64(64 - _RANKS)
    rank = (_RANKS + 1 - np.frexp(rest.astype(np.float64))[1]).astype(np.uint8)
    registers = np.zeros(len(starts) << bits, np.uint8)
    np.maximum.at(registers, place, rank)
    return packed(registers.reshape(-1, 1 << bits))


def _hashed(items: Items, value: Any) -> Array:
    if items.varied:
        plain = not is_nested(items.kind)
        texts = (
            pa.array(np.ma.getdata(value).ravel().tolist(), items.kind) if plain else items.data(value).cast("binary")
        )
        return mixed(hashes(pa.table([texts], ["x"])) ^ _SALT)
    bits = np.zeros(1, np.uint64)
    for number in items.numbers(value):
        bits = mixed((bits + number.view(np.uint64)) * _SALT + _SALT)
    return bits


def _maxima(a: Array, b: Array) -> Array:
    return packed(np.maximum(unpacked(a, np.uint8), unpacked(b, np.uint8)))


_POWERS = np.append(0.0, 0.5 ** np.arange(1, 256))


def _estimate(bits: int, registers: Array) -> Array:
    """Return Ertl's improved raw estimate; a saturated register (one value in 2^52) counts as the one before."""
    count = 1 << bits
    found = unpacked(registers, np.uint8)
    empty = np.count_nonzero(found == 0, axis=-1) / count
    total = _POWERS[found].sum(axis=-1) + count * _sigma(empty)
    estimate: Array = np.rint(count * count / (2 * math.log(2)) / total).astype(np.int64)
    return estimate


def _sigma(x: Array) -> Array:
    """Return x + x^2 + 2 x^4 + 4 x^8 + ..., infinite for 1."""
    total, power, weight = x.copy(), x, 1.0
    for _ in range(_MOST + 6):
        power = power * power
        total = total + power * weight
        weight *= 2
    infinite: Array = np.where(x == 1, np.inf, total)
    return infinite
