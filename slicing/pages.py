"""The pages of one bucket, which its header finds, over any store of texts.

A page is a block as text. Pages of a list have a number and are merged a few at a time, so that a list stays short
however small the pieces are that it was written in; pages with a name of their own are the cut slices of a stripe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Protocol

import numpy as np

from slicing.blocks import Block, Shape, decode_text, encode_text, fold, parts
from slicing.errors import SlicingError, StateMismatch, raised
from slicing.fingerprint import Fingerprint
from slicing.header import FORMAT, OLDER, Entry, Header, Walk
from slicing.kernel import Array
from slicing.packing import is_sealed, sealed, unsealed

FAN_IN = 5
"""So many small pages are merged into one."""
LARGE = -1
"""The level of pages that fill `blocks.PAGE_BYTES`, which are not merged any more."""

RESTORE = "The checkpoint is damaged: restore a copy of it, or start with a new one."


class Store(Protocol):
    """A key-value store of texts, and one text beside it; `name` is how messages call the bucket."""

    name: str

    def header(self) -> str | None:
        """The header, None for a bucket never seen."""

    def put_header(self, text: str) -> None:
        """Write the header."""

    def get(self, page: str) -> str:
        """Read a page."""

    def put(self, page: str, text: str) -> None:
        """Write a page."""

    def remove(self, page: str) -> None:
        """Remove a page."""


class MemoryStore:
    """A `Store` that lives as long as the object."""

    def __init__(self) -> None:
        self.name = "a bucket in memory"
        self.text: str | None = None
        self.pages: dict[str, str] = {}

    def header(self) -> str | None:
        """The header, None before it was written."""
        return self.text

    def put_header(self, text: str) -> None:
        """Write the header."""
        self.text = text

    def get(self, page: str) -> str:
        """Read a page."""
        return self.pages[page]

    def put(self, page: str, text: str) -> None:
        """Write a page."""
        self.pages[page] = text

    def remove(self, page: str) -> None:
        """Remove a page."""
        del self.pages[page]


def covered(spans: Array) -> int:
    """How many slices lie in one of the spans at least, a span being a row of its first slice and its end."""
    firsts, ends = spans[np.argsort(spans[:, 0])].T
    seen = np.maximum.accumulate(ends)
    firsts[1:] = np.maximum(firsts[1:], seen[:-1])
    return int(np.maximum(ends - firsts, 0).sum())


@contextmanager
def _decoding(what: str, text: str, store: Store) -> Iterator[None]:
    """Say of a text that is damaged where it is, and of what format it seems to be."""
    try:
        yield
    except (SlicingError, MemoryError):
        raise
    except Exception as error:
        version = f"format {FORMAT}" if is_sealed(text) else f"formats {OLDER[0]} to {OLDER[-1]}"
        raise StateMismatch(
            f"{what} of {store.name} cannot be read as state of {version}: {raised(error)}. {RESTORE}"
        ) from error


class Pages:
    """The header of a bucket as it was stored, and its pages.

    `done` is the first window that has not gone out of a bucket never seen. Raises StateMismatch, also for a page that
    cannot be read. `read` and `written`
    count partials, a partial being a row of a page.
    """

    def __init__(self, store: Store, fingerprint: Fingerprint, done: int):
        self.store = store
        self.read = self.written = 0
        self._stored = store.header()
        self.is_new = self._stored is None
        if self._stored is None:
            walk = Walk(done, done, done, done)
            self.head = Header(dict(fingerprint.identity), dict(fingerprint.layout), [walk])
        else:
            with _decoding("the header", self._stored, store):
                self.head = fingerprint.header_of(Header.from_text(self._stored))

    def save_header(self) -> None:
        """Write the header, if it changed."""
        text = self.head.to_text()
        if text != self._stored:
            self.store.put_header(text)
            self._stored = text

    def get(self, name: str, shape: Shape) -> Block:
        """Read a page by its name."""
        text = self.store.get(name)
        with _decoding(f"page `{name}`", text, self.store):
            block = decode_text(shape, unsealed(text) if is_sealed(text) else text)
        self.read += len(block)
        return block

    def put(self, name: str, block: Block, shape: Shape) -> None:
        """Write a page of a name that was never used."""
        self.store.put(name, sealed(encode_text(shape, block)))
        self.written += len(block)

    def take(self, entries: Sequence[Entry], shape: Shape) -> Iterator[Block]:
        """Read the pages of a list, one after another as they are asked for."""
        return (self.get(page_name(entry), shape) for entry in entries)

    def append(self, entries: list[Entry], block: Block, shape: Shape) -> None:
        """Add rows to a list of pages, oldest first; `FAN_IN` small pages of one level at its end become one."""
        self._add(entries, block, shape, level=0)
        while True:
            level = entries[-1][3]
            last = list(takewhile(lambda entry, level=level: entry[3] == level, reversed(entries)))[::-1]  # type: ignore[misc]
            if level == LARGE or len(last) < FAN_IN:
                return
            folded = fold(shape, list(self.take(last, shape)))
            del entries[-len(last) :]
            self.remove(last)
            self._add(entries, folded, shape, level + 1)

    def remove(self, entries: list[Entry]) -> None:
        """Remove all pages of a list."""
        for entry in entries:
            self.store.remove(page_name(entry))
        entries.clear()

    def _add(self, entries: list[Entry], block: Block, shape: Shape, level: int) -> None:
        pages = list(parts(shape, block))
        for page in pages:
            of_level = level if len(pages) == 1 else LARGE
            entry = [self.head.serial, int(page.slices[0]), int(page.slices[-1]) + 1, of_level]
            self.head.serial += 1
            self.put(page_name(entry), page, shape)
            entries.append(entry)


def page_name(entry: Entry) -> str:
    """The name of a page of a list."""
    return f"p{entry[0]}"


class Nodes:
    """The nodes of one tree as lists of pages; `slicing.trees.Cache`."""

    def __init__(self, pages: Pages, tree: str, shape: Shape):
        self.pages, self.prefix, self.shape = pages, f"{tree} ", shape
        self.lists = pages.head.caches

    def load(self, name: str) -> Block | None:
        """The block of that name, None if there is none or it has no rows."""
        blocks = self.read(name)
        return fold(self.shape, blocks) if blocks else None

    def read(self, name: str) -> list[Block]:
        """What was appended to a block, the older rows first."""
        return list(self.pages.take(self.entries(name), self.shape))

    def entries(self, name: str) -> list[Entry]:
        """The pages of a block, none for one that was never saved."""
        return self.lists.get(self.prefix + name, [])

    def save(self, name: str, block: Block) -> None:
        """Write or replace a block."""
        self.drop(name)
        self.append(name, block)

    def append(self, name: str, block: Block) -> None:
        """Add rows to a block."""
        if len(block):
            self.pages.append(self.lists.setdefault(self.prefix + name, []), block, self.shape)

    def drop(self, name: str) -> None:
        """Forget a block, if it is there."""
        self.pages.remove(self.lists.pop(self.prefix + name, []))

    def clear(self) -> None:
        """Forget all blocks."""
        for name in self.names():
            self.drop(name)

    def names(self) -> list[str]:
        """The names of all blocks."""
        return [name.removeprefix(self.prefix) for name in self.lists if name.startswith(self.prefix)]
