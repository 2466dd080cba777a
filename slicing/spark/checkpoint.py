"""Reads the state of a query after one micro-batch from its checkpoint, with Spark's public data sources for state.

Nothing is written, and the query may be running. A running query removes old micro-batches: if the last micro-batch is
removed before the answer is complete, the one that is the last then is read instead, once. A micro-batch that was asked
for by its number is never replaced by another one. If Spark fails although no micro-batch was committed, the same
micro-batch is read again: the query may have been writing the commit log.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slicing.errors import InvalidType, InvalidValue, SlicingError, StateMismatch, excerpt, reason, shortened
from slicing.spark.versions import OLDEST, check_release
from slicing.stages.looking import header_of
from slicing.state.format.buckets import BucketName, Buckets
from slicing.state.format.header import RESTORE, Header

HEADER, PAGES = "header", "pages"
"""The state variables of the stateful operator."""
FAILURES = (PySparkException, Py4JError)
"""The errors of Spark. PySpark leaves a failed job, such as one that cannot load a state store, to py4j."""
_SNAPSHOT = re.compile(r".*/(\d+)\.zip$")
_NOT_LOADED = re.compile(r"\[CANNOT_LOAD_STATE_STORE.*")
"""The line of Spark's error that says why it cannot load a state store."""
_NO_SCHEMA = re.compile(r"FileNotFoundException: .*?((?:[\w+.-]+:)?/.*?/_stateSchema/[^\s'\"?]+)")
"""The part of Spark's error that names a missing schema of the state, in the words of any file system."""
PAUSES = (0.05, 0.2)
"""Seconds to wait before each repeated attempt to read a checkpoint that a running query writes."""
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class OnePartition:
    """Restricts a read to one partition, reconstructed from the snapshot of the earlier micro-batch `snapshot`."""

    partition: int
    snapshot: int


@dataclass(frozen=True)
class State:
    """The state of one windowed aggregation in a checkpoint after the micro-batch `batch`.

    `operator` is the id of the stateful operator, `partitions` its number of partitions. `first` and `last` are the
    oldest and the newest committed micro-batch that the checkpoint still holds. `only` has the partitions that are
    read; None means all.
    """

    spark: SparkSession
    path: str
    operator: int
    partitions: int
    first: int
    last: int
    batch: int
    only: tuple[OnePartition, ...] | None = None

    def headers(self) -> DataFrame:
        """Return the headers of the buckets: columns `bucket`, `text`."""
        return self._read(HEADER, "key.bucket AS bucket", "value.value AS text")

    def pages(self) -> DataFrame:
        """Return the pages of the buckets: columns `bucket`, `page`, `text`."""
        columns = ("key.bucket AS bucket", "user_map_key.page AS page", "user_map_value.value AS text")
        return self._read(PAGES, *columns)

    def buckets(self, labels: Sequence[int], only: OnePartition) -> DataFrame:
        """Return headers and pages of some buckets of one partition: the columns of `pages`, `page` null in headers."""
        there = replace(self, only=(only,))
        columns = ("key.bucket AS bucket", "CAST(NULL AS STRING) AS page", "value.value AS text")
        heads = there._read(HEADER, *columns)  # one step: Spark analyzes the plan once per step
        return heads.unionAll(there.pages()).where(F.col("bucket").isin(*labels))

    def _read(self, name: str, *columns: str) -> DataFrame:
        if self.only == ():
            return self._variable(name, None).selectExpr(*columns).limit(0)
        return reduce(
            DataFrame.unionAll, [self._variable(name, only).selectExpr(*columns) for only in self.only or (None,)]
        )

    def _variable(self, name: str, only: OnePartition | None) -> DataFrame:
        options: dict[str, Any] = {"operatorId": self.operator, "batchId": self.batch, "stateVarName": name}
        if only is not None:
            options |= {"snapshotPartitionId": only.partition, "snapshotStartBatchId": only.snapshot}
        try:
            return self.spark.read.format("statestore").options(**options).load(self.path)
        except FAILURES as error:
            if not (gone := _NO_SCHEMA.search(str(error))):
                raise
            raise StateMismatch(
                f"Spark keeps the schema of a state by its absolute path, and there is no `{gone[1]}`. If the "
                f"checkpoint was moved to `{self.path}`, move it back, or write the new path into the files of "
                f"`{self.path.rstrip('/')}/state/{self.operator}/_metadata/v2` and remove the `.crc` files beside them."
            ) from error

    @cached_property
    def texts(self) -> dict[int, str]:
        """The stored headers of all buckets, by bucket label."""
        return {row.bucket: row.text for row in self.headers().collect()}

    @property
    def all_texts(self) -> dict[int, str]:
        """The stored headers of all buckets, by bucket label. Raises StateMismatch if a bucket has none."""
        if lost := missing(self.texts):
            raise StateMismatch(f"the store has no {', '.join(map(str, lost))} of `{self.path}`. {RESTORE}")
        return self.texts

    def readable(self) -> tuple[State, list[str]]:
        """Return the state of the partitions that can be read, and for each of the others why it cannot.

        A partition is read on its own from its newest snapshot that can be read.
        """
        there: list[OnePartition] = []
        lost: list[str] = []
        for partition in range(self.partitions):
            why = "it has no snapshot to read it from on its own"
            for only in self.snapshots(partition):
                try:
                    replace(self, only=(only,)).headers().collect()
                except FAILURES as error:
                    why = _cause(error)
                else:
                    there.append(only)
                    break
            else:
                lost.append(f"partition {partition} cannot be read: {why}")
        return replace(self, only=tuple(there)), lost

    def newest_snapshot(self, partition: int) -> OnePartition | None:
        """Return the newest snapshot from which a partition can be read, or None."""
        return next(iter(self.snapshots(partition)), None)

    def snapshots(self, partition: int) -> list[OnePartition]:
        """Return the snapshots from which a partition can be read, the newest first."""
        where = f"{self.path.rstrip('/')}/state/{self.operator}/{partition}"
        files = self.spark.read.format("binaryFile").option("pathGlobFilter", "*.zip")
        try:
            found = [_SNAPSHOT.fullmatch(each) for each in files.load(where).inputFiles()]
        except FAILURES:
            return []
        after = sorted((int(match[1]) - 1 for match in found if match), reverse=True)
        # To read a snapshot, Spark needs its micro-batch in the commit log, which forgets old micro-batches.
        return [OnePartition(partition, batch) for batch in after if self.first <= batch <= self.batch]


