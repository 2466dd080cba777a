"""A bucket whose slices have more edges than the windows of the query need, as a checkpoint from before a change has.

What is shipped is cut by the query. Its slices are put where they begin in the slices of the bucket: no window of the
query has an edge inside of one, so each is in the same windows there::

    query     |      0      |      1      |      2      |
    bucket    | 0  1  2  3  | 4  5  6  7  | 8  9 10 11  |       slice 1 of the query is slice 4 of the bucket
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from slicing.aggregates.arrays import Array
from slicing.assembly.results import Windows
from slicing.content.block import Shape
from slicing.engines.bucket import Bucket, OpenBucket
from slicing.engines.looking import Look
from slicing.triggers.lateness import Late
from slicing.triggers.trigger import MicroBatchTime


class RecutBucket:
    """An engine over the cut of its checkpoint, which is given slices of the query, and returns late ones as such."""

    def __init__(self, engine: Bucket, query: Shape, stored: Shape):
        self.engine, self.query, self.stored = engine, query.family, stored.family
        self.pages, self.head = engine.pages, engine.head

    @property
    def since(self) -> tuple[int | None, ...]:
        """For each result the microsecond from which on windows must begin to have it, None where all do."""
        return self.engine.since

    def load(self, shipped: Sequence[Any], at: MicroBatchTime) -> None:
        """Store records of a history that ends at a watermark; windows that end by then are never emitted."""
        self.engine.load(self._stored(shipped), at)

    def accept(self, shipped: Sequence[Any]) -> Late[Any]:
        """Keep the new records that open windows accept, return and count the late ones."""
        query, stored = self.query, self.stored
        late = self.engine.accept(self._stored(shipped))
        refused = [
            replace(each, rows=_moved(each.rows, lambda at: query.slice_at(stored.slice_start(at))))
            for each in late.refused
        ]
        return replace(late, refused=tuple(refused))

    def _stored(self, shipped: Sequence[Any]) -> list[Any]:
        """Rows in the slices of the checkpoint."""
        return [_moved(each, lambda at: self.stored.slice_at(self.query.slice_start(at))) for each in shipped]

    def close(self, at: MicroBatchTime) -> Iterator[Windows]:
        """Yield all that fires in the micro-batch, then write the state that is left."""
        return self.engine.close(at)

    def look(self, asked: Look) -> Iterator[Windows]:
        """Yield the windows that are looked up, of the records so far; a read, which changes nothing."""
        if asked.other is not None:
            families = tuple(each.over(self.stored.cut) for each in asked.other.families)
            asked = replace(asked, other=replace(asked.other, families=families))
        return self.engine.look(asked)

    @property
    def known_from(self) -> int:
        """The first microsecond from which on all that was accepted is there."""
        return self.engine.known_from

    def extent(self) -> dict[str, int]:
        """How many open windows and slices the state spans; no page is read."""
        return self.engine.extent()

    def check(self) -> None:
        """Assert the invariants between header and pages."""
        self.engine.check()


def _moved(rows: Any, at: Callable[[Array], Any]) -> Any:
    """A block, records, or a list of them, with other numbers of slices."""
    return [_moved(each, at) for each in rows] if isinstance(rows, list) else replace(rows, index=at(rows.index))


def recut(engine: Bucket, query: Shape, stored: Shape) -> OpenBucket:
    """Return an engine for slices of the query: itself where its own have the same edges."""
    return RecutBucket(engine, query, stored) if engine.head.shipped else engine
