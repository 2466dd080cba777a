"""Describes the checkpoint of a query: the settings in its headers, and the size of each bucket's pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from slicing.errors import InvalidType, StateMismatch, excerpt, raised
from slicing.explain import (
    BucketState,
    KeyState,
    StateTable,
    facts_of,
    largest_of,
    slices_of,
    trigger_state_of,
    triggers_of,
)
from slicing.spark.checkpoint import FAILURES, State, missing, of_one_batch, state
from slicing.spark.ddl import struct_of
from slicing.stages.measuring import SCHEMA, SLICES_SCHEMA, CountSlices, Measure
from slicing.state.format.buckets import BucketName
from slicing.state.format.header import Header, stored_format
from slicing.state.format.labels import hash_of


def describe(
    spark: SparkSession, checkpoint: str, batch: int | None = None, *, operator: int | None = None
) -> StateTable:
    """Describe the state of a query in its checkpoint, as a value that prints as a table, in notebooks too.

    It describes one committed micro-batch, by default the last; the query may be running. Damaged headers and pages are
    named and left out. So are partitions that Spark cannot load: then each of the others is read on its own. `operator`
    is the id of the stateful operator, if the query has several windowed aggregations. Of `largest_keys` a merged slice
    counts as one, and so does a window without slices and each stored part of a session. Buckets are counted from 0.

    Cost: Spark reads the state of all partitions, and the keys of all pages are decoded. If large keys may have rows of
    a slice in several pages, it reads the state a second time, and counts the slices of these keys only. Raises
    InvalidValue, InvalidType.
    """
    if not hasattr(type(spark), "readStream"):
        raise InvalidType(f"`describe` takes the session first: `describe(spark, checkpoint)`; got {excerpt(spark)}.")
    try:
        return of_one_batch(lambda at: state(spark, checkpoint, at, operator), _described, batch)
    except (StateMismatch, *FAILURES):
        found = state(spark, checkpoint, batch, operator)
        described = _described(*found.readable())
        if state(spark, checkpoint, None, operator).last != found.last:
            raise  # the running query may have removed what could not be read
        return described


def _spread(buckets: Sequence[BucketState], partitions: int) -> str:
    """The number of buckets, and how evenly their bytes are spread over the current shuffle partitions."""
    sizes = [0] * partitions
    for bucket in buckets:
        sizes[int(hash_of(bucket.label)) % partitions] += bucket.bytes
    most = f", {max(sizes) * partitions / sum(sizes):.2f} of the average in the largest" if sum(sizes) else ""
    return f"{len(buckets)} over {partitions} shuffle partitions{most}"


def _largest_keys(found: State, headers: Mapping[int, str], rows: Iterable[Row], spread: str) -> tuple[KeyState, ...]:
    """Return the ten keys with most bytes. A slice may have rows in several pages, so slices are counted separately."""
    keys = largest_of(
        {
            (row["bucket"], each["hash"]): KeyState(
                BucketName(row["bucket"], spread).number, each["key"], each["rows"], each["records"], each["bytes"]
            )
            for row in rows
            for each in row["largest"]
        }
    )
    slices = _slices_of_keys(found, headers, [place for place, key in keys.items() if key.slices > 1])
    return tuple(replace(key, slices=slices.get(place, key.slices)) for place, key in keys.items())


def _slices_of_keys(
    found: State, headers: Mapping[int, str], places: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """Return the number of distinct slices of some keys, given and returned by their bucket and their hash."""
    if not places:
        return {}
    keys = {label: [number for bucket, number in places if bucket == label] for label, _ in places}
    count = CountSlices({label: headers[label] for label in keys}, keys)
    pages = found.pages().where(F.col("bucket").isin(*keys))
    rows = pages.mapInArrow(count, struct_of(SLICES_SCHEMA)).collect()
    return {(row["bucket"], row["hash"]): row["slices"] for row in rows}


def _described(found: State, lost: Sequence[str] = ()) -> StateTable:
    """The description of the partitions that are read; `lost` says why others cannot be read."""
    heads: dict[int, Header] = {}
    damage = [*lost]
    formats: set[int] = set()
    for label, text in sorted(found.texts.items()):
        try:
            formats.add(stored_format(text))
            heads[label] = Header.from_text(text)
        except Exception as error:  # damaged bytes may raise any error
            damage.append(f"the header of the bucket with label {label}: {raised(error)}")
    damage += [
        f"{name} is not in the store"
        for name in missing({label: text for label, text in found.texts.items() if label in heads})
        if name.label not in found.texts
    ]
    spread = next((head.buckets for head in heads.values()), "")
    measure = Measure({label: text for label, text in found.texts.items() if label in heads})
    rows = {row.bucket: row for row in found.pages().mapInArrow(measure, struct_of(SCHEMA)).collect()}
    damage += [
        f"{BucketName(label, spread)}, {row.damage}"
        for label, row in sorted(rows.items())
        if row.damage and label in heads
    ]
    buckets = []
    for label in sorted({*found.texts, *rows}):
        row, head = rows.get(label), heads.get(label)
        keys, pages, size = (row["keys"], row["pages"], row["bytes"]) if row else (0, 0, 0)
        slices, number = slices_of(head) if row and head else 0, BucketName(label, spread).number
        buckets.append(BucketState(label, keys, slices, pages, size, number))
    watermark = max((head.watermark for head in heads.values()), default=0)
    facts = facts_of(next(iter(heads.values()))) if heads else {}
    facts["spread"] = _spread(buckets, found.partitions)
    return StateTable(
        found.path,
        found.batch,
        watermark or None,
        tuple(buckets),
        largest_keys=_largest_keys(found, measure.headers, rows.values(), spread),
        damage=tuple(damage),
        formats=tuple(sorted(formats)),
        trigger=triggers_of(heads.values()),
        trigger_state=trigger_state_of(
            (part["list"], part["pages"], part["bytes"]) for row in rows.values() for part in row.trigger
        ),
        **facts,  # type: ignore[arg-type]
    )
