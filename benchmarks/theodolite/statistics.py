"""The statistics of a window: count, sum, minimum, maximum, mean and population variance of the power."""

from pyspark.sql import Column
from pyspark.sql import functions as F

import combinators as C
from slicing import Bound

VALUE = "valueInW"
KINDS = "n bigint, total double, least double, most double, mean double, variance double"
"""The results in Flink's SQL."""


def of_ours() -> dict[str, Bound]:
    """Return our aggregates."""
    return {
        "records": C.count(),
        "sum": C.sum(VALUE),
        "min": C.min(VALUE),
        "max": C.max(VALUE),
        "mean": C.mean(VALUE),
        "variance": C.variance_pop(VALUE),
    }


def of_spark() -> list[Column]:
    """Return Spark's aggregates."""
    functions = {"sum": F.sum, "min": F.min, "max": F.max, "mean": F.avg, "variance": F.var_pop}
    return [F.count("*").alias("records"), *(function(VALUE).alias(name) for name, function in functions.items())]


def of_sql() -> str:
    """Return the aggregates in SQL, of DuckDB and of Flink."""
    return "count(*), " + ", ".join(f"{name}({VALUE})" for name in ("sum", "min", "max", "avg", "var_pop"))
