"""The traced form of an aggregate's functions compared with the functions themselves, while the query is built.

That they agree is what tracing promises. Where they do not, tracing is at fault: it is said so, and rows are used.
"""

from __future__ import annotations

import math
import random
import struct
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Partials
from slicing.aggregates.fields import INTEGERS, arrow_type
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.laws import Counterexample
from slicing.aggregates.tracing.formulas import TYPES
from slicing.aggregates.tracing.kernel import TracedKernel
from slicing.errors import RowFailure

RECORDS = 160
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 1e16, -1e300, 5e-324, math.inf, -math.inf, math.nan)
_TOLERANCE = 1e-9


def verify(kernel: Kernel, kinds: Sequence[str], samples: Callable[[str], Sequence[Any]]) -> None:
    """Compare what is traced of a kernel with its rows, and let it run by rows if they differ.

    Takes values of these kinds: random ones and edges of numbers, `samples` of other kinds.
    """
    if not isinstance(kernel, TracedKernel):
        return
    kernel.traced_agg([TYPES.get(kind, kind) for kind in kinds])
    found = ""
    comparison = _Comparison(kernel, kinds, samples)
    with suppress(Exception):  # of a user's function, which then fails in the query too
        if not comparison.is_steady():
            kernel.distrust("its functions do not return the same twice for the same values")
            return
        found = comparison.found()
    if found:
        _report(kernel, found)
    elif not comparison.is_plain():
        kernel.distrust("its functions return other numbers than Python's own")


def verify_law(kernel: TracedKernel, found: Counterexample | None) -> None:
    """Let a kernel run by rows whose traced form breaks a law that its rows keep."""
    if found is not None:
        _report(kernel, f"`{kernel.label}` breaks a law by columns that it keeps by rows: {found}")


def _report(kernel: TracedKernel, found: str) -> None:
    kernel.distrust(found)
    warnings.warn(f"{found}. This is a bug of tracing: please report it. `columns=False` avoids it.", stacklevel=2)


