"""Closed windows whose result is not that of the window before: only where a slice with records enters or leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from slicing.assembly.comparing import differing, result_codes
from slicing.assembly.picking import pick
from slicing.assembly.results import Windows
from slicing.blocks.block import Block, Shape, encode_keys
from slicing.blocks.folding import fold
from slicing.blocks.pairs import Pairs
from slicing.blocks.sizes import memory

STEP_BYTES = 8 << 20
"""Of so many bytes of rows the windows are picked at once, which takes some times as many."""


def changes(
    shape: Shape,
    stored: Block,
    fresh: Block,
    first: int,
    until: int,
    known: bool,
    drained: bool,
    shown: Shape,
    whole: Callable[[Windows], Windows],
    seen: bool = False,
) -> Iterator[Windows]:
    """The windows `first` up to `until` that differ from the one before, of every key.

    `stored` has the folded slices that window `first` - 1 saw, and `fresh` what came since. Without `known` the window
    before `first` is not, and every key with records in `first` has a row. With `seen` it saw what is fresh too. The
    last result of a key is not kept: it is that of the window before, which is made from slices too. `whole` completes
    windows of `shape` to those of `shown`, which are compared and yielded.
    """
    slicing = shape.slicing
    everything = fold(shape, [stored, fresh])
    before, news = (everything if seen else stored), (fresh if known and not seen else everything)
    before, news = (_coded(block, everything.names) for block in (before, news))
    count = max(1, -(-memory(shape, everything) // STEP_BYTES))
    edges = np.linspace(0, len(everything.names), count + 1).astype(np.int64)
    for low, high in pairwise(edges.tolist()):
        old, new, rows = (
            block.take(np.flatnonzero((block.keys >= low) & (block.keys < high)))
            for block in (before, news, everything)
        )
        entering = np.maximum(slicing.first_window(new.slices), first)
        keys = np.concatenate([new.keys, rows.keys])
        windows = np.concatenate([entering, slicing.last_window(rows.slices) + 1])
        inside = (windows >= first) & (windows < until)
        pairs = Pairs.over(windows[inside], len(everything.names))
        keys, windows = pairs.unpack(np.unique(pairs.pack(keys[inside], windows[inside])))
        some = np.unique(keys)
        there = whole(pick(shape, rows, keys, windows))
        last_one = whole(pick(shape, old if known else old.take(slice(0)), some, np.full(len(some), first - 1)))
        now, last = result_codes(shown, [there, last_one])
        heads = np.diff(keys, prepend=-1) != 0
        previous = np.append(-1, now[:-1])
        previous[heads] = last
        yield from differing(there, now, previous, drained)


def _coded(block: Block, names: pa.Table) -> Block:
    """A block with the codes of other names, which have all of its keys."""
    if block.names is names:
        return block
    codes, _ = encode_keys(pa.concat_tables([names, block.names]))
    return replace(block, keys=codes[len(names) :][block.keys], names=names)
