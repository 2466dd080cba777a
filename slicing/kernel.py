"""Kernels: an aggregate's functions on arrays of partials, whether the user wrote them for rows or for columns.

A *partials* value is a list of numpy arrays of equal shape. A columns kernel has one array per field; a rows kernel has
one object array whose items are what the user's functions take and return. Everything above this file sees only
`Kernel` and never asks which of the two it is.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from decimal import Decimal
from functools import partial
from itertools import islice, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slicing.aggregate import Aggregate, Fieldwise, Gathered
from slicing.errors import FunctionFailed, InvalidType, RowFailure, SlicingError, excerpt, raised, shortened
from slicing.kinds import INTEGERS, Field, arrow_type, decimal_of, element_of, members_of, numpy_type, width_of

Array = NDArray[Any]
Partials = list[Array]

_IMMUTABLE = frozenset({type(None), bool, int, float, str, bytes, dt.date, dt.datetime, Decimal})
_HANDLE = "Handle such values in the function, or filter them out before the aggregation."
_FILL = (
    "Fill it there, for example with `np.ma.filled(value, ...)` or `np.where(np.ma.getmaskarray(value), ...)`; "
    "only `lower` may return masked cells."
)
_RETURN = "Return a value there, such as that of `init()`; only `lower` may return None."
WIDE_BYTES = 256
"""From so many bytes in fields of fixed length on a partial is large beside a record."""
OBJECT_BYTES = 48.0
"""About what a Python object takes beside what it holds; a small number is one, and so is a tuple of fields."""


@contextmanager
def locating(place: Callable[[int], str]) -> Iterator[None]:
    """Turn a RowFailure inside into the error that says where: `place(index)` names key and slice or window."""
    try:
        yield
    except RowFailure as failure:
        found = f"{failure.rule} {failure.cause} for {place(failure.index)}. {failure.remedy}"
        raise failure.kind(found) from failure.__cause__


class Kernel:
    """What columns and rows kernels share. `label` is the result's name, used in messages."""

    width: int

    def __init__(self, label: str, aggregate: Aggregate):
        self.label = label
        self.aggregate = aggregate
        self.fields = aggregate.fields
        self.results = aggregate.results
        self.combine_ufuncs: tuple[np.ufunc, ...] | None = None
        self.invert_ufuncs: tuple[np.ufunc, ...] | None = None

    def __reduce__(self) -> tuple[Callable[[str, Aggregate], Kernel], tuple[str, Aggregate]]:
        return kernel, (self.label, self.aggregate)

    def spread(self, shape: int | tuple[int, ...]) -> Partials:
        """`init()` in every cell."""
        raise NotImplementedError

    def fold(self, values: Sequence[Any], starts: Array, count: int, onto: Partials | None = None) -> Partials:
        """Fold `count` records, group g being records `starts[g]` up to the next start, in order.

        `onto` has a partial per group to go on from, `init()` if left out.
        """
        raise NotImplementedError

    def combine(self, a: Partials, b: Partials) -> Partials:
        """Join partials cell by cell, `a` the older."""
        raise NotImplementedError

    def invert(self, ab: Partials, a: Partials) -> Partials:
        """Take the older part `a` out of `ab`, cell by cell."""
        raise NotImplementedError

    def lower(self, partials: Partials) -> list[np.ma.MaskedArray[Any, Any] | Array]:
        """The results of one-dimensional partials, one array per field of the result; masked means null."""
        raise NotImplementedError

    def results_to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        """The results as Arrow arrays of their kinds."""
        raise NotImplementedError

    def to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        """One Arrow array per field."""
        raise NotImplementedError

    def from_arrow(
        self, arrays: Sequence[pa.Array], dictionary: pa.Array | None = None
    ) -> tuple[Partials, pa.Array | None]:
        """The inverse of `to_arrow`: partials, and the dictionary of their ranks, made here unless given."""
        raise NotImplementedError

    def rerank(self, partials: Partials, old: pa.Array, new: pa.Array) -> Partials:
        """Partials with ranks in the dictionary `new`, which holds all values of `old`, in which their ranks are."""
        return partials

    def values(self, arrays: Sequence[pa.Array]) -> tuple[list[Any], pa.Array | None]:
        """Columns of records as `agg` sees them, and the dictionary of their ranks."""
        raise NotImplementedError

    def sizes(self, partials: Partials, dictionary: pa.Array | None) -> Array | float:
        """About how many bytes each partial takes as Arrow has it; one number where all take the same."""
        fixed = sum(float(arrow_type(field.kind).bit_width // 8 or 1) for field in self.fields if not is_varying(field))
        return fixed + self.lengths(partials, dictionary)

    def lengths(self, partials: Partials, dictionary: pa.Array | None) -> Array | float:
        """How many bytes of text and binaries are in each partial, of the values of a dictionary only if it is given.

        A number if the partials have none. Beside each value 4 bytes say where it ends.
        """
        raise NotImplementedError

    @property
    def has_long_objects(self) -> bool:
        """Whether partials are Python objects that may be of any size, or of a length that is many times a record's."""
        wide = sum(width_of(field.kind) or 0 for field in self.fields) > WIDE_BYTES
        return wide or (self.object_bytes > 0 and any(map(is_varying, self.fields)))

    @property
    def object_bytes(self) -> float:
        """About how many bytes a partial takes in memory beside its arrays and the lengths of its values."""
        raise NotImplementedError

    def sums_fit(self, *parts: Partials) -> bool:
        """Whether all these partials can be added up by the ufuncs of `combine`; asked where it has such."""
        return True

    @property
    def no_dictionary(self) -> pa.Array | None:
        """The dictionary of a block without rows: None unless the kernel works on ranks."""
        return None

    def _formed(self, partials: Partials) -> Partials:
        """What the ufuncs of `combine` gave, as `combine` itself gives it."""
        combine = self.aggregate.combine
        if not isinstance(combine, Fieldwise) or combine.then is None:
            return partials
        result = combine.then(_shown(partials))
        return list(result) if isinstance(result, tuple) else [result]

    @property
    def layout(self) -> str:
        """How partials lie in memory, beside the types of their fields."""
        return type(self).__name__

    def _failure(self, name: str, index: int, error: Exception) -> RowFailure:
        return RowFailure(FunctionFailed, f"`{name}` of `{self.label}` raised", raised(error), _HANDLE, index)

    def reduce(self, partials: Partials, starts: Array) -> Partials:
        """Combine runs of partials into one each, in order; run g begins at `starts[g]`.

        With ufuncs one `reduceat` per field; otherwise neighbours are joined in rounds, which halves their number each
        time and keeps their order, so that a run of m costs m - 1 combines in log2(m) calls.
        """
        count = len(partials[0])
        if len(starts) == count:
            return partials
        if self.combine_ufuncs is not None:
            with np.errstate(all="ignore"):
                reduced = [u.reduceat(column, starts) for u, column in zip(self.combine_ufuncs, partials, strict=True)]
                return self._formed(reduced)
        lengths = np.diff(np.append(starts, count))
        origin = np.arange(count)
        while len(partials[0]) > len(lengths):
            position = np.arange(len(partials[0])) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            keep = np.flatnonzero(position % 2 == 0)
            paired = position[keep] + 1 < np.repeat(lengths, lengths)[keep]
            left = keep[paired]
            try:
                joined = self.combine([c[left] for c in partials], [c[left + 1] for c in partials])
            except RowFailure as failure:
                raise failure.at(int(origin[left[failure.index]])) from failure.__cause__
            origin = origin[keep]
            partials = [column[keep] for column in partials]
            for column, new in zip(partials, joined, strict=True):
                column[paired] = new
            lengths = (lengths + 1) // 2
        return partials


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
        if isinstance(aggregate.combine, Fieldwise):
            self.combine_ufuncs = aggregate.combine.ufuncs
        if isinstance(aggregate.invert, Fieldwise):
            self.invert_ufuncs = aggregate.invert.ufuncs

    def spread(self, shape: int | tuple[int, ...]) -> Partials:
        cells = [np.full(shape, identity[()], dtype=identity.dtype) for identity in self.identity]
        for at in self._mutable:
            cells[at] = _objects((_items(self.aggregate.init())[at] for _ in range(cells[at].size)), cells[at].shape)
        return cells

    def fold(self, values: Sequence[Any], starts: Array, count: int, onto: Partials | None = None) -> Partials:
        if isinstance(self.aggregate.agg, Gathered):
            folded = self._user("agg", partial(self.aggregate.agg.gather, starts), *values, shape=(len(starts),))
        else:
            acc = self._user("agg", self.aggregate.agg, _shown(self.spread(count)), *values, shape=(count,))
            folded = self.reduce(acc, starts)
        if onto is None:
            return folded
        try:
            return self.combine(onto, folded)
        except RowFailure as failure:
            raise failure.at(int(starts[failure.index])) from failure.__cause__

    def combine(self, a: Partials, b: Partials) -> Partials:
        if self.combine_ufuncs is not None:
            with np.errstate(all="ignore"):
                return self._formed([u(x, y) for u, x, y in zip(self.combine_ufuncs, a, b, strict=True)])
        return self._user("combine", self.aggregate.combine, _shown(a), _shown(b), shape=a[0].shape)

    def invert(self, ab: Partials, a: Partials) -> Partials:
        return self._user("invert", self.aggregate.invert, _shown(ab), _shown(a), shape=ab[0].shape)

    def lower(self, partials: Partials) -> list[np.ma.MaskedArray[Any, Any] | Array]:
        if self.aggregate.lower is None:
            return list(partials)
        own = [_own(column, field) for column, field in zip(partials, self.fields, strict=True)]
        result = self._call("lower", self.aggregate.lower, _shown(own))
        parts = result if isinstance(result, tuple) else (result,)
        return [self._shaped("lower", part, partials[0].shape) for part in parts]

    def results_to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        arrays = []
        for column, field in zip(self.lower(partials), self.results, strict=True):
            if dictionary is not None and _is_ranked(field.kind):
                null = np.ma.getmaskarray(column)
                arrays.append(_ranks_to_arrow(np.where(null, -1, np.ma.getdata(column)), dictionary))
            else:
                arrays.append(_column_to_arrow(column, field, self.label))
        return arrays

    def to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        return [
            _ranks_to_arrow(column, dictionary) if ranked else _column_to_arrow(column, field, self.label)
            for column, field, ranked in zip(partials, self.fields, self.ranked, strict=True)
        ]

    def from_arrow(
        self, arrays: Sequence[pa.Array], dictionary: pa.Array | None = None
    ) -> tuple[Partials, pa.Array | None]:
        ranked = [array for array, is_ranked in zip(arrays, self.ranked, strict=True) if is_ranked]
        if ranked and dictionary is None:
            dictionary = sorted_dictionary(ranked)
        columns = []
        for array, is_ranked, identity in zip(arrays, self.ranked, self.identity, strict=True):
            if is_ranked:
                columns.append(_ranks_from_arrow(array, dictionary, int(identity[()])))
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
        dictionary = self.no_dictionary
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
            if not is_varying(field):
                continue
            if not ranked:
                found = found + _lengths(column.tolist())
            elif dictionary is not None:
                by_rank = np.asarray(pc.binary_length(dictionary), dtype=np.float64)
                inside = (column >= 0) & (column < len(by_rank))
                found = found + 4.0 + (np.append(by_rank, 0.0)[np.where(inside, column, -1)])
        return found

    @property
    def object_bytes(self) -> float:
        return sum(OBJECT_BYTES for dtype in self.dtypes if dtype == np.object_)

    @property
    def no_dictionary(self) -> pa.Array | None:
        for field, ranked in zip(self.fields, self.ranked, strict=True):
            if ranked:
                return pa.array([], arrow_type(field.kind))
        return None

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
        """An array for a field of a partial, which has no nulls: neither masked cells nor None."""
        array = self._shaped(name, part, shape)
        if isinstance(array, np.ma.MaskedArray):
            if np.ma.is_masked(array):
                raise self._null(name, at, "a masked cell", int(np.ma.getmaskarray(array).argmax()), _FILL)
            array = np.ma.getdata(array)
        if not self._nullable[at] and array.dtype == np.object_ and None in array:
            raise self._null(name, at, "None", array.ravel().tolist().index(None), _RETURN)
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
            # Rare, so the way of the many pays nothing for it: find the first value that fails alone.
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


class RowsKernel(Kernel):
    """Functions for single rows, run in the same kernels on object arrays: one item is one partial."""

    width = 1

    def __init__(self, label: str, aggregate: Aggregate):
        super().__init__(label, aggregate)
        value = aggregate.init()
        self._single = len(self.fields) == 1 and not isinstance(value, tuple)
        # Where `init()` has None, the functions know what it means.
        self._required = [at for at, item in enumerate(_items(value)) if item is not None]
        self._combine = aggregate.combine and np.frompyfunc(aggregate.combine, 2, 1)
        self._invert = aggregate.invert and np.frompyfunc(aggregate.invert, 2, 1)

    def spread(self, shape: int | tuple[int, ...]) -> Partials:
        cells, value = np.empty(shape, dtype=object), self.aggregate.init()
        if is_immutable(value):
            cells.fill(value)
            return [cells]
        return [_objects((self.aggregate.init() for _ in range(cells.size)), cells.shape)]

    def fold(self, values: Sequence[Any], starts: Array, count: int, onto: Partials | None = None) -> Partials:
        init, agg = self.aggregate.init, self.aggregate.agg
        acc: Any = ()
        rows = zip(*(value.tolist() for value in values), strict=True) if values else repeat((), count)
        records, folded = iter(list(rows)), np.empty(len(starts), dtype=object)
        try:
            for group, size in enumerate(_sizes(starts, count)):
                acc = init() if onto is None else onto[0][group]
                for record in islice(records, size):
                    acc = agg(acc, *record)
                folded[group] = acc
        except MemoryError:
            raise
        except Exception as error:
            raise self._fault("agg", _taken(records, count), error, "agg", acc) from error
        self._check("agg", folded, lambda group: int(starts[group]))
        return [folded]

    def combine(self, a: Partials, b: Partials) -> Partials:
        return [self._apply("combine", self._combine, self.aggregate.combine, a[0], b[0])]

    def invert(self, ab: Partials, a: Partials) -> Partials:
        return [self._apply("invert", self._invert, self.aggregate.invert, ab[0], a[0])]

    def lower(self, partials: Partials) -> list[np.ma.MaskedArray[Any, Any] | Array]:
        items = partials[0]
        self._check(self._makers, items)
        if self.aggregate.lower is not None:
            own = self._own(items)
            items = self._apply("lower", np.frompyfunc(self.aggregate.lower, 1, 1), self.aggregate.lower, own)
        if len(self.results) == 1 and not (self.aggregate.lower is None and not self._single):
            return [items]
        return self._unzip(items, self.results)

    def results_to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        columns = self.lower(partials)
        return [_objects_to_arrow(c, field, self.label) for c, field in zip(columns, self.results, strict=True)]

    def to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        columns = [partials[0]] if self._single else self._unzip(partials[0], self.fields)
        arrays = [_objects_to_arrow(c, field, self.label) for c, field in zip(columns, self.fields, strict=True)]
        if any(arrays[at].null_count for at in self._required):
            self._check(self._makers, partials[0])
        return arrays

    def from_arrow(
        self, arrays: Sequence[pa.Array], dictionary: pa.Array | None = None
    ) -> tuple[Partials, pa.Array | None]:
        lists = [array.to_pylist() for array in arrays]
        items = lists[0] if self._single else zip(*lists, strict=True)
        return [np.fromiter(items, dtype=object, count=len(lists[0]))], None

    def values(self, arrays: Sequence[pa.Array]) -> tuple[list[Any], pa.Array | None]:
        return [to_numpy(array, np.dtype(np.object_)) for array in arrays], None

    def lengths(self, partials: Partials, dictionary: pa.Array | None) -> Array | float:
        varying = [i for i, field in enumerate(self.fields) if is_varying(field)]
        if not varying:
            return 0.0
        if self._single:
            return _lengths(partials[0].tolist())
        columns = self._unzip(partials[0], self.fields)
        return sum((_lengths(columns[i].tolist()) for i in varying), np.zeros(len(partials[0])))

    @property
    def object_bytes(self) -> float:
        return OBJECT_BYTES * (len(self.fields) + (not self._single))

    def reduce(self, partials: Partials, starts: Array) -> Partials:
        combine, count = self.aggregate.combine, len(partials[0])
        acc: Any = ()
        assert combine is not None
        items, joined = iter(partials[0].tolist()), np.empty(len(starts), dtype=object)
        try:
            for group, size in enumerate(_sizes(starts, count)):
                acc = next(items)
                for item in islice(items, size - 1):
                    acc = combine(acc, item)
                joined[group] = acc
        except MemoryError:
            raise
        except Exception as error:
            raise self._fault("combine", _taken(items, count), error, "combine", acc) from error
        self._check("combine", joined, lambda group: int(starts[group]))
        return [joined]

    def _unzip(self, items: Array, fields: tuple[Field, ...]) -> list[Array]:
        try:
            columns = list(zip(*items.tolist(), strict=True)) or [()] * len(fields)
        except (TypeError, ValueError):
            columns = []
        if len(columns) != len(fields):
            wrong = (not isinstance(item, tuple) or len(item) != len(fields) for item in items)
            index = next(at for at, is_wrong in enumerate(wrong) if is_wrong)
            named = f"{len(fields)} items ({', '.join(map(str, fields))})"
            rule, found = f"the functions of `{self.label}` must return tuples of {named};", excerpt(items[index])
            remedy = "Return all of them, or give another `partial` or `returns`."
            raise RowFailure(InvalidType, rule, f"got {found}", remedy, index)
        return [np.fromiter(column, dtype=object, count=len(items)) for column in columns]

    def _apply(self, name: str, ufunc: Any, function: Any, *arrays: Array) -> Array:
        try:
            with np.errstate(all="ignore"):  # what a user's function does to floats is no warning of numpy
                return np.asarray(ufunc(*arrays), dtype=object)
        except MemoryError:
            raise
        except Exception:
            # Rare, so the way of the many pays nothing for it: find the first item that fails.
            for index, items in enumerate(zip(*(array.ravel() for array in arrays), strict=True)):
                try:
                    function(*items)
                except Exception as error:
                    raise self._fault(name, index, error, self._makers, *items) from error
            raise

    def _fault(self, name: str, index: int, error: Exception, makers: str, *partials: Any) -> RowFailure:
        """What went wrong: `makers` returned one of the partials with a null before, or else the function raised."""
        null = next((partial for partial in partials if self._lacks(partial)), self)
        return self._failure(name, index, error) if null is self else self._null(makers, null, index)

    def _check(self, makers: str, made: Array, index: Callable[[int], int] = int) -> None:
        """Raise a RowFailure for the first partial with a null, the one at `at` being made of item `index(at)`."""
        items = made.ravel().tolist()
        if self._has_null(items):
            for at, item in enumerate(items):
                if self._lacks(item):
                    raise self._null(makers, item, index(at))

    def _null(self, makers: str, found: Any, index: int) -> RowFailure:
        rule = f"`{makers}` of `{self.label}` must return a value for each field: a partial has no nulls;"
        return RowFailure(InvalidType, rule, f"got {excerpt(found)}", _RETURN, index)

    def _lacks(self, partial: Any) -> bool:
        parts = partial if isinstance(partial, tuple | list) else (partial,)
        return any(parts[at] is None for at in self._required if at < len(parts))

    @property
    def _makers(self) -> str:
        """What a partial comes from if `agg`, whose partials are checked at once, has not made it."""
        return "combine` or `invert" if self.aggregate.invert else "combine"

    def _has_null(self, items: list[Any]) -> bool:
        """Whether there is a null in one of the partials, in a field in which `init()` has none."""
        if self._single:
            return bool(self._required) and None in items
        try:
            if len(self._required) == len(self.fields):
                return any(map(operator.contains, items, repeat(None)))
            return any(None in map(operator.itemgetter(at), items) for at in self._required)
        except (TypeError, IndexError):
            return None in items  # what else is no tuple of all fields is refused where it is stored

    def _own(self, items: Array) -> Array:
        """The partials for `lower`, which may change what it is given: copies of what can be, as they may be kept."""
        fixed = all(field.kind != "binary" for field in self.fields)
        if fixed and (self._single or set(map(type, items.tolist())) <= {tuple}):
            return items
        return _copied(items)


def is_immutable(value: Any) -> bool:
    """Whether many cells may share a value, since no function can change it."""
    kind = type(value)
    return kind in _IMMUTABLE or (kind is tuple and all(map(is_immutable, value))) or isinstance(value, np.number)


MAKERS: list[Callable[[str, Aggregate], Kernel | None]] = []
"""Other kernels for functions of single rows: each makes one, or None for what it is not made for."""


def kernel(label: str, aggregate: Aggregate) -> Kernel:
    """The kernel of an aggregate."""
    if aggregate.columns:
        return ColumnsKernel(label, aggregate)
    made = (make(label, aggregate) for make in MAKERS)
    return next((found for found in made if found is not None), None) or RowsKernel(label, aggregate)


def to_numpy(array: pa.Array, dtype: np.dtype[Any]) -> Array:
    """An Arrow array as a writable numpy array of a physical dtype; null cells hold anything."""
    if dtype == np.object_:
        return np.fromiter(array.to_pylist(), dtype=object, count=len(array))
    if dtype.kind == "V":
        return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)].copy()
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    return np.array(array.to_numpy(zero_copy_only=False), dtype=dtype)


