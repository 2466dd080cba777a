"""Look up windows as of an instant in the stored texts of buckets: of each key, from its stored slices.

::

    stored slices   |  merged   |   |   |   |              a slice counts with all of its records so far
    window          [===========================) t        whole: it begins, and the slice of t ends, at edges
                          [=====================) t        not whole: it begins inside a merged slice
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.fields import Field
from slicing.content.block import encode_keys
from slicing.engines.bucket import OpenBucket
from slicing.engines.features import Instants, answered, features
from slicing.engines.looking import SLICES, StoredSlices
from slicing.stages.as_of import BEGIN, HELD, columns_as_of
from slicing.stages.flat import numbered
from slicing.stages.looking import KNOWN, LookUp, LookupFlat
from slicing.stages.output import key_columns
from slicing.stages.support import AT
from slicing.windows.as_of import FamilyAsOf


@dataclass(frozen=True)
class FlatAsOf(LookupFlat):
    """The columns of lookups, and of windows as of an instant."""

    windows: int = 1

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the columns in order."""
        more = numbered(HELD, ["boolean"] * self.windows) | numbered(BEGIN, ["bigint"] * self.windows) | {AT: "bigint"}
        return (*super().fields, *(Field(name, kind) for name, kind in more.items()))


@dataclass(frozen=True)
class LookUpAsOf(LookUp):
    """`LookUp` of the windows as of an instant, whose families are those of `shape`: a row for each key.

    at: the instant in microseconds, None for the start of the slice in which the watermark of a bucket is.
    """

    at: int | None = None

    def rows(self, bucket: OpenBucket, label: int = 0) -> Iterator[pa.Table]:
        """Yield the flat rows of the keys that are looked up, of those without slices too."""
        look = self._within(label)
        left = self.shape.key_schema.empty_table() if look.keys is None else look.keys
        nothing: StoredSlices
        for found in bucket.look(replace(look, form=SLICES)):
            assert isinstance(found, StoredSlices), "the state of this query has slices"
            names = found.rows.names.take(pa.array(np.unique(found.rows.keys)))
            yield from self._tables(bucket, found, names)
            left, nothing = _without(left, names), found  # the last part is empty
        yield from self._tables(bucket, nothing, left)

    def _tables(self, bucket: OpenBucket, stored: StoredSlices, names: pa.Table) -> Iterator[pa.Table]:
        instant = self._instant(bucket, stored)
        times = pa.repeat(pa.scalar(instant, pa.int64()), len(names))
        windows: Sequence[FamilyAsOf] = self.shape.family.families  # type: ignore[assignment]
        known = [self._known_from(bucket, stored, each, instant) for each in windows]
        since = max((each for each in known if each is not None), default=None)
        rows = replace(stored.rows, index=np.asarray(stored.family.slice_start(stored.rows.index)))
        for _, each in features(self.shape, rows, [Instants(times, names)]):
            count, found = len(each.rows), each.windows
            held = [np.full(count, of_window is None and instant is not None) for of_window in known]
            columns = key_columns(self.shape, found.names.take(pa.array(found.keys)))
            columns |= columns_as_of(answered(self.shape, self.shape), found, held)
            columns |= {AT: times.take(pa.array(each.rows)), KNOWN: pa.repeat(pa.scalar(since, pa.int64()), count)}
            yield pa.table(columns)

    def _instant(self, bucket: OpenBucket, stored: StoredSlices) -> int | None:
        if self.at is not None or not bucket.head.watermark:
            return self.at
        return int(stored.family.slice_start(stored.family.slice_at(bucket.head.watermark)))

    @staticmethod
    def _known_from(bucket: OpenBucket, stored: StoredSlices, window: FamilyAsOf, instant: int | None) -> int | None:
        """Return from which microsecond on the records of a window are known; None if they are from its start."""
        if instant is None:
            return None
        coverage, family = bucket.coverage, stored.family
        start = window.as_of(np.array([instant]))
        first, last = family.slice_at(start), family.slice_at(np.array([instant - 1]))
        end = coverage.of_query(last + 1)
        if start[0] >= stored.known and coverage.whole(first, end)[0]:
            return None
        return max(stored.known, int(family.slice_start(coverage.known(first, end))[0]))


def _without(keys: pa.Table, others: pa.Table) -> pa.Table:
    """Return the keys that are not among others."""
    codes, _ = encode_keys(pa.concat_tables([others, keys]))
    return keys.filter(pa.array(~np.isin(codes[len(others) :], codes[: len(others)])))
