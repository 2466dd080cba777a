"""Paths: run a function once per path through its branches, which makes a tree of conditions and results."""

from __future__ import annotations

import opcode
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import NoReturn

from slicing.tracing.expressions import Expr, Graph, Untraceable

MOST_PATHS = 16
_TEXT = "it makes text of a value"
_RAISE = opcode.opmap["RAISE_VARARGS"]


@dataclass(frozen=True)
class Leaf:
    """The end of a path: its results, None if it raises; `checks` may fail after the last condition."""

    checks: tuple[Expr, ...]
    outputs: tuple[Expr, ...] | None


@dataclass(frozen=True)
class Branch:
    """A condition and the paths after it; `checks` may fail after the previous condition."""

    checks: tuple[Expr, ...]
    condition: Expr
    yes: Tree
    no: Tree


Tree = Leaf | Branch


@dataclass
class Path:
    """One run of a function: its decisions, beginning with the `given` ones. Tracers report their operations to it."""

    graph: Graph
    given: list[bool]
    decided: list[tuple[Expr, bool, tuple[Expr, ...]]] = field(default_factory=list)
    checks: list[Expr] = field(default_factory=list)
    formatted: bool = False
    _known: dict[int, bool] = field(default_factory=dict)
    _checked: set[int] = field(default_factory=set)

    @property
    def failed(self) -> str:
        """The reason why the tracing has stopped; empty if it has not."""
        return self.graph.failed

    def noted(self, expr: Expr) -> Expr:
        """Return the expression; if it is fallible, the path fails in the cells in which it fails."""
        if expr.is_fallible and id(expr) not in self._checked:
            self._checked.add(id(expr))
            self.checks.append(expr)
        return expr

    def decide(self, condition: Expr) -> bool:
        """Return the branch of a condition that this path takes."""
        if condition.op == "const":
            return bool(condition.value)
        if id(condition) not in self._known:
            place = len(self.decided)
            if place >= MOST_PATHS:
                self.refuse(f"it has more than {MOST_PATHS} paths")
            taken = self.given[place] if place < len(self.given) else True
            self.decided.append((condition, taken, tuple(self.checks)))
            self.checks.clear()
            self._known[id(condition)] = taken
        return self._known[id(condition)]

    def refuse(self, why: str) -> NoReturn:
        """Stop the tracing, even if the function catches all exceptions."""
        self.graph.refuse(why)


def explore(graph: Graph, run: Callable[[Path], tuple[Expr, ...]]) -> Tree:
    """Return the tree of a function; `run` runs it on the tracers of one path. Raises Untraceable."""
    paths = 0

    def build(given: list[bool]) -> Tree:
        nonlocal paths
        paths += 1
        if paths > MOST_PATHS:
            raise Untraceable(f"it has more than {MOST_PATHS} paths")
        path = Path(graph, given)
        outputs = _outcome(path, run)
        if [taken for _, taken, _ in path.decided[: len(given)]] != given:
            raise Untraceable("it does not do the same twice")
        node: Tree = Leaf(tuple(path.checks), outputs)
        for place in range(len(path.decided) - 1, len(given) - 1, -1):
            condition, _, checks = path.decided[place]
            no = build([taken for _, taken, _ in path.decided[:place]] + [False])
            node = Branch(checks, condition, node, no)
        return node

    return build([])


def _outcome(path: Path, run: Callable[[Path], tuple[Expr, ...]]) -> tuple[Expr, ...] | None:
    """Return the result of one run, None if the function raises deliberately."""
    try:
        outputs = run(path)
    except Untraceable:
        raise
    except Exception as error:
        if path.failed:
            raise Untraceable(path.failed) from None
        if not _on_purpose(error.__traceback__):
            why = f"it raises {type(error).__name__} on a tracer: {error}"
            raise Untraceable(_TEXT if path.formatted else why) from error
        return None
    if path.failed:
        raise Untraceable(path.failed)
    if path.formatted:
        raise Untraceable(_TEXT)
    return outputs


def _on_purpose(traceback: TracebackType | None) -> bool:
    """Return whether an exception comes from `raise` or `assert`."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == _RAISE


def merged(graph: Graph, tree: Tree) -> tuple[Expr, ...] | None:
    """Return the results of a tree, with its conditions as `where`; None if all paths raise."""
    if isinstance(tree, Leaf):
        return tree.outputs
    yes, no = merged(graph, tree.yes), merged(graph, tree.no)
    if yes is None or no is None:
        return no if yes is None else yes
    return tuple(graph.where(tree.condition, y, n) for y, n in zip(yes, no, strict=True))
