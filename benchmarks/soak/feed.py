"""Records of the soak: a file for each micro-batch, which depends on its number and the seed only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START = 1_700_006_400 * 10**6
"""A midnight, at which event time begins; microseconds."""
STEP = 60 * 10**6
"""The event time of a file in microseconds: the advance of all windows."""
SCHEMA = "key bigint, ts timestamp, v bigint"


@dataclass(frozen=True)
class Feed:
    """Files of `records` records of `keys` keys, of which key 0 has a tenth.

    Records are in disorder within their file and reach `disorder` microseconds into the one before. A share `late` of
    them is up to an hour old.
    """

    records: int = 4000
    keys: int = 20_000
    disorder: int = 20 * 10**6
    late: float = 0.01
    seed: int = 0

    def table(self, number: int) -> pa.Table:
        """The records of a file."""
        random = np.random.default_rng((self.seed, number))
        keys = np.where(random.random(self.records) < 0.1, 0, random.integers(0, self.keys, self.records))
        times = START + number * STEP + random.integers(-self.disorder, STEP, self.records)
        old = random.random(self.records) < self.late
        times[old] -= random.integers(0, 60 * STEP, int(old.sum()))
        values = random.integers(-1000, 1000, self.records)
        columns = {"key": keys, "ts": pa.array(times, pa.timestamp("us", "UTC")), "v": values}
        return pa.table(columns)

    def write(self, folder: Path, number: int) -> None:
        """Let a file arrive at once, after those before it; it may be there already."""
        target, made = folder / f"{number:06d}.parquet", folder / f".{number:06d}"
        pq.write_table(self.table(number), made)
        os.utime(made, (1_000_000_000 + number,) * 2)  # Spark's file source goes by these times
        made.rename(target)
