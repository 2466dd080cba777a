"""Compares the end of the soak with its beginning: medians of the last and of the second ten minutes.

The trigger changes at half time, so the end is also compared with the second ten minutes after that.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

MEASURED = "seconds", "state bytes", "worker MiB", "checkpoint files"
OF_TRIGGER = ("worker MiB",)
"""The figures that another trigger may change: `on_change()` keeps slices in the memory of the workers."""
MOST = 1.1
TEN_MINUTES = 600
LEAST = 25 * 60
"""The seconds in which there are two times ten minutes to compare, besides the first ones."""


def ratios(lines: Sequence[dict[str, float]], since: float = 0.0) -> dict[str, float]:
    """Return, for each figure, the median of the last ten minutes divided by that of the second ten minutes.

    Only lines from the instant `since` on count: another trigger may need more than the one before. Raises ValueError
    if they are of less than 25 minutes.
    """
    lines = [each for each in lines if each["at"] >= since]
    if (took := _seconds(lines)) < LEAST:
        raise ValueError(
            f"a soak is compared with itself after {LEAST // 60} minutes; got {took / 60:.0f}. Run it longer."
        )
    begin, end = lines[0]["at"], lines[-1]["at"]
    first = [each for each in lines if TEN_MINUTES <= each["at"] - begin < 2 * TEN_MINUTES]
    last = [each for each in lines if end - each["at"] < TEN_MINUTES]
    return {
        name: statistics.median(each[name] for each in last) / statistics.median(each[name] for each in first)
        for name in MEASURED
    }


def compared(lines: Sequence[dict[str, float]], changed: float) -> tuple[list[str], list[str]]:
    """Return what to print, one line per figure, and the figures that grow by more than `MOST`.

    `changed` is the instant from which on the query had its last trigger. If it ran long enough with this, the figures
    may not grow in these minutes either, and those `OF_TRIGGER` are judged by these alone.
    """
    if _seconds(lines) < LEAST:
        return [], []
    of = {"last ten minutes / second ten": ratios(lines)}
    if _seconds([each for each in lines if each["at"] >= changed]) >= LEAST:
        of["since the change of the trigger"] = ratios(lines, changed)
    shown = [f"{name}: " + "; ".join(f"{what}: {of[what][name]:.2f}" for what in of) for name in MEASURED]
    *_, latest = of.values()
    judged = {
        name: latest[name] if name in OF_TRIGGER else max(each[name] for each in of.values()) for name in MEASURED
    }
    return shown, [f"{name}: {ratio:.2f} times as much at the end" for name, ratio in judged.items() if ratio > MOST]


def _seconds(lines: Sequence[dict[str, float]]) -> float:
    return lines[-1]["at"] - lines[0]["at"] if lines else 0.0


def read(path: Path) -> list[dict[str, float]]:
    """Return the figures of all micro-batches, repeated ones included; a line that a kill cut off is left out."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found