def missing(headers: Mapping[int, str]) -> list[BucketName]:
    """Return the names of the buckets without a header, by the number of buckets in the other headers.

    Each bucket has a header from the first micro-batch on. Raises StateMismatch if a header cannot be read.
    """
    for label, text in headers.items():
        if Buckets.is_one(spread := header_of(label, text).buckets):
            return [BucketName(each, spread) for each in Buckets.of(spread).labels if each not in headers]
    return []


def headers(spark: SparkSession, path: str, operator: int | None = None) -> dict[int, Header]:
    """Return the headers of a windowed aggregation in a checkpoint after its last micro-batch, by bucket label.

    `operator` selects one of several windowed aggregations. Raises InvalidValue, InvalidType, StateMismatch.
    """
    texts = of_one_batch(lambda batch: state(spark, path, batch, operator), lambda found: found.all_texts)
    return {label: Header.from_text(text) for label, text in texts.items()}


def state(spark: SparkSession, path: str, batch: int | None = None, operator: int | None = None) -> State:
    """Return the state of a checkpoint after a micro-batch, by default the last committed one.

    `operator` selects one of several windowed aggregations. Raises InvalidValue, InvalidType, MissingRequirement.
    """
    check_release("reading state needs", OLDEST, spark.version)
    if not isinstance(path, str):
        raise InvalidType(
            f"a checkpoint is the text that `checkpointLocation` of its query was set to; got {excerpt(path)}."
        )
    if batch is not None and (not isinstance(batch, int) or isinstance(batch, bool)):
        raise InvalidType(f"`batch` is the number of a micro-batch; got {excerpt(batch)}.")
    found = _operator(path, _operators(spark, path), operator)
    first, last = found["minBatchId"], found["maxBatchId"]
    if last < 0:
        raise InvalidValue(f"the checkpoint `{path}` has no committed micro-batch yet. Ask again after the first one.")
    if batch is not None and not first <= batch <= last:
        raise InvalidValue(
            f"`batch` must be a committed micro-batch that the checkpoint still has, {first} to {last}; got {batch}. "
            "How many there are is set by `spark.sql.streaming.minBatchesToRetain`."
        )
    chosen = last if batch is None else batch
    return State(spark, path, found["operatorId"], found["numPartitions"], first, last, chosen)


