"""DuckDB as the judge of rows: the query of the reference over the same files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.baselines.query import window_struct
from benchmarks.public.query import PublicQuery
from benchmarks.running.session import session
from benchmarks.workloads.workload import Workload, scratch
from slicing.windows.time.durations import microseconds

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@contextmanager
def rows(query: PublicQuery, workload: Workload, size: str, advance: str) -> Iterator[DataFrame]:
    """Yield all rows of a query: keys, `window`, results."""
    import duckdb  # imported here, because only checks need it

    sql = query.sql(microseconds(size, "size"), microseconds(advance, "advance"))
    with scratch() as folder, duckdb.connect() as connection:
        views(connection, query, workload.files())
        connection.execute(f"copy ({sql}) to '{folder}/rows.parquet' (format parquet)")
        yield _windowed(session().read.parquet(str(folder)))


def views(connection: DuckDBPyConnection, query: PublicQuery, files: Iterable[Path]) -> None:
    """Create the views that a query reads, over files of a workload."""
    connection.execute("set timezone = 'UTC'")
    records = f"select * from read_parquet({[str(path) for path in files]})"
    for name, rows_of in {"records": records, **query.views}.items():
        connection.execute(f"create view {name} as {rows_of}")


def _windowed(found: DataFrame) -> DataFrame:
    at = found.columns.index("window_start")
    window = window_struct(F.col("window_start"), F.col("window_end"))
    return found.select(*found.columns[:at], window, *found.columns[at + 2 :])
