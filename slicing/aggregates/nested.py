"""Values in nested tuples, for comparison by the laws: arrays and plain numbers alike."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FLOAT = (float, np.floating)


def quietly(function: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the result of a function call without numpy's warnings."""
    with np.errstate(all="ignore"):
        return function(*arguments)


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return nested tuples with `function` applied to each leaf."""
    return tuple(mapped(item, function) for item in value) if isinstance(value, tuple) else function(value)


def unshared(value: Any) -> Any:
    """Return a copy that shares nothing with `value`; much faster on tuples of arrays than `deepcopy` alone."""
    return mapped(value, lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else copy.deepcopy(leaf))


def leaves_of(value: Any) -> list[Any]:
    """Return the leaves of nested tuples, in order."""
    return [leaf for item in value for leaf in leaves_of(item)] if isinstance(value, tuple) else [value]


def plain_value(value: Any) -> Any:
    """Return a value with Python's own types instead of arrays of one item, and None for masked items."""
    return mapped(value, _plain_leaf)


def _plain_leaf(leaf: Any) -> Any:
    items = leaf.tolist() if isinstance(leaf, np.ndarray | np.generic) else leaf
    return items[0] if isinstance(leaf, np.ndarray) and leaf.ndim else items


def listed(value: Any) -> Any:
    """Return a result with a tuple for each array that represents a list."""
    return mapped(value, lambda leaf: tuple(leaf.tolist()) if isinstance(leaf, np.ndarray) and leaf.ndim else leaf)


def plain_items(value: Any) -> tuple[Any, ...]:
    """Return a plain value as a tuple of its parts."""
    plain = plain_value(value)
    return plain if isinstance(plain, tuple) else (plain,)


def alike(x: Any, y: Any) -> bool:
    """Return whether nested values are equal; NaN equals NaN."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(map(alike, x, y))
    both_nan = isinstance(x, FLOAT) and isinstance(y, FLOAT) and math.isnan(x) and math.isnan(y)
    return both_nan or bool(x == y)


def stack_of(many: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return many trees of one-item arrays as one tree of arrays of this shape; all rows are equal."""
    if isinstance(many[0], tuple):
        return tuple(stack_of(parts, shape) for parts in zip(*many, strict=True))
    joined = (np.ma.concatenate if isinstance(many[0], np.ma.MaskedArray) else np.concatenate)(many)
    return joined if len(shape) == 1 else joined[np.newaxis].repeat(shape[0], axis=0)