def sorted_dictionary(arrays: Sequence[pa.Array]) -> pa.Array:
    """The distinct non-null values of arrays of one type, ascending."""
    distinct = pa.chunked_array(arrays).unique().drop_null()
    return distinct.take(pc.array_sort_indices(distinct))


def union(dictionaries: Sequence[pa.Array | None]) -> pa.Array | None:
    """The dictionary of all values of dictionaries of one type; None if there are none."""
    some = [dictionary for dictionary in dictionaries if dictionary is not None]
    if all(dictionary is some[0] for dictionary in some):
        return some[0] if some else None
    return sorted_dictionary(some)


def ranks(array: pa.Array, dictionary: pa.Array) -> Array:
    """Ranks of values in a sorted dictionary that holds them all; -1 for null."""
    return to_numpy(pc.index_in(array, dictionary).fill_null(-1), np.dtype(np.int64))


def limbs(array: pa.Array) -> tuple[Array, Array, Array, Array]:
    """Unscaled decimals as four int64 arrays of 32 bits each, lowest first, the top one signed; null is zero."""
    array = array.fill_null(0) if array.null_count else array
    words = np.frombuffer(array.buffers()[1], dtype="<u4")[4 * array.offset : 4 * (array.offset + len(array))]
    low, second, third, top = words.reshape(-1, 4).T
    return low.astype(np.int64), second.astype(np.int64), third.astype(np.int64), top.astype(np.int32).astype(np.int64)


