"""Looks up windows of a running or stopped query in its checkpoint and returns them as a bounded DataFrame.

::

    checkpoint  ->  one committed micro-batch
    headers     ->  watermark, and the names of each bucket's pages
    pages       ->  the engine of each bucket assembles the windows, in a Spark worker  ->  rows, cached by Spark

A lookup of few keys assembles the windows in this process. If their partitions have snapshots, one job reads headers
and pages of these partitions only.

All is read while `lookup` runs, not when its DataFrame is used: by then the micro-batch may have been removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.content.block import Shape, encode_keys
from slicing.engines.looking import Look, Other, over_one_cut
from slicing.errors import InvalidType, InvalidValue, MissingRequirement, StateMismatch, excerpt, raised
from slicing.spark import checkpoint
from slicing.spark.as_of import AS_OF, KNOWN_FROM, read_from
from slicing.spark.checkpoint import State
from slicing.spark.columns import Key
from slicing.spark.ddl import struct_of
from slicing.spark.query import Query
from slicing.spark.stream import fingerprint
from slicing.stages import flat
from slicing.stages.labels import labels_of
from slicing.stages.looking import ANSWERED, CLOSED, KNOWN, LookUp, LookupFlat, header_of, pages_looked_up
from slicing.stages.preaggregate import key_table
from slicing.stages.support import INCOMPLETE, KEYS, LATEST, STARTS, WINDOWS
from slicing.state.format.buckets import BucketName, Buckets, canonical
from slicing.state.format.header import RESTORE
from slicing.state.format.labels import hash_of
from slicing.windows.families.family import Family
from slicing.windows.specs import cut_text, edges_text
from slicing.windows.time.cut import Cut, refines
from slicing.windows.time.instants import microseconds_of
from slicing.windows.time.slices import FOREVER

IS_CLOSED = "closed"
"""The column that a lookup adds to those of bounded input, together with `AS_OF` and `KNOWN_FROM`."""
FEW_KEYS = 10
"""Windows of up to this number of keys are assembled in this process."""
LOCAL_KINDS = ("boolean", "tinyint", "smallint", "int", "bigint", "string")
"""Kinds of keys that have the same values in Python and in Arrow; for other kinds Spark converts the values."""
MAX_SEPARATE_PARTITIONS = 4
"""Up to this number of partitions are read one by one, each from its newest snapshot on; otherwise all are read."""


Found: TypeAlias = tuple[pa.Table, Mapping[int, str], tuple[int, ...]]


@dataclass(frozen=True)
class LookupRequest:
    """The checked arguments of a lookup. `shown` is the query that makes the rows, as if the input were bounded."""

    query: Query
    shown: Query
    look: Look
    reads: ClassVar[type[LookUp]] = LookUp

    def answered(self, state: State) -> DataFrame:
        """Return the rows of a lookup from the state of one micro-batch. Raises StateMismatch, InvalidValue."""
        if self.is_here:
            return self._answered_here(*self.found(state), state)
        return self._answered_in_workers(state)

    @property
    def is_here(self) -> bool:
        """Whether windows are assembled in this process: for few keys, starting a worker would take longer."""
        return self.look.keys is not None and len(self.look.keys) <= FEW_KEYS

    @cached_property
    def _flat(self) -> LookupFlat:
        return LookupFlat.of(self.shown.flat)

    def function(self, texts: Mapping[int, str], labels: tuple[int, ...] = ()) -> LookUp:
        """Return the function that assembles windows, given the headers of buckets by label, and all labels."""
        query = self.query
        return self.reads(
            execution_plan=query.execution_plan,
            fingerprint=fingerprint(query, Buckets(1)),
            trigger=query.options.trigger,
            grace=query.options.grace,
            shape=self.shown.shape,
            wide=self.shown.window.wide,
            closes=self.shown.window.closes and self.shown.window.by_time,
            flat=self._flat,
            look=self.look,
            headers=texts,
            labels=labels,
        )

    # Reading the state of the keys.

    def found(self, state: State) -> Found:
        """Return the pages of the buckets of few keys, their headers by bucket label, and the labels of all buckets."""
        return self._of_few_partitions(state) or self._of_all(state)

    def _of_all(self, state: State) -> Found:
        """As `found`, from all partitions."""
        texts = self._chosen(state.all_texts)
        return self._pages(state, texts).toArrow(), texts, tuple(sorted(state.all_texts))

    def _chosen(self, texts: Mapping[int, str]) -> Mapping[int, str]:
        """The headers of the buckets of the keys. Each bucket exists from the first micro-batch on."""
        if self.look.keys is None or not texts:
            return texts
        chosen = set(labels_of(self.look.keys, tuple(sorted(texts))).tolist())
        return {label: text for label, text in texts.items() if label in chosen}

    def _pages(self, state: State, texts: Mapping[int, str]) -> DataFrame:
        pages = state.pages()
        return pages if self.look.keys is None else pages.where(F.col("bucket").isin([*texts]))

    def _answered_in_workers(self, state: State) -> DataFrame:
        """The rows of many keys, from all partitions, assembled by Spark's workers."""
        texts = self._chosen(state.all_texts)
        function = self.function(texts, tuple(sorted(state.all_texts)))
        function.check()
        kept = self._pages(state, texts).mapInArrow(function, struct_of(self._flat.schema))
        if batches := [*function.without_pages()]:
            others = state.spark.createDataFrame(pa.Table.from_batches(batches), struct_of(self._flat.schema))
            kept = kept.unionAll(others)
        kept = kept.localCheckpoint()
        answered = kept.where(F.col(flat.CAUSE) == ANSWERED).select(flat.START).toArrow()[0]
        _check_answered(answered, texts)
        return self._rows(kept.where(F.col(flat.CAUSE).isNull()), state)

    def _of_few_partitions(self, state: State) -> Found | None:
        """The pages and headers of the buckets of the keys, read from their partitions only, in one job.

        None if there are too many partitions, if one has no usable snapshot, or if the query has other buckets.
        """
        assert self.look.keys is not None, "of keys that are known"
        wanted = self.query.options.buckets or Buckets(state.partitions)
        known = wanted.labels
        places = dict(zip(known, (hash_of(known) % state.partitions).tolist(), strict=True))
        chosen = sorted(set(labels_of(self.look.keys, known).tolist()))
        asked = sorted({places[label] for label in chosen})
        if not 0 < len(asked) <= min(MAX_SEPARATE_PARTITIONS, state.partitions // 2):
            return None
        there = [only for only in map(state.newest_snapshot, asked) if only]
        if len(there) < len(asked):
            return None
        found = _union([state.buckets(chosen, only) for only in there]).toArrow()
        heads = found.filter(pc.is_null(found["page"]))
        texts = dict(zip(heads["bucket"].to_pylist(), heads["text"].to_pylist(), strict=True))
        spread = {canonical(header_of(label, text).buckets) for label, text in texts.items()}
        if sorted(texts) != chosen or spread != {wanted.text}:
            return None  # the checkpoint was written with other buckets
        return found.filter(pc.is_valid(found["page"])), texts, known

    def _answered_here(
        self, pages: pa.Table, texts: Mapping[int, str], known: tuple[int, ...], state: State
    ) -> DataFrame:
        function = self.function(texts, known)
        function.check()
        batches = [*function(pages.to_batches()), *function.without_pages()]
        found = pa.Table.from_batches(batches) if batches else self._flat.completed(pa.table({}))
        _check_answered(found.filter(pc.equal(found[flat.CAUSE], ANSWERED))[flat.START], texts)
        windows = found.filter(pc.is_null(found[flat.CAUSE]))
        rows = state.spark.createDataFrame(windows, struct_of(self._flat.schema))
        return self._rows(rows, state)

    # Rows of the answer.

    def _rows(self, windows: DataFrame, state: State) -> DataFrame:
        as_of = F.struct(*read_from(state.batch, F.col(flat.WATERMARK)))
        more = [as_of.alias(AS_OF), F.col(CLOSED).alias(IS_CLOSED)]
        more += (
            [F.timestamp_micros(F.col(KNOWN)).alias(KNOWN_FROM)] if self.look.incomplete or self.look.unknown else []
        )
        return windows.select(*self.shown.row_columns(), *more)


def _check_answered(answered: pa.ChunkedArray, headers: Mapping[int, str]) -> None:
    """Raise StateMismatch unless each bucket with pages has answered."""
    there = set(answered.to_pylist())
    for label, text in headers.items():
        if label not in there and pages_looked_up(head := header_of(label, text)):
            name = BucketName(label, head.buckets)
            raise StateMismatch(f"the pages of {name} are in its header and not in the store. {RESTORE}")


def lookup(
    query: Query,
    other: Query | None,
    path: str,
    *,
    keys: Any,
    starts: Any,
    batch: int | None,
    latest: bool,
    incomplete: bool,
    operator: int | None,
) -> DataFrame:
    """Return windows from the state of a query, or windows of `other` made of its slices; see `Definition.lookup`.

    Raises InvalidValue, InvalidType, StateMismatch.
    """
    names_windows = latest or keys is not None or starts is not None
    asked = check(query, other, {KEYS: keys, STARTS: starts, LATEST: latest or None, INCOMPLETE: incomplete or None})
    spark = session_of(query)
    look = Look(
        keys=None if keys is None else keys_of(spark, query, keys),
        starts=None if starts is None else _starts(starts),
        latest=latest,
        incomplete=incomplete,
        other=asked,
        unknown=names_windows,
    )
    shown = shown_by(query if other is None else other, query.shape, asked)
    return checkpoint.of_one_batch(
        lambda at: checkpoint.state(spark, path, at, operator),
        LookupRequest(query, shown, look).answered,
        batch,
    )


def session_of(query: Query, call: str = "lookup") -> SparkSession:
    """Return the session of the query's DataFrame, or the active one. Raises MissingRequirement if there is none."""
    if query.frame is not None:
        return query.frame.sparkSession
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise MissingRequirement(
            f"`{call}` needs a session, and none is active. Make one, or give the stream: `.on(df)`."
        )
    return spark


def check(query: Query, other: Query | None, given: Mapping[str, Any], call: str = "lookup") -> Other | None:
    """Return the windows of `other` over the stored slices, if given. Raises InvalidValue if a lookup is impossible."""
    check_stream(query, call)
    names = [name for name, value in given.items() if value is not None]
    query.support.check_lookup(query.trees, [*names, *([WINDOWS] if other else [])])
    if given.get(LATEST) and given[STARTS] is not None:
        raise InvalidValue("`latest=True` is of all windows of a key; got `starts` too. Leave one out.")
    check_added(other or query, [AS_OF, IS_CLOSED, *([KNOWN_FROM] if names and call != "why" else [])])
    return None if other is None else _over_stored(query, other)


def check_stream(query: Query, call: str) -> None:
    """Raise InvalidValue unless the query is of a stream, which has a state."""
    if not query.streaming:
        raise InvalidValue(
            f"`{call}` reads the state of a stream, and this definition is of a bounded DataFrame. Ask its results, or "
            f"give it the stream: `definition.on(stream).{call}(...)`."
        )


def check_added(query: Query, added: Sequence[str]) -> None:
    """Raise InvalidValue if the query, whose windows are looked up, has a column that the lookup adds."""
    columns = [key.name for key in query.keys] + [*query.result_names]
    if twice := [name for name in added if name in columns]:
        raise InvalidValue(f"lookups have a column `{twice[0]}`, and so has the definition. Rename the one there.")


def _over_stored(query: Query, other: Query) -> Other:
    cut, wanted = _cut(query.shape.family), other.window
    if not other.support.from_slices:
        raise InvalidValue(
            f"`windows` are ranges of the slices that the state of {query.window} has; {wanted} is not made of slices. "
            "Ask for windows made with `hopping`, `tumbling`, `cumulating` or `by_edges`."
        )
    if wanted.family.closed_right != query.window.family.closed_right:
        raise InvalidValue(
            f"`windows` are made of slices that have records at edges by the `closed` of {query.window}; got {wanted}. "
            "Give them the same `closed`."
        )
    members = getattr(wanted.family, "members", wanted.family.families)
    for part, family in zip(wanted.parts, members, strict=True):
        lacking = [edges for edges in family.cut.sequences if not any(refines(own, edges) for own in cut.sequences)]
        if lacking:
            raise InvalidValue(
                f"`windows` must begin and end where slices of the state do; those of {query.window} are cut at "
                f"{cut_text(cut.spec())}, and {part} needs an edge at {edges_text(lacking[0].spec())}. Ask for windows "
                "whose sizes and advances are multiples of the slices, or declare the windows with the query."
            )
    return Other(tuple(family.over(cut) for family in members), wanted.wide)


def _cut(family: Family) -> Cut:
    cut: Cut = family.cut
    return cut


def shown_by(query: Query, stored: Shape, other: Other | None) -> Query:
    """Return the query that makes the rows: bounded, its windows over the slices that are stored."""
    shape = stored if other is None else stored.over(over_one_cut(other.families))
    return replace(query, streaming=False, options=query.options.at_close, shape=shape, then=None)


def _starts(given: Any) -> tuple[int, int]:
    """The range of window starts in microseconds; None in the pair means no limit."""
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise InvalidType(
            f"`starts` is a pair of instants, the first and the last at which windows may start; got {excerpt(given)}. "
            "Write for example `starts=(datetime(2024, 5, 1, 12, tzinfo=UTC), None)`."
        )
    low, high = (None if each is None else microseconds_of(each, "each of `starts`") for each in given)
    return -(FOREVER >> 1) if low is None else low, FOREVER >> 1 if high is None else high


def keys_of(spark: SparkSession, query: Query, given: Any) -> pa.Table:
    """Return the distinct keys as a table with one column per leaf. Raises InvalidValue and InvalidType."""
    if not query.keys:
        raise InvalidValue("`keys` are asked of a query with keys; this one has none. Leave `keys` out.")
    if not isinstance(getattr(given, "schema", None), T.StructType):
        rows = _rows_of(query, given)
        if all(field.kind in LOCAL_KINDS for field in query.shape.keys) and len(query.shape.keys) == len(query.keys):
            return _local_keys(query, rows)
        given = _frame(spark, query, rows)
    return _keys_of(query, given)


def _local_keys(query: Query, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    types = query.shape.key_schema.types
    try:
        columns = [pa.array([row[at] for row in rows], type_) for at, type_ in enumerate(types)]
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise _other_type(query, error) from None
    return encode_keys(pa.table(columns, schema=query.shape.key_schema))[1]


def _keys_of(query: Query, frame: DataFrame) -> pa.Table:
    columns = [column for key in query.keys for column in Key(key.name, key.type, key.name).leaves()]
    if frame.isStreaming:
        raise InvalidType("`keys` is a bounded DataFrame; got a stream. Read the keys by `spark.read`.")
    _check_types(query, frame)
    found = frame.select(*[column.alias(f"k{at}") for at, column in enumerate(columns)]).toArrow()
    return encode_keys(key_table(query.shape, found.columns))[1]


def _form(query: Query) -> str:
    names = ", ".join(key.name for key in query.keys)
    return f"a list of values of {names}" if len(query.keys) == 1 else f"a list of tuples ({names})"


def _other_type(query: Query, error: Exception) -> InvalidType:
    kinds = ", ".join(key.type.simpleString() for key in query.keys)
    return InvalidType(f"`keys` is {_form(query)}, of type {kinds}; {raised(error)}")


def _rows_of(query: Query, given: Any) -> list[tuple[Any, ...]]:
    form = _form(query)
    # A table of another library iterates over the names of its columns.
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__iter__") or hasattr(given, "columns"):
        raise InvalidType(f"`keys` is {form}, or a DataFrame with these columns; got {excerpt(given)}.")
    rows = [each if isinstance(each, tuple) else (each,) for each in given]
    if wrong := [row for row in rows if len(row) != len(query.keys)]:
        raise InvalidValue(f"`keys` is {form}; got {excerpt(wrong[0])}.")
    return rows


def _frame(spark: SparkSession, query: Query, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    schema = T.StructType([T.StructField(key.name, key.type) for key in query.keys])
    try:
        return spark.createDataFrame(rows, schema)
    except (PySparkException, TypeError, ValueError, pa.ArrowException) as error:
        raise _other_type(query, error) from None


def _check_types(query: Query, frame: DataFrame) -> None:
    there = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    for key in query.keys:
        wanted, found = key.type.simpleString(), there.get(key.name)
        if found != wanted:
            raise InvalidType(
                f"`keys` has a column `{key.name}` of type {wanted}, as the query does; got "
                f"{'none' if found is None else found}."
            )


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionAll(other), frames)
