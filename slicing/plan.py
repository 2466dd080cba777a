"""What a query will do, before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.blocks import Shape
from slicing.windows import Hopping


@dataclass(frozen=True)
class Plan:
    """What `explain` prints."""

    windows: Hopping
    shape: Shape
    trees: tuple[str, ...]
    streaming: bool
    buckets: int
    partitions: int