def _value_type(type_: pa.DataType, view: str) -> np.dtype[Any]:
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return np.dtype(np.object_ if view == "values" else np.int64)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_):
        dtype: np.dtype[Any] = np.dtype(type_.to_pandas_dtype())
        return dtype
    return np.dtype(np.object_)


def _physical(field: Field, as_ranks: bool) -> np.dtype[Any]:
    dtype = numpy_type(field.kind)
    return np.dtype(np.int64) if as_ranks and dtype == np.object_ else dtype


def fresh(partials: Partials) -> Partials:
    """Copies that a function may change."""
    return [_copied(column) if column.dtype == np.object_ else column.copy() for column in partials]


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _objects(items: Iterable[Any], shape: tuple[int, ...]) -> Array:
    return np.fromiter(items, dtype=object).reshape(shape)


def _own(column: Array, field: Field) -> Array:
    """A copy of a column of partials for `lower`, which may change what it is given, while partials may be kept."""
    return _copied(column) if column.dtype == np.object_ and field.kind == "binary" else column.copy()


def _copied(items: Array) -> Array:
    return _objects((i if is_immutable(i) else deepcopy(i) for i in items.ravel().tolist()), items.shape)


def _sizes(starts: Array, count: int) -> list[int]:
    sizes: list[int] = np.diff(np.append(starts, count)).tolist()
    return sizes


