"""Console output of the command line: progress and errors on stderr, tables on stdout, safe for a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from slicing.cli.heartbeat import calling_periodically

BEAT_SECONDS = 5.0


def complain(message: str, code: int) -> int:
    """Print an error as one line to stderr and return the exit code."""
    print("error: " + visible(" ".join(message.split())), file=sys.stderr)
    return code


def say(text: str) -> None:
    """Print progress to stderr."""
    print(visible(text), file=sys.stderr, flush=True)


def visible(text: str) -> str:
    """Return the text with control characters escaped, such as \\x1b."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@contextmanager
def reporting_alive(what: str) -> Iterator[None]:
    """Report every few seconds that `what` is still running, even while Spark's output is redirected to its log."""
    terminal = os.dup(2)

    def beat(seconds: float) -> float:
        os.write(terminal, f"{what} for {seconds:.0f} s ...\n".encode())
        return BEAT_SECONDS

    try:
        with calling_periodically(beat, BEAT_SECONDS):
            yield
    finally:
        os.close(terminal)


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> None:
    """Print rows in aligned columns, numbers aligned to the right."""
    table = [[visible(cell) for cell in row] for row in (names, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in [table[0], ["-" * width for width in widths], *table[1:]]:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        print("  ".join(aligned).rstrip(), flush=True)
