"""Compares the end of the soak with its beginning: medians of the last and of the second ten minutes."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

MEASURED = "seconds", "state bytes", "worker MiB", "checkpoint files"
MOST = 1.1
TEN_MINUTES = 600


def ratios(lines: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return, for each figure, the median of the last ten minutes divided by that of the second ten minutes.

    Raises ValueError if the run is shorter than 30 minutes, or has no micro-batches in these minutes.
    """
    begin, end = lines[0]["at"], lines[-1]["at"]
    if end - begin < 3 * TEN_MINUTES:
        raise ValueError(
            f"a soak is compared with itself after 30 minutes; got {(end - begin) / 60:.0f}. Run it longer."
        )
    first = [each for each in lines if TEN_MINUTES <= each["at"] - begin < 2 * TEN_MINUTES]
    last = [each for each in lines if end - each["at"] < TEN_MINUTES]
    return {
        name: statistics.median(each[name] for each in last) / statistics.median(each[name] for each in first)
        for name in MEASURED
    }


def read(path: Path) -> list[dict[str, float]]:
    """Return the figures of all micro-batches, repeated ones included; a line that a kill cut off is left out."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found
