"""Tracers: they replace numbers while a function is traced, and record the operations on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from slicing.tracing.expressions import COMPARISONS, Expr
from slicing.tracing.paths import Path

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
_REFUSED = {
    "__int__": "it makes an int of a value",
    "__float__": "it makes a float of a value",
    "__complex__": "it makes a complex number of a value",
    "__index__": "it counts or indexes by a value",
    "__iter__": "it loops over a value",
    "__len__": "it asks for the length of a value",
    "__getitem__": "it takes an item of a value",
    "__setitem__": "it sets an item of a value",
    "__contains__": "it looks for something in a value",
    "__hash__": "it looks a value up in a set or a dict",
    "__call__": "it calls a value",
    "__enter__": "it uses a value in `with`",
    "__round__": "it rounds a value in a way that is not known",
    "__trunc__": "it truncates a value in a way that is not known",
    "__floor__": "it rounds a value in a way that is not known",
    "__ceil__": "it rounds a value in a way that is not known",
    "__matmul__": "it multiplies matrices",
    "__rmatmul__": "it multiplies matrices",
}


class Tracer:
    """The tracer of an unknown number, with a type and a path. Unsupported uses stop the tracing."""

    __slots__ = ("expr", "path")

    def __init__(self, path: Path, expr: Expr):
        self.path, self.expr = path, expr

    def __bool__(self) -> bool:
        condition = self.path.graph.truth(self.expr)
        if condition.op in ("eq", "ne") and condition.args[0].type == "float" and condition.args[1].op != "const":
            # Python compares tuple items by identity first, so a NaN equals itself if it is the same object.
            self.path.noted(self.path.graph.make("unequal_nan", condition.args, "bool"))
        return self.path.decide(condition)

    def __getattr__(self, name: str) -> NoReturn:
        self.path.refuse(f"it uses the attribute `{name}` of a value")

    def __format__(self, _: str) -> str:
        self.path.formatted = True
        return "value"

    __str__ = __repr__ = lambda self: self.__format__("")

    def __neg__(self) -> Any:
        return self._unary("neg")

    def __pos__(self) -> Any:
        return self._unary("pos")

    def __abs__(self) -> Any:
        return self._unary("abs")

    def __invert__(self) -> Any:
        return self._unary("invert")

    def _unary(self, op: str) -> Any:
        return noted(self.path, self.path.graph.unary(op, self.expr))


def _operator(op: str, swapped: bool) -> Callable[[Tracer, Any], Any]:
    def operate(self: Tracer, other: Any) -> Any:
        if op in ("eq", "ne") and other is None:
            return op == "ne"
        if not is_number(other):
            self.path.refuse(f"it calculates with a {type(other).__name__}")
        pair = (expr_of(self.path, other), self.expr) if swapped else (self.expr, expr_of(self.path, other))
        return noted(self.path, self.path.graph.binary(op, *pair))

    return operate


def _refusing(why: str) -> Callable[..., NoReturn]:
    return lambda self, *_: self.path.refuse(why)


_SPECIAL = {
    *_REFUSED,
    *(f"__{op}__" for op in (*_BINARY, *(f"r{op}" for op in _BINARY), *COMPARISONS)),
    *(f"__{op}__" for op in ("neg", "pos", "abs", "invert", "bool", "divmod", "rdivmod", "reversed", "next", "bytes")),
    *(f"__{op}__" for op in ("delitem", "exit", "format", "str", "repr", "instancecheck", "subclasscheck")),
}
"""The methods through which Python and its builtin functions use an object."""


def refuse_rest(kind: type, why: Callable[[Any], str]) -> None:
    """Let all special methods that `kind` does not define stop the tracing."""

    def refused(self: Any, *_: Any) -> Any:
        return self.path.refuse(why(self))

    for name in _SPECIAL - set(vars(kind)):
        setattr(kind, name, refused)


for _op in _BINARY:
    setattr(Tracer, f"__{_op}__", _operator(_op, swapped=False))
    setattr(Tracer, f"__r{_op}__", _operator(_op, swapped=True))
for _op in COMPARISONS:
    setattr(Tracer, f"__{_op}__", _operator(_op, swapped=False))
for _name, _why in _REFUSED.items():
    setattr(Tracer, _name, _refusing(_why))
refuse_rest(Tracer, lambda _: "it uses a value in a way that is not known")


class OpaqueTracer:
    """The tracer of a value without a numpy equal: it may only be passed on or compared with None."""

    __slots__ = ("kind", "path")

    def __init__(self, path: Path, kind: str):
        self.path, self.kind = path, kind

    def __getattr__(self, name: str) -> NoReturn:
        self.path.refuse(f"it uses a value of type {self.kind}")


refuse_rest(OpaqueTracer, lambda self: f"it uses a value of type {self.kind}")


def is_number(value: Any) -> bool:
    """Return whether a value is a tracer or a number of Python's own types."""
    return type(value) in (Tracer, bool, int, float)


def expr_of(path: Path, value: Any) -> Expr:
    """Return the expression of a tracer or a constant."""
    if type(value) is Tracer:
        if value.path is not path:
            path.refuse("it keeps values from one call to the next")
        return value.expr
    return path.graph.constant(value)


def noted(path: Path, expr: Expr) -> Any:
    """Return the tracer of an expression, and let the path check the expression and its arguments."""
    for arg in expr.args:
        path.noted(arg)
    return Tracer(path, path.noted(expr))
