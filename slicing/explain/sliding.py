"""The plan of a query over sliding windows, which begin or end at the times of records."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.aggregates.kernel import Kernel
from slicing.assembly.choice import EAGER, is_additive
from slicing.explain.costs import MERGING, Cost
from slicing.explain.ledger import LedgerPlan
from slicing.explain.plan import columns, size_of
from slicing.windows.families.family import Family
from slicing.windows.sliding import Sliding
from slicing.windows.time.durations import show


@dataclass(frozen=True)
class SlidingPlan(LedgerPlan):
    """The plan of sliding windows. Figures count rows of the state; a row holds the records of a key at one time."""

    @property
    def sliding(self) -> Sliding:
        """The sliding window of the query."""
        assert isinstance(self.windows, Sliding)
        return self.windows

    @property
    def per_record(self) -> Cost:
        """The maximum rows read and written per record: read once per process, and rewritten once with its page."""
        return Cost(1, 1) if self.trees[0] == EAGER else Cost(1, 2)

    @property
    def state_bytes_per_key(self) -> int:
        """The estimated state bytes per distinct time of a key within the difference; 0 for bounded input."""
        if not self.streaming:
            return 0
        return sum(each.partial_bytes for each in self.stored) + _ROW_BYTES - self._once_in_a_row

    def _reason(self, kernel: Kernel, tree: str, family: Family) -> str:
        return "asked for" if tree == EAGER else "records decide which windows there are"

    def _shape(self) -> list[tuple[str, str]]:
        windows = "2 for each distinct time of a key at most" if self.sliding.right else "1 for each time of a key"
        return [
            ("exist", windows),
            ("shuffled", f"a partial for each key and time, floored to {show(self.sliding.unit)}"),
        ]

    def _costs(self) -> str:
        head = ("rows of a key", "this plan", "eager plan")
        each = "1 read, 1 write for each of its windows"
        windows = [(f"per window of m times: {a.name}", _combines(a.kernel), "none") for a in self.stored]
        if not self.streaming:
            return columns([head, ("per record, at most", "1 through the shuffle", each), *windows])
        held = Cost(0, self.per_record.writes)
        return columns(
            [
                head,
                ("per record, at most", str(self.per_record), each),
                ("  if small pages are merged, more", str(MERGING), str(Cost(0, 0))),
                ("  rows held by the process", str(held), each),
                *windows,
            ]
        )

    def _state(self) -> str:
        times = f"1 row for each time of the last {show(self.sliding.difference)}"
        rows = [
            (each.name, f"fields of {each.host}" if each.host else times, "" if each.host else each.size)
            for each in self.assemblies
        ]
        total = f"about {size_of(self.state_bytes_per_key)} per key and time, before compression"
        return columns([("state per key", "rows kept, at most", "size"), *rows]) + f"\n{total}"


def _combines(kernel: Kernel) -> str:
    return "0 combines" if is_additive(kernel) else "2 log2(m) combines at most"


_ROW_BYTES = 20
"""The bytes of time (8), code of the key (4) and count of records (8)."""
