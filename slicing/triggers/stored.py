"""The trigger of served values: fire what is stored of windows, slices and steps of tails, instead of windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.trigger import CLOSING, FINAL, LATE, STORED, Engine, Firing, MicroBatchTime, Trigger


@dataclass(frozen=True)
class OnStored(Trigger):
    """Fires slices with new records, and steps of tails when they end, and again when late records change them.

    The first `levels` families are the slices and the steps of each tail. The other families are windows, which never
    fire: they decide which records are late, and what is stored.
    """

    levels: int = 1

    asks = frozenset({STORED, CLOSING, LATE})
    meaning = "in every micro-batch the slices that got a record, and the steps of tails that have ended"

    def wait(self, grace: int) -> int:
        """Return 0: steps fire at their end."""
        return 0

    def on_history(self, engine: Engine, at: MicroBatchTime) -> None:
        """Let the records of a loaded history count as new in the first micro-batch."""
        super().on_history(engine, at)
        engine.head.untold = True

    def on_records(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire slices with new records, and steps with such that have fired before."""
        yield "update", engine.stored(self.levels).results()
        engine.head.untold = False

    def on_close(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the steps that end."""
        yield FINAL, engine.ended(self.levels).results()

    def __repr__(self) -> str:
        return f"serve, {self.levels} levels"
