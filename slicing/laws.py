"""Checks of the laws of aggregates on your own values: the public name of `slicing.aggregates.laws`."""

from slicing.aggregates.laws import (
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
