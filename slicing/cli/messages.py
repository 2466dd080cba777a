"""Error messages for the command line: remedies are options to type, not Python code."""

from __future__ import annotations

from slicing.errors import Argument, CallText, Code, SlicingError, Topic, class_of_reason, reason

_OPTIONS = {"step": "cumulate"}
"""Arguments whose option has another name."""
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
"""Remedies for errors of workers, of which Spark passes on only the text."""


def command_line_message(error: SlicingError) -> str:
    """Return the message of an error, with remedies as command line options."""
    return error.worded(_words)


def _words(code: Code) -> str:
    if isinstance(code, Argument):
        return _option(code)
    if isinstance(code, CallText):
        return " ".join(map(_option, code.arguments)) or str(code)
    return _REMEDIES[code.topic].format(*code.values)


def _option(argument: Argument) -> str:
    name = f"--{_OPTIONS.get(argument.name, argument.name)}"
    if argument.value is ...:
        return f"`{name}`" if argument.name in _OPTIONS else str(argument)
    return name if argument.value is True else f'{name} "{argument.value}"'


def failure(error: object) -> str:
    """Return why Spark failed, and the remedy."""
    return " ".join(filter(None, (reason(error), _OF_WORKERS.get(class_of_reason(error)))))
