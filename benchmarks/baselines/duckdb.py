"""DuckDB in one process on the same files, not distributed: features as of labels by a range join, and windows."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.baselines.query import LABELLED
from benchmarks.running.bounded import warm_seconds
from benchmarks.running.run import Run
from benchmarks.running.session import session
from benchmarks.running.side import CORES
from benchmarks.workloads.workload import Workload, scratch
from slicing.windows.time.durations import microseconds

STOP_SECONDS = 480
"""The limit for a run together with its warm-up run; longer runs are stopped."""


def features(lengths: tuple[str, ...], column: str = "v") -> str:
    """Return the SQL for the labels, with columns `records`, `total` and `average` for each length, over `records`."""
    kind = "double" if column == "d" else "bigint"  # its sums of integers are wider than Spark's
    longest = max(microseconds(length, "length") for length in lengths)
    made = []
    for number, length in enumerate(lengths):
        held = f"filter (r.ts >= l.ts - to_microseconds({microseconds(length, 'length')}))"
        made += [
            f"nullif(count(r.ts) {held}, 0) as records_l{number}",
            f"cast(sum(r.{column}) {held} as {kind}) as total_l{number}",
            f"avg(r.{column}) {held} as average_l{number}",
        ]
    return (
        f"with labels as (select row_number() over () as id, key, ts, v as label from records where {LABELLED}) "
        f"select l.key, l.ts, l.label, {', '.join(made)} from labels l left join records r "
        f"on r.key = l.key and r.ts >= l.ts - to_microseconds({longest}) and r.ts < l.ts "
        "group by l.id, l.key, l.ts, l.label"
    )


@cache
def run(workload: Workload, lengths: tuple[str, ...], column: str = "v") -> Run:
    """Return the seconds to collect all labels of a workload as Arrow, after a warm-up run."""
    import duckdb  # imported here, because only this measurement needs it

    query, rows = features(lengths, column), []
    with duckdb.connect(config={"threads": CORES}) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(_view(workload))
        timer = threading.Timer(STOP_SECONDS, connection.interrupt)
        timer.start()
        try:
            seconds = warm_seconds(lambda: rows.append(len(connection.sql(query).to_arrow_table())))
        except duckdb.InterruptException:
            return Run(STOP_SECONDS, workload.total, stopped=True)
        finally:
            timer.cancel()
    return Run(seconds, workload.total, rows[-1])


def windows(files: Sequence[Path], size: str, advance: str) -> int:
    """Collect the windows of `polars.windows` as Arrow; return their number."""
    import duckdb

    with duckdb.connect(config={"threads": CORES}) as connection:
        return len(connection.sql(hopping(files, size, advance)).to_arrow_table())


def hopping(files: Sequence[Path], size: str, advance: str) -> str:
    """Return the SQL of windows that hold a record: slices, then frames on a grid of all keys and slices."""
    step, ratio = microseconds(advance, "advance"), microseconds(size, "size") // microseconds(advance, "advance")
    return f"""
        with slices as (
            select key, epoch_us(ts) // {step} as slot, count(*) as n, sum(v) as s
            from read_parquet({[str(path) for path in files]}) group by key, slot
        ),
        grid as (
            select key, unnest(range((select min(slot) from slices), (select max(slot) + {ratio} from slices))) as slot
            from (select distinct key from slices)
        ),
        rolled as (
            select key, slot, sum(n) over last as records, sum(s) over last as total
            from grid left join slices using (key, slot)
            window last as (partition by key order by slot rows {ratio - 1} preceding)
        )
        select key, (slot + 1 - {ratio}) * {step} as window_start, (slot + 1) * {step} as window_end,
            records::bigint as records, total::bigint as total
        from rolled where records > 0"""


@contextmanager
def written(workload: Workload, lengths: tuple[str, ...], column: str = "v") -> Iterator[DataFrame]:
    """Yield all rows, written as Parquet and read by Spark."""
    import duckdb

    with scratch() as folder, duckdb.connect() as connection:
        connection.execute(_view(workload))
        connection.execute(f"copy ({features(lengths, column)}) to '{folder}/rows.parquet' (format parquet)")
        yield session().read.parquet(str(folder))


def _view(workload: Workload) -> str:
    return f"create view records as select * from read_parquet('{workload.path()}/*.parquet')"
