"""Windows that join wide rows on a live checkpoint: null until they hold all their records.

The rows go on as the windows end that are there; the columns of those that are not whole yet are null::

    ends              | 10 | 11 | 12 | 13 | 14 |
    of 5 minutes        5    5    5    5    5
    of 20 minutes       -    -    -    20   20        the first whole one ends at 13
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from slicing.assembly.results import Windows
from slicing.errors import StateMismatch
from slicing.state.format.header import Walk
from slicing.windows.families.family import Family

NOT_KEPT = "wide rows of results that do not combine are kept by window, and windows that are added were not kept"
"""Why such rows cannot go on while windows lack records."""


def check_lacking(walks: Sequence[Walk], why: str) -> None:
    """Refuse wide rows of windows that lack records where `why` says that these cannot be. Raises StateMismatch."""
    if why and any(walk.added or walk.whole is not None for walk in walks):
        raise StateMismatch(
            f"Windows of wide rows were added that do not hold all their records yet, and {why}. "
            "Go on with on_close() and the results as they were until the columns of all windows have values."
        )


def step_together(walks: Sequence[Walk], families: Sequence[Family]) -> None:
    """Let families that were added fire with the others, and note from which window on they are whole."""
    ends = [int(own.window_end(walk.done)) for walk, own in zip(walks, families, strict=True)]
    there = [end for walk, end in zip(walks, ends, strict=True) if not walk.added]
    least = min(there or ends)
    for walk, own, end in zip(walks, families, ends, strict=True):
        if walk.added and end > least:
            walk.whole, walk.done = walk.done, int(own.first_open(least - 1))
        walk.added = False


def step_apart(walks: Sequence[Walk]) -> None:
    """Let families that were in wide rows fire from their first whole window on, in rows of their own."""
    for walk in walks:
        if walk.whole is not None:
            walk.added = walk.whole > walk.done
            walk.done = walk.taking = walk.kept = max(walk.done, walk.whole)
            walk.whole = None


def forget_whole(walks: Sequence[Walk]) -> None:
    """Note no longer which windows lack records, once all of them have fired."""
    for walk in walks:
        if walk.whole is not None and walk.done >= walk.whole:
            walk.whole = None


def hidden(frame: Windows, marks: Walk, beside: Sequence[Walk]) -> Windows:
    """Return a frame that says of its windows, and of the aligned ones, which hold all their records."""
    if marks.whole is None and all(each.whole is None for each in beside):
        return frame
    return replace(
        _known(frame, marks),
        aligned=tuple(_known(side, walk) for side, walk in zip(frame.aligned, beside, strict=True)),
    )


def _known(frame: Windows, marks: Walk) -> Windows:
    return frame if marks.whole is None else replace(frame, is_complete=np.asarray(frame.windows >= marks.whole))


def of_something(frames: Iterator[Windows]) -> Iterator[Windows]:
    """Yield the frames without rows of which nothing is known; those that say that nothing is there stay."""
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
