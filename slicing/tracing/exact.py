"""Evaluate expressions with numpy, and mark the cells in which the result would differ from Python's.

A *column* here is an array, bounds of its integers, and a mask of its bad cells. In a bad cell Python would raise, or
return an integer of more than 64 bits. The value of a bad cell is undefined; Python itself has to compute it. Bounds
are known for a whole array, so that integers are checked cell by cell only where they may overflow.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicing.tracing.expressions import COMPARISONS, Expr
from slicing.tracing.paths import Branch, Leaf, Tree

Array = NDArray[Any]
Mask = Array | None
"""A mask of cells; None for no cells."""

LEAST, MOST = -(2**63), 2**63 - 1
_EXACT_FLOAT = 2**53
DTYPES = {"bool": np.dtype(np.bool_), "int": np.dtype(np.int64), "float": np.dtype(np.float64)}


class Column:
    """The value of an expression. The bounds of its integers are computed on demand."""

    __slots__ = ("_bounds", "array", "bad")

    def __init__(self, array: Any, bad: Mask = None, bounds: tuple[int, int] | None = None):
        self.array, self.bad, self._bounds = array, bad, bounds

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest integer, or bounds outside of them."""
        if self._bounds is None:
            array = self.array
            self._bounds = (int(array.min()), int(array.max())) if np.size(array) else (0, 0)
        return self._bounds


def either(*masks: Mask) -> Mask:
    """Return the cells in any of the masks."""
    found: Mask = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found


class Calculation:
    """Expressions of the same inputs, each evaluated once. Inputs are columns by (name, position)."""

    def __init__(self, inputs: Mapping[tuple[str, int], Column]):
        self.inputs = inputs
        self._known: dict[int, Column] = {}
        self._nulls: dict[int, Mask | bool] = {}

    def of(self, expr: Expr) -> Column:
        """Return the column of an expression; it may share its array with an input."""
        found = self._known.get(id(expr))
        if found is None:
            found = self._known[id(expr)] = self._made(expr)
        return found

    def nulls(self, expr: Expr) -> Mask | bool:
        """Return the cells in which an expression is None; True for all cells."""
        if id(expr) not in self._nulls:
            self._nulls[id(expr)] = True if expr.type == "none" else self._chosen_nulls(expr)
        return self._nulls[id(expr)]

    def _chosen_nulls(self, expr: Expr) -> Mask:
        if expr.op != "where":
            return None
        yes, no = (self.nulls(side) for side in expr.args[1:])
        if yes is None and no is None:
            return None
        found: Array = np.where(self.of(expr.args[0]).array, _null(yes), _null(no))
        return found

    def bad(self, tree: Tree) -> Mask | bool:
        """Return the cells whose path fails; True for all cells."""
        checks = either(*(self.of(expr).bad for expr in tree.checks))
        if isinstance(tree, Leaf):
            return True if tree.outputs is None else checks
        yes, no = self.bad(tree.yes), self.bad(tree.no)
        condition = self.of(tree.condition)
        checks = either(checks, condition.bad)
        if yes is None and no is None:
            return checks
        if yes is True and no is True:
            return True
        holds = condition.array
        within = either(
            holds if yes is True else None if yes is None else holds & yes,
            ~holds if no is True else None if no is None else ~holds & no,
        )
        return either(checks, within)

    def _made(self, expr: Expr) -> Column:
        if expr.op == "input":
            return self.inputs[expr.value]
        if expr.op == "const":
            if expr.type == "none":
                return Column(np.zeros((), dtype=np.bool_))
            bounds = (expr.value, expr.value) if expr.type == "int" else None
            return Column(DTYPES[expr.type].type(expr.value), None, bounds)
        args = [self.of(arg) for arg in expr.args]
        if expr.op == "where":
            return _where(expr, args)
        if expr.op == "call":
            made = _each(expr.call, args, expr.type)  # type: ignore[arg-type]
        elif expr.op in COMPARISONS:
            made = _compared(expr, *args)
        elif expr.type == "int" or expr.op in _OF_INTS:
            made = _INTS[expr.op](*args)
        else:
            made = _OTHERS[expr.op](*args)
        made.bad = either(made.bad, *(arg.bad for arg in args))
        return made


def is_static(tree: Tree) -> bool:
    """Return whether no path can ever fail."""
    if isinstance(tree, Branch):
        return not tree.checks and is_static(tree.yes) and is_static(tree.no)
    return not tree.checks and tree.outputs is not None


