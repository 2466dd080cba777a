"""DuckDB as the judge of rows: the query of the reference over the same files."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.baselines.query import window_struct
from benchmarks.public.query import PublicQuery
from benchmarks.running.session import session
from benchmarks.workloads.workload import Workload, scratch
from slicing.windows.time.durations import microseconds


@contextmanager
def rows(query: PublicQuery, workload: Workload, size: str, advance: str) -> Iterator[DataFrame]:
    """Yield all rows of a query: keys, `window`, results."""
    import duckdb  # imported here, because only checks need it

    sql = query.sql(microseconds(size, "size"), microseconds(advance, "advance"))
    with scratch() as folder, duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        files = f"select * from read_parquet('{workload.path()}/*.parquet')"
        for name, rows_of in {"records": files, **query.views}.items():
            connection.execute(f"create view {name} as {rows_of}")
        connection.execute(f"copy ({sql}) to '{folder}/rows.parquet' (format parquet)")
        yield _windowed(session().read.parquet(str(folder)))


def _windowed(found: DataFrame) -> DataFrame:
    at = found.columns.index("window_start")
    window = window_struct(F.col("window_start"), F.col("window_end"))
    return found.select(*found.columns[:at], window, *found.columns[at + 2 :])
