"""Open pairs with the state of a trigger: a row for each pair, and the record counts of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.block import Block
from slicing.engines.key_counts import Counting, KeyCounts
from slicing.engines.pair_memory import PairMemory
from slicing.state.format.list_names import KEYS
from slicing.triggers.candidates import Candidates


class StoredPairs:
    """Open pairs whose trigger state is stored with the micro-batch; `names` has the names of its page lists."""

    def __init__(self, memories: Iterable[PairMemory | None], keys: KeyCounts | None):
        self._memories, self._keys = [each for each in memories if each], keys
        self._stores: list[PairMemory | KeyCounts] = [*self._memories, *([keys] if keys else [])]
        self._counted: tuple[Block, Counting] | None = None  # the counts of keys after all pairs have been asked for
        self.names = {each.name for each in self._memories} | {KEYS for _ in [keys] if keys}

    @property
    def since(self) -> Array:
        """The clock at the first record since the last firing, in milliseconds, of all pairs that have one."""
        return np.concatenate([np.zeros(0, np.int64), *(each.since for each in self._memories)])

    def may_end(self, after: int, until: int) -> bool:
        """Whether a window may end after one watermark and by another: unknown if records decide which ones exist."""
        return True

    def candidates(self, everything: bool) -> Iterator[Candidates]:
        """Yield the pairs with new records, or all pairs. If keys are counted, all pairs of keys with new records."""
        raise NotImplementedError

    def save(self) -> None:
        """Store the changes of this micro-batch."""
        if self._keys and self._counted:
            self._keys.end(*self._counted)
        for each in self._stores:
            each.save()

    def to_cache(self) -> dict[str, Block]:
        """Return the blocks that the bucket cache keeps, by name."""
        return {name: block for each in self._stores for name, block in each.to_cache().items()}


def remembering(
    memory: PairMemory | None, windows: Array, keys: Array, names: pa.Table, before: Any
) -> Callable[[Any], None]:
    """Return the function that notes a new state of some pairs, whose state was `before`."""

    def remember(now: Any) -> None:
        assert memory is not None, "the trigger has asked for it"
        memory.put(windows, keys, names, before, now)

    return remember
