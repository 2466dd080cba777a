"""The plan of a query over sessions: windows that are merged, not assembled from slices."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.explain.costs import MERGING, Cost
from slicing.explain.ledger import LedgerPlan
from slicing.explain.plan import columns, size_of
from slicing.windows.session import SESSION, Session


@dataclass(frozen=True)
class SessionPlan(LedgerPlan):
    """The plan of sessions.

    Figures count rows of the state. A row holds the records of a key at one time, or overlapping ones.
    """

    @property
    def session(self) -> Session:
        """The session window of the query."""
        assert isinstance(self.windows, Session)
        return self.windows

    @property
    def has_retraction_log(self) -> bool:
        """Whether the state has a retraction log of emitted sessions."""
        return not self.trigger.fires_once

    @property
    def shipped(self) -> str:
        """The output of the first stage, in words."""
        ordered = any(kernel.aggregate.ordered for kernel in self.shape.kernels)
        late_by_record = self.streaming and self.session.late_by != SESSION
        if self.trigger.ends:
            return "a partial for each key and time, which an end may part, and the times of ends"
        if ordered or late_by_record:
            same = "key, time and gap" if self.session.gap is None else "key and time"
            why = "late ones are told apart behind the shuffle" if late_by_record else "order is kept"
            return f"a partial for each {same}: {why}"
        return "a partial for each sub-session of an input partition"

    @property
    def state_bytes_per_key(self) -> int:
        """The estimated bytes of a stream's state for a key with one open session; 0 for bounded input."""
        if not self.streaming:
            return 0
        rows = 2 * (sum(each.partial_bytes for each in self.assemblies) + _ROW_BYTES)
        return rows + (2 * _ROW_BYTES if self.has_retraction_log else 0)

    def _shape(self) -> list[tuple[str, str]]:
        return [("shuffled", self.shipped)]

    def _costs(self) -> str:
        head = ("rows of a key", "this plan", "eager plan")
        if not self.streaming:
            return columns([head, ("per record, at most", "1 through the shuffle", str(self.eager.per_record))])
        held = Cost(0, self.per_record.writes)
        return columns(
            [
                head,
                ("per record, at most", str(self.per_record), str(self.eager.per_record)),
                ("  if small pages are merged, more", str(MERGING), str(Cost(0, 0))),
                ("  open sessions held by the process", str(held), str(self.eager.per_record)),
                ("per session", "1 combine for each of its rows but one", "1 combine for each of its records"),
            ]
        )

    def _state(self) -> str:
        if self.trigger.ends:
            rows = [(each.name, "2 rows for each time of an open session", each.size) for each in self.assemblies]
            rows += [("ends", "2 rows for each end of an open session", f"{_ROW_BYTES} bytes")]
        else:
            rows = [(each.name, "2 rows for each open session", each.size) for each in self.assemblies]
        shown = (
            []
            if self.trigger.fires_once
            else [("retraction log", "2 rows for each open session", f"{_ROW_BYTES} bytes")]
        )
        total = f"about {size_of(self.state_bytes_per_key)} per key with an open session, before compression"
        return columns([("state per key", "rows kept, at most", "size"), *rows, *shown]) + f"\n{total}"


_ROW_BYTES = 28
"""Start and end (8 bytes each), code of the key (4), count of records (8)."""
