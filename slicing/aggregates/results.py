"""Results by name: the results of an output row as one struct."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from slicing.aggregates.aggregate import Bound, Struct
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.kernel import Kernel
from slicing.errors import InvalidValue, RowFailure, SlicingError

Nesting: TypeAlias = tuple[tuple[str, Any], ...]
"""The names of results in order, each with the nesting of its parts if it is a struct, else with None."""


def is_single(kernel: Kernel) -> bool:
    """Return whether a result is a single value instead of a struct."""
    single = len(kernel.results) == 1 and not isinstance(kernel.aggregate.init(), tuple)
    return single or (kernel.aggregate.lower is not None and len(kernel.results) == 1)


def of_nothing(kernel: Kernel) -> list[pa.Array]:
    """Return the result of no records, one array of length 1 per field: what `init` lowers to, null if it cannot."""
    try:
        return kernel.results_to_arrow(kernel.spread(1), kernel.no_dictionary)
    except (SlicingError, RowFailure):
        return [pa.nulls(1, arrow_type(field.kind)) for field in kernel.results]


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


def flat_results(named: Mapping[str, Bound | Struct], within: str = "") -> dict[str, Bound]:
    """Return the results by name; those inside structs separately, under names such as `candle.open`."""
    found: dict[str, Bound] = {}
    for name, result in named.items():
        more = (
            flat_results(result.results, f"{within}{name}.") if isinstance(result, Struct) else {within + name: result}
        )
        if twice := found.keys() & more.keys():
            raise InvalidValue(f"two results are called `{min(twice)}`. Rename one.")
        found |= more
    return found


def nesting_of(named: Mapping[str, Bound | Struct]) -> Nesting:
    """Return the names of results, with the nesting of structs."""
    return tuple((name, nesting_of(r.results) if isinstance(r, Struct) else None) for name, r in named.items())
