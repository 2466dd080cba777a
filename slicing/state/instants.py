"""Rows of keys at instants, kept for so long: appended as they come, read whole once a process, gone with their pages.

::

    pages       [0 .. 3)  [2 .. 5)  [4 ........ 9)  [7 .. 9)
    kept from              3                                     the first page is removed
    kept from                              8                     the second too; the third is written anew from 8 on

What is void is so by its time, and nothing says it row by row. A page goes as soon as all of it is void; one that
begins `span` slices before what is kept is written anew, so that no void row stays for longer than that. A row is
written once, a quarter more often with small pages merged, and once more where few micro-batches make a span.
"""

from __future__ import annotations

from slicing.content.block import Block
from slicing.content.folding import fold
from slicing.state.format.header import Entry
from slicing.state.lists import PageLists
from slicing.windows.time.slices import FOREVER


class Instants:
    """The rows of one list from some slice on; `kept` are those, folded, if the process still has them."""

    def __init__(self, nodes: PageLists, name: str, span: int, kept: Block | None):
        self.nodes, self.name, self.span, self.kept = nodes, name, span, kept

    def rows(self, first: int) -> Block:
        """The rows from slice `first` on, folded."""
        if self.kept is None:
            self.kept = fold(self.nodes.shape, self.nodes.read(self.name))
        self.kept = self.kept.between(first, FOREVER)
        return self.kept

    def put(self, came: Block, rows: Block, first: int) -> None:
        """Append folded rows, and forget all that lies before slice `first`; `rows` are what there is then."""
        self._forget(first)
        self.nodes.append(self.name, came.between(first, FOREVER))
        self.kept = rows.between(first, FOREVER)

    def _forget(self, first: int) -> None:
        """Remove or write anew the pages that have rows before a slice; the others stay as they are, and where."""
        pages, left = self.nodes.pages, list[Entry]()
        for entry in self.nodes.entries(self.name):
            if entry[2] > first and entry[1] >= first - self.span:
                left.append(entry)
                continue
            if entry[2] > first:
                (rows,) = pages.take([entry], self.nodes.shape)
                anew: list[Entry] = []
                pages.append(anew, rows.between(first, FOREVER), self.nodes.shape)
                left += anew
            pages.remove([entry])
        self.nodes.lists[self.nodes.prefix + self.name] = left
        if not left:
            self.nodes.drop(self.name)
