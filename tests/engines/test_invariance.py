"""Results do not depend on partitions, buckets, or cuts of the input; floats to the last bit where promised."""

import operator
import os
import random
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from streams import (
    DAY,
    EXACT,
    FLOATS,
    OURS,
    SCHEMA,
    START,
    exact_differences,
    float_differences,
    record,
    run,
    source,
    table,
    worlds,
    write,
)

from slicing import Aggregate, group_by, hopping
from slicing.stages.labels import labels_of
from slicing.state.format.labels import hash_of, labels

pytestmark = pytest.mark.slow

WINDOW = hopping("30 minutes", "2 minutes", offset="-30 seconds")
PARTITIONS = "spark.sql.shuffle.partitions"
FILES = 6


@pytest.fixture
def partitions(spark):
    """Sets the number of shuffle partitions for one test."""
    before = spark.conf.get(PARTITIONS)
    yield lambda count: spark.conf.set(PARTITIONS, str(count))
    spark.conf.set(PARTITIONS, before)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Worlds without records that are late: the delay is longer than every disorder."""
    root = tmp_path_factory.mktemp("invariance")
    write(worlds("invariance", files=FILES, count=30), root)
    return root


def windowed(frame, buckets=None):
    grouped = group_by(frame, "world").window(WINDOW, time="ts")
    return grouped.buckets(buckets) if buckets else grouped


# --- streams --------------------------------------------------------------------------------------------------------


def streamed(spark, files, buckets=None, delay="5 minutes", per_batch=1):
    (output,) = run(windowed(source(spark, files, delay, per_batch), buckets).aggregate(**OURS))
    return output.rows("world")


@pytest.fixture(scope="module")
def streamed_by_two(spark, files):
    return streamed(spark, files)


def bits(rows):
    """Floats compare by their text, so to the last bit."""
    return {place: {name: repr(row[name]) for name in FLOATS} for place, row in rows.items()}


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.long), 7])
def test_streams_do_not_depend_on_shuffle_partitions(spark, files, partitions, streamed_by_two, count):
    partitions(count)
    found = streamed(spark, files)
    assert exact_differences(found, streamed_by_two)[:5] == []
    assert bits(found) == bits(streamed_by_two)
    assert len(found) > 300


@pytest.mark.parametrize("count", [*(pytest.param(count, marks=pytest.mark.long) for count in (1, 8)), 64])
def test_streams_do_not_depend_on_buckets(spark, files, streamed_by_two, count):
    """A file is one input partition, so not even the floats may differ."""
    found = streamed(spark, files, count)
    assert exact_differences(found, streamed_by_two)[:5] == []
    assert bits(found) == bits(streamed_by_two)


def process(_):
    return os.getpid()


def test_streams_do_not_depend_on_workers_that_are_reused(spark, files, streamed_by_two, fresh_workers):
    pid = Aggregate(int, lambda acc, n: acc + 1, operator.add, lower=process, returns="long").on("n")
    (output,) = run(windowed(source(spark, files, "5 minutes")).aggregate(**OURS, pid=pid))
    found = output.rows("world")
    assert exact_differences(found, streamed_by_two)[:5] == []
    assert bits(found) == bits(streamed_by_two)
    pids = {(batch, row["pid"]) for (batch, *_), row in found.items()}
    assert len({pid for _, pid in pids}) == len(pids), "no process saw two micro-batches"
    assert len({batch for batch, _ in pids}) > 2


def test_streams_do_not_depend_on_where_micro_batches_are_cut(spark, files):
    """A delay of three days, so that nothing is late; the last file moves the watermark past all windows."""
    write([table([record(1, START + 30 * DAY)])], files.parent / "end", first=99)
    frames = []
    for per_batch in (1, 4, FILES + 1):
        stream = source(spark, files.parent / ("{" + f"{files.name},end" + "}"), "3 days", per_batch)
        frames.append(windowed(stream).aggregate(**OURS))
    found = [{place[1:]: row for place, row in output.rows("world").items()} for output in run(*frames)]
    for other in found[1:]:
        assert exact_differences(other, found[0])[:5] == []
        assert other.keys() == found[0].keys()
    assert len(found[0]) > 1000
    (whole,) = [windowed(bounded(spark, files)).aggregate(**OURS).toArrow()]
    assert len(whole) == len(found[0]), "and they are those of the same records as bounded input"


# --- bounded input --------------------------------------------------------------------------------------------------


def bounded(spark, files):
    return spark.read.schema(SCHEMA).parquet(str(files))


def batched(frame, buckets=None):
    found = windowed(frame, buckets).aggregate(**OURS).toArrow()
    return {(row["world"], row["window"]["start"]): row for row in found.to_pylist()}


@pytest.fixture(scope="module")
def whole(spark, files):
    """One input partition."""
    return bounded(spark, files).coalesce(1).sortWithinPartitions("ts", "n", "x", "s", "d", "m", "world").cache()


@pytest.mark.parametrize("count", [1, 7])
def test_bounded_input_does_not_depend_on_shuffle_partitions(spark, whole, partitions, count):
    expected = batched(whole)
    partitions(count)
    found = batched(whole)
    assert exact_differences(found, expected)[:5] == []
    assert bits(found) == bits(expected)
    assert len(found) > 1000


def test_bounded_input_does_not_depend_on_buckets(whole):
    one, eight, many = (batched(whole, count) for count in (1, 8, 64))
    for found in (eight, many):
        assert exact_differences(found, one)[:5] == []
        assert bits(found) == bits(one)


def test_bounded_input_does_not_depend_on_input_partitions(spark, files):
    one, many = batched(bounded(spark, files).coalesce(1)), batched(bounded(spark, files).repartition(5))
    assert exact_differences(many, one, EXACT)[:5] == []
    sizes = bounded(spark, files).groupBy("world", F.window("ts", "30 minutes", "2 minutes", "90 seconds"))
    sizes = sizes.agg(
        F.sum(F.abs("x")).alias("x_size"), F.sum(F.abs(F.col("n").cast("double"))).alias("n_size")
    ).toArrow()
    for row in sizes.to_pylist():
        one[row["world"], row["window"]["start"]] |= row
    assert float_differences(many, one)[:5] == []


# --- labels ---------------------------------------------------------------------------------------------------------


def text(numbers):
    return ", ".join(map(str, numbers))


def test_every_partition_has_the_same_number_of_buckets(spark):
    """By Spark's `hash`, for 1 to 64 partitions and 2 buckets each, and for numbers that do not divide."""
    for partitions in range(1, 65):
        chosen = labels(2 * partitions, partitions)
        assert len(set(chosen)) == 2 * partitions
        placed = spark.sql(f"select transform(array({text(chosen)}), x -> pmod(hash(x), {partitions})) as p").first().p
        assert Counter(placed) == dict.fromkeys(range(partitions), 2)
    for buckets, partitions in ((1, 7), (8, 3), (64, 7), (5, 64)):
        chosen = labels(buckets, partitions)
        placed = spark.sql(f"select transform(array({text(chosen)}), x -> pmod(hash(x), {partitions})) as p").first().p
        counts = Counter(placed)
        assert max(counts.values()) - min(counts.get(p, 0) for p in range(partitions)) <= 1


