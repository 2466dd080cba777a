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

    Rows go on at the first end that the other families have not fired yet, which grace and trigger have decided. If all
    families were added, rows begin at the first open end. `first_open` returns the first open window of a family.
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


def hidden(frame: Windows, state: FamilyState, aligned: Sequence[FamilyState]) -> Windows:
    """Return a frame that tells which of its windows, and of their aligned windows, hold all their records."""
    if not any(each.lacks for each in (state, *aligned)):
        return frame
    return replace(
        _known(frame, state),
        aligned=tuple(_known(side, state) for side, state in zip(frame.aligned, aligned, strict=True)),
    )


def _known(frame: Windows, state: FamilyState) -> Windows:
    return replace(frame, is_complete=np.asarray(frame.windows >= state.retained_from)) if state.lacks else frame


def of_something(frames: Iterator[Windows]) -> Iterator[Windows]:
    """Yield the frames without the rows in which every window with records is incomplete; empty rows stay."""
    for frame in frames:
        sides = (frame, *frame.aligned)
        if all(side.is_complete is None for side in sides):
            yield frame
            continue
        held = np.logical_or.reduce([side.records > 0 for side in sides])
        known = [
            side.records > 0 if side.is_complete is None else (side.records > 0) & side.is_complete for side in sides
        ]
        rows = np.flatnonzero(~held | np.logical_or.reduce(known))
        if len(rows):
            yield frame.take(rows)
