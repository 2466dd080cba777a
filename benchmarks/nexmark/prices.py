"""Prices in cents, from a dollar to a million, uniform in their logarithm."""

import numpy as np


def prices(random: np.random.Generator, count: int) -> np.ndarray:
    """Return random prices."""
    return np.floor(10.0 ** (random.random(count) * 6.0) * 100.0 + 0.5).astype(np.int64)
