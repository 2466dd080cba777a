"""Our queries with a user's plain Python functions: traced, row by row, and untraceable ones."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.baselines.query import keys_of
from slicing import group_by, hopping

_UNIT = [1]
"""A list may change, so a function that reads it cannot be traced and is called by rows."""


@dataclass(frozen=True)
class FourFunctions:
    """Count and sum of a long with four functions; `columns` is an option of `Aggregate`."""

    columns: bool | None = None

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows with columns `records` and `total`, taken from a struct."""
        return _counted(
            frame,
            size,
            advance,
            lambda acc, v: (acc[0] + 1, acc[1] + v),
            lambda a, b: (a[0] + b[0], a[1] + b[1]),
            lambda a, b: (a[0] - b[0], a[1] - b[1]),
            columns=self.columns,
        )


@dataclass(frozen=True)
class Untraceable:
    """Count and sum with four functions that cannot be traced."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows with columns `records` and `total`, taken from a struct."""
        return _counted(
            frame,
            size,
            advance,
            lambda acc, v: (acc[0] + _UNIT[0], acc[1] + v),
            lambda a, b: (a[0] + b[0] * _UNIT[0], a[1] + b[1]),
            lambda a, b: (a[0] - b[0] * _UNIT[0], a[1] - b[1]),
        )


def _counted(frame: DataFrame, size: str, advance: str, *functions: Any, **options: Any) -> DataFrame:
    windowed = group_by(frame, *keys_of(frame)).window(hopping(size, advance), time="ts")
    out = windowed.aggregate(lambda: (0, 0), *functions, value="v", partial="n long, total long", **options)
    return out.select(*keys_of(frame), "window", F.col("value.n").alias("records"), "value.total")


def _welford(acc: Any, x: float) -> Any:
    n, mean, m2 = acc
    n += 1
    delta = x - mean
    mean += delta / n
    return n, mean, m2 + delta * (x - mean)


def _joined(a: Any, b: Any) -> Any:
    n = a[0] + b[0]
    if n == 0:
        return 0, 0.0, 0.0
    delta = b[1] - a[1]
    return n, a[1] + delta * b[0] / n, a[2] + b[2] + delta * delta * a[0] * b[0] / n


@dataclass(frozen=True)
class Welford:
    """The variance of a double by Welford's method in plain Python."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows with a column `variance`."""
        return (
            group_by(frame, *keys_of(frame))
            .window(hopping(size, advance), time="ts")
            .aggregate(
                lambda: (0, 0.0, 0.0),
                _welford,
                _joined,
                lower=lambda a: a[2] / (a[0] - 1) if a[0] > 1 else None,
                returns="double",
                value="d",
                name="variance",
            )
        )
