"""The law of coverage, from raw records: a window is whole if all of its records lie in stored rows between its edges.

It is asked of the windows of each kind of a call, open or not, after each micro-batch. The windows that accept records
must be whole.
"""

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa

from slicing.aggregates.fields import arrow_type
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.stages.labels import labels_of
from slicing.windows.time.slices import FOREVER

from .kind import Place


def check(made) -> None:
    """Assert the law of each bucket of a scenario that stores slices."""
    times = None
    for label, store in made.stores.items():
        with store.counting_nothing():
            bucket = made.bucket(label)
            bucket = getattr(bucket, "engine", bucket)
            if store.text is not None and isinstance(bucket, SlicedBucket):
                times = times or _times(made)
                _check_bucket(made, bucket, times[label])


def _times(made) -> dict:
    """By bucket and key, the times of the records that were accepted, in order."""
    accepted, found = made.call.accepted(), {label: {} for label in made.labels}
    table = pa.table({"k0": pa.array(list(accepted), arrow_type(made.key))})
    for (key, held), label in zip(accepted.items(), labels_of(table, made.labels).tolist(), strict=True):
        found[label][key] = np.sort([record.time for record in held])
    return found


def _check_bucket(made, bucket, times) -> None:
    stored = _stored(bucket)
    for family, part in zip(bucket.shape.family.families, made.call.parts, strict=True):
        windows = _around(family, np.concatenate([np.zeros(0, np.int64), *times.values()]))
        whole = bucket.coverage.whole(family.first_slice(windows), family.end_slice(windows))
        starts, ends = family.window_start(windows), family.window_end(windows)
        made.seen["whole"] += int(whole.sum())
        made.seen["not whole"] += int((~whole).sum())
        places = map(Place, starts.tolist(), ends.tolist())
        accepts = [place.start >= made.fine and part.accepts(place) for place in places]
        assert whole[np.array(accepts, dtype=bool)].all(), "a window that accepts records is whole"
        for key, of_key in times.items():
            side = "right" if family.closed_right else "left"
            wanted = np.searchsorted(of_key, ends, side) - np.searchsorted(of_key, starts, side)
            found = _records(stored[key], family.end_slice(windows)) - _records(
                stored[key], family.first_slice(windows)
            )
            assert np.array_equal(wanted[whole], found[whole]), (family, key)


def _around(family, times):
    """Return the windows that hold an instant, or may begin or end beside one."""
    index = family.slice_at(np.unique(times))
    ranges = zip(family.first_window(index - 1).tolist(), family.last_window(index + 1).tolist(), strict=True)
    return np.unique([window for first, last in ranges for window in range(first, last + 1)]).astype(np.int64)


def _stored(bucket) -> dict:
    """By key, the slices of the stored rows in order, and how many records these and all rows before them have."""
    counts = defaultdict(Counter)
    for block in bucket.slices.stored(-FOREVER, FOREVER):
        keys = block.names["k0"].take(pa.array(block.keys)).to_pylist()
        for key, index, records in zip(keys, block.index.tolist(), block.records.tolist(), strict=True):
            counts[key][index] += records
    found = defaultdict(lambda: (np.zeros(0, np.int64), np.zeros(1, np.int64)))
    for key, of_key in counts.items():
        index = np.array(sorted(of_key))
        found[key] = index, np.cumsum([0, *(of_key[at] for at in index.tolist())])
    return found


def _records(stored, edges):
    """Return how many records the rows before each edge have."""
    index, before = stored
    return before[np.searchsorted(index, edges)]
