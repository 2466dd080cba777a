"""The plan of each kind of windows, which `explain` prints."""

from __future__ import annotations

from slicing.explain.counting import CountingPlan
from slicing.explain.plan import Plan
from slicing.explain.sessions import SessionPlan
from slicing.explain.sliding import SlidingPlan
from slicing.explain.unbounded import TotalsPlan
from slicing.windows.counting import Counting
from slicing.windows.session import Session
from slicing.windows.sliding import Sliding
from slicing.windows.unbounded import Unbounded
from slicing.windows.window import Window

_PLANS: dict[type[Window], type[Plan]] = {Counting: CountingPlan, Session: SessionPlan, Sliding: SlidingPlan}


def plan_type_of(window: Window, streaming: bool) -> type[Plan]:
    """Return the type of plan; bounded input keeps no totals, so an unbounded window has one slice there."""
    if isinstance(window, Unbounded) and streaming:
        return TotalsPlan
    return _PLANS.get(type(window), Plan)
