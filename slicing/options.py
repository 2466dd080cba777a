"""The words of a windowed aggregation before its results: keys, windows, time and options, each declared once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
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


def _set_by(call: Callable[[Any], str]) -> dict[str, Callable[[Any], str]]:
    """The metadata of an option: `call` returns the text of the call that sets a value."""
    return {"call": call}


def _duration(name: str) -> dict[str, Callable[[Any], str]]:
    return _set_by(lambda length: f".{name}({show(length)!r})")


def _evictors(more: str) -> dict[str, Callable[[Any], str]]:
    return _set_by(lambda evictors: f".evict({', '.join(map(repr, evictors))}{more})")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a windowed aggregation. Durations are in microseconds; `tree` is "auto", "eager" or in `TREES`.

    They print as the calls that set them, in this order.
    """

    grace: int = field(default=0, metadata=_duration("grace"))
    buckets: Buckets | None = field(default=None, metadata=_set_by(str))
    tree: str = field(default="auto", metadata=_set_by(".assemble({!r})".format))
    late: str = field(default=COUNTS, metadata=_set_by(".late({!r})".format))
    trigger: Trigger = field(default=ON_CLOSE, metadata=_set_by(".emit({})".format))
    idle: int = field(default=0, metadata=_duration("idle"))
    evictors: tuple[Evictor, ...] = field(default=(), metadata=_evictors(""))
    evictors_after: tuple[Evictor, ...] = field(default=(), metadata=_evictors(", after=True"))
    adapt: str = field(default=REFUSE, metadata=_set_by(".adapt({!r})".format))
    retain: int = field(default=0, metadata=_duration("retain"))

    def __str__(self) -> str:
        given = [(each, getattr(self, each.name)) for each in fields(self)]
        return "".join(each.metadata["call"](value) for each, value in given if value != each.default)

    @property
    def at_close(self) -> Options:
        """Return these options for results at close, with automatic trees and without late rows."""
        return replace(self, tree="auto", trigger=ON_CLOSE, late=COUNTS)


NO_OPTIONS = Options()
"""The defaults."""


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
