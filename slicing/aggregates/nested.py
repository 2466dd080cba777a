"""Values in nested tuples, as the laws compare them: arrays and plain numbers alike."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FLOAT = (float, np.floating)


def quietly(function: Any, arguments: tuple[Any, ...]) -> Any:
    """The result of a function, without numpy's warnings."""
    with np.errstate(all="ignore"):
        return function(*arguments)


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Nested tuples with a function of each leaf in its place."""
    return tuple(mapped(item, function) for item in value) if isinstance(value, tuple) else function(value)


def unshared(value: Any) -> Any:
    """A copy that shares nothing with `value`; much faster on tuples of arrays than `deepcopy` alone."""
    return mapped(value, lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else copy.deepcopy(leaf))


def leaves_of(value: Any) -> list[Any]:
    """The leaves of nested tuples, in order."""
    return [leaf for item in value for leaf in leaves_of(item)] if isinstance(value, tuple) else [value]


def plain_value(value: Any) -> Any:
    """A value with Python's own types instead of arrays of one item, None for what is masked."""
    return mapped(value, _plain_leaf)


def _plain_leaf(leaf: Any) -> Any:
    items = leaf.tolist() if isinstance(leaf, np.ndarray | np.generic) else leaf
    return items[0] if isinstance(leaf, np.ndarray) and leaf.ndim else items


def listed(value: Any) -> Any:
    """A result with tuples for the arrays that are its lists."""
    return mapped(value, lambda leaf: tuple(leaf.tolist()) if isinstance(leaf, np.ndarray) and leaf.ndim else leaf)


def plain_items(value: Any) -> tuple[Any, ...]:
    """A plain value as a tuple of its parts."""
    plain = plain_value(value)
    return plain if isinstance(plain, tuple) else (plain,)


def alike(x: Any, y: Any) -> bool:
    """Whether nested values are equal; NaN equals NaN."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(map(alike, x, y))
    both_nan = isinstance(x, FLOAT) and isinstance(y, FLOAT) and math.isnan(x) and math.isnan(y)
    return both_nan or bool(x == y)


def stack_of(many: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Trees of arrays of one item as one tree of arrays of this shape, whose rows are alike."""
    if isinstance(many[0], tuple):
        return tuple(stack_of(parts, shape) for parts in zip(*many, strict=True))
    joined = (np.ma.concatenate if isinstance(many[0], np.ma.MaskedArray) else np.concatenate)(many)
    return joined if len(shape) == 1 else joined[np.newaxis].repeat(shape[0], axis=0)
