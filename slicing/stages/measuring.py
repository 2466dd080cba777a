"""Measure the pages of buckets: return a row for each bucket with its bytes, keys and damage; count slices of keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import arrow_type
from slicing.content.codec import keys_in_text, rows_in_text
from slicing.content.hashing import hashes
from slicing.content.packing import is_sealed, unsealed
from slicing.errors import raised, shortened
from slicing.state.format.header import Header
from slicing.state.format.list_names import EARLY, TOTALS, WINDOW, ListName, parse
from slicing.state.format.page_columns import columns_of, lists_of

SCHEMA = (
    "bucket int, pages bigint, bytes bigint, keys bigint, damage string, "
    "largest array<struct<key string, hash bigint, rows bigint, records bigint, bytes bigint>>, "
    "trigger array<struct<list string, pages bigint, bytes bigint>>"
)
SLICES_SCHEMA = "bucket int, hash bigint, slices bigint"
MOST_KEYS = 10
"""The number of largest keys that are listed per bucket."""
_TYPES = (("bucket", pa.int32()), ("pages", pa.int64()), ("bytes", pa.int64()), ("keys", pa.int64()))
_COUNTS = [("hash", pa.int64()), ("rows", pa.int64()), ("records", pa.int64()), ("bytes", pa.int64())]
_LARGEST = pa.list_(pa.struct([("key", pa.string()), *_COUNTS]))
_TRIGGER = pa.list_(pa.struct([("list", pa.string()), ("pages", pa.int64()), ("bytes", pa.int64())]))
_ARROW = pa.schema([*_TYPES, ("damage", pa.string()), ("largest", _LARGEST), ("trigger", _TRIGGER)])
_ARROW_OF_SLICES = pa.schema([("bucket", pa.int32()), ("hash", pa.int64()), ("slices", pa.int64())])


@dataclass(frozen=True)
class _Known:
    """The properties of a bucket's pages that its header has: the schema of keys, and more by the name of the page.

    `columns` has the number of columns of pages of partials, and `lists` the list of pages that are in one. `damage` is
    the damage of the header.
    """

    schema: pa.Schema
    columns: Mapping[str, int] = field(default_factory=dict)
    lists: Mapping[str, ListName] = field(default_factory=dict)
    damage: str | None = None

    @classmethod
    def of(cls, header: str | None) -> _Known:
        """Return the properties that a stored header has; without a header no key is known."""
        if header is None:
            return cls(pa.schema([]))
        head = Header.from_text(header)
        kinds = [key.rpartition(" ")[2] for key in head.keys]
        schema = pa.schema([(f"k{at}", arrow_type(kind)) for at, kind in enumerate(kinds)])
        try:
            return cls(schema, columns_of(head), {page: parse(name) for page, name in lists_of(head).items()})
        except Exception as error:  # a damaged header may name unknown lists and generations
            return cls(schema, damage=f"header: {raised(error)}")

    def rows(self, name: str, text: str) -> tuple[pa.Table, Array, Array, Array]:
        """Return the keys of a page of partials, and of each row the code of its key, its slice and its records."""
        return rows_in_text(self.schema, _unsealed(text), self.columns[name])


@dataclass
class _BucketCounts:
    """The counts of a bucket. Each item of `found` has hashes of keys, and the rows, records and bytes of each key.

    The bytes of a page are divided among its keys in proportion to their rows. `trigger` has the pages and bytes of
    each list of the trigger's state.
    """

    known: _Known
    pages: int = 0
    bytes: int = 0
    damage: str | None = None
    found: list[tuple[Array, Array]] = field(default_factory=list)
    names: list[pa.Table] = field(default_factory=list)
    trigger: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.damage = self.known.damage

    def add(self, name: str, text: str) -> None:
        """Count a page. If it cannot be read, the first such error is stored as damage."""
        self.pages, self.bytes = self.pages + 1, self.bytes + len(text)
        part = self.known.lists.get(name)
        if part is not None and part.of == EARLY:
            pages, size = self.trigger.get(part.which, (0, 0))
            self.trigger[part.which] = pages + 1, size + len(text)
        try:
            self._add_keys(name, text)
        except Exception as error:  # damaged bytes can raise any error
            self.damage = self.damage or f"page `{name}`: {raised(error)}"

    def _add_keys(self, name: str, text: str) -> None:
        """Count the keys of a page, and their rows if it has partials."""
        if name in self.known.columns:
            names, keys, _, records = self.known.rows(name, text)
            rows, size = np.bincount(keys, minlength=len(names)), len(text) / max(1, len(keys))
            sizes = np.stack([rows, np.bincount(keys, records, len(names)), rows * size])
        else:
            names = keys_in_text(self.known.schema, _unsealed(text))
            sizes = np.zeros((3, len(names)))
        self.found.append((hashes(names), sizes))
        self.names.append(names)
        if len(self.found) > MOST_HELD:
            self._join()

    def _join(self) -> None:
        """Merge the counts of equal keys."""
        if len(self.found) < 2:
            return
        every, first, at = np.unique(np.concatenate([each for each, _ in self.found]), True, True)
        joined = np.concatenate([each for _, each in self.found], axis=1)
        sizes = np.stack([np.bincount(at, each, len(every)) for each in joined])
        self.found = [(every, sizes)]
        self.names = [pa.concat_tables(self.names).take(pa.array(first))]

    def row(self, bucket: int) -> dict[str, Any]:
        """Return the row of a bucket, in the form of `SCHEMA`."""
        self._join()
        return {
            "bucket": bucket,
            "pages": self.pages,
            "bytes": self.bytes,
            "keys": len(self.found[0][0]) if self.found else 0,
            "damage": self.damage,
            "largest": self._largest() if self.found else [],
            "trigger": [{"list": name, "pages": p, "bytes": b} for name, (p, b) in self.trigger.items()],
        }

    def _largest(self) -> list[dict[str, Any]]:
        (every, sizes), (names,) = self.found[0], self.names
        largest = np.lexsort((every, -sizes[2]))[:MOST_KEYS]
        keys, numbers = names.take(pa.array(largest)).to_pylist(), _numbers(every[largest])
        return [
            {"key": _shown(key), "hash": number, "rows": int(rows), "records": int(records), "bytes": int(size)}
            for key, number, rows, records, size in zip(keys, numbers.tolist(), *sizes[:, largest], strict=True)
            if rows
        ]


MOST_HELD = 64
"""The number of pages after which the counts of equal keys, and equal slices, are merged."""


def _unsealed(text: str) -> str:
    return unsealed(text) if is_sealed(text) else text


def _numbers(of_keys: Array) -> Array:
    """Return hashes as numbers of the type that Spark has: `int64[n]`."""
    return of_keys.view(np.int64)


def _shown(key: dict[str, object]) -> str:
    return shortened(", ".join(map(repr, key.values())))


def _pages(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, str, str]]:
    """Yield the bucket, the name and the text of each page."""
    for batch in batches:
        yield from zip(*(batch[name].to_pylist() for name in ("bucket", "page", "text")), strict=True)


@dataclass(frozen=True)
class Measure:
    """The function for `mapInArrow` over pages; all pages of a bucket must be in one partition.

    `headers` has the headers of buckets by label; keys of other buckets are not counted.
    """

    headers: Mapping[int, str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each bucket."""
        found: dict[int, _BucketCounts] = {}
        for label, name, text in _pages(batches):
            if label not in found:
                found[label] = _BucketCounts(_Known.of(self.headers.get(label)))
            found[label].add(name, text)
        yield pa.RecordBatch.from_pylist([each.row(label) for label, each in found.items()], _ARROW)


