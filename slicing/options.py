"""The words of a windowed aggregation before its results: keys, windows, time and options, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from slicing.aggregates.aggregate import Input
from slicing.column_names import written
from slicing.state.format.buckets import Buckets
from slicing.state.format.fingerprint import REFUSE
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import COUNTS
from slicing.triggers.trigger import Trigger
from slicing.windows.time.durations import show
from slicing.windows.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from slicing.process.evictors import Evictor


class Reach(IntEnum):
    """What an option decides. A query that is derived from another one has its options from some line on.

    A column that an option adds to the output is of OUTPUT: lookups and partials do not have it.
    """

    OUTPUT = 1  # which rows are emitted, when, and how they are assembled
    SLICES = 2  # how long slices of the windows stay in the state
    STREAM = 3  # which records of the stream are in windows, and on which checkpoints it continues
    KEYS = 4  # how keys are spread


def _set_by(method: str, reach: Reach, shown: Callable[[Any], str] = repr) -> dict[str, Any]:
    """The metadata of an option: the method of the builder that sets it; `shown` returns its arguments as text."""
    return {"method": method, "reach": reach, "shown": shown}


def _duration(length: int) -> str:
    return repr(show(length))


def _evictors(evictors: Iterable[Evictor]) -> str:
    return ", ".join(map(repr, evictors))


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a windowed aggregation. Durations are in microseconds; `tree` is "auto", "eager" or in `TREES`.

    They print as the calls that set them, in this order.
    """

    grace: int = field(default=0, metadata=_set_by("grace", Reach.STREAM, _duration))
    buckets: Buckets | None = field(default=None, metadata=_set_by("buckets", Reach.KEYS, str))
    tree: str = field(default="auto", metadata=_set_by("assemble", Reach.OUTPUT))
    late: str = field(default=COUNTS, metadata=_set_by("late", Reach.OUTPUT))
    trigger: Trigger = field(default=ON_CLOSE, metadata=_set_by("emit", Reach.OUTPUT, str))
    idle: int = field(default=0, metadata=_set_by("idle", Reach.STREAM, _duration))
    evictors: tuple[Evictor, ...] = field(default=(), metadata=_set_by("evict", Reach.STREAM, _evictors))
    evictors_after: tuple[Evictor, ...] = field(
        default=(), metadata=_set_by("evict", Reach.STREAM, lambda evictors: f"{_evictors(evictors)}, after=True")
    )
    adapt: str = field(default=REFUSE, metadata=_set_by("adapt", Reach.STREAM))
    retain: int = field(default=0, metadata=_set_by("retain", Reach.SLICES, _duration))

    def __str__(self) -> str:
        given = [(each, getattr(self, each.name)) for each in fields(self)]
        calls = [(each.metadata, value) for each, value in given if value != each.default]
        return "".join(f".{option['method']}({option['shown'](value)})" for option, value in calls)

    def reaching(self, least: Reach) -> Options:
        """Return these options with the defaults of those that do not reach as far."""
        kept = [each.name for each in fields(self) if each.metadata["reach"] >= least]
        return Options(**{name: getattr(self, name) for name in kept})

    @property
    def at_close(self) -> Options:
        """Return these options for results at close, with automatic trees and without late rows."""
        return self.reaching(Reach.SLICES)


NO_OPTIONS = Options()
"""The defaults."""
METHODS = tuple(dict.fromkeys(each.metadata["method"] for each in fields(Options)))
"""The methods of the builder that set options."""


@dataclass(frozen=True)
class Asked:
    """The DataFrame, keys, windows, time and options of a windowed aggregation; it prints as the calls that make it."""

    df: DataFrame | None
    keys: tuple[Input, ...]
    windows: Window
    time: Any
    options: Options = NO_OPTIONS

    def __repr__(self) -> str:
        windows = f"{self.windows}, long=True" if self.windows.names and not self.windows.wide else repr(self.windows)
        time = "" if self.time is None else f", time={written(self.time)}"
        return f"{grouping_text(self.df, self.keys)}.window({windows}{time}){self.options}"


def grouping_text(df: DataFrame | None, keys: tuple[Input, ...]) -> str:
    """Return the call that groups a DataFrame by keys."""
    return f"group_by({', '.join([*(() if df is None else ('df',)), *map(written, keys)])})"
