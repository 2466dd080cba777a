"""The call of a windowed aggregation, before its columns are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from slicing.aggregates.aggregate import Bound, Struct
from slicing.process.function import Then
from slicing.spark.declared import Declared
from slicing.state.format.fingerprint import REFUSE
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import COUNTS
from slicing.triggers.trigger import Trigger
from slicing.windows.window import Window


@dataclass(frozen=True, kw_only=True)
class Call:
    """The arguments of a call. `grace` and `retain` are in microseconds; `tree` is "auto", "eager" or in `TREES`."""

    frame: DataFrame | None
    keys: tuple[Any, ...]
    window: Window
    time: Any
    named: Mapping[str, Bound | Struct]
    tree: str = "auto"
    grace: int = 0
    trigger: Trigger = ON_CLOSE
    late: str = COUNTS
    adapt: str = REFUSE
    retain: int = 0
    declared: Declared | None = None
    then: Then | None = None
    idle: int = 0
