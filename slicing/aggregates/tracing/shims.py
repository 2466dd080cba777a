"""Doubles: versions for stand-ins of the functions that a traced function may call."""

from __future__ import annotations

import builtins
import math
import operator
import sys
from collections.abc import Callable
from inspect import signature
from typing import Any, NoReturn

from slicing.aggregates.tracing.expressions import Expr
from slicing.aggregates.tracing.paths import Path
from slicing.aggregates.tracing.tracers import Opaque, StandIn, expr_of, is_number, noted

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
"""Builtins that do what they do by way of the stand-ins' own operators, or end the trial by them."""
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


class _Module:
    """A module of which only some names are known."""

    def __init__(self, path: Path, name: str, known: dict[str, Any]):
        self.__dict__.update(known)
        self._path, self._name = path, name

    def __getattr__(self, name: str) -> NoReturn:
        raise self._path.refuse(f"it calls `{self._name}.{name}`")


class Double:
    """A function in place of one of Python's. A call that it does not know ends the trial, whatever is caught."""

    def __init__(self, path: Path, name: str, function: Callable[..., Any]):
        self._path, self._name, self._function = path, name, function

    def __call__(self, *values: Any, **options: Any) -> Any:
        try:
            return self._function(*values, **options)
        except TypeError:
            try:
                signature(self._function).bind(*values, **options)
            except TypeError:
                self._path.refuse(f"it calls `{self._name}` in a way that is not known")
            raise

    def __getattr__(self, name: str) -> NoReturn:
        raise self._path.refuse(f"it uses `{self._name}.{name}`")


