"""All rows of a query, written as Parquet, so that the rows of two sides can be compared."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.baselines.query import Query
from benchmarks.running.bounded import read
from benchmarks.running.session import session
from benchmarks.running.side import DELAY, MASTER
from benchmarks.running.streams import source
from benchmarks.workloads.workload import Workload, scratch

COMPARED_BATCHES = 4
"""The number of micro-batches whose rows are compared, equal for both sides and independent of those measured."""


@contextmanager
def of_stream(
    query: Query,
    workload: Workload,
    size: str,
    advance: str,
    mode: str = "append",
    delay: str = DELAY,
    master: str = MASTER,
) -> Iterator[DataFrame]:
    """Yield the rows of a stream over the whole workload; in update mode, all updates in sequence."""
    with scratch() as folder:
        together = -(-(workload.before + workload.batches) // COMPARED_BATCHES)
        out = query(source(session(master), workload, delay, together), size, advance)

        def write(rows: DataFrame, _: int) -> None:
            rows.write.mode("append").parquet(f"{folder}/rows")

        writer = out.writeStream.foreachBatch(write).outputMode(mode)
        running = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
        running.awaitTermination()
        yield session(master).read.parquet(f"{folder}/rows")


@contextmanager
def of_bounded(query: Query, workload: Workload, size: str, advance: str) -> Iterator[DataFrame]:
    """Yield the rows of a bounded query."""
    with scratch() as folder:
        query(read(workload), size, advance).write.parquet(f"{folder}/rows")
        yield session().read.parquet(f"{folder}/rows")


def closed(rows: DataFrame, workload: Workload) -> DataFrame:
    """Return those rows of a bounded query whose windows a stream over the same workload has closed at its end."""
    delay = F.expr(f"interval {DELAY}")
    newest = read(workload).agg(F.date_trunc("millisecond", F.max("ts")) - delay).first()
    assert newest is not None
    return rows.where(F.col("window.end") <= F.lit(newest[0]))
