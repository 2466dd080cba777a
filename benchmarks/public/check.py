"""Whether both sides of a line have DuckDB's rows, on a cut of its events."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.public import judge
from benchmarks.public.line import OURS, Line
from benchmarks.public.query import PublicQuery
from benchmarks.public.sides import SIDES
from benchmarks.running import written
from benchmarks.workloads.rows import difference

SHARE = 0.05


def differences(line: Line) -> str | None:
    """Return how the rows of a side differ, or None.

    Windows of the clock differ from run to run, and are not compared.
    """
    query, cut = line.query, line.workload.cut(SHARE)
    if query.by_clock:
        return None
    with judge.rows(query, cut, *line.window) as truth:
        for of in (OURS, line.against):
            side = SIDES[of]
            everything = query.newest or side.closes_all
            with side.rows(line, cut) as rows:
                found = difference(last(rows, query), truth if everything else written.closed(truth, cut))
            if found:
                return f"{of}: {found}"
    return None


def last(rows: DataFrame, query: PublicQuery) -> DataFrame:
    """Return the last update of each window; all rows if there are no updates."""
    if not query.newest:
        return rows
    keys = rows.columns[: rows.columns.index("window") + 1]
    newest = rows.groupBy(*keys).agg(F.max_by(F.struct(*rows.columns), query.newest).alias("row"))
    return newest.select("row.*")
