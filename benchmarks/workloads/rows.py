"""Checks that two runs have equal rows: exact columns by count and hash, floats row by row within an error of sums."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

FLOATS = ("double", "float")
INTEGERS = ("tinyint", "smallint", "int", "bigint", "decimal(20,0)")
SUMS_WITHIN = 1e-12


def difference(ours: DataFrame, theirs: DataFrame) -> str | None:
    """Return how the rows differ, or None. Columns are matched by position: keys, `window`, then results.

    Rows are equal if their numbers are, if the sums over rows of `xxhash64` of keys, window and exact columns are, and
    if each float sum is within 1e-12 of the sum of absolute values. No value of a workload is negative, so that is the
    sum itself.
    """
    floats = [name for name, kind in ours.dtypes if kind in FLOATS]
    ours, theirs = _flat(ours), _flat(theirs.toDF(*ours.columns))
    exact = [name for name in ours.columns if name not in floats]
    found, wanted = (_summary(frame, exact) for frame in (ours, theirs))
    if found[0] != wanted[0]:
        return f"{found[0]:,} rows, not {wanted[0]:,}"
    if found[0] == 0:
        return "no rows at all"
    if found[1] != wanted[1]:
        return f"the hashes of {', '.join(exact)} sum to another value"
    if floats and (other := _with_other_floats(ours, theirs, exact, floats)):
        return f"{other:,} rows have other floats"
    return None


def _flat(frame: DataFrame) -> DataFrame:
    """The window as two numbers, and all integers as longs, because the hash of a value depends on its type."""
    columns = []
    for name, kind in frame.dtypes:
        if name == "window":
            columns += [F.unix_micros(f"window.{edge}").alias(edge) for edge in ("start", "end")]
        else:
            columns.append(F.col(name).cast("bigint") if kind in INTEGERS else F.col(name))
    return frame.select(*columns)


def _summary(frame: DataFrame, exact: list[str]) -> tuple[int, int]:
    row = frame.agg(F.count("*"), F.sum(F.xxhash64(*exact).cast("decimal(38,0)"))).first()
    assert row is not None
    return row[0], int(row[1] or 0)


def _with_other_floats(ours: DataFrame, theirs: DataFrame, exact: list[str], floats: list[str]) -> int:
    found, wanted = (
        frame.select(F.xxhash64(*exact).alias("row"), *[F.col(name).alias(f"{side}_{name}") for name in floats])
        for frame, side in ((ours, "our"), (theirs, "their"))
    )
    near = F.lit(True)
    for name in floats:
        a, b = F.col(f"our_{name}"), F.col(f"their_{name}")
        # In Spark, NaN equals NaN and exceeds all numbers; infinities and NaN are near only to themselves.
        finite = F.greatest(F.abs(a), F.abs(b)) < float("inf")
        within = finite & (F.abs(a - b) <= SUMS_WITHIN * F.abs(b))
        near &= a.eqNullSafe(b) | F.coalesce(a.isNotNull() & b.isNotNull() & within, F.lit(False))
    return found.join(wanted, "row", "full").where(~near).count()
