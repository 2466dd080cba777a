"""A result for each value of a second key, as a map: the partial has a partial of the result for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from combinators._common import ATOMIC, Array, constant, require
from combinators._counted import checked_limit
from combinators._items import in_arrow, ranked
from combinators._tables import ROOM, Layout, Limit, Tables, cells_of, lists
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Gathered, Growth, Input
from slicing.aggregates.arrays import Partials
from slicing.aggregates.arrow import cast
from slicing.aggregates.fields import FLOATS, arrow_type, width_of
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.kernels import kernel
from slicing.aggregates.ordered_bytes import decoded, encoded
from slicing.content.folding import fold_arrays
from slicing.errors import InvalidType, InvalidValue, excerpt

Full: TypeAlias = Literal["error", "frequent"]
_ATOMIC = "Choose or compute an atomic column first."
_LAYOUT = Layout(1, varied=True)
"""The second key and a partial are the bytes of one struct, so that rows are in the order of the keys."""


def by(column: Input, result: Bound, *, limit: int, full: Full = "error", where: Condition = None) -> Bound:
    """The `result` of the records of each value of `column`, as a map from these values.

    `C.by("offer", C.count(), limit=100)` has the number of records of each offer. Records in which `column` is null
    are left out; no record gives an empty map, never null. The keys ascend; 0.0 and -0.0 are one. More values in a
    window than `limit` raise TooLarge; with `full="frequent"`, those of the most records are kept (ties: the
    smaller value), which is exact unless a partial had more. The partial has 24 bytes, the value and a partial of
    `result` for each value. With "error" it inverts if `result` does: 2 combines a window; otherwise 4 on average,
    2 sqrt(n) at worst. Raises InvalidType for a column that is not atomic, or a `result` that is none. Reference:
    Spark's `result` of a second GROUP BY column.

    >>> from combinators import count
    >>> by("offer", count(), limit=100).resolve(("string",)).returns
    'map<string,bigint>'
    """
    if not isinstance(result, Bound):
        raise InvalidType(
            f'`by` takes one result, for example `C.by("offer", C.count(), limit=100)`; got {excerpt(result)}. '
            "For several, write `by` for each."
        )
    if full not in get_args(Full):
        raise InvalidValue(f"`full` must be one of {', '.join(get_args(Full))}; got {excerpt(full)}.")
    if checked_limit(limit) is None:
        raise InvalidValue("`limit` of `by` must be given: how many values a window may have; got None.")
    label = f"by({column}, {result.label})"
    limits = Limit(label, "a result for every value", limit)
    source = partial(_keyed, limits, full == "frequent", replace(result, call=""))
    return Bound(source, (column, *result.inputs), label, unlimited=result.unlimited, nested=result.nested).where(where)


def _keyed(limit: Limit, frequent: bool, result: Bound, key: str, *kinds: str) -> Aggregate:
    require(limit.label, ATOMIC, key, _ATOMIC)
    inner = kernel(result.label, result.resolve(kinds[: len(result.columns)]))
    if inner.aggregate.combine is None:
        raise InvalidValue(
            f"`by` combines the partials of a value, and {result.label} has no `combine`. Give its aggregate one."
        )
    maps = Maps(key, inner, limit, frequent)
    inverts = inner.aggregate.invert is not None and not frequent
    size = sum(width_of(field.kind) or 8 for field in inner.fields)
    return Aggregate(
        constant(b""),
        Gathered(partial(_gathered, maps, (key, *kinds))),
        maps,
        Inverse(maps) if inverts else None,
        maps.lowered,
        partial="entries binary",
        returns=f"map<{key},{maps.value}>",
        columns=True,
        ordered=inner.aggregate.ordered,
        nulls=True,
        view="limbs",
        approximate=frequent or inner.aggregate.approximate,
        growth=Growth(24 + size, "value of the second key", limit.most, text=True),
    )


@dataclass(frozen=True)
class Entries:
    """Second keys with a partial each: `cells` has the partial that each belongs to, of `count`."""

    count: int
    cells: Array
    keys: pa.Array
    records: Array
    partials: Partials
    dictionary: pa.Array | None

    def take(self, rows: Array) -> Entries:
        """Return the entries at `rows`."""
        return replace(
            self,
            cells=self.cells[rows],
            keys=self.keys.take(pa.array(rows)),
            records=self.records[rows],
            partials=[column[rows] for column in self.partials],
        )

    def runs(self) -> tuple[Array, Array]:
        """Return the rows stably sorted by cell and key, and where each run of an equal cell and key starts."""
        return _runs(self.cells, ranked(encoded(self.keys, True))[0])


@dataclass(frozen=True)
class Maps:
    """`combine` of maps: partials of equal keys are combined, the others kept. `key` is the kind of the keys."""

    key: str
    inner: Kernel
    limit: Limit
    frequent: bool

    @property
    def stored_as(self) -> str:
        """The meaning of the maps in the state."""
        kept = f" most frequent {self.limit.most}" if self.frequent else ""
        return f"by {self.key}{kept}: {self.inner.aggregate.identity} ({', '.join(map(str, self.inner.fields))})"

    @property
    def value(self) -> str:
        """The kind of the values of a result."""
        first, *more = self.inner.results
        return f"struct<{','.join(f'{each.name}:{each.kind}' for each in self.inner.results)}>" if more else first.kind

    def __call__(self, a: Array, b: Array) -> Array:
        tables = _LAYOUT.joined(a, b, 1)
        return self.written(self.merged(self.entries(tables))).reshape(a.shape)

    def entries(self, tables: Tables) -> Entries:
        """Return the entries of tables, in their order."""
        kinds = [self.key, *(field.kind for field in self.inner.fields)]
        stored = pa.struct([pa.field(str(at), _varying(arrow_type(kind))) for at, kind in enumerate(kinds)])
        texts = tables.texts if tables.texts is not None else pa.array([], pa.large_binary())
        keys, *fields = decoded(texts.take(pa.array(tables.numbers[-1])), stored).flatten()
        typed = [cast(array, arrow_type(kind)) for array, kind in zip(fields, kinds[1:], strict=True)]
        partials, dictionary = self.inner.from_arrow(typed)
        return Entries(tables.count, tables.cells, keys, tables.counts, partials, dictionary)

    def merged(self, entries: Entries) -> Entries:
        """Return entries in the order of cells and keys, those of one cell and key combined in their order."""
        rows, starts = entries.runs()
        if not len(rows):
            return entries
        partials, dictionary = self.inner.joined([c[rows] for c in entries.partials], entries.dictionary, starts)
        records = np.add.reduceat(entries.records[rows], starts)
        return replace(entries.take(rows[starts]), records=records, partials=partials, dictionary=dictionary)

    def written(self, entries: Entries) -> Array:
        """Return the partials of merged entries. Raises RowFailure if one has too many."""
        sizes = np.bincount(entries.cells, minlength=entries.count)
        if self.frequent:
            entries = self._most_frequent(entries, sizes)
        else:
            self.limit.check(sizes, ROOM)
        fields = map(_varied, self.inner.to_arrow(entries.partials, entries.dictionary))
        arrays = [entries.keys, *fields]
        texts = encoded(pa.StructArray.from_arrays(arrays, list(map(str, range(len(arrays))))))
        rows = np.arange(len(texts))
        return _LAYOUT.write(Tables(entries.count, entries.cells, (rows,), entries.records, texts))

    def _most_frequent(self, entries: Entries, sizes: Array) -> Entries:
        most = self.limit.most or 0
        if not (sizes > most).any():
            return entries
        order = np.lexsort((-entries.records, entries.cells))  # stable: of equal counts, the smaller key
        place = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[entries.cells[order]]
        return entries.take(np.sort(order[place < most]))

    def lowered(self, partials: Array) -> Array:
        """Return the maps of partials. Raises RowFailure if one exceeds the limit."""
        entries = self.entries(_LAYOUT.read(partials))
        sizes = np.bincount(entries.cells, minlength=entries.count)
        self.limit.check(sizes)
        values = self.inner.results_to_arrow(entries.partials, entries.dictionary)
        names = [field.name for field in self.inner.results]
        value = values[0] if len(values) == 1 else pa.StructArray.from_arrays(values, names)
        found = pa.StructArray.from_arrays([entries.keys, value], ["key", "value"])
        return lists([found], np.concatenate([[0], np.cumsum(sizes)])).reshape(partials.shape)


@dataclass(frozen=True)
class Inverse:
    """`invert` for maps: the partials of the keys of the older part are inverted; keys without records are removed."""

    maps: Maps

    @property
    def stored_as(self) -> str:
        """The meaning of the maps in the state."""
        return f"{self.maps.stored_as} inverted"

    def __call__(self, ab: Array, a: Array) -> Array:
        both = self.maps.entries(_LAYOUT.joined(ab, a, -1))
        rows, starts = both.runs()  # each entry of the whole before that of the older part
        paired = np.diff(np.append(starts, len(rows))) == 2
        heads, older = rows[starts], rows[starts[paired] + 1]
        kept = both.take(heads)
        records = kept.records.copy()
        records[paired] += both.records[older]
        columns = [column.copy() for column in kept.partials]
        whole, gone = ([column[at] for column in both.partials] for at in (heads[paired], older))
        for column, new in zip(columns, self.maps.inner.invert(whole, gone), strict=True):
            column[paired] = new
        left = replace(kept, records=records, partials=columns).take(np.flatnonzero(records))
        return self.maps.written(left).reshape(ab.shape)


def _gathered(maps: Maps, kinds: Sequence[str], starts: Array, *columns: Any) -> Array:
    """Return the partials of runs of records, for `Gathered`."""
    keys, *arrays = (in_arrow(kind, column, maps.limit.label) for kind, column in zip(kinds, columns, strict=True))
    if maps.key in FLOATS:
        keys = pa.array(np.asarray(keys.fill_null(0)) + 0.0, keys.type, mask=np.asarray(keys.is_null()))
    cells = cells_of(starts, len(keys))
    known = np.flatnonzero(np.asarray(keys.is_valid()))
    rows, heads = _runs(cells[known], ranked(encoded(keys.take(pa.array(known))))[0])
    rows = known[rows]
    partials, dictionary = fold_arrays(maps.inner, arrays, rows, heads)
    records = np.diff(np.append(heads, len(rows)))
    first = rows[heads]
    return maps.written(Entries(len(starts), cells[first], keys.take(pa.array(first)), records, partials, dictionary))


def _runs(cells: Array, ranks: Array) -> tuple[Array, Array]:
    rows = np.lexsort((ranks, cells))
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (np.diff(cells[rows]) != 0) | (np.diff(ranks[rows]) != 0)
    return rows, np.flatnonzero(new)


def _varying(type_: pa.DataType) -> pa.DataType:
    return pa.binary() if pa.types.is_fixed_size_binary(type_) else type_


def _varied(array: pa.Array) -> pa.Array:
    return cast(array, _varying(array.type))
