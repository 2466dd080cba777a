"""The state of a trigger for (key, window) pairs, as a list of rows in which the newest row of a pair is valid.

::

    window     3      4      3      4            appended when a pair fires, or gets its first record after that
    fired      5      2      9      2
    newest     -      -      9      2            the valid rows; the list is rewritten when it is twice as long
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.block import Block, Shape, concat
from slicing.content.marks import under
from slicing.content.memory import Remembered, differs, memory_rows, newest, with_memory
from slicing.content.pairs import Pairs
from slicing.state.format.list_names import EARLY
from slicing.state.ledger import Ledger
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.triggers.candidates import OF_CONDITIONS


class PairMemory:
    """The trigger state of the pairs of one list; `is_live` tells which rows are of pairs that are still open."""

    def __init__(
        self,
        nodes: PageLists,
        name: str,
        cached: Block | None,
        is_live: Callable[[Block], Array],
        of: Remembered = OF_CONDITIONS,
    ):
        self.ledger, self.name, self._is_live, self.remembered = Ledger(nodes, name, cached), name, is_live, of
        self._noted: list[Block] = []
        self._rows: Block | None = None

    @property
    def rows(self) -> Block:
        """The newest row of each open pair, without the changes of this micro-batch."""
        if self._rows is None:
            rows = self._newest
            self._rows = rows.take(np.flatnonzero(self._is_live(rows)))
        return self._rows

    @property
    def gone(self) -> Block:
        """The newest row of each closed pair whose rows have not been removed yet."""
        return self._newest.take(np.flatnonzero(~self._is_live(self._newest)))

    @cached_property
    def _newest(self) -> Block:
        return self.remembered.telling(newest(self.ledger.rows()))

    @property
    def since(self) -> Array:
        """The clock at the first record since the last firing of each pair, in milliseconds."""
        since: Array = self.rows.partials[0][2]
        return since

    def of(self, windows: Array, keys: Array, names: pa.Table, is_new: Array) -> Any:
        """Return the state of some pairs. New pairs get the initial state, and their older rows become void."""
        rows = under(self.rows, names)
        known = rows.take(np.flatnonzero(rows.keys < len(names)))
        nothing = self.remembered.of_none(len(windows))
        if not len(known):
            return self.remembered.made(*nothing)
        pairs = Pairs.over(np.concatenate([known.index, windows]), len(names))
        at = pairs.pack(known.keys, known.index)
        by_pair = np.argsort(at)
        wanted = pairs.pack(keys, windows)
        place = np.minimum(np.searchsorted(at[by_pair], wanted), len(at) - 1)
        is_stored = at[by_pair][place] == wanted
        void, found = np.flatnonzero(is_stored & is_new), is_stored & ~is_new
        if len(void):
            self._noted.append(memory_rows(windows[void], keys[void], names, self.remembered.of_none(len(void))))
        there = by_pair[place]
        fields = zip(known.partials[0], nothing, strict=True)
        return self.remembered.made(*(np.where(found, stored[there], default) for stored, default in fields))

    def put(self, windows: Array, keys: Array, names: pa.Table, before: Any, now: Any) -> None:
        """Note the state of the pairs for which it has changed."""
        changed = np.zeros(len(windows), dtype=bool)
        for old, new in zip(before.fields, now.fields, strict=True):
            changed |= differs(old, new)
        some = np.flatnonzero(changed)
        if len(some):
            self._noted.append(memory_rows(windows[some], keys[some], names, [field[some] for field in now.fields]))

    def save(self) -> None:
        """Append the noted rows, or rewrite the list."""
        if not self._noted and not len(self.rows):
            self.ledger.nodes.drop(self.name)
            self.ledger.cached = None
            return
        shape = self.ledger.nodes.shape
        noted = newest(concat(shape, self._noted))
        self.ledger.put(noted, self.remembered.telling(newest(concat(shape, [self.rows, noted]))))

    def to_cache(self) -> dict[str, Block]:
        """Return the blocks that the bucket cache keeps, by name."""
        return {f"{self.ledger.nodes.prefix}{self.name}": self.ledger.cached} if self.ledger.cached else {}


def memory_of(
    pages: Pages,
    shape: Shape,
    held: Mapping[str, Block],
    is_live: Callable[[Block], Array],
    of: Remembered | None,
    family: str = "",
    made: Callable[..., PairMemory] = PairMemory,
) -> PairMemory | None:
    """Return the trigger state of the pairs of a family, None if the trigger has none; `held` has the cached blocks."""
    if of is None:
        return None
    nodes = PageLists(pages, f"{family}{EARLY}", with_memory(shape, of.kernel))
    return made(nodes, of.which, held.get(f"{nodes.prefix}{of.which}"), is_live, of)
