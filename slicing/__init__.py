"""Sliding windows for PySpark, assembled from slices.

Names that need pyspark load it on first use.
"""

from slicing.aggregate import EVENT_TIME, Aggregate, Bound, Fieldwise, fieldwise
from slicing.emission import Emission, early, on_change, on_close, on_update
from slicing.errors import (
    FunctionFailed,
    InvalidType,
    InvalidValue,
    MissingRequirement,
    ResultOverflow,
    SlicingError,
    StateMismatch,
)
from slicing.grouping import Grouped, Windowed, group_by
from slicing.windows import Hopping, hopping, tumbling

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
    "ResultOverflow",
    "SlicingError",
    "StateMismatch",
    "Windowed",
    "early",
    "fieldwise",
    "group_by",
    "hopping",
    "on_change",
    "on_close",
    "on_update",
    "tumbling",
]
