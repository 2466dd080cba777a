"""Ours against ours at an older commit: `python -m benchmarks.against COMMIT` runs it.

Each tree has its own process. The sides alternate, one whole stream at a time, and the best turn of each counts, so
that other load on the machine matters little. The first turn warms up; in it, the rows of both sides are compared by
number and by the sum of their hashes. The accounting is counted, not timed, in one turn: one record per key and slice.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.comparisons.accounting import SECOND
from benchmarks.comparisons.accounting_on_spark import SCHEMA, micro_batches, write
from benchmarks.workloads.inputs import DAY, DENSE, HOUR, KEYS, MINUTE, SLIDING, SMALL, TEN_MINUTES, TEN_SECONDS
from benchmarks.workloads.workload import Workload, scratch
from slicing.windows.families.even import Even

Run = Callable[..., dict[str, Any]]
"""Runs a stream in the process of a tree, and returns what `Process.watched` returns."""

HEAD = ("ours / ours of the commit", "now", "then", "ratio", "goal", "worker, MiB: now / then")


@dataclass(frozen=True)
class Timed:
    """Seconds of a steady micro-batch: the median of those after the history and two more micro-batches.

    The last cell is the peak memory of a Python worker in any of the turns.
    """

    name: str
    workload: Workload
    size: str
    advance: str
    goal: float = 1.05
    functions: str = "columns"
    kind: str = "hopping"

    def compared(self, now: Run, then: Run, turns: int, share: float) -> Sequence[str]:
        """Return a line of the table, for a share of records and keys."""
        workload = self.workload if share == 1 else self.workload.cut(share)
        files = {"path": str(workload.path()), "files": workload.parts, "schema": workload.schema}
        files |= {"functions": self.functions, "kind": self.kind}
        window = {"delay": "5 seconds", "size": self.size, "advance": self.advance, "last": workload.batches - 2}
        if differs := difference(*(run(**files, **window, hashed=True) for run in (now, then))):
            return (self.name, "", "", differs, "", "")
        found = [[run(**files, **window) for run in (now, then)] for _ in range(turns)]
        ours, theirs = (min(each["seconds"] for each in side) for side in zip(*found, strict=True))
        memory = (f"{max(each['mib'] for each in side):.0f}" for side in zip(*found, strict=True))
        verdict = _verdict_cells(ours, theirs, self.goal)
        return (self.name, f"{ours:.3f} s", f"{theirs:.3f} s", *verdict, " / ".join(memory))


@dataclass(frozen=True)
class Counted:
    """Partials per key that a micro-batch reads / writes, with one record per key and one closing window.

    Windows fire on close only. With a trigger on update the bucket cache saves reads in the process that had the bucket
    before, and Spark chooses the process: the counts of the same code were 4.67 and 10.17 reads per key.
    """

    name: str
    tree: str
    column: str = "v"
    goal: float = 1.0

    def compared(self, now: Run, then: Run, turns: int, share: float) -> Sequence[str]:
        """Return a line of the table, at R = 12."""
        keys, ratio = max(1, round(800 * share)), 12
        batches, period = micro_batches(Even(ratio * SECOND, SECOND))
        query = {"tree": self.tree, "column": self.column, "last": period, "hashed": True}
        window = {"delay": "0 seconds", "size": f"{ratio} seconds", "advance": "1 second"}
        with scratch() as folder:
            write(folder, ratio, batches, keys)
            both = [run(path=str(folder), files=1, schema=SCHEMA, **window, **query) for run in (now, then)]
        counts = [[count / keys for count in found["partials"]] for found in both]
        cells = (f"{read:.2f} / {written:.2f}" for read, written in counts)
        if differs := difference(*both) or ("" if sum(counts[1]) else "not counted then"):
            return (self.name, *cells, differs, "", "")
        return (self.name, *cells, *_verdict_cells(*map(sum, counts), self.goal), "")


LINES = (
    Timed("day, R = 60", DAY, HOUR, MINUTE),
    Timed("day, R = 60, four functions that are not traceable", DAY, HOUR, MINUTE, 0.5, "rows"),
    Timed("day, tumbling (R = 1)", DAY, MINUTE, MINUTE),
    Timed("dense, R = 360", DENSE, HOUR, TEN_SECONDS),
    Timed("keys, R = 60", KEYS, HOUR, MINUTE),
    Timed("fixed cost, R = 360", SMALL, HOUR, TEN_SECONDS),
    Timed("several, R = 360 and two more lengths", DENSE, HOUR, TEN_SECONDS, kind="several"),
    Timed("sessions, gap of 10 seconds", DENSE, TEN_SECONDS, "", kind="sessions"),
    Timed("sliding, 10 minutes", SLIDING, TEN_MINUTES, "", kind="sliding"),
    Counted("accounting, on close, two-layer", "two_layer"),
    Counted("accounting, on close, three-layer", "three_layer", "d"),
    Counted("accounting, on close, recompute", "recompute"),
    Counted("accounting, on close, eager", "eager"),
)


def lines(now: Run, then: Run, chosen: Sequence[str], turns: int, share: float) -> Iterator[Sequence[str]]:
    """Yield the lines whose name contains a chosen part, or all, each as soon as it is measured."""
    for each in LINES:
        if not chosen or any(part in each.name for part in chosen):
            yield each.compared(now, then, turns, share)


def _verdict_cells(ours: float, theirs: float, goal: float) -> tuple[str, str]:
    verdict = "reached" if ours / theirs <= goal else "missed"
    return f"{ours / theirs:.3f}", f"<= {goal:g} ({verdict})"


def difference(now: dict[str, Any], then: dict[str, Any]) -> str:
    """Return how the rows of two trees differ, "" if they are equal."""
    if not now["rows"]:
        return "no rows at all"
    if now["rows"] != then["rows"]:
        return f"rows differ: {now['rows']:,}, then {then['rows']:,}"
    return "" if now["hashes"] == then["hashes"] else "rows differ: their hashes sum to another value"
