"""Finds the benchmarks of all files in this folder, the most important first."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from benchmarks import comparisons
from benchmarks.comparisons.comparison import Benchmark, Comparison

FIRST = (
    *("day", "wide", "dense", "keys", "polars", "kinds", "several", "functions", "fixed_cost", "million_keys"),
    *(
        "checkpoint",
        "update",
        "change",
        "bounded",
        "sessions",
        "features",
        "sliding",
        "floor",
        "batch_bytes",
        "memory",
        "state_bytes",
        "serving",
        "stages",
        "accounting",
    ),
)
"""Files in the order of the page; other files follow by name."""
QUICK = ("ManyKeys", "PolarsBoundedHour", *(f"windows_per_record_R-{ratio}" for ratio in ("1", "60", "1440")))
"""The benchmarks that `--quick` measures."""


@cache
def benchmarks() -> tuple[Benchmark, ...]:
    """Return comparisons with a goal, other comparisons, then the rest: a run cut short has the important ones."""
    files = sorted((module.name for module in iter_modules(comparisons.__path__)), key=_place)
    modules = [import_module(f"{comparisons.__name__}.{file}") for file in files]
    return tuple(sorted((each for module in modules for each in getattr(module, "BENCHMARKS", ())), key=_weight))


def compared() -> list[Comparison]:
    """Return the comparisons among the benchmarks."""
    return [each for each in benchmarks() if isinstance(each, Comparison)]


def _place(file: str) -> tuple[int, str]:
    return (FIRST.index(file) if file in FIRST else len(FIRST), file)


def _weight(each: Benchmark) -> int:
    return 2 if not isinstance(each, Comparison) else int(each.goal is None)
