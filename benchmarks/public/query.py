"""The interface of a query of a benchmark that others define."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.baselines.query import Query


@dataclass(frozen=True)
class FlinkQuery:
    """A query in Flink's SQL, over the table `records` with the time `ts`; rows are keys, two edges, then results.

    `input` is what DuckDB selects for it, and `columns` are its kinds, without the milliseconds, `ms`, which come last.
    `sql` takes size and advance as intervals.
    """

    input: str
    columns: str
    keys: str
    results: str
    sql: Callable[[str, str], str]


@dataclass(frozen=True)
class PublicQuery:
    """A query of ours, of Spark, and in SQL for DuckDB; all return keys, `window` and results.

    `sql` takes size and advance in microseconds. Its rows have `window_start` and `window_end`, in microseconds too,
    in place of `window`. It reads the view `records`, the workload, or `views` over it, by their names. In update mode,
    `newest` is a column that is greatest in the last update of a window. With `by_clock`, windows are of processing
    time, and the SQL has one row a key, for all windows.
    """

    name: str
    ours: Query
    spark: Query
    sql: Callable[[int, int], str]
    mode: str = "append"
    newest: str | None = None
    by_clock: bool = False
    views: Mapping[str, str] = field(default_factory=dict)
    flink: FlinkQuery | None = None
