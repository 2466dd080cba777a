"""Point-in-time features against Spark's sums over ranges, and DuckDB's range join; one record in ten is a label."""

from dataclasses import dataclass

import combinators as C
from benchmarks.baselines import duckdb
from benchmarks.baselines.ours import DistinctFeatures, OurFeatures
from benchmarks.baselines.spark import SparkDistinctFeatures, SparkFeatures
from benchmarks.comparisons.comparison import BOUNDED, Check, Comparison
from benchmarks.running import bounded, written
from benchmarks.workloads.inputs import DAY, DAY_CUT, FEW_KEYS, HOUR
from benchmarks.workloads.rows import difference

LENGTHS = ("10 minutes", "1 hour", "24 hours")


def _check(lengths: tuple[str, ...], column: str) -> Check:
    return Check(OurFeatures(lengths, column), SparkFeatures(lengths, column), DAY_CUT, HOUR, HOUR, BOUNDED)


@dataclass(frozen=True)
class DuckDBCheck:
    """A check that DuckDB returns equal rows."""

    lengths: tuple[str, ...]

    def difference(self) -> str | None:
        """Return how the rows differ, or None."""
        ours = written.of_bounded(OurFeatures(self.lengths), DAY_CUT, HOUR, HOUR)
        with ours as found, duckdb.written(DAY_CUT, self.lengths) as wanted:
            return difference(found, wanted)


BENCHMARKS = (
    Comparison(
        "FeaturesHour",
        "day, 1 M labels, of the last hour / Spark `OVER RANGE` on the union",
        sides=lambda: (
            bounded.run(SparkFeatures((HOUR,)), DAY, HOUR, HOUR),
            bounded.run(OurFeatures((HOUR,)), DAY, HOUR, HOUR),
        ),
        checks=(_check((HOUR,), "v"),),
        goal=3.0,
    ),
    Comparison(
        "FeaturesThree",
        "day, 1 M labels, of 10 minutes, 1 and 24 hours, doubles / Spark `OVER RANGE` on a tenth, per record",
        sides=lambda: (
            bounded.run(SparkFeatures(LENGTHS, "d"), DAY.cut(0.1), HOUR, HOUR),
            bounded.run(OurFeatures(LENGTHS, "d"), DAY, HOUR, HOUR),
        ),
        checks=(_check(LENGTHS, "d"),),
        goal=3.0,
    ),
    Comparison(
        "FeaturesDistinct",
        "day of 4 keys, 100,000 labels, distinct doubles of the last hour / approx_count_distinct, ours",
        sides=lambda: (
            bounded.run(DistinctFeatures(C.approx_count_distinct), FEW_KEYS, HOUR, HOUR),
            bounded.run(DistinctFeatures(C.count_distinct), FEW_KEYS, HOUR, HOUR),
        ),
        checks=(Check(DistinctFeatures(C.count_distinct), SparkDistinctFeatures(), DAY_CUT, HOUR, HOUR, BOUNDED),),
    ),
    Comparison(
        "FeaturesDuckDB",
        "day, 1 M labels, of the last hour / DuckDB range join in process",
        sides=lambda: (duckdb.run(DAY, (HOUR,)), bounded.run(OurFeatures((HOUR,)), DAY, HOUR, HOUR)),
        checks=(DuckDBCheck((HOUR,)),),
    ),
)
