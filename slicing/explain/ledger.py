"""Plans of windows that are rows of a ledger: nothing is assembled from slices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slicing.assembly.choice import EAGER
from slicing.explain.costs import Cost
from slicing.explain.plan import Plan


@dataclass(frozen=True)
class LedgerPlan(Plan):
    """Figures are of rows of the state."""

    @property
    def _is_timed(self) -> bool:
        return False

    @property
    def marks(self) -> bool:
        """Whether small rows of the dirty set or the retraction log are kept together with those of results."""
        raise NotImplementedError

    @property
    def eager(self) -> Plan:
        """The plan to compare with: what the key of each record has is read, added to, and written."""
        return replace(self, trees=(EAGER,) * len(self.trees))

    @property
    def per_record(self) -> Cost:
        """Rows read and written of a key with records, at most: appended, and once more when half of all are void."""
        if self.trees[0] == EAGER:
            return Cost(1, 1)
        return Cost(2, 2) + (Cost(2, 2) if self.marks else Cost(0, 0))

    @property
    def per_window(self) -> Cost:
        """Return no further cost for an emitted row."""
        return Cost(0, 0)
