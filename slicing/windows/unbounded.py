"""Unbounded windows: one per key that never closes, with the totals since the start or since the last idle time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from slicing.errors import InvalidValue, excerpt
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.time.durations import Duration, microseconds, show
from slicing.windows.time.edges import AFTER, BEFORE, Array, Edges, Listed, elementwise
from slicing.windows.window import Window


@dataclass(frozen=True)
class Always(ByEdges):
    """The only window, which holds every instant; it has no bounds in rows."""

    starts: Edges = field(default_factory=lambda: Listed([BEFORE]))
    ends: Edges = field(default_factory=lambda: Listed([AFTER]))

    limits = BEFORE, AFTER

    @elementwise
    def slice_at(self, time: Array) -> Array:
        """Return the only slice, also for the last instant of int64."""
        return self.cut.slice_at(np.minimum(time, AFTER - 1))


@dataclass(frozen=True)
class Unbounded(Window):
    """The result of `unbounded`; `ttl` is in microseconds. Its repr is the call that makes it."""

    ttl: int | None = None

    by_time = closes = False
    alone = "as it never closes"
    keeps = "keeps totals"

    @cached_property
    def family(self) -> Always:
        """The only window, of one slice."""
        return Always()

    def __repr__(self) -> str:
        return "unbounded()" if self.ttl is None else f"unbounded(ttl={show(self.ttl)!r})"


def unbounded(ttl: Duration | None = None) -> Unbounded:
    """Return one window for each key that never closes; it fires by `on_update()` or `early(...)`.

    The column `window` is null.

    No watermark is needed, and no record is late. A key stays in the state until `ttl` has passed since its last
    record, by the clock; without `ttl` it stays forever. After that the key starts again. Cost: one combine and one
    write per key and micro-batch, for all new records of the key together. The totals of a bucket are in the memory of
    its process, and each micro-batch goes over all its keys in numpy. Raises InvalidValue for a `ttl` below a
    millisecond, InvalidType for a number without a unit.

    >>> print(unbounded(ttl="30 days"))
    unbounded(ttl='30 days')
    """
    return Unbounded(ttl_of(ttl))


def ttl_of(ttl: Duration | None) -> int | None:
    """Return how long a key stays without a record, in microseconds; None for forever.

    Raises InvalidValue below a millisecond.
    """
    if ttl is None:
        return None
    length = microseconds(ttl, "ttl")
    if length < 1000:
        raise InvalidValue(f"`ttl` must be at least 1 ms, as a trigger's clock counts those; got {excerpt(ttl)}.")
    return length
