"""The texts of computed columns in identities: the variables of lambdas are numbered from 1 in each text.

Spark numbers these variables by a counter of the process, so one Column has a different text each time it is built::

    aggregate(items, 0, (x_13, y_14) -> +(x_13, y_14))                on classic
    aggregate(items, 0, LambdaFunction(x_13 + y_14, x_13, y_14))      on Connect
    aggregate(items, 0, (x#1, y#2) -> +(x#1, y#2))                    as it is stored
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_VARIABLE = r"[xyz]_\d+"
_NAME = re.compile(rf"(?<![\w.`]){_VARIABLE}(?![\w.`(])")
_BOUND = re.compile(rf"\(({_VARIABLE}(?:, {_VARIABLE})*)\) ->|(?<![\w.`])({_VARIABLE}) ->")
_FUNCTION = "LambdaFunction("
_LITERAL = re.compile(r"(?<=[( ])'[^']*'(?=[), ]|$)")


def renumbered(text: str) -> str:
    """Return the text of a column with the variables of its lambdas numbered from 1, in the order they are bound.

    String literals, and names that no lambda binds, are not changed. A text whose quotes do not pair up around literals
    is returned unchanged, since it cannot be told which part of it is inside a literal.

    >>> renumbered("filter(items, x_8 -> >(x_8, x_1))")
    'filter(items, x#1 -> >(x#1, x_1))'
    """
    code = _LITERAL.sub(lambda literal: "\0" * len(literal[0]), text)
    if "'" in code or "#" in code:
        return text
    bound = list(dict.fromkeys(_binders(code)))
    if not bound:
        return text
    numbers = {name: f"{name[0]}#{number}" for number, name in enumerate(bound, 1)}
    made, end = [], 0
    for name in _NAME.finditer(code):
        if name[0] in numbers:
            made += [text[end : name.start()], numbers[name[0]]]
            end = name.end()
    return "".join([*made, text[end:]])


def _binders(code: str) -> Iterator[str]:
    """Yield the variables that lambdas bind, in the order of their binding."""
    for found in _BOUND.finditer(code):
        yield from (found[1] or found[2]).split(", ")
    start = code.find(_FUNCTION)
    while start >= 0:
        yield from _arguments(code, start + len(_FUNCTION))
        start = code.find(_FUNCTION, start + 1)


def _arguments(code: str, start: int) -> list[str]:
    """Return the variables among the arguments of a call, except the first argument. They begin at `start`."""
    depth, parts = 0, [start]
    for at in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth < 0:
            arguments = [code[low:high].strip(", ") for low, high in zip(parts, [*parts[1:], at], strict=True)]
            return [each for each in arguments[1:] if re.fullmatch(_VARIABLE, each)]
        if code[at] == "," and depth == 0:
            parts.append(at)
    return []
