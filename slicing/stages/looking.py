"""Look up windows in the stored texts of buckets, and return flat rows. Does not use pyspark, and writes nothing.

::

    pages of a bucket, in any order  ->  all pages in its header have arrived  ->  its engine answers  ->  flat rows
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import NoReturn, Self

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import Field
from slicing.assembly.results import Windows
from slicing.content.block import Shape
from slicing.engines.bucket import OpenBucket
from slicing.engines.looking import PIECES, Look, Pieces, Unknown
from slicing.errors import SlicingError, StateMismatch, raised
from slicing.stages import flat
from slicing.stages.execution_plan import ExecutionPlan
from slicing.stages.flat import Flat
from slicing.stages.labels import labels_of
from slicing.stages.output import flat_windows, framed, key_columns
from slicing.state.format.buckets import BucketName
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.header import PER_GROUP, RESTORE, Header
from slicing.state.format.list_names import COUNTED, ENDED, INSTANTS, SESSIONS, TOTALS, WINDOW, parse
from slicing.state.pages import page_name
from slicing.triggers.trigger import Trigger
from slicing.windows.time.slices import FOREVER

CLOSED, KNOWN, ANSWERED = "closed", "known", -2
"""The additional columns of lookups, and the value of `cause` in the row that says that a bucket has answered."""
LOOKED_UP = (COUNTED, ENDED, INSTANTS, SESSIONS, TOTALS, WINDOW)
"""The lists of pages that lookups read in addition to slices; all other lists are caches and marks."""


class ReadOnly:
    """A read-only `slicing.state.store.Store` over the stored texts of a bucket."""

    def __init__(self, name: object, text: str | None, pages: Mapping[str, str]):
        self.name, self._text, self._pages = name, text, pages

    def header(self) -> str | None:
        """Return the header."""
        return self._text

    def get(self, page: str) -> str:
        """Return a page. Raises StateMismatch if it is missing."""
        if page not in self._pages:
            raise StateMismatch(f"page `{page}` of {self.name} is in the header and not in the store. {RESTORE}")
        return self._pages[page]

    def put_header(self, text: str) -> NoReturn:
        """Refuse to write."""
        self._refuse()

    def put(self, page: str, text: str) -> NoReturn:
        """Refuse to write."""
        self._refuse()

    def remove(self, page: str) -> NoReturn:
        """Refuse to write."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise AssertionError("a lookup writes nothing")


def header_of(label: int, text: str) -> Header:
    """Return the header of a bucket. Raises StateMismatch if it cannot be read."""
    try:
        return Header.from_text(text)
    except (SlicingError, MemoryError):
        raise
    except Exception as error:  # damaged bytes can raise any error
        raise StateMismatch(
            f"the header of the bucket with label {label} cannot be read: {raised(error)}. {RESTORE}"
        ) from error


def pages_looked_up(head: Header) -> set[str]:
    """Return the names of the pages that lookups read."""
    entries = [*head.fresh, *head.late]
    for name, some in head.lists.items():
        entries += some if parse(name).of in LOOKED_UP else []
    length, names = head.layout.get(PER_GROUP, 0), set[str]()
    for key, group in head.slice_groups.items():
        entries += group.loose
        names |= {f"c{key * length + cut[0]}.{part}" for cut in group.cuts for part in range(cut[2])}
    return names | {page_name(entry) for entry in entries}