class _Comparison:
    def __init__(self, kernel: TracedKernel, kinds: Sequence[str], samples: Callable[[str], Sequence[Any]]):
        self.kernel, self.kinds, self.samples = kernel, kinds, samples
        self.choice = random.Random(0)
        columns = [self._values(kind) for kind in kinds]
        self.records = list(zip(*columns, strict=True)) if columns else [()] * RECORDS
        self.good = self._good(kernel.rows, self.records)

    def is_steady(self) -> bool:
        """Whether `agg` by rows is the same twice; if not, the difference says nothing about tracing."""
        first, second = (_outcome(lambda: self._fold(self.kernel.rows, self.good, _runs(self.good, 3))) for _ in "ab")
        return self._equal(first, second)

    def is_plain(self) -> bool:
        """Whether functions that run by rows return Python's own numbers, as far as samples tell."""
        kernel, rows = self.kernel, self.kernel.rows
        if not kernel.by_rows.keys() - {"lower"}:
            return True
        try:
            made = rows.fold(self._arrays(rows, self.good), np.array(_runs(self.good, 3)), len(self.good))[0]
            others = np.roll(made, 1)
            both = rows.combine([made], [others])[0] if kernel.aggregate.combine else made
            less = rows.invert([both], [made])[0] if kernel.aggregate.invert else made
        except Exception:
            return True  # it raises; that says nothing about what it is meant for
        return all(map(kernel.cells.is_plain, (*made.tolist(), *both.tolist(), *less.tolist())))

    def found(self) -> str:
        """The first difference, empty if there is none."""
        kernel, rows = self.kernel, self.kernel.rows
        forgiven = self._forgiven()
        for some in (self.records, self.good):
            for step in (1, 3):
                pair = [
                    _outcome(lambda k=k, s=some, n=step: self._fold(k, s, _runs(s, n)))  # type: ignore[misc]
                    for k in (rows, kernel)
                ]
                if not self._equal(pair[0], pair[1], forgiven):
                    return f"`agg` of `{kernel.label}` is not the same by columns as by rows"
        onto = _outcome(lambda: self._fold(rows, self.good, _runs(self.good, 2)))
        if not (onto[0] and self.good):
            return ""
        # Once more, on the partials of the first round: on `init()` alone much is the same that is not later.
        again = self.good[: len(onto[1])]
        pair = [_outcome(lambda k=k: self._fold(k, again, _runs(again, 1), onto[1])) for k in (rows, kernel)]  # type: ignore[misc]
        if not self._equal(pair[0], pair[1], forgiven):
            return f"`agg` of `{kernel.label}` is not the same by columns as by rows"
        return self._of_partials(onto[1])

    def _forgiven(self) -> frozenset[int]:
        """The fields that floats are added in, which come to other sums in another order."""
        kernel = self.kernel
        agg = kernel.traced_agg([TYPES.get(kind, kind) for kind in self.kinds])
        if agg is None or agg.steps is None:
            return frozenset()
        pairs = enumerate(zip(agg.steps, kernel.signature.types, strict=True))
        return frozenset(at for at, (step, type_) in pairs if step.op == "add" and type_ == "float")

    def _good(self, rows: Kernel, records: list[Any]) -> list[Any]:
        """The records that `agg` takes, by rows."""
        left = list(records)
        while left:
            made, found = _outcome(lambda: self._fold(rows, left, list(range(len(left)))))
            if made:
                break
            del left[found[2]]
        return left

    def _of_partials(self, partials: list[Any]) -> str:
        kernel, rows = self.kernel, self.kernel.rows
        others = partials[1:] + partials[:1]
        for name in ("combine", "invert", "lower"):
            if kernel.formulas[name] is None:
                continue
            pair = [
                _outcome(lambda k=k, n=name: self._called(k, n, partials, others))  # type: ignore[misc]
                for k in (rows, kernel)
            ]
            if not self._equal(pair[0], pair[1]):
                return f"`{name}` of `{kernel.label}` is not the same by columns as by rows"
        return ""

    def _called(self, kernel: Kernel, name: str, a: list[Any], b: list[Any]) -> list[Any]:
        held = [self._held(kernel, items) for items in (a, b)]
        if name == "lower":
            columns = [array.to_pylist() for array in kernel.results_to_arrow(held[0], None)]
            return list(zip(*columns, strict=True))
        call = kernel.combine if name == "combine" else kernel.invert
        return self._objects(kernel, call(*held))

    def _fold(self, kernel: Kernel, records: list[Any], starts: list[int], onto: list[Any] | None = None) -> list[Any]:
        begun = None if onto is None else self._held(kernel, onto)
        made = kernel.fold(self._arrays(kernel, records), np.array(starts, dtype=np.int64), len(records), begun)
        return self._objects(kernel, made)

    def _arrays(self, kernel: Kernel, records: list[Any]) -> list[Any]:
        arrays = (
            [
                pa.array(column, arrow_type(kind))
                for column, kind in zip(zip(*records, strict=True), self.kinds, strict=True)
            ]
            if records and self.kinds
            else [pa.array([], arrow_type(kind)) for kind in self.kinds]
        )
        return kernel.values(arrays)[0]

    def _objects(self, kernel: Kernel, partials: Partials) -> list[Any]:
        cells = self.kernel.cells
        return cells.objects(partials if kernel is self.kernel else cells.columns(partials[0].tolist()))

    def _held(self, kernel: Kernel, items: list[Any]) -> Partials:
        columns = self.kernel.cells.columns(items)
        return columns if kernel is self.kernel else self.kernel._objects(columns)

    def _equal(self, rows: tuple[bool, Any], traced: tuple[bool, Any], forgiven: frozenset[int] = frozenset()) -> bool:
        if rows[0] != traced[0] or not rows[0]:
            return rows == traced
        return len(rows[1]) == len(traced[1]) and all(
            _same(x, y, forgiven) for x, y in zip(rows[1], traced[1], strict=True)
        )

    def _values(self, kind: str) -> list[Any]:
        choice, nulls = self.choice, self.kernel.aggregate.nulls
        if kind in INTEGERS:
            most = 2 ** (_BITS[kind] - 1)
            edges = [0, 1, -1, most - 1, -most, most // 2, 2 ** min(53, _BITS[kind] - 2)]
            some = [choice.choice(edges) if at % 4 == 0 else choice.randint(-99, 99) for at in range(RECORDS)]
        elif kind in TYPES and TYPES[kind] == "float":
            drawn = [choice.choice(_FLOATS) if at % 4 == 0 else choice.uniform(-99, 99) for at in range(RECORDS)]
            some = [struct.unpack("<f", struct.pack("<f", x))[0] if abs(x) < 1e30 else x for x in drawn]
            some = drawn if kind == "double" else [0.0 if math.isfinite(x) and abs(x) > 1e30 else x for x in some]
        elif kind == "boolean":
            some = [choice.random() < 0.5 for _ in range(RECORDS)]
        else:
            given = list(self.samples(kind))
            some = [given[at % len(given)] for at in range(RECORDS)]
        return [None if nulls and at % 5 == 0 else value for at, value in enumerate(some)]


def _outcome(function: Callable[[], list[Any]]) -> tuple[bool, Any]:
    try:
        return True, function()
    except RowFailure as failure:
        return False, (failure.rule, failure.cause, failure.index)


def _runs(records: Sequence[Any], step: int) -> list[int]:
    """Where groups of so many records begin; there are enough of them for columns."""
    return list(range(0, len(records), step))


def _same(x: Any, y: Any, forgiven: frozenset[int], at: int = 0) -> bool:
    """Whether partials are the same; floats of fields `forgiven` may be sums of the same numbers in another order."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(_same(i, j, forgiven, n) for n, (i, j) in enumerate(zip(x, y, strict=True)))
    if type(x) is not type(y):
        return False
    if not isinstance(x, float):
        return bool(x == y)
    if math.isnan(x) and math.isnan(y):
        return True
    if at not in forgiven:
        return bool(x.hex() == y.hex())
    if not (math.isfinite(x) and math.isfinite(y) and abs(x) < 1e15):
        return True  # sums of what is very large come to anything in another order
    return math.isclose(x, y, rel_tol=_TOLERANCE, abs_tol=1e3 * _TOLERANCE)
