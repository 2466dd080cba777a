"""Prints lines one after another or, in a terminal, as blocks of lines that are updated in place."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Display:
    """Shows texts by name: one after another or, in a terminal, the newest text of each name in place.

    Other output to the same terminal must be printed inside `printing_above`. Several threads may share it.
    """

    def __init__(self, stream: TextIO):
        self.stream, self.live = stream, stream.isatty()
        self._blocks: dict[str, list[str]] = {}
        self._lock = threading.RLock()

    def show(self, name: str, text: str) -> None:
        """Show the newest text of a name, which may have several lines."""
        with self._lock:
            if self.live:
                self._redraw(self._blocks | {name: text.splitlines()})
            else:
                print(text, file=self.stream, flush=True)

    def end(self, name: str) -> None:
        """Leave the last text of a name where it is; the other texts move below it."""
        with self._lock:
            last = self._blocks.get(name)
            if last is not None:
                self._redraw({name: last} | self._blocks)
                del self._blocks[name]

    def clear(self) -> None:
        """Remove the texts that are updated in place."""
        with self._lock:
            self._redraw({})

    @contextmanager
    def printing_above(self) -> Iterator[None]:
        """Make room for printing above the texts that are updated in place."""
        with self._lock:
            kept = self._blocks
            self._redraw({})
            try:
                yield
            finally:
                self._redraw(kept)

    def _redraw(self, blocks: dict[str, list[str]]) -> None:
        up = sum(map(len, self._blocks.values()))
        width = shutil.get_terminal_size().columns
        lines = [line[: width - 1] for block in blocks.values() for line in block]
        cleared = "\x1b[J" if up > len(lines) else ""
        text = (f"\x1b[{up}F" if up else "") + cleared + "".join(f"\x1b[2K{line}\n" for line in lines)
        if text:
            self.stream.write(text)
            self.stream.flush()
        self._blocks = blocks
