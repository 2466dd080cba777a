"""Kernels: run an aggregate's functions on arrays of partials, whether they were written for rows or for columns.

A *partials* value is a list of numpy arrays of equal shape. A columns kernel has one array per field. A rows kernel has
one object array, whose items are the arguments and results of the user's functions. Callers see only `Kernel` and never
ask which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, Fieldwise
from slicing.aggregates.arrays import Array, Partials, is_varying
from slicing.aggregates.fields import (
    arrow_type,
    is_exact,
    is_nested,
    width_of,
)
from slicing.aggregates.ranks import union
from slicing.errors import FunctionFailed, RowFailure, raised
from slicing.profiling import COMBINE, of_stage

_HANDLE = "Handle such values in the function, or filter them out before the aggregation."
RETURN = "Return a value there, such as that of `init()`; only `lower` may return None."
WIDE_BYTES = 256
"""From this number of bytes in fields of fixed length on, a partial is large compared with a record."""


@contextmanager
def locating(place: Callable[[int], str]) -> Iterator[None]:
    """Turn a RowFailure inside into an error with its location: `place(index)` names key and slice or window."""
    try:
        yield
    except RowFailure as failure:
        found = f"{failure.rule} {failure.cause} for {place(failure.index)}. {failure.remedy}"
        raise failure.kind(found) from failure.__cause__


class Kernel:
    """The base of columns and rows kernels. `label` is the result's name, used in messages."""

    width: int

    def __init__(self, label: str, aggregate: Aggregate):
        self.label = label
        self.aggregate = aggregate
        self.fields = aggregate.fields
        self.results = aggregate.results
        self.combine_ufuncs: tuple[np.ufunc, ...] | None = None
        self.invert_ufuncs: tuple[np.ufunc, ...] | None = None

    def __reduce__(self) -> tuple[type[Kernel], tuple[str, Aggregate]]:
        return type(self), (self.label, self.aggregate)

    def spread(self, shape: int | tuple[int, ...]) -> Partials:
        """Return partials of this shape with `init()` in every cell."""
        raise NotImplementedError

    def fold(self, values: Sequence[Any], starts: Array, count: int, onto: Partials | None = None) -> Partials:
        """Fold `count` records into one partial per group; group g has records `starts[g]` up to the next start.

        `onto` has a partial per group to start from; by default `init()`.
        """
        raise NotImplementedError

    def combine(self, a: Partials, b: Partials) -> Partials:
        """Combine partials cell by cell; `a` has the older ones."""
        raise NotImplementedError

    def invert(self, ab: Partials, a: Partials) -> Partials:
        """Remove the older part `a` from `ab`, cell by cell."""
        raise NotImplementedError

    def lower(self, partials: Partials) -> list[np.ma.MaskedArray[Any, Any] | Array]:
        """Return the results of one-dimensional partials, one array per field of the result; masked means null."""
        raise NotImplementedError

    def results_to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        """Return the results as Arrow arrays of their kinds."""
        raise NotImplementedError

    def to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        """Return one Arrow array per field."""
        raise NotImplementedError

    def from_arrow(
        self, arrays: Sequence[pa.Array], dictionary: pa.Array | None = None
    ) -> tuple[Partials, pa.Array | None]:
        """Return the inverse of `to_arrow`: partials, and the dictionary of their ranks, created here unless given."""
        raise NotImplementedError

    def rerank(self, partials: Partials, old: pa.Array, new: pa.Array) -> Partials:
        """Return partials with ranks in `new` instead of `old`; `new` must contain all values of `old`."""
        return partials

    def singles(self, arrays: Sequence[pa.Array]) -> tuple[Partials, pa.Array] | None:
        """Return one partial per record, and their dictionary; None if `fold` makes one partial of many records."""
        return None

    def joined(
        self, partials: Partials, dictionary: pa.Array | None, starts: Array
    ) -> tuple[Partials, pa.Array | None]:
        """Return the result of `reduce`, and its dictionary."""
        return self.reduce(partials, starts), dictionary

    @property
    def is_exact(self) -> bool:
        """Whether a combination of partials has the same bits however they are grouped."""
        return not self.aggregate.approximate and all(is_exact(field.kind) for field in self.fields)

    def in_order(
        self, partials: Partials, dictionary: pa.Array | None, starts: Array
    ) -> tuple[Partials, pa.Array | None]:
        """Return the result of `joined`; what depends on the order is combined one by one, from the oldest partial on.

        So partials may also be combined a few at a time, as they arrive, with the same bits.
        """
        if self.is_exact or len(starts) == len(partials[0]):
            return self.joined(partials, dictionary, starts)
        ends = np.append(starts[1:], len(partials[0]))
        out = [column[starts] for column in partials]
        self.extend(out, np.arange(len(starts)), partials, starts + 1, ends)
        return out, dictionary

    def extend(self, out: Partials, target: Array, items: Partials, position: Array, end: Array) -> None:
        """Combine items `position[i]` up to `end[i]` into partial `target[i]`: one item per call, for all targets."""
        while len(target):
            going = position < end
            target, position, end = target[going], position[going], end[going]
            try:
                joined = self.combine([c[target] for c in out], [c[position] for c in items])
            except RowFailure as failure:
                raise failure.at(int(position[failure.index])) from failure.__cause__
            for column, new in zip(out, joined, strict=True):
                column[target] = new
            position = position + 1

    def unified(
        self, partials: Sequence[Partials], dictionaries: Sequence[pa.Array | None]
    ) -> tuple[list[Partials], pa.Array | None]:
        """Return partials of several blocks over one common dictionary, and that dictionary."""
        dictionary = union(dictionaries)
        pairs = zip(partials, dictionaries, strict=True)
        return [self.over(some, own, dictionary) for some, own in pairs], dictionary

    def over(self, partials: Partials, old: pa.Array | None, new: pa.Array | None) -> Partials:
        """Return partials with ranks in `new` instead of `old`; `new` must contain the values of `old`, if any."""
        if old is None or new is None or old is new:
            return partials
        return self.rerank(partials, old, new)

    def runs(self, partials: Partials, low: Array, high: Array) -> Partials | None:
        """Return the partials of rows `low[i]` up to but not including `high[i]`, at least one row each.

        Rows are sorted by key and slice. None if neighbours have to be combined.
        """
        return None

    @cached_property
    def of_results(self) -> Kernel:
        """The kernel whose partials are the results, if the aggregate has `results_of_runs`; otherwise this one."""
        own = self.aggregate
        if own.results_of_runs is None:
            return self
        nothing = self.lower(self.spread(1))[0][0]
        result = Aggregate(lambda: nothing, own.agg, own.combine, partial=f"result {own.returns}", columns=True)
        return type(self)(self.label, result)

    def values(self, arrays: Sequence[pa.Array]) -> tuple[list[Any], pa.Array | None]:
        """Return columns of records in the form that `agg` takes, and the dictionary of their ranks."""
        raise NotImplementedError

    def sizes(self, partials: Partials, dictionary: pa.Array | None) -> Array | float:
        """Return the approximate bytes of each partial in Arrow; one number if all partials have the same size."""
        fixed = [field.kind for field in self.fields if not (is_varying(field) or is_nested(field.kind))]
        return sum(float(arrow_type(kind).bit_width // 8 or 1) for kind in fixed) + self.lengths(partials, dictionary)

    def lengths(self, partials: Partials, dictionary: pa.Array | None) -> Array | float:
        """Return the bytes of text and binaries in each partial; dictionary values count only if it is given.

        A number if the partials have no such fields. Each value has 4 more bytes for its offset.
        """
        raise NotImplementedError

    @property
    def has_long_objects(self) -> bool:
        """Whether partials are Python objects of any size, or are many times longer than a record."""
        wide = sum(width_of(field.kind) or 0 for field in self.fields) > WIDE_BYTES
        return wide or (self.object_bytes > 0 and any(map(is_varying, self.fields)))

    @property
    def object_bytes(self) -> float:
        """Approximate bytes of a partial in memory, without its arrays and the lengths of its values."""
        raise NotImplementedError

    def memory(self, partials: Partials, dictionary: pa.Array | None) -> float:
        """Return the approximate bytes of partials in memory, as arrays or as Python objects."""
        held = sum(column.itemsize for column in partials) + self.object_bytes
        lengths = self.lengths(partials, None)
        size = held * len(partials[0]) + (0.0 if isinstance(lengths, float) else lengths.sum())
        return float(size) + (0 if dictionary is None else dictionary.nbytes)

    def sums_fit(self, *parts: Partials) -> bool:
        """Return whether these partials can be added by the ufuncs of `combine`; called only if it has ufuncs."""
        return True

    @property
    def no_dictionary(self) -> pa.Array | None:
        """The dictionary of a block without rows: None unless the kernel works on ranks."""
        return None

    def _formed(self, partials: Partials) -> Partials:
        """Return the result of the ufuncs of `combine` in the form of `combine` itself."""
        combine = self.aggregate.combine
        if not isinstance(combine, Fieldwise) or combine.then is None:
            return partials
        result = combine.then(as_given(partials))
        return list(result) if isinstance(result, tuple) else [result]

    @property
    def layout(self) -> str:
        """The layout of partials in memory, in addition to the types of their fields."""
        return type(self).__name__

    def _failure(self, name: str, index: int, error: Exception) -> RowFailure:
        return RowFailure(FunctionFailed, f"`{name}` of `{self.label}` raised", raised(error), _HANDLE, index)

    @of_stage(COMBINE)
    def reduce(self, partials: Partials, starts: Array) -> Partials:
        """Combine runs of partials into one partial each, in order; run g begins at `starts[g]`.

        With ufuncs, one `reduceat` per field. Otherwise neighbours are combined in rounds; each round halves their
        number and keeps their order. A run of m partials costs m - 1 combines in log2(m) calls.
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


def as_given(partials: Partials) -> Any:
    """Return partials as the argument of a user's function: a single column, or a tuple of columns."""
    return partials[0] if len(partials) == 1 else tuple(partials)
