"""Input of the benchmarks: seeded Parquet files in time order, written once per machine."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(tempfile.gettempdir()) / "slicing-benchmarks"
START = 1_700_000_000 * 10**6
SCHEMA = "key bigint, ts timestamp, v bigint, d double"


@dataclass(frozen=True)
class Workload:
    """`records` of `keys` over `seconds` of event time in `files` files, disordered by up to two seconds.

    `history` is a workload that comes before, in files of its own, and so in micro-batches of its own.
    """

    name: str
    records: int
    keys: int
    seconds: int
    files: int
    history: Workload | None = None

    def path(self) -> Path:
        """The folder of the files, which are written at the first call."""
        root = FOLDER / repr(self)
        if not (root / "done").exists():
            self._write(root)
        return root / "data"

    def _write(self, root: Path) -> None:
        (root / "data").mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        parts = [self.history, self] if self.history else [self]
        start, file = START, 0
        for part in parts:
            for number in range(part.files):
                edges = (start + 1e6 * part.seconds * edge / part.files for edge in (number, number + 1))
                pq.write_table(part._table(rng, *edges), root / "data" / f"part-{file:05d}.parquet")
                file += 1
            start += part.seconds * 10**6
        (root / "done").touch()

    def _table(self, rng: np.random.Generator, low: float, high: float) -> pa.Table:
        count = self.records // self.files
        times = np.sort(rng.uniform(low, high, count)) - rng.uniform(0, 2e6, count)
        values = rng.integers(0, 1000, count)
        columns = {
            "key": rng.integers(0, self.keys, count),
            "ts": pa.array(times.astype(np.int64), pa.timestamp("us", "UTC")),
            "v": values,
            "d": values.astype(np.float64),
        }
        return pa.table(columns)


DAY = Workload("day", 10_000_000, 10_000, 86_400, 20)
DENSE = Workload("dense", 2_000_000, 1_000, 3_600, 10)
SMALL = Workload("dense by 1,000", 60_000, 1_000, 108, 60, history=Workload("dense", 1_000_000, 1_000, 3_600, 2))
DAY_TENTH = Workload("day tenth", 1_000_000, 10_000, 8_640, 2)
