"""Resolves the call of a windowed aggregation: checks all names and types, runs nothing."""

from __future__ import annotations

from slicing.spark.call import Call
from slicing.spark.query import Query
from slicing.spark.resolution import Draft, OfHistory, Resolution
from slicing.spark.rules import RULES, RULES_OF_DRAFTS, RULES_OF_HISTORIES


def resolve(call: Call) -> Query:
    """Return the query of a call. Raises InvalidValue or InvalidType for the first rule that it breaks."""
    resolution = Resolution(call)
    for rule in RULES:
        rule(resolution)
    return resolution.query()


def resolve_history(call: Call) -> Query:
    """Return the query of a stream's call over its history. Raises InvalidValue or InvalidType."""
    resolution = OfHistory(call)
    for rule in RULES_OF_HISTORIES:
        rule(resolution)
    return resolution.query()


def check_defined(call: Call) -> None:
    """Check a call without a DataFrame. Raises InvalidValue or InvalidType for the first rule that it breaks."""
    draft = Draft(call)
    for rule in RULES_OF_DRAFTS:
        rule(draft)
