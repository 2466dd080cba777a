"""Formulas: a user's function as a tree of paths, and an expression for each field of its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.fields import FLOATS, INTEGERS, Field
from slicing.tracing.exact import DTYPES, Calculation, Column, Mask, is_static
from slicing.tracing.expressions import Expr, Graph, Untraceable
from slicing.tracing.paths import Path, Tree, explore, merged
from slicing.tracing.rebound import Check, checked, rebound
from slicing.tracing.tracers import OpaqueTracer, Tracer, expr_of, is_number

TYPES = {"boolean": "bool", **dict.fromkeys(INTEGERS, "int"), **dict.fromkeys(FLOATS, "float")}
"""Python's number types by kind; other kinds have no entry."""
_EXACT_FLOAT = 2**53

Arguments = Callable[[Path], tuple[Any, ...]]
Returned = Callable[[Path, Any], tuple[Expr, ...]]


@dataclass(frozen=True)
class Formula:
    """The results of a function as `outputs`, and the `tree` of its paths; valid while all `unchanged` checks hold.

    `always`: no path can fail.
    """

    graph: Graph
    tree: Tree
    outputs: tuple[Expr, ...]
    unchanged: tuple[Check, ...]
    always: bool

    def holds(self) -> bool:
        """Return whether everything that the function reads outside of itself is unchanged."""
        return all(check() for check in self.unchanged)

    def run(self, inputs: dict[tuple[str, int], Column], count: int) -> tuple[list[Any], Mask | bool]:
        """Return the outputs, one array of `count` items each, masked where None, and the mask of bad cells."""
        with np.errstate(all="ignore"):
            calculation = Calculation(inputs)
            arrays = [_whole(calculation, expr, count) for expr in self.outputs]
            bad = None if self.always else calculation.bad(self.tree)
        return arrays, np.broadcast_to(bad, (count,)) if isinstance(bad, np.ndarray | np.bool_) else bad


def _whole(calculation: Calculation, expr: Expr, count: int) -> Any:
    array = calculation.of(expr).array
    if expr.type != "none" and np.ndim(array) == 0:
        array = np.full(count, array, dtype=DTYPES[expr.type])
    absent = calculation.nulls(expr)
    if absent is None:
        return array
    if expr.type == "none":
        return np.ma.MaskedArray(np.zeros(count, dtype=bool), True)
    return np.ma.MaskedArray(array, np.broadcast_to(absent, (count,)))


def traced_function(function: Any, arguments: Arguments, returned: Returned) -> Formula:
    """Return the formula of a function. Raises Untraceable with the reason."""
    unchanged = tuple(checked(function))
    graph = Graph()

    def run(path: Path) -> tuple[Expr, ...]:
        return returned(path, rebound(function, path)(*arguments(path)))

    tree = explore(graph, run)
    outputs = merged(graph, tree)
    if outputs is None:
        raise Untraceable("it always raises")
    graph.is_open = False
    return Formula(graph, tree, outputs, unchanged, is_static(tree))


class Signature:
    """The types of an aggregate's partials, which all its functions share."""

    def __init__(self, aggregate: Aggregate):
        value = aggregate.init()
        self.fields = aggregate.fields
        self.results = aggregate.results
        self.is_single = not isinstance(value, tuple)
        self.types = [TYPES[field.kind] for field in self.fields]
        self.init = list(value) if isinstance(value, tuple) else [value]
        self.coerced = [type(item) is int and kind == "float" for item, kind in zip(self.init, self.types, strict=True)]

    def partial(self, name: str, types: Sequence[str] | None = None) -> Callable[[Path], Any]:
        """Return a function that makes the tracer of a partial named `name`."""

        def made(path: Path) -> Any:
            parts = tuple(
                Tracer(path, path.graph.input(name, -1 if self.is_single else at, type_))
                for at, type_ in enumerate(types or self.types)
            )
            return parts[0] if self.is_single else parts

        return made

    def returned(self, path: Path, value: Any) -> tuple[Expr, ...]:
        """Return the expressions of a partial that a function returned, with the fields' types."""
        return tuple(self._typed(path, item, at) for at, item in enumerate(self._parts(value)))

    def _parts(self, value: Any) -> tuple[Any, ...]:
        if self.is_single:
            return (value,)
        if type(value) is not tuple or len(value) != len(self.fields):
            what = f"a tuple of {len(value)}" if type(value) is tuple else f"a {type(value).__name__}"
            raise Untraceable(f"it returns {what}, not {len(self.fields)} fields")
        return value

    def _typed(self, path: Path, item: Any, at: int) -> Expr:
        wanted, field = self.types[at], self.fields[at]
        if not is_number(item):
            raise Untraceable(f"it returns a {type(item).__name__} for `{field}`")
        expr = expr_of(path, item)
        if expr.type == wanted:
            return expr
        if wanted == "float" and expr.op == "const" and expr.type == "int" and abs(expr.value) <= _EXACT_FLOAT:
            return path.graph.as_float(expr)
        raise Untraceable(f"it returns {_named(expr.type)} for `{field}`")


