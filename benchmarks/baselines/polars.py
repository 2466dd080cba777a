"""Polars in one process on the same files, as a limit: lazy, slices first, then rolling sums; nothing is durable."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

import polars as pl
from pyspark.sql import DataFrame

from benchmarks.baselines import duckdb
from benchmarks.running.bounded import fastest
from benchmarks.running.run import Run
from benchmarks.running.session import session
from benchmarks.workloads.workload import Workload, scratch
from slicing.windows.time.durations import microseconds

ENGINES: tuple[Literal["in-memory", "streaming"], ...] = ("in-memory", "streaming")


def windows(paths: list[Path], size: str, advance: str, column: str = "v") -> pl.LazyFrame:
    """Return one row per key and window that holds a record, like `groupBy(window(...))`.

    Slices are joined to a grid of all keys and slices, on which a rolling sum is one pass, whatever the size. Keys must
    be one column.
    """
    step, ratio = microseconds(advance, "advance"), microseconds(size, "size") // microseconds(advance, "advance")
    at = pl.col("ts").dt.epoch("us") // step
    slices = (
        pl.scan_parquet(paths)
        .group_by("key", at.alias("at"))
        .agg(pl.len().cast(pl.Int64).alias("n"), pl.col(column).sum().alias("s"))
    )
    ends = slices.select(pl.int_range(pl.col("at").min(), pl.col("at").max() + ratio).alias("at"))
    grid = slices.select(pl.col("key").unique()).join(ends, how="cross", maintain_order="left_right")
    rolled = (
        grid.join(slices, on=["key", "at"], how="left", maintain_order="left")
        .with_columns(pl.col("n", "s").fill_null(0))
        .with_columns(pl.col("n", "s").rolling_sum(ratio, min_samples=1).over("key"))
        .filter(pl.col("n") > 0)
    )
    start, end = ((pl.col("at") + edge) * step for edge in (1 - ratio, 1))
    window = pl.struct(*[(t.cast(pl.Datetime("us", "UTC"))).alias(n) for t, n in ((start, "start"), (end, "end"))])
    return rolled.select("key", window.alias("window"), pl.col("n").alias("records"), pl.col("s").alias("total"))


@cache
def run(workload: Workload, size: str, advance: str) -> Run:
    """Return the seconds to collect all windows of a workload without its history, of the fastest of three ways.

    They are Polars' two engines and DuckDB.
    """
    files = workload.files()[workload.before * workload.parts :]
    ways = engines(windows(files, size, advance)) | {"DuckDB": lambda: duckdb.windows(files, size, advance)}
    return fastest(ways, workload.total)


def engines(query: pl.LazyFrame) -> dict[str, Callable[[], int]]:
    """Return the ways to collect a query, by the engines of Polars; each returns the number of rows."""
    return {f"Polars {engine}": lambda engine=engine: query.collect(engine=engine).height for engine in ENGINES}


@contextmanager
def written(workload: Workload, size: str, advance: str) -> Iterator[DataFrame]:
    """Yield all rows, history included, written as Parquet and read by Spark."""
    with scratch() as folder:
        windows(workload.files(), size, advance).sink_parquet(folder / "rows.parquet")
        yield session().read.parquet(str(folder))
