"""The plan of a query over count windows; its state is a ledger of rows, each with the records of a key in a slice."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.aggregates.kernel import Kernel
from slicing.assembly.choice import EAGER, is_additive
from slicing.drawing import counted, number
from slicing.explain.costs import MERGING, Cost
from slicing.explain.ledger import LedgerPlan
from slicing.explain.plan import ResultPlan, columns, combines, size_of
from slicing.windows.counting import CountingFamily
from slicing.windows.families.family import Family


@dataclass(frozen=True)
class CountingPlan(LedgerPlan):
    """The plan of count windows.

    Figures count rows of the state. A row holds the new records of a key in one slice, or a single record.
    """

    @property
    def keeps_records(self) -> bool:
        """Whether rows are single records, because an aggregate has no `combine`."""
        return EAGER in self.trees

    @property
    def family(self) -> CountingFamily:
        """The family of the windows, over slices or, if records are kept, over single records."""
        assert isinstance(self.shape.family, CountingFamily)
        return self.shape.family.by_record if self.keeps_records else self.shape.family

    @property
    def per_record(self) -> Cost:
        """The maximum rows read and written per key with new records: appended, and rewritten when half are void."""
        return Cost(2, 2)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row before compression."""
        own = self.record_bytes if self.keeps_records else sum(each.partial_bytes for each in self.assemblies)
        return own + _ROW_BYTES

    @property
    def state_bytes_per_key(self) -> int:
        """The estimated bytes of a stream's state for a key just before a window is full; 0 for bounded input."""
        return 2 * self.family.longest * self.row_bytes if self.streaming else 0

    def _reason(self, kernel: Kernel, tree: str, family: Family) -> str:
        if tree != EAGER:
            return "slices of so many records"
        return "no `combine`" if kernel.aggregate.combine is None else "beside one that is"

    def _eager(self) -> str:
        return f"records are kept, and each window folds its own, {self.family.longest:,} at most"

    def _shape(self) -> list[tuple[str, str]]:
        slices = f"n = {self.family.longest:,} per window, of {counted(self.family.unit, 'record')}"
        return [
            ("ratio", f"R = {number(self.ratio)} windows per record"),
            ("slices", slices),
            ("shuffled", f"records in their order, about {self.record_bytes} bytes each"),
        ]

    def _costs(self) -> str:
        head = ("rows of a key", "this plan", "eager plan")
        windows = [(f"per window: {each.name}", self._per_window(each), self._folds) for each in self.assemblies]
        if not self.streaming:
            return columns([head, ("per record", "1 through the shuffle", "1 through the shuffle"), *windows])
        record = ("per record, at most", str(self.per_record), str(self.per_record))
        held = Cost(0, self.per_record.writes)
        return columns(
            [
                head,
                record,
                ("  if small pages are merged, more", str(MERGING), str(MERGING)),
                ("  rows held by the process", str(held), str(held)),
                *windows,
            ]
        )

    @property
    def _folds(self) -> str:
        assert isinstance(self.shape.family, CountingFamily)
        return f"{counted(self.shape.family.size_in_records, 'record')} folded"

    def _per_window(self, each: ResultPlan) -> str:
        if each.tree == EAGER:
            return self._folds
        return "added, without combines" if is_additive(each.kernel) else combines(each)

    def _state(self) -> str:
        rows, what = counted(2 * self.family.longest, "row"), "records" if self.keeps_records else "partials"
        size = f"{self.row_bytes} bytes, about"
        total = f"about {size_of(self.state_bytes_per_key)} per key before compression, just before a window is full"
        return columns([("state per key", "kept, at most", "size"), (what, rows, size)]) + f"\n{total}"


_ROW_BYTES = 36
"""The slice number and the first record's number (8 bytes each), clock (8), key code (4), record count (8)."""
