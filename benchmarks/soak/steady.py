"""Whether the end of the soak is like its beginning: medians of its last ten minutes by those of its second ten."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

MEASURED = "seconds", "state bytes", "worker MiB", "checkpoint files"
MOST = 1.1
TEN_MINUTES = 600


def ratios(lines: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of each figure the median of the last ten minutes by that of the second ten.

    Raises ValueError for a run of less than 30 minutes, or one without micro-batches in them.
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
    """The figures of all micro-batches, those that ran again included; a line that a kill cut is left out."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found
