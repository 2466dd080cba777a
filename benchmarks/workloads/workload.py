"""Input of the benchmarks: seeded Parquet files in time order, written once per machine, a few per micro-batch."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(tempfile.gettempdir()) / "slicing-benchmarks"
START = 1_700_006_400 * 10**6  # a midnight, so that slices of a minute and of a day are aligned with the files
KEY_COLUMNS = {
    "long": {"key": "bigint"},
    "string": {"key": "string"},
    "composite": {"key": "bigint", "region": "string"},
}


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary folder next to the workloads, so that their files can be linked into it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir=FOLDER) as folder:
        yield Path(folder)


@dataclass(frozen=True)
class Workload:
    """`batches` micro-batches of `records` records of `keys` keys over `seconds` of event time each.

    Records are in time order, except for a disorder of `disorder` seconds; a share `late` of them is up to an hour old.
    A share `of_one` of them has the first key beside those that it has anyway.
    A micro-batch has `parts` files, so that as many cores can read it. `history` precedes it, in its own micro-batches.
    """

    name: str
    records: int
    keys: int
    seconds: float
    batches: int
    disorder: float = 2.0
    late: float = 0.0
    of_one: float = 0.0
    key: str = "long"
    parts: int = 2
    history: Workload | None = None

    @property
    def schema(self) -> str:
        """The schema as DDL for Spark."""
        columns = KEY_COLUMNS[self.key] | {"ts": "timestamp", "v": "bigint", "d": "double"}
        return ", ".join(f"{name} {kind}" for name, kind in columns.items())

    @property
    def before(self) -> int:
        """The number of micro-batches of the history."""
        return self.history.batches if self.history else 0

    @property
    def total(self) -> int:
        """The number of records of all micro-batches, without the history."""
        return self.records * self.batches

    def cut(self, share: float) -> Workload:
        """Return the workload with a share of the records and of the keys, so the records per key are the same."""
        part = replace(self, name=f"{share:g} of {self.name}", records=self._share(self.records, share))
        history = self.history and self.history.cut(share)
        return replace(part, keys=self._share(self.keys, share), history=history)

    @staticmethod
    def _share(count: int, share: float) -> int:
        return max(1, round(count * share))

    def files(self) -> list[Path]:
        """Return the files in order, those of the history first."""
        return sorted(self.path().glob("*.parquet"))

    def path(self) -> Path:
        """Return the folder of the files; the first call writes them."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:12]
        root = FOLDER / f"{self.name} {digest}"
        if not root.exists():
            FOLDER.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(dir=FOLDER))
            self._write(scratch)
            try:
                scratch.rename(root)
            except OSError:  # another process has created it first
                shutil.rmtree(scratch)
        return root

    def _write(self, folder: Path) -> None:
        random = np.random.default_rng(0)
        start, batch = START, 0
        for part in [self.history, self] if self.history else [self]:
            for number in range(part.batches):
                low, high = (start + round(1e6 * part.seconds * edge) for edge in (number, number + 1))
                table = part._table(random, low, high)
                for file in range(self.parts):
                    path = folder / f"part-{batch:05d}-{file}.parquet"
                    pq.write_table(table.take(np.arange(file, len(table), self.parts)), path)
                    # Spark's file source orders files by these times; all files of a micro-batch have the same time.
                    os.utime(path, (1_000_000_000 + batch, 1_000_000_000 + batch))
                batch += 1
            start += round(part.seconds * part.batches * 10**6)

    def _table(self, random: np.random.Generator, low: int, high: int) -> pa.Table:
        count = self.records
        times = np.sort(random.uniform(low, high, count))
        times -= random.uniform(0, self.disorder * 1e6, count)
        late = random.random(count) < self.late
        times[late] -= random.uniform(0, 3600e6, int(late.sum()))
        codes = random.integers(0, self.keys, count)
        if self.of_one:
            codes[random.random(count) < self.of_one] = 0
        values = random.integers(0, 1000, count)
        columns = _key_columns(self.key, codes) | {
            "ts": pa.array(times.astype(np.int64), pa.timestamp("us", "UTC")),
            "v": pa.array(values),
            "d": pa.array(random.uniform(0, 1000, count)),
        }
        return pa.table(columns)


def _key_columns(kind: str, codes: np.ndarray) -> dict[str, pa.Array]:
    if kind == "string":
        return {"key": _texts("user-", codes)}
    if kind == "composite":
        return {"key": pa.array(codes), "region": _texts("region-", codes % 20)}
    return {"key": pa.array(codes)}


def _texts(prefix: str, codes: np.ndarray) -> pa.Array:
    distinct, positions = np.unique(codes, return_inverse=True)
    return pa.array([f"{prefix}{code:07d}" for code in distinct]).take(pa.array(positions))
