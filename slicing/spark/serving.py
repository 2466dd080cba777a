"""The writing side of serving: a row for each slice with new records, and the function that writes these to a store.

::

    definition.serve(events)   user | slice          | level | records | spent         update mode
    serve_to(store)            rows -> store, then manifest and progress, then rows that no window needs are removed
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slicing.aggregates.arrays import Array
from slicing.aggregates.results import flat_results
from slicing.drafts.call import Call
from slicing.errors import InvalidType, InvalidValue, MissingRequirement, excerpt
from slicing.serving import (
    NO_BATCH,
    Levels,
    Manifest,
    Packing,
    Progress,
    Row,
    Store,
    StoredResult,
    difference,
    feature_set_of,
    key_text,
    needed,
    store_of,
    tails_of,
)
from slicing.spark.build import build
from slicing.spark.columns import kind_of_type, quoted
from slicing.spark.partials import RECORDS, SLICE, paths_of, query_of
from slicing.spark.query import Query
from slicing.spark.requirements import on_connect
from slicing.triggers.stored import OnStored
from slicing.windows.as_of import held_now, longest_advance
from slicing.windows.families.family import Family
from slicing.windows.families.slices_of import SlicesOf
from slicing.windows.families.stepped import Stepped
from slicing.windows.sets import Set
from slicing.windows.specs import from_spec
from slicing.windows.time.durations import Duration, microseconds
from slicing.windows.time.edges import BEFORE
from slicing.windows.time.instants import Instant, microseconds_of
from slicing.windows.window import Timed, Window

LEVEL = "level"
MANIFEST = "slicing.serving"
"""Metadata of the column `slice`: what `serve_to` must know of the definition."""
MOST_REMOVED = 10_000
"""The most rows that are removed at once."""
ROWS_AT_ONCE = 10_000
"""How many rows are written in one transaction, as far as keys are not split."""


def serve(call: Call) -> DataFrame:
    """Return the touched slices of a call's stream, each with its whole partial, in update mode."""
    levels = Levels.of(call.window)
    window, grace = windows_to_store(call.window, levels)
    _check_free(call.named, "result")
    given = call.options.at_close
    options = replace(given, trigger=OnStored(1 + len(levels.tails)), grace=given.grace + grace)
    query = query_of(call, window, options)
    for key in query.keys:
        kind_of_type(key.type, key.name, "key column", key.code)
    _check_free((key.name for key in query.keys), "key")
    if not query.streaming:
        raise InvalidType(
            "`serve` writes the slices of a stream, and this DataFrame is bounded. Give a stream, for example by "
            "`spark.readStream`."
        )
    told = {MANIFEST: _told(call, query)}
    if on_connect(query.source.sparkSession):
        raise MissingRequirement(
            "`serve_to` asks Spark for the checkpoint and the watermark of its query, and a function for "
            "`foreachBatch` of Spark Connect cannot. Start this query in a program with a session of its own, without "
            "`remote(...)`."
        )
    _SESSIONS.add(query.source.sparkSession)
    rows = build(query)
    results, keys = map(quoted, call.named), [quoted(key.name) for key in query.keys]
    slice_ = F.col("window").alias(SLICE, metadata=told)
    return rows.select(*keys, slice_, F.col("windows").cast("int").alias(LEVEL), RECORDS, *results)


def _check_free(names: Iterable[str], what: str) -> None:
    for name in names:
        if name.casefold() == LEVEL:
            raise InvalidValue(f"served slices have a column `{name}` of their own. Rename the {what}.")


def windows_to_store(window: Window, levels: Levels) -> tuple[Window, int]:
    """Return the slices of windows, the steps of their tails and the windows themselves, and the grace of all of them.

    Until the next window has ended, the last one that has ended is the window as of the watermark: it takes records.
    """
    slices = Timed(SlicesOf(window.family), f"slices of {window}")
    steps = [Timed(Stepped(tail, 1, 1), f"steps of the tail of {window}") for tail in levels.tails]
    members = (slices, *steps, *window.parts)
    return Set(members, tuple(map(str, range(len(members))))), max(map(longest_advance, held_now(window)))


def _told(call: Call, query: Query) -> str:
    """Return the manifest of a call and its default name, as JSON for the metadata of a column."""
    keys = tuple((key.name, kind_of_type(key.type, key.name, "key column")) for key in query.keys)
    kernels = query.shape.kernels[1:]  # without the record count
    kinds = dict(zip(map(".".join, paths_of(call.named)), _kinds(query), strict=True))
    results = [
        StoredResult.of(path, bound, kinds[path], each.aggregate)
        for (path, bound), each in zip(flat_results(call.named).items(), kernels, strict=True)
    ]
    window = call.window
    manifest = Manifest(keys, tuple(results), Levels.of(window).specs, repr(window))
    families = [family.spec() for family in held_now(window)]
    return json.dumps({"feature_set": feature_set_of(call.keys), "manifest": manifest.text(), "families": families})


