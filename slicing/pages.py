"""The pages of one bucket, and the header that finds them, over any store of texts.

A page is a block as text. Pages of a list have a number and are merged a few at a time, so that a list stays short
however small the pieces are that it was written in; pages with a name of their own are the cut slices of a stripe.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import chain, takewhile
from typing import Protocol

import numpy as np

from slicing.blocks import Block, Shape, decode_text, encode_text, fold, parts
from slicing.errors import SlicingError, StateMismatch, raised
from slicing.kernel import Array

FORMAT = 6
READABLE = (4, 5, FORMAT)
"""A suffix of a three-layer tree that is missing has no records in 4, and must be made from 5 on; made, it has none in
4. Slices are cut before they enter in 6 only, where 5 would not look for them."""
FAN_IN = 5
"""So many small pages are merged into one."""
LARGE = -1
"""The level of pages that fill `blocks.PAGE_BYTES`, which are not merged any more."""

RESTORE = "The checkpoint is damaged: restore a copy of it, or start with a new one."

Entry = list[int]
"""A page in the header: its number, its first slice, the end of its slices, how often it was merged."""


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


@dataclass
class Stripe:
    """Pages of the entered slices of one stripe."""

    cuts: list[list[int]] = field(default_factory=list)  # first and end slice within the stripe, pages
    loose: list[Entry] = field(default_factory=list)


@dataclass
class Header:
    """The directory of a bucket's pages; a few KB."""

    fingerprint: dict[str, str]
    watermark: int = 0  # milliseconds, the last one that closed windows
    done: int = 0  # first window that has not gone out
    taking: int = 0  # first window that takes records: `done`, or one before it while windows are corrected
    kept: int = 0  # first window of which all slices are there
    nodes: int | None = 0  # the window before which the trees' nodes are, None if there are none
    newest: int | None = None  # newest slice ever seen, None when nothing is left
    serial: int = 0  # number of the next page
    fresh: list[Entry] = field(default_factory=list)
    stripes: dict[int, Stripe] = field(default_factory=dict)
    late: list[Entry] = field(default_factory=list)
    caches: dict[str, list[Entry]] = field(default_factory=dict)
    revision: int = 0  # micro-batches so far, where results carry it
    nonce: str = ""  # of what a worker process may have kept, see `recent`
    clock: int = 0  # milliseconds, the last trigger's time, where ticks are by the clock
    tick: int | None = None  # the last tick, None before the first micro-batch

    def to_text(self) -> str:
        """The header as compressed JSON in base64."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["stripes"] = {str(key): [stripe.cuts, stripe.loose] for key, stripe in self.stripes.items()}
        content = json.dumps([FORMAT, *values.values()], separators=(",", ":"))
        return base64.b64encode(zlib.compress(content.encode(), 1)).decode("ascii")

    def spans(self, length: int) -> Array:
        """First slice and end of every page of slices, a row each, for stripes of `length`; cached nodes are none."""
        stripes = self.stripes.values()
        entries = [*self.fresh, *self.late, *(entry for stripe in stripes for entry in stripe.loose)]
        every = chain.from_iterable(stripe.cuts for stripe in stripes)
        cuts = np.fromiter(chain.from_iterable(every), np.int64).reshape(-1, 3)
        counts = np.array([len(stripe.cuts) for stripe in stripes], np.int64)
        starts = np.repeat(np.array([*self.stripes], np.int64) * length, counts)
        return np.concatenate([np.array(entries, np.int64).reshape(-1, 4)[:, 1:3], cuts[:, :2] + starts[:, None]])

    @classmethod
    def from_text(cls, text: str) -> Header:
        """The inverse of `to_text`. Raises StateMismatch for another format version."""
        version, *values = json.loads(zlib.decompress(base64.b64decode(text)))
        if version not in READABLE:
            raise StateMismatch(
                f"the checkpoint has state of format {version}, this version reads format {FORMAT}. "
                "Start with a new checkpoint, or go back to the version that wrote it."
            )
        head = cls(*values)
        head.stripes = {int(key): Stripe(*content) for key, content in head.stripes.items()}  # type: ignore[misc]
        return head


def covered(spans: Array) -> int:
    """How many slices lie in one of the spans at least, a span being a row of its first slice and its end."""
    firsts, ends = spans[np.argsort(spans[:, 0])].T
    seen = np.maximum.accumulate(ends)
    firsts[1:] = np.maximum(firsts[1:], seen[:-1])
    return int(np.maximum(ends - firsts, 0).sum())


def compare_fingerprints(stored: dict[str, str], wanted: dict[str, str]) -> None:
    """Raise StateMismatch that names every difference between a checkpoint's query and this one."""
    names = sorted({*stored, *wanted})
    different = [
        f"{name}: checkpoint `{stored.get(name)}`, query `{wanted.get(name)}`"
        for name in names
        if stored.get(name) != wanted.get(name)
    ]
    if different:
        raise StateMismatch(
            "the checkpoint was written by a query of another shape; its state cannot be read as this one's. "
            f"Different: {'; '.join(different)}. Start with a new checkpoint, or change the query back."
        )


@contextmanager
def _decoding(what: str, store: Store) -> Iterator[None]:
    """Say of a text that is damaged where it is."""
    try:
        yield
    except (SlicingError, MemoryError):
        raise
    except Exception as error:
        raise StateMismatch(
            f"{what} of {store.name} cannot be read as state of format {FORMAT}: {raised(error)}. {RESTORE}"
        ) from error


class Pages:
    """The header of a bucket as it was stored, and its pages.

    `done` is the first window that has not gone out of a bucket never seen. Raises StateMismatch, also for a page that
    cannot be read. `read` and `written`
    count partials, a partial being a row of a page.
    """

    def __init__(self, store: Store, fingerprint: dict[str, str], done: int):
        self.store = store
        self.read = self.written = 0
        self._stored = store.header()
        self.is_new = self._stored is None
        if self._stored is None:
            self.head = Header(fingerprint, done=done, taking=done, kept=done, nodes=done)
        else:
            with _decoding("the header", store):
                self.head = Header.from_text(self._stored)
            compare_fingerprints(self.head.fingerprint, fingerprint)

    def save_header(self) -> None:
        """Write the header, if it changed."""
        text = self.head.to_text()
        if text != self._stored:
            self.store.put_header(text)
            self._stored = text

    def get(self, name: str, shape: Shape) -> Block:
        """Read a page by its name."""
        text = self.store.get(name)
        with _decoding(f"page `{name}`", self.store):
            block = decode_text(shape, text)
        self.read += len(block)
        return block

    def put(self, name: str, block: Block, shape: Shape) -> None:
        """Write a page of a name that was never used."""
        self.store.put(name, encode_text(shape, block))
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
