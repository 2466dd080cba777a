"""Measure the pages of buckets: return a row for each bucket with its bytes, keys and damage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import arrow_type
from slicing.content.codec import counts_in_text, keys_in_text
from slicing.content.hashing import hashes
from slicing.content.packing import is_sealed, unsealed
from slicing.errors import raised, shortened
from slicing.state.format.header import Header
from slicing.state.format.page_columns import columns_of

SCHEMA = (
    "bucket int, pages bigint, bytes bigint, keys bigint, damage string, "
    "largest array<struct<key string, rows bigint, records bigint, bytes bigint>>"
)
MOST_KEYS = 10
"""The number of largest keys that are listed per bucket."""
_TYPES = (("bucket", pa.int32()), ("pages", pa.int64()), ("bytes", pa.int64()), ("keys", pa.int64()))
_COUNTS = [("rows", pa.int64()), ("records", pa.int64()), ("bytes", pa.int64())]
_LARGEST = pa.list_(pa.struct([("key", pa.string()), *_COUNTS]))
_ARROW = pa.schema([*_TYPES, ("damage", pa.string()), ("largest", _LARGEST)])


@dataclass
class _BucketCounts:
    """The counts of a bucket. Each item of `found` has hashes of keys, and the rows, records and bytes of each key.

    The bytes of a page are divided among its keys in proportion to their rows.
    """

    pages: int = 0
    bytes: int = 0
    damage: str | None = None
    found: list[tuple[Array, Array]] = field(default_factory=list)
    names: list[pa.Table] = field(default_factory=list)

    def note(self, damage: str | None) -> None:
        """Store the first damage that is found; None is no damage."""
        self.damage = self.damage or damage

    def add(self, name: str, text: str, schema: pa.Schema, columns: int | None) -> None:
        """Count a page. If it cannot be read, the error is stored as damage. Without `columns` only keys count."""
        self.pages, self.bytes = self.pages + 1, self.bytes + len(text)
        try:
            inside = unsealed(text) if is_sealed(text) else text
            if columns is None:
                names = keys_in_text(schema, inside)
                sizes = np.zeros((3, len(names)))
            else:
                names, rows, records = counts_in_text(schema, inside, columns)
                sizes = np.stack([rows, records, rows * (len(text) / max(1, int(rows.sum())))])
        except Exception as error:  # damaged bytes can raise any error
            self.note(f"page `{name}`: {raised(error)}")
        else:
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

    def row(self) -> tuple[int, int, int, str | None, list[dict[str, object]]]:
        """Return the number of pages, bytes and distinct keys, the damage, and the largest keys."""
        self._join()
        if not self.found:
            return self.pages, self.bytes, 0, self.damage, []
        (every, sizes), (names,) = self.found[0], self.names
        largest = np.lexsort((every, -sizes[2]))[:MOST_KEYS]
        keys = names.take(pa.array(largest)).to_pylist()
        found: list[dict[str, object]] = [
            {"key": _shown(key), "rows": int(rows), "records": int(records), "bytes": int(size)}
            for key, rows, records, size in zip(keys, *sizes[:, largest], strict=True)
            if rows
        ]
        return self.pages, self.bytes, len(every), self.damage, found


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
        known: dict[int, tuple[pa.Schema, Mapping[str, int], str | None]] = {}
        for batch in batches:
            texts = (batch[name].to_pylist() for name in ("bucket", "page", "text"))
            for label, name, text in zip(*texts, strict=True):
                if label not in known:
                    known[label] = self._known(label)
                schema, columns, damage = known[label]
                counts = found.setdefault(label, _BucketCounts())
                counts.note(damage)
                counts.add(name, text, schema, columns.get(name))
        rows = []
        for label, each in found.items():
            pages, size, keys, damage, largest = each.row()
            rows.append((label, pages, size, keys, damage, largest))
        arrays = zip(*rows, strict=True) if rows else ([] for _ in _ARROW)
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, t) for c, t in zip(arrays, _ARROW.types, strict=True)], _ARROW.names
        )

    def _known(self, label: int) -> tuple[pa.Schema, Mapping[str, int], str | None]:
        """Return the key schema of a bucket, the number of columns of its pages, and the damage of its header."""
        if label not in self.headers:
            return pa.schema([]), {}, None
        head = Header.from_text(self.headers[label])
        kinds = [key.rpartition(" ")[2] for key in head.keys]
        schema = pa.schema([(f"k{at}", arrow_type(kind)) for at, kind in enumerate(kinds)])
        try:
            return schema, columns_of(head), None
        except Exception as error:  # a damaged header may name unknown lists and generations
            return schema, {}, f"header: {raised(error)}"
