"""Rebind a user's functions to run on tracers: the same code, with shims for the functions that it calls.

Nothing global is patched. A function may read constants, functions that are traced with it, and functions that have
shims. A function that reads anything else, or writes anything but its own variables, is not traced.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType
from typing import Any

from slicing.tracing.expressions import Untraceable
from slicing.tracing.paths import Path
from slicing.tracing.shims import Shim, Shims
from slicing.tracing.tracers import OpaqueTracer, Tracer

_REFUSED = {
    "STORE_GLOBAL": "it writes the global `{}`",
    "DELETE_GLOBAL": "it writes the global `{}`",
    "STORE_ATTR": "it sets the attribute `{}`",
    "DELETE_ATTR": "it sets the attribute `{}`",
    "IMPORT_NAME": "it imports `{}`",
    "LOAD_BUILD_CLASS": "it makes a class",
    "GET_AWAITABLE": "it waits",
    "LOAD_CLASSDEREF": "it makes a class",
    "MATCH_CLASS": "it matches a class",
    "MATCH_KEYS": "it matches a dict",
    "MATCH_MAPPING": "it matches a dict",
    "MATCH_SEQUENCE": "it matches a sequence",
}
_CONSTANTS = (bool, int, float, str, bytes, type(None))
_CATCHABLE = frozenset({ArithmeticError, AssertionError, OverflowError, ValueError, ZeroDivisionError})
"""Exceptions of numbers that tracers never raise. A wider handler could hide an exception that only a tracer raises."""
_OWN = {name for kind in (Tracer, OpaqueTracer, Shim) for name in dir(kind)} | {"_name", "_path"}
"""Attributes of tracers and shims that numbers and modules do not have."""
_GENERATOR = 0x20 | 0x80 | 0x100 | 0x200
_MISSING = object()

Check = Callable[[], bool]


def checked(function: Any) -> list[Check]:
    """Refuse functions that cannot be rebound; return checks that tell whether a dependency is unchanged.

    Raises Untraceable.
    """
    found: list[Check] = []
    _check(function, found, set())
    return found


def rebound(function: Any, path: Path) -> Callable[..., Any]:
    """Return a checked function rebound to the shims of one path."""
    return _ReboundFunctions(Shims(path)).of(function)  # type: ignore[no-any-return]


def _check(function: Any, found: list[Check], seen: set[int]) -> None:
    if id(function) in seen:
        return
    seen.add(id(function))
    if type(function) is partial:
        for value in (*function.args, *function.keywords.values()):
            _check_value(value, "an argument of `partial`", found, seen)
        _check(function.func, found, seen)
        func, args, keywords = function.func, function.args, dict(function.keywords)
        found.append(
            lambda: function.func is func and function.args is args and _same_items(function.keywords, keywords)
        )
        return
    if type(function) is not FunctionType:
        _check_known(function)
        return
    code, defaults, options = function.__code__, function.__defaults__, function.__kwdefaults__
    kept = dict(options or {})
    found.append(
        lambda: (
            function.__code__ is code
            and function.__defaults__ is defaults
            and _same_items(function.__kwdefaults__ or {}, kept)
        )
    )
    for value in (*(defaults or ()), *(options or {}).values()):
        _check_value(value, "a default", found, seen)
    if code.co_flags & _GENERATOR:
        raise Untraceable("it is a generator or a coroutine")
    seen_outside = dict(_globals(function))
    for each in _codes(code):
        _check_code(each, each is code)
        _check_handlers(list(dis.get_instructions(each)), seen_outside)
    for name, value in seen_outside.items():
        _check_value(value, f"the global `{name}`", found, seen)
        found.append(lambda name=name, value=value: _found(function, name) is value)  # type: ignore[misc]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        value = _content(cell)
        _check_value(value, f"`{name}` of the function around it", found, seen)
        found.append(lambda cell=cell, value=value: _content(cell) is value)  # type: ignore[misc]


def _check_known(function: Any) -> None:
    from_module = getattr(function, "__module__", None)
    if isinstance(function, type) or type(function) is BuiltinFunctionType:
        if _shims().of(function) is None:
            raise Untraceable(f"it calls `{_named(function)}`")
        return
    raise Untraceable(f"it is no plain function but a {type(function).__name__} of {from_module or 'no module'}")


def _check_value(value: Any, what: str, found: list[Check], seen: set[int]) -> None:
    if isinstance(value, tuple) and type(value) is tuple:
        for item in value:
            _check_value(item, what, found, seen)
    elif type(value) in _CONSTANTS or _shims().of(value) is not None:
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
        is_none = before is not None and before.opname == "LOAD_CONST" and before.argval is None
        if step.opname == "IS_OP" and (not is_none or step.is_jump_target):
            raise Untraceable("it compares by `is`")
        name = str(step.argval) if step.opname in ("LOAD_ATTR", "LOAD_METHOD") else ""
        if name.startswith("__") or name in _OWN:
            raise Untraceable(f"it uses the attribute `{step.argval}`")
        before = step


def _check_handlers(steps: list[dis.Instruction], outside: Mapping[str, Any]) -> None:
    """Refuse handlers of all exceptions, including `finally` and `with`, and of exceptions that tracers may raise."""
    at = {step.offset: place for place, step in enumerate(steps)}
    handlers = [place + 1 for place, step in enumerate(steps) if step.opname == "PUSH_EXC_INFO"]
    while handlers:
        place, caught = handlers.pop(), []
        while steps[place].opname == "LOAD_GLOBAL":
            caught.append(outside[str(steps[place].argval)])
            place += 1
        if not caught and steps[place].opname == "RERAISE":
            continue
        place += steps[place].opname == "BUILD_TUPLE"
        wide = [kind for each in caught for kind in _flat(each) if kind not in _CATCHABLE]
        if not caught or steps[place].opname != "CHECK_EXC_MATCH" or wide:
            what = f"`{_named(wide[0])}`" if wide else "all exceptions"
            raise Untraceable(f"it catches {what}, which may hide why it cannot be followed")
        jump = steps[place + 1]
        handlers.append(at[jump.argval] if jump.argval in at else place + 2)


def _flat(value: Any) -> Iterator[Any]:
    if type(value) is tuple:
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the globals and builtins that a function reads, by name."""
    known = _shims().builtins
    names = {
        str(step.argval)
        for code in _codes(function.__code__)
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for name in sorted(names):
        value = _found(function, name)
        if value is _MISSING:
            raise Untraceable(f"it reads the global `{name}`, which is not there")
        if name not in function.__globals__ and name not in known:
            raise Untraceable(f"it calls `{name}`")
        yield name, value


def _found(function: FunctionType, name: str) -> Any:
    """Return the value of a global name in a function."""
    if name in function.__globals__:
        return function.__globals__[name]
    around = function.__globals__.get("__builtins__", {})
    return (around if isinstance(around, dict) else vars(around)).get(name, _MISSING)


def _same_items(now: Mapping[str, Any], kept: Mapping[str, Any]) -> bool:
    return len(now) == len(kept) and all(now.get(name, _MISSING) is value for name, value in kept.items())


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _named(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


class _ReboundFunctions:
    """The rebound functions of one path, each function once."""

    def __init__(self, shims: Shims):
        self.shims = shims
        self._made: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        """Return the value that a rebound function gets instead of `value`."""
        if id(value) in self._made:
            return self._made[id(value)]
        if type(value) is partial:
            options = {name: self.of(item) for name, item in value.keywords.items()}
            return partial(self.of(value.func), *map(self.of, value.args), **options)
        if type(value) is FunctionType:
            return self._function(value)
        if type(value) is tuple:
            return tuple(map(self.of, value))
        shim = self.shims.of(value)
        return value if shim is None else shim

    def _function(self, function: FunctionType) -> FunctionType:
        around: dict[str, Any] = {"__builtins__": self.shims.builtins, "__name__": "traced"}
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


_ANY: list[Shims] = []


def _shims() -> Shims:
    """Return shims without a real path, to find out which functions have one."""
    from slicing.tracing.expressions import Graph

    if not _ANY:
        _ANY.append(Shims(Path(Graph(), [])))
    return _ANY[0]