def _where(expr: Expr, args: Sequence[Column]) -> Column:
    condition, yes, no = args
    kinds = [arg.type for arg in expr.args[1:]]
    array = np.where(condition.array, yes.array, no.array)
    if "none" in kinds and expr.type != "none":
        array = array.astype(DTYPES[expr.type], copy=False)
    known = [side._bounds for side in (yes, no)]
    bounds = None
    if expr.type == "int" and None not in known:
        bounds = (min(b[0] for b in known), max(b[1] for b in known))  # type: ignore[index]
    sides = None
    if yes.bad is not None or no.bad is not None:
        sides = np.where(condition.array, _mask(yes.bad), _mask(no.bad))
    return Column(array, either(condition.bad, sides), bounds)


def _mask(bad: Mask) -> Any:
    return np.False_ if bad is None else bad


def _null(found: Mask | bool) -> Any:
    return np.True_ if found is True else np.False_ if found is None else found


def _each(function: Callable[..., Any], args: Sequence[Column], type_: str) -> Column:
    """Call a Python function for each item; a cell is bad if it raises or returns another type."""
    arrays = np.broadcast_arrays(*(arg.array for arg in args))
    kind = {"int": int, "float": float, "bool": bool}[type_]
    columns = [array.ravel().tolist() for array in arrays]
    try:
        items = list(map(function, *columns))
        if set(map(type, items)) <= {kind}:
            return Column(np.array(items, dtype=DTYPES[type_]).reshape(arrays[0].shape))
    except Exception:
        items = [_tried(function, row) for row in zip(*columns, strict=True)]
    wrong = np.array([type(item) is not kind for item in items], dtype=bool)
    good = [item if type(item) is kind else kind() for item in items]
    shape = arrays[0].shape
    return Column(np.array(good, dtype=DTYPES[type_]).reshape(shape), wrong.reshape(shape))


def _tried(function: Callable[..., Any], row: Sequence[Any]) -> Any:
    try:
        return function(*row)
    except Exception:
        return None


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {name: getattr(operator, name) for name in COMPARISONS}


def _compared(expr: Expr, x: Column, y: Column) -> Column:
    bad: Mask = None
    for arg, column in zip(expr.args, (x, y), strict=True):
        if arg.type == "int" and expr.is_fallible:
            bad = either(bad, _inexact(column))
    return Column(_COMPARE[expr.op](x.array, y.array), bad)


def _inexact(x: Column) -> Mask:
    """Return the integers that may have no equal float."""
    low, high = x.bounds
    if -_EXACT_FLOAT <= low and high <= _EXACT_FLOAT:
        return None
    found: Array = (x.array < -_EXACT_FLOAT) | (x.array > _EXACT_FLOAT)
    return found


def _fits(low: int, high: int) -> bool:
    return low >= LEAST and high <= MOST


def _add(x: Column, y: Column) -> Column:
    (a, b), (c, d) = x.bounds, y.bounds
    made = x.array + y.array
    if _fits(a + c, b + d):
        return Column(made, None, (a + c, b + d))
    return Column(made, ((x.array ^ made) & (y.array ^ made)) < 0)


def _subtract(x: Column, y: Column) -> Column:
    (a, b), (c, d) = x.bounds, y.bounds
    made = x.array - y.array
    if _fits(a - d, b - c):
        return Column(made, None, (a - d, b - c))
    return Column(made, ((x.array ^ y.array) & (x.array ^ made)) < 0)


def _multiply(x: Column, y: Column) -> Column:
    (a, b), (c, d) = x.bounds, y.bounds
    ends = (a * c, a * d, b * c, b * d)
    made = x.array * y.array
    if _fits(min(ends), max(ends)):
        return Column(made, None, (min(ends), max(ends)))
    # Floats decide reliably for products far from the limit; the few products near it count as bad.
    return Column(made, np.abs(np.float64(x.array) * np.float64(y.array)) >= 2.0**62)


def _negative(x: Column) -> Column:
    low, high = x.bounds
    if low > LEAST:
        return Column(-x.array, None, (-high, -low))
    return Column(-x.array, x.array == LEAST)


def _absolute(x: Column) -> Column:
    low, high = x.bounds
    if low > LEAST:
        return Column(np.abs(x.array), None, (0 if low <= 0 <= high else min(abs(low), abs(high)), max(-low, high, 0)))
    return Column(np.abs(x.array), x.array == LEAST)


def _floor_divide(x: Column, y: Column) -> Column:
    (a, _), (c, d) = x.bounds, y.bounds
    bad: Mask = None
    if c <= 0 <= d:
        bad = y.array == 0
    if a == LEAST and c <= -1 <= d:
        bad = either(bad, (x.array == LEAST) & (y.array == -1))
    return Column(np.floor_divide(x.array, y.array), bad)


def _modulo(x: Column, y: Column) -> Column:
    c, d = y.bounds
    return Column(np.mod(x.array, y.array), y.array == 0 if c <= 0 <= d else None)


