"""Flat rows in lists: what an operator of Spark hands to the JVM, where each row is worked on several times.

::

    cause, count   of a row that counts: which of the counters, and the number
    family ..      what is the same for all rows of a frame
    k0 start r0 .. a list of up to `LENGTH` values each, one value for a row of the flat table

The JVM observes the counters on these rows, and then takes the lists apart. So a counter costs time for each list, not
for each row: a dozen of them took more than half of the JVM's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from slicing.aggregates.fields import Field, arrow_type
from slicing.stages.flat import CAUSE, FAMILY, KIND, REVISION, WATERMARK, Flat
from slicing.stages.metrics import CAUSES

COUNT = "count"
"""The number of what is counted; null for lists."""
LENGTH, LIST_BYTES = 256, 1 << 14
"""The most values in a list, and about the most bytes of the lists of a row.

What a row costs is little beside so many values. Where Spark does not compile a plan, of more than a hundred columns for
example, it copies the lists of a row for every value: so they are short.
"""
SCALARS = {FAMILY, KIND, REVISION, WATERMARK, CAUSE}
"""Columns that have one value for all rows of a frame."""


@dataclass(frozen=True)
class Packed:
    """The columns in which flat rows are packed."""

    flat: Flat

    @cached_property
    def scalars(self) -> tuple[Field, ...]:
        """The columns that are no lists."""
        return (*(field for field in self.flat.fields if field.name in SCALARS), Field(COUNT, "bigint"))

    @cached_property
    def lists(self) -> tuple[Field, ...]:
        """The columns that are lists, with the kinds of their values."""
        return tuple(field for field in self.flat.fields if field.name not in SCALARS)

    @property
    def schema(self) -> str:
        """The columns as Spark wants to know them."""
        lists = (Field(field.name, f"array<{field.kind}>") for field in self.lists)
        return ", ".join(map(str, (*self.scalars, *lists)))

    def rows(self, table: pa.Table) -> pa.Table:
        """Pack the rows of a frame; a column that the table does not have is null, or a list without values."""
        length = max(1, min(LENGTH, LIST_BYTES * len(table) // max(1, table.nbytes)))
        there, count = set(table.column_names), -(-len(table) // length)
        edges = pa.array([*range(0, len(table), length), len(table)], pa.int32())
        columns = self._empty(count)
        for field in self.scalars if count else ():
            if field.name in there:
                columns[field.name] = pa.repeat(table[field.name][0], count)
        for field in self.lists if count else ():
            if field.name in there:
                values = table[field.name].combine_chunks()
                columns[field.name] = pa.ListArray.from_arrays(edges, values, columns[field.name].type)
        return pa.table(columns)

    def counts(self, counts: Mapping[str, int]) -> pa.Table:
        """A row for each count that is not zero."""
        found = [(cause, counts[name]) for name, cause in CAUSES.items() if counts.get(name)]
        causes, numbers = zip(*found, strict=True) if found else ((), ())
        columns = {CAUSE: pa.array(causes, pa.int32()), COUNT: pa.array(numbers, pa.int64())}
        return pa.table(self._empty(len(found)) | columns)

    def _empty(self, count: int) -> dict[str, pa.Array]:
        """The columns of so many rows, which are null or lists without values."""
        columns: dict[str, pa.Array] = {f.name: pa.nulls(count, arrow_type(f.kind)) for f in self.scalars}
        nothing = pa.array(np.zeros(count + 1, np.int32))
        for field in self.lists:
            type_ = arrow_type(field.kind)
            columns[field.name] = pa.ListArray.from_arrays(nothing, pa.array([], type_), pa.list_(type_))
        return columns
