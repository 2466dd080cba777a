"""Flat rows packed into lists, to reduce the number of rows that the JVM gets from Spark's operators.

::

    cause, count   of a row that counts: the number of the counter, and its value
    family ..      columns with one value for all rows of a frame
    rows           a list of up to `LENGTH` rows, each a struct of the other columns of the flat table

The JVM observes the counters on the packed rows, and then unpacks the lists. A counter therefore costs time per list,
not per row: a dozen counters per row took more than half of the JVM's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from slicing.aggregates.fields import Field, arrow_type, ddl_of
from slicing.stages.flat import CAUSE, FAMILY, KIND, REVISION, WATERMARK, Flat
from slicing.stages.metrics import CAUSES

COUNT, ROWS = "count", "rows"
"""The columns of the value of a counter, null for lists, and of the lists."""
LENGTH, LIST_BYTES = 256, 1 << 16
"""The maximum number of rows in a list, and the approximate maximum of bytes."""
SCALARS = {FAMILY, KIND, REVISION, WATERMARK, CAUSE}
"""The columns that have one value for all rows of a frame."""


@dataclass(frozen=True)
class Packed:
    """The columns of packed flat rows."""

    flat: Flat

    @cached_property
    def scalars(self) -> tuple[Field, ...]:
        """Return the columns outside of the lists."""
        return (*(field for field in self.flat.fields if field.name in SCALARS), Field(COUNT, "bigint"))

    @cached_property
    def inside(self) -> tuple[Field, ...]:
        """Return the columns of the rows in the lists."""
        return tuple(field for field in self.flat.fields if field.name not in SCALARS)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Return all columns in order."""
        members = ",".join(f"{field.name}:{field.kind}" for field in self.inside)
        return (*self.scalars, Field(ROWS, f"array<struct<{members}>>"))

    @property
    def schema(self) -> str:
        """Return the columns as DDL for Spark."""
        return ", ".join(f"{field.name} {ddl_of(field.kind)}" for field in self.fields)

    def rows(self, table: pa.Table) -> pa.Table:
        """Pack the rows of a frame. Columns that the table does not have are null."""
        length = max(1, min(LENGTH, LIST_BYTES * len(table) // max(1, table.nbytes)))
        count = -(-len(table) // length)
        edges = pa.array([*range(0, len(table), length), len(table)], pa.int32())
        whole = self.flat.completed(table).combine_chunks()
        first = whole.slice(0, min(1, count))
        columns: dict[str, pa.Array] = {
            field.name: pa.repeat(first[field.name][0], count) if count else first[field.name].combine_chunks()
            for field in self.scalars
            if field.name != COUNT
        }
        columns[COUNT] = pa.nulls(count, pa.int64())
        inside = [whole[field.name].combine_chunks() for field in self.inside]
        structs = pa.StructArray.from_arrays(inside, [field.name for field in self.inside])
        columns[ROWS] = pa.ListArray.from_arrays(edges, structs)
        return pa.table(columns)

    def counts(self, counts: Mapping[str, int]) -> pa.Table:
        """Return a row for each counter that is not zero."""
        found = [(cause, counts[name]) for name, cause in CAUSES.items() if counts.get(name)]
        causes, numbers = zip(*found, strict=True) if found else ((), ())
        columns: dict[str, pa.Array] = {f.name: pa.nulls(len(found), arrow_type(f.kind)) for f in self.fields}
        columns |= {CAUSE: pa.array(causes, pa.int32()), COUNT: pa.array(numbers, pa.int64())}
        return pa.table(columns)