@dataclass(frozen=True)
class LookupFlat(Flat):
    """The columns of lookups: those of bounded input, and of the state of their bucket.

    These say whether the window has closed, since when it is complete, and the watermark of the bucket.
    """

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the columns in order."""
        return (*super().fields, Field(CLOSED, "boolean"), Field(KNOWN, "bigint"), Field(flat.WATERMARK, "bigint"))

    @classmethod
    def of(cls, columns: Flat) -> Self:
        """Return the columns of bounded input together with those of lookups."""
        return cls(**{each.name: getattr(columns, each.name) for each in fields(Flat)})


@dataclass(frozen=True)
class LookUp:
    """The function for `mapInArrow` over pages that answers a lookup, for the buckets in `headers` (by label).

    `shape` is that of the requested windows. `closes` says whether time closes them, `grace` microseconds after their
    end. `execution_plan`, `fingerprint` and `trigger` are those of the query. `labels` are those of all buckets; they
    tell in which bucket a key is.
    """

    execution_plan: ExecutionPlan
    fingerprint: Fingerprint
    trigger: Trigger
    grace: int
    shape: Shape
    wide: bool
    closes: bool
    flat: LookupFlat
    look: Look
    headers: Mapping[int, str]
    labels: tuple[int, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answer of each bucket as soon as all of its pages have arrived, in any order."""
        needed: dict[int, set[str]] = {}
        pages: dict[int, dict[str, str]] = {}
        for batch in batches:
            for label, page, text in zip(
                *(batch[name].to_pylist() for name in ("bucket", "page", "text")), strict=True
            ):
                if label not in needed:
                    needed[label], pages[label] = pages_looked_up(header_of(label, self.headers[label])), {}
                if page in needed[label]:
                    needed[label].remove(page)
                    pages[label][page] = text
                    if not needed[label]:
                        yield from self.answer(label, pages.pop(label))
        for label in pages:
            if needed[label]:
                yield from self.answer(label, pages[label])  # raises an error that names the missing page

    def without_pages(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of nulls of the buckets that have no page, which `__call__` never sees."""
        for label, text in self.headers.items() if self.look.unknown else ():
            if not pages_looked_up(header_of(label, text)):
                yield from self.answer(label, {})

    def answer(self, label: int, pages: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a bucket, and one row that says that the bucket has answered."""
        bucket = self._opened(label, pages)
        for table in self.rows(bucket, label):
            watermark = pa.array(np.full(len(table), bucket.head.watermark))
            yield from self.flat.completed(table.append_column(flat.WATERMARK, watermark)).to_batches()
        done = {flat.START: pa.array([label], pa.int64()), flat.CAUSE: pa.array([ANSWERED], pa.int32())}
        yield from self.flat.completed(pa.table(done)).to_batches()

    def pieces(self, pages: pa.Table) -> Iterator[Pieces]:
        """Yield the slices of the windows of one key, from the pages of its bucket."""
        texts = dict(zip(pages["page"].to_pylist(), pages["text"].to_pylist(), strict=True))
        for label in self.headers:
            bucket = self._opened(label, texts)
            for each in bucket.look(replace(self.look, form=PIECES)):
                assert isinstance(each, Pieces), "the windows of this query have pieces"
                yield replace(each, shape=replace(each.shape, since=bucket.coverage.results))

    def known_from(self) -> int | None:
        """Return the microsecond from which on buckets still have all accepted records; None if nothing is missing."""
        known = max((self._opened(label, {}).coverage.known_from for label in self.headers), default=-FOREVER)
        return None if known == -FOREVER else known

    def check(self) -> None:
        """Raise StateMismatch if a bucket belongs to another query. No page is read."""
        for label in self.headers:
            self._opened(label, {})

    def _opened(self, label: int, pages: Mapping[str, str]) -> OpenBucket:
        """Open a bucket over some pages, with the number of buckets of the checkpoint instead of the query's."""
        buckets = header_of(label, self.headers[label]).buckets
        store = ReadOnly(BucketName(label, buckets), self.headers[label], pages)
        fingerprint = replace(self.fingerprint, identity={**self.fingerprint.identity, "buckets": buckets})
        return self.execution_plan.bucket(self.grace, fingerprint, store, self.trigger)

    def rows(self, bucket: OpenBucket, label: int = 0) -> Iterator[pa.Table]:
        """Yield the flat rows of the windows of a bucket, then rows of nulls for windows that it does not know."""
        watermark, shape = bucket.head.watermark, replace(self.shape, since=bucket.coverage.results)
        for each in bucket.look(self._within(label) if self.look.unknown else self.look):
            if isinstance(each, Unknown):
                yield self._nulls(shape, each, watermark)
                continue
            assert isinstance(each, Windows), "windows are looked up"
            for some in framed(self.execution_plan.shape, each):
                yield self._table(shape, some, watermark, bucket)

    def _within(self, label: int) -> Look:
        """Return the lookup, of the keys that are in a bucket."""
        keys = self.look.keys
        if keys is None or len(self.labels) < 2:
            return self.look
        return replace(self.look, keys=keys.filter(pa.array(labels_of(keys, self.labels) == label)))

    def _nulls(self, shape: Shape, unknown: Unknown, watermark: int) -> pa.Table:
        """Return rows of windows without results."""
        family = shape.family.families[unknown.family]
        end, numbers = family.window_end(unknown.windows), np.full(len(unknown.windows), unknown.family, np.int32)
        start = end if self.wide else family.window_start(unknown.windows)
        columns = key_columns(shape, unknown.names.take(pa.array(unknown.keys)))
        columns |= {flat.START: pa.array(start), flat.STOP: pa.array(end), flat.FAMILY: pa.array(numbers)}
        columns |= {CLOSED: pa.array(self._closed(end, watermark)), KNOWN: pa.array(unknown.known)}
        return pa.table(columns)

    def _closed(self, ends: Array, watermark: int) -> Array:
        """Return which windows a watermark has closed, given their ends: `bool[n]`."""
        closed: Array = ends <= watermark - self.grace
        return closed & bool(self.closes and watermark)

    def _table(self, shape: Shape, windows: Windows, watermark: int, bucket: OpenBucket) -> pa.Table:
        family = shape.family.families[windows.family]
        rows = flat_windows(shape, windows, wide=self.wide)
        rows = rows.append_column(CLOSED, pa.array(self._closed(windows.ends_by(family), watermark)))
        return rows.append_column(KNOWN, _known_since(bucket, shape, windows))


def _known_since(bucket: OpenBucket, shape: Shape, windows: Windows) -> pa.Array:
    """Return the microsecond from which on all windows of each row are complete; null if they are from their start."""
    found, coverage = np.full(len(windows), -FOREVER), bucket.coverage
    for family, side in windows.by_family(shape.family.families):
        starts = family.window_start(side.windows)
        known = coverage.known_since(starts)
        found = np.where(starts < known, np.maximum(found, known), found)
    return pa.array(found, mask=found == -FOREVER)
