"""The call of a windowed aggregation, before its columns are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from slicing.aggregates.aggregate import Bound, Struct
from slicing.options import NO_OPTIONS, Options
from slicing.process.function import Then
from slicing.windows.clock import ProcessingTime
from slicing.windows.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from slicing.spark.declared import Declared


class Time(Enum):
    """The time that closes windows: event time with its watermark, the clock of the trigger, or none."""

    EVENT = "by event time"
    CLOCK = "by the clock"
    NONE = "where time closes no window"

    @classmethod
    def of(cls, time: object, window: Window, streaming: bool) -> Time:
        """Return the kind of time of a call."""
        if isinstance(time, ProcessingTime):
            return cls.CLOCK
        return cls.EVENT if window.by_time or not streaming else cls.NONE


@dataclass(frozen=True, kw_only=True)
class Call:
    """The arguments of a call."""

    frame: DataFrame | None
    keys: tuple[Any, ...]
    window: Window
    time: Any
    named: Mapping[str, Bound | Struct]
    options: Options = NO_OPTIONS
    declared: Declared | None = None
    then: Then | None = None
