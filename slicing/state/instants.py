"""An append-only list of rows at instants: rows expire by time, and are removed together with their pages.

The list is read once per process, in whole.

::

    pages       [0 .. 3)  [2 .. 5)  [4 ........ 9)  [7 .. 9)
    kept from              3                                     the first page is removed
    kept from                              8                     the second too; the third is rewritten from 8 on

A row expires by its time; there is no mark per row. A page is removed as soon as all of its rows have expired. A page
that begins more than `span` slices before the first retained slice is rewritten, so that no expired row stays for
longer than that. A row is written once, 1.25 times with the merging of small pages, and once more if a span has few
micro-batches.
"""

from __future__ import annotations

from slicing.content.block import Block
from slicing.content.folding import fold
from slicing.state.format.header import Entry
from slicing.state.lists import PageLists
from slicing.windows.time.edges import AFTER


class Instants:
    """The rows of one list. `cached` has the retained rows, folded, or None if the process has not cached them."""

    def __init__(self, nodes: PageLists, name: str, span: int, cached: Block | None):
        self.nodes, self.name, self.span, self.cached = nodes, name, span, cached

    def rows(self, first: int) -> Block:
        """Return the rows from slice `first` on, folded."""
        if self.cached is None:
            self.cached = fold(self.nodes.shape, self.nodes.read(self.name))
        self.cached = self.cached.between(first, AFTER)
        return self.cached

    def put(self, new_rows: Block, rows: Block, first: int) -> None:
        """Append `new_rows`, folded, and remove the rows before slice `first`.

        `rows` has all rows afterwards, folded; the process caches them.
        """
        # Appending may merge pages, and part them where one has expired.
        self.nodes.append(self.name, new_rows.between(first, AFTER))
        self._forget(first)
        self.cached = rows.between(first, AFTER)

    def _forget(self, first: int) -> None:
        """Remove or rewrite the pages that have rows before slice `first`.

        A page that begins at most `span` slices before `first` stays, and so does the order of the pages.
        """
        pages, left = self.nodes.pages, list[Entry]()
        for entry in self.nodes.entries(self.name):
            if entry[2] > first and entry[1] >= first - self.span:
                left.append(entry)
                continue
            if entry[2] > first:
                (rows,) = pages.take([entry], self.nodes.shape)
                anew: list[Entry] = []
                pages.append(anew, rows.between(first, AFTER), self.nodes.shape)
                left += anew
            pages.remove([entry])
        self.nodes.lists[self.nodes.prefix + self.name] = left
        if not left:
            self.nodes.drop(self.name)