def _taken(items: Iterator[Any], count: int) -> int:
    """The place of the item that was taken last, of `count` in all."""
    return max(0, count - operator.length_hint(items) - 1)


def _filled(dtype: np.dtype[Any], item: Any) -> Array:
    cell = np.empty((), dtype=dtype)
    cell[()] = item
    return cell


def is_varying(field: Field) -> bool:
    """Whether values of a field have a length each."""
    return field.kind in ("string", "binary")


def _lengths(items: Sequence[Any]) -> Array:
    """4 and the bytes of each value; of text that is not ASCII the most that it may take."""
    try:
        if isinstance(items[0] if len(items) else b"", bytes) or all(map(str.isascii, items)):
            return 4.0 + np.fromiter(map(len, items), dtype=np.float64, count=len(items))
    except TypeError:
        pass  # nulls, or what is of a wrong type: that is refused where it becomes a column of Arrow
    return np.array([_length(item) for item in items])


def _length(item: Any) -> float:
    length = len(item) if isinstance(item, (str, bytes, bytearray, memoryview)) else 0
    return 4.0 + length * (4 if isinstance(item, str) and not item.isascii() else 1)


def _is_ranked(kind: str) -> bool:
    return kind in ("string", "binary") or decimal_of(kind) is not None


def _cell(argument: Any, index: int) -> Any:
    """One value of an argument of a columns function, as an array of its own."""
    if isinstance(argument, tuple):
        return tuple(_cell(part, index) for part in argument)
    return argument.ravel()[index : index + 1]


