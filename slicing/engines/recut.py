"""A bucket with finer slices than the query needs, because its checkpoint is from before a change of the query.

The shipped rows have slices of the query. Each becomes the slice of the bucket in which it begins: no window of the
query has an edge inside one of its slices, so the rows stay in the same windows::

    query     |      0      |      1      |      2      |
    bucket    | 0  1  2  3  | 4  5  6  7  | 8  9 10 11  |       slice 1 of the query is slice 4 of the bucket
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from slicing.aggregates.arrays import Array
from slicing.content.block import Shape
from slicing.content.signals import Signals
from slicing.engines.bucket import Bucket, OpenBucket, Wrapper
from slicing.triggers.lateness import Late


class RecutBucket(Wrapper):
    """A wrapper of an engine over the slices of its checkpoint. Shipped and late rows have slices of the query."""

    def __init__(self, engine: Bucket, query: Shape, stored: Shape):
        super().__init__(engine)
        self.query, self.held = query.family, stored.family

    def shown(self, late: Late[Any]) -> Late[Any]:
        """Return late rows in the slices of the query."""
        query, held = self.query, self.held
        refused = [
            replace(each, rows=_moved(each.rows, lambda at: query.slice_at(held.slice_start(at))))
            for each in late.refused
        ]
        return replace(late, refused=tuple(refused))

    def take_signals(self, heard: Signals) -> None:
        """Pass on signals in the slices of the checkpoint."""
        self.engine.take_signals(heard.moved(self.stored))

    def stored(self, shipped: Sequence[Any]) -> list[Any]:
        """Return rows in the slices of the checkpoint."""
        return [_moved(each, lambda at: self.held.slice_at(self.query.slice_start(at))) for each in shipped]


def _moved(rows: Any, at: Callable[[Array], Any]) -> Any:
    """Return a block, records, or a list of these, with the slice numbers mapped by `at`."""
    return [_moved(each, at) for each in rows] if isinstance(rows, list) else replace(rows, index=at(rows.index))


def recut(engine: Bucket, query: Shape, stored: Shape) -> OpenBucket:
    """Return an engine that accepts slices of the query: the engine itself if its slices have the same edges."""
    return RecutBucket(engine, query, stored) if engine.head.shipped else engine
