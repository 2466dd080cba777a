"""Copies of a user's functions that run on stand-ins: the same code, with doubles for what it finds outside itself.

Nothing global is patched. What a function can see outside itself are constants, functions that are traced with it, and
doubles; a function that sees anything else, or writes anywhere but to its own variables, is not traced at all.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType
from typing import Any

from slicing.aggregates.tracing.expressions import Untraceable
from slicing.aggregates.tracing.paths import Path
from slicing.aggregates.tracing.shims import Doubles

_REFUSED = {
    "STORE_GLOBAL": "it writes the global `{}`",
    "DELETE_GLOBAL": "it writes the global `{}`",
    "STORE_ATTR": "it sets the attribute `{}`",
    "DELETE_ATTR": "it sets the attribute `{}`",
    "IMPORT_NAME": "it imports `{}`",
    "LOAD_BUILD_CLASS": "it makes a class",
    "GET_AWAITABLE": "it waits",
    "LOAD_CLASSDEREF": "it makes a class",
    "MATCH_CLASS": "it matches by class",
}
_CONSTANTS = (bool, int, float, str, bytes, type(None))
_GENERATOR = 0x20 | 0x80 | 0x100 | 0x200
_MISSING = object()

Check = Callable[[], bool]


def checked(function: Any) -> list[Check]:
    """Refuse what no copy of the function could run, and say what must not change: each gives whether it is the same.

    Raises Untraceable.
    """
    found: list[Check] = []
    _check(function, found, set())
    return found


def copied(function: Any, path: Path) -> Callable[..., Any]:
    """A copy of a checked function for stand-ins of one path."""
    return _Copies(Doubles(path)).of(function)  # type: ignore[no-any-return]


def _check(function: Any, found: list[Check], seen: set[int]) -> None:
    if id(function) in seen:
        return
    seen.add(id(function))
    if type(function) is partial:
        for value in (*function.args, *function.keywords.values()):
            _check_value(value, "an argument of `partial`", found, seen)
        keywords = dict(function.keywords)
        found.append(lambda: _is_same(function.keywords, keywords))
        _check(function.func, found, seen)
        return
    if type(function) is not FunctionType:
        _check_known(function)
        return
    code, defaults, options = function.__code__, function.__defaults__, function.__kwdefaults__
    known = dict(options or {})
    found.append(lambda: function.__code__ is code and function.__defaults__ is defaults)
    found.append(lambda: _is_same(function.__kwdefaults__ or {}, known))
    for value in (*(defaults or ()), *(options or {}).values()):
        _check_value(value, "a default", found, seen)
    if code.co_flags & _GENERATOR:
        raise Untraceable("it is a generator or a coroutine")
    for each in _codes(code):
        _check_code(each, each is code)
    for name, value in _globals(function):
        _check_value(value, f"the global `{name}`", found, seen)
        own = function.__globals__.get(name, _MISSING)  # none for a builtin, which a global may shadow later
        found.append(lambda name=name, own=own: function.__globals__.get(name, _MISSING) is own)  # type: ignore[misc]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        value = _content(cell)
        _check_value(value, f"`{name}` of the function around it", found, seen)
        found.append(lambda cell=cell, value=value: _content(cell) is value)  # type: ignore[misc]


def _is_same(values: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    return values.keys() == known.keys() and all(values[name] is known[name] for name in known)


def _check_known(function: Any) -> None:
    from_module = getattr(function, "__module__", None)
    if isinstance(function, type) or type(function) is BuiltinFunctionType:
        if _doubles().of(function) is None:
            raise Untraceable(f"it calls `{_named(function)}`")
        return
    raise Untraceable(f"it is no plain function but a {type(function).__name__} of {from_module or 'no module'}")


def _check_value(value: Any, what: str, found: list[Check], seen: set[int]) -> None:
    if isinstance(value, tuple) and type(value) is tuple:
        for item in value:
            _check_value(item, what, found, seen)
    elif type(value) in _CONSTANTS or _doubles().of(value) is not None:
        return
    elif type(value) in (FunctionType, partial):
        _check(value, found, seen)
    elif callable(value) and not isinstance(value, type):
        raise Untraceable(f"it calls {what}, which is no plain function")
    else:
        raise Untraceable(f"it reads {what}, a {type(value).__name__}")


def _check_code(code: CodeType, outermost: bool) -> None:
    before = None
    free = set(code.co_freevars) if outermost else set()
    for step in dis.get_instructions(code):
        if step.opname in _REFUSED:
            raise Untraceable(_REFUSED[step.opname].format(step.argval))
        if step.opname in ("STORE_DEREF", "DELETE_DEREF") and (step.argval in free or not outermost):
            raise Untraceable(f"it writes `{step.argval}` of the function around it")
        if step.opname == "IS_OP" and not (before and before.opname == "LOAD_CONST" and before.argval is None):
            raise Untraceable("it compares by `is`")
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and str(step.argval).startswith("__"):
            raise Untraceable(f"it uses the attribute `{step.argval}`")
        before = step


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals and builtins that a function reads, by name."""
    known = _doubles().builtins
    names = {
        str(step.argval)
        for code in _codes(function.__code__)
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    around = function.__globals__.get("__builtins__", {})
    around = around if isinstance(around, dict) else vars(around)
    for name in sorted(names):
        value = function.__globals__.get(name, around.get(name, _MISSING))
        if value is _MISSING:
            raise Untraceable(f"it reads the global `{name}`, which is not there")
        if name not in function.__globals__ and name not in known:
            raise Untraceable(f"it calls `{name}`")
        yield name, value


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _named(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


class _Copies:
    """Copies for one path, each function once."""

    def __init__(self, doubles: Doubles):
        self.doubles = doubles
        self._made: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        """What stands for a value that a function sees."""
        if id(value) in self._made:
            return self._made[id(value)]
        if type(value) is partial:
            options = {name: self.of(item) for name, item in value.keywords.items()}
            return partial(self.of(value.func), *map(self.of, value.args), **options)
        if type(value) is FunctionType:
            return self._function(value)
        if type(value) is tuple:
            return tuple(map(self.of, value))
        double = self.doubles.of(value)
        return value if double is None else double

    def _function(self, function: FunctionType) -> FunctionType:
        around: dict[str, Any] = {"__builtins__": self.doubles.builtins, "__name__": "traced"}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        copy = FunctionType(function.__code__, around, function.__name__, None, cells)
        self._made[id(function)] = copy
        if function.__defaults__:
            copy.__defaults__ = tuple(map(self.of, function.__defaults__))
        if function.__kwdefaults__:
            copy.__kwdefaults__ = {name: self.of(value) for name, value in function.__kwdefaults__.items()}
        around.update((name, self.of(value)) for name, value in _globals(function))
        for cell, own in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = self.of(_content(own))
        return copy


_ANY: list[Doubles] = []


def _doubles() -> Doubles:
    """Doubles of no path, to ask what has one."""
    from slicing.aggregates.tracing.expressions import Graph

    if not _ANY:
        _ANY.append(Doubles(Path(Graph(), [])))
    return _ANY[0]
