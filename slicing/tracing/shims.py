"""Shims: replacements, for tracers, of the functions that a traced function may call."""

from __future__ import annotations

import builtins
import math
import operator
import sys
from collections.abc import Callable
from functools import cache
from inspect import Signature, signature
from typing import Any, NoReturn

from slicing.tracing.expressions import Expr
from slicing.tracing.paths import Path
from slicing.tracing.tracers import OpaqueTracer, Tracer, expr_of, is_number, noted, refuse_rest

_ONE = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "degrees",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "gamma",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "radians",
    "sin",
    "sinh",
    "tan",
    "tanh",
]
_TWO = ["atan2", "fmod", "hypot", "log", "nextafter", "pow", "remainder"]
_EXACT = ("isnan", "isinf", "isfinite")
_CONSTANTS = ("pi", "e", "tau", "inf", "nan")
_AS_THEY_ARE = [
    "tuple",
    "list",
    "dict",
    "set",
    "frozenset",
    "range",
    "len",
    "zip",
    "enumerate",
    "reversed",
    "map",
    "filter",
    "all",
    "any",
    "str",
    "repr",
    "format",
    "BaseException",
    "Exception",
    "ArithmeticError",
    "AssertionError",
    "LookupError",
    "OverflowError",
    "RuntimeError",
    "TypeError",
    "ValueError",
    "ZeroDivisionError",
]
"""Builtins that work on tracers unchanged, because they use the tracers' operators; or these stop the tracing."""
_OPERATORS = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
    "neg",
    "pos",
    "abs",
    "invert",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "not_",
    "truth",
]


_UNTOLD: dict[Any, Callable[..., Any]] = {
    int: lambda x=0, /, base=10: None,
    bool: lambda x=False, /: None,
    float: lambda x=0, /: None,
    min: lambda *values, key=None, default=None: None,
    max: lambda *values, key=None, default=None: None,
    math.log: lambda x, base=0, /: None,
    math.hypot: lambda *coordinates: None,
}
"""The signatures of functions that do not report them in some version of Python."""


@cache
def _signature(original: Any) -> Signature:
    """Return the signature of a builtin function. Raises ValueError if it is not known."""
    try:
        return signature(original)
    except ValueError:
        if original not in _UNTOLD:
            raise
        return signature(_UNTOLD[original])


class Shim:
    """Replaces a builtin function; any other use, and any exception, stops the tracing.

    `call` gets the arguments of the original if one of them is a tracer; otherwise the original itself is called. With
    `of_items`, tracers may be inside of arguments, so `call` gets all arguments.
    """

    __slots__ = ("call", "of_items", "original", "path")

    def __init__(self, path: Path, original: Any, call: Callable[..., Any], of_items: bool = False):
        self.path, self.original, self.call, self.of_items = path, original, call, of_items

    @property
    def signature(self) -> Signature:
        """The signature of the original."""
        return _signature(self.original)

    def __call__(self, /, *values: Any, **options: Any) -> Any:
        kinds = set(map(type, (*values, *options.values())))
        if not self.of_items and Tracer not in kinds:
            if OpaqueTracer in kinds:
                self.path.refuse(f"it calls `{self.original.__name__}` of a value")
            return self.original(*values, **options)
        try:
            bound = self.signature.bind(*values, **options)
            return self.call(*bound.args, **bound.kwargs)
        except Exception as error:
            self.path.refuse(f"it calls `{self.original.__name__}` in a way that is not known ({error})")

    def __getattr__(self, name: str) -> NoReturn:
        self.path.refuse(f"it uses the attribute `{name}` of `{self.original.__name__}`")


refuse_rest(Shim, lambda self: f"it uses `{self.original.__name__}` but does not call it")


class _Module:
    """A module with some names that can be traced."""

    def __init__(self, path: Path, name: str, known: dict[str, Any]):
        self.__dict__.update(known)
        self._path, self._name = path, name

    def __getattr__(self, name: str) -> NoReturn:
        self._path.refuse(f"it calls `{self._name}.{name}`")


