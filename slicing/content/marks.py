"""Marks: blocks without partials, which only say which keys have records in which slices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.block import Block, encode_keys
from slicing.content.pairs import Pairs
from slicing.windows.time.slices import FOREVER


def without_partials(block: Block) -> Block:
    """Return the block without partials: only slices, keys and record counts."""
    return replace(block, partials=[], dictionaries=[])


def all_of(names: pa.Table) -> Block:
    """Return a block without partials that has one row for every key."""
    every = np.arange(len(names))
    return Block(every, every, names, np.ones(len(names), dtype=np.int64), [], [])


def newest_slices(block: Block) -> Block:
    """Return the row of each key in its newest slice. The block has no partials."""
    newest = np.full(len(block.names), -FOREVER)
    np.maximum.at(newest, block.keys, block.index)
    return block.take(np.flatnonzero(block.index == newest[block.keys]))


def of_keys(block: Block, marks: Block) -> Block:
    """Return the rows whose keys have rows in `marks`, with the key codes of `marks`."""
    codes, _ = encode_keys(pa.concat_tables([marks.names, block.names]))
    codes = codes[len(marks.names) :]
    used = np.zeros(max(len(marks.names), int(codes.max(initial=-1)) + 1), dtype=bool)
    used[marks.keys] = True
    chosen = block.take(np.flatnonzero(used[codes][block.keys]))
    return replace(chosen, keys=codes[chosen.keys], names=marks.names)


def without_keys(block: Block, marks: Block) -> Block:
    """Return the rows whose keys have no rows in `marks`."""
    codes = under(marks, block.names).keys
    gone = np.zeros(max(len(block.names), int(codes.max(initial=-1)) + 1), dtype=bool)
    gone[codes] = True
    return block.take(np.flatnonzero(~gone[block.keys]))


def under(block: Block, names: pa.Table) -> Block:
    """Return the block with its keys as codes into `names`. Keys that `names` lacks get codes from `len(names)` on."""
    if block.names is names:
        return block
    codes, _ = encode_keys(pa.concat_tables([names, block.names]))
    return replace(block, keys=codes[len(names) :][block.keys], names=names)


def occur_in(rows: Block, others: Block) -> Array:
    """Return which rows have the key and slice of a row in `others`: `bool[n]`."""
    known = under(rows, others.names)
    pairs = Pairs.over(np.concatenate([known.index, others.index]), max(len(known.names), len(others.names)) + 1)
    return np.isin(pairs.pack(known.keys, known.index), pairs.pack(others.keys, others.index))
