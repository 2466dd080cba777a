"""Records of the soak: one file per micro-batch, which depends only on its number and the seed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START = 1_700_006_400 * 10**6
"""The start of event time, a midnight, in microseconds."""
STEP = 60 * 10**6
"""The event time of a file in microseconds, equal to the advance of all windows."""
SCHEMA = "key bigint, ts timestamp, v bigint"


@dataclass(frozen=True)
class Feed:
    """Files of `records` records of `keys` keys; key 0 has a tenth of the records.

    Records are out of order within their file, and up to `disorder` microseconds older than the file begins. A share
    `late` of them is up to an hour old.
    """

    records: int = 4000
    keys: int = 20_000
    disorder: int = 20 * 10**6
    late: float = 0.01
    seed: int = 0

    def table(self, number: int) -> pa.Table:
        """Return the records of a file."""
        random = np.random.default_rng((self.seed, number))
        keys = np.where(random.random(self.records) < 0.1, 0, random.integers(0, self.keys, self.records))
        times = START + number * STEP + random.integers(-self.disorder, STEP, self.records)
        old = random.random(self.records) < self.late
        times[old] -= random.integers(0, 60 * STEP, int(old.sum()))
        values = random.integers(-1000, 1000, self.records)
        columns = {"key": keys, "ts": pa.array(times, pa.timestamp("us", "UTC")), "v": values}
        return pa.table(columns)

    def write(self, folder: Path, number: int) -> None:
        """Make a file visible at once, after the files before it; it may exist already."""
        target, made = folder / f"{number:06d}.parquet", folder / f".{number:06d}"
        pq.write_table(self.table(number), made)
        os.utime(made, (1_000_000_000 + number,) * 2)  # Spark's file source orders files by modification time
        made.rename(target)
