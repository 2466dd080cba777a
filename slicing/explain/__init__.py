"""The plan and the predicted cost of a query, which `explain` prints. No Spark."""

from slicing.explain.coefficients import SHIPPED, Coefficients, place
from slicing.explain.ledgers import FeaturesPlan, plan_type_of
from slicing.explain.plan import Plan
from slicing.explain.state_table import (
    BucketState,
    KeyState,
    StateTable,
    facts_of,
    largest_of,
    slices_of,
    trigger_state_of,
    triggers_of,
)
from slicing.explain.why import Why, why_of

__all__ = [
    "SHIPPED",
    "BucketState",
    "Coefficients",
    "FeaturesPlan",
    "KeyState",
    "Plan",
    "StateTable",
    "Why",
    "facts_of",
    "largest_of",
    "place",
    "plan_type_of",
    "slices_of",
    "trigger_state_of",
    "triggers_of",
    "why_of",
]
