"""Windows that end with each record, by Polars' `rolling` on bounded input; the times of a key must be distinct."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import polars as pl
from pyspark.sql import DataFrame

from benchmarks.baselines.polars import engines
from benchmarks.running.bounded import fastest
from benchmarks.running.run import Run
from benchmarks.workloads.workload import Workload
from slicing.windows.time.durations import microseconds


@dataclass(frozen=True)
class PolarsRolling:
    """The left sliding windows of a bounded DataFrame of Parquet files."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return the rows of Polars as a Spark DataFrame."""
        paths = [Path(unquote(urlsplit(name).path)) for name in sorted(frame.inputFiles())]
        return frame.sparkSession.createDataFrame(query(paths, size).collect().to_arrow())


def query(paths: Sequence[Path], size: str) -> pl.LazyFrame:
    """Return keys, windows, records and totals; both edges count, so a window ends 1 us after its record."""
    length = microseconds(size, "size")
    records = pl.scan_parquet(paths).sort("key", "ts")
    rolled = records.rolling("ts", period=f"{length}us", group_by="key", closed="both").agg(
        pl.len().cast(pl.Int64).alias("records"), pl.col("v").sum().alias("total")
    )
    start, end = (pl.col("ts") + pl.duration(microseconds=edge) for edge in (-length, 1))
    return rolled.select("key", pl.struct(start=start, end=end).alias("window"), "records", "total")


@cache
def run(workload: Workload, size: str) -> Run:
    """Return the seconds to collect all windows of a workload, by the faster engine of Polars."""
    return fastest(engines(query(workload.files(), size)), workload.total)
