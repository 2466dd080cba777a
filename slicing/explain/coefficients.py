"""The measured seconds and bytes by which a prediction multiplies its counts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.errors import InvalidValue

COUNTED = ("trigger", "bucket", "record", "partial", "node", "emitted")
"""The coefficients in seconds that are fitted to a stream's micro-batches, in the order of the fit."""


@dataclass(frozen=True)
class Coefficients:
    """The measured costs of one machine. Seconds are of one core.

    In seconds: `trigger` per micro-batch, even without records; `bucket` per bucket in which windows close; `record`
    per record; `partial` per partial that is shuffled or enters the state; `node` per node of a tree that is read or
    written; `emitted` per emitted row; `spilled` per partial that enters a bucket whose rows do not fit into memory, in
    addition. `stored` is the number of stored bytes per byte of partials before compression, `files` the bytes of a
    bucket that each micro-batch adds to the checkpoint, `worker` the bytes of a Python worker without records.
    `machine` says where the numbers are from.
    """

    trigger: float
    bucket: float
    record: float
    partial: float
    node: float
    emitted: float
    spilled: float
    stored: float
    files: float
    worker: float
    machine: str

    def save(self, path: Path) -> None:
        """Write the coefficients as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Coefficients:
        """Return the coefficients that `save` has written. Raises InvalidValue for a file of other content."""
        try:
            found = json.loads(path.read_text())
            return cls(**{each.name: found[each.name] for each in fields(cls)})
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidValue(
                f"`{path}` must hold the coefficients of this machine; it cannot be read: {type(error).__name__}. "
                "Measure again with `python -m slicing.calibrate`, or remove it."
            ) from None

    def fitted(self, counts: Sequence[Mapping[str, float]], seconds: Sequence[float]) -> Coefficients:
        """Return the coefficients with those of `COUNTED` fitted to micro-batches by relative error; none is negative.

        `counts` has, per micro-batch, the multiplier of each coefficient on one core; `seconds` has the measured
        duration. Raises InvalidValue for fewer micro-batches than coefficients.
        """
        if len(counts) < len(COUNTED):
            raise InvalidValue(f"{len(COUNTED)} coefficients need as many micro-batches; got {len(counts)}.")
        table = np.array([[each[name] for name in COUNTED] for each in counts]) / np.array(seconds)[:, None]
        found: dict[str, Any] = dict(zip(COUNTED, map(float, _not_negative(table)), strict=True))
        return replace(self, **found)


def _not_negative(table: Array) -> Array:
    """The non-negative least-squares solution of `table @ x = 1`, the best one over all subsets of columns."""
    count = table.shape[1]
    best, least = np.zeros(count), np.inf
    for chosen in range(1, 1 << count):
        columns = [i for i in range(count) if chosen >> i & 1]
        found = np.zeros(count)
        found[columns] = np.linalg.lstsq(table[:, columns], np.ones(len(table)), rcond=None)[0]
        rest = float(((table @ found - 1) ** 2).sum())
        if (found >= 0).all() and rest < least:
            best, least = found, rest
    return best


def place() -> Path:
    """Return the path of this machine's coefficients."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slicing" / "coefficients.json"


def known() -> Coefficients:
    """Return the coefficients of this machine if it was calibrated, else the shipped ones."""
    path = place()
    return Coefficients.load(path) if path.exists() else SHIPPED


SHIPPED = Coefficients(
    trigger=0.156,
    bucket=0.1,
    record=5.8e-07,
    partial=8e-07,
    node=2.5e-06,
    emitted=5e-07,
    spilled=8e-07,
    stored=0.06,
    files=9750.0,
    worker=150 * 2**20,
    machine="shipped, of 2 cores",
)
"""Fitted to eight workloads of docs/performance.md; the predictions are within an eighth of the measured seconds."""
