"""Compute the rows, bytes and writes of the slices that a definition serves, for numbers of keys and records."""

from dataclasses import dataclass
from math import exp

from slicing.definition import Definition
from slicing.serving import Levels, Packing, needed
from slicing.windows.as_of import held_now, span

TYPICAL = 10**15
"""An instant in microseconds at which slices are counted."""
ROW_BYTES = 150
"""The bytes of a row in PostgreSQL with its indexes, without its partial."""


@dataclass(frozen=True)
class ServingSize:
    """The sizes of a store and of its writer; it prints as three lines."""

    keys: int
    rows_of_a_key: float
    row_bytes: int
    writes_per_second: float
    state_of_a_key: float

    def __str__(self) -> str:
        rows = self.keys * self.rows_of_a_key
        terabytes = rows * self.row_bytes / 1e12
        return "\n".join(
            [
                f"  rows of a key {self.rows_of_a_key:.1f}, of the store {rows:.1e}, {terabytes:.2f} TB",
                f"  rows written a second {self.writes_per_second:,.0f}",
                f"  partials of a key in state {self.state_of_a_key:.1f}, in all {self.keys * self.state_of_a_key:.1e}",
            ]
        )


def serving_size(
    definition: Definition, fields: tuple[str, ...], *, keys: int, rate: float, trigger: float
) -> ServingSize:
    """Return the sizes for `rate` records per second, and a micro-batch every `trigger` seconds.

    `fields` are the types of the fields of a partial.
    """

    def active(seconds: float) -> float:
        return 1 - exp(-seconds * rate / keys)

    levels, families = Levels.of(definition.windowed.windows), held_now(definition.windowed.windows)
    tails = ((tail.edge(tail.count(TYPICAL)), tail.edge(tail.count(TYPICAL) + 1)) for tail in levels.tails)
    steps = [(end - start) / 1e6 for start, end in (levels.around(TYPICAL), *tails)]
    reach = [(TYPICAL - low) / 1e6 for low in needed(families, TYPICAL)]
    return ServingSize(
        keys,
        sum(length / step * active(step) for length, step in zip(reach, steps, strict=True)),
        Packing(fields).row.itemsize + ROW_BYTES,
        len(steps) * keys * active(trigger) / trigger,
        max(map(span, families)) / 1e6 / steps[0] * active(steps[0]),
    )