def of_one_batch(
    opened: Callable[[int | None], State], ask: Callable[[State], Answer], batch: int | None = None
) -> Answer:
    """Return `ask(opened(batch))`, an answer from a single micro-batch; repeat it if a running query interferes.

    `opened` returns the state after a micro-batch, None for the last one. If the answer fails after another micro-batch
    was committed, the state may have been removed while it was read. The last micro-batch is then asked instead, once;
    but not in place of a `batch` that was asked for: its removal is an error. If Spark fails and no micro-batch was
    committed, the same one is asked again. Raises StateMismatch if Spark still cannot load it, InvalidValue if `batch`
    was removed, else the error of the last attempt.
    """
    chosen, moved = opened(batch), False
    for pause in PAUSES:
        try:
            return ask(chosen)
        except (*FAILURES, SlicingError) as error:
            newest = _still_there(opened(None), batch)
            if newest.batch != chosen.batch:
                if moved:
                    raise
                chosen, moved = newest, True
            elif isinstance(error, SlicingError):
                raise
            else:
                chosen = newest  # older micro-batches may have been removed
                time.sleep(pause)
    try:
        return ask(chosen)
    except FAILURES as error:
        if not _NOT_LOADED.search(str(error)) or _still_there(opened(None), batch).batch != chosen.batch:
            raise
        raise StateMismatch(
            f"the state cannot be read: {_cause(error)}. {RESTORE} `describe(spark, checkpoint)` says what can be read."
        ) from error


def _still_there(newest: State, batch: int | None) -> State:
    """Return the state after `batch`, None for the last one, by the newest state. Raises InvalidValue if it is gone."""
    if batch is None:
        return newest
    if batch < newest.first:
        raise InvalidValue(
            f"micro-batch {batch} was removed by the running query while it was read; the checkpoint has "
            f"{newest.first} to {newest.last} now. Ask for one of these, or leave `batch` out. How many there are is "
            "set by `spark.sql.streaming.minBatchesToRetain`."
        )
    return replace(newest, batch=batch)


def _operators(spark: SparkSession, path: str) -> list[Any]:
    """The stateful operators of this package. Raises InvalidValue if the checkpoint has no state."""
    for pause in PAUSES:
        rows, _ = _metadata(spark, path)
        if rows and all(row["maxBatchId"] >= 0 for row in rows):
            break
        time.sleep(pause)  # the query may be writing the commit log
    else:
        rows, why = _metadata(spark, path)
        if not rows:
            raise InvalidValue(
                f"`{path}` is no checkpoint of a query with state: {why}. Give the `checkpointLocation` of the query."
            )
    return [row for row in rows if _variables(row["operatorProperties"]) >= {HEADER, PAGES}]


def _metadata(spark: SparkSession, path: str) -> tuple[list[Any], str]:
    """The stateful operators of a checkpoint, and the reason if there are none."""
    try:
        return spark.read.format("state-metadata").load(path).collect(), "there is no state"
    except FAILURES as error:
        return [], _cause(error)


def _cause(error: object) -> str:
    """The cause of a failure of Spark in one line, for a message."""
    found = _NOT_LOADED.search(str(error))
    return shortened(found[0] if found else reason(error)).rstrip(". ")


def _variables(properties: str | None) -> set[str]:
    """The names of the state variables of an operator."""
    found = json.loads(properties) if properties else {}
    return {each["stateName"] for each in found.get("stateVariables", ())}


def _operator(path: str, found: list[Any], wanted: int | None) -> Any:
    by_number = {row["operatorId"]: row for row in found}
    if wanted is None and len(by_number) == 1:
        return next(iter(by_number.values()))
    if wanted in by_number:
        return by_number[wanted]
    if not found:
        raise InvalidValue(
            f"the checkpoint `{path}` has no windows of this package. Give that of a query whose results are "
            "windows made by `aggregate` or `dataframe`."
        )
    numbers = ", ".join(map(str, sorted(by_number)))
    raise InvalidValue(
        f"the checkpoint `{path}` has state of the operators {numbers}; got operator={excerpt(wanted)}. Say which one "
        f"is meant, for example operator={min(by_number)}."
    )
