"""Choose the kernel of an aggregate."""

from __future__ import annotations

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.columns import ColumnsKernel
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.records import KeptRecords, RecordsKernel
from slicing.aggregates.rows import RowsKernel


def kernel(label: str, aggregate: Aggregate) -> Kernel:
    """Return the kernel of an aggregate."""
    if isinstance(aggregate, KeptRecords):
        return RecordsKernel(label, aggregate)
    if aggregate.columns:
        return ColumnsKernel(label, aggregate)
    if aggregate.columns is not None:
        return RowsKernel(label, aggregate)
    from slicing import tracing  # only functions of single rows need it

    return tracing.numbers(label, aggregate) or RowsKernel(label, aggregate)
