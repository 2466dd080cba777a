"""`on_time=`: fire when the watermark reaches the end of a window, which closes later if there is a `grace`.

::

    window [12:00, 12:05), grace 10 minutes, early(records=2, on_time=True, late=True)

    watermark    12:03    12:06      12:08    12:15
    records      2                   1
    fires        early    on_time    late     final
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slicing.aggregates.arrays import Array
from slicing.triggers.candidates import Candidates, Memory, OpenPairs
from slicing.triggers.condition import Condition
from slicing.triggers.trigger import AFTER_END, EARLY, ON_TIME, WATERMARK, MicroBatchTime


@dataclass(frozen=True)
class ByEnd(Condition):
    """True at the end of a window, and with `late` in each later micro-batch that brings a record for it, or makes it.

    Firings are of the kinds of Beam's panes then, whichever condition is true: before, at and after the end.
    """

    late: bool = False

    remembers = False
    by_record = True
    without_news = True
    asks = frozenset({WATERMARK})

    @property
    def meaning(self) -> str:
        """Return the condition in a few words."""
        return "the watermark reaches their end" + (", or a record has come after that" if self.late else "")

    def wakes(self, pairs: OpenPairs, at: MicroBatchTime) -> bool:
        """Whether a window may end in this micro-batch."""
        return at.watermark > at.last_watermark and pairs.may_end(at.last_watermark, at.watermark)

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """Return the pairs that end now, and with `late` those that a new record changes or makes after: `bool[n]`."""
        kinds = self.kinds(pairs, at)
        late: Array = kinds[AFTER_END] & ((pairs.held > pairs.before) | pairs.is_new) & self.late
        return kinds[ON_TIME] | late

    def kinds(self, pairs: Candidates, at: MicroBatchTime) -> Mapping[str, Array]:
        """Return which pairs are of each kind if they fire: `bool[n]`."""
        extents = pairs.extents()
        ends = extents.end + extents.after
        ended, had_ended = ends <= at.watermark, ends <= at.last_watermark
        return {EARLY: ~ended, ON_TIME: ended & ~had_ended, AFTER_END: had_ended}

    def __repr__(self) -> str:
        return "on_time=True" + (", late=True" if self.late else "")
