"""Digests of the code of users' functions: what tells that a function is another one than that of a checkpoint.

A digest is of bytecode, constants, defaults and closures, and of the functions and simple values that a function names.
It is not of what libraries do. The same text may compile to other code in another minor version of Python, so a digest
begins with that version, and only those of one version can be compared.
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
"""The first items of a list or tuple that count."""
_STORED = ("init", "agg", "combine", "invert", "agg_many")
"""The functions that partials are made by; `lower` may change at any time."""


def code_digest(aggregate: Aggregate) -> str:
    """Return the version of Python and the digest of an aggregate's functions; "" if none of them is a user's."""
    functions = [(name, getattr(aggregate, name)) for name in _STORED]
    if not any(_is_own(function) for _, function in functions):
        return ""
    seen: set[int] = set()
    text = "\n".join(f"{name} {line}" for name, function in functions for line in _lines(function, seen))
    return f"{sys.version_info.major}.{sys.version_info.minor} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def are_different(held: str, wanted: str) -> bool:
    """Whether two digests are known to be of different code.

    >>> are_different("3.12 ab", "3.12 cd"), are_different("3.11 ab", "3.12 cd"), are_different("", "3.12 cd")
    (True, False, False)
    """
    return held.partition(" ")[0] == wanted.partition(" ")[0] and held != wanted


def _is_own(function: Any) -> bool:
    """Whether a function is of Python, and of no library here; of a partial or a method the function inside."""
    function = _inside(function)
    return isinstance(function, FunctionType) and (function.__module__ or "").partition(".")[0] not in _OWN


def _inside(function: Any) -> Any:
    while isinstance(function, partial | MethodType):
        function = function.func if isinstance(function, partial) else function.__func__
    return function


def _lines(value: Any, seen: set[int]) -> Iterator[str]:
    """What a value is, as far as it can be told; of anything but functions and simple values its type."""
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
    except ValueError:  # it is not filled yet
        return None


def _named(code: CodeType) -> Iterator[str]:
    """The names of globals, and of attributes, which do no harm: the functions inside have their own."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _named(constant)
