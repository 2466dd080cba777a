"""Polars on bounded input with other results than sums, named as in `ours.MORE`.

Moments are computed from slices by rolling sums, as in `polars`. Results without sums use Polars' own windows.
"""

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

V = pl.col("v")
PERCENTAGES = (0.5, 0.95, 0.99)
RESULTS = {
    "distinct": V.approx_n_unique().cast(pl.Int64),
    "percentiles": pl.concat_list(V.quantile(share, "lower") for share in PERCENTAGES),
    "ranks": pl.concat_list(V.quantile(share, "lower") for share in PERCENTAGES),
    # Spark has no unsigned counts.
    "top": V.value_counts(sort=True).head(10).cast(pl.Struct({"v": pl.Int64, "count": pl.Int64})),
}


@dataclass(frozen=True)
class PolarsResults:
    """The windows of a bounded DataFrame of Parquet files, with the results named `name`."""

    name: str

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return the rows of Polars as a Spark DataFrame."""
        paths = [Path(unquote(urlsplit(name).path)) for name in sorted(frame.inputFiles())]
        return frame.sparkSession.createDataFrame(query(self.name, paths, size, advance).collect().to_arrow())


def query(name: str, paths: Sequence[Path], size: str, advance: str) -> pl.LazyFrame:
    """Return keys, windows and the results of a name."""
    length, step = microseconds(size, "size"), microseconds(advance, "advance")
    made = _moments(paths, length // step, step) if name == "five" else _windows(RESULTS[name], paths, length, step)
    start, end = (pl.col("start") + pl.duration(microseconds=edge) for edge in (0, length))
    return made.select("key", pl.struct(start=start, end=end).alias("window"), pl.exclude("key", "start"))


def _windows(result: pl.Expr, paths: Sequence[Path], length: int, step: int) -> pl.LazyFrame:
    """Polars' windows over sorted records; the first windows begin before the first record."""
    grouped = (
        pl.scan_parquet(paths)
        .sort("key", "ts")
        .group_by_dynamic("ts", every=f"{step}us", period=f"{length}us", offset=f"{step - length}us", group_by="key")
    )
    return grouped.agg(result.alias("result")).rename({"ts": "start"})


def _moments(paths: Sequence[Path], ratio: int, step: int) -> pl.LazyFrame:
    """Moments from sums of values and of squares, which are exact for the integers of the workloads."""
    at = pl.col("ts").dt.epoch("us") // step
    slices = (
        pl.scan_parquet(paths)
        .group_by("key", at.alias("at"))
        .agg(V.len().cast(pl.Int64).alias("n"), V.sum().alias("s"), (V * V).sum().alias("q"))
    )
    ends = slices.select(pl.int_range(pl.col("at").min(), pl.col("at").max() + ratio).alias("at"))
    grid = slices.select(pl.col("key").unique()).join(ends, how="cross", maintain_order="left_right")
    n, s, q = map(pl.col, "nsq")
    variance = (q - s * s / n) / (n - 1)
    return (
        grid.join(slices, on=["key", "at"], how="left", maintain_order="left")
        .with_columns(pl.col("n", "s", "q").fill_null(0))
        .with_columns(pl.col("n", "s", "q").rolling_sum(ratio, min_samples=1).over("key"))
        .filter(n > 0)
        .with_columns(variance=pl.when(n > 1).then(variance))
        .select(
            "key",
            ((pl.col("at") + 1 - ratio) * step).cast(pl.Datetime("us", "UTC")).alias("start"),
            (s / n).alias("mean"),
            "variance",
            pl.col("variance").sqrt().alias("stddev"),
            n.alias("count"),
            s.alias("sum"),
        )
    )


@cache
def run(name: str, workload: Workload, size: str, advance: str) -> Run:
    """Return the seconds to collect all windows of a workload, by the faster engine of Polars."""
    return fastest(engines(query(name, workload.files(), size, advance)), workload.total)
