"""Flat rows in lists: what an operator of Spark hands to the JVM, where each row is worked on several times.

::

    cause, count   of a row that counts: which of the counters, and the number
    family ..      what is the same for all rows of a frame
    rows           a list of up to `LENGTH` rows, each a struct of the other columns of the flat table

The JVM observes the counters on these lists, and then takes them apart. So a counter costs time for each list, not for
each row: a dozen of them took more than half of the JVM's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from slicing.aggregates.fields import Field, arrow_type
from slicing.stages.flat import CAUSE, FAMILY, KIND, REVISION, WATERMARK, Flat
from slicing.stages.metrics import CAUSES

COUNT, ROWS = "count", "rows"
"""The number of what is counted, null for lists; and the lists."""
LENGTH, LIST_BYTES = 256, 1 << 16
"""The most rows in a list, and about the most bytes."""
SCALARS = {FAMILY, KIND, REVISION, WATERMARK, CAUSE}
"""Columns that have one value for all rows of a frame."""


@dataclass(frozen=True)
class Packed:
    """The columns in which flat rows are packed."""

    flat: Flat

    @cached_property
    def scalars(self) -> tuple[Field, ...]:
        """The columns beside the lists."""
        return (*(field for field in self.flat.fields if field.name in SCALARS), Field(COUNT, "bigint"))

    @cached_property
    def inside(self) -> tuple[Field, ...]:
        """The columns of the rows in the lists."""
        return tuple(field for field in self.flat.fields if field.name not in SCALARS)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """All columns, in their order."""
        members = ",".join(f"{field.name}:{field.kind}" for field in self.inside)
        return (*self.scalars, Field(ROWS, f"array<struct<{members}>>"))

    @property
    def schema(self) -> str:
        """The columns as Spark wants to know them."""
        return ", ".join(map(str, self.fields))

    def rows(self, table: pa.Table) -> pa.Table:
        """Pack the rows of a frame; a column that the table does not have is null."""
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
        """A row for each count that is not zero."""
        found = [(cause, counts[name]) for name, cause in CAUSES.items() if counts.get(name)]
        causes, numbers = zip(*found, strict=True) if found else ((), ())
        columns: dict[str, pa.Array] = {f.name: pa.nulls(len(found), arrow_type(f.kind)) for f in self.fields}
        columns |= {CAUSE: pa.array(causes, pa.int32()), COUNT: pa.array(numbers, pa.int64())}
        return pa.table(columns)
