"""Look up the partials of slices in the stored texts of buckets, and return them as flat rows of windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.assembly.results import Windows
from slicing.engines.bucket import OpenBucket
from slicing.engines.looking import SLICES, StoredSlices
from slicing.stages.looking import KNOWN, LookUp
from slicing.stages.output import flat_windows, framed
from slicing.windows.families.slices_of import SlicesOf


@dataclass(frozen=True)
class LookUpSlices(LookUp):
    """`LookUp` of the stored slices, each as a window of its own.

    The kernels of `shape` are those of the query, without `lower`, after one that counts the records.
    """

    def rows(self, bucket: OpenBucket, label: int = 0) -> Iterator[pa.Table]:
        """Yield the flat rows of the slices of a bucket; each has the start of the first slice that is whole."""
        for found in bucket.look(replace(self.look, form=SLICES)):
            assert isinstance(found, StoredSlices), "the state of this query has slices"
            shape = self.shape.over(SlicesOf(found.family))
            for some in framed(self.execution_plan.shape, _as_windows(found)):
                rows = flat_windows(shape, _counted(some))
                yield rows.append_column(KNOWN, pa.array(np.full(len(some), found.known)))


def _as_windows(found: StoredSlices) -> Windows:
    rows = found.rows
    partials = rows.names, rows.records, rows.partials, rows.dictionaries
    return Windows(rows.index, rows.keys, *partials, ends=found.ends)


def _counted(windows: Windows) -> Windows:
    """Return the windows with their record counts as the first result."""
    partials, dictionaries = [[windows.records], *windows.partials], [None, *windows.dictionaries]
    return replace(windows, partials=partials, dictionaries=dictionaries)
