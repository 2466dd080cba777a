"""`when=`: a record has come of which a condition is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slicing.aggregates.arrays import Array
from slicing.aggregates.migration_hints import written
from slicing.content.signals import ABSENT, WHEN
from slicing.triggers.candidates import Candidates, Memory
from slicing.triggers.condition import Condition
from slicing.triggers.trigger import ENDS, MicroBatchTime


@dataclass(frozen=True)
class BySignal(Condition):
    """In the micro-batch of such a record: `column` is true of it, which is named or computed; null is false.

    If it `ends` sessions, such a record is the last one of its session: those after it, by event time, are in another.
    """

    column: Any
    ends: bool = False

    remembers = False
    signal = WHEN

    @property
    def asks(self) -> frozenset[str]:
        """Windows that records end."""
        return frozenset({ENDS} if self.ends else ())

    @property
    def meaning(self) -> str:
        """When it is true, in a few words."""
        return f"a record has come for which {self._text} is true" + (", which ends its session" if self.ends else "")

    @property
    def _text(self) -> str:
        return f"`{self.column}`" if isinstance(self.column, str) else str(written(self.column))

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """The pairs that hold such a new record."""
        due: Array = pairs.signals[WHEN] != ABSENT
        return due

    def __repr__(self) -> str:
        return f"when={written(self.column)}" + (", ends=True" if self.ends else "")
