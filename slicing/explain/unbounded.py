"""The plan of a query over unbounded windows on a stream: totals of keys, stored as rows of a ledger."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.aggregates.kernel import Kernel
from slicing.explain.costs import MERGING, Cost
from slicing.explain.ledger import LedgerPlan
from slicing.explain.plan import ResultPlan, columns, size_of
from slicing.triggers.trigger import PAIRS, WAITING
from slicing.windows.families.family import Family


@dataclass(frozen=True)
class TotalsPlan(LedgerPlan):
    """The plan of totals on a stream.

    Figures count rows of the state. A row holds the records of a key in one micro-batch.
    """

    @property
    def state_bytes_per_key(self) -> int:
        """The estimated bytes of the state of a key, before compression."""
        rows = 2 * (sum(each.partial_bytes for each in self.assemblies) + _ROW_BYTES)
        return rows + (2 * _ROW_BYTES if self.has_dirty_set else 0)

    @property
    def has_dirty_set(self) -> bool:
        """Whether the state has a dirty set of keys, or record counts for a trigger."""
        return bool(self.trigger.asks & {WAITING, PAIRS})

    def _reason(self, kernel: Kernel, tree: str, family: Family) -> str:
        return "it never closes"

    def _tree(self, each: ResultPlan) -> str:
        return "totals"

    def _shape(self) -> list[tuple[str, str]]:
        return [("shuffled", "a partial for each key of an input partition")]

    def _costs(self) -> str:
        eager = str(self.eager.per_record)
        return columns(
            [
                ("rows of a key", "this plan", "eager plan"),
                ("per micro-batch, at most", str(self.per_record), eager),
                ("  if small pages are merged, more", str(MERGING), str(Cost(0, 0))),
                ("  totals held by the process", str(Cost(0, self.per_record.writes)), eager),
                ("per emitted row", "1 combine", "1 combine for each record since"),
            ]
        )

    def _state(self) -> str:
        rows = [(each.name, "2 rows", each.size) for each in self.assemblies]
        dirty_set = [("dirty set", "2 rows", f"{_ROW_BYTES} bytes")] if self.has_dirty_set else []
        total = f"about {size_of(self.state_bytes_per_key)} per key before compression"
        return columns([("state per key", "kept, at most", "size"), *rows, *dirty_set]) + f"\n{total}"


_ROW_BYTES = 20
"""The clock of the last record (8 bytes), code of the key (4), count of records (8)."""
