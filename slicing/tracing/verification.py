"""Compare the traced form of an aggregate's functions with the functions themselves, while the query is built.

Tracing promises that both agree. If they differ, tracing has a bug: a warning is issued, and the functions run by rows.
"""

from __future__ import annotations

import math
import random
import struct
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Partials, as_tuple, object_array
from slicing.aggregates.fields import INTEGERS, arrow_type
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.rows import RowsKernel
from slicing.errors import RowFailure
from slicing.tracing.exact import Calculation
from slicing.tracing.expressions import walk
from slicing.tracing.formulas import TYPES
from slicing.tracing.kernel import TracedKernel, _value_inputs

if TYPE_CHECKING:
    from slicing.laws import Counterexample

RECORDS = 160
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 1e16, -1e300, 5e-324, math.inf, -math.inf, math.nan)
_TOLERANCE = 1e-9
_CALM = 2**40
_EXACT_FLOAT = 2**53
_END = 1e300
"""From this size on, a sum of a few floats may be infinite in one order and finite in another."""


def verify(kernel: Kernel, kinds: Sequence[str], samples: Callable[[str], Sequence[Any]]) -> None:
    """Compare the traced functions of a kernel with its rows, and let it run by rows if they differ.

    The values are random numbers and limits of these kinds; for kinds that are not numbers, `samples`.
    """
    if not isinstance(kernel, TracedKernel):
        return
    kernel.traced_agg([TYPES.get(kind, kind) for kind in kinds])
    comparison, found = _Comparison(kernel, kinds, samples), ""
    with suppress(Exception):  # an exception of a user's function, which then fails in the query too
        found = comparison.found()
    if kernel.by_rows.keys() - {"lower"} and not comparison.is_plain:
        kernel.distrust("its functions return other numbers than Python's own")
    elif found and not comparison.is_steady():
        kernel.distrust("its functions do not return the same twice for the same values")
    elif found:
        _report(kernel, found)


def verify_law(kernel: Kernel, broken: Callable[[Kernel], Counterexample | None]) -> Counterexample | None:
    """Let a kernel run by rows if its traced form violates a law that its rows keep; return one that rows violate too.

    Traced functions are checked on more cells than rows are. If rows break the law as well, the functions are at fault.
    """
    if not isinstance(kernel, TracedKernel) or (found := broken(kernel.in_columns())) is None:
        return None
    by_rows = broken(RowsKernel(kernel.label, replace(kernel.aggregate, columns=False)))
    if by_rows is None:
        _report(kernel, f"`{kernel.label}` violates a law by columns that it keeps by rows: {found}")
    return by_rows


def _report(kernel: TracedKernel, found: str) -> None:
    kernel.distrust(found)
    warnings.warn(f"{found}. This is a bug of tracing: please report it. `columns=False` avoids it.", stacklevel=2)


