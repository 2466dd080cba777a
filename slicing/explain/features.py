"""The plan of point-in-time features: windows as of the rows of a spine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slicing.aggregates.kernel import Kernel
from slicing.assembly.choice import is_additive
from slicing.explain.plan import Plan, ResultPlan, columns
from slicing.windows.families.family import Family

ADDED, JOINED = "running totals", "ranges"
"""How the rows of a window are combined: by one subtraction, or from precomputed runs of 2, 4, 8, ... rows."""


@dataclass(frozen=True)
class FeaturesPlan(Plan):
    """The plan of `features_at`. Figures are per spine row and window length; m is the number of times with records."""

    @property
    def assemblies(self) -> tuple[ResultPlan, ...]:
        """The plan of each result, which is the same for all lengths."""
        numbers = range(len(self.shape.kernels))
        return tuple(replace(self._assembly(0, number), windows="") for number in numbers)

    def combines(self, number: int) -> str:
        """Return the cost of result `number` per row of the spine and length, as text."""
        return "1 subtraction" if is_additive(self.shape.kernels[number]) else "log2(m) combines, 2 log2(m) at worst"

    def _reason(self, kernel: Kernel, tree: str, family: Family) -> str:
        return "exact `invert`" if is_additive(kernel) else "joined from nodes of 2, 4, 8 ... rows"

    def _tree(self, each: ResultPlan) -> str:
        return ADDED if is_additive(each.kernel) else JOINED

    def _shape(self) -> list[tuple[str, str]]:
        return [
            ("shuffled", "a partial for each key and microsecond with records, and the rows of the spine"),
            ("memory", "a bucket at a time: its partials twice, the rows of the spine that ask for them"),
        ]

    def _costs(self) -> str:
        head = ("", "this plan", "a join")
        rows = [
            (
                f"per row of the spine: {each.name}",
                "fields of " + each.host if each.host else self.combines(number),
                "its records",
            )
            for number, each in enumerate(self.assemblies)
        ]
        record = ("per record", "1 through the shuffle", "1 through the shuffle, a copy for each row it is in")
        return columns([head, record, *rows])
