"""The features of a card: its payments of the last ten minutes up to the last seven days.

The stream, training and serving share this definition. It needs no Spark.
"""

from collections.abc import Mapping
from typing import Any

import combinators as C
from slicing import group_by, hopping

ADVANCE, TAIL = "1 minute", "1 hour"
WINDOWS = {
    "10m": hopping("10 minutes", ADVANCE),
    "1h": hopping("1 hour", ADVANCE),
    "6h": hopping("6 hours", ADVANCE),
    "1d": hopping("1 day", ADVANCE, tail=TAIL),
    "7d": hopping("7 days", ADVANCE, tail=TAIL),
}

card = (
    group_by("card")
    .window(**WINDOWS, time="ts", long=True)
    .define(
        payments=C.count(),
        spent=C.sum("amount"),
        mean=C.mean("amount"),
        largest=C.max("amount"),
    )
)
"""Results of five windows. Amounts are decimals, so that sums do not depend on the order of payments."""

RESULTS = [name for name, _ in card.results]


def vector(values: Mapping[str, Mapping[str, Any] | None]) -> list[float] | None:
    """Return the input of the model: the results by window, 0 without payments; None if a window is unknown."""
    if any(values[window] is None for window in WINDOWS):
        return None
    return [float(values[window][name] or 0) for window in WINDOWS for name in RESULTS]