class _Comparison:
    """A comparison of a kernel with its rows. `is_plain`: the rows have returned only Python's own numbers so far."""

    def __init__(self, kernel: TracedKernel, kinds: Sequence[str], samples: Callable[[str], Sequence[Any]]):
        self.kernel, self.kinds, self.samples = kernel, kinds, samples
        self.choice = random.Random(0)
        self.is_plain = True

    def is_steady(self) -> bool:
        """Return whether `agg` by rows returns the same twice; if not, a difference is no fault of tracing."""
        columns = [self._values(kind) for kind in self.kinds]
        good, _ = self._good(list(zip(*columns, strict=True)) if columns else [()] * RECORDS, None)
        first, second = (
            _outcome(lambda: self._fold(self.kernel.rows, good, range(0, len(good), 2), None)) for _ in "ab"
        )
        return _equal(first, second)

    def found(self) -> str:
        """Return the first difference, empty if there is none.

        Records are folded in two rounds. The second round starts from the partials that rows made in the first round.
        There are enough groups for columns. Records and partials for which `agg` raises are then left out, so that the
        others are compared too.
        """
        columns = [self._values(kind) for kind in self.kinds]
        records = list(zip(*columns, strict=True)) if columns else [()] * RECORDS
        partials: list[Any] | None = None
        for _ in range(2):
            good, accs = self._good(records, partials)
            rounds = [(records, partials)] if len(good) == len(records) else [(records, partials), (good, accs)]
            if not all(self._folds_agree(*each) for each in rounds):
                return f"`agg` of `{self.kernel.label}` is not the same by columns as by rows"
            if not good:
                break
            onto = None if accs is None else self._held(self.kernel.rows, accs)
            made = self._fold(self.kernel.rows, good, range(len(good)), onto)
            records, partials = good, made[1:] + made[:1]
        return self._of_partials(partials) if partials else ""

    def _folds_agree(self, records: list[Any], partials: list[Any] | None) -> bool:
        """Return whether folds of groups of one record, and of two, agree."""
        kernels = (self.kernel.rows, self.kernel)
        held = [None if partials is None else self._held(kernel, partials) for kernel in kernels]
        for size in (1, 2):
            starts = range(0, len(records), size)
            accs = [None if each is None else [column[: len(starts)] for column in each] for each in held]
            rows, traced = (
                _outcome(lambda k=k, s=starts, b=b: self._fold(k, records, s, b))  # type: ignore[misc]
                for k, b in zip(kernels, accs, strict=True)
            )
            if not _equal(rows, traced) and not _equal(rows, traced, self._slack(records, starts, accs[1])):
                return False
        return True

    def _good(self, records: list[Any], partials: list[Any] | None) -> tuple[list[Any], list[Any] | None]:
        """Return the records for which `agg` by rows does not raise, and their partials."""
        good: list[int] = []
        first = 0
        while first < len(records):
            accs = None if partials is None else self._held(self.kernel.rows, partials[first:])
            made, found = _outcome(
                lambda at=first, b=accs: self._fold(self.kernel.rows, records[at:], range(len(records) - at), b)  # type: ignore[misc]
            )
            until = len(records) if made else first + found[2]
            good += range(first, until)
            first = until + 1
        return [records[at] for at in good], None if partials is None else [partials[at] for at in good]

    def _slack(self, records: list[Any], starts: range, onto: Partials | None) -> list[tuple[float, ...]]:
        """Return, per group and field, the size of the numbers that are added as floats; 0 for other fields.

        Sums in another order may differ by a small part of this size, and by any amount near the limit of floats.
        """
        agg, fields = self.kernel.traced_agg([TYPES.get(kind, kind) for kind in self.kinds]), []
        accs = self.kernel.spread(len(starts)) if onto is None else onto
        values, _ = self.kernel.values(self._arrays(records))
        with np.errstate(all="ignore"):
            calculation = Calculation(_value_inputs(values, self.kernel.aggregate.nulls))
            for at, type_ in enumerate(self.kernel.signature.types):
                step = agg.steps[at] if agg is not None and agg.steps is not None else None
                if step is None or step.added is None or (step.op, type_) != ("add", "float"):
                    fields.append(np.zeros(len(starts)))
                    continue
                sizes = sum(_size(calculation.of(part).array) for part in walk([step.added]) if part.type == "float")
                each = np.broadcast_to(sizes, (len(records),))
                fields.append(np.add.reduceat(each, starts) + _size(accs[at]))
        return list(zip(*(field.tolist() for field in fields), strict=True))

    def _of_partials(self, partials: list[Any]) -> str:
        calm = [partial for partial in partials if all(map(_is_calm, as_tuple(partial)))]
        kernels = (self.kernel.rows, self.kernel)
        for some, names in (
            (partials, ("combine", "reduce", "invert", "lower")),
            (calm, ("reduce",)),  # one extreme value would keep all runs from being combined by ufunc
        ):
            held = [self._held(kernel, some) for kernel in kernels]
            for name in names if some else ():
                function = "combine" if name == "reduce" else name
                if self.kernel.formulas[function] is None:
                    continue
                rows, traced = (
                    _outcome(lambda k=k, n=name, h=h: self._called(k, n, h))  # type: ignore[misc]
                    for k, h in zip(kernels, held, strict=True)
                )
                if not _equal(rows, traced):
                    return f"`{function}` of `{self.kernel.label}` is not the same by columns as by rows"
        return ""

    def _called(self, kernel: Kernel, name: str, partials: Partials) -> list[Any]:
        """Return a function's results for each partial and the next one."""
        if name == "lower":
            columns = [array.to_pylist() for array in kernel.results_to_arrow(partials, None)]
            return list(zip(*columns, strict=True))
        if name == "reduce":  # in pairs, for which there is only one order
            return self._objects(kernel, kernel.reduce(partials, np.arange(0, len(partials[0]), 2)))
        call = kernel.combine if name == "combine" else kernel.invert
        return self._objects(kernel, call(partials, [np.roll(column, -1) for column in partials]))

    def _fold(self, kernel: Kernel, records: list[Any], starts: range, onto: Partials | None) -> list[Any]:
        values, _ = kernel.values(self._arrays(records))
        return self._objects(kernel, kernel.fold(values, np.array(starts, dtype=np.int64), len(records), onto))

    def _arrays(self, records: list[Any]) -> list[pa.Array]:
        columns = zip(*records, strict=True) if records else ([] for _ in self.kinds)
        return [pa.array(column, arrow_type(kind)) for column, kind in zip(columns, self.kinds, strict=True)]

    def _objects(self, kernel: Kernel, partials: Partials) -> list[Any]:
        if kernel is self.kernel:
            return self.kernel.cells.objects(partials)
        items = partials[0].tolist()
        self.is_plain = self.is_plain and all(map(self.kernel.cells.is_plain, items))
        return [self._as_stored(item) for item in items] if "float" in self.kernel.signature.types else items

    def _as_stored(self, item: Any) -> Any:
        """Return a partial with floats instead of integers where its fields are floats."""
        types = self.kernel.signature.types
        parts = tuple(
            float(part) if type_ == "float" and type(part) is int and abs(part) <= _EXACT_FLOAT else part
            for part, type_ in zip(as_tuple(item), types, strict=False)
        )
        return item if len(as_tuple(item)) != len(types) else parts if isinstance(item, tuple) else parts[0]

    def _held(self, kernel: Kernel, items: list[Any]) -> Partials:
        return self.kernel.cells.columns(items) if kernel is self.kernel else [object_array(items, (len(items),))]

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


