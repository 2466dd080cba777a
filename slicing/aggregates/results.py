"""Results by name: the results of an output row as one struct."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from slicing.aggregates.fields import arrow_type
from slicing.aggregates.kernel import Kernel

Nesting: TypeAlias = tuple[tuple[str, Any], ...]
"""The names of results in order, each with the nesting of its parts if it is a struct, else with None."""


def is_single(kernel: Kernel) -> bool:
    """Return whether a result is a single value instead of a struct."""
    single = len(kernel.results) == 1 and not isinstance(kernel.aggregate.init(), tuple)
    return single or (kernel.aggregate.lower is not None and len(kernel.results) == 1)


def named_results(kernels: Sequence[Kernel], arrays: Sequence[pa.Array], nesting: Nesting) -> pa.StructArray:
    """Return the arrays of all results as one struct; a result with several fields is a nested struct."""
    left = iter(arrays)
    return _struct(_results(kernels, left), nesting)


def _results(kernels: Sequence[Kernel], arrays: Iterator[pa.Array]) -> Iterator[pa.Array]:
    for each in kernels:
        fields = each.results
        own = [_typed(next(arrays), arrow_type(field.kind)) for field in fields]
        yield own[0] if is_single(each) else pa.StructArray.from_arrays(own, [field.name for field in fields])


def _typed(array: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return whole if whole.type == type_ else whole.cast(type_)


def _struct(results: Iterator[pa.Array], nesting: Nesting) -> pa.StructArray:
    columns = [_struct(results, parts) if parts else next(results) for _, parts in nesting]
    return pa.StructArray.from_arrays(columns, [name for name, _ in nesting])
