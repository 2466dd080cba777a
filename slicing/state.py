"""The state of one bucket: what is kept between micro-batches, how records get in and how windows go out.

Slices are the only truth; the trees' nodes are durable caches of them. Everything is a page (a block as text) in a
key-value store, found through one header:

    fresh     pages written since the last close, not in any cache yet
    stripes   for each stripe the slices that have entered: cut pages of single slices (or of several small ones that
              share a page), and loose pages that are merged eight at a time
    caches    the trees' nodes by name

A micro-batch in which nothing closes writes one page and the header, and reads none but to merge eight small ones. A
close reads the fresh pages, moves the trees forward, and writes what entered into its stripes. Expired stripes are
removed whole.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from typing import Protocol

import numpy as np

from slicing.assembly import Windows, assemble
from slicing.blocks import Block, Shape, concat, decode_text, empty, encode_text, fold, parts, row_bytes
from slicing.errors import StateMismatch
from slicing.trees import Live, Node, Rows, ThreeLayer, TwoLayer

FORMAT = 1
FAN_IN = 8
"""So many small pages are merged into one."""
CUT_BYTES = 16 << 10
"""Slices smaller than this share a page: reading one costs as much as about 11 KB of content."""
LARGE = -1
"""The level of pages that fill `blocks.PAGE_BYTES`, which are not merged any more."""
FRAME_ROWS = 250_000
FOREVER = 1 << 62

Entry = list[int]
"""A page in the header: its id, its first slice, the end of its slices, how often it was merged."""


class Store(Protocol):
    """A key-value store of texts, and one text beside it."""

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
    newest: int | None = None  # newest slice ever seen, None when nothing is left
    serial: int = 0  # id of the next page
    fresh: list[Entry] = field(default_factory=list)
    stripes: dict[int, Stripe] = field(default_factory=dict)
    caches: dict[str, list[Entry]] = field(default_factory=dict)

    def to_text(self) -> str:
        """The header as compressed JSON in base64."""
        stripes = {str(key): [stripe.cuts, stripe.loose] for key, stripe in self.stripes.items()}
        values = [self.watermark, self.done, self.newest, self.serial, self.fresh, stripes, self.caches]
        content = json.dumps([FORMAT, self.fingerprint, *values], separators=(",", ":"))
        return base64.b64encode(zlib.compress(content.encode(), 1)).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> Header:
        """The inverse of `to_text`. Raises StateMismatch for another format version."""
        version, *values = json.loads(zlib.decompress(base64.b64decode(text)))
        if version != FORMAT:
            raise StateMismatch(
                f"the checkpoint has state of format {version}, this version reads format {FORMAT}. "
                "Start with a new checkpoint, or go back to the version that wrote it."
            )
        fingerprint, watermark, done, newest, serial, fresh, stripes, caches = values
        stripes = {int(key): Stripe(*content) for key, content in stripes.items()}
        return cls(fingerprint, watermark, done, newest, serial, fresh, stripes, caches)


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


@dataclass
class Late:
    """Records refused by a bucket, by cause."""

    all: int = 0  # late for all of their windows
    some: int = 0  # late for some windows, counted in the others


class Bucket:
    """One bucket over its store, for the length of one micro-batch: `add` what came, then `close` if time moved.

    `trees` has one of `assembly.TREES` for each kernel. `grace` is in microseconds.
    """

    def __init__(self, shape: Shape, trees: Sequence[str], grace: int, fingerprint: dict[str, str], store: Store):
        self.shape, self.trees, self.grace, self.store = shape, trees, grace, store
        self.slicing = shape.slicing
        text = store.header()
        self.is_new = text is None
        self._stored = text
        if text is None:
            self.head = Header(fingerprint, done=self.slicing.first_open(0, grace))
        else:
            self.head = Header.from_text(text)
            compare_fingerprints(self.head.fingerprint, fingerprint)
        self._incoming = empty(shape)
        self._two = [i for i, tree in enumerate(trees) if tree == "two_layer"]
        self._three = [i for i, tree in enumerate(trees) if tree == "three_layer"]

    def add(self, blocks: Sequence[Block]) -> Late:
        """Judge the partials of a micro-batch, keep those of open windows, count the records refused.

        All records of a slice belong to the same windows, so a slice is judged as one.
        """
        block = fold(self.shape, blocks)
        last = self.slicing.last_window(block.slices)
        accepted = last >= self.head.done
        partly = accepted & (self.slicing.first_window(block.slices) < self.head.done)
        late = Late(int(block.records[~accepted].sum()), int(block.records[partly].sum()))
        self._incoming = block if accepted.all() else block.take(np.flatnonzero(accepted))
        if len(self._incoming):
            newest = int(self._incoming.slices[-1])
            self.head.newest = newest if self.head.newest is None else max(newest, self.head.newest)
        return late

    def save(self) -> None:
        """Write what came as a page, and the header. For micro-batches in which no window closes."""
        if len(self._incoming):
            self._append(self.head.fresh, self._incoming, self.shape)
        self._incoming = empty(self.shape)
        self.put_header()

    def put_header(self) -> None:
        """Write the header, if it changed."""
        text = self.head.to_text()
        if text != self._stored:
            self.store.put_header(text)
            self._stored = text

    def close(self, watermark: int) -> Iterator[Windows]:
        """Yield the windows that go out at a watermark (in milliseconds), then write the state that is left."""
        head, slicing = self.head, self.slicing
        first, end = head.done, max(head.done, slicing.first_open(watermark * 1000, self.grace))
        head.watermark = max(watermark, head.watermark)
        if head.newest is None or end == first:
            head.done = end
            self.save()
            return
        # Pages of slices that do not enter yet are left alone, or a long delay would make every close rewrite them;
        # but not if partials have an order, which is that of the pages.
        ordered = any(kernel.aggregate.ordered for kernel in self.shape.kernels)
        entering = [entry for entry in head.fresh if ordered or entry[1] < self.entered(end)]
        fresh = fold(self.shape, [*self._read(entering, self.shape), self._incoming])
        self._incoming = empty(self.shape)
        head.fresh = [entry for entry in head.fresh if entry not in entering]
        self._remove(entering)
        until = min(end, slicing.last_window(head.newest) + 1)
        if until > first:
            closing = _Closing(self, fresh, first, until, end)
            yield from closing.windows()
        head.done = end
        if until < end:
            self._clear()
        else:
            self._keep(fresh.between(slicing.first_slice(end), self.entered(end)), first, end)
            waiting = fresh.between(self.entered(end), FOREVER)
            if len(waiting):
                self._append(head.fresh, waiting, self.shape)
        self.put_header()

    def _clear(self) -> None:
        """Nothing is left: every slice seen has gone out in its last window."""
        for key in list(self.head.stripes):
            self._remove_stripe(key)
        for entries in self.head.caches.values():
            self._remove(entries)
        self.head.caches, self.head.newest = {}, None

    def entered(self, window: int) -> int:
        """End of the slices that have entered the trees when `window` is the next to close."""
        return self.slicing.first_slice(window - 1) + self.slicing.per_window

    def _keep(self, kept: Block, first: int, end: int) -> None:
        """Write what entered and later windows need into its stripes, and remove the stripes that none needs."""
        oldest = self.slicing.first_slice(end)
        for key in [key for key in self.head.stripes if (key + 1) * self.slicing.stripe <= oldest]:
            self._remove_stripe(key)
        for key in np.unique(kept.slices // self.slicing.stripe):
            self._store(int(key), kept.between(int(key) * self.slicing.stripe, int(key + 1) * self.slicing.stripe))
        self._compact(first, end)

    def _store(self, key: int, block: Block) -> None:
        """Put rows into a stripe: slices that fill a page are cut at once, unless earlier rows of them are there."""
        stripe = self.head.stripes.setdefault(key, Stripe())
        start = key * self.slicing.stripe
        cut_until = start + (stripe.cuts[-1][1] if stripe.cuts else 0)
        width = row_bytes(self.shape, block)
        new = block.between(cut_until, FOREVER)
        if not stripe.loose and len(new) == len(block) and len(new) * width >= CUT_BYTES:
            self._cut(key, new)
        else:
            self._append(stripe.loose, block, self.shape)

    def _compact(self, first: int, end: int) -> None:
        """Merge and cut the loose pages of stripes that became whole, and of the one that begins to leave.

        Once per stripe each: rows that come late after that stay loose, or every late row would rewrite a stripe.
        """
        length, oldest = self.slicing.stripe, self.slicing.first_slice(end)
        entered_before, entered = self.entered(first), self.entered(end)
        leaving = oldest // length if self._two else None
        if leaving == self.slicing.first_slice(first) // length:
            leaving = None
        for key, stripe in list(self.head.stripes.items()):
            last = (key + 1) * length
            whole = entered_before < last <= entered
            if stripe.loose and ((whole and not stripe.cuts) or (key == leaving and last <= entered)):
                block = fold(self.shape, self._read_stripe(key, oldest, FOREVER))
                self._remove_stripe(key)
                self.head.stripes[key] = Stripe()
                self._cut(key, block)

    def _cut(self, key: int, block: Block) -> None:
        """Write the slices of a stripe as pages of their own; small ones share a page with those that follow."""
        stripe, start = self.head.stripes[key], key * self.slicing.stripe
        width = row_bytes(self.shape, block)
        indices, rows = np.unique(block.slices, return_counts=True)
        first, size = 0, 0.0
        for i, count in enumerate(rows):
            size += int(count) * width
            if size >= CUT_BYTES or i == len(rows) - 1:
                low, high = int(indices[first]), int(indices[i]) + 1
                pages = list(parts(self.shape, block.between(low, high)))
                stripe.cuts.append([low - start, high - start, len(pages)])
                for name, page in zip(_cut_names(key, self.slicing.stripe, stripe.cuts[-1]), pages, strict=True):
                    self.store.put(name, encode_text(self.shape, page))
                first, size = i + 1, 0

    def _read_stripe(self, key: int, first: int, end: int) -> list[Block]:
        stripe, start = self.head.stripes[key], key * self.slicing.stripe
        blocks = []
        for cut in stripe.cuts:
            if start + cut[0] < end and start + cut[1] > first:
                pages = map(self.store.get, _cut_names(key, self.slicing.stripe, cut))
                blocks += [decode_text(self.shape, page).between(first, end) for page in pages]
        loose = [entry for entry in stripe.loose if entry[1] < end and entry[2] > first]
        return blocks + [block.between(first, end) for block in self._read(loose, self.shape)]

    def read_slices(self, first: int, end: int) -> list[Block]:
        """All stored rows of entered slices `first` up to but not including `end`; not folded."""
        length = self.slicing.stripe
        keys = [key for key in sorted(self.head.stripes) if key * length < end and (key + 1) * length > first]
        return [block for key in keys for block in self._read_stripe(key, first, end)]

    def _remove_stripe(self, key: int) -> None:
        stripe = self.head.stripes.pop(key)
        self._remove(stripe.loose)
        for cut in stripe.cuts:
            for name in _cut_names(key, self.slicing.stripe, cut):
                self.store.remove(name)

    def _append(self, entries: list[Entry], block: Block, shape: Shape) -> None:
        """Add rows to a list of pages, oldest first; `FAN_IN` small pages of one level at its end become one."""
        self._write(entries, block, shape, level=0)
        while True:
            level = entries[-1][3]
            last = list(takewhile(lambda entry, level=level: entry[3] == level, reversed(entries)))[::-1]  # type: ignore[misc]
            if level == LARGE or len(last) < FAN_IN:
                return
            folded = fold(shape, self._read(last, shape))
            del entries[-len(last) :]
            self._remove(last)
            self._write(entries, folded, shape, level + 1)

    def _write(self, entries: list[Entry], block: Block, shape: Shape, level: int) -> None:
        pages = list(parts(shape, block))
        for page in pages:
            of_level = level if len(pages) == 1 else LARGE
            entries.append([self._put(page, shape), int(page.slices[0]), int(page.slices[-1]) + 1, of_level])

    def _put(self, block: Block, shape: Shape) -> int:
        page = self.head.serial
        self.head.serial += 1
        self.store.put(f"p{page}", encode_text(shape, block))
        return page

    def _read(self, entries: Sequence[Entry], shape: Shape) -> list[Block]:
        return [decode_text(shape, self.store.get(f"p{entry[0]}")) for entry in entries]

    def _remove(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.store.remove(f"p{entry[0]}")
        entries.clear()

    def check(self) -> None:
        """Assert the invariants between header and pages: no slice cut twice, nothing expired, every page in place."""
        head, length = self.head, self.slicing.stripe
        entries = [*head.fresh, *(entry for cached in head.caches.values() for entry in cached)]
        names = []
        for key, stripe in head.stripes.items():
            assert (key + 1) * length > self.slicing.first_slice(head.done), "expired stripes are removed"
            entries += stripe.loose
            names += [name for cut in stripe.cuts for name in _cut_names(key, length, cut)]
            assert all(a[1] <= b[0] for a, b in pairwise(stripe.cuts))
            assert all(key * length <= entry[1] < entry[2] <= (key + 1) * length for entry in stripe.loose)
            assert all(key * length + cut[1] <= self.entered(head.done) for cut in stripe.cuts)
        names += [f"p{entry[0]}" for entry in entries]
        assert len(names) == len(set(names)), "a page belongs to one place"
        assert all(entry[0] < head.serial for entry in entries)
        assert all(self.store.get(name) for name in names)


def _cut_names(key: int, length: int, cut: list[int]) -> list[str]:
    """Pages of a cut, named by its first slice: the header then looks alike for every stripe, and compresses."""
    return [f"c{key * length + cut[0]}.{part}" for part in range(cut[2])]


class BucketCache:
    """The nodes of one tree in a bucket's pages; `slicing.trees.Cache`."""

    def __init__(self, bucket: Bucket, tree: str, chosen: Sequence[int]):
        self.bucket, self.prefix, self.shape = bucket, f"{tree} ", bucket.shape.select(chosen)

    def load(self, name: str) -> Block | None:
        """The block of that name, None if there is none or it has no rows."""
        entries = self.bucket.head.caches.get(self.prefix + name)
        return fold(self.shape, self.bucket._read(entries, self.shape)) if entries else None

    def save(self, name: str, block: Block) -> None:
        """Write or replace a block."""
        self.drop(name)
        self.append(name, block)

    def append(self, name: str, block: Block) -> None:
        """Add rows to a block."""
        if len(block):
            self.bucket._append(self.bucket.head.caches.setdefault(self.prefix + name, []), block, self.shape)

    def drop(self, name: str) -> None:
        """Forget a block, if it is there."""
        self.bucket._remove(self.bucket.head.caches.pop(self.prefix + name, []))

    def names(self) -> list[str]:
        """The names of all blocks."""
        return [name.removeprefix(self.prefix) for name in self.bucket.head.caches if name.startswith(self.prefix)]


