"""Digests of the code of users' functions: they show that a function differs from the one of a checkpoint.

A digest covers bytecode, constants, defaults and closures, and the functions and simple values that a function names.
It does not cover libraries. The same text may compile to other bytecode in another minor version of Python. A digest
therefore begins with that version, and only digests of the same version can be compared.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any

from slicing.aggregates.aggregate import Aggregate

_OWN = ("slicing", "combinators")
_SIMPLE = (int, float, complex, str, bytes, bool, type(None))
_ITEMS = 10_000
"""The number of items of a list or tuple that a digest covers."""
_STORED = ("init", "agg", "combine", "invert", "agg_many")
"""The functions that make partials; `lower` may change at any time."""
OF_USER = "of_user"
"""The attribute of a function of the catalogue that has the user's function which it calls."""


def code_digest(aggregate: Aggregate) -> str:
    """Return the version of Python and the digest of an aggregate's functions; "" if no function is a user's."""
    functions = [(name, getattr(aggregate, name)) for name in _STORED]
    if not any(_is_own(function) or _of_user(function) for _, function in functions):
        return ""
    seen: set[int] = set()
    text = "\n".join(f"{name} {line}" for name, function in functions for line in _lines(function, seen))
    return f"{sys.version_info.major}.{sys.version_info.minor} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def are_different(held: str, wanted: str) -> bool:
    """Return whether two digests are known to be of different code.

    >>> are_different("3.12 ab", "3.12 cd"), are_different("3.11 ab", "3.12 cd"), are_different("", "3.12 cd")
    (True, False, False)
    """
    return held.partition(" ")[0] == wanted.partition(" ")[0] and held != wanted


def _is_own(function: Any) -> bool:
    """Return whether a function is written in Python outside of these libraries; looks inside partials and methods."""
    function = _inside(function)
    return isinstance(function, FunctionType) and (function.__module__ or "").partition(".")[0] not in _OWN


def _inside(function: Any) -> Any:
    while isinstance(function, partial | MethodType):
        function = function.func if isinstance(function, partial) else function.__func__
    return function


def _of_user(value: Any) -> Any:
    """Return the user's function that a function of the catalogue calls, None if there is none."""
    return getattr(value, "__dict__", {}).get(OF_USER)


def _lines(value: Any, seen: set[int]) -> Iterator[str]:
    """Yield a description of a value; only the type, unless it is a function or a simple value."""
    if isinstance(value, CodeType):
        yield f"{value.co_code.hex()} {value.co_names} {value.co_varnames}"
        for constant in value.co_consts:
            yield from _lines(constant, seen)
    elif isinstance(value, tuple | list):
        if id(value) not in seen:  # a list may contain itself
            seen |= {id(value)} if isinstance(value, list) else set()
            for item in islice(value, _ITEMS):
                yield from _lines(item, seen)
    elif isinstance(value, partial):
        yield from _lines((value.func, value.args, tuple(sorted(value.keywords.items()))), seen)
    elif isinstance(value, MethodType):
        yield from _lines(value.__func__, seen)
    elif function := _of_user(value):
        yield from _lines(function, seen)
    elif isinstance(value, frozenset | set):
        yield str(sorted(map(repr, value)))
    elif isinstance(value, _SIMPLE):
        yield repr(value)
    elif _is_own(value):
        yield from _of_function(value, seen)
    else:
        yield f"{type(value).__module__}.{type(value).__qualname__} {getattr(value, '__qualname__', '')}"


def _of_function(function: FunctionType, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    parts = (function.__code__, function.__defaults__, tuple(sorted((function.__kwdefaults__ or {}).items())))
    for part in parts:
        yield from _lines(part, seen)
    for cell in function.__closure__ or ():
        yield from _lines(_content(cell), seen)
    for name in _named(function.__code__):
        if name in function.__globals__:
            yield name
            yield from _lines(function.__globals__[name], seen)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the cell is still empty
        return None


def _named(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes; extra attribute names do no harm. Inner functions have their own."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _named(constant)