def _shown(partials: Partials) -> Any:
    return partials[0] if len(partials) == 1 else tuple(partials)


def _ranks_to_arrow(column: Array, dictionary: pa.Array | None) -> pa.Array:
    assert dictionary is not None
    inside = (column >= 0) & (column < len(dictionary))
    return dictionary.take(pa.array(np.where(inside, column, 0), mask=~inside))


def _ranks_from_arrow(array: pa.Array, dictionary: pa.Array | None, absent: int) -> Array:
    assert dictionary is not None
    found = ranks(array, dictionary)
    found[found < 0] = absent
    return found


_UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError)


def _column_to_arrow(column: Array, field: Field, label: str) -> pa.Array:
    mask = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    data = np.ma.getdata(column)
    if data.dtype == np.object_:
        if mask is not None:
            data = data.copy()
            data[mask] = None
        if element_of(field.kind):
            return _lists_to_arrow(data.tolist(), field, label)
        return _objects_to_arrow(data, field, label)
    target = arrow_type(field.kind)
    if data.dtype.kind == "V":
        return pa.FixedSizeBinaryArray.from_buffers(target, len(data), [None, pa.py_buffer(data.tobytes())])
    if pa.types.is_date32(target):
        return pa.array(data.astype(np.int32), mask=mask).cast(target)
    array = pa.array(data, mask=mask)
    if array.type == target:
        return array
    try:
        return array.cast(target)
    except _UNFIT as error:
        singles = (array.slice(at, 1) for at in range(len(array)))
        raise _wrong_type(field, label, error, data, singles, lambda single: single.cast(target)) from None


