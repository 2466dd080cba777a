"""Kernels: an aggregate's functions on arrays of partials, whether the user wrote them for rows or for columns.

A *partials* value is a list of numpy arrays of equal shape. A columns kernel has one array per field; a rows kernel has
one object array whose items are what the user's functions take and return. Everything above this file sees only
`Kernel` and never asks which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, Fieldwise
from slicing.aggregates.arrays import Array, Partials, is_varying
from slicing.aggregates.fields import (
    arrow_type,
    width_of,
)
from slicing.aggregates.ranks import union
from slicing.errors import FunctionFailed, RowFailure, raised
from slicing.profiling import COMBINE, of_stage

_HANDLE = "Handle such values in the function, or filter them out before the aggregation."
RETURN = "Return a value there, such as that of `init()`; only `lower` may return None."
WIDE_BYTES = 256
"""From this many bytes in fields of fixed length on, a partial is large compared with a record."""


@contextmanager
def locating(place: Callable[[int], str]) -> Iterator[None]:
    """Turn a RowFailure inside into the error that says where: `place(index)` names key and slice or window."""
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

    def singles(self, arrays: Sequence[pa.Array]) -> tuple[Partials, pa.Array] | None:
        """Return a partial of each record, and their dictionary; None where `fold` makes one of many records."""
        return None

    def joined(
        self, partials: Partials, dictionary: pa.Array | None, starts: Array
    ) -> tuple[Partials, pa.Array | None]:
        """Return `reduce` of partials, and the dictionary of what it returns."""
        return self.reduce(partials, starts), dictionary

    def unified(
        self, partials: Sequence[Partials], dictionaries: Sequence[pa.Array | None]
    ) -> tuple[list[Partials], pa.Array | None]:
        """Return partials of several blocks over one dictionary, and that dictionary."""
        dictionary = union(dictionaries)
        pairs = zip(partials, dictionaries, strict=True)
        return [self.over(some, own, dictionary) for some, own in pairs], dictionary

    def over(self, partials: Partials, old: pa.Array | None, new: pa.Array | None) -> Partials:
        """Return partials with ranks in one dictionary over another one that holds its values."""
        if old is None or new is None or old is new:
            return partials
        return self.rerank(partials, old, new)

    def runs(self, partials: Partials, low: Array, high: Array) -> Partials | None:
        """Return the partials of rows `low[i]` up to `high[i]`, by key and slice, none of which is empty.

        None where neighbours have to be combined.
        """
        return None

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
        """About the bytes of a partial in memory without its arrays and the lengths of its values."""
        raise NotImplementedError

    def memory(self, partials: Partials, dictionary: pa.Array | None) -> float:
        """About how many bytes partials take in memory, as arrays or as Python objects."""
        held = sum(column.itemsize for column in partials) + self.object_bytes
        lengths = self.lengths(partials, None)
        size = held * len(partials[0]) + (0.0 if isinstance(lengths, float) else lengths.sum())
        return float(size) + (0 if dictionary is None else dictionary.nbytes)

    def sums_fit(self, *parts: Partials) -> bool:
        """Whether all these partials can be added up by the ufuncs of `combine`; asked where it has such."""
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


def as_given(partials: Partials) -> Any:
    """Partials as a function is given them: a single column, or a tuple of columns."""
    return partials[0] if len(partials) == 1 else tuple(partials)
