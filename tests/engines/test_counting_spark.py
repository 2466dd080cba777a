"""Windows of so many records on Spark, against its own `row_number()` and `OVER ROWS` over the order of arrival."""

import random
from functools import reduce

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from streams import NO_DATA, Output, Running, write

import combinators as C
from slicing import Aggregate, counting, early, group_by, hopping, late_partials, on_close, on_update, processing_time
from slicing.errors import InvalidType, InvalidValue
from slicing.explain.ledgers import CountingPlan

SCHEMA = "key string, seq bigint, ts timestamp, n bigint, x double"
EACH, COUNT = 25, 8
TEXT = Aggregate(lambda: "", lambda acc, n: f"{acc}{n},")
"""Records in their order, without a `combine`."""


def made(seed):
    """Files of records, numbered in the order in which they come; times have another one."""
    rng, seq = random.Random(seed), iter(range(EACH * COUNT))
    for number in range(COUNT):
        rows = [
            (rng.choice(["a", "b", None, "d" if number > 3 else "a"]), next(seq), rng.randrange(-(10**12), 10**15))
            for _ in range(EACH)
        ]
        keys, numbers, times = zip(*rows, strict=True)
        values = [rng.choice([None, rng.randrange(-9, 99)]) for _ in rows]
        columns = [keys, numbers, pa.array(times, pa.timestamp("us", "UTC")), values, [seq / 7 for seq in numbers]]
        yield pa.table([pa.array(column) for column in columns], ["key", "seq", "ts", "n", "x"])


FILES = list(made(1))
RESULTS = {"records": C.count(), "total": C.sum("n"), "most": C.max("n"), "mean": C.mean("x"), "newest": C.last("seq")}


def by_key(frame, order_by=None):
    windowed = group_by(frame, "key").window(counting(7, 3, order_by=order_by, ttl="30 days"), time="ts")
    return windowed.aggregate(**RESULTS)


def of_all(frame, order_by=None):
    """Without keys, without a time, and by an aggregate that does not combine, beside one that does."""
    windowed = group_by(frame).window(counting(6, 4, order_by=order_by))
    return windowed.aggregate(text=TEXT.on("n"), total=C.sum("n"))


def theirs(frame, size, advance, *keys):
    """The rows by Spark, with the number of the last record that each holds."""
    ordered = Window.partitionBy(*keys).orderBy("seq")
    over = ordered.rowsBetween(1 - size, 0)
    number = F.row_number().over(ordered)
    window = F.struct(
        F.min("ts").over(over).alias("start"),
        (F.max("ts").over(over) + F.expr("interval '0.000001' second")).alias("end"),
    )
    columns = {
        "window": window if keys else F.lit(None),
        "first_record": number - F.count("*").over(over) + 1,
        "last_record": number,
        "records": F.count("*").over(over),
        "total": F.sum("n").over(over),
        "most": F.max("n").over(over),
        "mean": F.avg("x").over(over),
        "newest": F.max_by("seq", "ts").over(over),
        "text": F.array_join(F.collect_list(F.col("n").cast("string")).over(over), ","),
        "seq": F.col("seq"),
    }
    rows = frame.select(*keys, *(column.alias(name) for name, column in columns.items()))
    return rows.where(F.col("last_record") % advance == 0).toArrow().to_pylist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("counting")
    (place / "files").mkdir()
    return place


def placed(batches):
    """Where each record came: its input partition, and its place there."""
    at = TaskContext.get().partitionId() << 33
    for batch in batches:
        numbers = pa.array(range(at, at + len(batch)))
        at += len(batch)
        yield batch.append_column("at", numbers)


def in_two_parts(spark, folder, frames, cuts=()):
    """Queries by name over half of the files, then over the rest; micro-batches in `cuts` fail after all their work."""
    write(FILES[:4], folder / "files")
    spark.conf.set(NO_DATA, "false")
    try:
        found = {
            name: Running(frame, folder / name, {"availableNow": True}, Output(cuts={*cuts}))
            for name, frame in frames.items()
        }
        for each in found.values():
            each.finish()
        write(FILES[4:], folder / "files", 4)
        for each in found.values():
            each.start()
        for each in found.values():
            each.finish()
    finally:
        spark.conf.unset(NO_DATA)
    return found


