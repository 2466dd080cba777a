"""Errors in the words of the command line: remedies that can be typed, where Python is of no use."""

from __future__ import annotations

from slicing.errors import Argument, Call, Code, SlicingError, Topic, class_of_reason, reason

_OPTIONS = {"step": "cumulate"}
"""Arguments that have another name as options."""
_REMEDIES = {
    Topic.NO_OVERLAP: "leave out --advance",
    Topic.NAMES: "Leave one out.",
    Topic.DURATION: "",
    Topic.GAP_COLUMN: "",
    Topic.NUMBERS: "Make every value in the files a number, or choose another column.",
    Topic.COLUMN: "Change the column in the files: it must hold plain text, numbers or times.",
    Topic.SETTING: "Set --conf {}={}.",
}
_OF_WORKERS = {
    "ResultOverflow": "On the command line: write larger numbers as decimals, in Parquet, or sum fewer at once.",
    "StateMismatch": "On the command line: choose another --checkpoint and --output.",
}
"""The remedies for errors of workers, of which Spark passes on only the text."""


def worded(error: SlicingError) -> str:
    """The message of an error, with remedies that can be typed as options."""
    return error.worded(_words)


def _words(code: Code) -> str:
    if isinstance(code, Argument):
        return _option(code)
    if isinstance(code, Call):
        return " ".join(map(_option, code.arguments)) or str(code)
    return _REMEDIES[code.topic].format(*code.values)


def _option(argument: Argument) -> str:
    name = f"--{_OPTIONS.get(argument.name, argument.name)}"
    if argument.value is ...:
        return f"`{name}`" if argument.name in _OPTIONS else str(argument)
    return name if argument.value is True else f'{name} "{argument.value}"'


def failure(error: object) -> str:
    """Why Spark failed, and what to do about it."""
    return " ".join(filter(None, (reason(error), _OF_WORKERS.get(class_of_reason(error)))))
