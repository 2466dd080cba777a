"""Windows that are added to wide rows of an existing checkpoint: their columns are null until they are complete.

Rows continue at the ends of the existing windows. The columns of added windows that lack records are null::

    ends              | 10 | 11 | 12 | 13 | 14 |
    of 5 minutes        5    5    5    5    5
    of 20 minutes       -    -    -    20   20        the first complete one ends at 13
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from slicing.assembly.results import Windows
from slicing.errors import StateMismatch
from slicing.state.format.changes import WHEN_WHOLE
from slicing.state.format.header import FamilyState
from slicing.windows.families.family import Family
from slicing.windows.time.slices import FOREVER

FirstOpen: TypeAlias = Callable[[Family], int]

NOT_KEPT = "wide rows of results that do not combine are kept by window, and windows that are added were not kept"
"""The reason why wide rows with eager aggregates cannot contain windows that lack records."""


def check_lacking(states: Sequence[FamilyState], why: str) -> None:
    """Raise StateMismatch if wide rows have windows that lack records and `why` gives a reason against them."""
    if why and any(state.lacks for state in states):
        raise StateMismatch(
            f"Windows of wide rows were added that do not hold all their records yet, and {why}. {WHEN_WHOLE}"
        )


def step_together(states: Sequence[FamilyState], families: Sequence[Family], first_open: FirstOpen) -> None:
    """Let added families fire together with the others, also windows that do not hold all their records yet.

    They continue at the first end that the other families have not fired yet, by grace and trigger. If all families
    were added, rows begin at the first open end. `first_open` returns the first open window of a family.
    """
    ends = _ends(families, [state.next_to_fire for state in states])
    there = [end for state, end in zip(states, ends, strict=True) if not state.added]
    least = min(there or [*ends, *_ends(families, map(first_open, families))])
    for state, own, end in zip(states, families, ends, strict=True):
        if end > least:
            state.next_to_fire = int(own.first_open(least - 1))
        elif end < least:
            state.skip_until(int(own.first_open(least - 1)))
        state.added = False


def _ends(families: Sequence[Family], windows: Iterable[int]) -> list[int]:
    return [int(own.window_end(window)) for own, window in zip(families, windows, strict=True)]


def step_separately(states: Sequence[FamilyState]) -> None:
    """Let families that were in wide rows fire in rows of their own, from their first complete window on."""
    for state in states:
        if state.lacks:
            state.added = True
            state.skip_until(state.retained_from)


def note_lacking(states: Sequence[FamilyState]) -> None:
    """Store which windows lack records by the field that older code reads."""
    for state in states:
        state.whole = state.retained_from if state.lacks else None


def told(frames: Iterator[Windows], states: Sequence[FamilyState]) -> Iterator[Windows]:
    """Yield frames that tell which of their windows, and of their aligned windows, hold all their records.

    `states` are those of the families of a frame. Rows in which no window with records holds all of them are left out;
    empty rows stay.
    """
    if not any(state.lacks for state in states):
        yield from frames
        return
    firsts = [state.retained_from if state.lacks else -FOREVER for state in states]
    for frame in frames:
        sides = list(zip((frame, *frame.aligned), firsts, strict=True))
        own, *aligned = (replace(side, is_complete=np.asarray(side.windows >= first)) for side, first in sides)
        held = np.array([side.records > 0 for side, _ in sides])
        known = held & [each.is_complete for each in (own, *aligned)]
        rows = np.flatnonzero(~held.any(axis=0) | known.any(axis=0))
        if len(rows):
            yield replace(own, aligned=tuple(aligned)).take(rows)