def read(spark, folder, per_batch):
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", per_batch)
    return reader.parquet(str(folder / "files"))


@pytest.fixture(scope="module")
def runs(spark, folder):
    """A file a micro-batch; two of them run again."""
    frame = read(spark, folder, 1)
    return in_two_parts(spark, folder, {"by key": by_key(frame), "of all": of_all(frame)}, (1, 5))


@pytest.fixture(scope="module")
def each(spark, tmp_path_factory):
    """Each record alone, of two files a micro-batch."""
    folder = tmp_path_factory.mktemp("each")
    (folder / "files").mkdir()
    ids = read(spark, folder, 2).mapInArrow(placed, f"{SCHEMA}, at bigint")
    frame = group_by(ids).window(counting(1)).aggregate(at=C.max("at"))
    return in_two_parts(spark, folder, {"each": frame})["each"]


def by_place(rows, *keys):
    """Rows by key and number of the last record."""
    found = {}
    for row in rows:
        place = (*(row[key] for key in keys), row["last_record"])
        assert place not in found, "a window goes out once"
        found[place] = row
    return found


def batches(run):
    """Rows of a stream with `batch`, the micro-batch that brought each."""
    return [row | {"batch": batch} for batch, each in sorted(run.output.tables.items()) for row in each.to_pylist()]


def same(ours, theirs, names, *keys):
    ours, theirs = by_place(ours, *keys), by_place(theirs, *keys)
    assert ours.keys() == theirs.keys()
    for place, row in ours.items():
        for name in names:
            wanted = theirs[place][name]
            near = pytest.approx(wanted, rel=1e-12) if isinstance(wanted, float) else wanted
            assert row[name] == near, (place, name)
    assert len(ours) > 30


