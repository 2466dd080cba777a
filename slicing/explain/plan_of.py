"""Selects the type of plan for each kind of windows."""

from __future__ import annotations

from slicing.explain.counting import CountingPlan
from slicing.explain.plan import Plan
from slicing.explain.sessions import SessionPlan
from slicing.explain.sliding import SlidingPlan
from slicing.explain.unbounded import TotalsPlan
from slicing.windows.assigned import AssignedSessions
from slicing.windows.counting import Counting
from slicing.windows.session import Session
from slicing.windows.sliding import Sliding
from slicing.windows.unbounded import Unbounded
from slicing.windows.window import Window

_PLANS: dict[type[Window], type[Plan]] = {
    AssignedSessions: SessionPlan,
    Counting: CountingPlan,
    Session: SessionPlan,
    Sliding: SlidingPlan,
}


def plan_type_of(window: Window, streaming: bool) -> type[Plan]:
    """Return the type of plan. On bounded input, an unbounded window has one slice instead of running totals."""
    if isinstance(window, Unbounded) and streaming:
        return TotalsPlan
    return _PLANS.get(type(window), Plan)
