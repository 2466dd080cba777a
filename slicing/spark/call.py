"""The call of a windowed aggregation, before its columns are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from slicing.aggregates.aggregate import Bound, Struct
from slicing.options import NO_OPTIONS, Options
from slicing.process.function import Then
from slicing.spark.declared import Declared
from slicing.windows.window import Window


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
