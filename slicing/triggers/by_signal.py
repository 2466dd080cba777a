"""`when=`: fire when a record has arrived for which a condition is true."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.aggregates.arrays import Array
from slicing.column_names import written
from slicing.content.signals import ABSENT, WHEN
from slicing.triggers.candidates import Candidates, Memory
from slicing.triggers.condition import OfColumn
from slicing.triggers.trigger import ENDS, MicroBatchTime


@dataclass(frozen=True)
class BySignal(OfColumn):
    """True in the micro-batch of a record for which `column` (a name or an expression) is true; null is false.

    With `ends`, such a record ends its session: records after it, by event time, are in another session.
    """

    ends: bool = False

    remembers = False
    by_record = True
    name = "when"
    signals = (WHEN,)

    @property
    def asks(self) -> frozenset[str]:  # type: ignore[override]
        """Ask for windows that records end, if `ends`."""
        return frozenset({ENDS} if self.ends else ())

    @property
    def meaning(self) -> str:
        """Return the condition in a few words."""
        return f"a record has come for which {self.text} is true" + (", which ends its session" if self.ends else "")

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """Return the pairs with such a new record: `bool[n]`."""
        due: Array = pairs.signals[WHEN] != ABSENT
        return due

    def __repr__(self) -> str:
        return f"when={written(self.column)}" + (", ends=True" if self.ends else "")
