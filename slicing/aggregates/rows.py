"""Kernels of functions on rows: plain Python, one partial after another."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates import calls
from slicing.aggregates.aggregate import Aggregate
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
from slicing.aggregates.arrow import objects_to_arrow, to_numpy
from slicing.aggregates.calls import sizes_of, unzipped
from slicing.aggregates.fields import (
    Field,
)
from slicing.aggregates.kernel import RETURN, Kernel
from slicing.errors import InvalidType, RowFailure, excerpt
from slicing.profiling import COMBINE, of_stage


class RowsKernel(Kernel):
    """Functions of single rows, run by the common kernel interface on object arrays: one item is one partial."""

    width = 1

    def __init__(self, label: str, aggregate: Aggregate):
        super().__init__(label, aggregate)
        value = aggregate.init()
        self._single = len(self.fields) == 1 and not isinstance(value, tuple)
        # A field that is None in `init()` may be None in any partial.
        self._required = [at for at, item in enumerate(as_tuple(value)) if item is not None]

    def spread(self, shape: int | tuple[int, ...]) -> Partials:
        cells, value = np.empty(shape, dtype=object), self.aggregate.init()
        if is_immutable(value):
            cells.fill(value)
            return [cells]
        return [object_array((self.aggregate.init() for _ in range(cells.size)), cells.shape)]

    @of_stage(COMBINE)
    def fold(self, values: Sequence[Any], starts: Array, count: int, onto: Partials | None = None) -> Partials:
        folded = self.folded(values, starts, count, None if onto is None else onto[0].tolist())
        self.check("agg", folded, lambda group: int(starts[group]))
        return [object_array(folded, (len(folded),))]

    def folded(self, values: Sequence[Any], starts: Array, count: int, onto: list[Any] | None) -> list[Any]:
        """Return the partials of `fold`, not checked for nulls."""
        accs = self._initial(len(starts)) if onto is None else onto
        many = self.aggregate.agg_many
        try:
            if many is not None:
                return calls.folded_runs(many, accs, values, starts, count)
            return calls.folded(self.aggregate.agg, accs, values, starts, count)
        except calls.Raised as raised:
            start, at = int(starts[raised.group]), raised.record
            if at is None:
                raise self._failure("agg_many", start, raised.error) from raised.error
            acc = self._up_to(accs[raised.group], [value[start:at] for value in values], at - start)
            raise self._fault("agg", at, raised.error, "agg", acc) from raised.error

    def _initial(self, count: int) -> list[Any]:
        value = self.aggregate.init()
        return [value] * count if is_immutable(value) else [self.aggregate.init() for _ in range(count)]

    def _up_to(self, acc: Any, values: Sequence[Any], count: int) -> Any:
        """Return, as far as possible, the partial before the record that failed; used only after a failure."""
        with suppress(Exception):
            for record in calls.records(values, count):
                acc = self.aggregate.agg(acc, *record)
        return acc

    @of_stage(COMBINE)
    def combine(self, a: Partials, b: Partials) -> Partials:
        return [self._applied("combine", self.aggregate.combine, a[0], b[0])]

    @of_stage(COMBINE)
    def invert(self, ab: Partials, a: Partials) -> Partials:
        return [self._applied("invert", self.aggregate.invert, ab[0], a[0])]

    def lower(self, partials: Partials) -> list[np.ma.MaskedArray[Any, Any] | Array]:
        items = partials[0]
        self.check(self._makers, items.tolist())
        if self.aggregate.lower is not None:
            items = self._applied("lower", self.aggregate.lower, self._own(items))
        if len(self.results) == 1 and not (self.aggregate.lower is None and not self._single):
            return [items]
        return self._unzip(items, self.results)

    def results_to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        columns = self.lower(partials)
        return [objects_to_arrow(c, field, self.label) for c, field in zip(columns, self.results, strict=True)]

    def to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        columns = [partials[0]] if self._single else self._unzip(partials[0], self.fields)
        arrays = [objects_to_arrow(c, field, self.label) for c, field in zip(columns, self.fields, strict=True)]
        if any(arrays[at].null_count for at in self._required):
            self.check(self._makers, partials[0].tolist())
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
            return text_bytes(partials[0].tolist())
        columns = self._unzip(partials[0], self.fields)
        return sum((text_bytes(columns[i].tolist()) for i in varying), np.zeros(len(partials[0])))

    @property
    def object_bytes(self) -> float:
        return OBJECT_BYTES * (len(self.fields) + (not self._single))

    @of_stage(COMBINE)
    def reduce(self, partials: Partials, starts: Array) -> Partials:
        joined = self.reduced(partials[0].tolist(), starts)
        self.check("combine", joined, lambda group: int(starts[group]))
        return [object_array(joined, (len(joined),))]

    def reduced(self, partials: list[Any], starts: Array) -> list[Any]:
        """Return the partials of `reduce`, not checked for nulls."""
        combine, count, joined = self.aggregate.combine, len(partials), []
        assert combine is not None
        acc: Any = ()
        items = iter(partials)
        try:
            for size in sizes_of(starts, count):
                acc = next(items)
                for item in islice(items, size - 1):
                    acc = combine(acc, item)
                joined.append(acc)
        except MemoryError:
            raise
        except Exception as error:
            raise self._fault("combine", _taken(items, count), error, "combine", acc) from error
        return joined

    def _unzip(self, items: Array, fields: tuple[Field, ...]) -> list[Array]:
        columns = unzipped(items.tolist(), len(fields))
        if columns is None:
            wrong = (not isinstance(item, tuple | list) or len(item) != len(fields) for item in items)
            index = next(at for at, is_wrong in enumerate(wrong) if is_wrong)
            named = f"{len(fields)} items ({', '.join(map(str, fields))})"
            rule, found = f"the functions of `{self.label}` must return tuples of {named};", excerpt(items[index])
            remedy = "Return all of them, or give another `partial` or `returns`."
            raise RowFailure(InvalidType, rule, f"got {found}", remedy, index)
        return [np.fromiter(column, dtype=object, count=len(items)) for column in columns]

    def _applied(self, name: str, function: Any, *arrays: Array) -> Array:
        made = self.applied(name, function, *(array.ravel().tolist() for array in arrays))
        return object_array(made, arrays[0].shape)

    def applied(self, name: str, function: Any, *lists: list[Any]) -> list[Any]:
        """Return the results of a function called for each item of lists of equal length."""
        try:
            return list(map(function, *lists))
        except MemoryError:
            raise
        except Exception:
            # Failures are rare, so the normal path does not pay for this search of the first item that fails.
            for index, items in enumerate(zip(*lists, strict=True)):
                try:
                    function(*items)
                except Exception as error:
                    raise self._fault(name, index, error, self._makers, *items) from error
            raise

    def _fault(self, name: str, index: int, error: Exception, makers: str, *partials: Any) -> RowFailure:
        """Return the failure: an earlier null in a partial, returned by `makers`, or else the exception of `name`."""
        null = next((partial for partial in partials if self._lacks(partial)), self)
        return self._failure(name, index, error) if null is self else self._null(makers, null, index)

    def check(self, makers: str, items: list[Any], index: Callable[[int], int] = int) -> None:
        """Raise a RowFailure for the first partial with a null; partial `at` was made from item `index(at)`."""
        if self._has_null(items):
            for at, item in enumerate(items):
                if self._lacks(item):
                    raise self._null(makers, item, index(at))

    def _null(self, makers: str, found: Any, index: int) -> RowFailure:
        rule = f"`{makers}` of `{self.label}` must return a value for each field: a partial has no nulls;"
        return RowFailure(InvalidType, rule, f"got {excerpt(found)}", RETURN, index)

    def _lacks(self, partial: Any) -> bool:
        parts = partial if isinstance(partial, tuple | list) else (partial,)
        return any(parts[at] is None for at in self._required if at < len(parts))

    @property
    def _makers(self) -> str:
        """The functions, as text, that can have made a partial which `agg` has not: `agg` is checked at once."""
        return "combine` or `invert" if self.aggregate.invert else "combine"

    def _has_null(self, items: list[Any]) -> bool:
        """Return whether a partial has a null in a field in which `init()` has none."""
        if self._single:
            return bool(self._required) and None in items
        try:
            if len(self._required) == len(self.fields):
                return any(map(operator.contains, items, repeat(None)))
            return any(None in map(operator.itemgetter(at), items) for at in self._required)
        except (TypeError, IndexError):
            return None in items  # other items that are not full tuples are refused when they are stored

    def _own(self, items: Array) -> Array:
        """Return the partials for `lower`, which may change its argument: mutable items are copied."""
        fixed = all(field.kind != "binary" for field in self.fields)
        if fixed and (self._single or set(map(type, items.tolist())) <= {tuple}):
            return items
        return copied(items)


def _taken(items: Iterator[Any], count: int) -> int:
    """Return the position of the last item that was taken from an iterator over `count` items."""
    return max(0, count - operator.length_hint(items) - 1)
