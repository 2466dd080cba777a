"""The kernel of partials made of numbers: they are kept as columns, and traced functions run on columns.

Each function is traced separately. The other functions get Python's own numbers, one partial after another. Cells in
which numpy would not give exactly Python's result are computed again by Python. Results and errors are therefore those
of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, Fieldwise
from slicing.aggregates.arrays import Partials, object_array
from slicing.aggregates.arrow import to_numpy
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.rows import RowsKernel
from slicing.aggregates.sorting import argsorted
from slicing.errors import RowFailure
from slicing.profiling import COMBINE, of_stage
from slicing.tracing.cells import Cells, Unfit, plain_nans
from slicing.tracing.exact import DTYPES, Array, Calculation, Column, Mask, either
from slicing.tracing.expressions import Expr, Graph, Untraceable
from slicing.tracing.folds import Step, can_fail, joins, steps, without
from slicing.tracing.formulas import Formula, Signature, of_agg, of_lower, of_two, unfit

FEW = 48
"""Up to this number of groups, folding row by row is faster than by position."""
PIECE = 20_000
"""The number of groups or partials that are processed by rows at a time before they become columns."""
SMALL = 8
"""Up to this number of cells, Python is faster than numpy."""
_BOUND = 2**62
_TYPES = {"b": "bool", "i": "int", "u": "int", "f": "float"}
_ARROW = {"int": pa.types.is_integer, "float": pa.types.is_floating, "bool": pa.types.is_boolean}
_UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)


class TracedKernel(Kernel):
    """Functions of single rows, run on columns. `by_rows` has the reason for each function that is not traced."""

    def __init__(self, label: str, aggregate: Aggregate):
        super().__init__(label, aggregate)
        self.width = len(self.fields)
        self.rows = RowsKernel(label, aggregate)
        self.cells = Cells(aggregate)
        self.signature = Signature(aggregate)
        self.by_rows: dict[str, str] = {}
        self.small = SMALL
        self._aggs: dict[tuple[str, ...], _Agg | None] = {}
        self._combine = self._traced("combine", lambda f: of_two(f, self.signature, ("a", "b")))
        self._invert = self._traced("invert", lambda f: of_two(f, self.signature, ("ab", "a")))
        self._lower = self._traced("lower", lambda f: of_lower(f, self.signature))
        self.formulas = {"combine": self._combine, "invert": self._invert, "lower": self._lower}
        self.joins = self._steps(self._combine, "a", "b")
        self._set_ufuncs()

    def _traced(self, name: str, trace: Callable[[Any], Formula]) -> Formula | None:
        function = getattr(self.aggregate, name)
        if self.aggregate.columns is False or (function is None and name != "lower"):
            return None
        try:
            return trace(function)
        except Untraceable as reason:
            self.by_rows[name] = str(reason)
        except Exception as error:  # the function failed on tracers; by rows it is always correct
            self.by_rows[name] = f"it cannot be followed ({type(error).__name__}: {error})"
        return None

    def _steps(self, formula: Formula | None, old: str, new: str) -> list[Step] | None:
        """Return `combine` as one operation per field, on the same fields of both partials, or None."""
        if formula is None:
            return None
        return joins(formula, self._inputs(formula.graph, old), self._inputs(formula.graph, new))

    def _inputs(self, graph: Graph, name: str) -> list[Expr]:
        types = self.signature.types
        return [graph.input(name, -1 if self.signature.is_single else at, type_) for at, type_ in enumerate(types)]

    def _set_ufuncs(self) -> None:
        """Set the ufuncs if all fields are integers that are added and subtracted: sums are then cumulative sums."""
        invert = self._invert
        if invert is None or self.joins is None or set(self.signature.types) != {"int"} or any(self.signature.init):
            return
        pairs = zip(self._inputs(invert.graph, "ab"), self._inputs(invert.graph, "a"), strict=True)
        wanted = [invert.graph.binary("sub", ab, a) for ab, a in pairs]
        is_difference = list(invert.outputs) == wanted and not can_fail(invert, self._inputs(invert.graph, "ab"))
        if is_difference and all(each.op == "add" for each in self.joins):
            self.combine_ufuncs = (np.add,) * self.width
            self.invert_ufuncs = (np.subtract,) * self.width

    def traced_agg(self, values: Sequence[str]) -> _Agg | None:
        """Return `agg` traced for values of these types; None if it runs by rows."""
        key = tuple(values)
        if key not in self._aggs:
            formula = self._traced("agg", lambda _: of_agg(self.aggregate, self.signature, key))
            accs = self._inputs(formula.graph, "acc") if formula else []
            self._aggs[key] = _Agg(formula, accs) if formula else None
        return self._aggs[key]

    def __reduce__(self) -> tuple[type[Kernel], tuple[str, Aggregate]]:
        # Columns do not matter if nothing is traced: the worker then gets the rows kernel itself.
        return (TracedKernel if self.aggregate.columns is None else RowsKernel), (self.label, self.aggregate)

    def distrust(self, why: str) -> None:
        """Run all functions by rows; a pickled copy becomes a rows kernel."""
        self.aggregate = replace(self.aggregate, columns=False)
        self.by_rows = {name: why for name in ("agg", "combine", "invert", "lower") if getattr(self.aggregate, name)}
        self.formulas = dict.fromkeys(self.formulas)
        self._combine = self._invert = self._lower = self.joins = None
        self._aggs = dict.fromkeys(self._aggs)
        self.combine_ufuncs = self.invert_ufuncs = None

    def in_columns(self) -> TracedKernel:
        """Return the same kernel with columns used for single cells too, to test traced functions on few cells."""
        other = copy(self)
        other.small = 0
        return other

    def spread(self, shape: int | tuple[int, ...]) -> Partials:
        return self.cells.spread(shape)

    def values(self, arrays: Sequence[pa.Array]) -> tuple[list[Any], pa.Array | None]:
        return [_values(array, self.aggregate.nulls) for array in arrays], None

    @of_stage(COMBINE)
    def fold(self, values: Sequence[Any], starts: Array, count: int, onto: Partials | None = None) -> Partials:
        if not len(starts):
            return self.spread(0) if onto is None else onto
        agg = self.traced_agg([_type(value) for value in values])
        if agg is None or count <= self.small or not agg.formula.holds():
            return self._rows_fold(values, starts, count, onto)
        accs = self.spread(len(starts)) if onto is None else onto
        folded = None if agg.steps is None else self._summed(agg, values, starts, count, accs)
        if folded is not None:
            return folded
        try:
            return self._by_position(agg.formula, values, starts, count, accs)
        except RowFailure:
            return self._rows_fold(values, starts, count, onto)  # which also fails, at the record where rows fail first

    @of_stage(COMBINE)
    def combine(self, a: Partials, b: Partials) -> Partials:
        return self._two("combine", self._combine, ("a", "b"), a, b)

    @of_stage(COMBINE)
    def invert(self, ab: Partials, a: Partials) -> Partials:
        return self._two("invert", self._invert, ("ab", "a"), ab, a)

    @of_stage(COMBINE)
    def reduce(self, partials: Partials, starts: Array) -> Partials:
        count = len(partials[0])
        if len(starts) == count:
            return partials
        if self._combine is None or not self._combine.holds():
            return self._rows_reduce(partials, starts)
        sizes = np.diff(np.append(starts, count))
        if self.joins is not None and self._sums_fit(partials, int(sizes.max()), self.joins):
            types = self.signature.types
            with np.errstate(all="ignore"):
                return [
                    column[starts] if each.added is None else each.ufunc(type_).reduceat(column, starts)
                    for each, type_, column in zip(self.joins, types, partials, strict=True)
                ]
        try:
            return self._in_turn(
                [column[starts] for column in partials],
                starts,
                sizes,
                lambda acc, at: self.combine(acc, [column[at] for column in partials]),
                lambda acc, items, heads: self._rows_joined(acc, [column[items] for column in partials], heads),
                first=1,
            )
        except RowFailure:
            return self._rows_reduce(partials, starts)  # which also fails, at the partial where rows fail first

    def sums_fit(self, *parts: Partials) -> bool:
        if not all(formula.holds() for formula in (self._combine, self._invert) if formula is not None):
            return False
        count = sum(len(part[0]) for part in parts)
        return all(self._sums_fit(part, count, self.joins or []) for part in parts if len(part[0]))

    def _sums_fit(self, partials: Partials, longest: int, joins: Sequence[Step]) -> bool:
        """Return whether no sum of `longest` items can exceed 64 bits, and the order of floats does not matter."""
        if self.cells.references(partials) is not None or self.cells.reserved(partials) is not None:
            return False
        return all(
            each.op == "keep" or _fits(column, each.op, type_, longest)
            for column, each, type_ in zip(partials, joins, self.signature.types, strict=True)
        )

    def lower(self, partials: Partials) -> list[np.ma.MaskedArray[Any, Any] | Array]:
        made = self._lowered(partials)
        return self.rows.lower(self._objects(partials)) if made is None else made

    def _lowered(self, partials: Partials) -> list[Any] | None:
        """Return the results of `lower` by columns; None if a cell needs Python."""
        if self._lower is None or not self._lower.holds():
            return None
        if self.cells.references(partials) is not None:
            return None
        arrays, bad = self._lower.run(self._named("a", partials), len(partials[0]))
        return None if bad is not None and np.any(bad) else arrays

    def results_to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        made = self._lowered(partials)
        if made is not None:
            try:
                return [_to_arrow(column, field.kind) for column, field in zip(made, self.results, strict=True)]
            except _UNFIT:
                pass  # the conversion by rows names the failing item
        return self.rows.results_to_arrow(self._objects(partials), dictionary)

    def to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        if self.cells.references(partials) is None:
            try:
                return [_to_arrow(column, field.kind) for column, field in zip(partials, self.fields, strict=True)]
            except _UNFIT:
                pass
        return self.rows.to_arrow(self._objects(partials), dictionary)

    def from_arrow(
        self, arrays: Sequence[pa.Array], dictionary: pa.Array | None = None
    ) -> tuple[Partials, pa.Array | None]:
        found = [to_numpy(array, dtype) for array, dtype in zip(arrays, self.cells.dtypes, strict=True)]
        columns = [plain_nans(column) for column in found]
        self.cells.put_reserved(columns)
        return columns, None

    def lengths(self, partials: Partials, dictionary: pa.Array | None) -> Array | float:
        return 0.0

    @property
    def object_bytes(self) -> float:
        return 0.0

    def _named(self, name: str, columns: Partials, bad: Mask = None) -> dict[tuple[str, int], Column]:
        first = -1 if self.signature.is_single else 0
        return {(name, first + at): Column(column, bad) for at, column in enumerate(columns)}

    def _objects(self, partials: Partials) -> Partials:
        items = np.empty(len(partials[0]), dtype=object)
        items[:] = self.cells.objects(partials) if len(items) else []
        return [items]

    def _two(self, name: str, formula: Formula | None, names: tuple[str, str], a: Partials, b: Partials) -> Partials:
        shape = a[0].shape
        if a[0].ndim != 1:
            flat = self._two(name, formula, names, [c.ravel() for c in a], [c.ravel() for c in b])
            return [column.reshape(shape) for column in flat]
        if formula is None or len(a[0]) <= self.small or not formula.holds():
            return self._columns(name, self._called(name, a, b))
        spilled = either(*(None if found is None else found >= 0 for found in map(self.cells.references, (a, b))))
        made, bad = formula.run({**self._named(names[0], a), **self._named(names[1], b)}, len(a[0]))
        made = _own(made, [*a, *b])
        return self._mended(
            name, made, bad, spilled, lambda at: self._called(name, *([c[at] for c in p] for p in (a, b)))
        )

    def _called(self, name: str, a: Partials, b: Partials) -> list[Any]:
        """Return the results of `combine` or `invert` by rows."""
        return self.rows.applied(name, getattr(self.aggregate, name), *map(self.cells.objects, (a, b)))

    def _columns(self, name: str, items: list[Any]) -> Partials:
        """Return the columns of the results of function `name`. Raises RowFailure for a result that does not fit."""
        try:
            return self.cells.columns(items)
        except Unfit as unfit:
            item = items[unfit.index]
            try:
                self.rows.check(name, [item])
                self.rows.to_arrow([object_array([item], (1,))], None)
            except RowFailure as failure:
                raise failure.at(unfit.index) from failure.__cause__
            raise

    def _mended(
        self, name: str, made: Partials, bad: Mask | bool, spilled: Mask, by_rows: Callable[[Array], list[Any]]
    ) -> Partials:
        """Return the result of a formula, with failed cells computed again by rows."""
        if bad is True:
            bad = np.ones(len(made[0]), dtype=bool)
        wrong = either(None if bad is None or bad is False else bad, spilled, self.cells.reserved(made))
        if wrong is None or not wrong.any():
            return made
        at = np.flatnonzero(wrong)
        try:
            again = self._columns(name, by_rows(at))
        except RowFailure as failure:
            raise failure.at(int(at[failure.index])) from failure.__cause__
        made = [np.array(column) for column in made]
        for column, new in zip(made, again, strict=True):
            column[at] = new
        return made

    def _summed(self, agg: _Agg, values: Sequence[Any], starts: Array, count: int, accs: Partials) -> Partials | None:
        """Combine the values of all records of a group first, then with the partial; None if that is not exact."""
        sizes = np.diff(np.append(starts, count))
        longest, types = int(sizes.max()), self.signature.types
        if self.cells.references(accs) is not None:
            return None
        made, bad = [], None
        with np.errstate(all="ignore"):
            calculation = Calculation(_value_inputs(values, self.aggregate.nulls))
            for each, type_, acc in zip(agg.steps or [], types, accs, strict=True):
                if each.added is None:
                    made.append(acc)
                    continue
                added = calculation.of(each.added)
                bad = either(bad, added.bad)
                if not _fits(added.array, each.op, type_, longest, acc):
                    return None
                made.append(each.ufunc(type_)(acc, _reduced(added.array, each, type_, starts, sizes, count)))
            failed = calculation.bad(agg.fails) if agg.fails is not None else None
        if failed is True or (failed is not None and np.any(failed)) or (bad is not None and np.any(bad)):
            return None
        if self.cells.reserved(made) is not None:
            return None
        return _own(made, [*accs, *map(np.ma.getdata, values)])

    def _by_position(
        self, formula: Formula, values: Sequence[Any], starts: Array, count: int, accs: Partials
    ) -> Partials:
        """Fold the k-th records of all groups in one call; this is the same order as by rows."""

        def one(acc: Partials, at: Array) -> Partials:
            spilled = self.cells.references(acc)
            here = [value[at] for value in values]
            made, bad = formula.run({**self._named("acc", acc), **_value_inputs(here, self.aggregate.nulls)}, len(at))
            return self._mended(
                "agg",
                _own(made, [*acc, *map(np.ma.getdata, here)]),
                bad,
                None if spilled is None else spilled >= 0,
                lambda some: self._one_each([value[some] for value in here], [c[some] for c in acc]),
            )

        def rest(acc: Partials, items: Array, heads: Array) -> Partials:
            return self._rows_fold([value[items] for value in values], heads, len(items), acc)

        return self._in_turn(accs, starts, np.diff(np.append(starts, count)), one, rest, first=0)

    def _one_each(self, values: Sequence[Any], acc: Partials) -> list[Any]:
        """Return the partials after adding one record to each, by rows."""
        count = np.arange(len(acc[0]))
        made = self.rows.folded(values, count, len(count), self.cells.objects(acc))
        self.rows.check("agg", made)
        return made

    def _in_turn(
        self,
        acc: Partials,
        starts: Array,
        sizes: Array,
        one: Callable[[Partials, Array], Partials],
        rest: Callable[[Partials, Array, Array], Partials],
        first: int,
    ) -> Partials:
        """Add items to the partial of every group in turn: first item `first` of all groups, then the next ones.

        A few longest groups are left to `rest`. It gets their partials, their other items, and the starts of these.
        """
        order = argsorted(-sizes)
        ordered = sizes[order]
        acc = [column[order] for column in acc]
        place = first
        while (going := int(np.searchsorted(-ordered, -place, side="left"))) > FEW:
            made = one([column[:going] for column in acc], starts[order[:going]] + place)
            for column, new in zip(acc, made, strict=True):
                column[:going] = new
            place += 1
        if going:
            heads, items = _items(starts[order[:going]] + place, ordered[:going] - place)
            made = rest([column[:going] for column in acc], items, heads)
            for column, new in zip(acc, made, strict=True):
                column[:going] = new
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return [column[back] for column in acc]

    def _rows_fold(self, values: Sequence[Any], starts: Array, count: int, onto: Partials | None) -> Partials:
        """Fold row by row, in pieces, so that Python objects take little more memory than the columns."""
        edges = np.append(starts[::PIECE], count).tolist()
        parts = []
        for place, (first, end) in enumerate(pairwise(edges)):
            groups = slice(place * PIECE, (place + 1) * PIECE)
            accs = None if onto is None else self.cells.objects([column[groups] for column in onto])
            own = starts[groups] - first
            try:
                made = self.rows.folded([value[first:end] for value in values], own, end - first, accs)
                parts.append(self._checked("agg", made, own))
            except RowFailure as failure:
                raise failure.at(first + failure.index) from failure.__cause__
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]

    def _checked(self, name: str, made: list[Any], starts: Array) -> Partials:
        """Return the columns of the results of a function; nulls are searched only if results do not fit."""
        columns = self.cells.fitting(made)
        if columns is None:
            self.rows.check(name, made, lambda group: int(starts[group]))
            try:
                columns = self._columns(name, made)
            except RowFailure as failure:
                raise failure.at(int(starts[failure.index])) from failure.__cause__
        return columns

    def _rows_joined(self, acc: Partials, partials: Partials, starts: Array) -> Partials:
        """Combine runs of partials into `acc`, the partials before them, by rows."""
        together = [np.insert(column, starts, first) for column, first in zip(partials, acc, strict=True)]
        return self._rows_reduce(together, starts + np.arange(len(starts)))

    def _rows_reduce(self, partials: Partials, starts: Array) -> Partials:
        """Combine by rows, in pieces as `_rows_fold`; only runs of several partials become Python objects."""
        sizes = np.diff(starts, append=len(partials[0]))
        several = np.flatnonzero(sizes > 1)
        joined = [column[starts] for column in partials]
        for runs in np.split(several, np.flatnonzero(np.diff(np.cumsum(sizes[several]) // PIECE)) + 1):
            heads, items = _items(starts[runs], sizes[runs])
            try:
                made = self.rows.reduced(self.cells.objects([column[items] for column in partials]), heads)
                columns = self._checked("combine", made, heads)
            except RowFailure as failure:
                raise failure.at(int(items[failure.index])) from failure.__cause__
            for column, new in zip(joined, columns, strict=True):
                column[runs] = new
        return joined


class _Agg:
    """`agg` for types of values. `steps` are the added values of its fields, or None; `fails` is where they fail."""

    def __init__(self, formula: Formula, accs: Sequence[Expr]):
        self.formula = formula
        self.steps = steps(formula, accs)
        self.fails = None if formula.always else without(formula.tree, {acc.value for acc in accs})


def _values(array: pa.Array, nulls: bool) -> Any:
    known = (kind for kind, is_of in _ARROW.items() if is_of(array.type))
    kind = next(known, None)
    if kind is None:
        return to_numpy(array, np.dtype(np.object_))
    value = plain_nans(to_numpy(array, DTYPES[kind]))
    return np.ma.MaskedArray(value, np.asarray(array.is_null())) if nulls and array.null_count else value


def _type(value: Any) -> str:
    return _TYPES.get(value.dtype.kind, "object")


def _value_inputs(values: Sequence[Any], nulls: bool) -> dict[tuple[str, int], Column]:
    found = {("value", at): Column(np.ma.getdata(value)) for at, value in enumerate(values)}
    if nulls:
        found |= {("null", at): Column(_nulls(value)) for at, value in enumerate(values)}
    return found


def _nulls(value: Any) -> Any:
    if value.dtype == np.object_:
        return np.array([item is None for item in value.tolist()], dtype=bool)
    return np.ma.getmaskarray(value)


def _fits(column: Array, op: str, type_: str, longest: int, more: Array | None = None) -> bool:
    """Return whether combining up to `longest` items, and `more`, in any order gives exactly Python's result."""
    parts = [part for part in (column, more) if part is not None]
    if op in ("min", "max") and type_ == "float":
        return not any(np.any(np.isnan(part) | ((part == 0) & np.signbit(part))) for part in parts)
    if op != "add" or type_ != "int":
        return True
    largest = [max(-int(np.min(part)), int(np.max(part))) if np.size(part) else 0 for part in parts]
    return largest[0] * longest + sum(largest[1:]) < _BOUND


