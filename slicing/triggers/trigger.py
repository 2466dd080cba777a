"""What a trigger is: a value that says which pairs of key and window fire, and when in a micro-batch.

A trigger knows no kind of windows. It asks the engine questions, and fires what the engine answers::

    new records ----> on_records ---- windows close ----> on_close ---- what is open ----> on_open
                      open windows that got records,      windows that the                 early firings
                      late firings                        watermark closes

What it asks is declared in `asks`: a kind of windows that cannot answer a question refuses the trigger when the query
is built, and an engine keeps only what the questions need.
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

CLOSING, TOUCHED, NEWEST, WAITING, PAIRS, LATE, CHANGED, WATERMARK, APART, ENDS, PURGED, NUMBERS = QUESTIONS = (
    "closing",
    "touched",
    "newest",
    "waiting",
    "pairs",
    "late",
    "changed",
    "watermark",
    "apart",
    "ends",
    "purged",
    "numbers",
)
"""What an engine may be asked for: the methods of `Engine` of these names, a watermark that moves, windows that stay
apart, which never merge, windows that records end, windows whose records can be dropped, and values of records."""

KINDS = ("early", "update", "final", "correction", "drained", "merged")
"""Why a row is emitted, as the column `emission` names it; state and output know them by their position."""
FINAL = "final"
"""The kind of a window that fires when it closes."""


@dataclass(frozen=True)
class MicroBatchTime:
    """When a micro-batch is: its watermark, and the clock of its trigger where that is known; in microseconds.

    `idle_after` is how long after the last input the watermark goes on with the clock, 0 for never.
    """

    watermark: int
    clock: int = 0
    idle_after: int = 0


@dataclass(frozen=True)
class Needs:
    """What the questions of a trigger need of the state."""

    trees: bool  # nodes of trees, of which windows are read as they close
    follows: bool  # the latest slices in the process, of which windows are read while they are open
    compares: bool  # the slices of the last window that has closed, with which the next one is compared
    marks: bool  # which windows the new records are in
    newest: bool  # the newest record of each key
    emitted: bool  # what has fired, which later firings replace
    settles: bool  # late rows are in their place when a slice leaves its trees: nothing has read them before

    @classmethod
    def of(cls, asks: frozenset[str], fires_once: bool) -> Needs:
        """Return the needs of some questions, of a trigger under which a window may fire only once."""
        return cls(
            trees=CLOSING in asks,
            follows=bool(asks & {TOUCHED, NEWEST, WAITING, PAIRS}),
            compares=CHANGED in asks,
            marks=bool(asks - {CLOSING, CHANGED}),
            newest=NEWEST in asks,
            emitted=not fires_once and PURGED not in asks,  # what has fired stays as it is
            settles=CLOSING in asks and LATE not in asks,
        )


def passed_watermark(watermark: int) -> int:
    """The tick in the header of a trigger that goes by each watermark, in microseconds: below 0.

    Ticks from 0 on are numbers of intervals, so that a trigger which follows another one tells them apart. The function
    is its own inverse.
    """
    return -1 - watermark


class Waiting(Protocol):
    """Open pairs with records since their last firing, of which a micro-batch asks once; what fires no longer waits."""

    asked: bool  # in this micro-batch

    def none(self) -> None:
        """Fire nothing: the new records wait, too."""

    def all(self) -> Panes:
        """Fire all that wait."""

    def ready(self, chosen: Callable[[Any], Any]) -> Panes:
        """Fire those that `chosen` returns true for, of a block of keys, slices and records since the last firing."""


class Engine(Protocol):
    """What triggers ask: a bucket in one micro-batch."""

    @property
    def head(self) -> Any:
        """The header: `tick` is the number of the last interval of the clock, `revision` of the micro-batch."""

    @property
    def pair_bytes(self) -> int:
        """About how many bytes a pair takes: its results and its key."""

    def closing(self) -> Panes:
        """Pairs whose window the watermark of this micro-batch closes."""

    def touched(self) -> Panes:
        """Open pairs that hold a new record."""

    def newest(self) -> Panes:
        """For each key with new records: the first open window that holds its newest record, if it holds a new one."""

    def late(self) -> Panes:
        """Pairs that fired when their window closed, accept late records until grace is over, and got some."""

    def changed(self, tombstones: bool) -> Panes:
        """Pairs that the watermark closes and whose result differs from that of the window before.

        With `tombstones` also the first empty window after one with a result.
        """

    @property
    def waiting(self) -> Waiting:
        """Open pairs with records since their last firing."""

    def pairs(self, remembers: Remembered | None, counts_keys: bool) -> OpenPairs:
        """Open pairs with the records that they hold; what is remembered of each, and the records of keys, if asked."""

    def closing_pairs(self, remembers: Remembered | None) -> Iterator[Candidates]:
        """Pairs that the watermark of this micro-batch closes, with the records that they hold, and what is remembered.

        Asked by `on_records`, or by `on_close` if no results are. Keys of a window that never closes are those that are
        forgotten.
        """


W = TypeVar("W", bound=Waiting, covariant=True)


class _Waits(Protocol[W]):
    @property
    def waiting(self) -> W:
        """Open pairs with records since their last firing."""


Firing = tuple[str, "Iterator[Any]"]
"""The kind of some rows, and the windows that fire."""


@dataclass(frozen=True)
class Trigger:
    """When windows fire, and what a firing says. Printing one shows the call that makes it.

    A trigger implements some of `on_records`, `on_close` and `on_open`, and declares what these ask; one that stores
    something about open pairs also implements `on_history`.
    """

    asks: ClassVar[frozenset[str]] = frozenset()
    meaning: ClassVar[str] = ""
    fires_once: ClassVar[bool] = False  # whether a window fires at most once: its rows need no kind and no revision
    by_clock: ClassVar[bool] = False  # whether it fires by the clock, also where no record comes
    tombstones: ClassVar[bool] = False  # whether empty windows fire, so that aggregates need a result of no records

    @property
    def accumulation(self) -> Accumulation:
        """What a firing says of the ones before."""
        return ACCUMULATING

    @property
    def stored(self) -> list[str]:
        """Its name and the fields of its state, as the header has them; nothing of one that has none."""
        return []

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals of records that it asks for, see `slicing.content.signals`."""
        return ()

    @property
    def ends(self) -> bool:
        """Whether its signal `when` ends the sessions of records: then windows of bounded input depend on it, too."""
        return ENDS in self.asks

    @property
    def purges(self) -> bool:
        """Whether it may drop the records of windows: then each window has a partial of its own."""
        return PURGED in self.asks

    def drops(self, kind: str) -> bool:
        """Whether each firing of a kind drops the records of its window."""
        return False

    @property
    def column(self) -> Any:
        """The column of records that it asks for, a name or a Column; None without one."""
        return None

    def named(self, column: str) -> Trigger:
        """The same with its column by name."""
        return self

    @property
    def number(self) -> Any:
        """The column of numbers of which it asks for each value, in order of arrival; None without one."""
        return None

    def numbered(self, column: str) -> Trigger:
        """The same with its column of numbers by name."""
        return self

    def wait(self, grace: int) -> int:
        """How long after its end a window fires for the first time, in microseconds."""
        return grace

    @property
    def fires_late(self) -> bool:
        """Whether windows that have fired accept records, and fire again for them, until grace is over."""
        return LATE in self.asks

    @property
    def needs(self) -> Needs:
        """What an engine keeps for this trigger."""
        return Needs.of(self.asks, self.fires_once)

    @property
    def compares(self) -> bool:
        """Whether the result of a window is compared with that of the window before it."""
        return CHANGED in self.asks

    def cannot_lack(self) -> str:
        """Why wide rows cannot go on while some of their windows lack records, empty if they can.

        Rows that are fired once, as they close, have nulls there. Others would be replaced by, or compared with, rows
        of other windows.
        """
        if self.asks == {CLOSING}:
            return ""
        return f"{self} fires wide rows early, again or compared, and windows that are added lack records meanwhile"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of rows that say which firing of their window they are."""
        old = ("old",) if self.accumulation.retracts else ()
        return () if self.fires_once else ("emission", "revision", *old)

    def refuse(self, cannot: Mapping[str, str]) -> None:
        """Raise InvalidValue for the first question that windows cannot answer; `cannot` has the reasons.

        That windows close is a question of its own only for a trigger that asks for nothing else. Changes are compared
        with what has closed, which is not read while windows are open.
        """
        if self.compares and self.asks - {CHANGED, CLOSING}:
            raise InvalidValue(
                f"{self} asks for changed windows of those that close, and for open ones too. Ask for one of them."
            )
        for question in sorted(self.asks - {CLOSING} or self.asks, key=QUESTIONS.index):
            if question in cannot:
                raise InvalidValue(f"{self} {cannot[question]}")

    def check_room(self, size: int, keeps_records: bool) -> None:
        """Raise InvalidValue if what waits has no room, where a pair of key and window takes `size` bytes.

        `keeps_records` says that it also keeps its records, which `size` is without.
        """

    def clock(self, last: int, now: int) -> int:
        """The clock to go by, in microseconds, after the one of the micro-batch before: it does not step back."""
        return max(last, now)

    def revision(self, last: int) -> int:
        """The number that the rows of a micro-batch carry, after that of the one before."""
        return last if self.fires_once else last + 1

    def waiting_of(self, engine: _Waits[W]) -> W | None:
        """The open pairs that wait, of an engine, if this trigger asks for them."""
        return engine.waiting if WAITING in self.asks else None

    def on_history(self, engine: Engine, at: MicroBatchTime) -> None:
        """Ask what has to be stored of records of a history that has been loaded; nothing fires for them yet."""
        if (waiting := self.waiting_of(engine)) is not None:
            waiting.none()

    def on_records(self, engine: Engine) -> Iterator[Firing]:
        """What fires for the new records, before the watermark of the micro-batch closes windows."""
        return iter(())

    def on_close(self, engine: Engine) -> Iterator[Firing]:
        """What fires of the windows that the watermark closes."""
        return iter(())

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """What fires of the windows that are open after that."""
        return iter(())
