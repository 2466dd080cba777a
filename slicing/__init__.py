"""Hopping, sliding and session windows for PySpark, assembled from slices.

Each public name imports its module on first use. Errors need nothing else, windows need numpy, some names pyspark.
"""

from importlib import import_module
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from slicing import errors

if TYPE_CHECKING:
    from slicing import laws as laws
    from slicing import testing as testing
    from slicing.aggregates.aggregate import EVENT_TIME, Aggregate, Bound, Fieldwise, fieldwise
    from slicing.definition import Definition
    from slicing.drawing import draw
    from slicing.errors import (
        FunctionFailed,
        InvalidType,
        InvalidValue,
        MissingRequirement,
        NoSuchMethod,
        ResultOverflow,
        SlicingError,
        StateMismatch,
        TooLarge,
        reason,
    )
    from slicing.grouping import FeaturesAt, Grouped, Windowed, group_by
    from slicing.process.evictors import keep_last, keep_newest, within_delta
    from slicing.spark.advice import advice, configure
    from slicing.spark.describe import describe
    from slicing.spark.late import late_partials, late_records, results
    from slicing.spark.lateness import Lateness
    from slicing.spark.merging import merge_into
    from slicing.spark.plausible import plausible
    from slicing.spark.progress import ProgressListener, lateness
    from slicing.spark.prometheus import PrometheusCollector
    from slicing.spark.serving import serve_to
    from slicing.spark.upserting import upsert_into
    from slicing.tracing import traced
    from slicing.triggers.buffer import buffer
    from slicing.triggers.emission import Emission, early, on_change, on_close, on_update
    from slicing.triggers.user_trigger import OpenWindows, Trigger
    from slicing.windows.assigned import assigned_by
    from slicing.windows.clock import processing_time
    from slicing.windows.counting import counting
    from slicing.windows.lookback import frame
    from slicing.windows.session import session
    from slicing.windows.sliding import sliding
    from slicing.windows.unbounded import unbounded
    from slicing.windows.window import Hopping, Window, by_edges, cumulating, hopping, tumbling

__version__ = "0.2.0"

__all__ = [
    "EVENT_TIME",
    "Aggregate",
    "Bound",
    "Definition",
    "Emission",
    "FeaturesAt",
    "Fieldwise",
    "FunctionFailed",
    "Grouped",
    "Hopping",
    "InvalidType",
    "InvalidValue",
    "Lateness",
    "MissingRequirement",
    "NoSuchMethod",
    "OpenWindows",
    "ProgressListener",
    "PrometheusCollector",
    "ResultOverflow",
    "SlicingError",
    "StateMismatch",
    "TooLarge",
    "Trigger",
    "Window",
    "Windowed",
    "advice",
    "assigned_by",
    "buffer",
    "by_edges",
    "configure",
    "counting",
    "cumulating",
    "describe",
    "draw",
    "early",
    "fieldwise",
    "frame",
    "group_by",
    "hopping",
    "keep_last",
    "keep_newest",
    "late_partials",
    "late_records",
    "lateness",
    "merge_into",
    "on_change",
    "on_close",
    "on_update",
    "plausible",
    "processing_time",
    "reason",
    "results",
    "serve_to",
    "session",
    "sliding",
    "traced",
    "tumbling",
    "unbounded",
    "upsert_into",
    "within_delta",
]

_HOMES = {
    "aggregates.aggregate": ("EVENT_TIME", "Aggregate", "Bound", "Fieldwise", "fieldwise"),
    "tracing": ("traced",),
    "definition": ("Definition",),
    "drawing": ("draw",),
    "triggers.buffer": ("buffer",),
    "triggers.emission": ("Emission", "early", "on_change", "on_close", "on_update"),
    "triggers.user_trigger": ("OpenWindows", "Trigger"),
    "grouping": ("FeaturesAt", "Grouped", "Windowed", "group_by"),
    "process.evictors": ("keep_last", "keep_newest", "within_delta"),
    "spark.advice": ("advice", "configure"),
    "spark.describe": ("describe",),
    "spark.late": ("late_partials", "late_records", "results"),
    "spark.merging": ("merge_into",),
    "spark.serving": ("serve_to",),
    "spark.plausible": ("plausible",),
    "spark.lateness": ("Lateness",),
    "spark.progress": ("ProgressListener", "lateness"),
    "spark.prometheus": ("PrometheusCollector",),
    "spark.upserting": ("upsert_into",),
    "windows.assigned": ("assigned_by",),
    "windows.clock": ("processing_time",),
    "windows.counting": ("counting",),
    "windows.lookback": ("frame",),
    "windows.session": ("session",),
    "windows.sliding": ("sliding",),
    "windows.unbounded": ("unbounded",),
    "windows.window": ("Hopping", "Window", "by_edges", "cumulating", "hopping", "tumbling"),
}
"""The modules that define the public names; names that are not listed are defined in `errors`."""
_MEANT = {
    "window": "It is `.window(...)` of a grouping, and its arguments are `hopping(...)`, `tumbling(...)` and so on.",
    "session_window": 'It is `session("5 minutes")`.',
    "slide": 'It is `hopping("1 hour", advance="1 minute")`.',
    "rolling": 'It is `hopping("1 hour", advance="1 minute")`, or `sliding("1 hour")` at the times of records.',
    "resample": 'It is `tumbling("1 hour")`.',
    "count_window": "It is `counting(100)`.",
}
"""Names in other libraries, each with the call here."""
_PACKAGES = ("laws", "testing")
"""The packages that are imported by name."""
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"slicing.{name}")
    if name not in __all__:
        raise import_module("slicing.hints").no_name("slicing", name, _MEANT, __all__)
    value = getattr(import_module(f"slicing.{_HOME[name]}") if name in _HOME else errors, name)
    if isfunction(value) and name in _HOME:
        value = errors.hinted(value)
        value.__module__ = __name__  # it is pickled by the name under which it is found
    globals()[name] = value  # later look-ups find it without this function
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES, *(name for name in globals() if name.startswith("__"))})
