"""All lines."""

from benchmarks.nexmark import lines as nexmark
from benchmarks.ospbench import lines as ospbench
from benchmarks.public.line import Line
from benchmarks.theodolite import lines as theodolite

LINES = (*theodolite.LINES, *ospbench.LINES, *nexmark.LINES)
"""The lines of all benchmarks, the most important first."""


def line(name: str) -> Line:
    """Return the line of a name."""
    return next(each for each in LINES if each.name == name)
