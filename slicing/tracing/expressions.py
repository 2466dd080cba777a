"""Expressions: the operations of a function on tracers, as a graph of typed operations. Nothing is evaluated here.

Types are those of Python's numbers: "bool", "int", "float"; and "none" for None. The types of arguments and results
follow Python's rules: `True + 1` is an int, `1 / 2` a float. An operation is *fallible* if it may raise, or if numpy
may have no equal result: `slicing.tracing.exact` finds the cells in which it fails.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

MOST_NODES = 1000
"""Functions with more operations than this are not traced: they are loops rather than formulas."""
MOST_DEPTH = 200
"""Functions in which more operations than this wait for each other are not traced: evaluation is recursive."""
_NUMBERS = ("bool", "int", "float")
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
_BITS = {"and": "&", "or": "|", "xor": "^"}
_SHIFTS = {"lshift": "<<", "rshift": ">>"}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_INFIX = {**_ARITHMETIC, **_BITS, **_SHIFTS, **COMPARISONS, "truediv": "/"}
_NAMES = {
    "abs": "np.abs",
    "sqrt": "np.sqrt",
    "copysign": "np.copysign",
    "isnan": "np.isnan",
    "isinf": "np.isinf",
    "isfinite": "np.isfinite",
    "where": "np.where",
    "tofloat": "np.float64",
    "exactfloat": "np.float64",
    "toint": "np.int64",
    "round": "np.rint",
    "trunc": "np.trunc",
    "floor": "np.floor",
    "ceil": "np.ceil",
}
FALLIBLE = frozenset(
    {"truediv", "floordiv", "mod", "lshift", "rshift", "ipow", "sqrt", "exactfloat", "round", "trunc", "floor", "ceil"}
) | {"call", "unequal_nan"}
"""Operations that may fail in some cells, whatever their types; integer arithmetic may also overflow."""


class Untraceable(BaseException):
    """The reason why a function is not traced. It is not an Exception, so that the function does not catch it."""


@dataclass(frozen=True, eq=False)
class Expr:
    """An operation on other expressions, with a type; or an input or a constant, held by `value`.

    Equal expressions are one object. `call` is the function that is called for each item if `op` is "call". `depth` is
    the longest chain of operations that need each other.
    """

    op: str
    args: tuple[Expr, ...]
    type: str
    value: Any = None
    call: Callable[..., Any] | None = None
    depth: int = 0

    @property
    def is_fallible(self) -> bool:
        """Whether this operation itself may fail in some cells."""
        if self.op in COMPARISONS:
            return {arg.type for arg in self.args} == {"int", "float"}
        return self.op in FALLIBLE or (self.type == "int" and self.op in ("add", "sub", "mul", "neg", "abs"))

    def __str__(self) -> str:
        return _text(self, top=True)


class Graph:
    """Creates the expressions of one function, each distinct one once.

    `is_open`: the function is being traced, and refused if it has too many operations. What is later derived from its
    expressions is never refused.
    """

    def __init__(self) -> None:
        self.failed = ""
        self.is_open = True
        self._known: dict[Any, Expr] = {}

    def refuse(self, why: str) -> NoReturn:
        """Stop the tracing. The reason is kept, in case the function catches all exceptions."""
        self.failed = self.failed or why
        raise Untraceable(why)

    def make(
        self, op: str, args: tuple[Expr, ...], type_: str, value: Any = None, call: Callable[..., Any] | None = None
    ) -> Expr:
        """Return the expression; it is created at most once."""
        key = (op, tuple(map(id, args)), type_, _exact_key(value), call)
        if key not in self._known:
            depth = 1 + max((arg.depth for arg in args), default=-1)
            if self.is_open and len(self._known) >= MOST_NODES:
                self.refuse(f"it has more than {MOST_NODES} operations")
            if self.is_open and depth > MOST_DEPTH:
                self.refuse(f"more than {MOST_DEPTH} of its operations wait for each other")
            self._known[key] = Expr(op, args, type_, value, call, depth)
        return self._known[key]

    def input(self, name: str, at: int, type_: str) -> Expr:
        """Return input `at` of the inputs named `name`, for example field 0 of the partial `acc`."""
        return self.make("input", (), type_, (name, at))

    def constant(self, value: Any) -> Expr:
        """Return a constant: a bool, an int of 64 bits, a float or None."""
        if value is None:
            return self.make("const", (), "none")
        kind = type(value).__name__
        if kind not in _NUMBERS:
            self.refuse(f"it uses a value of type {kind}")
        if kind == "int" and not -(2**63) <= value < 2**63:
            self.refuse("it uses an integer of more than 64 bits")
        return self.make("const", (), kind, value)

    def unary(self, op: str, x: Expr) -> Expr:
        """Return minus, plus, absolute value or bitwise inverse of an expression."""
        if op == "invert":
            if x.type == "float":
                self.refuse("it inverts the bits of a float")
            return self.make("invert", (self.as_int(x),), "int")
        x = self.as_int(x)
        return x if op == "pos" else self.make(op, (x,), x.type)

    def binary(self, op: str, x: Expr, y: Expr) -> Expr:
        """Return a binary operation with Python's rules for the types of its operands."""
        types = {x.type, y.type}
        if "none" in types:
            self.refuse("it calculates with None")
        if op == "pow":
            return self._power(x, y)
        if op in _BITS and types == {"bool"}:
            return self.make(op, (x, y), "bool")
        x, y = self.as_int(x), self.as_int(y)
        if op in COMPARISONS:
            if "float" in types:
                x, y = self._exact_constant(x), self._exact_constant(y)
            return self.make(op, (x, y), "bool")
        if op in _BITS or op in _SHIFTS:
            if "float" in types:
                self.refuse(f"it uses `{_INFIX[op]}` on a float")
            return self.make(op, (x, y), "int")
        if op == "truediv" and types <= {"int", "bool"}:
            return self.make(op, (x, y), "float")
        if "float" in types:
            return self.make(op, (self.as_float(x), self.as_float(y)), "float")
        return self.make(op, (x, y), "int")

    def _exact_constant(self, x: Expr) -> Expr:
        """Return a constant integer as a float if it is the same number."""
        return self.as_float(x) if x.op == "const" and x.type == "int" and abs(x.value) <= 2**53 else x

    def _power(self, x: Expr, y: Expr) -> Expr:
        x, y = self.as_int(x), self.as_int(y)
        if "float" in (x.type, y.type):
            # Not numpy's power: its last bit may differ from the C library's.
            return self.called(pow, (x, y), "float")
        if y.op == "const" and y.value >= 0:
            return self.make("ipow", (x, y), "int") if y.value else self.constant(1)
        self.refuse("it raises an integer to a power that is not a constant >= 0")

    def called(self, function: Callable[..., Any], args: tuple[Expr, ...], type_: str) -> Expr:
        """Return a call of a function that Python calls for each item, where numpy has no equal function."""
        return self.make("call", args, type_, call=function)

    def where(self, condition: Expr, yes: Expr, no: Expr) -> Expr:
        """Return `yes` where the condition holds, else `no`; both have one type, or one of them is None."""
        if yes is no:
            return yes
        types = {yes.type, no.type} - {"none"}
        return self.make("where", (condition, yes, no), types.pop() if types else "none")

    def truth(self, x: Expr) -> Expr:
        """Return `bool` of a number: NaN is true."""
        if x.type == "bool":
            return x
        return self.make("ne", (x, self.constant(0 if x.type == "int" else 0.0)), "bool")

    def as_int(self, x: Expr) -> Expr:
        """Return a bool as an int, as in arithmetic; other expressions are unchanged."""
        if x.type != "bool":
            return x
        return self.constant(int(x.value)) if x.op == "const" else self.make("toint", (x,), "int")

    def as_float(self, x: Expr) -> Expr:
        """Return a number as `float(x)`."""
        if x.type == "float":
            return x
        x = self.as_int(x)
        return self.constant(float(x.value)) if x.op == "const" else self.make("tofloat", (x,), "float")

    def rounded(self, op: str, x: Expr) -> Expr:
        """Return a float rounded to an int by `round`, `trunc`, `floor` or `ceil`; an int is unchanged."""
        x = self.as_int(x)
        return x if x.type == "int" else self.make(op, (x,), "int")