def test_the_hash_is_sparks(spark):
    """Of every label that a query may have, and of integers at their ends."""
    given = [*range(-2_000, 20_000), *random.Random(7).sample(range(-(2**31), 2**31), 5_000), 2**31 - 1, -(2**31)]
    frame = spark.createDataFrame(pa.table([pa.array(given, pa.int32())], names=["label"]), "label int")
    assert hash_of(given).tolist() == frame.select(F.hash("label")).toArrow()[0].to_pylist()


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
def test_sparks_shuffle_places_labels_as_its_hash_says(spark, partitions):
    chosen = labels(2 * partitions, partitions)
    frame = spark.createDataFrame(pa.table([pa.array(chosen, pa.int32())], names=["bucket"]), "bucket int")
    placed = frame.repartition(partitions, "bucket").select(F.spark_partition_id().alias("p")).collect()
    assert Counter(row.p for row in placed) == dict.fromkeys(range(partitions), 2)


def test_the_bucket_of_a_key_never_changes():
    """State is found by it: these labels are those of every checkpoint of this format."""
    keys = pa.table(
        {
            "n": pa.array([0, 1, -1, None, 2**62], pa.int64()),
            "s": pa.array(["", "a", "b" * 300, None, "Zürich"]),
            "d": pa.array([0, 1, 2, None, -5], pa.date32()),
            "m": pa.array([*map(Decimal, ("0", "1.25", "-1.25")), None, Decimal(10) ** 20], pa.decimal128(38, 2)),
            "x": pa.array([0.0, 1.5, float("nan"), None, -1e300], pa.float64()),
        }
    )
    labels = tuple(range(100))
    assert {name: labels_of(keys.select([name]), labels).tolist() for name in keys.column_names} == {
        "n": [0, 78, 5, 38, 0],
        "s": [0, 9, 39, 38, 25],
        "d": [0, 78, 44, 38, 87],
        "m": [0, 13, 71, 38, 93],
        "x": [0, 91, 39, 38, 91],
    }
    assert labels_of(keys, labels).tolist() == [0, 50, 34, 65, 3]
    pieces = pa.concat_tables([keys.slice(3), keys.slice(0, 3)])
    assert labels_of(pieces, labels).tolist() == [65, 3, 0, 50, 34]


@pytest.mark.parametrize("column", [range(100_000), map(str, range(100_000)), (f"user {n:09}" for n in range(100_000))])
def test_buckets_hold_about_the_same_number_of_keys(column):
    counts = Counter(labels_of(pa.table({"key": pa.array(column)}), tuple(range(16))).tolist())
    assert len(counts) == 16
    assert max(counts.values()) < 1.05 * 100_000 / 16
