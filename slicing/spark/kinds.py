"""What kinds of windows ask of a call beside what all do: a check for each kind that has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from slicing.emission.emission import Emission
from slicing.spark.counting import check_counting
from slicing.spark.sessions import check_session
from slicing.spark.sliding import check_sliding
from slicing.windows.counting import Counting
from slicing.windows.session import Session
from slicing.windows.sliding import Sliding
from slicing.windows.window import Window

_CHECKS: dict[type[Window], Callable[[DataFrame, Any, str, bool, Emission], None]] = {
    Counting: check_counting,
    Session: check_session,
    Sliding: check_sliding,
}


def check_kind(frame: DataFrame, window: Window, tree: str, by_clock: bool, emission: Emission) -> None:
    """Refuse what has no meaning for windows of a kind. Raises InvalidValue and InvalidType."""
    check = _CHECKS.get(type(window))
    if check is not None:
        check(frame, window, tree, by_clock, emission)
