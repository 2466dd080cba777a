"""Sliding windows for PySpark, assembled from slices.

Names that need pyspark load it on first use; `laws` is loaded on first use too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slicing.aggregates.aggregate import EVENT_TIME, Aggregate, Bound, Fieldwise, fieldwise
from slicing.aggregates.tracing import traced
from slicing.emission.emission import Emission, early, on_change, on_close, on_update
from slicing.errors import (
    FunctionFailed,
    InvalidType,
    InvalidValue,
    MissingRequirement,
    ResultOverflow,
    SlicingError,
    StateMismatch,
    TooLarge,
)
from slicing.grouping import Grouped, Windowed, group_by
from slicing.windows.clock import processing_time
from slicing.windows.counting import counting
from slicing.windows.session import session
from slicing.windows.sliding import sliding
from slicing.windows.unbounded import unbounded
from slicing.windows.window import Hopping, Window, by_edges, cumulating, hopping, tumbling

if TYPE_CHECKING:
    from slicing import laws as laws
    from slicing.spark.late import late_partials, late_records, results
    from slicing.spark.plausible import plausible
    from slicing.spark.progress import ProgressListener
    from slicing.timelines import draw

__version__ = "0.1.0"

__all__ = [
    "EVENT_TIME",
    "Aggregate",
    "Bound",
    "Emission",
    "Fieldwise",
    "FunctionFailed",
    "Grouped",
    "Hopping",
    "InvalidType",
    "InvalidValue",
    "MissingRequirement",
    "ProgressListener",
    "ResultOverflow",
    "SlicingError",
    "StateMismatch",
    "TooLarge",
    "Window",
    "Windowed",
    "by_edges",
    "counting",
    "cumulating",
    "draw",
    "early",
    "fieldwise",
    "group_by",
    "hopping",
    "late_partials",
    "late_records",
    "on_change",
    "on_close",
    "on_update",
    "plausible",
    "processing_time",
    "results",
    "session",
    "sliding",
    "traced",
    "tumbling",
    "unbounded",
]

_ON_SPARK = {
    "ProgressListener": "slicing.spark.progress",
    "draw": "slicing.timelines",
    "late_partials": "slicing.spark.late",
    "late_records": "slicing.spark.late",
    "plausible": "slicing.spark.plausible",
    "results": "slicing.spark.late",
}


def __getattr__(name: str) -> Any:
    if name == "laws":
        return import_module("slicing.laws")
    if name not in _ON_SPARK:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_SPARK[name]), name)
