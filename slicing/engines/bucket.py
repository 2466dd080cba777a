"""The base class of all engines: one bucket and its state store during one micro-batch.

An instance lives for one micro-batch: call `accept` with the new records, then exhaust `close`, which writes the
remaining state. No other state may be kept between the two calls or after them. Opening a bucket does not change its
store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NoReturn, Protocol, TypeAlias

import pyarrow as pa

from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, empty
from slicing.content.memory import Remembered
from slicing.content.signals import Signals, folded
from slicing.engines.lifecycle import fired, noted
from slicing.engines.looking import Found, Look
from slicing.engines.stored_pairs import StoredPairs
from slicing.engines.trigger_state import OF_PAIRS, check_state, renew_state
from slicing.engines.wide_rows import check_lacking, step_separately, step_together
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.bucket_cache import BucketCache
from slicing.state.format.adapting import over_stored
from slicing.state.format.changes import LACKING
from slicing.state.format.coverage import Coverage, results_since
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.header import Header
from slicing.state.format.list_names import COUNTS, EARLY, PENDING, parse
from slicing.state.format.zone_tables import parts
from slicing.state.lists import PageLists
from slicing.state.pages import Pages, page_name
from slicing.state.store import Store
from slicing.triggers.candidates import Candidates, OpenPairs
from slicing.triggers.lateness import Late
from slicing.triggers.panes import Panes
from slicing.triggers.trigger import MicroBatchTime, Trigger, Waiting
from slicing.windows.families.family import Family
from slicing.windows.time.slices import FOREVER


class Wrapper:
    """A wrapper around another engine, to which it delegates all calls that a subclass does not override."""

    def __init__(self, engine: OpenBucket):
        self.engine = engine
        self.pages: Pages = engine.pages
        self.head: Header = engine.head

    def stored(self, shipped: Sequence[Any]) -> Sequence[Any]:
        """Return shipped rows in the form in which the engine stores them."""
        raise NotImplementedError

    def shown(self, late: Late[Any]) -> Late[Any]:
        """Return late rows of the engine in the form of shipped rows."""
        raise NotImplementedError

    def accept(self, shipped: Sequence[Any]) -> Late[Any]:
        """Keep the new records that open windows accept; return and count the late ones."""
        return self.shown(self.engine.accept(self.stored(shipped)))

    def load(self, shipped: Sequence[Any], at: MicroBatchTime) -> None:
        """Store the records of a history that ends at `at.watermark`; windows that end by then never fire."""
        self.engine.load(self.stored(shipped), at)

    def take_signals(self, heard: Signals) -> None:
        """Take the signals of the new records that the trigger asks for; called before `accept`."""
        self.engine.take_signals(heard)

    def close(self, at: MicroBatchTime) -> Iterator[Windows]:
        """Yield the windows that fire in the micro-batch, then write the remaining state."""
        return self.engine.close(at)

    def forgotten(self) -> pa.Table:
        """Return the keys that `ttl=` has forgotten since the previous micro-batch, also those that have come again."""
        return self.engine.forgotten()

    def look(self, asked: Look) -> Iterator[Found]:
        """Yield what is looked up, then the windows that are unknown. This does not change the state."""
        return self.engine.look(asked)

    @property
    def coverage(self) -> Coverage:
        """Which records the bucket has, and at which edges they are separate."""
        return self.engine.coverage

    def extent(self) -> dict[str, int]:
        """Count the open windows and the slices that the state spans, without reading a page."""
        return self.engine.extent()

    def check(self) -> None:
        """Assert the invariants between header and pages."""
        self.engine.check()


OpenBucket: TypeAlias = "Bucket | Wrapper"
"""An engine, or a wrapper of one: one bucket in one micro-batch. `pages` is its state, `head` is their header."""


class StoredWaiting(Waiting, Protocol):
    """A dirty set whose marks the bucket cache may keep."""

    def to_cache(self) -> dict[str, Block]:
        """Return the blocks that the bucket cache keeps, by name."""


class Bucket:
    """One bucket in one micro-batch; the engines are subclasses. `pages` is its state, `head` is their header.

    `first` is the next window to fire of each family, for a bucket without state. Raises StateMismatch if the stored
    state is that of another query.
    """

    shape: Shape

    def __init__(self, fingerprint: Fingerprint, store: Store, trigger: Trigger, first: Sequence[int]):
        self.trigger, self.zones, self.fingerprint = trigger, fingerprint.zones, fingerprint
        self.pages = Pages(store, fingerprint, first)
        self.head = self.pages.head
        self.has_new_trigger = self.head.trigger != trigger.stored
        check_state(self.head, trigger)
        self.open_pairs: StoredPairs | None = None  # once the trigger has asked for them
        self.heard = Signals(folded(trigger.signals))  # the signals of this micro-batch
        self.resources = ExitStack()  # released when the micro-batch ends, also by an error

    def over_stored(self, shape: Shape) -> Shape:
        """Return the shape over the slices of the checkpoint."""
        return self.known(shape).over(over_stored(self.head, self.fingerprint, shape.family))

    def step_families(self, families: Sequence[Family], wait: int, wide: bool) -> None:
        """Let an added family start with its first open window, and the families of wide rows fire together.

        Raises StateMismatch if windows of wide rows lack records and this engine or trigger does not support that.
        """
        states = self.head.families
        if not wide:
            step_separately(states)

        def first_open(own: Family) -> int:
            return max(own.first_open(self.head.watermark, wait), self._first_after_history(own))

        for state, own in zip(states, families, strict=True):
            if state.id in self.pages.added:
                state.skip_until(max(state.next_to_fire, first_open(own)))
            if state.added and not wide:
                state.added = state.next_to_fire > first_open(own)
        if wide:
            step_together(states, families, first_open)
            check_lacking(states, self.fingerprint.fixed.get(LACKING, ""))

    def _first_after_history(self, family: Family) -> int:
        """Return the first window that ends after the history of a warm start."""
        return family.first_open(family.placed(self.head.warm), 0) if self.head.warm else -FOREVER

    def known(self, shape: Shape) -> Shape:
        """Return the shape with the instant from which on windows must start to have each result."""
        since = results_since(self.head)
        if all(at is None for at in since):
            return shape
        return replace(shape, since=tuple(since[place] for place in shape.places))

    def open_cache(
        self, shape: Shape, read: Callable[[int, int], Iterable[Block]] = lambda first, end: ()
    ) -> BucketCache:
        """Return the bucket cache as the last micro-batch under this trigger has left it."""
        return BucketCache(shape, self.head.nonce, str(self.trigger), read)

    def accept(self, shipped: Sequence[Any]) -> Late[Any]:
        """Keep the new records that open windows accept; return and count the late ones."""
        raise NotImplementedError

    def take_signals(self, heard: Signals) -> None:
        """Take the signals of the new records that the trigger asks for; called before `accept`."""
        self.heard = heard

    @of_stage(ASSEMBLE)
    def load(self, shipped: Sequence[Any], at: MicroBatchTime) -> None:
        """Store the records of a history that ends at `at.watermark`; windows that end by then never fire.

        Call this only before the first records of the stream. Several loads of one history add up. For a trigger that
        fires open windows early, the records of the history count as not fired.
        """
        self.head.clock, self.head.warm = at.clock, at.watermark
        with self.resources:
            self.take_history(shipped, at.watermark)
            self.trigger.on_history(self, at)
            self.save()

    def take_history(self, shipped: Sequence[Any], until: int) -> None:
        """Store the records of a history; none is late. Windows that end by `until` count as fired."""
        raise NotImplementedError

    @of_stage(ASSEMBLE)
    def close(self, at: MicroBatchTime) -> Iterator[Windows]:
        """Yield the windows that fire in the micro-batch, then write the remaining state."""
        with self.resources:
            at = noted(self.head, self.trigger, at)
            yield from fired(self.trigger.on_records(self, at))
            self.advance(at.watermark)
            yield from fired(self.trigger.on_close(self, at))
            self.retire()
            yield from fired(self.trigger.on_open(self, at))
            self.save()

    def advance(self, watermark: int) -> None:
        """Find the windows that a watermark, in microseconds, closes."""

    def retire(self) -> None:
        """Store the remaining records, after the closed windows have been emitted."""

    def save(self) -> None:
        """Write the header, and keep blocks in the bucket cache for the next micro-batch."""
        self.head.nonce = self.keep()
        if self.zones:
            self.head.zones = parts(self.zones, self.cut_at(), self.head.specs)
        self.pages.save_header()

    def note_early(self) -> None:
        """Store the dirty set or the pairs' state of this trigger, and remove the state of other triggers.

        If the trigger has a dirty set and has not asked for it in this micro-batch, the new records are added to it.
        """
        own: set[str] = set()
        if (waiting := self.trigger.waiting_of(self)) is not None:
            own = {PENDING}
            if not waiting.asked:
                waiting.none()
        if self.open_pairs:
            self.open_pairs.save()
            own = {COUNTS} | self.open_pairs.names
        families = {state.id for state in self.head.families}
        for name in [name for name in self.head.lists if f"{EARLY} " in name]:
            of = parse(name)
            if of.which not in own or (of.which in OF_PAIRS and of.family not in families):
                self.pages.remove(self.head.lists.pop(name))
        self.head.trigger = self.trigger.stored

    def early_to_cache(self) -> dict[str, Block]:
        """Return the blocks of the dirty set or of the pairs that the bucket cache keeps, by name."""
        if self.open_pairs:
            return self.open_pairs.to_cache()
        waiting = self.trigger.waiting_of(self)
        return {} if waiting is None else waiting.to_cache()

    def cut_at(self) -> list[int]:
        """Return instants, in microseconds, that enclose all slices and windows of the state.

        The header keeps the part of each time zone between them, for a restart with other time zone data. They include
        the instants that decide lateness, even if no slice is left there.
        """
        return []

    def keep(self) -> str:
        """Keep blocks in the bucket cache for the next micro-batch; return the nonce under which they are found."""
        raise NotImplementedError

    def forgotten(self) -> pa.Table:
        """Return the keys that `ttl=` has forgotten since the previous micro-batch, also those that have come again."""
        return self.shape.key_schema.empty_table()

    def look(self, asked: Look) -> Iterator[Found]:
        """Yield what is looked up, with the records so far. This does not change the state.

        None is unknown if records decide which windows there are, or if windows that are not open are not kept.
        """
        raise NotImplementedError

    @property
    def coverage(self) -> Coverage:
        """Which records the bucket has: all that windows in it hold, unless it has slices."""
        return Coverage(self.shape.family, results=results_since(self.head))

    @property
    def pair_bytes(self) -> int:
        """The approximate size of a (key, window) pair in bytes: its results and its key."""
        return self.shape.pair_bytes

    # Called by triggers. A window kind that lacks one of them has refused the trigger when the query was built.

    def closing(self) -> Panes:
        """Return the pairs whose window the watermark of this micro-batch closes."""
        self._unanswered("closing")

    def empty(self) -> Panes:
        """Return the pairs without records whose window closes, as long after a record as the trigger says."""
        self._unanswered("empty")

    def touched(self) -> Panes:
        """Return the open pairs that hold a new record."""
        self._unanswered("touched")

    def newest(self) -> Panes:
        """Return, for each key with new records, its latest window, if that holds a new record."""
        self._unanswered("newest")

    def late(self) -> Panes:
        """Return the pairs that have fired at their end and hold a new record: late firings."""
        self._unanswered("late")

    def changed(self, tombstones: bool) -> Panes:
        """Return the pairs that close and whose result differs from that of the previous window."""
        self._unanswered("changed")

    def stored(self, levels: int) -> Panes:
        """Return slices with new records, and steps of tails with such that have ended: the first `levels` families."""
        self._unanswered("stored")

    def ended(self, levels: int) -> Panes:
        """Return the steps of tails that the watermark ends."""
        self._unanswered("ended")

    @property
    def waiting(self) -> StoredWaiting:
        """The dirty set: open pairs with records since their last firing."""
        self._unanswered("waiting")

    def pairs(self, remembers: Remembered | None, counts_keys: bool) -> OpenPairs:
        """Return the open pairs, with the trigger's state for each pair and each key."""
        renew_state(self.pages, self.shape, self.trigger)
        self.open_pairs = self.all_pairs(remembers, counts_keys)
        return self.open_pairs

    def closing_pairs(self, remembers: Remembered | None, everything: bool) -> Iterator[Candidates]:
        """Yield the pairs that this micro-batch closes, those with new records or, with `everything`, all.

        Changes of the trigger's state for them are not stored.
        """
        renew_state(self.pages, self.shape, self.trigger)
        return self.all_pairs(remembers, False, closing=True).candidates(everything)

    def all_pairs(self, remembers: Remembered | None, counts_keys: bool, closing: bool = False) -> StoredPairs:
        """Return the open pairs of this engine, or, with `closing`, the pairs that this micro-batch closes."""
        self._unanswered("pairs")

    def _unanswered(self, question: str) -> NoReturn:
        raise AssertionError(f"{type(self).__name__} is not asked for {question}, as {self.trigger} does")

    def extent(self) -> dict[str, int]:
        """Count the open windows and the slices that the state spans, without reading a page."""
        raise NotImplementedError

    def check(self) -> None:
        """Assert the invariants between header and pages: every page of a list exists, and is in one list only."""
        names = [page_name(entry) for entries in self.head.lists.values() for entry in entries]
        assert len(names) == len(set(names)), "a page belongs to one list"
        assert all(self.pages.store.get(name) for name in names)


def known_rows(nodes: PageLists, name: str, cached: Mapping[str, Block]) -> Block | None:
    """Return the cached rows of a list, an empty block if it has no page, or None if its pages must be read."""
    return cached.get(name) if name in cached or nodes.entries(name) else empty(nodes.shape)
