"""Plans of windows whose state is a ledger of rows; nothing is assembled from slices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slicing.assembly.choice import EAGER
from slicing.explain.costs import Cost
from slicing.explain.plan import Plan


@dataclass(frozen=True)
class LedgerPlan(Plan):
    """A plan whose figures count rows of the state."""

    @property
    def _is_timed(self) -> bool:
        return False

    @property
    def has_dirty_set(self) -> bool:
        """Whether rows of the dirty set are stored in addition to those of the results."""
        return False

    @property
    def has_retraction_log(self) -> bool:
        """Whether rows of the retraction log are stored in addition to those of the results."""
        return False

    @property
    def eager(self) -> Plan:
        """The plan for comparison: each record reads, updates and writes the stored value of its key."""
        return replace(self, trees=(EAGER,) * len(self.trees))

    @property
    def per_record(self) -> Cost:
        """The maximum rows read and written per key with new records: appended, and rewritten when half are void."""
        if self.trees[0] == EAGER:
            return Cost(1, 1)
        return Cost(2, 2) + (Cost(2, 2) if self.has_dirty_set or self.has_retraction_log else Cost(0, 0))

    @property
    def per_window(self) -> Cost:
        """No cost: an emitted row costs no more than its records."""
        return Cost(0, 0)
