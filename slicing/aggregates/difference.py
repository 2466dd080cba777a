"""The place of the first difference of two values too long to be shown in a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slicing.aggregates.nested import alike
from slicing.errors import MOST_SHOWN, excerpt

_SHOWN = 16
"""The number of items that are shown of each value from the first difference on."""
_ITEMS = ((bytes, "byte"), (str, "character"), (tuple, "field"), (list, "item"))


def difference(left: Any, right: Any) -> str:
    """Return where two values differ, with what is there in each; "" if both are short enough to be shown.

    >>> difference((1, b"a" * 300 + b"left"), (1, b"a" * 300 + b"right"))
    "byte 300 of field 1: b'left' and b'right', of 304 and 305"
    """
    if max(len(repr(left)), len(repr(right))) <= MOST_SHOWN:
        return ""
    return _within(left, right, "")


def _within(left: Any, right: Any, place: str) -> str:
    known = (word for type_, word in _ITEMS if isinstance(left, type_) and isinstance(right, type_))
    if (word := next(known, None)) is None:
        return f"{place.removeprefix(' of ')}: {excerpt(left)} and {excerpt(right)}" if place else ""
    at = _first(left, right)
    inside = at < min(len(left), len(right)) and isinstance(left, tuple | list)
    if inside:
        return _within(left[at], right[at], f" of {word} {at:,}{place}")
    ends = (repr(side[at : at + _SHOWN]) for side in (left, right))
    return f"{word} {at:,}{place}: {' and '.join(ends)}, of {len(left):,} and {len(right):,}"


def _first(left: Sequence[Any], right: Sequence[Any]) -> int:
    """The index of the first item that differs; the length of the shorter one if it is how the longer one begins."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (x, y) in pairs if not alike(x, y)), min(len(left), len(right)))
