"""Arrays, maps and structs as values, on Spark: against its own functions, over a restart, in lookups and late rows."""

import random
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F
from streams import START, record, run, source, spark_window, table, write

import combinators as C
from slicing import InvalidType, group_by, hopping, tumbling

WINDOW = hopping("30 seconds", "6 seconds")
STRUCT = "struct(n, s, d, ts, m)"
PAIRED = {
    "last": f"array_min(collect_list(struct(-unix_micros(ts) as o, {STRUCT} as v))).v",
    "first": f"array_min(collect_list(struct(unix_micros(ts) as o, {STRUCT} as v))).v",
    "by_text": f"max_by({STRUCT}, key)",
    "by_amount": "min_by(array(s, null, cast(n as string)), m)",
    "tags": "max_by(map(s, ts, 'k', null), ts)",
    "three": "transform(array_sort(slice(reverse(array_sort(collect_list(struct(ts, n, s)))), 1, 3)), "
    "p -> struct(p.n as n, p.s as s))",
    "all": "transform(array_sort(collect_list(struct(ts as o, map_entries(map(s, array(d))) as v))), p -> p.v)",
    "large": "max_by(struct(n, d), ts) filter (where n > 60)",
}
"""What Spark says; no two records have the same time, text or amount to go by."""


def ours():
    whole = F.struct("n", "s", "d", "ts", "m")
    return {
        "last": C.last(whole),
        "first": C.first(whole),
        "by_text": C.max_by(F.struct("n", "s", "d", "ts", "m"), "key"),
        "by_amount": C.min_by(F.expr("array(s, null, cast(n as string))"), "m"),
        "tags": C.last(F.expr("map(s, ts, 'k', null)")),
        "three": C.last_n(F.struct("n", "s"), 3),
        "all": C.collect_list(F.expr("map_entries(map(s, array(d)))"), limit=99),
        "large": C.last(F.struct("n", "d"), where=F.col("n") > 60),
    }


def prepared(frame):
    return frame.withColumn("key", F.md5(F.col("ts").cast("string")))


def rows(count, seed):
    choice = random.Random(seed)
    amounts = [Decimal(number).scaleb(-2) for number in choice.sample(range(-count, count), count)]
    for at in range(count):
        n, s = choice.randrange(100), choice.choice(["a", "b", "é", "", "zz"])
        time = START + at * 450_001 + choice.randrange(400_000)
        yield record(choice.randrange(3), time, n=n, s=s, d=date(2024, 2, 1 + choice.randrange(9)), m=amounts[at])


def by_spark(frame):
    return frame.groupBy("world", spark_window(WINDOW)).agg(*(F.expr(sql).alias(name) for name, sql in PAIRED.items()))


def by_place(found):
    return {(row["world"], row["window"]["start"]): row for row in found.to_pylist()}


def test_windows_and_types_are_those_of_spark(spark):
    frame = prepared(spark.createDataFrame(table(list(rows(300, 1)))).repartition(2)).cache()
    found = group_by(frame, "world").window(WINDOW, time="ts").aggregate(**ours())
    expected = by_spark(frame)
    wanted = {field.name: field.dataType.simpleString() for field in expected.schema}
    assert {field.name: field.dataType.simpleString() for field in found.schema} == wanted
    theirs = by_place(expected.toArrow())
    assert by_place(found.toArrow()) == theirs
    assert len(theirs) > 20
    frame.unpersist()


def test_a_record_of_a_time_stays_whole(spark):
    frame = spark.sql("select timestamp'2024-05-01' ts, n, s from values (5L, 'x'), (1L, 'z') t(n, s)")
    windowed = group_by(frame).window(tumbling("1 minute"), time="ts")
    mixed = C.struct(n=C.last("n"), s=C.last("s"))
    row = windowed.aggregate(whole=C.last(F.struct("n", "s")), mixed=mixed).first()
    assert (row.whole.asDict(), row.mixed.asDict()) == ({"n": 1, "s": "z"}, {"n": 1, "s": "x"})


@pytest.mark.slow
def test_a_stream_goes_on_after_a_restart(spark, tmp_path):
    records = list(rows(200, 2))
    tables = [table(records[at : at + 40]) for at in range(0, 200, 40)]
    write(tables[:3], tmp_path / "files")
    windowed = group_by(prepared(source(spark, tmp_path / "files", "5 seconds")), "world").window(WINDOW, time="ts")
    frame = windowed.late("partials").aggregate(**ours())
    frame = frame.withColumn("was_late", F.col("late").isNotNull()).drop("late")
    (first,) = run(frame, checkpoint=tmp_path / "checkpoint")
    definition = windowed.late("partials").define(**ours())
    looked = by_place(definition.lookup(str(tmp_path / "checkpoint")).toArrow())
    seen = by_place(by_spark(prepared(spark.createDataFrame(table(records[:120])))).toArrow())
    assert looked
    assert all(
        {name: row[name] for name in PAIRED} == {name: seen[place][name] for name in PAIRED}
        for place, row in looked.items()
    )
    write([*tables[3:], table(records[:20]), table([record(0, START + 10**10)])], tmp_path / "files", first=3)
    (second,) = run(frame, checkpoint=tmp_path / "checkpoint")
    found = pa.concat_tables([batch for output in (first, second) for batch in output.tables.values() if len(batch)])
    expected = by_place(by_spark(prepared(spark.createDataFrame(table(records)))).toArrow())
    assert by_place(found.filter(pc.invert(found["was_late"])).drop_columns("was_late")) == expected
    late = found.filter(found["was_late"]).to_pylist()
    assert sum(len(row["all"]) for row in late) == 20
    partials = definition.lookup_partials(str(tmp_path / "checkpoint"))
    assert "struct<n:bigint,s:string" in partials.schema.simpleString()


def test_records_of_process_have_maps(spark):
    frame = spark.sql("select timestamp'2024-05-01' ts, map('k', date'2024-05-01') m")
    windowed = group_by(frame).window(tumbling("1 minute"), time="ts")

    def same(key, window, records, context):
        return [(dict(records["m"].to_pylist()[0]),)]

    made = windowed.process(same, returns="m map<string,date>", columns=["m"])
    assert made.select("m").collect() == frame.select("m").collect()


def test_columns_that_cannot_be_carried(spark):
    frame = spark.sql(
        "select timestamp'2024-05-01' ts, 1L n, struct(1 as `a:b`) odd, array(interval 1 day) i, struct(1 a) s"
    )
    windowed = group_by(frame).window(tumbling("1 minute"), time="ts")
    for bound, message in [
        (C.last("odd"), "column `odd` has a field `a:b`, and names in structs have none of"),
        (C.last("i"), "column `i` has type array<interval day>, in which a type cannot be used here"),
        (C.max("s"), "column `s` has type struct<a:int>, which cannot be used here"),
        (C.max_by("n", "s"), r"takes a column of one of .*; got struct<a:int>\. Order by one of these"),
    ]:
        with pytest.raises(InvalidType, match=message):
            windowed.aggregate(x=bound)
    with pytest.raises(InvalidType, match="which cannot be used here"):
        windowed.aggregate(x=C.last("s"), y=C.count("s"))
