"""Checks of the laws of aggregates on your own values; and, when a query is built, on values of the framework."""

from slicing.laws.dry_runs import dry_run as dry_run
from slicing.laws.dry_runs import why_no_result as why_no_result
from slicing.laws.properties import (
    Counterexample,
    associativity,
    check,
    commutativity,
    elementwise,
    identity,
    inversion,
    purity,
    singleton,
)
from slicing.laws.values import alike as alike

__all__ = [
    "Counterexample",
    "associativity",
    "check",
    "commutativity",
    "elementwise",
    "identity",
    "inversion",
    "purity",
    "singleton",
]
