"""The pages of one bucket: each block is stored as a text under a name, and small pages are merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile

import pyarrow as pa

from slicing.aggregates.arrays import Partials
from slicing.content.block import Block, Shape, schema_of_rows
from slicing.content.codec import decode_columns, decode_text, encode_text
from slicing.content.folding import fold
from slicing.content.packing import from_text, is_sealed, sealed, unsealed
from slicing.content.sizes import parts
from slicing.errors import SlicingError, StateMismatch, raised
from slicing.profiling import DECODE, ENCODE, of_stage
from slicing.state.format.adapting import opened
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.header import FORMAT, RESTORE, Entry, Header
from slicing.state.store import Store

FAN_IN = 5
"""The number of small pages that are merged into one."""
GENERATION = 4
"""The position of the generation in an `Entry`."""
LARGE = -1
"""The level of pages that already have the full page size. They are not merged any more."""


@contextmanager
def _decoding(what: str, store: Store) -> Iterator[None]:
    """Turn any error while a stored text is decoded into a StateMismatch that names the text and the bucket."""
    try:
        yield
    except (SlicingError, MemoryError):
        raise
    except Exception as error:
        raise StateMismatch(
            f"{what} of {store.name} cannot be read as state of format {FORMAT}: {raised(error)}. {RESTORE}"
        ) from error


class Pages:
    """The stored header of a bucket, and access to its pages.

    `next_to_fire` has the window of each family that fires next, if the bucket is new. `added` and `removed` have the
    ids of the families that a change of the query has just added and removed. `read` and `written` count partials, that
    is rows of pages. Raises StateMismatch if the query does not fit the checkpoint, or if the header or a page cannot
    be read.
    """

    def __init__(self, store: Store, fingerprint: Fingerprint, next_to_fire: Sequence[int]):
        self.store = store
        self.read = self.written = 0
        self._stored = store.header()
        self.is_new = self._stored is None
        self.added: set[int] = set()
        self.removed: set[int] = set()
        if self._stored is None:
            self.head = fingerprint.header(next_to_fire)
        else:
            with _decoding("the header", store):
                stored = Header.from_text(self._stored)
                before = {family.id for family in stored.families}
                self.head = opened(fingerprint, stored)
                now = {family.id for family in self.head.families}
                self.added, self.removed = now - before, before - now

    def save_header(self) -> None:
        """Write the header if it has changed."""
        text = self.head.to_text()
        if text != self._stored:
            self.store.put_header(text)
            self._stored = text

    @of_stage(DECODE)
    def get(self, name: str, shape: Shape, generation: int) -> Block:
        """Read a page by its name. A page of an older generation is converted to the current results."""
        text = self.store.get(name)
        with _decoding(f"page `{name}`", self.store):
            if generation == self.head.generation or not shape.has_results:
                block = decode_text(shape, _unsealed(text))
            else:
                block = decode_older(self.head, generation, shape, _unsealed(text))
        self.read += len(block)
        return block

    @of_stage(ENCODE)
    def put(self, name: str, block: Block, shape: Shape) -> None:
        """Write a page. Its name must never have been used before."""
        self.store.put(name, sealed(encode_text(shape, block)))
        self.written += len(block)

    def take(self, entries: Sequence[Entry], shape: Shape) -> Iterator[Block]:
        """Read the pages of a list lazily, one at a time."""
        return (self.get(page_name(entry), shape, entry[GENERATION]) for entry in entries)

    def append(self, entries: list[Entry], block: Block, shape: Shape) -> None:
        """Append rows to a list of pages, oldest first, and merge the last `FAN_IN` small pages of one level into one.

        A merged page has the next level; it may complete `FAN_IN` pages of that level, which are then merged too.
        """
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
        """Remove all pages of a list from the store, and clear the list."""
        for entry in entries:
            self.store.remove(page_name(entry))
        entries.clear()

    def _add(self, entries: list[Entry], block: Block, shape: Shape, level: int) -> None:
        pages = list(parts(shape, block))
        for page in pages:
            of_level = level if len(pages) == 1 else LARGE
            entry = [self.head.serial, int(page.index[0]), int(page.index[-1]) + 1, of_level, self.head.generation]
            self.head.serial += 1
            self.put(page_name(entry), page, shape)
            entries.append(entry)


def _unsealed(text: str) -> str:
    """Return the text of a page without its checksum. Raises ValueError if the text has no checksum."""
    if not is_sealed(text):
        raise ValueError("it has no checksum, as if it were of a format before 7, or its first character has changed")
    return unsealed(text)


def page_name(entry: Entry) -> str:
    """Return the name under which a page of a list is stored."""
    return f"p{entry[0]}"


# Pages that were written when the query had other results are read as if they had the current ones:
#
#   generation 0   slice, key, records | high low n | mean m2      results 1 and 2
#   generation 1   slice, key, records | mean m2 | value           results 2 and 3
#   a page of generation 0 is read as  | mean m2 | init()
#
# The additional columns of an engine are the last columns in every generation.


def decode_older(head: Header, generation: int, shape: Shape, text: str) -> Block:
    """Return the rows of a page of an older generation; missing results and fields hold `init()`.

    All results of `shape` must have the same content: partials of slices, or partials of windows.
    """
    results = len(shape.kernels) - shape.marks
    ids = [head.generations[head.generation][place] for place in shape.places[:results]]
    content = next(result.content for result in head.results if result.id in ids)
    columns = head.columns(generation, content)
    marks = [field.kind for kernel in shape.kernels[results:] for field in kernel.fields]
    schema = schema_of_rows([field.split(" ", 1)[1] for _, field in columns] + marks)
    arrays, rows = decode_columns(shape, from_text(text), schema)
    stored, of_marks = dict(zip(columns, arrays, strict=False)), iter(arrays[len(columns) :])
    partials: list[Partials] = []
    dictionaries: list[pa.Array | None] = []
    for kernel, number in zip(shape.kernels, ids, strict=False):
        found = [head.column(generation, number, place) for place in range(len(kernel.fields))]
        blank = kernel.spread(len(rows))
        if any(found):
            blanks = kernel.to_arrow(blank, kernel.no_dictionary)
            values = [empty if at is None else stored[at] for at, empty in zip(found, blanks, strict=True)]
            blank, dictionary = kernel.from_arrow(values)
        else:
            dictionary = kernel.no_dictionary
        partials.append(blank)
        dictionaries.append(dictionary)
    for kernel in shape.kernels[results:]:
        found_marks, dictionary = kernel.from_arrow([next(of_marks) for _ in kernel.fields])
        partials.append(found_marks)
        dictionaries.append(dictionary)
    return replace(rows, partials=partials, dictionaries=dictionaries)
