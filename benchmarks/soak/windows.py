"""The five window lengths of the soak by name, as windows for the query and as minutes for the truth."""

from __future__ import annotations

from benchmarks.soak.feed import STEP
from slicing import Window, hopping

LENGTHS = {"short": (5, 0), "quarter": (15, 0), "half": (30, 5), "hour": (60, 15), "two_hours": (120, 30)}
"""Size and tail in minutes; 0 means no tail."""
DELAY, GRACE = STEP, 5 * STEP


def windows() -> dict[str, Window]:
    """Return the windows by name."""
    return {name: _window(*minutes) for name, minutes in LENGTHS.items()}


def _window(size: int, tail: int) -> Window:
    options = {"tail": f"{tail} minutes"} if tail else {}
    return hopping(f"{size} minutes", advance="1 minute", **options)
