"""Measure the pages of buckets: return a row for each bucket with its bytes, keys and damage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import arrow_type
from slicing.content.codec import counts_in_text, keys_in_text
from slicing.content.hashing import hashes
from slicing.content.packing import is_sealed, unsealed
from slicing.errors import raised, shortened
from slicing.state.format.header import Header
from slicing.state.format.list_names import EARLY, parse
from slicing.state.format.page_columns import columns_of, lists_of

SCHEMA = (
    "bucket int, pages bigint, bytes bigint, keys bigint, damage string, "
    "largest array<struct<key string, rows bigint, records bigint, bytes bigint>>, "
    "trigger array<struct<list string, pages bigint, bytes bigint>>"
)
MOST_KEYS = 10
"""The number of largest keys that are listed per bucket."""
_TYPES = (("bucket", pa.int32()), ("pages", pa.int64()), ("bytes", pa.int64()), ("keys", pa.int64()))
_COUNTS = [("rows", pa.int64()), ("records", pa.int64()), ("bytes", pa.int64())]
_LARGEST = pa.list_(pa.struct([("key", pa.string()), *_COUNTS]))
_TRIGGER = pa.list_(pa.struct([("list", pa.string()), ("pages", pa.int64()), ("bytes", pa.int64())]))
_ARROW = pa.schema([*_TYPES, ("damage", pa.string()), ("largest", _LARGEST), ("trigger", _TRIGGER)])


@dataclass(frozen=True)
class _Known:
    """The properties of a bucket's pages that its header has: the schema of keys, and more by the name of the page.

    `columns` has the number of columns of pages of partials, and `trigger` the name of the list of pages of the
    trigger's state. `damage` is the damage of the header.
    """

    schema: pa.Schema
    columns: Mapping[str, int] = field(default_factory=dict)
    trigger: Mapping[str, str] = field(default_factory=dict)
    damage: str | None = None


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
        if (part := self.known.trigger.get(name)) is not None:
            pages, size = self.trigger.get(part, (0, 0))
            self.trigger[part] = pages + 1, size + len(text)
        try:
            self._add_keys(text, self.known.columns.get(name))
        except Exception as error:  # damaged bytes can raise any error
            self.damage = self.damage or f"page `{name}`: {raised(error)}"

    def _add_keys(self, text: str, columns: int | None) -> None:
        """Count the keys of a page, and their rows if it has `columns`."""
        inside = unsealed(text) if is_sealed(text) else text
        if columns is None:
            names = keys_in_text(self.known.schema, inside)
            sizes = np.zeros((3, len(names)))
        else:
            names, rows, records = counts_in_text(self.known.schema, inside, columns)
            sizes = np.stack([rows, records, rows * (len(text) / max(1, int(rows.sum())))])
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
        keys = names.take(pa.array(largest)).to_pylist()
        return [
            {"key": _shown(key), "rows": int(rows), "records": int(records), "bytes": int(size)}
            for key, rows, records, size in zip(keys, *sizes[:, largest], strict=True)
            if rows
        ]


MOST_HELD = 64
"""The number of pages after which the counts of equal keys are merged."""


def _shown(key: dict[str, object]) -> str:
    return shortened(", ".join(map(repr, key.values())))


@dataclass(frozen=True)
class Measure:
    """The function for `mapInArrow` over pages; all pages of a bucket must be in one partition.

    `headers` has the headers of buckets by label; keys of other buckets are not counted.
    """

    headers: Mapping[int, str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each bucket."""
        found: dict[int, _BucketCounts] = {}
        for batch in batches:
            texts = (batch[name].to_pylist() for name in ("bucket", "page", "text"))
            for label, name, text in zip(*texts, strict=True):
                if label not in found:
                    found[label] = _BucketCounts(self._known(label))
                found[label].add(name, text)
        yield pa.RecordBatch.from_pylist([each.row(label) for label, each in found.items()], _ARROW)

    def _known(self, label: int) -> _Known:
        if label not in self.headers:
            return _Known(pa.schema([]))
        head = Header.from_text(self.headers[label])
        kinds = [key.rpartition(" ")[2] for key in head.keys]
        schema = pa.schema([(f"k{at}", arrow_type(kind)) for at, kind in enumerate(kinds)])
        try:
            lists = {page: parse(name) for page, name in lists_of(head).items()}
            trigger = {page: name.which for page, name in lists.items() if name.of == EARLY}
            return _Known(schema, columns_of(head), trigger)
        except Exception as error:  # a damaged header may name unknown lists and generations
            return _Known(schema, damage=f"header: {raised(error)}")