@dataclass
class _Slices:
    """The distinct slices of one key. Numbers of slices are compared only within one list of pages."""

    found: dict[ListName | None, list[Array]] = field(default_factory=lambda: defaultdict(list))

    def add(self, part: ListName | None, slices: Array) -> None:
        """Add the slices of rows of the key. A page of whole windows is one slice."""
        if part is not None and part.of in (TOTALS, WINDOW):
            slices = np.zeros_like(slices)
        parts = self.found[part]
        parts.append(np.unique(slices))
        if len(parts) > MOST_HELD:
            parts[:] = [np.unique(np.concatenate(parts))]

    @property
    def count(self) -> int:
        """Return the number of distinct slices."""
        return sum(len(np.unique(np.concatenate(parts))) for parts in self.found.values())


@dataclass(frozen=True)
class CountSlices:
    """The function for `mapInArrow` over pages that counts the distinct slices of some keys, as `Measure` names them.

    `keys` has the hashes of keys by bucket. The slices of all of these keys are in memory, and no others.
    """

    headers: Mapping[int, str]
    keys: Mapping[int, Sequence[int]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each key. Damaged pages are left out: `Measure` names them."""
        known = {label: _Known.of(self.headers.get(label)) for label in self.keys}
        found: dict[tuple[int, int], _Slices] = defaultdict(_Slices)
        for label, name, text in _pages(batches):
            if label in known and name in known[label].columns:
                with suppress(Exception):
                    for number, slices in self._slices_of(label, known[label].rows(name, text)):
                        found[label, number].add(known[label].lists.get(name), slices)
        rows = [{"bucket": label, "hash": number, "slices": each.count} for (label, number), each in found.items()]
        yield pa.RecordBatch.from_pylist(rows, _ARROW_OF_SLICES)

    def _slices_of(self, label: int, rows: tuple[pa.Table, Array, Array, Array]) -> Iterator[tuple[int, Array]]:
        """Yield the slices of a page in which each wanted key has rows."""
        names, keys, slices, _ = rows
        numbers = _numbers(hashes(names))
        for number in self.keys[label]:
            for code in np.flatnonzero(numbers == number).tolist():
                yield number, slices[keys == code]