class Shims:
    """The shims of one path."""

    def __init__(self, path: Path):
        self.path = path
        made = {name: getattr(builtins, name) for name in (*_AS_THEY_ARE, "abs")}
        calls: dict[str, Callable[..., Any]] = {
            "round": self._round,
            "int": self._int,
            "float": self._float,
            "bool": self._bool,
            "divmod": self._divmod,
            "pow": self._pow,
        }
        of_items: dict[str, Callable[..., Any]] = {
            "min": self._min,
            "max": self._max,
            "sum": self._sum,
            "isinstance": self._isinstance,
        }
        made |= {name: Shim(path, getattr(builtins, name), call) for name, call in calls.items()}
        made |= {name: Shim(path, getattr(builtins, name), call, of_items=True) for name, call in of_items.items()}
        self.builtins: dict[str, Any] = made
        self.math = _Module(path, "math", {name: getattr(math, name) for name in _CONSTANTS})
        of_math: dict[str, Callable[..., Any]] = {
            "sqrt": self._sqrt,
            "copysign": self._copysign,
            "fabs": lambda x: abs(self._float(x)),
            **{name: self._rounded(name) for name in ("floor", "ceil", "trunc")},
            **{name: self._exact(name) for name in _EXACT},
            **{name: self._each(name) for name in {*_ONE, *_TWO} if hasattr(math, name)},
        }
        functions = {name: Shim(path, getattr(math, name), call) for name, call in of_math.items()}
        self.math.__dict__.update(functions)
        self.operator = _Module(path, "operator", {name: getattr(operator, name) for name in _OPERATORS})
        self._of: dict[int, Any] = {id(math): self.math, id(operator): self.operator}
        self._of |= {id(getattr(builtins, name)): shim for name, shim in made.items()}
        self._of |= {id(getattr(math, name)): shim for name, shim in functions.items()}
        self._of |= {id(found): found for name in _OPERATORS for found in [getattr(operator, name)]}

    def of(self, value: Any) -> Any:
        """Return the shim of a module or function, None if it has none."""
        return self._of.get(id(value))

    def _min(self, *values: Any, **options: Any) -> Any:
        """Return the first of the least values, as Python's `min`."""
        return self._best("lt", min, values, options)

    def _max(self, *values: Any, **options: Any) -> Any:
        """Return the first of the greatest values, as Python's `max`."""
        return self._best("gt", max, values, options)

    def _best(self, op: str, original: Callable[..., Any], values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        key = options.get("key")
        items = list(values[0]) if len(values) == 1 else list(values)
        if not items or (len(values) > 1 and "default" in options):
            return original(*([items] if len(values) == 1 else values), **options)
        keys = [key(item) for item in items] if key is not None else items
        best, best_key = items[0], keys[0]
        for item, item_key in zip(items[1:], keys[1:], strict=True):
            if key is None and self._alike(best, item):
                x, y = expr_of(self.path, best), expr_of(self.path, item)
                condition = self.path.noted(self.path.graph.binary(op, y, x))
                best = best_key = noted(self.path, self.path.graph.where(condition, y, x))
            elif getattr(operator, op)(item_key, best_key):
                best, best_key = item, item_key
        return best

    def _alike(self, x: Any, y: Any) -> bool:
        """Return whether `where` can choose: both are numbers of one type, and at least one is a tracer."""
        if not (is_number(x) and is_number(y)) or Tracer not in (type(x), type(y)):
            return False
        return expr_of(self.path, x).type == expr_of(self.path, y).type

    def _round(self, x: Any, digits: Any = None) -> Any:
        """Return `round`: half to even; with digits, Python's function is called for each item."""
        if type(x) is not Tracer or (digits is not None and type(digits) is not int):
            self.path.refuse("it rounds to digits that are not a constant")
        if digits is None:
            return noted(self.path, self.path.graph.rounded("round", x.expr))
        if x.expr.type != "float":
            self.path.refuse("it rounds an integer to digits")
        return noted(self.path, self.path.graph.called(round, (x.expr, expr_of(self.path, digits)), "float"))

    def _int(self, x: Any, *base: Any, **by_name: Any) -> Any:
        """Return the int of a number."""
        if base or by_name:
            self.path.refuse("it calls `int` of a value")
        return noted(self.path, self.path.graph.rounded("trunc", x.expr))

    def _float(self, x: Any) -> Any:
        """Return the float of a number; a float is returned itself, as in Python."""
        return x if x.expr.type == "float" else noted(self.path, self.path.graph.as_float(x.expr))

    def _bool(self, x: Any) -> Any:
        """Return the truth value of a number."""
        return noted(self.path, self.path.graph.truth(x.expr))

    def _sum(self, values: Any, start: Any = 0) -> Any:
        """Return the sum of integers; sums of floats are refused where Python compensates for rounding."""
        items = [start, *values]
        if not {Tracer, OpaqueTracer} & set(map(type, items)):
            return sum(items[1:], start)
        floats = [item for item in items if is_number(item) and expr_of(self.path, item).type == "float"]
        if floats and sys.version_info >= (3, 12):
            self.path.refuse("it calls `sum` of floats")
        total = items[0]
        for item in items[1:]:
            total = total + item
        return total

    def _divmod(self, x: Any, y: Any) -> Any:
        """Return quotient and remainder."""
        return (x // y, x % y)

    def _pow(self, x: Any, y: Any, modulo: Any = None) -> Any:
        """Return a power, as the operator."""
        if modulo is not None:
            self.path.refuse("it calls `pow` of a value and a modulus")
        return x**y

    def _isinstance(self, x: Any, kinds: Any) -> bool:
        """Return `isinstance` of a number, whose type is known."""
        if type(x) in (OpaqueTracer, Shim):
            what = x.kind if type(x) is OpaqueTracer else "function"
            self.path.refuse(f"it asks for the type of a value of type {what}")
        kind = getattr(builtins, x.expr.type) if type(x) is Tracer else type(x)
        return issubclass(kind, self._kinds(kinds))

    def _kinds(self, kinds: Any) -> Any:
        if isinstance(kinds, tuple):
            return tuple(map(self._kinds, kinds))
        found = kinds.original if type(kinds) is Shim else kinds
        return found if isinstance(found, type) else self.path.refuse("it asks for a type that is not known")

    def _sqrt(self, x: Any) -> Any:
        return noted(self.path, self.path.graph.make("sqrt", (self._float_expr(x),), "float"))

    def _copysign(self, x: Any, y: Any) -> Any:
        return noted(self.path, self.path.graph.make("copysign", (self._float_expr(x), self._float_expr(y)), "float"))

    def _rounded(self, op: str) -> Callable[[Any], Any]:
        return lambda x: noted(self.path, self.path.graph.rounded(op, x.expr))

    def _exact(self, name: str) -> Callable[[Any], Any]:
        return lambda x: noted(self.path, self.path.graph.make(name, (self._float_expr(x),), "bool"))

    def _each(self, name: str) -> Callable[..., Any]:
        original, most = getattr(math, name), 2 if name in _TWO else 1

        def shim(*values: Any) -> Any:
            if not all(map(is_number, values)) or len(values) > most:
                self.path.refuse(f"it calls `math.{name}` in a way that is not known")
            args = tuple(self.path.graph.as_int(expr_of(self.path, value)) for value in values)
            return noted(self.path, self.path.graph.called(original, args, "float"))

        return shim

    def _float_expr(self, x: Any) -> Expr:
        if not is_number(x):
            self.path.refuse("it calls a function of `math` on what is no number")
        return self.path.noted(self.path.graph.as_float(expr_of(self.path, x)))
