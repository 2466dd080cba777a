"""Which ends of a window or frame belong to it, in the words of pandas and Polars."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

from slicing.errors import InvalidValue, excerpt

Closed: TypeAlias = Literal["left", "right", "both", "none"]
"""Which ends of a frame belong to it: "left" is [a, b), "right" (a, b], "both" [a, b], "none" (a, b)."""


def checked(closed: Any) -> Closed:
    """Return `closed`. Raises InvalidValue for other words."""
    if closed not in get_args(Closed):
        raise InvalidValue(f"`closed` is one of {', '.join(get_args(Closed))}; got {excerpt(closed)}.")
    known: Closed = closed
    return known


def of_windows(closed: Any) -> bool:
    """Return whether windows that follow one another hold their ends, (a, b], instead of their starts, [a, b).

    Raises InvalidValue for other words: an instant at which one window ends and the next one starts is in one of them.
    """
    if checked(closed) in ("both", "none"):
        raise InvalidValue(
            f'`closed` of windows that follow one another is "left", [start, end), or "right", (start, end]; got '
            f"{closed!r}. Before each record any ends are possible: `sliding(..., right=False)` and `features_at`. On "
            "bounded input, `hopping` with a `size` that is one microsecond longer has both ends."
        )
    return bool(closed == "right")


def without_start(closed: Closed) -> int:
    """Return 1 if the start does not belong to the frame, else 0."""
    return int(closed in ("right", "none"))


def without_end(closed: Closed) -> int:
    """Return 1 if the end does not belong to the frame, else 0."""
    return int(closed in ("left", "none"))
