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
    with suppress(Exception):  # of a user's function, which then fails in the query too
        found = _Comparison(kernel, kinds, samples).found()
    if found:
        _report(kernel, found)
    elif not _plain(kernel, kinds, samples):
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

    def found(self) -> str:
        """The first difference, empty if there is none."""
        kernel, rows = self.kernel, self.kernel.rows
        columns = [self._values(kind) for kind in self.kinds]
        records = list(zip(*columns, strict=True)) if columns else [()] * RECORDS
        good = self._good(rows, records)
        for some in (records, good):
            for step in (1, 4):
                starts = list(range(0, len(some), step))
                pair = [_outcome(lambda k=k, s=some, at=starts: self._fold(k, s, at)) for k in (rows, kernel)]  # type: ignore[misc]
                if not self._equal(pair[0], pair[1], sums=True):
                    return f"`agg` of `{kernel.label}` is not the same by columns as by rows"
        made = _outcome(lambda: self._fold(rows, good, list(range(0, len(good), 2))))
        return self._of_partials(made[1]) if made[0] and good else ""

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

    def _fold(self, kernel: Kernel, records: list[Any], starts: list[int]) -> list[Any]:
        arrays = (
            [
                pa.array(column, arrow_type(kind))
                for column, kind in zip(zip(*records, strict=True), self.kinds, strict=True)
            ]
            if records and self.kinds
            else [pa.array([], arrow_type(kind)) for kind in self.kinds]
        )
        values, _ = kernel.values(arrays)
        return self._objects(kernel, kernel.fold(values, np.array(starts, dtype=np.int64), len(records)))

    def _objects(self, kernel: Kernel, partials: Partials) -> list[Any]:
        cells = self.kernel.cells
        return cells.objects(partials if kernel is self.kernel else cells.columns(partials[0].tolist()))

    def _held(self, kernel: Kernel, items: list[Any]) -> Partials:
        columns = self.kernel.cells.columns(items)
        return columns if kernel is self.kernel else self.kernel._objects(columns)

    def _equal(self, rows: tuple[bool, Any], traced: tuple[bool, Any], sums: bool = False) -> bool:
        if rows[0] != traced[0] or not rows[0]:
            return rows == traced
        return len(rows[1]) == len(traced[1]) and all(
            _same(x, y, sums) for x, y in zip(rows[1], traced[1], strict=True)
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


def _same(x: Any, y: Any, sums: bool) -> bool:
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(_same(i, j, sums) for i, j in zip(x, y, strict=True))
    if type(x) is not type(y):
        return False
    if not isinstance(x, float):
        return bool(x == y)
    if sums and not (math.isfinite(x) and math.isfinite(y) and abs(x) < 1e15):
        return True  # sums of what is very large come to anything in another order
    return x.hex() == y.hex() or (sums and math.isclose(x, y, rel_tol=_TOLERANCE, abs_tol=1e3 * _TOLERANCE))


def _plain(kernel: TracedKernel, kinds: Sequence[str], samples: Callable[[str], Sequence[Any]]) -> bool:
    """Whether functions that run by rows return Python's own numbers, as far as samples tell."""
    if not kernel.by_rows.keys() - {"lower"}:
        return True
    try:
        arrays = [pa.array(list(samples(kind))[:3], arrow_type(kind)) for kind in kinds]
        values, _ = kernel.rows.values(arrays)
        made = kernel.rows.fold(values, np.arange(3), 3)[0]
        both = kernel.rows.combine([made], [made])[0].tolist() if kernel.aggregate.combine else []
    except Exception:
        return True  # it raises; that says nothing about what it is meant for
    return all(map(kernel.cells.is_plain, (*made.tolist(), *both)))
