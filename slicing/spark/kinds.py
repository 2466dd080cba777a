"""The kinds of windows: a line for each that is not assembled from slices by trees."""

from __future__ import annotations

from slicing.spark.counting import CountingKind
from slicing.spark.kind import Kind
from slicing.spark.sessions import SessionKind
from slicing.spark.sliding import SlidingKind
from slicing.spark.unbounded import UnboundedKind
from slicing.windows.counting import Counting
from slicing.windows.session import Session
from slicing.windows.sliding import Sliding
from slicing.windows.unbounded import Unbounded
from slicing.windows.window import Window

_KINDS: dict[type[Window], type[Kind]] = {
    Counting: CountingKind,
    Session: SessionKind,
    Sliding: SlidingKind,
    Unbounded: UnboundedKind,
}


def kind_of_window(window: Window) -> Kind:
    """What these windows add to a call."""
    return _KINDS.get(type(window), Kind)(window)
