"""Run `agg` on columns: find the fields to which a record only adds a value, whatever the partial is.

Such a field is `acc (+) f(values)`, where (+) is one of the operations below. They are associative (float sums up to
rounding), so the values that the records of a group add can be combined first. This is recognized from the expression.
If all fields are of this form, a fold is one `reduceat` per field. For any other `agg`, the k-th records of all groups
are one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicing.tracing.exact import LEAST, MOST
from slicing.tracing.expressions import Expr, Graph, inputs
from slicing.tracing.formulas import Formula
from slicing.tracing.paths import Branch, Leaf, Tree

UFUNCS: dict[tuple[str, str], Any] = {
    ("add", "int"): np.add,
    ("add", "float"): np.add,
    ("min", "int"): np.minimum,
    ("max", "int"): np.maximum,
    ("min", "float"): np.minimum,
    ("max", "float"): np.maximum,
    ("or", "int"): np.bitwise_or,
    ("and", "int"): np.bitwise_and,
    ("xor", "int"): np.bitwise_xor,
    ("or", "bool"): np.logical_or,
    ("and", "bool"): np.logical_and,
    ("xor", "bool"): np.logical_xor,
}
_NOTHING: dict[tuple[str, str], Any] = {
    ("add", "int"): 0,
    ("add", "float"): -0.0,  # 0.0 would change -0.0
    ("min", "int"): MOST,
    ("max", "int"): LEAST,
    ("or", "int"): 0,
    ("and", "int"): -1,
    ("xor", "int"): 0,
    ("or", "bool"): False,
    ("and", "bool"): True,
    ("xor", "bool"): False,
}
"""The neutral value by operation and type; `min` and `max` of floats have none, because of NaN."""
_LESS, _MORE = ("lt", "le"), ("gt", "ge")
_KEEP = "keep"


@dataclass(frozen=True)
class Step:
    """A field of the form `acc (+) added`, where (+) is `op`; `op` is "keep" for an unchanged field."""

    op: str
    added: Expr | None

    def ufunc(self, type_: str) -> Any:
        """Return the numpy ufunc of the operation."""
        return UFUNCS[self.op, type_]


def step(graph: Graph, expr: Expr, acc: Expr) -> Step | None:
    """Return the expression of a field as the value that is added to `acc`, None if it has another form."""
    if expr is acc:
        return Step(_KEEP, None)
    found = _chosen(graph, expr, acc) if expr.op == "where" else _operated(graph, expr, acc)
    if found is None or (found.op != _KEEP and (found.op, acc.type) not in UFUNCS):
        return None
    return found


def _operated(graph: Graph, expr: Expr, acc: Expr) -> Step | None:
    if len(expr.args) != 2 or expr.op not in ("add", "sub", "or", "and", "xor"):
        return None
    x, y = expr.args
    if expr.op != "sub" and acc.value not in inputs([x]):
        x, y = y, x
    if acc.value in inputs([y]):
        return None
    inner = step(graph, x, acc)
    op = "add" if expr.op == "sub" else expr.op
    if inner is None or inner.op not in (op, _KEEP):
        return None
    if expr.op == "sub":
        y = graph.unary("neg", y)
    return Step(op, y if inner.added is None else graph.make(op, (inner.added, y), acc.type))


def _chosen(graph: Graph, expr: Expr, acc: Expr) -> Step | None:
    condition, yes, no = expr.args
    if acc.value in inputs([condition]):
        return _least(expr, acc) or _truth(graph, expr, acc)
    sides = [step(graph, side, acc) for side in (yes, no)]
    ops = {side.op for side in sides if side is not None} - {_KEEP}
    if None in sides or len(ops) > 1:
        return None
    if not ops:
        return Step(_KEEP, None)
    op = ops.pop()
    if (op, acc.type) not in _NOTHING:
        return None
    nothing = graph.constant(_NOTHING[op, acc.type])
    added = [nothing if side.added is None else side.added for side in sides]  # type: ignore[union-attr]
    return Step(op, graph.where(condition, *added))


def _least(expr: Expr, acc: Expr) -> Step | None:
    """Return `min` or `max` in any of its forms: `where(x < acc, x, acc)` and the like."""
    condition, yes, no = expr.args
    if condition.op not in (*_LESS, *_MORE) or {yes, no} != set(condition.args) or acc not in (yes, no):
        return None
    other = yes if no is acc else no
    if acc.value in inputs([other]):
        return None
    if acc.type == "float" and condition.op in ("le", "ge"):
        return None
    takes_first = condition.args[0] is yes
    return Step("min" if (condition.op in _LESS) == takes_first else "max", other)


def _truth(graph: Graph, expr: Expr, acc: Expr) -> Step | None:
    """Return `acc or x` or `acc and x` of Booleans."""
    condition, yes, no = expr.args
    if condition is not acc or acc.type != "bool":
        return None
    kept = (acc, graph.constant(True)), (acc, graph.constant(False))
    if yes in kept[0] and acc.value not in inputs([no]):
        return Step("or", no)
    if no in kept[1] and acc.value not in inputs([yes]):
        return Step("and", yes)
    return None


def steps(formula: Formula, accs: Sequence[Expr]) -> list[Step] | None:
    """Return all fields of `agg` as added values; None if one has another form, or may fail because of the partial."""
    found = [step(formula.graph, expr, acc) for expr, acc in zip(formula.outputs, accs, strict=True)]
    own = {acc.value for acc in accs}
    known = [each for each in found if each is not None]
    crossed = any(own & inputs([each.added]) for each in known if each.added is not None)
    if len(known) < len(found) or crossed or _fails_by(formula.tree, own, set(_sums(formula.outputs, accs))):
        return None
    return known


def joins(formula: Formula, older: Sequence[Expr], newer: Sequence[Expr]) -> list[Step] | None:
    """Return `combine` as one operation per field, on the same fields of both partials; None if it has another form.

    Also None if it can fail for any partial, because runs are then combined without intermediate partials.
    """
    found = steps(formula, older)
    if found is None or any(each.added is not field for each, field in zip(found, newer, strict=True)):
        return None
    return None if can_fail(formula, older) else found


def can_fail(formula: Formula, accs: Sequence[Expr]) -> bool:
    """Return whether a function of partials can fail in any way except by a sum that becomes too large."""
    return _can_fail(formula.tree, set(_sums(formula.outputs, accs)))


def _sums(outputs: Sequence[Expr], accs: Sequence[Expr]) -> Iterator[Expr]:
    """Yield the sums that contain a partial; these can fail only by becoming too large."""
    for expr, acc in zip(outputs, accs, strict=True):
        waiting = [expr]
        while waiting:
            each = waiting.pop()
            if each.op in ("add", "sub") and acc.value in inputs([each]):
                yield each
            waiting += each.args if each.op in ("where", "add", "sub") else ()


def _fails_by(tree: Tree, own: set[Any], sums: set[Expr]) -> bool:
    """Return whether a failure may depend on the partial, other than by a sum that becomes too large."""
    if any(own & inputs([check]) and check not in sums for check in tree.checks):
        return True
    if isinstance(tree, Leaf):
        return tree.outputs is None
    if own & inputs([tree.condition]) and any(_can_fail(side, sums) for side in (tree.yes, tree.no)):
        return True
    return any(_fails_by(side, own, sums) for side in (tree.yes, tree.no) if not _raises(side))


def _can_fail(tree: Tree, sums: set[Expr]) -> bool:
    if not sums.issuperset(tree.checks) or _raises(tree):
        return True
    return isinstance(tree, Branch) and any(_can_fail(side, sums) for side in (tree.yes, tree.no))


def _raises(tree: Tree) -> bool:
    return isinstance(tree, Leaf) and tree.outputs is None


def without(tree: Tree, own: set[Any]) -> Tree:
    """Return the tree reduced to failures that do not depend on the partial; its results are meaningless."""
    checks = tuple(check for check in tree.checks if not own & inputs([check]))
    if isinstance(tree, Leaf):
        return Leaf(checks, tree.outputs)
    if own & inputs([tree.condition]):
        return Leaf(checks, ())
    return Branch(checks, tree.condition, without(tree.yes, own), without(tree.no, own))
