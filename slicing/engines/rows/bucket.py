"""The engine of windows that records decide. A kind lists its pairs; the answers to triggers are masks over them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

from slicing.aggregates.arrays import Array
from slicing.content.block import Block
from slicing.content.memory import Remembered
from slicing.engines.bucket import Bucket, StoredWaiting
from slicing.engines.key_counts import KeyCounts
from slicing.engines.pair_memory import PairMemory, memory_of
from slicing.engines.rows.pairs import ACCEPTING, CLOSING, FIRED, OPEN, ListedPairs, WindowPairs
from slicing.state.bucket_cache import BucketCache
from slicing.state.format.list_names import EARLY, PENDING
from slicing.state.lists import PageLists
from slicing.triggers.panes import Panes


class RowsBucket(Bucket):
    """One bucket of windows that records decide."""

    new: Block  # the new records that windows accept
    cache: BucketCache

    def window_pairs(self, among: str, everything: bool) -> WindowPairs:
        """Return the pairs `among` ACCEPTING, FIRED, OPEN or CLOSING windows.

        Without `everything`, pairs of keys without new records may be left out.
        """
        self._unanswered("pairs")

    def has_pairs(self, among: str) -> Callable[[Block], Array]:
        """Return a function that tells which rows of the trigger's state may be of the pairs `among` some."""
        raise NotImplementedError

    def has_records(self) -> Callable[[Block], Array]:
        """Return a function that tells which rows are of keys that had records before this micro-batch."""
        raise NotImplementedError

    def rows_to_cache(self) -> dict[str, Block]:
        """Return the rows that the bucket cache keeps, by name."""
        raise NotImplementedError

    # Called by triggers.

    def touched(self) -> Panes:
        """Return the pairs that accept records and hold a new one."""
        pairs = self.window_pairs(ACCEPTING, everything=False)
        return pairs.panes(pairs.changed)

    def newest(self) -> Panes:
        """Return the latest window of each key, if it holds a new record."""
        pairs = self.window_pairs(ACCEPTING, everything=False)
        return pairs.panes(pairs.changed & pairs.latest())

    def late(self) -> Panes:
        """Return the pairs that have fired at their end, accept records and hold new ones since."""
        pairs = self.window_pairs(FIRED, everything=False)
        return pairs.panes(pairs.changed)

    def all_pairs(self, remembers: Remembered | None, counts_keys: bool, closing: bool = False) -> ListedPairs:
        """Return the open pairs, or, with `closing`, the pairs that this micro-batch closes."""
        among = CLOSING if closing else OPEN
        cached = self.cache.derived
        keys = KeyCounts(self.pages, self.shape, cached, self.has_records()) if counts_keys else None
        return ListedPairs(partial(self.window_pairs, among), self.memory(among, remembers), keys)

    def memory(self, among: str, remembers: Remembered | None) -> PairMemory | None:
        """Return the trigger's state of pairs, None without one."""
        return memory_of(self.pages, self.shape, self.cache.derived, self.has_pairs(among), remembers)

    @cached_property
    def waiting(self) -> StoredWaiting:
        """The open pairs that hold a record of the dirty set."""
        return self.waiting_in(PageLists(self.pages, EARLY, self.shape.select(())), self.cache.derived.get(PENDING))

    def waiting_in(self, nodes: PageLists, cached: Block | None) -> StoredWaiting:
        """Return the open pairs that hold a record of the dirty set with these pages."""
        raise NotImplementedError

    def keep(self) -> str:
        """Keep the rows and the trigger's state in the bucket cache."""
        return self.cache.keep(0, self.rows_to_cache() | self.early_to_cache())