def inputs(expressions: Sequence[Expr]) -> set[tuple[str, int]]:
    """Return the inputs of these expressions, as (name, position)."""
    return {expr.value for expr in walk(expressions) if expr.op == "input"}


def walk(expressions: Sequence[Expr]) -> Iterator[Expr]:
    """Yield these expressions and all their parts, each once."""
    seen: set[int] = set()
    waiting = list(expressions)
    while waiting:
        expr = waiting.pop()
        if id(expr) not in seen:
            seen.add(id(expr))
            yield expr
            waiting.extend(expr.args)


def _exact_key(value: Any) -> Any:
    """Return a key that distinguishes 0.0 from -0.0 and 1 from True, and equals itself for NaN."""
    return (float, struct.pack("<d", value)) if type(value) is float else (type(value), value)


def _text(expr: Expr, top: bool = False) -> str:
    if expr.op == "const":
        return (
            str(expr.value) if expr.type != "float" or abs(expr.value) < float("inf") else f"np.float64('{expr.value}')"
        )
    if expr.op == "input":
        name, at = expr.value
        return name if at < 0 else f"{name}[{at}]"
    if expr.op in _INFIX:
        inner = f" {_INFIX[expr.op]} ".join(map(_text, expr.args))
        return inner if top else f"({inner})"
    args = ", ".join(_text(arg, top=True) for arg in expr.args)
    if expr.op in ("neg", "invert"):
        return f"{'-' if expr.op == 'neg' else '~'}{_text(expr.args[0])}"
    if expr.op == "ipow":
        return f"{_text(expr.args[0])} ** {expr.args[1]}"
    if expr.op == "call":
        return f"each({getattr(expr.call, '__name__', 'function')}, {args})"
    return f"{_NAMES.get(expr.op, expr.op)}({args})"