def _left_shift(x: Column, y: Column) -> Column:
    (a, b), (c, d) = x.bounds, y.bounds
    if c >= 0 and d < 63 and _fits(a << d, b << d):
        return Column(np.left_shift(x.array, y.array), None, (min(a, a << d), max(b, b << d)))
    within = (y.array >= 0) & (y.array < 63)
    by = np.where(within, y.array, 0)
    made = np.left_shift(x.array, by)
    return Column(made, ~within | (np.right_shift(made, by) != x.array))


def _right_shift(x: Column, y: Column) -> Column:
    c, d = y.bounds
    if c >= 0 and d <= 63:
        return Column(np.right_shift(x.array, y.array))
    return Column(np.right_shift(x.array, np.clip(y.array, 0, 63)), y.array < 0 if c < 0 else None)


def _integer_power(x: Column, y: Column) -> Column:
    exponent = int(y.array)
    low, high = x.bounds
    largest = max(abs(low), abs(high))
    if exponent <= 64 and largest**exponent <= MOST:
        return Column(np.power(x.array, exponent), None, (-(largest**exponent) if low < 0 else 0, largest**exponent))
    # Not by `abs`: -2^63 has no positive int64.
    most = int(MOST ** (1 / exponent)) - 1 if exponent <= 64 else 1
    bad = (x.array < -most) | (x.array > most)
    return Column(np.power(np.where(bad, 0, x.array), exponent), bad)


def _to_int(x: Column) -> Column:
    return Column(np.int64(x.array), None, (0, 1))


def _rounded(function: Callable[[Any], Any]) -> Callable[[Column], Column]:
    def rounded(x: Column) -> Column:
        array = function(x.array)
        inside = np.abs(array) < 2.0**63  # not for NaN
        if np.all(inside):
            return Column(np.int64(array))
        return Column(np.int64(np.where(inside, array, 0.0)), ~inside)

    return rounded


def _simple(function: Callable[..., Any]) -> Callable[..., Column]:
    return lambda *args: Column(function(*(arg.array for arg in args)))


def _divide(x: Column, y: Column) -> Column:
    bad = either(*(_inexact(arg) for arg in (x, y) if np.asarray(arg.array).dtype.kind == "i"))
    zero = y.array == 0
    return Column(np.true_divide(x.array, y.array), either(bad, zero if np.any(zero) else None))


def _by_float(function: Callable[[Any, Any], Any]) -> Callable[[Column, Column], Column]:
    """Return a quotient or remainder of floats; special cases are bad, although numpy uses Python's algorithm."""

    def divided(x: Column, y: Column) -> Column:
        bad = (y.array == 0) | ~np.isfinite(x.array) | ~np.isfinite(y.array)
        return Column(function(x.array, y.array), bad if np.any(bad) else None)

    return divided


def _root(x: Column) -> Column:
    bad = x.array < 0
    return Column(np.sqrt(x.array), bad if np.any(bad) else None)


def _exact_float(x: Column) -> Column:
    return Column(np.float64(x.array), _inexact(x))


def _unequal_nan(x: Column, y: Column) -> Column:
    bad = np.isnan(x.array) & np.isnan(y.array)
    return Column(bad, bad if np.any(bad) else None)


_OF_INTS = frozenset({"truediv"})
_INTS: dict[str, Callable[..., Column]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "neg": _negative,
    "abs": _absolute,
    "floordiv": _floor_divide,
    "mod": _modulo,
    "lshift": _left_shift,
    "rshift": _right_shift,
    "ipow": _integer_power,
    "toint": _to_int,
    "and": _simple(np.bitwise_and),
    "or": _simple(np.bitwise_or),
    "xor": _simple(np.bitwise_xor),
    "invert": _simple(np.invert),
    "truediv": _divide,
    "round": _rounded(np.rint),
    "trunc": _rounded(np.trunc),
    "floor": _rounded(np.floor),
    "ceil": _rounded(np.ceil),
}
_OTHERS: dict[str, Callable[..., Column]] = {
    "add": _simple(np.add),
    "sub": _simple(np.subtract),
    "mul": _simple(np.multiply),
    "neg": _simple(np.negative),
    "abs": _simple(np.abs),
    "floordiv": _by_float(np.floor_divide),
    "mod": _by_float(np.mod),
    "sqrt": _root,
    "copysign": _simple(np.copysign),
    "isnan": _simple(np.isnan),
    "isinf": _simple(np.isinf),
    "isfinite": _simple(np.isfinite),
    "tofloat": _simple(np.float64),
    "exactfloat": _exact_float,
    "unequal_nan": _unequal_nan,
    "and": _simple(np.logical_and),
    "or": _simple(np.logical_or),
    "xor": _simple(np.logical_xor),
}
