"""A windowed aggregation resolved against a DataFrame: every name and type checked, nothing run yet."""

from __future__ import annotations

from slicing.spark.query import Query
from slicing.spark.resolution import Call, Resolution
from slicing.spark.rules import RULES


def resolve(call: Call) -> Query:
    """Return the query of a call. Raises InvalidValue or InvalidType for the first rule that it breaks."""
    resolution = Resolution(call)
    for rule in RULES:
        rule(resolution)
    return resolution.query()