def _reduced(added: Any, each: Step, type_: str, starts: Array, sizes: Array, count: int) -> Any:
    if np.ndim(added) == 0:
        if each.op == "add" and type_ == "int":
            return added * sizes
        added = np.full(count, added)
    return added if len(starts) == count else each.ufunc(type_).reduceat(added, starts)


def _items(starts: Array, sizes: Array) -> tuple[Array, Array]:
    """Return the start of each run in the concatenation of all runs, and the items of all runs."""
    heads = np.cumsum(sizes) - sizes
    return heads, np.repeat(starts - heads, sizes) + np.arange(int(sizes.sum()))


def _own(made: Sequence[Any], given: Sequence[Array]) -> Partials:
    """Return arrays that nobody else has: a function may return its argument, or the same array twice."""
    seen, own = {id(array) for array in given}, []
    for array in made:
        own.append(array.copy() if id(array) in seen else array)
        seen.add(id(array))
    return own


def _to_arrow(column: Any, kind: str) -> pa.Array:
    target = arrow_type(kind)
    mask = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    data = np.ma.getdata(column)
    if data.dtype == np.bool_ and mask is not None and mask.all():
        return pa.nulls(len(data), target)
    array = pa.array(data, mask=mask)
    return array if array.type == target else array.cast(target)


def numbers(label: str, aggregate: Aggregate) -> Kernel | None:
    """Return the kernel of an aggregate whose partials are numbers; None if they are not."""
    return None if reason(aggregate) else TracedKernel(label, aggregate)


def reason(aggregate: Aggregate) -> str:
    """Return the reason why an aggregate runs by rows as a whole; empty if it does not."""
    functions = (aggregate.agg, aggregate.combine, aggregate.invert, aggregate.lower)
    if any(isinstance(function, np.ufunc | Fieldwise) for function in functions):
        return "its functions give numpy's numbers"
    return unfit(aggregate)
