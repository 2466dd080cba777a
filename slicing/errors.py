"""The errors of the framework: every message gives the rule, the value found and the remedy."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

MOST_SHOWN = 200
"""The maximum number of characters of a value in a message, as keys and values can be megabytes."""


class Topic(Enum):
    """The subject of a remedy."""

    NO_OVERLAP = auto()
    """Windows that do not overlap."""
    NAMES = auto()
    """Names for windows that could not be distinguished."""
    DURATION = auto()
    """Durations that are no text."""
    GAP_COLUMN = auto()
    """Gaps of sessions in a column of the records."""
    NUMBERS = auto()
    """A column that must hold numbers."""
    COLUMN = auto()
    """A column of an unsupported type."""
    SETTING = auto()
    """A setting of Spark: its name and its value."""


@dataclass(frozen=True)
class Argument:
    """An argument of a call in a message; as text it is Python code, or only its name if it has no value.

    Examples are in double quotes; values that were found are shown by `repr`.
    >>> str(Argument("size", "1 hour")), str(Argument("size", "1 day", is_example=True)), str(Argument("size"))
    ("size='1 hour'", 'size="1 day"', '`size`')
    """

    name: str
    value: Any = ...
    is_example: bool = False

    def __str__(self) -> str:
        if self.value is ...:
            return f"`{self.name}`"
        return f'{self.name}="{self.value}"' if self.is_example else f"{self.name}={self.value!r}"


@dataclass(frozen=True)
class CallText:
    """A call in a message: Python code as text, and the arguments that matter in it."""

    text: str
    arguments: tuple[Argument, ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Remedy:
    """The remedy of an error, as text for Python; `values` are the names and values in it."""

    topic: Topic
    text: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


Code: TypeAlias = Argument | CallText | Remedy
"""A part of a message that is Python code; another interface, such as the command line, rewords it."""


class SlicingError(Exception):
    """Base of all errors raised here. Subclasses take the parts of a message, mostly one text, and can be pickled."""

    def __init__(self, *parts: str | Code):
        super().__init__("".join(map(str, parts)))
        self.parts = parts

    def worded(self, words: Callable[[Code], str]) -> str:
        """Return the message with each part that is Python code replaced by `words(part)`.

        >>> InvalidValue("Add ", Argument("gaps", True), ".").worded(lambda code: f"--{code.name}")
        'Add --gaps.'
        """
        return "".join(part if isinstance(part, str) else words(part) for part in self.parts)


class InvalidValue(SlicingError, ValueError):
    """An argument, column or option has a value that the rule in the message excludes."""


class InvalidType(SlicingError, TypeError):
    """An argument, column or function result has a type that the rule in the message excludes."""


class NoSuchMethod(SlicingError, AttributeError):
    """The called name does not exist; the message has the call that does."""


class MissingRequirement(SlicingError, RuntimeError):
    """A requirement of the stateful operator is not installed or not configured."""


class StateMismatch(SlicingError, ValueError):
    """A checkpoint was written by a query with other windows, results or keys, or it is damaged."""


class FunctionFailed(SlicingError, RuntimeError):
    """A user's function raised; the message names the function, the key and the slice."""


class ResultOverflow(SlicingError, ArithmeticError):
    """The exact result of a window does not fit its result type; with `overflow="null"`, combinators return null."""


class TooLarge(SlicingError, ValueError):
    """Data that must be in memory at once exceed the limit that the message names."""


class RowFailure(Exception):
    """The item at `index` of the arrays that a function was given is invalid.

    Once its key and slice are known, an error of class `kind` is raised with `rule`, `cause`, the place and `remedy`.
    """

    def __init__(self, kind: type[SlicingError], rule: str, cause: str, remedy: str, index: int):
        super().__init__(kind, rule, cause, remedy, index)
        self.kind, self.rule, self.cause, self.remedy, self.index = kind, rule, cause, remedy, index

    def at(self, index: int) -> RowFailure:
        """Return the same failure for other arrays, in which the item is at `index`."""
        return RowFailure(self.kind, self.rule, self.cause, self.remedy, index)


def shortened(text: str) -> str:
    """Return the text for a message, cut after `MOST_SHOWN` characters, with the full number of characters.

    >>> shortened("a" * 1000)[195:]
    'aaaaa... (1,000 characters)'
    """
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text):,} characters)"


def check_flag(given: object, says: str) -> None:
    """Raise InvalidType unless `given` is True or False; a text such as "no" would count as true."""
    if not isinstance(given, bool):
        raise InvalidType(f"{says}, True or False; got {excerpt(given)}.")


def check_takes(function: Callable[..., Any], says: str, *arguments: str) -> None:
    """Raise InvalidType unless a function can be called with these arguments; a builtin may not tell its own."""
    try:
        # A decorator may add arguments: those of the wrapped function say nothing about the call.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        raise InvalidType(
            f"{says} is called with ({', '.join(arguments)}); got {excerpt(function)}, whose arguments are "
            f"{signature}. Give it these arguments, in this order."
        ) from None


def excerpt(value: Any) -> str:
    """Return the `repr` of a value for a message, shortened."""
    return shortened(repr(value))


def raised(error: Exception) -> str:
    """Return the class and the shortened text of an exception, for a message."""
    return f"{type(error).__name__}: {shortened(str(error))}"


_OURS = re.compile(r"\bslicing\.errors\.(\w+): (.+)")
_TRACEBACK = "Traceback (most recent call last):"
_OF_PY4J = re.compile(r"An error occurred while calling .*\n: ")
"""The line with which py4j begins the text of an error of the JVM."""


def reason(error: object) -> str:
    """Return the cause of a failed query in one line: `reason(query.exception())`.

    It is the message of this package's error if a worker raised one, else the last line of the Python traceback if
    there is one, else Spark's first line. Takes an exception or its text; None, from a query that has not failed,
    returns "".

    >>> reason("[STREAM_FAILED] Query ... terminated\\n  File ...\\nslicing.errors.TooLarge: too much\\n")
    'too much'
    """
    text = _OF_PY4J.sub("", "" if error is None else str(error), count=1)
    if ours := _OURS.findall(text):
        return str(ours[-1][1]).strip()
    if _TRACEBACK in text:
        for line in text.rpartition(_TRACEBACK)[2].splitlines():
            if line.strip() and not line[0].isspace():
                return line.strip()
    return next(filter(None, map(str.strip, text.splitlines())), type(error).__name__ if error is not None else "")


def class_of_reason(error: object) -> str:
    """Return the class name of this package's error that a worker raised, "" if none; `reason` returns its message.

    >>> class_of_reason("[STREAM_FAILED] Query ... terminated\\n  File ...\\nslicing.errors.TooLarge: too much\\n")
    'TooLarge'
    """
    ours = _OURS.findall("" if error is None else str(error))
    return str(ours[-1][0]) if ours else ""


def hinted(function: Callable[P, R], prefix: str = "") -> Callable[P, R]:
    """Return a function that raises InvalidType with the call that was meant if its arguments fit no signature.

    `prefix` goes before its name in messages.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (TypeError, InvalidValue) as error:
            from slicing.hints import Misfit

            Misfit(function, prefix, args, kwargs).check(error)
            raise

    return call
