"""Parses results on the command line: in `spent=sum(amount)`, a name, an aggregate and its arguments."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import combinators
from slicing.aggregates.aggregate import Bound, Struct
from slicing.errors import InvalidValue

_RESULT = re.compile(r"\s*(?:(\w+)\s*=\s*)?(\w+)\s*\((.*)\)\s*")


def aggregators() -> dict[str, Callable[..., Any]]:
    """Return the combinators by name."""
    return {name: getattr(combinators, name) for name in combinators.__all__ if callable(getattr(combinators, name))}


def results_of(texts: Sequence[str]) -> dict[str, Bound | Struct]:
    """Return bound aggregates by result name: "spent=sum(amount)", or "sum(amount)", which is named `sum_amount`."""
    results: dict[str, Bound | Struct] = {}
    for text in texts:
        name, bound = result_of(text)
        if name in results:
            raise InvalidValue(f"two results are called `{name}`. Name one: `--aggregate other={text.strip()}`.")
        results[name] = bound
    return results


def result_of(text: str) -> tuple[str, Bound | Struct]:
    """Return the name and the bound aggregate of one `--aggregate`."""
    match = _RESULT.fullmatch(text)
    if match is None:
        raise InvalidValue(f"`--aggregate` takes FUNCTION(COLUMN), for example mean(price) or count(); got {text!r}.")
    name, function = match[1], match[2]
    known = aggregators()
    if function not in known:
        raise InvalidValue(f"`{function}` in {text!r} is not an aggregate. Known are {', '.join(known)}.")
    arguments = [_argument(part.strip()) for part in match[3].split(",") if part.strip() not in ("", "*")]
    try:
        inspect.signature(known[function]).bind(*arguments)
    except TypeError as error:
        raise InvalidValue(f"`{function}` in {text!r}: {error}. For example: {function}(price).") from None
    default = "_".join([function, *(re.sub(r"\W+", "_", str(argument)) for argument in arguments)])
    return name or default, known[function](*arguments)


def _argument(text: str) -> str | int | float:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text[1:-1].replace("``", "`") if len(text) > 1 and text[0] == text[-1] == "`" else text
    return value if isinstance(value, (str, int, float)) else text
