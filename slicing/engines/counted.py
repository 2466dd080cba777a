"""What rows of counted records hold, and how windows are made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges import assemble_rows
from slicing.assembly.results import Windows
from slicing.blocks.block import Block, Shape
from slicing.blocks.folding import from_runs
from slicing.blocks.records import Records, columns_of
from slicing.blocks.tally import heads
from slicing.windows.counting import CountingFamily


class Content(Protocol):
    """What a row of a key and a slice holds. Rows are by key and slice."""

    family: CountingFamily
    stored: Shape

    def lifted(self, records: Records, slices: Array, codes: Array, names: pa.Table, rows: Array) -> Block:
        """The rows of records, by key and slice; `rows` puts records in the order of their keys, and of these."""

    def windows(self, block: Block, lows: Array, counts: Array) -> Iterator[Windows]:
        """For each row of a block `counts` windows of its key, from `lows` on."""


def content(shape: Shape, trees: Sequence[str], arguments: Sequence[Sequence[int]]) -> Content:
    """The content of rows for results of this shape."""
    assert isinstance(shape.slicing, CountingFamily)
    return Partials(shape, shape.slicing, arguments)


class Partials:
    """Partials of slices, for aggregates that combine. `stored` is the shape of the results too."""

    def __init__(self, stored: Shape, family: CountingFamily, arguments: Sequence[Sequence[int]]):
        self.stored, self.family, self.arguments = stored, family, arguments

    def lifted(self, records: Records, slices: Array, codes: Array, names: pa.Table, rows: Array) -> Block:
        """A row for each slice."""
        starts = heads(codes[rows], slices[rows])
        return from_runs(self.stored, slices, codes, names, columns_of(records, self.arguments), rows, starts)

    def windows(self, block: Block, lows: Array, counts: Array) -> Iterator[Windows]:
        """As runs of rows, see `slicing.assembly.picking`."""
        return assemble_rows(self.stored, block, lows, counts)
