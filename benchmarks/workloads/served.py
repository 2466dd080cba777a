"""The slices of a feature set of a million keys, 200 of them busy, made without Spark."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

import combinators as C
from slicing import group_by, hopping
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.results import flat_results
from slicing.serving import Manifest, Progress, Row, Store, key_text, manifest_of, needed
from slicing.serving.values import values_of
from slicing.windows.as_of import held_now

KEYS, BUSY = 1_000_000, 200
"""The first keys are busy: a record a minute. Others have three records in a week."""
MINUTE, HOUR, DAY = 60 * 10**6, 3600 * 10**6, 86_400 * 10**6
NOW = 1_700_006_400 * 10**6 + 90 * MINUTE + 30 * 10**6
HISTORY = 7 * DAY + 2 * HOUR
STEPS = (MINUTE, HOUR)
"""The length of the slices of each level."""
SET = "key"
WINDOWS = {
    "m10": hopping("10 minutes", "1 minute"),
    "h1": hopping("1 hour", "1 minute"),
    "h6": hopping("6 hours", "1 minute", tail="1 hour"),
    "d1": hopping("1 day", "1 minute", tail="1 hour"),
    "d7": hopping("7 days", "1 minute", tail="1 hour"),
}
CARD = (
    group_by("key").window(**WINDOWS, time="ts", long=True)
    .define(n=C.count(), total=C.sum("n"), mean=C.avg("x"), low=C.min("x"), high=C.max("x"))
)  # fmt: skip
KINDS = {"n": "bigint", "x": "double"}
AT_ONCE = 50_000
"""The keys whose records are made at once; of busy keys, a few."""


@dataclass(frozen=True)
class Records:
    """Records in the order of keys and instants. Sums of `x` are exact, in any order."""

    key: np.ndarray
    ts: np.ndarray
    n: np.ndarray
    x: np.ndarray


def records(low: int, high: int) -> Records:
    """Return the records of the keys `low` up to `high`."""
    random = np.random.default_rng(low)
    busy = np.arange(low, min(high, BUSY))
    each = np.arange(NOW - HISTORY, NOW, MINUTE)
    others = np.repeat(np.arange(max(low, BUSY), high), 3)
    instants = np.append(np.tile(each, len(busy)), random.integers(NOW - HISTORY, NOW, len(others)))
    key = np.append(np.repeat(busy, len(each)), others)
    order = np.lexsort((instants, key))
    numbers, eighths = (random.integers(0, 1000, len(key)) for _ in range(2))
    return Records(key[order], instants[order], numbers, eighths / 8)


def gone() -> tuple[int, ...]:
    """Return for each level the instant before which slices were removed."""
    return needed(held_now(CARD.windowed.windows), NOW - MINUTE)


def manifest() -> Manifest:
    """Return the manifest of the feature set."""
    kinds = {path: [KINDS[name] for name in each.columns] for path, each in flat_results(dict(CARD.results)).items()}
    return manifest_of(CARD, kinds, [("key", "bigint")])


def publish(store: Store) -> None:
    """Write manifest and progress, as of a micro-batch at `NOW`."""
    store.publish(SET, manifest().text(), Progress(1, 0, NOW, gone(), NOW - MINUTE).text(), "")


def portions(keys: int) -> Iterator[Records]:
    """Yield all records, in portions of whole keys."""
    bounds = [*range(0, min(keys, BUSY), 20), *range(min(keys, BUSY), keys, AT_ONCE), keys]
    for low, high in pairwise(bounds):
        yield records(low, high)


def slices(some: Records) -> Iterator[tuple[int, pa.Table]]:
    """Yield for each level its slices that are stored: key, start, records, and the fields of all partials."""
    values, bound = values_of(dict(CARD.results), manifest().results), flat_results(dict(CARD.results))
    for level, step in enumerate(STEPS):
        start = some.ts // step * step
        first = np.flatnonzero(np.append(True, (np.diff(start) != 0) | (np.diff(some.key) != 0)))
        found = {"key": some.key[first], "start": start[first], "records": np.diff(np.append(first, len(start)))}
        for result, each in zip(values.results, bound.values(), strict=True):
            arrays = [pa.array(getattr(some, name), arrow_type(KINDS[name])) for name in each.columns]
            given, dictionary = result.kernel.values(arrays)
            folded = result.kernel.to_arrow(result.kernel.fold(given, first, len(start)), dictionary)
            found |= {f"{result.kernel.label}_{at}": column for at, column in enumerate(folded)}
        yield level, pa.table(found).filter(pa.array(start[first] + step > gone()[level]))


def rows(some: Records) -> Iterator[Row]:
    """Yield the rows of slices, as `serve_to` writes them."""
    keys = manifest().keys
    packing = values_of(dict(CARD.results), manifest().results).packing
    for level, table in slices(some):
        columns = [column.combine_chunks() for column in table.columns]
        packed = packing.pack(level, columns[1].to_numpy(), columns[3:])
        for key, start, count, partial in zip(*(each.to_pylist() for each in columns[:3]), packed, strict=True):
            yield Row(key_text(key, keys), level, start, start + STEPS[level], count, partial, 1, 0)
