"""Spark's own functions with other results than sums, named as in `ours.MORE`."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.baselines.query import keys_of

FUNCTIONS = {
    "mean": {"mean": "avg(v)"},
    "variance": {"variance": "var_samp(d)"},
    "five": {
        "mean": "avg(v)",
        "variance": "var_samp(v)",
        "stddev": "stddev_samp(v)",
        "count": "count(v)",
        "sum": "sum(v)",
    },
    "distinct": {"distinct": "approx_count_distinct(v)"},
    "largest": {"largest": "max_by(v, v, 10)"},
    "ranks": {"ranks": "approx_percentile(v, array(0.5, 0.95, 0.99), 100)"},
}


@dataclass(frozen=True)
class SparkResults:
    """Spark's `groupBy(window(...))` with the functions of a result name."""

    name: str

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows; every record is copied into each of its windows."""
        results = [F.expr(text).alias(name) for name, text in FUNCTIONS[self.name].items()]
        return frame.groupBy(*keys_of(frame), F.window("ts", size, advance)).agg(*results)


@dataclass(frozen=True)
class SparkTopK:
    """Spark in two steps: sketches of tumbling windows, then `window()` over them, which merges sketches."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows; every sketch is copied into each of its windows."""
        keys = keys_of(frame)
        sketch = F.expr("approx_top_k_accumulate(v, 1000)").alias("s")
        slices = frame.groupBy(*keys, F.window("ts", advance)).agg(sketch)
        merged = F.expr("approx_top_k_combine(s, 1000)").alias("s")
        windows = slices.groupBy(*keys, F.window("window", size, advance)).agg(merged)
        return windows.select(*keys, "window", F.expr("approx_top_k_estimate(s, 10)").alias("top"))
