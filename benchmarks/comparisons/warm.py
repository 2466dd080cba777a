"""A warm start, against the bounded query over the same records and against the stream that replays them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from benchmarks.baselines.floor import BoundedFloor
from benchmarks.baselines.ours import Ours
from benchmarks.comparisons.comparison import FASTER, TIME, Comparison
from benchmarks.running import bounded, warm
from benchmarks.workloads.inputs import DAY, HOUR, MINUTE, NINETY_DAYS, ONE_DAY
from benchmarks.workloads.workload import Workload

COMPARED = 80_000
"""The maximum number of records on which rows are compared."""


@dataclass(frozen=True)
class SameRows:
    """A check that a warm start has the same rows as a cold replay."""

    workload: Workload
    size: str
    advance: str

    def difference(self) -> str | None:
        """Return how the rows differ, or None."""
        records, until = bounded.read(self.workload), warm.end(self.workload) - timedelta(hours=2)
        defined = warm.defined(self.workload, self.size, self.advance)
        try:
            rows = defined.check_warm(records, records, until=until)
        except ValueError as error:
            return str(error)
        return None if rows else "there are no rows"


def _compared(
    name: str, title: str, window: tuple[Workload, str, str], history: str = "a day of history"
) -> tuple[Comparison, ...]:
    workload, size, advance = window
    checks = (SameRows(workload.cut(min(0.002, COMPARED / workload.total)), size, advance),)
    return (
        Comparison(
            f"WarmStartBounded{name}",
            f"{history}, warm start of {title} / the bounded query over the same records",
            sides=lambda: (bounded.run(Ours(), *window), warm.start(*window)),
            checks=checks,
            goal=1.3,
            measure=TIME,
        ),
        Comparison(
            f"WarmStartReplay{name}",
            f"{history}, warm start of {title} / the stream that replays the records",
            sides=lambda: (warm.replay(*window), warm.start(*window)),
            checks=checks,
            goal=5.0,
            measure=FASTER,
        ),
    )


LONG = NINETY_DAYS, "90 days", ONE_DAY

BENCHMARKS = (
    *_compared("", "windows of an hour every minute, which need an hour of it", (DAY, HOUR, MINUTE)),
    *_compared("Day", "windows of a day every hour, which need all of it", (DAY, ONE_DAY, HOUR)),
    *_compared("NinetyDays", "windows of 90 days every day", LONG, "90 days of history"),
    Comparison(
        "WarmStartFloor",
        "90 days of history, its records read into Python and dropped / the stream that replays the records",
        # How many times faster than the replay a warm start could be at most, if it had no work to do.
        sides=lambda: (warm.replay(*LONG), bounded.run(BoundedFloor(0), *LONG)),
        checks=(),
        measure=FASTER,
    ),
)
