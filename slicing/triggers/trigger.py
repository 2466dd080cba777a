"""The base class of triggers: a trigger decides which (key, window) pairs fire, and when in a micro-batch.

A trigger does not depend on the kind of windows. It asks the engine for pairs, and fires the pairs it gets::

    new records ----> on_records ---- windows close ----> on_close ---- open windows ----> on_open
                      open windows with new records,      windows that the                 early firings
                      late firings                        watermark closes

A trigger declares its questions in `asks`. A kind of windows that cannot answer a question refuses the trigger when the
query is built, and an engine stores only the data that the questions need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from slicing.errors import InvalidValue
from slicing.triggers.accumulation import ACCUMULATING, Accumulation

if TYPE_CHECKING:
    from slicing.content.memory import Remembered
    from slicing.triggers.candidates import Candidates, OpenPairs
    from slicing.triggers.panes import Panes

(
    CLOSING,
    TOUCHED,
    NEWEST,
    WAITING,
    PAIRS,
    LATE,
    CHANGED,
    WATERMARK,
    UNMERGED,
    ENDS,
    PURGED,
    NUMBERS,
    PER_KEY,
    STORED,
    EMPTY,
) = QUESTIONS = (
    "closing",
    "touched",
    "newest",
    "waiting",
    "pairs",
    "late",
    "changed",
    "watermark",
    "unmerged",
    "ends",
    "purged",
    "numbers",
    "per_key",
    "stored",
    "empty",
)
"""The questions to an engine. The first ones are the methods of `Engine` of these names. Then: a watermark that moves;
windows that never merge ("unmerged"); windows that records end; windows whose records can be dropped; values of
records; record counts of keys ("per_key"); slices and steps of tails as they are stored.
"""

KINDS = ("early", "update", "final", "correction", "drained", "merged", "on_time", "late")
"""The values of the column `emission`. State and output refer to them by their position."""
EARLY_KINDS = EARLY, ON_TIME, AFTER_END = ("early", "on_time", "late")
"""The kinds of the firings of a window before it closes: before its end, at its end, after its end."""
FIRING = ("emission", "revision", "old")
"""The columns that distinguish several firings of a window; the last one is there if rows have what they replace."""
FINAL = "final"
"""The kind of a window that fires when it closes."""


@dataclass(frozen=True)
class MicroBatchTime:
    """The time of a micro-batch in microseconds: its watermark, and its processing time (`clock`) if known.

    `idle_after` is the time after the last input from which on the watermark follows the clock, 0 for never.
    `last_watermark` and `last_clock` are the times of the previous micro-batch, 0 if there is none.
    """

    watermark: int
    clock: int = 0
    idle_after: int = 0
    last_watermark: int = 0
    last_clock: int = 0


@dataclass(frozen=True)
class Needs:
    """The data that the questions of a trigger need from the state."""

    trees: bool  # nodes of trees, to assemble windows when they close
    follows: bool  # the bucket cache of the latest slices, to assemble windows while they are open
    compares: bool  # the slices of the last closed window, to compare the next window with it
    marks: bool  # the windows of the new records
    newest: bool  # the newest record of each key
    emitted: bool  # the emitted rows, which later firings replace
    counts: bool  # the records of each pair of a key and a window since it fired
    folds_late: bool  # late rows join their slices before these leave the trees: no firing has read them before

    @classmethod
    def of(cls, asks: frozenset[str], fires_once: bool) -> Needs:
        """Return the needs of some questions; `fires_once` says that a window fires at most once."""
        return cls(
            trees=CLOSING in asks,
            follows=bool(asks & {TOUCHED, NEWEST, WAITING, PAIRS, STORED}),
            compares=CHANGED in asks,
            marks=bool(asks - {CLOSING, CHANGED, EMPTY}),
            newest=NEWEST in asks,
            emitted=not fires_once and PURGED not in asks,  # a firing that purges is never replaced
            counts=PAIRS in asks,
            folds_late=CLOSING in asks and LATE not in asks,
        )


def passed_watermark(watermark: int) -> int:
    """Return the tick that stands for a watermark (microseconds) in the header: a number below 0.

    Ticks from 0 on are of older checkpoints: numbers of intervals of a trigger that is not known.
    """
    return -1 - watermark


def has_ticked(at: MicroBatchTime, interval: int) -> bool:
    """Whether the clock has passed a multiple of an interval since the previous micro-batch; never in the first one."""
    return bool(at.last_clock) and at.clock // interval > at.last_clock // interval


class Waiting(Protocol):
    """Open pairs with records since their last firing. A micro-batch asks once; pairs that fire no longer wait."""

    asked: bool  # whether this micro-batch has asked

    def none(self) -> Panes:
        """Return no pairs. Add the new records to the waiting ones."""

    def all(self) -> Panes:
        """Return all waiting pairs."""

    def ready(self, chosen: Callable[[Any], Any]) -> Panes:
        """Return the pairs of the rows for which `chosen` returns true.

        `chosen` gets a block with the keys, the slices and the record counts since the last firing.
        """


class Engine(Protocol):
    """The interface of a bucket for triggers, in one micro-batch."""

    @property
    def head(self) -> Any:
        """Return the header: `tick` is the last watermark of hooks, `revision` the number of the micro-batch."""

    @property
    def has_new_trigger(self) -> bool:
        """Return whether the memory of pairs in the checkpoint is of other fields than those of this trigger."""

    @property
    def pair_bytes(self) -> int:
        """Return the estimated bytes of a pair: its results and its key."""

    def closing(self) -> Panes:
        """Return the pairs whose window the watermark of this micro-batch closes."""

    def empty(self) -> Panes:
        """Return the closing pairs without records, as long after those of their key as the trigger says."""

    def touched(self) -> Panes:
        """Return the open pairs with new records."""

    def newest(self) -> Panes:
        """Return the latest window of each key with new records, if the window holds a new record."""

    def late(self) -> Panes:
        """Return the pairs with new records that have fired at their end, and accept records until grace is over."""

    def stored(self, levels: int) -> Panes:
        """Return slices with new records, and steps of tails with such that have ended: the first `levels` families."""

    def ended(self, levels: int) -> Panes:
        """Return the steps of tails that the watermark ends."""

    def changed(self, tombstones: bool) -> Panes:
        """Return the pairs that the watermark closes and whose result differs from that of the previous window.

        With `tombstones`, also return the first empty window after one with a result.
        """

    @property
    def waiting(self) -> Waiting:
        """Return the open pairs with records since their last firing."""

    def pairs(self, remembers: Remembered | None, counts_keys: bool) -> OpenPairs:
        """Return the open pairs with their record counts.

        With `remembers` they have the memory of each pair, and with `counts_keys` the record counts of the keys.
        """

    def closing_pairs(self, remembers: Remembered | None, everything: bool) -> Iterator[Candidates]:
        """Return the pairs that the watermark of this micro-batch closes, with their record counts and their memory.

        Without `everything`, engines may leave out pairs without new records.
        To be called in `on_records`, or in `on_close` if no results are asked for. For an unbounded window these are
        the keys that are removed.
        """


W = TypeVar("W", bound=Waiting, covariant=True)


class _Waits(Protocol[W]):
    @property
    def waiting(self) -> W:
        """Return the open pairs with records since their last firing."""


Firing = tuple[str, "Iterator[Any]"]
"""One of `KINDS`, and the windows that fire."""


@dataclass(frozen=True)
class Trigger:
    """The base class of triggers. Printing one shows the call that makes it.

    A trigger implements some of `on_records`, `on_close` and `on_open`, and declares their questions in `asks`. A
    trigger that stores data about open pairs also implements `on_history`.
    """

    asks: ClassVar[frozenset[str]] = frozenset()
    meaning: ClassVar[str] = ""
    fires_once: ClassVar[bool] = False  # whether a window fires at most once: its rows need no kind and no revision
    by_clock: ClassVar[bool] = False  # whether windows fire by the clock, also without new records
    fires_short: ClassVar[bool] = False  # whether a count window that bounded input ends before it is full fires
    reads_clock: ClassVar[bool] = False  # whether it reads the clock of a micro-batch, also if no window fires by it
    empty: ClassVar[int] = 0  # how long windows without records fire after the last record of a key, microseconds
    tombstones: ClassVar[bool] = False  # whether empty windows fire: aggregates then need a result for no records

    @property
    def accumulation(self) -> Accumulation:
        """Return the accumulation mode."""
        return ACCUMULATING

    @property
    def stored(self) -> list[str]:
        """Return the name and the fields of the trigger's state for the header; empty without a state.

        A field is a name and a type. Its name changes with its meaning: values are taken over by name.
        """
        return []

    @property
    def remembered(self) -> Remembered | None:
        """Return the kind of memory of pairs, with the fields of `stored`; None without a state."""
        return None

    @property
    def signals(self) -> tuple[str, ...]:
        """Return the signals of records that the trigger needs, see `slicing.content.signals`."""
        return ()

    @property
    def ends(self) -> bool:
        """Whether the signal `when` ends sessions: the windows of bounded input then depend on it, too."""
        return ENDS in self.asks

    @property
    def purges(self) -> bool:
        """Whether the trigger may drop the records of windows: each window then has a partial of its own."""
        return PURGED in self.asks

    def drops(self, kind: str) -> bool:
        """Whether each firing of a kind drops the records of its window."""
        return False

    @property
    def reads(self) -> Mapping[str, Any]:
        """Return the columns of records that the trigger reads, by signal: names or Columns."""
        return {}

    def reading(self, named: Callable[[str, str, Any], str]) -> Trigger:
        """Return the same trigger with columns given by name: `named(condition, signal, column)` returns the name."""
        return self

    def wait(self, grace: int) -> int:
        """Return the time in microseconds between the end of a window and its first firing."""
        return grace

    @property
    def fires_late(self) -> bool:
        """Whether windows that have fired accept records, and fire again for them, until grace is over."""
        return LATE in self.asks

    @property
    def needs(self) -> Needs:
        """Return the data that an engine stores for this trigger."""
        return Needs.of(self.asks, self.fires_once)

    def cannot_lack(self) -> str:
        """Return why wide rows cannot continue while some of their windows lack records; empty if they can.

        Rows that fire once, when they close, have nulls for these windows. Rows that fire otherwise would be replaced
        by, or compared with, rows of other windows.
        """
        if self.asks == {CLOSING}:
            return ""
        return f"{self} fires wide rows early, again or compared, and windows that are added lack records meanwhile"

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the additional columns of rows that identify the firing of their window."""
        return () if self.fires_once else FIRING if self.accumulation.retracts else FIRING[:2]

    def refuse(self, cannot: Mapping[str, str]) -> None:
        """Raise InvalidValue for the first question that the windows cannot answer; `cannot` has the reasons.

        The question "closing" counts only for a trigger that asks nothing else. A trigger cannot ask for changed
        windows and for open ones: changes are compared with closed windows, which are not read while windows are open.
        """
        if CHANGED in self.asks and self.asks - {CHANGED, CLOSING}:
            raise InvalidValue(
                f"{self} asks for changed windows of those that close, and for open ones too. Ask for one of them."
            )
        for question in sorted(self.asks - {CLOSING} or self.asks, key=QUESTIONS.index):
            if question in cannot:
                raise InvalidValue(f"{self} {cannot[question]}")

    def check_room(self, size: int, keeps_records: bool) -> None:
        """Raise InvalidValue if the trigger's buffer has no room for a (key, window) pair of `size` bytes.

        `keeps_records` says that pairs also keep their records, which `size` does not include.
        """

    def clock(self, last: int, now: int) -> int:
        """Return the clock of a micro-batch in microseconds: `now`, but never earlier than the last one."""
        return max(last, now)

    def revision(self, last: int) -> int:
        """Return the revision of the rows of a micro-batch from that of the previous micro-batch."""
        return last if self.fires_once else last + 1

    def waiting_of(self, engine: _Waits[W]) -> W | None:
        """Return the waiting pairs of an engine, None if this trigger does not ask for them."""
        return engine.waiting if WAITING in self.asks else None

    def on_history(self, engine: Engine, at: MicroBatchTime) -> None:
        """Store the trigger's data for the records of a loaded history. Nothing fires for them yet."""
        if (waiting := self.waiting_of(engine)) is not None:
            waiting.none()

    def on_records(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Yield the firings for the new records, before the watermark of the micro-batch closes windows."""
        return iter(())

    def on_close(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Yield the firings of the windows that the watermark closes."""
        return iter(())

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Yield the firings of the windows that are still open after that."""
        return iter(())