@pytest.mark.slow
@pytest.mark.versions
def test_rows_of_a_stream_are_those_of_row_numbers_in_the_order_of_arrival(spark, runs, folder):
    """Each in the micro-batch in which its last record comes, over a restart and failures."""
    wanted = theirs(spark.read.parquet(str(folder / "files")), 7, 3, "key")
    names = ("window", "first_record", *RESULTS, "batch")
    same(batches(runs["by key"]), [row | {"batch": row["seq"] // EACH} for row in wanted], names, "key")
    assert not runs["by key"].output.cuts, "both micro-batches have failed once"


@pytest.mark.slow
def test_without_keys_without_a_time_and_without_combine(spark, runs, folder):
    wanted = theirs(spark.read.parquet(str(folder / "files")), 6, 4)
    texts = [row | {"text": row["text"] + "," * (row["text"] != ""), "batch": row["seq"] // EACH} for row in wanted]
    same(batches(runs["of all"]), texts, ("window", "first_record", "text", "total", "batch"))


def test_records_of_a_micro_batch_are_counted_by_input_partition_and_place(each):
    """Two files a micro-batch, read by two tasks; the id of a record has its partition in the upper bits."""
    rows = batches(each)
    assert [row["last_record"] for row in sorted(rows, key=lambda row: (row["batch"], row["at"]))] == [
        *range(1, EACH * COUNT + 1)
    ]
    assert len({row["batch"] for row in rows}) == COUNT // 2


@pytest.mark.versions
def test_bounded_rows_are_those_over_ranges_of_rows(spark, tmp_path):
    """Whatever order the records are read in."""
    write(FILES, tmp_path)
    frame = spark.read.parquet(str(tmp_path))
    mixed = frame.repartition(3, F.hash("seq"))
    ours = by_key(mixed, "seq").toArrow().to_pylist()
    same(ours, theirs(frame, 7, 3, "key"), ("window", "first_record", *RESULTS), "key")
    ours = of_all(mixed.withColumn("place", F.struct("seq")), "place.SEQ").toArrow().to_pylist()
    texts = [row | {"text": row["text"] + "," * (row["text"] != "")} for row in theirs(frame, 6, 4)]
    same(ours, texts, ("window", "first_record", "text", "total"))
    # Floats with NaN, zeros of both signs and nulls, each of its own value but for the zeros, as Spark sorts them.
    odd = ["float('nan')", "-0.0D", "1.5D", "null", "float('inf')", "-float('inf')"]
    values = reduce(DataFrame.unionAll, [spark.sql(f"select {v} as x, {i} as n") for i, v in enumerate(odd)])
    text = group_by(values).window(counting(6, order_by="x")).aggregate(text=TEXT.on("n")).first()["text"]
    assert text == "".join(f"{row['n']}," for row in values.orderBy("x").collect())


SHORT = [
    (on_close(), []),
    (early(records=100, per="window"), [(5, 5)]),
    (early(records=100), [(5, 5)]),
    (early(final=True), [(5, 5)]),
    (early(every="1 hour"), [(5, 5)]),
    (early(records=100, per="window", final=False), []),
]


@pytest.mark.parametrize(("emission", "more"), SHORT)
def test_a_short_last_window_of_bounded_input_fires_with_an_early_trigger_that_is_final(spark, emission, more):
    windowed = group_by(spark.range(1, 6)).window(counting(2, order_by="id")).emit(emission)
    rows = windowed.aggregate(records=C.count(), total=C.sum("id")).collect()
    found = sorted((row["first_record"], row["last_record"]) for row in rows)
    assert found == [(1, 2), (3, 4), *more]
    assert all(row["total"] == sum(range(row["first_record"], row["last_record"] + 1)) for row in rows)


def test_a_plan_says_what_is_kept(spark, folder):
    stream = spark.readStream.schema(SCHEMA).parquet(str(folder / "files"))
    plan = group_by(stream, "key").window(counting(100, 10), time="ts").plan(**RESULTS)
    assert isinstance(plan, CountingPlan)
    assert "counting(100, advance=10) on a stream" in str(plan)
    whole = group_by(stream, "key").window(counting(100, 10)).plan(text=TEXT.on("n"))
    assert "records" in str(whole)


REFUSED = [
    (lambda w: w.emit(on_update()), "windows that are not full"),
    (lambda w: w.emit(early(records=3)), "windows that are not full"),
    (lambda w: w.grace("1 minute"), "nothing is late where time closes no window"),
    (lambda w: w.assemble("two_layer"), "is a tree of slices in time"),
]


@pytest.mark.parametrize(("option", "text"), REFUSED)
def test_what_has_no_meaning_is_refused(spark, folder, option, text):
    stream = spark.readStream.schema(SCHEMA).parquet(str(folder / "files"))
    with pytest.raises(InvalidValue, match=text):
        option(group_by(stream, "key").window(counting(5), time="ts")).aggregate(n=C.count())


def test_what_columns_it_needs(spark, folder):
    stream = spark.readStream.schema(SCHEMA).parquet(str(folder / "files"))
    bounded = spark.read.schema(SCHEMA).parquet(str(folder / "files"))

    def refused(frame, window, text, time="ts", error=InvalidValue, key="key", **results):
        with pytest.raises(error, match=text):
            group_by(frame, key).window(window, time=time).aggregate(**(results or {"n": C.count()}))

    refused(stream, counting(5, order_by="seq"), "records of a stream are counted as they come")
    refused(bounded, counting(5, 2), r'counting\(5, advance=2, order_by="seq"\)')
    refused(bounded, counting(5, order_by="sqe"), "order column `sqe` does not exist")
    refused(
        bounded.withColumn("list", F.array("n")),
        counting(5, order_by="list"),
        "order column `list` has type",
        error=InvalidType,
    )
    refused(stream, counting(5), "whatever the clock", time=processing_time())
    refused(stream, counting(5), "first_record", first_record=C.count())
    refused(stream.withColumnRenamed("key", "last_record"), counting(5), "`last_record`", key="last_record")
    refused(stream, counting(5000, 1), "Above R = 100 that has to be asked for", joined=TEXT.on("n"))
    refused(stream, counting(5), "goes by the event time", time=None, first=C.first("n"))
    refused(stream, hopping("1 hour", "1 minute"), "name of a column, or processing_time", time=None, error=InvalidType)
    with pytest.raises(InvalidValue, match="late rows are tagged"):
        late_partials(group_by(stream, "key").window(counting(5)).late("partials").aggregate(n=C.count()))
