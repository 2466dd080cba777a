"""The errors of the framework: every message gives the rule, the value found and the remedy."""

from __future__ import annotations


class SlicingError(Exception):
    """Base of all errors raised here. Subclasses take one message and are therefore picklable."""


class InvalidValue(SlicingError, ValueError):
    """An argument, column or option has a value that the rule in the message excludes."""


class InvalidType(SlicingError, TypeError):
    """An argument, column or function result has a type that the rule in the message excludes."""


class MissingRequirement(SlicingError, RuntimeError):
    """Something that the stateful operator needs is not installed or not configured."""


class StateMismatch(SlicingError, ValueError):
    """A checkpoint was written by a query of another shape."""


class FunctionFailed(SlicingError, RuntimeError):
    """A user's function raised; the message names the function, the key and the slice."""


class ResultOverflow(SlicingError, ArithmeticError):
    """The exact result of a window does not fit its result type."""


class TooLarge(SlicingError, ValueError):
    """What has to be held at once is larger than the bound that the message names."""
