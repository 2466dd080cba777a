"""The base of all engines: one bucket over its store during one micro-batch.

One instance lives for one micro-batch: `accept` the new records, then run `close` to its end, which writes what is
left. Nothing else may be kept between the two, nor after. Opening a bucket changes nothing in its store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar, NoReturn, Protocol

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, empty
from slicing.content.memory import Remembered
from slicing.content.records import Records
from slicing.engines.lifecycle import micro_batch
from slicing.engines.looking import Look, Pieces
from slicing.engines.trigger_state import check_state, renew_state
from slicing.engines.wide_rows import NOT_KEPT, check_lacking, step_apart, step_together
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.bucket_cache import Recent
from slicing.state.format.adapting import over_stored
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.header import Header, known_since
from slicing.state.format.list_names import COUNTS, EARLY, MEMORY, PENDING, STATE, VALUES, parse
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


class OpenBucket(Protocol):
    """One bucket in one micro-batch, as stages see it: `pages` are its state, `head` their header."""

    pages: Pages
    head: Header

    def load(self, shipped: Sequence[Any], at: MicroBatchTime) -> None:
        """Store records of a history that ends at a watermark; windows that end by then are never emitted."""

    @property
    def since(self) -> tuple[int | None, ...]:
        """For each result the microsecond from which on windows must begin to have it, None where all do."""

    def hear(self, signals: Sequence[Block], numbers: Sequence[Records] = ()) -> None:
        """Take the signals and values of the new records that the trigger asks for, before `accept`."""

    def accept(self, shipped: Sequence[Any]) -> Late[Any]:
        """Keep the new records that open windows accept, return and count the late ones."""

    def close(self, at: MicroBatchTime) -> Iterator[Windows]:
        """Yield all that fires in the micro-batch, then write the state that is left."""

    def look(self, asked: Look) -> Iterator[Windows]:
        """Yield the windows that are looked up, of the records so far; a read, which changes nothing."""

    def pieces(self, asked: Look) -> Iterator[Pieces]:
        """Yield the slices of the windows that are asked for, of one key; a read, which changes nothing."""

    @property
    def known_from(self) -> int:
        """The first microsecond from which on all that was accepted is there."""

    def known_since(self, starts: Array) -> Array:
        """From when on all that was accepted is there of windows that begin at some microseconds."""

    def extent(self) -> dict[str, int]:
        """How many open windows and slices the state spans; no page is read."""

    def check(self) -> None:
        """Assert the invariants between header and pages."""


class Around:
    """An engine around another one, to which it hands on what it does not translate; a base of `OpenBucket`s."""

    def __init__(self, engine: OpenBucket):
        self.engine, self.pages, self.head = engine, engine.pages, engine.head

    @property
    def since(self) -> tuple[int | None, ...]:
        """For each result the microsecond from which on windows must begin to have it, None where all do."""
        return self.engine.since

    def stored(self, shipped: Sequence[Any]) -> Sequence[Any]:
        """Return what has been shipped as the engine stores it."""
        raise NotImplementedError

    def load(self, shipped: Sequence[Any], at: MicroBatchTime) -> None:
        """Store records of a history that ends at a watermark; windows that end by then are never emitted."""
        self.engine.load(self.stored(shipped), at)

    def hear(self, signals: Sequence[Block], numbers: Sequence[Records] = ()) -> None:
        """Take the signals and values of the new records that the trigger asks for, before `accept`."""
        self.engine.hear(signals, numbers)

    def close(self, at: MicroBatchTime) -> Iterator[Windows]:
        """Yield all that fires in the micro-batch, then write the state that is left."""
        return self.engine.close(at)

    @property
    def known_from(self) -> int:
        """The first microsecond from which on all that was accepted is there."""
        return self.engine.known_from

    def known_since(self, starts: Array) -> Array:
        """From when on all that was accepted is there of windows that begin at some microseconds."""
        return self.engine.known_since(starts)

    def extent(self) -> dict[str, int]:
        """How many open windows and slices the state spans; no page is read."""
        return self.engine.extent()

    def check(self) -> None:
        """Assert the invariants between header and pages."""
        self.engine.check()


class StoredWaiting(Waiting, Protocol):
    """The answer to the question `waiting`, of which the process keeps something."""

    def kept(self) -> dict[str, Block]:
        """What the process keeps, by name."""


class StoredPairs(OpenPairs, Protocol):
    """The answer to the question `pairs`, which is stored with the micro-batch."""

    names: set[str]  # of its lists of pages

    def save(self) -> None:
        """Store what is new."""

    def kept(self) -> dict[str, Block]:
        """What the process keeps, by name."""


class Bucket:
    """One bucket in one micro-batch; subclasses are the engines. `pages` are its state, `head` their header.

    `first` are the first windows that have not fired, of each family, of a bucket never seen. Raises StateMismatch.
    """

    shape: Shape
    cannot_lack: ClassVar[str] = NOT_KEPT
    """Why wide rows of this engine cannot go on while some of their windows lack records, empty if they can."""

    def __init__(self, fingerprint: Fingerprint, store: Store, trigger: Trigger, first: Sequence[int]):
        self.trigger, self.zones, self.fingerprint = trigger, fingerprint.zones, fingerprint
        self.pages = Pages(store, fingerprint, first)
        self.head = self.pages.head
        check_state(self.head, trigger)
        self.open_pairs: StoredPairs | None = None  # once the trigger has asked for them
        self.heard: Sequence[Block] = ()  # the signals of this micro-batch
        self.numbers: Sequence[Records] = ()  # the values of its records, in their order
        self.resources = ExitStack()  # released when the micro-batch ends, also by an error

    @property
    def since(self) -> tuple[int | None, ...]:
        """For each result the microsecond from which on windows must begin to have it, None where all do."""
        return tuple(map(known_since, self.head.current))

    def over_stored(self, shape: Shape, wait: int, wide: bool) -> Shape:
        """Return the shape over the cut of the checkpoint; windows that are new there begin where none has ended.

        Raises StateMismatch where wide rows had windows that lack records, and cannot go on with them.
        """
        family = over_stored(self.head, self.fingerprint, shape.family)
        if not wide:
            step_apart(self.head.families)
        for walk, own in zip(self.head.families, family.families, strict=True):
            if walk.added:
                passed = max(own.first_open(self.head.watermark, wait), self._first_after_history(own))
                if walk.done < passed:
                    walk.done = walk.taking = walk.kept = passed
                walk.added = walk.done > own.first_open(self.head.passed, 0)
        if wide:
            check_lacking(self.head.families, self.cannot_lack or self.trigger.cannot_lack())
            step_together(self.head.families, family.families)
        return self.known(shape).over(family)

    def _first_after_history(self, family: Family) -> int:
        """The first window that ends after the history of a warm start."""
        return family.first_open(self.head.warm, 0) if self.head.warm else -FOREVER

    def known(self, shape: Shape) -> Shape:
        """Return the shape with what windows must be to have its results."""
        since = self.since
        if all(at is None for at in since):
            return shape
        return replace(shape, since=tuple(since[place] for place in shape.places))

    def open_cache(self, shape: Shape, read: Callable[[int, int], Iterable[Block]] = lambda first, end: ()) -> Recent:
        """What the process has kept of this bucket since its last micro-batch under this trigger."""
        return Recent(shape, self.head.nonce, str(self.trigger), read)

    def accept(self, shipped: Sequence[Any]) -> Late[Any]:
        """Keep the new records that open windows accept, return and count the late ones."""
        raise NotImplementedError

    def hear(self, signals: Sequence[Block], numbers: Sequence[Records] = ()) -> None:
        """Take the signals and values of the new records that the trigger asks for, before `accept`."""
        self.heard, self.numbers = signals, numbers

    @of_stage(ASSEMBLE)
    def load(self, shipped: Sequence[Any], at: MicroBatchTime) -> None:
        """Store records of a history that ends at a watermark; windows that end by then are never emitted.

        Only before the first records of the stream. Several loads of one history add up. Its records have not fired:
        they wait for a trigger that fires open windows early.
        """
        self.head.clock, self.head.warm = at.clock, at.watermark
        with self.resources:
            self.take_history(shipped, at.watermark)
            self.trigger.on_history(self, at)
            self.save()

    def take_history(self, shipped: Sequence[Any], until: int) -> None:
        """Take records of a history, none of which is late, and pass the windows that end by an instant."""
        raise NotImplementedError

    @of_stage(ASSEMBLE)
    def close(self, at: MicroBatchTime) -> Iterator[Windows]:
        """Yield all that fires in the micro-batch, then write the state that is left."""
        with self.resources:
            yield from micro_batch(self, self.trigger, at)

    def advance(self, watermark: int) -> None:
        """Let a watermark, in microseconds, close windows."""

    def retire(self) -> None:
        """Store what is left, now that the closed windows have been read."""

    def save(self) -> None:
        """Write the header, and keep in the process what the next micro-batch is likely to need."""
        self.head.nonce = self.keep()
        if self.zones:
            self.head.zones = parts(self.zones, self.cut_at())
        self.pages.save_header()

    def note_early(self) -> None:
        """Store what the trigger asks about open pairs; forget what another trigger has asked about them.

        New records wait where the trigger has not asked what waits.
        """
        own: set[str] = set()
        if (waiting := self.trigger.waiting_of(self)) is not None:
            own = {PENDING}
            if not waiting.asked:
                waiting.none()
        if self.open_pairs:
            self.open_pairs.save()
            own = {COUNTS} | self.open_pairs.names
        families = {walk.id for walk in self.head.families}
        for name in [name for name in self.head.lists if f"{EARLY} " in name]:
            of = parse(name)
            if of.which not in own or (of.which in (MEMORY, STATE, VALUES) and of.family not in families):
                self.pages.remove(self.head.lists.pop(name))
        self.head.trigger = self.trigger.stored

    def kept_early(self) -> dict[str, Block]:
        """What the process keeps of that, by name."""
        if self.open_pairs:
            return self.open_pairs.kept()
        waiting = self.trigger.waiting_of(self)
        return {} if waiting is None else waiting.kept()

    def cut_at(self) -> list[int]:
        """Instants around all that the state was cut by, for a start with other time zone data.

        What tells which windows have closed counts too, though nothing may be left of them: what they hold is late.
        """
        return []

    def keep(self) -> str:
        """Keep blocks in the process for the next micro-batch; return the nonce that they are found by."""
        raise NotImplementedError

    def look(self, asked: Look) -> Iterator[Windows]:
        """Yield the windows that are looked up, of the records so far; a read, which changes nothing."""
        raise NotImplementedError

    def pieces(self, asked: Look) -> Iterator[Pieces]:
        """Yield the slices of the windows that are asked for, of one key; a read, which changes nothing."""
        self._unanswered("pieces")

    @property
    def known_from(self) -> int:
        """The first microsecond from which on all that was accepted is there."""
        return -FOREVER

    def known_since(self, starts: Array) -> Array:
        """From when on all that was accepted is there of windows that begin at some microseconds."""
        return np.full(len(starts), self.known_from)

    @property
    def pair_bytes(self) -> int:
        """About how many bytes a pair takes: its results and its key."""
        return self.shape.pair_bytes

    # What triggers ask. A kind of windows that cannot answer has refused the trigger when the query was built.

    def closing(self) -> Panes:
        """Pairs whose window the watermark of this micro-batch closes."""
        self._unanswered("closing")

    def touched(self) -> Panes:
        """Open pairs that hold a new record."""
        self._unanswered("touched")

    def newest(self) -> Panes:
        """For each key with new records: the first open window that holds its newest record, if it holds a new one."""
        self._unanswered("newest")

    def late(self) -> Panes:
        """Pairs that have fired at their close and got a late record."""
        self._unanswered("late")

    def changed(self, tombstones: bool) -> Panes:
        """Pairs that close with another result than the window before."""
        self._unanswered("changed")

    @property
    def waiting(self) -> StoredWaiting:
        """Open pairs with records since their last firing."""
        self._unanswered("waiting")

    def pairs(self, remembers: Remembered | None, counts_keys: bool) -> OpenPairs:
        """Open pairs, with what is remembered of them, and of their keys."""
        renew_state(self.pages, self.shape, self.trigger)
        self.open_pairs = self.all_pairs(remembers, counts_keys)
        return self.open_pairs

    def closing_pairs(self, remembers: Remembered | None) -> Iterator[Candidates]:
        """Pairs that are about to close; what is to be remembered of them is not stored."""
        renew_state(self.pages, self.shape, self.trigger)
        return self.all_pairs(remembers, False, closing=True).candidates(everything=True)

    def all_pairs(self, remembers: Remembered | None, counts_keys: bool, closing: bool = False) -> StoredPairs:
        """Open pairs as this engine has them; if `closing`, those that are about to close, all of them at once."""
        self._unanswered("pairs")

    def _unanswered(self, question: str) -> NoReturn:
        raise AssertionError(f"{type(self).__name__} is not asked for {question}, as {self.trigger} does")

    def extent(self) -> dict[str, int]:
        """How many open windows and slices the state spans; no page is read."""
        raise NotImplementedError

    def check(self) -> None:
        """Assert the invariants between header and pages: every page of a list is there, and in one list only."""
        names = [page_name(entry) for entries in self.head.lists.values() for entry in entries]
        assert len(names) == len(set(names)), "a page belongs to one list"
        assert all(self.pages.store.get(name) for name in names)


def known_rows(nodes: PageLists, name: str, kept: Mapping[str, Block]) -> Block | None:
    """The rows of a list that the process has; none if there is no page; None if they have to be read."""
    return kept.get(name) if name in kept or nodes.entries(name) else empty(nodes.shape)