def _equal(rows: tuple[bool, Any], traced: tuple[bool, Any], slack: Sequence[tuple[float, ...]] | None = None) -> bool:
    """Return whether both results are the same, or both failures; floats may differ by the `slack` of their field."""
    if rows[0] != traced[0] or not rows[0]:
        return rows == traced
    if len(rows[1]) != len(traced[1]):
        return False
    if slack is None:
        return all(map(_same, rows[1], traced[1]))
    return all(
        len(x) == len(y) and all(map(_near, x, y, some))
        for x, y, some in zip(map(as_tuple, rows[1]), map(as_tuple, traced[1]), slack, strict=True)
    )


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(map(_same, x, y))
    if type(x) is bool and type(y) is int:
        return x == y  # a Boolean is stored as an integer
    return type(x) is type(y) and (x.hex() == y.hex() if isinstance(x, float) else bool(x == y))


def _near(x: Any, y: Any, slack: float) -> bool:
    if _same(x, y) or not (isinstance(x, float) and isinstance(y, float)):
        return _same(x, y)
    return slack > _END or (math.isfinite(x) and math.isfinite(y) and abs(x - y) <= _TOLERANCE * slack)


def _is_calm(part: Any) -> bool:
    return type(part) is bool or 0 < abs(part) < _CALM or (type(part) is int and part == 0)


def _size(array: Any) -> Any:
    """Return the absolute values of numbers, 0 where they are not finite."""
    return np.where(np.isfinite(array), np.abs(array), 0.0)
