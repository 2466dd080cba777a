"""Point-in-time features of bounded input: one shuffle brings records and spine rows together, bucket by bucket.

::

    records -> pre-aggregate by microsecond --\\
                                                by bucket -> the windows of each row of the spine -> its row, results
    spine   -> rows as they are --------------/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.aggregates.aggregate import Bound, Struct
from slicing.aggregates.arrays import Array
from slicing.aggregates.spill import spilling
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat
from slicing.content.folding import by_key
from slicing.content.records import Records, decode_records
from slicing.drafts.call import Call
from slicing.drafts.draft import output_names
from slicing.engines.features import Instants, answered, features
from slicing.errors import InvalidType, InvalidValue
from slicing.options import Asked
from slicing.spark.as_of_columns import check_free, results_as_of, starts_as_of, starts_column
from slicing.spark.bounded import rows_of
from slicing.spark.query import Query
from slicing.spark.rules import resolve
from slicing.spark.spine import ShipSpine, check_bounded, resolve_spine
from slicing.spark.task import InTask
from slicing.stages import flat
from slicing.stages.as_of import BEGIN, HELD, columns_as_of, held_columns
from slicing.stages.execution_plan import Sliced
from slicing.stages.flat import physical
from slicing.stages.output import side_by_side
from slicing.stages.preaggregate import PreAggregate

SPINE = "spine"
"""The column with encoded rows of the spine; blocks of records are in `block`."""


@dataclass(frozen=True)
class FeatureQuery:
    """A query for features: `query` over the records, `spine` over the spine, the spine's columns, the result names.

    as_of: the windows are those of a definition as of the rows. Each row has their starts. Windows without records have
    results, what `init` lowers to, not nulls; only rows without a time do not.
    known: the last key of the records, which the spine has not, is the instant at which a record became known.
    """

    query: Query
    spine: Query
    kept: tuple[T.StructField, ...]
    names: tuple[str, ...]
    as_of: bool = False
    known: bool = False

    @property
    def execution_plan(self) -> Sliced:
        """The execution plan of the records' query, which holds the sharing of fields between results."""
        chosen = self.query.execution_plan
        assert isinstance(chosen, Sliced), "what is eager is refused"
        return chosen

    @property
    def schema(self) -> T.StructType:
        """The schema of the second stage: the columns of the spine, flags per window, then results, all numbered."""
        kept = [T.StructField(name, field.dataType) for name, field in flat.numbered(flat.VALUE, self.kept).items()]
        kinds = [physical(field.kind) for _ in range(self.query.widths) for field in self.query.results()]
        made = flat.numbered(HELD, ["boolean"] * self.query.widths) | flat.numbered(flat.RESULT, kinds)
        made |= flat.numbered(BEGIN, ["bigint"] * self.query.widths if self.as_of else [])
        results = T.StructType.fromDDL(", ".join(f"{name} {kind}" for name, kind in made.items()))
        return T.StructType([*kept, *results])  # type: ignore[misc]


def resolve_features(
    asked: Asked,
    spine: DataFrame,
    spine_time: Any,
    named: Mapping[str, Bound | Struct],
    as_of: bool = False,
    known: Any = None,
) -> FeatureQuery:
    """Return the checked query for features, given the schemas of both sides. Raises InvalidValue and InvalidType."""
    assert asked.df is not None, "features are of records"
    check_bounded(asked.df, spine, as_of)
    keys = asked.keys if known is None else (*asked.keys, known)
    query = resolve(
        Call(frame=asked.df, keys=keys, window=asked.windows, time=asked.time, named=named, options=asked.options)
    )
    names = tuple(output_names(named, asked.windows))
    of_spine = query if known is None else _without_knowledge(query)
    rows = resolve_spine(spine, asked.keys, spine_time, of_spine, names)
    found = FeatureQuery(query, rows, tuple(spine.schema.fields), names, as_of, known is not None)
    if as_of:
        check_free((*spine.columns, *names), [starts_column(query)], "the spine or the definition")
    return found


def _without_knowledge(query: Query) -> Query:
    """Return the query with the keys of the spine: without the last one, the instant of knowledge.

    Raises InvalidType unless that is of the type of times, and InvalidValue if there is no other key.
    """
    last, time = query.keys[-1], query.schema[query.time].dataType
    if last.type != time:
        raise InvalidType(
            f"`known` names a column of the type of times, {time.simpleString()}; `{last.name}` is "
            f'{last.type.simpleString()}. Cast it, for example `.cast("{time.simpleString()}")`.'
        )
    if len(query.keys) == 1:
        raise InvalidValue(
            f"`known` needs records with keys; got `{last.name}` and no keys. Group both sides by a constant column."
        )
    return replace(query, keys=query.keys[:-1], shape=replace(query.shape, keys=query.shape.keys[:-1]))


