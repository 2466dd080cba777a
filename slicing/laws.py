"""The laws of aggregates, tried on values of your own: the public name of `slicing.aggregates.laws`."""

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
