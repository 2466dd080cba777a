"""Input of the benchmarks: seeded Parquet files in time order, written once per machine."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START = 1_700_000_000 * 10**6
SCHEMA = "key bigint, ts timestamp, v bigint, d double"


@dataclass(frozen=True)
class Workload:
    """`records` of `keys` over `seconds` of event time in `files` files, disordered by up to two seconds."""

    name: str
    records: int
    keys: int
    seconds: int
    files: int

    def path(self) -> Path:
        """The folder of the files, which are written at the first call."""
        root = Path(tempfile.gettempdir()) / "slicing-benchmarks" / repr(self)
        if not (root / "done").exists():
            self._write(root)
        return root / "data"

    def _write(self, root: Path) -> None:
        (root / "data").mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        count = self.records // self.files
        for file in range(self.files):
            low, high = (self.seconds * edge / self.files for edge in (file, file + 1))
            times = np.sort(rng.uniform(low, high, count)) * 1e6 - rng.uniform(0, 2e6, count) + START
            values = rng.integers(0, 1000, count)
            table = {
                "key": rng.integers(0, self.keys, count),
                "ts": pa.array(times.astype(np.int64), pa.timestamp("us", "UTC")),
                "v": values,
                "d": values.astype(np.float64),
            }
            pq.write_table(pa.table(table), root / "data" / f"part-{file:05d}.parquet")
        (root / "done").touch()


DAY = Workload("day", 10_000_000, 10_000, 86_400, 20)
DENSE = Workload("dense", 2_000_000, 1_000, 3_600, 10)
SMALL = Workload("small", 40_000, 1_000, 3_600, 40)
DAY_TENTH = Workload("day tenth", 1_000_000, 10_000, 8_640, 2)
