"""How late the records of a stream were, and how many another watermark delay would have kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from typing import Any

from slicing.drawing import counted, exact_duration, percent, size
from slicing.errors import InvalidValue, excerpt
from slicing.stages.metrics import LONGEST_DELAY, REQUIRED_DELAYS, RETAINED, WATERMARK_DELAY
from slicing.triggers.required_delay import BOUNDS
from slicing.windows.time.durations import Duration, microseconds
from slicing.windows.time.slices import FOREVER


@dataclass(frozen=True)
class Lateness:
    """The records of some micro-batches, counted by their required delay. Times are in microseconds.

    The required delay of a record is the shortest watermark delay with which it counts in all of its windows. `counts`
    has one number per bound in `BOUNDS`, of the records between the previous bound and this one, then the number beyond
    the last. `longest` is the longest required delay. `late` is the number of records that were late, None if the delay
    changed in between. `delay` is the watermark delay of the newest micro-batch, `state` the bytes of its state, and
    `retained` how long a record stays in the state. `dropped` is the number of rows that the query's other stateful
    operators dropped by the same watermark, those before the windows and those after them, which drop rows of windows;
    None if it has no other. Their required delay is not known. Add values with `+`, the newest last.
    """

    counts: tuple[int, ...]
    longest: int
    late: int | None
    delay: int
    retained: int | None
    state: int
    dropped: int | None = None

    @classmethod
    def of(cls, metrics: Mapping[str, Any], state: int) -> Lateness | None:
        """Return the lateness that an aggregation reports for a micro-batch, None if time closes no window.

        `metrics` are the observed metrics of Spark's progress report, `state` is the size of the state in bytes.
        """
        counts = metrics.get(REQUIRED_DELAYS)
        if counts is None:
            return None
        late = metrics["late"] + metrics["late_for_some"]
        retained = metrics[RETAINED]
        return cls(tuple(counts), metrics[LONGEST_DELAY], late, metrics[WATERMARK_DELAY], retained or None, state)

    def __add__(self, other: Lateness) -> Lateness:
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        comparable = self.late is not None and other.late is not None and self.delay == other.delay
        late = (self.late or 0) + (other.late or 0) if comparable else None
        dropped = [each for each in (self.dropped, other.dropped) if each is not None]
        return Lateness(
            counts,
            max(self.longest, other.longest),
            late,
            other.delay,
            other.retained,
            other.state,
            sum(dropped) if dropped else None,
        )

    @property
    def records(self) -> int:
        """The number of records that were in a window."""
        return sum(self.counts)

    def kept(self, delay: Duration) -> float:
        """Return the share of records that count in all of their windows with a delay; 1.0 if there are no records.

        It is exact for the delay of the query, for each of the bounds, and from the longest required delay on. For
        other delays it is a lower limit: the share at the next shorter bound. Rows that other operators dropped count
        as lost with any delay; what they would drop with a shorter one is not known.
        """
        length = microseconds(delay, "delay")
        if length < 0:
            raise InvalidValue(f"`delay` must not be negative; got {excerpt(delay)}.")
        return self._kept(length) / self._rows if self._rows else 1.0

    def delay_for(self, share: float) -> timedelta | None:
        """Return the shortest known delay with which at least this share of records counts in all of its windows.

        Known delays are the bounds, the delay of the query and the longest required delay; none below that of the query
        if it has other stateful operators. None if no known delay is long enough, which happens with records before
        1970 and with rows that other operators dropped.
        """
        if not 0 <= share <= 1:
            raise InvalidValue(f"`share` is a number from 0 to 1; got {excerpt(share)}.")
        shortest = 0 if self.dropped is None else self.delay
        known = sorted(each for each in {*BOUNDS, self.delay, self.longest} - {FOREVER} if each >= shortest)
        found = (delay for delay in known if self._kept(delay) >= share * self._rows)
        return next((timedelta(microseconds=delay) for delay in found), None)

    def __str__(self) -> str:
        records = counted(self.records, "record")
        if not self.dropped:
            return self._of_windows(records)
        found = self._of_windows(f"{records} that reached the windows")
        return f"{found}; another operator dropped {counted(self.dropped, 'record')}; its delay is the watermark's"

    def _of_windows(self, records: str) -> str:
        """What the delay kept in the windows and what another one would have kept there, as text."""
        if not self.records:
            return "no record has been counted yet"
        kept, now = self._kept(self.delay), exact_duration(self.delay)
        if kept == self.records:
            less = self.delay - self.longest if self.dropped is None else 0
            return f"a delay of {now} kept all of {records}" + (
                f"; {exact_duration(self.longest)} would have been enough{self._bytes(-less)}" if less > 0 else ""
            )
        said = [f"a delay of {now} kept {percent(kept, self.records)} of {records}"]
        most = next((b for b in BOUNDS if b > self.delay and self._missed(b) <= (self.records - kept) / 10), FOREVER)
        if most < self.longest:
            said.append(
                f"{exact_duration(most)} would have kept {percent(self._kept(most), self.records)}"
                f"{self._bytes(most - self.delay)}"
            )
        if self.longest < FOREVER:
            more = self.longest - self.delay
            said.append(f"{exact_duration(more)} more would have kept all{self._bytes(more)}")
        return "; ".join(said)

    @property
    def _rows(self) -> int:
        """The number of records that were in a window or that another operator dropped."""
        return self.records + (self.dropped or 0)

    def _kept(self, delay: int) -> int:
        """The number of records that count in all of their windows with a delay; a lower limit between bounds."""
        if delay >= self.longest:
            return self.records
        if delay == self.delay and self.late is not None:
            return self.records - self.late
        return sum(count for count, bound in zip(self.counts, BOUNDS, strict=False) if bound <= delay)

    def _missed(self, delay: int) -> int:
        return self.records - self._kept(delay)

    def _bytes(self, change: int) -> str:
        """The change of the state's size as text; the state grows in proportion to how long records stay in it."""
        if self.retained is None or not self.state:
            return ""
        amount = size(self.state * abs(change) / self.retained)
        return f" (about {amount} {'more' if change > 0 else 'less'} state)"

    def cumulative(self) -> list[tuple[float, int]]:
        """Return pairs (bound in seconds, number of records that need at most it); the last bound is infinity."""
        bounds = [*(bound / 1e6 for bound in BOUNDS), float("inf")]
        return list(zip(bounds, accumulate(self.counts), strict=True))
