"""Choose the kernel of an aggregate."""

from __future__ import annotations

from collections.abc import Callable

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.columns import ColumnsKernel
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.records import KeptRecords, RecordsKernel
from slicing.aggregates.rows import RowsKernel

MAKERS: list[Callable[[str, Aggregate], Kernel | None]] = []
"""Other kernels for functions of single rows; each maker returns None for aggregates that it does not support."""


def kernel(label: str, aggregate: Aggregate) -> Kernel:
    """Return the kernel of an aggregate."""
    if isinstance(aggregate, KeptRecords):
        return RecordsKernel(label, aggregate)
    if aggregate.columns:
        return ColumnsKernel(label, aggregate)
    made = (make(label, aggregate) for make in MAKERS)
    return next((found for found in made if found is not None), None) or RowsKernel(label, aggregate)
