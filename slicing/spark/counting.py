"""Windows of so many records, as Spark sees them: records go to their buckets in order, and are counted there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.fields import Field
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import EAGER
from slicing.assembly.results import Windows
from slicing.blocks.records import Records
from slicing.emission.emission import Emission
from slicing.engines.counted import Content, content
from slicing.engines.counting import CountingBucket, all_counted
from slicing.engines.engine import Engine
from slicing.errors import InvalidValue
from slicing.spark import flat
from slicing.spark.columns import kind_of_type, logical
from slicing.spark.kind import Kind
from slicing.spark.names import Names
from slicing.spark.query import Query
from slicing.spark.strategy import Aggregation, Arguments, Eager
from slicing.state.fingerprint import Fingerprint
from slicing.state.store import Store
from slicing.windows.counting import Counting
from slicing.windows.slices import FOREVER

if TYPE_CHECKING:
    from slicing.explain.plan import Plan


def _never() -> tuple[int, int]:
    return FOREVER, -FOREVER


def _at(_: Any, time: Any) -> Any:
    return time, time


SPAN = kernel("window", Aggregate(_never, _at, fieldwise(np.minimum, np.maximum), columns=True, laws=False))
"""The first and the last event time of a window, which no family of counted windows knows."""


@dataclass(frozen=True)
class CountingKind(Kind):
    """The last so many records of a key."""

    window: Counting

    def check(self, tree: str, by_clock: bool, emission: Emission, streaming: bool) -> None:
        """Refuse what has no meaning for counted windows. Raises InvalidValue."""
        window = self.window
        if by_clock:
            raise InvalidValue(
                f"{window} ends where records say, whatever the clock. Leave `time` out, or name a column: "
                'for the time of the trigger `withColumn("at", F.current_timestamp())`.'
            )
        if streaming and window.order_by is not None:
            raise InvalidValue(
                f"records of a stream are counted as they come, and `order_by` is for bounded input; got {window}. "
                "Leave it out."
            )
        if tree not in ("auto", EAGER):
            raise InvalidValue(
                f"windows that are counted are runs of their records, and `{tree}` is a tree of slices in time. "
                'Leave `.assemble` out, or measure against `.assemble("eager")`.'
            )
        if not emission.once:
            raise InvalidValue(
                f"{emission} puts out windows that are not full, or a second time; one of {window} goes out once, with "
                "its last record. Use on_close()."
            )

    def named(self, names: Names) -> Self:
        """The same with the column that orders bounded input. Raises InvalidValue and InvalidType."""
        if names.frame.isStreaming:
            return self
        return replace(self, window=replace(self.window, order_by=_order(names, self.window)))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The column that orders bounded input, which travels behind all others."""
        return () if self.window.order_by is None else (self.window.order_by,)

    def kernels(
        self, kernels: tuple[Kernel, ...], arguments: Arguments, has_time: bool
    ) -> tuple[tuple[Kernel, ...], Arguments]:
        """Kernels, and their columns, with `SPAN` as the last one if there is a time."""
        return ((*kernels, SPAN), (*arguments, (-1,))) if has_time else (kernels, arguments)

    def trees(self, trees: tuple[str, ...]) -> tuple[str, ...]:
        """All are eager if one is: then records are kept, of which the others are made too."""
        return (EAGER,) * len(trees) if EAGER in trees else trees

    def strategy(self, asked: Aggregation) -> Counted:
        """Records in their order."""
        return Counted(*asked.common, asked.values, self.window.ttl)

    def window_columns(self, query: Query) -> list[Column]:
        """`window`, from the last two results if there is a time, and the numbers of its records."""
        window = query.no_window
        if query.time:
            ends = flat.numbered(flat.RESULT, range(2), len(query.results()) - 2)
            first, last = map(F.col, ends)
            start, end = (logical(column, query.time_kind) for column in (first, last + 1))
            window = F.struct(start.alias("start"), end.alias("end"))
        numbers = F.col(flat.START).alias("first_record"), (F.col(flat.STOP) - 1).alias("last_record")
        return [window.alias("window"), *numbers]

    def plan_type(self, streaming: bool) -> type[Plan]:
        """What `explain` prints."""
        from slicing.explain.counting import CountingPlan

        return CountingPlan


def _order(names: Names, window: Counting) -> str:
    """The column that is meant to order bounded input."""
    if window.order_by is None:
        raise InvalidValue(
            f"bounded input has no order in which records come; got {window}. Name the column that gives it: "
            f'counting({window.size}, advance={window.advance}, order_by="seq").'
        )
    found = names.named(window.order_by, "order column")
    kind_of_type(found.dataType, window.order_by, "order column")
    return found.name


@dataclass(frozen=True)
class Counted(Eager):
    """Records are shipped, in their order, and counted by key; the last value is what orders bounded input."""

    values: tuple[Field, ...] = ()
    ttl: int | None = None

    @property
    def content(self) -> Content:
        """What rows of the state hold."""
        return content(self.shape, self.trees, self.arguments, self.values)

    def bucket(self, grace: int, fingerprint: Fingerprint, store: Store, emission: Emission) -> Engine:
        """The state of a bucket on a stream."""
        return CountingBucket(self.content, fingerprint, store, emission, self.ttl)

    def all_windows(self, shipped: Sequence[Records]) -> Iterator[Windows]:
        """All windows of a bucket of bounded input."""
        return all_counted(self.content, shipped)