class Doubles:
    """The doubles of one path."""

    def __init__(self, path: Path):
        self.path = path
        made = {name: getattr(builtins, name) for name in _AS_THEY_ARE}
        for name in ("min", "max", "round", "int", "float", "bool", "sum", "divmod", "pow", "isinstance"):
            made[name] = Double(path, name, getattr(self, f"_{name}"))
        made["abs"] = abs
        self.builtins: dict[str, Any] = made
        self.math = _Module(path, "math", {name: getattr(math, name) for name in _CONSTANTS})
        functions: dict[str, Any] = {
            "sqrt": self._sqrt,
            "copysign": self._copysign,
            "fabs": lambda x, /: abs(self._float(x)),
            "floor": lambda x, /: self._rounded(x, "floor", math.floor),
            "ceil": lambda x, /: self._rounded(x, "ceil", math.ceil),
            "trunc": lambda x, /: self._rounded(x, "trunc", math.trunc),
            **{name: self._exact(name) for name in _EXACT},
            **{name: self._each(name) for name in {*_ONE, *_TWO} if hasattr(math, name)},
        }
        functions = {name: Double(path, f"math.{name}", double) for name, double in functions.items()}
        self.math.__dict__.update(functions)
        self._types = {id(made[name]): kind for name, kind in (("int", int), ("float", float), ("bool", bool))}
        self.operator = _Module(path, "operator", {name: getattr(operator, name) for name in _OPERATORS})
        self._of: dict[int, Any] = {id(math): self.math, id(operator): self.operator}
        self._of |= {id(getattr(builtins, name)): double for name, double in made.items()}
        self._of |= {id(getattr(math, name)): double for name, double in functions.items()}
        self._of |= {id(found): found for name in _OPERATORS for found in [getattr(operator, name)]}

    def of(self, value: Any) -> Any:
        """The double of a module or function, None if it has none."""
        return self._of.get(id(value))

    def _min(self, *values: Any, **options: Any) -> Any:
        """The first of the least, as Python's."""
        return self._best("lt", min, values, options)

    def _max(self, *values: Any, **options: Any) -> Any:
        """The first of the greatest, as Python's."""
        return self._best("gt", max, values, options)

    def _best(self, op: str, original: Callable[..., Any], values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        key = options.get("key")
        items = list(values[0]) if len(values) == 1 else list(values)
        if not items or set(options) - {"key", "default"}:
            return original(*values, **options)
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
        """Whether one of them can be chosen without a branch: both numbers of one type, at least one a stand-in."""
        if not (is_number(x) and is_number(y)) or StandIn not in (type(x), type(y)):
            return False
        return expr_of(self.path, x).type == expr_of(self.path, y).type

    def _round(self, number: Any, ndigits: Any = None) -> Any:
        """Half to even; with digits Python's own for each item."""
        x, digits = number, ndigits
        if type(x) is not StandIn:
            return self._plain(round, x, digits)
        if digits is None:
            return noted(self.path, self.path.graph.rounded("round", x.expr))
        if type(digits) is not int:
            return self.path.refuse("it rounds to digits that are not a constant")
        if x.expr.type != "float":
            return self.path.refuse("it rounds an integer to digits")
        return noted(self.path, self.path.graph.called(round, (x.expr, expr_of(self.path, digits)), "float"))

    def _int(self, x: Any = 0, /, *base: Any, **options: Any) -> Any:
        """An int of a number."""
        if type(x) is not StandIn or base or options:
            return self._plain(int, x, *base, **options)
        return noted(self.path, self.path.graph.rounded("trunc", x.expr))

    def _float(self, x: Any = 0.0, /) -> Any:
        """A float of a number; of a float it is the same object, as Python's."""
        if type(x) is not StandIn:
            return self._plain(float, x)
        return x if x.expr.type == "float" else noted(self.path, self.path.graph.as_float(x.expr))

    def _bool(self, x: Any = False, /) -> Any:
        """The truth of a number."""
        if type(x) is not StandIn:
            return self._plain(bool, x)
        return noted(self.path, self.path.graph.truth(x.expr))

    def _sum(self, values: Any, /, start: Any = 0) -> Any:
        """Of integers; of floats some versions of Python compensate for rounding."""
        items = [start, *values]
        floats = [item for item in items if is_number(item) and expr_of(self.path, item).type == "float"]
        if floats and sys.version_info >= (3, 12):
            return self.path.refuse("it calls `sum` of floats")
        total = items[0]
        for item in items[1:]:
            total = total + item
        return total

    def _divmod(self, x: Any, y: Any, /) -> Any:
        """Quotient and remainder."""
        return (x // y, x % y)

    def _pow(self, base: Any, exp: Any, mod: Any = None) -> Any:
        """A power, as the operator."""
        return base**exp if mod is None else self._plain(pow, base, exp, mod)

    def _isinstance(self, x: Any, kinds: Any, /) -> bool:
        """Of which type a number is, which is known."""
        if type(x) is Opaque:
            return bool(self.path.refuse(f"it asks for the type of a value of type {x.kind}"))
        kind = getattr(builtins, x.expr.type) if type(x) is StandIn else type(x)
        return issubclass(kind, self._kinds(kinds))

    def _kinds(self, kinds: Any) -> Any:
        if isinstance(kinds, tuple):
            return tuple(map(self._kinds, kinds))
        found = self._types.get(id(kinds), kinds)
        return found if isinstance(found, type) else self.path.refuse("it asks for a type that is not known")

    def _plain(self, original: Callable[..., Any], *values: Any, **options: Any) -> Any:
        if any(type(value) in (StandIn, Opaque) for value in (*values, *options.values())):
            return self.path.refuse(f"it calls `{original.__name__}` of a value")
        return original(*values, **options)

    def _sqrt(self, x: Any, /) -> Any:
        if type(x) is not StandIn:
            return self._plain(math.sqrt, x)
        return noted(self.path, self.path.graph.make("sqrt", (self._float_expr(x),), "float"))

    def _copysign(self, x: Any, y: Any, /) -> Any:
        if StandIn not in (type(x), type(y)):
            return self._plain(math.copysign, x, y)
        return noted(self.path, self.path.graph.make("copysign", (self._float_expr(x), self._float_expr(y)), "float"))

    def _rounded(self, x: Any, op: str, original: Callable[..., Any]) -> Any:
        if type(x) is not StandIn:
            return self._plain(original, x)
        return noted(self.path, self.path.graph.rounded(op, x.expr))

    def _exact(self, name: str) -> Callable[[Any], Any]:
        def double(x: Any, /) -> Any:
            if type(x) is not StandIn:
                return self._plain(getattr(math, name), x)
            return noted(self.path, self.path.graph.make(name, (self._float_expr(x),), "bool"))

        return double

    def _each(self, name: str) -> Callable[..., Any]:
        original, most = getattr(math, name), 2 if name in _TWO else 1

        def double(*values: Any) -> Any:
            if not any(type(value) is StandIn for value in values):
                return self._plain(original, *values)
            if not all(map(is_number, values)) or len(values) > most:
                return self.path.refuse(f"it calls `math.{name}` in a way that is not known")
            args = tuple(self.path.graph.as_int(expr_of(self.path, value)) for value in values)
            return noted(self.path, self.path.graph.called(original, args, "float"))

        return double

    def _float_expr(self, x: Any) -> Expr:
        if not is_number(x):
            self.path.refuse("it calls a function of `math` on what is no number")
        return self.path.noted(self.path.graph.as_float(expr_of(self.path, x)))