def _kinds(query: Query) -> Iterator[list[str]]:
    """The kinds of the columns of each result, without that of its condition and of the record count."""
    kinds = [each.kind for each in query.values]
    for kernel, arguments in list(zip(query.shape.kernels, query.arguments, strict=True))[1:]:
        given = arguments[:-1] if kernel.aggregate.filtered else arguments
        yield ["bigint" if at < 0 else kinds[at] for at in given]


@dataclass
class ServeTo:
    """The function for `foreachBatch` that `serve_to` returns."""

    store: Store
    feature_set: str | None
    keep: int
    known_from: int | None
    clock: Callable[[], int] = field(default=lambda: time.time_ns() // 1000, repr=False)

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write the rows of a micro-batch, then manifest and progress; then remove rows that no window needs."""
        told = _metadata(batch)
        name = self.feature_set or told["feature_set"]
        manifest = Manifest.read(told["manifest"])
        query_id, watermark = _of_query(batch)
        before = self._before(name, manifest)
        if before is None and number > 0:
            raise InvalidValue(
                f"a store has the slices of all micro-batches of a checkpoint, and this one has no `{name}` before "
                f"micro-batch {number}: it is another store or name than before, or was emptied. Write to that one, or "
                "start the query with a new checkpoint, which reads all records."
            )
        families = [from_spec(spec) for spec in told["families"]]
        progress = self._progress(before, families, query_id, number, watermark)
        rows = _rows(batch, number, manifest, progress)
        first = list(islice(rows, 1))  # the micro-batch is computed here; if this fails, an older checkpoint may go on
        if before is None or query_id not in before.epochs:
            # From the first rows on, no other checkpoint may have the same epoch, and no older one may write.
            claimed = replace(before or replace(progress, batch=NO_BATCH), epochs=progress.epochs)
            self.store.publish(name, told["manifest"], claimed.text())
        for some in chain(first, rows):
            self.store.put(name, some)
        self.store.publish(name, told["manifest"], progress.text())
        self._remove(name, progress, before)

    def _before(self, name: str, manifest: Manifest) -> Progress | None:
        found = self.store.read(name, (), ())
        if not found.manifest:
            return None
        stored = Manifest.read(found.manifest)
        if stored.digest != manifest.digest:
            raise InvalidValue(
                f"a feature set is of one definition, and `{name}` is of another one: {difference(manifest, stored)}. "
                'Write this one under another name: `serve_to(store, feature_set="...")`.'
            )
        return Progress.read(found.progress)

    def _progress(
        self, before: Progress | None, families: Sequence[Family], query_id: str, number: int, watermark: int | None
    ) -> Progress:
        epochs = dict(before.epochs) if before else {}
        epoch = epochs.setdefault(query_id, max(epochs.values(), default=0) + 1)
        if epoch < (newest := max(epochs.values())):
            raise InvalidValue(
                "a feature set is written by one checkpoint at a time, and a newer one than this has written it: epoch "
                f"{newest}, this is {epoch}. Stop this query, or start it with a new checkpoint."
            )
        new_epoch = before is None or epoch > before.epoch
        own = _latest(watermark, None if new_epoch else before.watermark)  # type: ignore[union-attr]
        mark = _latest(own, *((before.watermark, before.passed) if before else ()))
        gone = before.gone if before else (BEFORE,) * (1 + len(tails_of(families)))
        if mark is not None:
            wanted = needed(families, mark)
            gone = tuple(max(old, new - self.keep) for old, new in zip(gone, wanted, strict=True))
        known_from = self.known_from if new_epoch else before.known_from  # type: ignore[union-attr]
        repeated = before is not None and not new_epoch and number <= before.batch
        return Progress(
            epoch=epoch,
            batch=before.batch if repeated and before else number,
            written=self.clock(),
            gone=gone,
            watermark=own,
            known_from=known_from,
            epochs=epochs,
            passed=mark if mark != own else None,
        )

    def _remove(self, name: str, progress: Progress, before: Progress | None) -> None:
        for level, instant in enumerate(progress.gone):
            if before is not None and instant > before.gone[level]:
                while self.store.remove(name, level, instant, MOST_REMOVED) == MOST_REMOVED:
                    pass


def _latest(*watermarks: int | None) -> int | None:
    return max((each for each in watermarks if each is not None), default=None)


def _metadata(batch: DataFrame) -> dict[str, Any]:
    whole = {SLICE, LEVEL, RECORDS} <= {*batch.columns}
    found = batch.schema[SLICE].metadata.get(MANIFEST) if whole else None
    if not found:
        raise InvalidValue(
            f"`serve_to` writes the rows of `definition.serve(events)`; these have {', '.join(batch.columns)}. Give it "
            "that stream as it is: `card.serve(events).writeStream.foreachBatch(serve_to(...))`."
        )
    told: dict[str, Any] = json.loads(found)
    return told


def _of_query(batch: DataFrame) -> tuple[str, int | None]:
    """Return the id of the running query, the same for a checkpoint, and the watermark of its micro-batch.

    The watermark follows from the progress of the micro-batch before; None where that is not known yet.
    """
    query_id = str(batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
    found = (session.streams.get(query_id) for session in _SESSIONS)
    progress = next((query.lastProgress for query in found if query is not None), None)
    return query_id, _watermark({} if progress is None else progress["eventTime"])


_SESSIONS: set[SparkSession] = set()
"""The sessions whose streams are served: a micro-batch is in a session of its own, which does not know its query."""


def _watermark(event_time: Mapping[str, str]) -> int | None:
    found = microseconds_of(event_time["watermark"]) if "watermark" in event_time else 0
    return found or None


def _rows(batch: DataFrame, number: int, manifest: Manifest, progress: Progress) -> Iterator[list[Row]]:
    """Yield the rows of a micro-batch to write, those of a key together; those that no window needs are left out."""
    packing = Packing(tuple(_kind(text) for each in manifest.results for text in each.partial))
    table = batch.toArrow().combine_chunks()
    keys = np.array(_key_texts(table, manifest), object)
    order = np.argsort(keys, kind="stable")
    keys, table = keys[order], table.take(pa.array(order))
    for low, high in pairwise(_portions(keys)):
        some = table.slice(low, high - low).combine_chunks()
        yield [
            row._replace(epoch=progress.epoch, revision=number)
            for row in _packed(some, keys[low:high], manifest, packing)
            if row.end > progress.gone[row.level]
        ]


def _portions(keys: Array) -> list[int]:
    """Return where portions of sorted keys begin and end; a key is in one, so readers see all of its rows or none."""
    starts = np.append(np.flatnonzero(keys[1:] != keys[:-1]) + 1, len(keys))
    wanted = np.arange(ROWS_AT_ONCE, len(keys) + ROWS_AT_ONCE, ROWS_AT_ONCE)
    ends = starts[np.minimum(np.searchsorted(starts, wanted), len(starts) - 1)]
    return [0, *np.unique(ends).tolist()] if len(keys) else []


def _kind(field: str) -> str:
    """The kind of a field that is written as its name and its kind."""
    return field.partition(" ")[2]


def _packed(table: pa.Table, keys: Array, manifest: Manifest, packing: Packing) -> Iterator[Row]:
    """Yield the rows of a table of slices, without epoch and revision."""
    levels = np.asarray(table[LEVEL])
    for level in np.unique(levels).tolist():
        of_level = np.flatnonzero(levels == level)
        some = table.take(pa.array(of_level)).combine_chunks()
        edges = some[SLICE].combine_chunks()
        start, end = (np.asarray(edges.field(name).cast(pa.int64())) for name in ("start", "end"))
        partials = packing.pack(level, start, [column for each in manifest.results for column in _fields(some, each)])
        columns = (keys[of_level], start.tolist(), end.tolist(), some[RECORDS].to_pylist(), partials)
        for key, begin, stop, records, partial in zip(*columns, strict=True):
            yield Row(key, level, begin, stop, records, partial)


def _key_texts(table: pa.Table, manifest: Manifest) -> list[str]:
    values = [table[name].to_pylist() for name, _ in manifest.keys]
    if not values:
        return [key_text((), ())] * len(table)
    alone = len(values) == 1
    return [key_text(key[0] if alone else key, manifest.keys) for key in zip(*values, strict=True)]


def _fields(table: pa.Table, result: StoredResult) -> list[pa.Array]:
    """The columns of the fields of a partial."""
    first, *inner = result.path.split(".") if result.path not in table.column_names else [result.path]
    column = _whole(table[first])
    for name in inner:
        column = column.field(name)
    return column.flatten() if not result.plain else [column]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def serve_to(
    store: str | Store,
    *,
    feature_set: str | None = None,
    keep: Duration = "0 seconds",
    known_from: Instant | None = None,
) -> ServeTo:
    """Return a function for `foreachBatch` that writes the slices of `definition.serve(events)` to a store.

    `store` is a URL, "sqlite:///features.db", or a `Store`. `feature_set` is the name to read them by, by default the
    names of the keys. Rows are written first, then the progress by which readers know of them. A row replaces a stored
    one only if its checkpoint is newer, or its micro-batch is, so a repeated micro-batch changes nothing. Rows that no
    window as of the watermark needs are removed, after another `keep`. `known_from` is the instant from which on the
    stream has all records, if it does not read them from the first one on: readers then answer no window that begins
    before it. Raises InvalidType and InvalidValue.

    >>> serve_to("sqlite:///features.db", keep="1 day").keep
    86400000000
    """
    if feature_set is not None and (not isinstance(feature_set, str) or not feature_set):
        raise InvalidType(f"`feature_set` is a name; got {excerpt(feature_set)}. Give a text.")
    known = None if known_from is None else microseconds_of(known_from, "`known_from`")
    return ServeTo(store_of(store), feature_set, microseconds(keep, "keep"), known)
