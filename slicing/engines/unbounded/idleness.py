"""Idle keys: the rule for totals and for the dirty set.

A key is idle once the clock is more than `ttl` past its last record; a later record begins a new total. A row has the
clock of its records, in milliseconds, in place of a slice::

    time     3   4       9        20      25    ttl 10, now 26
    key a    *       *   |        *       *     a new total begins at 20
    key b        *                              idle
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.block import Block
from slicing.windows.time.slices import FOREVER


def live(rows: Block, now: int, ttl: int | None, stamps: Array | None = None) -> Block:
    """Return the rows of keys that are not idle at `now`, only those since each key was last idle, in their order.

    `now`, `ttl` and `stamps`, by default the slices of rows, are in milliseconds; without a `ttl` no key is ever idle.
    A row ahead of the clock, which may have been corrected since, counts as a row of `now`.
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


def last_clocks(rows: Block) -> Array:
    """Return for each row the clock of the last record of its key: `int64[n]`."""
    newest = np.full(len(rows.names), -FOREVER)
    np.maximum.at(newest, rows.keys, rows.index)
    return newest[rows.keys]


def settled(rows: Block, before: int, now: int, ttl: int | None) -> Block:
    """Return the rows that were live at `before`, each with the clock of the last record of its key, at most `now`.

    Called when the clock has stepped back from `before` to `now`, or when another value follows `ttl`. Keys that were
    idle stay forgotten, whether or not their rows were still stored, and pauses that `ttl` allowed begin no new total.
    """
    rows = live(rows, before, ttl)
    return replace(rows, index=np.minimum(last_clocks(rows), now))
