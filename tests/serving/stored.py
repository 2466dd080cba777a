"""Rows of a store made of raw records without Spark: one packed partial for each slice and key."""

from itertools import groupby

import numpy as np
import pyarrow as pa

import combinators as C
from slicing.aggregates.aggregate import EVENT_TIME
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.results import flat_results
from slicing.serving import Levels, Progress, Row, key_text, manifest_of
from slicing.serving.values import values_of
from slicing.windows.time.edges import BEFORE

RESULTS = {
    "n": C.count(),
    "total": C.sum("n"),
    "x": C.sum("x"),
    "low": C.min("s"),
    "m": C.sum("m"),
    "shops": C.approx_count_distinct("s"),
}
"""Results of every kind of partial: exact, floats, text, decimals, sketches."""
LATER = 4_000_000_000_000_000
"""A watermark that has ended all steps of tails in these tests."""
KINDS = {"n": "bigint", "x": "double", "s": "string", "m": "decimal(12,2)", "d": "date", EVENT_TIME: "bigint"}


def manifest(card, kinds=KINDS):
    """The manifest of a definition over columns of these kinds, by one text key."""
    bound = flat_results(dict(card.results))
    of = {path: tuple(kinds[column] for column in each.columns) for path, each in bound.items()}
    return manifest_of(card, of, [(str(key), "string") for key in card.windowed.keys])


def rows(card, records, batch=0, epoch=1, kinds=KINDS):
    """The rows of records, which are dicts with `key` and `ts`: on each level, one for each slice and key."""
    stored, levels = manifest(card, kinds), Levels.of(card.windowed.windows)
    values, bound = values_of(dict(card.results), stored.results), flat_results(dict(card.results))
    found = []
    sequences = [(levels.cut.slice_at, levels.cut.slice_start), *((tail.count, tail.edge) for tail in levels.tails)]
    for level, (number, instant) in enumerate(sequences):
        by_slice = [(each["key"], number(each["ts"]), each) for each in records]
        by_slice.sort(key=lambda each: (repr(each[0]), each[1]))
        for (key, index), some in groupby(by_slice, key=lambda each: each[:2]):
            held = [each for _, _, each in some]
            columns = [
                column
                for result, each in zip(values.results, bound.values(), strict=True)
                for column in _partial(result.kernel, each.columns, held, kinds)
            ]
            start, end = instant(index), instant(index + 1)
            (packed,) = values.packing.pack(level, np.array([start]), columns)
            found.append(Row(key_text(key, stored.keys), level, start, end, len(held), packed, epoch, batch))
    return found


def _partial(kernel, columns, records, kinds):
    """The fields of the partial of records; null values are not aggregated."""
    held = [each for each in records if all(each[column] is not None for column in columns)]
    if not held:
        return kernel.to_arrow(kernel.spread(1), kernel.no_dictionary)
    arrays = [pa.array([each[column] for each in held], arrow_type(kinds[column])) for column in columns]
    values, dictionary = kernel.values(arrays)
    return kernel.to_arrow(kernel.fold(values, np.array([0]), len(held)), dictionary)


def publish(
    store, card, batch=0, epoch=1, watermark=LATER, gone=None, known_from=None, written=0, name=None, kinds=KINDS
):
    """Write the manifest and the progress of a micro-batch."""
    stored = manifest(card, kinds)
    progress = Progress(epoch, batch, written, gone or (BEFORE,) * len(stored.levels), watermark, known_from)
    name = name or "user"
    assert store.publish(name, stored.text(), progress.text(), store.read(name, (), ()).progress)