class _Closing:
    """Windows `first` up to `until` go out of a bucket, `end` is the next to close after that.

    `fresh` holds all that came since the last close: rows of slices that have entered before (they were late for some
    windows), of slices that enter now, and of later ones.
    """

    def __init__(self, bucket: Bucket, fresh: Block, first: int, until: int, end: int):
        self.bucket, self.fresh, self.first, self.until, self.end = bucket, fresh, first, until, end
        self.slicing, self.shape = bucket.slicing, bucket.shape
        self.entered_before = bucket.entered(first)
        self.live = Live(self.shape)
        self._held: Block | None = None
        self.two, self.three = bucket._two, bucket._three
        self.caches = {
            "two": BucketCache(bucket, "two", self.two),
            "three": BucketCache(bucket, "three", self.three),
        }

    def windows(self) -> Iterator[Windows]:
        """All windows that hold a record, in frames of bounded size."""
        jump = (self.until - self.first) * self.slicing.per_advance >= self.slicing.per_window
        if jump or not (self.two or self.three):
            return self._at_once()
        return self._one_by_one()

    def _slices(self, first: int, end: int) -> Block:
        """The folded rows of entered slices, stored ones and those that enter in this close."""
        if self._held is not None:
            return self._held.between(first, end)
        stored = self.bucket.read_slices(first, min(end, self.entered_before))
        return fold(self.shape, [*stored, self.fresh.between(first, end)])

    def _rows(self, first: int, end: int) -> Rows:
        return self.live.place(self._slices(first, end), range(len(self.shape.kernels)))

    def _at_once(self) -> Iterator[Windows]:
        """From slices: a jump over a whole window makes the caches useless, and recomputing has none."""
        oldest = self.slicing.first_slice(self.first)
        self._held = self._slices(oldest, self.bucket.entered(self.until))
        yield from assemble(self.shape, self.bucket.trees, self._held, self.first, self.until)
        if self.until == self.end and (self.two or self.three):
            self._rebuild()

    def _rebuild(self) -> None:
        """Caches for the window before `end`, less the slices that have left since."""
        oldest = self.slicing.first_slice(self.end)
        if self.two:
            two = TwoLayer(self.live, self.two, self.caches["two"])
            two.reset(self.live.node(self.two))
            two.late(self._rows(oldest, self.bucket.entered(self.end)))
            two.save()
        if self.three:
            three = self._three_layer()
            three.rebuild(oldest)
            three.save()

    def _three_layer(self) -> ThreeLayer:
        until = self.slicing.first_slice(self.until - 1)
        return ThreeLayer(self.live, self.three, self.caches["three"], self._rows, self.first, until)

    def _one_by_one(self) -> Iterator[Windows]:
        """From caches: slices enter, a window is read off, slices leave."""
        step, n = self.slicing.per_advance, self.slicing.per_window
        everything = range(len(self.shape.kernels))
        two = TwoLayer(self.live, self.two, self.caches["two"]) if self.two else None
        three = self._three_layer() if self.three else None
        fresh = self.live.place(self.fresh, everything)
        oldest = self.slicing.first_slice(self.first)
        late = fresh.between(oldest, self.entered_before)
        if len(late.codes):
            if two:
                two.late(late)
            if three:
                three.late(late, oldest)
        frame = _Frame(self.live)
        for window in range(self.first, self.until):
            oldest = self.slicing.first_slice(window)
            for index in range(oldest + n - step, oldest + n):
                entering = fresh.between(index, index + 1)
                if two:
                    two.enter(entering)
                if three:
                    three.enter(index, entering)
            if three:
                three.advance(oldest)
            frame.add(window, [tree for tree in (two and two.total, three and three.value(oldest)) if tree])
            if two:
                leaving = self._rows(oldest, oldest + step)
                for index in range(oldest, oldest + step):
                    two.leave(leaving.between(index, index + 1))
            if frame.rows >= FRAME_ROWS:
                yield frame.take()
        if self.until == self.end:
            for tree in (two, three):
                if tree:
                    tree.save()
        if frame.rows:
            yield frame.take()


