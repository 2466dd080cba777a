"""Kernels of functions on columns: one numpy call for the partials of all keys."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.aggregate import Aggregate, Fieldwise, Gathered
from slicing.aggregates.arrays import (
    OBJECT_BYTES,
    Array,
    Partials,
    as_tuple,
    copied,
    is_immutable,
    is_varying,
    object_array,
    text_bytes,
)
from slicing.aggregates.arrow import column_to_arrow, to_numpy
from slicing.aggregates.fields import (
    Field,
    decimal_of,
    is_nested,
    numpy_type,
)
from slicing.aggregates.kernel import RETURN, Kernel, as_given
from slicing.aggregates.ordered_bytes import encoded
from slicing.aggregates.ranks import (
    SortedTypes,
    limbs,
    ranks,
    ranks_from_arrow,
    ranks_to_arrow,
    sorted_dictionary,
)
from slicing.errors import FunctionFailed, InvalidType, RowFailure, SlicingError, raised
from slicing.profiling import COMBINE, of_stage

_FILL = (
    "Fill it there, for example with `np.ma.filled(value, ...)` or `np.where(np.ma.getmaskarray(value), ...)`; "
    "only `lower` may return masked cells."
)


class ColumnsKernel(Kernel):
    """Functions with `columns=True`: numpy arrays in, numpy arrays out."""

    def __init__(self, label: str, aggregate: Aggregate):
        super().__init__(label, aggregate)
        self.width = len(self.fields)
        value = aggregate.init()
        items = value if isinstance(value, tuple) else (value,)
        ranks = aggregate.view == "ranks"
        self.dtypes = [_physical(field, ranks) for field in self.fields]
        objects = [dtype == np.object_ for dtype in self.dtypes]
        self._mutable = [at for at, item in enumerate(items) if objects[at] and not is_immutable(item)]
        self._nullable = [not is_object or item is None for is_object, item in zip(objects, items, strict=True)]
        fixed = [None if at in self._mutable else item for at, item in enumerate(items)]
        self.identity = [_filled(dtype, item) for dtype, item in zip(self.dtypes, fixed, strict=True)]
        self.ranked = [ranks and _is_ranked(field.kind) for field in self.fields]
        of_fields = zip(self.fields, self.ranked, strict=True)
        self.dictionary = SortedTypes(tuple(dict.fromkeys(field.kind for field, ranked in of_fields if ranked)))
        if isinstance(aggregate.combine, Fieldwise):
            self.combine_ufuncs = aggregate.combine.ufuncs
        if isinstance(aggregate.invert, Fieldwise):
            self.invert_ufuncs = aggregate.invert.ufuncs

    def spread(self, shape: int | tuple[int, ...]) -> Partials:
        cells = [np.full(shape, identity[()], dtype=identity.dtype) for identity in self.identity]
        for at in self._mutable:
            cells[at] = object_array(
                (as_tuple(self.aggregate.init())[at] for _ in range(cells[at].size)), cells[at].shape
            )
        return cells

    @of_stage(COMBINE)
    def fold(self, values: Sequence[Any], starts: Array, count: int, onto: Partials | None = None) -> Partials:
        if isinstance(self.aggregate.agg, Gathered):
            folded = self._user("agg", partial(self.aggregate.agg.gather, starts), *values, shape=(len(starts),))
        else:
            acc = self._user("agg", self.aggregate.agg, as_given(self.spread(count)), *values, shape=(count,))
            folded = self.reduce(acc, starts)
        if onto is None:
            return folded
        try:
            return self.combine(onto, folded)
        except RowFailure as failure:
            raise failure.at(int(starts[failure.index])) from failure.__cause__

    @of_stage(COMBINE)
    def combine(self, a: Partials, b: Partials) -> Partials:
        if self.combine_ufuncs is not None:
            with np.errstate(all="ignore"):
                return self._formed([u(x, y) for u, x, y in zip(self.combine_ufuncs, a, b, strict=True)])
        return self._user("combine", self.aggregate.combine, as_given(a), as_given(b), shape=a[0].shape)

    @of_stage(COMBINE)
    def invert(self, ab: Partials, a: Partials) -> Partials:
        return self._user("invert", self.aggregate.invert, as_given(ab), as_given(a), shape=ab[0].shape)

    def runs(self, partials: Partials, low: Array, high: Array) -> Partials | None:
        of_runs = self.aggregate.partials_of_runs
        if of_runs is None or (found := of_runs(*partials, low, high)) is None:
            return None
        return list(found) if isinstance(found, tuple) else [found]

    def lower(self, partials: Partials) -> list[np.ma.MaskedArray[Any, Any] | Array]:
        if self.aggregate.lower is None:
            return list(partials)
        own = [_own(column, field) for column, field in zip(partials, self.fields, strict=True)]
        result = self._call("lower", self.aggregate.lower, as_given(own))
        parts = result if isinstance(result, tuple) else (result,)
        return [self._shaped("lower", part, partials[0].shape) for part in parts]

    def results_to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        arrays = []
        for column, field in zip(self.lower(partials), self.results, strict=True):
            if dictionary is not None and field.kind in self.dictionary.kinds:
                null = np.ma.getmaskarray(column)
                arrays.append(self._values_at(np.where(null, -1, np.ma.getdata(column)), dictionary, field))
            else:
                arrays.append(column_to_arrow(column, field, self.label))
        return arrays

    def to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        return [
            self._values_at(column, dictionary, field) if ranked else column_to_arrow(column, field, self.label)
            for column, field, ranked in zip(partials, self.fields, self.ranked, strict=True)
        ]

    def _values_at(self, ranks: Array, dictionary: pa.Array | None, field: Field) -> pa.Array:
        return self.dictionary.values(ranks_to_arrow(ranks, dictionary), field.kind)

    def from_arrow(
        self, arrays: Sequence[pa.Array], dictionary: pa.Array | None = None
    ) -> tuple[Partials, pa.Array | None]:
        arrays = list(map(self.dictionary.entries, arrays))
        ranked = [array for array, is_ranked in zip(arrays, self.ranked, strict=True) if is_ranked]
        if ranked and dictionary is None:
            dictionary = sorted_dictionary(ranked)
        columns = []
        for array, is_ranked, identity in zip(arrays, self.ranked, self.identity, strict=True):
            if is_ranked:
                columns.append(ranks_from_arrow(array, dictionary, int(identity[()])))
            else:
                columns.append(to_numpy(array, identity.dtype))
        return columns, dictionary

    def rerank(self, partials: Partials, old: pa.Array, new: pa.Array) -> Partials:
        moved = ranks(old, new)
        columns = []
        for column, ranked, identity in zip(partials, self.ranked, self.identity, strict=True):
            if ranked:
                known = (column >= 0) & (column < len(old))
                column, before = np.full_like(column, identity), column
                column[known] = moved[before[known]]
            columns.append(column)
        return columns

    def values(self, arrays: Sequence[pa.Array]) -> tuple[list[Any], pa.Array | None]:
        dictionary, arrays = self.no_dictionary, list(map(self.dictionary.entries, arrays))
        if dictionary is not None:
            dictionary = sorted_dictionary([dictionary, *(a for a in arrays if a.type == dictionary.type)])
        shown = []
        for array in arrays:
            if self.aggregate.view == "limbs" and pa.types.is_decimal(array.type):
                value: Any = limbs(array)
            elif dictionary is not None and array.type == dictionary.type:
                value = ranks(array, dictionary)
            elif self.aggregate.view == "ranks" and _value_type(array.type, "ranks") == np.object_:
                value = ranks(array, sorted_dictionary([array]))
            elif pa.types.is_nested(array.type):
                value = to_numpy(encoded(array), np.dtype(np.object_))
            else:
                value = to_numpy(array, _value_type(array.type, self.aggregate.view))
            if self.aggregate.nulls:
                null = np.asarray(array.is_null())
                limbed = isinstance(value, tuple)
                value = tuple(np.ma.MaskedArray(v, null) for v in value) if limbed else np.ma.MaskedArray(value, null)
            shown.append(value)
        return shown, dictionary

    def lengths(self, partials: Partials, dictionary: pa.Array | None) -> Array | float:
        found: Array | float = 0.0
        for column, field, ranked in zip(partials, self.fields, self.ranked, strict=True):
            if not (is_varying(field) or is_nested(field.kind)):
                continue
            if not ranked:
                found = found + text_bytes(column.tolist())
            elif dictionary is not None:
                nested = pa.types.is_nested(dictionary.type)
                by_rank = np.asarray(pc.binary_length(encoded(dictionary) if nested else dictionary), dtype=np.float64)
                inside = (column >= 0) & (column < len(by_rank))
                found = found + 4.0 + (np.append(by_rank, 0.0)[np.where(inside, column, -1)])
        return found

    @property
    def object_bytes(self) -> float:
        return sum(OBJECT_BYTES for dtype in self.dtypes if dtype == np.object_)

    @property
    def no_dictionary(self) -> pa.Array | None:
        return pa.array([], self.dictionary.type) if self.dictionary.kinds else None

    @property
    def layout(self) -> str:
        return f"{super().layout}/{self.width}/{self.aggregate.view}"

    def _user(self, name: str, function: Any, *args: Any, shape: tuple[int, ...]) -> Partials:
        result = self._call(name, function, *args)
        parts = result if isinstance(result, tuple) else (result,)
        if len(parts) != self.width:
            raise InvalidType(
                f"`{name}` of `{self.label}` must return {self.width} array(s), one per field of the partial "
                f"({', '.join(map(str, self.fields))}); got {len(parts)}."
            )
        return [self._typed(name, self._without_nulls(name, part, shape, at), at) for at, part in enumerate(parts)]

    def _without_nulls(self, name: str, part: Any, shape: tuple[int, ...], at: int) -> Array:
        """Return an array for a field of a partial, after refusing masked cells and None: a partial has no nulls."""
        array = self._shaped(name, part, shape)
        if isinstance(array, np.ma.MaskedArray):
            if np.ma.is_masked(array):
                raise self._null(name, at, "a masked cell", int(np.ma.getmaskarray(array).argmax()), _FILL)
            array = np.ma.getdata(array)
        if not self._nullable[at] and array.dtype == np.object_ and None in array:
            raise self._null(name, at, "None", array.ravel().tolist().index(None), RETURN)
        return array

    def _null(self, name: str, at: int, found: str, index: int, remedy: str) -> RowFailure:
        rule = f"`{name}` of `{self.label}` must return a value for field `{self.fields[at]}`: a partial has no nulls;"
        return RowFailure(InvalidType, rule, f"got {found}", remedy, index)

    def _typed(self, name: str, array: Array, at: int) -> Array:
        dtype, field = self.dtypes[at], self.fields[at]
        if array.dtype == dtype:
            return array
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise InvalidType(
                f"`{name}` of `{self.label}` must return {dtype} for field `{field}`; got {array.dtype}. "
                "Convert it there, or give another `partial`."
            )
        cast = array.astype(dtype)
        if dtype.kind in "iu" and not np.array_equal(cast, array):
            index = int((cast != array).argmax())
            rule = f"`{name}` of `{self.label}` must return what field `{field}` can hold;"
            found = f"got {array.ravel()[index]}"
            raise RowFailure(InvalidType, rule, found, "Widen the field in `partial`.", index)
        return cast

    def _call(self, name: str, function: Any, *args: Any) -> Any:
        try:
            with np.errstate(all="ignore"):
                return function(*args)
        except (SlicingError, RowFailure, MemoryError):
            raise
        except Exception as error:
            # Failures are rare, so the normal path does not pay for this search of the first value that fails alone.
            columns = [column for arg in args for column in (arg if isinstance(arg, tuple) else (arg,))]
            for index in range(columns[0].size):
                try:
                    function(*(_cell(arg, index) for arg in args))
                except Exception as alone:
                    raise self._failure(name, index, alone) from alone
            raise FunctionFailed(
                f"`{name}` of `{self.label}` raised {raised(error)} on arrays of {columns[0].size} "
                "values, and on none of them alone. With `columns=True` it must work cell by cell."
            ) from error

    def _shaped(self, name: str, part: Any, shape: tuple[int, ...]) -> Array:
        array = part if isinstance(part, np.ndarray) else np.asarray(part)
        if array.shape != shape:
            raise InvalidType(
                f"`{name}` of `{self.label}` works on columns and must return arrays of shape {shape}, as its "
                f"arguments have; got shape {array.shape}."
            )
        return array


def _value_type(type_: pa.DataType, view: str) -> np.dtype[Any]:
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return np.dtype(np.object_ if view == "values" else np.int64)
    if pa.types.is_duration(type_):
        return np.dtype(np.int64)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_):
        dtype: np.dtype[Any] = np.dtype(type_.to_pandas_dtype())
        return dtype
    return np.dtype(np.object_)


def _physical(field: Field, as_ranks: bool) -> np.dtype[Any]:
    dtype = numpy_type(field.kind)
    return np.dtype(np.int64) if as_ranks and dtype == np.object_ else dtype


def _own(column: Array, field: Field) -> Array:
    """Return a copy of a column of partials for `lower`, which may change its argument; the partials may be kept."""
    return copied(column) if column.dtype == np.object_ and field.kind == "binary" else column.copy()


def _filled(dtype: np.dtype[Any], item: Any) -> Array:
    cell = np.empty((), dtype=dtype)
    cell[()] = item
    return cell


def _is_ranked(kind: str) -> bool:
    return kind in ("string", "binary") or decimal_of(kind) is not None or is_nested(kind)


def _cell(argument: Any, index: int) -> Any:
    """Return one value of an argument of a columns function as an array of one item."""
    if isinstance(argument, tuple):
        return tuple(_cell(part, index) for part in argument)
    return argument.ravel()[index : index + 1]
