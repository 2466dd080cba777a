"""What the first stage sends: a row to every bucket from one input partition, and nothing for nothing from the others.

The streams have more input partitions and buckets than keys, and input partitions without a record; rows are those of
Spark's own `groupBy(keys, window)`, in the same micro-batch.
"""

import numpy as np
import pyarrow as pa
import pytest
from oracle import cases, hopping, shape_of
from pyspark.sql import functions as F
from streams import MINUTE, SECOND, START, brute, exact_differences, record, run, source, spark_window, table, write

import combinators as C
from slicing import Aggregate, group_by
from slicing import hopping as hopping_window
from slicing.content.codec import decode
from slicing.content.records import decode_records
from slicing.stages import preaggregate
from slicing.stages.preaggregate import PreAggregate, ShuffleRecords

WINDOW = hopping_window("60 seconds", "30 seconds")
SHAPE = shape_of(hopping(60, 100), cases("sum"))
LABELS = tuple(range(16))


def batch(*records):
    """Records (milliseconds or None, key, value) as they reach the first stage."""
    times, keys, values = zip(*records, strict=True)
    instants = pa.array([None if time is None else time * 1000 for time in times], pa.timestamp("us", "UTC"))
    columns = [instants, pa.array(keys, pa.int64()), pa.array(values, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, ["time", "k", "v"])


def sent(partition, *batches, stage=None):
    """The rows that an input partition sends."""
    stage = stage or PreAggregate(SHAPE, ((0,),), LABELS)
    rows = [row for out in stage(batches, partition) for row in out.to_pylist()]
    assert all(row["partition"] == partition for row in rows)
    assert [row["part"] for row in rows] == list(range(len(rows)))
    return rows


def blocks(rows):
    return [row["bucket"] for row in rows if row["block"] is not None]


@pytest.mark.parametrize("stage", [None, ShuffleRecords(SHAPE, LABELS)], ids=["partials", "records"])
def test_the_first_input_partition_has_a_row_for_every_bucket_and_others_for_theirs(stage):
    some = batch((5, 1, 1), (7, 2, 2))
    for records in ([], [some]):
        first, other = (sent(partition, *records, stage=stage) for partition in (0, 3))
        assert {row["bucket"] for row in first} == set(LABELS)
        assert {row["bucket"] for row in other} == set(blocks(other)) == set(blocks(first))
        assert len(blocks(first)) == len(blocks(other)) == 2 * len(records)
    decoded = [decode_records(SHAPE, row["block"]) if stage else decode(SHAPE, row["block"]) for row in other]
    assert [len(block.index) for block in decoded] == [1, 1]


@pytest.mark.parametrize("with_records", [False, True])
def test_what_is_shipped_early_is_shipped_once(monkeypatch, with_records):
    monkeypatch.setattr(preaggregate, "CHUNK_ROWS", 4)
    batches = [batch(*((1000 * i + j, j, 1) for j in range(4))) for i in range(3)]
    for partition in (0, 1):
        rows = sent(partition, *batches, stage=PreAggregate(SHAPE, ((0,),), LABELS, with_records))
        blocks = [decode(SHAPE, row["block"]) for row in rows if row["block"] is not None]
        assert sum(int(block.records.sum()) for block in blocks) == 12
        assert {row["bucket"] for row in rows} == set(LABELS) or partition


def test_the_keys_of_all_buckets_are_held_once(monkeypatch):
    """As often as there are buckets they would be more than is held."""
    batches = [batch(*((1000 * j, 100 * i + j, 1) for j in range(100))) for i in range(3)]
    monkeypatch.setattr(preaggregate, "CHUNK_ROWS", 1000)
    plain = sent(1, *batches)
    monkeypatch.setattr(preaggregate, "_chunks", lambda batches: map(pa.Table.from_batches, zip(batches, strict=True)))
    monkeypatch.setattr(preaggregate, "CHUNK_BYTES", 24_000)
    rows = sent(1, *batches)
    assert len(rows) == len(LABELS)
    assert sorted(row["bucket"] for row in rows) == sorted(row["bucket"] for row in plain)
    for one, other in zip(*(sorted(some, key=lambda row: row["bucket"]) for some in (rows, plain)), strict=True):
        mine, theirs = decode(SHAPE, one["block"]), decode(SHAPE, other["block"])
        mine.check(SHAPE)
        assert len(mine.names) == len(theirs.names)
        assert keys_of_slices(mine) == keys_of_slices(theirs)


def keys_of_slices(block):
    return sorted(zip(block.index.tolist(), block.names["k0"].take(block.keys).to_pylist(), strict=True))


@pytest.mark.parametrize("stage", [None, ShuffleRecords(SHAPE, LABELS)], ids=["partials", "records"])
def test_refused_records_are_counted_by_any_input_partition_also_without_others(stage):
    refused, some = batch((None, 1, 1), (None, 2, 1)), batch((5, 1, 1))
    for partition in (0, 1):
        for batches in ([refused], [refused, some], [some, refused]):
            rows = sent(partition, *batches, stage=stage)
            assert sum(row["no_time"] for row in rows) == 2
            assert sum(row["no_window"] for row in rows) == 0
    assert sent(1) == []


# --- on Spark ---------------------------------------------------------------------------------------------------------


def tables(seed, files=6):
    """Three keys, micro-batches of few records or of none with a time, and one in four records much too late."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(files):
        base = START + number * 2 * MINUTE
        back = [9 * MINUTE if rng.random() < 0.25 else int(rng.integers(0, MINUTE)) for _ in range(rng.choice([1, 9]))]
        made = [record(int(rng.integers(0, 3)), base - each, n=int(rng.integers(0, 99))) for each in back]
        found.append(table([*made, record(1, None)] if number % 3 == 1 else made))
    found[3] = table([record(1, None)])
    return found


EAGER = Aggregate(lambda: 0, lambda acc, n: acc + n)


@pytest.mark.slow
def test_few_keys_in_many_input_partitions_and_buckets(spark, tmp_path):
    made = tables(3)
    write(made, tmp_path)
    frame = source(spark, tmp_path, "30 seconds").repartition(8, "world", "n")
    windowed = group_by(frame, "world").window(WINDOW, time="ts").buckets(16)
    partials = windowed.aggregate(records=C.count(), total=C.sum("n"))
    records = windowed.aggregate(records=C.count(), total=EAGER.on("n"))
    theirs = source(spark, tmp_path, "30 seconds").groupBy("world", spark_window(WINDOW))
    outputs = run(partials, records, theirs.agg(F.count(F.lit(1)).alias("records"), F.sum("n").alias("total")))
    theirs = outputs.pop().rows("world")
    assert len(theirs) > 20
    counters = brute(made, WINDOW, delay=30 * SECOND).counters
    assert counters["late"]
    assert 3 in counters["no_time"], "of a micro-batch with nothing else"
    for ours in outputs:
        assert exact_differences(ours.rows("world"), theirs, ["records", "total"]) == []
        assert {name: ours.counters(name) for name in counters} == counters


def test_a_watermark_moved_by_records_that_are_left_out_later(spark, tmp_path):
    """The first micro-batches have no record behind the filter, in any input partition; the next one's are late."""
    late, ahead = START, START + 10 * MINUTE
    left_out, others = table([record(-1, ahead)]), table([record(1, late), record(2, ahead)])
    write([left_out, left_out, others, table([record(2, 2 * ahead - START)])], tmp_path)

    def kept():
        # A condition of the event time is not moved to before the watermark.
        return source(spark, tmp_path).filter(F.when(F.col("ts").isNull(), True).otherwise(F.col("world") > 0))

    ours = group_by(kept().repartition(4), "world").window(WINDOW, time="ts").buckets(8).aggregate(records=C.count())
    theirs = kept().groupBy("world", spark_window(WINDOW)).agg(F.count(F.lit(1)).alias("records"))
    outputs = run(ours, theirs)
    rows = [output.rows("world") for output in outputs]
    assert exact_differences(*rows, ["records"]) == []
    assert {place[1] for place in rows[1]} == {2}
    assert outputs[0].counters("late") == {2: 1}
