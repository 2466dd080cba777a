"""Window support and execution plan of count windows: records are shuffled in their order, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.fields import Field
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import EAGER
from slicing.assembly.results import Windows
from slicing.content.records import Records
from slicing.engines.bucket import Bucket
from slicing.engines.counting.bucket import CountingBucket, all_counted
from slicing.engines.counting.contents import Content, content
from slicing.errors import InvalidValue
from slicing.stages.execution_plan import Aggregation, Arguments, Eager
from slicing.stages.support import STARTS, WINDOWS, WindowSupport
from slicing.state.format import changes
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import Store
from slicing.triggers.trigger import CLOSING, QUESTIONS, Trigger
from slicing.windows.counting import Counting
from slicing.windows.time.slices import FOREVER


def _never() -> tuple[int, int]:
    return FOREVER, -FOREVER


def _at(_: Any, time: Any) -> Any:
    return time, time


SPAN = kernel("window", Aggregate(_never, _at, fieldwise(np.minimum, np.maximum), columns=True, laws=False))
"""The first and the last event time of a window. A family of count windows does not know them."""


@dataclass(frozen=True)
class CountingSupport(WindowSupport):
    """Support for count windows: the last records of a key."""

    window: Counting

    def check_tree(self, tree: str, by_clock: bool, streaming: bool) -> None:
        """Raise InvalidValue for options that have no meaning for count windows."""
        window = self.window
        if by_clock:
            raise InvalidValue(
                f"{window} ends where records say, whatever the clock. Leave `time` out, or name a column: "
                'for the time of the trigger `withColumn("at", F.current_timestamp())`.'
            )
        if streaming and window.order_by is not None:
            raise InvalidValue(
                f"records of a stream are counted as they come, and `order_by` is for bounded input; got {window}. "
                f"Write {replace(window, order_by=None)}."
            )
        if tree not in ("auto", EAGER):
            raise InvalidValue(
                f"windows that are counted are runs of their records, and `{tree}` is a tree of slices in time. "
                'Leave `.assemble` out, or measure against `.assemble("eager")`.'
            )

    from_slices = False
    history_in_order = True

    def cannot_retain(self, trees: Sequence[str]) -> str:
        """Return the reason: there are no slices."""
        return "keeps the last records of each key, and no slices"

    def cannot_say_why(self, trees: Sequence[str]) -> str:
        """Return the reason: there are no slices."""
        return "keeps the last records of each key, and no slices"

    def cannot_look_up(self, trees: Sequence[str]) -> Mapping[str, str]:
        """Return the reason: windows are identified by record numbers, not by times."""
        why = (
            "is counted by records of a key, whatever their times. Leave `starts` and `windows` out, or ask with "
            "`latest=True`."
        )
        return {STARTS: why, WINDOWS: why}

    def fixed(self, trigger: Trigger, trees: Sequence[str]) -> Mapping[str, str]:
        """Return the changes of a live checkpoint that these windows do not allow, each with the reason."""
        windows = "refused: of counted records only those are kept that open windows hold. Start with a new checkpoint."
        results = (
            "refused: with which record of a key a change began is not stored, so partial windows could not be told. "
            "Start with a new checkpoint."
        )
        records = "refused: records are kept with the columns of all results. Start with a new checkpoint."
        found = {changes.WINDOWS: windows, changes.ADDED: results}
        return found | {changes.REMOVED: records} if EAGER in trees else found

    @property
    def cannot(self) -> Mapping[str, str]:
        """Return all questions but "closing", with the reason: a window fires once, when it is full."""
        why = (
            f"fires windows that are not full, or a second time; a window of {self.window} fires once, with "
            "its last record. Use on_close()."
        )
        return dict.fromkeys(set(QUESTIONS) - {CLOSING}, why)

    def history_from(self, until: int, trigger: Trigger, retain: int = 0) -> int | None:
        """Return None: all records count."""
        return None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the column that orders bounded input, if there is one; it follows all others."""
        return () if self.window.order_by is None else (self.window.order_by,)

    def kernels(
        self, kernels: tuple[Kernel, ...], arguments: Arguments, has_time: bool
    ) -> tuple[tuple[Kernel, ...], Arguments]:
        """Return the kernels and their columns, with `SPAN` as the last kernel if there is a time."""
        return ((*kernels, SPAN), (*arguments, (-1,))) if has_time else (kernels, arguments)

    def trees(self, trees: tuple[str, ...]) -> tuple[str, ...]:
        """Return eager for all kernels if one is eager: the state then has records, from which all are computed."""
        return (EAGER,) * len(trees) if EAGER in trees else trees

    def execution_plan(self, asked: Aggregation) -> Counted:
        """Return the execution plan."""
        return Counted(*asked.common, values=asked.values, ttl=self.window.ttl, fires_short=asked.fires_short)


@dataclass(frozen=True)
class Counted(Eager):
    """The plan that shuffles records in their order, and counts them by key.

    On bounded input with `order_by`, the last value is the column that orders the records. With `fires_short` the last
    window of a key fires at the end of bounded input, although it is not full.
    """

    values: tuple[Field, ...] = ()
    ttl: int | None = None
    fires_short: bool = False

    @property
    def content(self) -> Content:
        """Return the content of the rows of the state."""
        return content(self.shape, self.trees, self.arguments, self.values)

    def bucket(self, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger) -> Bucket:
        """Open the state of a bucket on a stream."""
        return CountingBucket(self.content, fingerprint, store, trigger, self.ttl)

    def all_windows(self, shipped: Iterable[Records]) -> Iterator[Windows]:
        """Yield all windows of a bucket of bounded input."""
        return all_counted(self.content, list(shipped), self.fires_short)
