"""Messages of the library in the words of the command line: remedies that can be typed, where Python is of no use."""

from __future__ import annotations

import re

_OPTIONS = ("size", "advance", "offset")
_CALL = re.compile(r"(?:hopping|tumbling)\('([^']+)'(?:, advance='([^']+)')?(?:, offset='([^']+)')?(?:, gaps=True)?\)")
_FILES = "Change the column in the files: it must hold plain text, numbers or times."
_REMEDIES = (
    (re.compile(r"use `tumbling\(size\)`"), "leave out --advance"),
    (re.compile(r"\b(size|advance|offset|zone)=['\"]([^'\"]+)['\"]"), r'--\1 "\2"'),
    (re.compile(r"\bstep=['\"]([^'\"]+)['\"]"), r'--cumulate "\1"'),
    (re.compile(r"`step`"), "`--cumulate`"),
    (re.compile(r"\badd gaps=True"), "add --gaps"),
    (re.compile(r" or pass a timedelta"), ""),
    (re.compile(r"Name them: .*"), "Leave one out."),
    (re.compile(r"(which cannot be used here\.) .*", re.DOTALL), rf"\1 {_FILES}"),
    (re.compile(r"Cast it first, .*", re.DOTALL), "Make every value in the files a number, or choose another column."),
    (
        re.compile(r"Cast the column to .* first\."),
        "Write larger numbers as decimals, in Parquet, or sum fewer at once.",
    ),
    (re.compile(r"Convert it, for example with `F\.\w+`\."), "Give its unit with --time-unit, if it holds numbers."),
    (re.compile(r"Set it before the query is built: spark\.conf\.set\(\"(.*?)\", \"(.*?)\"\)\."), r"Set --conf \1=\2."),
    (re.compile(r"Start with a new checkpoint, or change the query back"), "Choose another --checkpoint and --output"),
)


def worded(message: str) -> str:
    """A message of the library, with remedies that can be typed as options."""
    message = _CALL.sub(_as_options, message)
    for python, options in _REMEDIES:
        message = python.sub(options, message)
    return message


def _as_options(call: re.Match[str]) -> str:
    return " ".join(f'--{name} "{value}"' for name, value in zip(_OPTIONS, call.groups(), strict=True) if value)