class PreAggregateKnown(PreAggregate):
    """The first stage of records that become known: their instants of knowledge do not choose the bucket."""

    def _labels(self, names: pa.Table) -> Array:
        return super()._labels(names.select(names.column_names[:-1]))


@dataclass(frozen=True)
class Answer:
    """The function for `mapInArrow` after the shuffle; the rows of a bucket are consecutive and in input order.

    `time` is the position of the time among the spine's values; the first `kept` values are returned. `spine` is the
    shape of the spine's rows. With `known` the last key of the records is the instant at which they became known.
    """

    execution_plan: Sliced
    time: int
    kept: int
    spine: Shape
    as_of: bool = False
    known: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the spine with their results, bucket by bucket."""
        for _, rows in groupby(rows_of(batches), key=lambda row: row["bucket"]):
            blocks: list[Block] = []
            asked: list[Records] = []
            with spilling():
                for row in rows:
                    blocks += self.execution_plan.shipped({"block": (row["block"],)})
                    asked += [] if row[SPINE] is None else [decode_records(self.spine, row[SPINE])]
                shape = self.execution_plan.shipping
                for table in self._answers(by_key(shape, concat(shape, blocks)), asked):
                    yield from table.to_batches()

    def _answers(self, rows: Block, asked: Sequence[Records]) -> Iterator[pa.Table]:
        instants = [Instants(each.values[self.time].cast(pa.int64()), each.names) for each in asked]
        shape, since = self.execution_plan.shipping, None
        if self.known:
            since = np.asarray(rows.names.column(rows.names.num_columns - 1).cast(pa.int64()))
            rows = replace(rows, names=rows.names.select(rows.names.column_names[:-1]))
            shape = replace(shape, keys=shape.keys[:-1])
        for number, found in features(shape, rows, instants, since):
            some = pa.array(found.rows)
            kept = flat.numbered(flat.VALUE, [value.take(some) for value in asked[number].values[: self.kept]])
            times = asked[number].values[self.time].take(some)
            yield pa.table(kept | self._columns(found.windows, np.asarray(times.is_valid())))

    def _columns(self, windows: Windows, timed: Array) -> dict[str, pa.Array]:
        plan = self.execution_plan
        shape, found = answered(plan.shape, plan.shipping), plan.of_results(windows)
        aligned = (windows, *windows.aligned)
        if self.as_of:
            return columns_as_of(shape, found, [timed] * len(aligned))
        results = flat.numbered(flat.RESULT, side_by_side(shape, found))
        return held_columns([each.records > 0 for each in aligned]) | results


def build(asked: FeatureQuery, labels: tuple[int, ...]) -> DataFrame:
    """Return the spine with its results."""
    query, spine, chosen = asked.query, asked.spine, asked.execution_plan
    stage, ship, records = chosen.first_stage(labels), ShipSpine(spine.shape, labels), query.records()
    if asked.known:
        stage = PreAggregateKnown(stage.shape, stage.arguments, labels)
        records = records.where(F.col(list(flat.numbered(flat.KEY, query.shape.keys))[-1]).isNotNull())
    blocks = records.mapInArrow(InTask(stage), stage.schema)
    blocks = blocks.observe(query.metrics_name(), F.coalesce(F.sum("no_time"), F.lit(0)).alias("no_time"))
    rows = spine.records().mapInArrow(InTask(ship), ship.schema)
    nothing = F.lit(None).cast("binary")
    both = blocks.withColumn(SPINE, nothing).union(rows.withColumn(SPINE, F.col("block")).withColumn("block", nothing))
    grouped = both.repartition("bucket").sortWithinPartitions("bucket", "partition", "part")
    table = grouped.mapInArrow(
        Answer(chosen, spine.columns.index(spine.time), len(asked.kept), spine.shape, asked.as_of, asked.known),
        asked.schema,
    )
    columns = flat.numbered(flat.VALUE, asked.kept)
    kept = [F.col(name).alias(field.name, metadata=field.metadata) for name, field in columns.items()]
    starts = [F.when(F.col(f"{HELD}0"), starts_as_of(query)).alias(starts_column(query))] if asked.as_of else []
    return table.select(*kept, *results_as_of(query, asked.names), *starts)
