"""The writing side of serving: a row for each slice with new records, and the function that writes these to a store.

::

    definition.serve(events)   user | slice          | level | records | spent         update mode
    serve_to(store)            rows -> store, then manifest and progress, then rows that no window needs are removed
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
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
    spec_text,
    store_of,
    tails_of,
)
from slicing.spark import warm
from slicing.spark.build import build
from slicing.spark.columns import nested_kind_of_type, quoted
from slicing.spark.partials import RECORDS, SLICE, call_of, paths_of, resolved
from slicing.spark.query import Query
from slicing.spark.requirements import on_connect
from slicing.spark.warm import History
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


def serve(call: Call, history: History | None = None) -> DataFrame:
    """Return the touched slices of a call's stream, each with its whole partial, in update mode.

    After a warm start, the first micro-batch has those of the history.
    """
    levels = Levels.of(call.window)
    window, grace = windows_to_store(call.window, levels)
    _check_free(call.named, "result")
    given = call.options.at_close
    options = replace(given, trigger=OnStored(1 + len(levels.tails)), grace=given.grace + grace)
    if history is not None:  # the last windows that have ended by its end are those as of then
        history = replace(history, wait=grace)
    held = call_of(call, window, options)
    query = resolved(held)
    _check_free((key.name for key in query.keys), "key")
    if not query.streaming:
        raise InvalidType(
            "`serve` writes the slices of a stream, and this DataFrame is bounded. Give a stream, for example by "
            "`spark.readStream`."
        )
    told = {MANIFEST: _told(call, query, history)}
    if on_connect(query.source.sparkSession):
        raise MissingRequirement(
            "`serve_to` asks Spark for the checkpoint and the watermark of its query, and a function for "
            "`foreachBatch` of Spark Connect cannot. Start this query in a program with a session of its own, without "
            "`remote(...)`."
        )
    rows = build(query) if history is None else build(query, partial(warm.build, held, history))
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


def _told(call: Call, query: Query, history: History | None) -> str:
    """Return what `serve_to` must know of a call, as JSON for the metadata of a column."""
    keys = tuple((key.name, nested_kind_of_type(key.type, key.name, key.code)) for key in query.keys)
    kernels = query.shape.kernels[1:]  # without the record count
    kinds = dict(zip(map(".".join, paths_of(call.named)), _kinds(query), strict=True))
    results = [
        StoredResult.of(path, bound, kinds[path], each.aggregate)
        for (path, bound), each in zip(flat_results(call.named).items(), kernels, strict=True)
    ]
    window = call.window
    manifest = Manifest(keys, tuple(results), Levels.of(window).specs, repr(window))
    families = [family.spec() for family in held_now(window)]
    told = {"feature_set": feature_set_of(call.keys), "manifest": manifest.text(), "families": families}
    past = history and {"until": history.closed_until, "first": warm.first_needed(query, history)}
    return json.dumps(told | (past or {"until": None, "first": None}))


def _kinds(query: Query) -> Iterator[list[str]]:
    """The kinds of the columns of each result, without that of its condition and of the record count."""
    kinds = [each.kind for each in query.values]
    for kernel, arguments in list(zip(query.shape.kernels, query.arguments, strict=True))[1:]:
        given = arguments[:-1] if kernel.aggregate.filtered else arguments
        yield ["bigint" if at < 0 else kinds[at] for at in given]


class _MicroBatch(NamedTuple):
    """What is known of a micro-batch.

    until: the end of the windows that have closed in the history of a warm start, None without one. first: the first
        instant at which the history was read. The rows of the history are in the first micro-batch. newest: the end of
        its newest slice, None before it is computed.
    """

    name: str
    manifest: Manifest
    families: tuple[Family, ...]
    query_id: str
    watermark: int | None
    number: int
    until: int | None
    first: int | None
    newest: int | None = None

    def there_from(self, before: Progress | None) -> tuple[int, ...]:
        """Return for each level the instant from which a history has its rows; no instant if an older checkpoint has.

        The slices of a step of a tail may be merged, and have no rows of their own.
        """
        if self.first is None or self.until is None or (before is not None and (before.watermark or 0) >= self.first):
            return ()
        slices, *steps = needed(self.families, self.until)
        return (max(slices, self.first) if steps else self.first, *(self.first for _ in steps))

    def awaits_history(self, known: Progress | None, own: Progress) -> bool:
        """Whether no micro-batch of a warm start was published. Its history comes with the first records."""
        is_first = known is None or known.batch == NO_BATCH or known.epoch < own.epoch
        return self.until is not None and is_first


class _Known(NamedTuple):
    """The stored progress and its text; None and "" for a feature set without one.

    removed: for each level, the instant before which rows have been removed.
    """

    text: str
    progress: Progress | None
    removed: tuple[int, ...] = ()

    @property
    def gone(self) -> tuple[int, ...]:
        """For each level, the instant before which rows may have been removed."""
        return self.progress.gone if self.progress else ()


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
        of = _MicroBatch(
            self.feature_set or told["feature_set"],
            Manifest.read(told["manifest"]),
            tuple(map(from_spec, told["families"])),
            *_of_query(batch),
            number,
            told["until"],
            told["first"],
        )
        known = self._known(of, may_change=True)
        self._following(of, known.progress)  # raises if it may not be written
        table = batch.toArrow()  # the micro-batch is computed here; if this fails, an older checkpoint may continue
        of = of._replace(newest=_newest(table))
        known, progress = self._publish(of, known, _claimed)
        self._remove(of.name, known.removed, known.gone)
        for rows in _rows(table, of, progress):
            self.store.put(of.name, rows)
        if of.awaits_history(known.progress, progress) and not len(table):
            return
        _, progress = self._publish(of, known, _written)
        self._remove(of.name, known.gone, progress.gone)

    def _known(self, of: _MicroBatch, may_change: bool = False) -> _Known:
        found = self.store.read(of.name, (), ())
        if found.manifest:
            stored, progress = Manifest.read(found.manifest), Progress.read(found.progress)
            if stored.digest == of.manifest.digest:
                return _Known(found.progress, progress, progress.gone)
            if may_change and stored.keys == of.manifest.keys and progress.is_last(of.query_id):
                return _Known(found.progress, _changed(of, progress), (BEFORE,) * len(stored.levels))
            raise InvalidValue(
                f"a feature set is of one definition, and `{of.name}` is of another one: "
                f"{difference(of.manifest, stored)}. "
                'Write this one under another name: `serve_to(store, feature_set="...")`.'
            )
        if of.number > 0:
            raise InvalidValue(
                f"a store has the slices of all micro-batches of a checkpoint, and this one has no `{of.name}` before "
                f"micro-batch {of.number}: it is another store or name than before, or was emptied. Write to that one, "
                "or start the query with a new checkpoint, which reads all records."
            )
        return _Known("", None)

    def _publish(
        self, of: _MicroBatch, known: _Known, told: Callable[[_MicroBatch, Progress | None, Progress], Progress]
    ) -> tuple[_Known, Progress]:
        """Write what is told of the progress before and of that of a micro-batch; again if others wrote meanwhile.

        Return what is stored then, and the progress of the micro-batch.
        """
        while True:
            progress = self._following(of, known.progress)
            new = told(of, known.progress, progress)
            if new is known.progress:
                return known, progress
            text = new.text()
            if self.store.publish(of.name, of.manifest.text(), text, known.text):
                return _Known(text, new, known.removed), progress
            known = self._known(of)

    def _following(self, of: _MicroBatch, before: Progress | None) -> Progress:
        """Return the progress of a micro-batch. Raises InvalidValue if a newer checkpoint has written."""
        epochs = dict(before.epochs) if before else {}
        epoch = epochs.setdefault(of.query_id, max(epochs.values(), default=0) + 1)
        if epoch < (newest := max(epochs.values())):
            raise InvalidValue(
                "a feature set is written by one checkpoint at a time, and a newer one than this has written it: epoch "
                f"{newest}, this is {epoch}. Stop this query, or start it with a new checkpoint."
            )
        new_epoch = before is None or epoch > before.epoch
        own = _latest(of.watermark, None if new_epoch else before.watermark)  # type: ignore[union-attr]
        mark = _latest(own, of.until, *((before.watermark, before.passed) if before else ()))
        gone = before.gone if before else (BEFORE,) * (1 + len(tails_of(of.families)))
        if mark is not None:
            gone = tuple(map(max, gone, needed(of.families, mark - self.keep)))
        if new_epoch and (there := of.there_from(before)):
            gone = tuple(map(max, gone, there))
        known_from = self.known_from if new_epoch else before.known_from  # type: ignore[union-attr]
        return Progress(
            epoch=epoch,
            batch=of.number,
            written=self.clock(),
            gone=gone,
            watermark=own,
            known_from=known_from,
            epochs=epochs,
            passed=mark if mark != own else None,
            newest=_latest(of.newest, before.newest if before else None),
            windows=_windows(of, None if new_epoch else before),
        )

    def _remove(self, name: str, removed: tuple[int, ...], gone: tuple[int, ...]) -> None:
        gone += gone[:1] * (len(removed) - len(gone))  # of levels that a change has removed
        for level, (old, instant) in enumerate(zip_longest(removed, gone, fillvalue=BEFORE)):
            if instant > old:
                while self.store.remove(name, level, instant, MOST_REMOVED) == MOST_REMOVED:
                    pass


def _claimed(of: _MicroBatch, before: Progress | None, progress: Progress) -> Progress:
    """Return the progress to store before the first rows of a checkpoint.

    From then on no other checkpoint has the same epoch, and no older one may write.
    """
    if before is not None and progress.epoch == before.epoch:
        return before
    return replace(before or replace(progress, batch=NO_BATCH), epochs=progress.epochs)


def _written(of: _MicroBatch, before: Progress | None, progress: Progress) -> Progress:
    """Return the progress to store after the rows of a micro-batch: the stored one if it was written before."""
    if before is not None and before.epoch == progress.epoch and before.batch >= of.number:
        return before
    return progress


def _changed(of: _MicroBatch, before: Progress) -> Progress:
    """Return the progress from which a checkpoint continues after a live change of its results or slices.

    Stored rows are packed in another way, so they are gone. Slices after them have all that is added, and are packed as
    the definition says once a micro-batch is written again.
    """
    assert before.newest is not None, "it has written"
    epochs, gone = {**before.epochs, of.query_id: max(before.epochs.values()) + 1}, (before.newest,)
    return replace(before, batch=NO_BATCH, epochs=epochs, gone=gone * len(of.manifest.levels), windows=())


def _windows(of: _MicroBatch, before: Progress | None) -> tuple[tuple[Any, int | None], ...]:
    """Return the windows of a stream, each with the instant from which on it is whole if a live change has added it.

    Before the oldest window as of the newest slice, records may have been refused that an added window would hold.
    """
    specs = [family.spec() for family in of.families]
    known = {spec_text(spec): since for spec, since in before.windows} if before else {}
    if before is None or before.newest is None or not known:
        return tuple((spec, None) for spec in specs)
    taken = None
    if not known.keys() >= set(map(spec_text, specs)):
        taken = min(needed([from_spec(spec) for spec, _ in before.windows], before.newest))
    return tuple((spec, known.get(spec_text(spec), taken)) for spec in specs)


def _newest(table: pa.Table) -> int | None:
    """Return the end of the newest slice."""
    newest: int | None = pc.max(pc.struct_field(table[SLICE], "end").cast(pa.int64())).as_py()
    return newest


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

    The watermark is None before the first one. `lastProgress` has that of the micro-batch before, and after a restart
    none: records would be late that hold for it. Queries are asked of all sessions: a micro-batch is in one of its own,
    which does not know its query. Raises InvalidValue without a running query.
    """
    session: Any = batch.sparkSession
    query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    running = session._jsparkSession.sharedState().activeStreamingQueries()
    query = query_id and running.get(session._jvm.java.util.UUID.fromString(query_id))
    if not query:
        raise InvalidValue(
            "`serve_to` writes a micro-batch in the thread in which Spark gives it, while its query runs; there is no "
            "query here. Pass the function to `foreachBatch`, or call it in yours, without a thread of your own."
        )
    watermark = int(query.lastExecution().offsetSeqMetadata().batchWatermarkMs())
    return query_id, watermark * 1000 or None


