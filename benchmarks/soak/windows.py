"""The five lengths of the soak, by name: as the query has them, and as the truth needs them, in microseconds."""

from __future__ import annotations

from benchmarks.soak.feed import STEP
from slicing import Window, hopping

LENGTHS = {"short": (5, 0), "quarter": (15, 0), "half": (30, 5), "hour": (60, 15), "two_hours": (120, 30)}
"""Minutes of size and tail; 0 for no tail."""
DELAY, GRACE = STEP, 5 * STEP


def windows() -> dict[str, Window]:
    """The windows by name."""
    return {name: _window(*minutes) for name, minutes in LENGTHS.items()}


def _window(size: int, tail: int) -> Window:
    options = {"tail": f"{tail} minutes"} if tail else {}
    return hopping(f"{size} minutes", advance="1 minute", **options)
