"""What windows of so many records ask of a call: refused with the remedy when the query is built."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import EAGER
from slicing.emission.emission import Emission
from slicing.errors import InvalidValue
from slicing.spark import flat
from slicing.spark.columns import kind_of_type, logical
from slicing.windows.counting import Counting
from slicing.windows.slices import FOREVER


def _never() -> tuple[int, int]:
    return FOREVER, -FOREVER


def _at(_: Any, time: Any) -> Any:
    return time, time


SPAN = kernel("window", Aggregate(_never, _at, fieldwise(np.minimum, np.maximum), columns=True, laws=False))
"""The first and the last event time of a window, which no family of counted windows knows."""


def check_counting(frame: DataFrame, window: Counting, tree: str, by_clock: bool, emission: Emission) -> None:
    """Refuse what has no meaning for windows of so many records. Raises InvalidValue."""
    if by_clock:
        raise InvalidValue(
            f"{window} ends where records say, whatever the clock. Leave `time` out, or name a column: "
            'for the time of the trigger `withColumn("at", F.current_timestamp())`.'
        )
    if frame.isStreaming and window.order_by is not None:
        raise InvalidValue(
            f"records of a stream are counted as they come, and `order_by` is for bounded input; got {window}. "
            "Leave it out."
        )
    if not frame.isStreaming:
        _check_order(frame, window)
    if tree not in ("auto", EAGER):
        raise InvalidValue(
            f"windows that are counted are runs of their records, and `{tree}` is a tree of slices in time. "
            'Leave `.assemble` out, or measure against `.assemble("eager")`.'
        )
    if not emission.once:
        raise InvalidValue(
            f"{emission} puts out windows that are not full, or a second time; one of {window} goes out once, with its "
            "last record. Use on_close()."
        )


def _check_order(frame: DataFrame, window: Counting) -> None:
    name, others = window.order_by, ", ".join(frame.columns)
    if name is None:
        raise InvalidValue(
            f"bounded input has no order in which records come; got {window}. Name the column that gives it: "
            f'counting({window.size}, advance={window.advance}, order_by="seq").'
        )
    if name not in frame.columns:
        raise InvalidValue(f"order column `{name}` does not exist; the columns are {others}.")
    if frame.columns.count(name) > 1:
        raise InvalidValue(f"order column `{name}` is ambiguous: several columns have this name. Rename one.")
    kind_of_type(frame.schema[name].dataType, name, "order column")


def ordering(window: Counting, streaming: bool) -> tuple[str, ...]:
    """The column that orders bounded input, which travels behind all others."""
    return () if streaming or window.order_by is None else (window.order_by,)


def with_span(
    kernels: tuple[Kernel, ...], arguments: tuple[tuple[int, ...], ...], time: object
) -> tuple[tuple[Kernel, ...], tuple[tuple[int, ...], ...]]:
    """Kernels, and their columns, with `SPAN` as the last one if there is a time."""
    return ((*kernels, SPAN), (*arguments, (-1,))) if time else (kernels, arguments)


def counted_columns(results: int, time: str, time_kind: str) -> list[Column]:
    """`window`, from the last two of so many results if there is a time, and the numbers of its records."""
    window = F.lit(None).cast(f"struct<start:{time_kind},end:{time_kind}>")
    if time:
        first, last = (F.col(name) for name in flat.numbered(flat.RESULT, range(2), results - 2))
        window = F.struct(logical(first, time_kind).alias("start"), logical(last + 1, time_kind).alias("end"))
    numbers = F.col(flat.START).alias("first_record"), (F.col(flat.STOP) - 1).alias("last_record")
    return [window.alias("window"), *numbers]