def _rows(table: pa.Table, of: _MicroBatch, progress: Progress) -> Iterator[list[Row]]:
    """Yield the rows of a micro-batch to write, those of a key together; those that no window needs are left out."""
    manifest = of.manifest
    packing = Packing(tuple(_kind(text) for each in manifest.results for text in each.partial))
    table = table.combine_chunks()
    keys = np.array(_key_texts(table, manifest), object)
    order = np.argsort(keys, kind="stable")
    keys, table = keys[order], table.take(pa.array(order))
    for low, high in pairwise(_portions(keys)):
        some = table.slice(low, high - low).combine_chunks()
        yield [
            row._replace(epoch=progress.epoch, revision=of.number)
            for row in _packed(some, keys[low:high], manifest, packing, progress.gone)
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


def _packed(table: pa.Table, keys: Array, manifest: Manifest, packing: Packing, gone: Sequence[int]) -> Iterator[Row]:
    """Yield the rows of a table of slices that are not gone, without epoch and revision."""
    levels, ends = np.asarray(table[LEVEL]), np.asarray(pc.struct_field(table[SLICE], "end").cast(pa.int64()))
    for level in np.unique(levels).tolist():
        of_level = np.flatnonzero((levels == level) & (ends > gone[level]))
        some = table.take(pa.array(of_level)).combine_chunks()
        edges = some[SLICE].combine_chunks()
        start, end = (np.asarray(edges.field(name).cast(pa.int64())) for name in ("start", "end"))
        partials = packing.pack(level, start, [column for each in manifest.results for column in _fields(some, each)])
        columns = (keys[of_level], start.tolist(), end.tolist(), some[RECORDS].to_pylist(), partials)
        for key, begin, stop, records, packed in zip(*columns, strict=True):
            yield Row(key, level, begin, stop, records, packed)


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