def _lists_to_arrow(items: list[Any], field: Field, label: str) -> pa.Array:
    """Arrays of lists, each an array, or for structs a tuple of arrays of equal length, one for each field."""
    element, members = str(element_of(field.kind)), members_of(str(element_of(field.kind)))
    null = np.array([item is None for item in items], dtype=bool)
    known = [item for item in items if item is not None]
    lengths = np.zeros(len(items), np.int32)
    lengths[~null] = [len(item[0] if members else item) for item in known]
    if members:
        columns = [
            _flat_to_arrow([item[at] for item in known], Field(f"{field.name}.{member.name}", member.kind), label)
            for at, member in enumerate(members)
        ]
        flat = pa.StructArray.from_arrays(columns, [member.name for member in members])
    else:
        flat = _flat_to_arrow(known, Field(field.name, element), label)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, flat, mask=pa.array(null) if null.any() else None)


def _flat_to_arrow(pieces: list[Any], field: Field, label: str) -> pa.Array:
    if not pieces:
        return pa.array([], arrow_type(field.kind))
    return _column_to_arrow(np.concatenate(pieces), field, label)


def _objects_to_arrow(column: Array, field: Field, label: str) -> pa.Array:
    items = column.tolist()
    try:
        return _typed_array(items, field)
    except _UNFIT as error:
        singles = ([item] for item in items)
        raise _wrong_type(field, label, error, items, singles, lambda single: _typed_array(single, field)) from None


def _typed_array(items: list[Any], field: Field) -> pa.Array:
    target = arrow_type(field.kind)
    if field.kind not in INTEGERS:
        return pa.array(items, type=target)
    # Given the type, pyarrow would cut 2.5 to 2; without it, text would be parsed by the cast.
    array = pa.array(items)
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        raise pa.ArrowInvalid("text is not a number")
    return array.cast(target)


def _wrong_type(
    field: Field,
    label: str,
    error: Exception,
    items: Array | list[Any],
    singles: Iterable[Any],
    fit: Callable[[Any], Any],
) -> RowFailure:
    """The failure of the first item that does not fit alone, or else of the first one."""
    index = 0
    for at, single in enumerate(singles):
        try:
            fit(single)
        except _UNFIT as alone:
            index, error = at, alone
            break
    return RowFailure(
        InvalidType,
        f"field `{field.name}` of `{label}` must be of type {field.kind};",
        f"got {excerpt(items[index])} ({shortened(str(error))})",
        "Return that type from the functions, or give another `partial` or `returns`.",
        index,
    )