class _Frame:
    """Windows collected until they are worth a frame."""

    def __init__(self, live: Live):
        self.live = live
        self.rows = 0
        self._windows: list[Rows] = []

    def add(self, window: int, nodes: Sequence[Node]) -> None:
        """Take the keys with records from nodes that hold all kernels between them."""
        all_rows = [node.rows() for node in nodes]
        rows = all_rows[0]
        if not len(rows.codes):
            return
        partials = {i: columns for some in all_rows for i, columns in some.partials.items()}
        dictionaries = {i: dictionary for some in all_rows for i, dictionary in some.dictionaries.items()}
        together = replace(rows, slices=np.full(len(rows.codes), window), partials=partials, dictionaries=dictionaries)
        self._windows.append(together)
        self.rows += len(rows.codes)

    def take(self) -> Windows:
        """The windows collected so far."""
        shape = self.live.shape
        blocks = [self.live.block(rows, range(len(shape.kernels))) for rows in self._windows]
        self._windows, self.rows = [], 0
        block = _stack(shape, blocks)
        return Windows(block.slices, block.keys, block.names, block.records, block.partials, block.dictionaries)


def _stack(shape: Shape, blocks: Sequence[Block]) -> Block:
    """`concat` of blocks over the same names, which it need not unify unless dictionaries grew in between."""
    if any(block.dictionaries is not None and any(block.dictionaries) for block in blocks):
        return concat(shape, blocks)
    partials = [
        [np.concatenate([block.partials[i][at] for block in blocks]) for at in range(kernel.width)]
        for i, kernel in enumerate(shape.kernels)
    ]
    slices, keys, records = (
        np.concatenate([getattr(b, name) for b in blocks]) for name in ("slices", "keys", "records")
    )
    return Block(slices, keys, blocks[-1].names, records, partials, blocks[-1].dictionaries)
