"""Measure the pages of buckets: their texts go in, a row for each bucket with bytes and keys comes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import arrow_type
from slicing.content.codec import keys_in_text
from slicing.content.hashing import hashes
from slicing.content.packing import is_sealed, unsealed
from slicing.errors import raised

SCHEMA = "bucket int, pages bigint, bytes bigint, keys bigint, damage string"
_TYPES = (("bucket", pa.int32()), ("pages", pa.int64()), ("bytes", pa.int64()), ("keys", pa.int64()))
_ARROW = pa.schema([*_TYPES, ("damage", pa.string())])


@dataclass
class _Tally:
    """The counts of a bucket; keys are identified by their hashes."""

    pages: int = 0
    bytes: int = 0
    keys: Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    damage: str | None = None

    def add(self, name: str, text: str, schema: pa.Schema) -> None:
        """Add a page. One that cannot be read counts too, and is named."""
        self.pages, self.bytes = self.pages + 1, self.bytes + len(text)
        try:
            names = keys_in_text(schema, unsealed(text) if is_sealed(text) else text)
        except Exception as error:  # whatever damaged bytes are taken for
            self.damage = self.damage or f"page `{name}`: {raised(error)}"
        else:
            self.keys = np.union1d(self.keys, hashes(names))


@dataclass(frozen=True)
class Measure:
    """The function for `mapInArrow` over pages, of which those of a bucket are in one partition.

    `keys` has the kinds of the leaves of keys by the labels of buckets; keys of other buckets are not counted.
    """

    keys: Mapping[int, tuple[str, ...]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each bucket."""
        found: dict[int, _Tally] = {}
        for batch in batches:
            texts = (batch[name].to_pylist() for name in ("bucket", "page", "text"))
            for label, name, text in zip(*texts, strict=True):
                kinds = self.keys.get(label, ())
                schema = pa.schema([(f"k{at}", arrow_type(kind)) for at, kind in enumerate(kinds)])
                found.setdefault(label, _Tally()).add(name, text, schema)
        rows = [(label, each.pages, each.bytes, len(each.keys), each.damage) for label, each in found.items()]
        columns = zip(*rows, strict=True) if rows else ([] for _ in _ARROW)
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, t) for c, t in zip(columns, _ARROW.types, strict=True)], _ARROW.names
        )
