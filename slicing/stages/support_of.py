"""The `WindowSupport` of each kind of windows; the default is for windows that trees assemble from slices."""

from __future__ import annotations

from slicing.stages.assigned import AssignedSupport
from slicing.stages.counting import CountingSupport
from slicing.stages.sessions import SessionSupport
from slicing.stages.sliding import SlidingSupport
from slicing.stages.support import WindowSupport
from slicing.stages.unbounded import UnboundedSupport
from slicing.windows.assigned import AssignedSessions
from slicing.windows.counting import Counting
from slicing.windows.session import Session
from slicing.windows.sliding import Sliding, Slidings
from slicing.windows.unbounded import Unbounded
from slicing.windows.window import Window

_SUPPORT: dict[type[Window], type[WindowSupport]] = {
    AssignedSessions: AssignedSupport,
    Counting: CountingSupport,
    Session: SessionSupport,
    Sliding: SlidingSupport,
    Slidings: SlidingSupport,
    Unbounded: UnboundedSupport,
}


def support_of(window: Window) -> WindowSupport:
    """Return the support of a window."""
    return _SUPPORT.get(type(window), WindowSupport)(window)
