"""Idle keys: one rule for totals and for what waits to be emitted early.

A key is idle once the clock is more than `ttl` past its last record; a record after that begins it anew. A row carries
the clock of its records in milliseconds, in place of a slice::

    time     3   4       9        20      25    ttl 10, now 26
    key a    *       *   |        *       *     begins anew at 20
    key b        *                              idle
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.block import Block


def live(rows: Block, now: int, ttl: int | None, stamps: Array | None = None) -> Block:
    """Return the rows of keys that are not idle at `now`, since each was idle last, in their order.

    `now`, `ttl` and `stamps`, by default the slices of rows, are in milliseconds; without a `ttl` no key is ever idle.
    A row that is ahead of the clock, which has been corrected since, is of now.
    """
    if ttl is None:
        return rows
    stamps = np.minimum(rows.index if stamps is None else stamps, now)
    by_key = np.lexsort((stamps, rows.keys))
    keys, times = rows.keys[by_key], stamps[by_key]
    begins = (np.diff(keys, prepend=-1) != 0) | (np.diff(times, prepend=now) > ttl)
    stretch = np.cumsum(begins)
    is_last = np.append(np.diff(keys) != 0, True)[: len(keys)]
    last = np.where(is_last & (times >= now - ttl), stretch, -1)
    return rows.take(np.sort(by_key[np.isin(stretch, last)]))


def corrected(rows: Block, before: int, now: int, ttl: int | None) -> Block:
    """Return the rows that were live before the clock stepped back from `before` to `now`, stamped `now` at most.

    What was idle by the wrong clock stays forgotten, whether or not its rows were still stored.
    """
    rows = live(rows, before, ttl)
    return replace(rows, index=np.minimum(rows.index, now))