def _named(type_: str) -> str:
    return {"int": "an integer", "float": "a float", "bool": "a Boolean", "none": "None"}[type_]


def unfit(aggregate: Aggregate) -> str:
    """Return the reason why the partials of an aggregate are not columns of numbers; empty if they are."""
    init = aggregate.init()
    items = init if isinstance(init, tuple) else (init,)
    if type(init) is not tuple and isinstance(init, tuple):
        return f"`init` returns a {type(init).__name__}"
    for item, field in zip(items, aggregate.fields, strict=True):
        wanted = TYPES.get(field.kind)
        if wanted is None:
            return f"the field `{field}` is no number"
        kind = type(item).__name__
        exact = kind == "int" and wanted == "float" and abs(item) <= _EXACT_FLOAT
        if not (kind == wanted or exact) or (wanted == "int" and not -(2**63) <= item < 2**63):
            return f"`init` returns a {kind} for `{field}`"
    return ""


def of_agg(aggregate: Aggregate, signature: Signature, values: Sequence[str]) -> Formula:
    """Return the formula of `agg` for values of these types; its inputs are partials `acc` and values `value`.

    Values of types other than Python's numbers have no numpy equal.
    """

    def arguments(types: Sequence[str] | None = None) -> Arguments:
        return lambda path: (
            signature.partial("acc", types)(path),
            *(_value(path, at, type_, aggregate.nulls) for at, type_ in enumerate(values)),
        )

    formula = traced_function(aggregate.agg, arguments(), signature.returned)
    if any(signature.coerced):
        _check_coerced(aggregate, signature, arguments)
    return formula


def _value(path: Path, at: int, type_: str, nulls: bool) -> Any:
    if nulls and path.decide(path.graph.input("null", at, "bool")):
        return None
    if type_ not in DTYPES:
        return OpaqueTracer(path, type_)
    return Tracer(path, path.graph.input("value", at, type_))


def _check_coerced(
    aggregate: Aggregate, signature: Signature, arguments: Callable[[Sequence[str] | None], Arguments]
) -> None:
    """Check that `agg` converts an int of `init` for a double field to float, or Python would continue with an int."""
    types = ["int" if coerced else type_ for coerced, type_ in zip(signature.coerced, signature.types, strict=True)]

    def returned(path: Path, value: Any) -> tuple[Expr, ...]:
        for at, item in enumerate(signature._parts(value)):
            expr = expr_of(path, item)
            if signature.coerced[at] and expr.type == "int" and expr.op not in ("const", "input"):
                raise Untraceable(f"it returns an integer for `{signature.fields[at]}`")
        return ()

    traced_function(aggregate.agg, arguments(types), returned)


def of_two(function: Any, signature: Signature, names: tuple[str, str]) -> Formula:
    """Return the formula of `combine` or `invert`, for two partials with these names."""
    return traced_function(
        function, lambda path: tuple(signature.partial(name)(path) for name in names), signature.returned
    )


def of_lower(function: Any, signature: Signature) -> Formula:
    """Return the formula of `lower` for a partial named `a`; without a function, the partial is the result."""
    results = signature.results
    for field in results:
        if field.kind not in TYPES:
            raise Untraceable(f"its result `{field}` is no number")
    whole = len(results) == 1 and not (function is None and not signature.is_single)

    def returned(path: Path, value: Any) -> tuple[Expr, ...]:
        if not whole and (type(value) is not tuple or len(value) != len(results)):
            raise Untraceable(f"it does not return a tuple of {len(results)}")
        items = (value,) if whole else value
        return tuple(_result(path, item, field) for item, field in zip(items, results, strict=True))

    def arguments(path: Path) -> tuple[Any, ...]:
        return (signature.partial("a")(path),)

    if function is None:
        return traced_function(_same, arguments, returned)
    return traced_function(function, arguments, returned)


def _same(a: Any) -> Any:
    return a


def _result(path: Path, item: Any, field: Field) -> Expr:
    wanted = TYPES[field.kind]
    if item is None:
        return path.graph.constant(None)
    if not is_number(item):
        raise Untraceable(f"it returns a {type(item).__name__} for `{field}`")
    expr = expr_of(path, item)
    if expr.type == wanted:
        return expr
    if wanted == "float" and expr.type == "int":
        if expr.op == "const" and abs(expr.value) <= _EXACT_FLOAT:
            return path.graph.as_float(expr)
        return path.noted(path.graph.make("exactfloat", (expr,), "float"))
    raise Untraceable(f"it returns {_named(expr.type)} for `{field}`")
