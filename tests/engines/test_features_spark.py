"""Point-in-time features on Spark: against a join by definition, against `OVER (... RANGE ...)`; what is refused."""

import random

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T
from streams import EXACT, OURS, SCHEMA, START, by_spark, exact_differences, float_differences, record, source, table
from streams import worlds as make_worlds
from test_catalogue_spark import ALL, asked, differences
from test_more_combinators_spark import prepared, rows

import combinators as C
from slicing import Aggregate, InvalidType, InvalidValue, group_by, sliding

LENGTHS = {"short": "90 seconds", "day": "1 day"}
ROWS = (*EXACT, "label")


def spine_of(records, seed, others=()):
    """Labels at times of records, a microsecond beside, and far from any; of keys without records, twice, without a
    time."""
    choice = random.Random(seed)
    times = [each["ts"] for each in records if each["ts"] is not None]
    found = [
        (world, choice.choice(times) + choice.choice([0, 0, 1, -1, 10**6, -(10**12)]))
        for world in [*(each["world"] for each in choice.sample(records, len(records) // 3)), *others]
    ]
    found += [(each["world"], each["ts"]) for each in choice.sample(records, len(records) // 3)] + found[:20]
    return pa.table(
        {
            "world": pa.array([world for world, _ in found], pa.int64()),
            "at": pa.array([time for _, time in found], pa.timestamp("us", "UTC")),
            "label": pa.array(range(len(found))),
        }
    )


def joined(frame, spine, length, inclusive, columns):
    """The same by definition: the records of the window of each label, which Spark aggregates."""
    of = frame.withColumnRenamed("world", "of")
    start = F.expr(f"at - interval {length}")
    held = (F.col("ts") >= start) & ((F.col("ts") <= F.col("at")) if inclusive else (F.col("ts") < F.col("at")))
    pairs = spine.join(of, spine["world"].eqNullSafe(of["of"]) & held)
    return {row["label"]: row for row in pairs.groupBy("label").agg(*columns).toArrow().to_pylist()}


def of_length(found, name, names):
    """The rows of one length by label, without its name, and the labels of those that are null altogether."""
    short = {row["label"]: {each: row[f"{each}_{name}"] for each in names} for row in found}
    empty = {label for label, row in short.items() if all(value is None for value in row.values())}
    return {label: row for label, row in short.items() if label not in empty}, empty


@pytest.mark.slow
@pytest.mark.versions
@pytest.mark.parametrize("inclusive", [False, True])
def test_features_of_fifty_worlds_are_those_of_a_join(spark, inclusive):
    """With disorder, duplicates, nulls, NaN and infinities; null is a key."""
    tables = make_worlds(f"features {inclusive}")
    records = pa.concat_tables(tables).cast(tables[0].schema)
    plain = records.set_column(1, "ts", records["ts"].cast(pa.int64())).to_pylist()
    frame = spark.createDataFrame(records, SCHEMA).repartition(3).cache()
    labels = spine_of(plain, 4, others=[999, None])
    spine = spark.createDataFrame(labels).repartition(2).cache()
    grouped = group_by(frame, "world").features_at(spine, **LENGTHS, time="ts", spine_time="at", inclusive=inclusive)
    found = grouped.buckets(5).aggregate(**OURS)
    assert found.columns == [*spine.columns, *(f"{name}_{each}" for each in LENGTHS for name in OURS)]
    rows_ = found.toArrow().to_pylist()
    assert sorted(row["label"] for row in rows_) == list(range(len(labels))), "each row once"
    spines = {row["label"]: (row["world"], row["at"]) for row in labels.to_pylist()}
    assert all((row["world"], row["at"]) == spines[row["label"]] for row in rows_)
    for name, length in LENGTHS.items():
        expected = joined(frame, spine, length, inclusive, by_spark())
        ours, empty = of_length(rows_, name, OURS)
        assert exact_differences(ours, expected, EXACT)[:5] == []
        assert float_differences(ours, expected)[:5] == []
        assert (len(ours) > 500, len(empty) > 50) == (True, True)
    frame.unpersist()
    spine.unpersist()


@pytest.mark.slow
def test_every_combinator_as_of_labels_is_that_of_a_join(spark):
    """The whole catalogue, whose results share fields."""
    made = list(rows(240, 8))
    frame = prepared(spark.createDataFrame(table(made), SCHEMA)).repartition(2).cache()
    spine = spark.createDataFrame(spine_of(made, 5)).cache()
    grouped = group_by(frame, "world").features_at(spine, "30 seconds", time="ts", spine_time="at")
    # Without those of no record: pyarrow takes no null struct whose fields are never null.
    found = grouped.aggregate(**asked(ALL)).where(" or ".join(f"`{name}` is not null" for name in ALL))
    held = {row["label"]: row for row in found.toArrow().to_pylist()}
    columns = [F.expr(text).alias(name) for name, (_, text) in ALL.items()]
    expected = joined(frame, spine, "30 seconds", False, columns)
    assert differences(held, expected, ALL)[:5] == []
    assert len(expected) > 100
    assert grouped.plan(**asked(ALL)).sharing.is_any


def test_features_are_those_of_over_range_on_the_union(spark):
    """Before 1970 too, without keys and with, exclusive and inclusive; equal times; by rows and by columns."""
    time = "timestamp_micros((id * 7919 % 10007 - 5000) * 1000003)"
    text = f"select id % 7 as k, {time} as ts, id % 101 as n from range(3000)"
    records = spark.sql(text)
    labels = spark.sql(text.replace("range(3000)", "range(500, 3500, 3)")).select("k", "ts", F.col("n").alias("label"))
    add = (lambda: 0, lambda acc, n: acc + n, lambda a, b: a + b)
    both = records.select("k", "ts", "n", F.lit(None).alias("label")).unionByName(
        labels.withColumn("n", F.lit(None).cast("bigint")).select("k", "ts", "n", "label")
    )
    both.createOrReplaceTempView("both")
    for keys, partition in ((("k",), "partition by k"), ((), "")):
        for inclusive, end in ((False, "1 preceding"), (True, "current row")):
            over = f"over ({partition} order by unix_micros(ts) range between 300000000 preceding and {end})"
            theirs = spark.sql(
                f"select * from (select k, ts, label, nullif(count(n) {over}, 0) as records, sum(n) {over} as total, "
                f"max(n) {over} as most from both) where label is not null"
            )
            grouped = group_by(records, *keys).features_at(labels, "5 minutes", time="ts", inclusive=inclusive)
            rows_ = Aggregate(*add, columns=False).on("n")
            ours = grouped.aggregate(records=C.count(), total=C.sum("n"), most=C.max("n"), rows=rows_)
            same = ours.where("total <=> rows").select(*theirs.columns)
            assert sorted(map(repr, same.collect())) == sorted(map(repr, theirs.collect()))
            assert theirs.count() == 1000


@pytest.mark.parametrize("buckets", [1, 4])
def test_only_what_was_known_is_that_of_a_join(spark, buckets):
    """Records that became known later, before their time, at the instant asked for, or never."""
    records = spark.sql(
        """
        select if(id % 6 = 5, null, id % 6) as k, timestamp_micros(id * 7919 % 997 * 1000000) as ts, id % 101 as n,
            if(id % 11 = 3, null, timestamp_micros((id * 7919 % 997 + id * 31 % 97 - 20) * 1000000)) as created
        from range(1500)
        """
    )
    at = "timestamp_micros(id * 523 % 1009 * 1000000) as at"
    spine = spark.sql(f"select if(id % 7 = 6, null, id % 7) as k, {at}, id from range(400)")
    grouped = group_by(records, "k").features_at(
        spine, minute="1 minute", long="10 minutes", time="ts", spine_time="at", known="created"
    )
    found = grouped.buckets(buckets).aggregate(records=C.count(), total=C.sum("n"), most=C.max("n"), newest=C.last("n"))
    assert found.columns[:3] == ["k", "at", "id"]
    of = records.withColumnRenamed("k", "of")
    for name, seconds in (("minute", 60), ("long", 600)):
        held = F.expr(f"ts >= at - interval {seconds} seconds and ts < at and created <= at")
        pairs = spine.join(of, F.col("k").eqNullSafe(F.col("of")) & held, "left").groupBy("id")
        wanted = pairs.agg(
            F.expr("nullif(count(ts), 0)"), F.sum("n"), F.max("n"), F.expr("max_by(n, struct(ts, -n))")
        ).collect()
        ours = found.select("id", *(f"{each}_{name}" for each in ("records", "total", "most", "newest"))).collect()
        assert sorted(map(tuple, ours)) == sorted(map(tuple, wanted))
        assert sum(row[1] is None for row in wanted) < 300


@pytest.mark.parametrize(
    ("change", "kind", "rule"),
    [
        ({"known": "n"}, InvalidType, "column of the type of times, timestamp; `n` is bigint"),
        ({"known": "craeted"}, InvalidValue, "craeted"),
        ({"known": 3}, InvalidType, "`known` is the name of a column; got 3"),
        ({"keys": ()}, InvalidValue, "`known` needs records with keys; got `created` and no keys"),
    ],
)
def test_knowledge_that_is_none(spark, change, kind, rule):
    records = spark.sql("select 1 as k, timestamp'2024-05-01' as ts, 1L as n, timestamp'2024-05-01' as created")
    given = {"keys": ("k",), "known": "created"} | change
    keys = given.pop("keys")
    with pytest.raises(kind, match=rule):
        group_by(records, *keys).features_at(records.select("k", "ts"), "1 day", time="ts", **given).plan(
            count=C.count()
        )


@pytest.mark.versions
def test_columns_of_a_spine_come_back_as_they_were(zone):
    """Of any type, under any name; keys that are structs, floats and null; times without a zone."""
    spine = zone.sql(
        """
        select named_struct('a', if(id % 4 = 0, null, id % 3), 'b', if(id % 2 = 0, double('nan'), -0.0D)) as `the key`,
            if(id % 5 = 4, null, timestamp_ntz'1969-12-31 23:00:00' + make_dt_interval(0, 0, 0, id)) as ts,
            array(id, null) as `a.b`, map('x', array(double('nan'))) as m, named_struct('p', date'1600-01-01') as s,
            cast(id as decimal(38, 9)) as d, cast('é' as binary) as bytes, make_dt_interval(0, 0, id) as i, id as ID2,
            timestamp'2024-03-10 03:30:00' as `at`, parse_json('{"a": 1}') as v, cast(null as void) as nothing
        from range(40)
        """
    ).drop("v", "nothing")
    records = spine.select("`the key`", "ts", F.col("ID2").alias("n"))
    grouped = group_by(records, "the key").features_at(spine, "20 seconds", time="ts", inclusive=True)
    found = grouped.buckets(3).aggregate(newest=C.max("n"), first=C.first("ts"))
    wanted = [*((field.name, field.dataType) for field in spine.schema), ("newest", T.LongType())]
    assert [(field.name, field.dataType) for field in found.schema][:-1] == wanted
    before = {row["ID2"]: row for row in spine.collect()}
    after = {row["ID2"]: row for row in found.collect()}
    assert len(after) == 40
    for number, row in after.items():
        assert [repr(row[name]) for name in spine.columns] == [repr(before[number][name]) for name in spine.columns]
        assert row["newest"] == (None if number % 5 == 4 else number)


def test_a_month_back_is_that_of_spark(spark):
    """Most records are in the last days of months; Spark goes by the zone of its session.

    Of a join, as `OVER (... RANGE ...)` of Spark never takes a row again that a window before had left.
    """
    zone = spark.conf.get("spark.sql.session.timeZone")
    shift = "make_dt_interval(cast(id * 17 % 23 * 30.4 as int) - cast(id % 5 as int), cast(id * 7 % 24 as int))"
    records = spark.sql(f"select id % 3 as k, timestamp'2024-01-31 10:00:00' + {shift} as ts, id as n from range(400)")
    records.createOrReplaceTempView("of_months")
    held = "a.k = b.k and b.ts between a.ts - interval '1' month and a.ts"
    of = f"of_months a join of_months b on {held} group by a.k, a.ts, a.n"
    theirs = spark.sql(f"select a.k, a.ts, a.n, sum(b.n) as total, count(*) as records from {of}")
    grouped = group_by(records, "k").features_at(records, "1 month", time="ts", inclusive=True, zone=zone)
    ours = grouped.aggregate(total=C.sum("n"), records=C.count())
    assert sorted(map(tuple, ours.collect())) == sorted(map(tuple, theirs.collect()))
    windows = group_by(records, "k").window(sliding("1 month", right=False, zone=zone), time="ts")
    slid = windows.aggregate(total=C.sum("n"), records=C.count())
    ends = slid.select("k", (F.col("window.end") - F.expr("interval 1 microsecond")).alias("ts"), "total", "records")
    assert sorted(map(tuple, ends.collect())) == sorted(map(tuple, theirs.drop("n").distinct().collect()))


def test_without_records_or_labels(spark):
    records = spark.createDataFrame(table([record(1, START), record(None, START), record(1, None)]), SCHEMA)
    none = records.where("n > 99")
    spine = records.select("world", "ts", "n")
    for frame, rows_, some in ((none, spine, 3), (records, spine.where("n > 99"), 0), (records, spine, 3)):
        grouped = group_by(frame, "world").features_at(rows_, hour="1 hour", time="ts", inclusive=True)
        found = grouped.aggregate(**OURS).toArrow().to_pylist()
        assert len(found) == some
        counts = [1, 1, None] if frame is records else [None] * 3
        assert [row["records_hour"] for row in found if row["ts"]] == counts[: max(0, some - 1)]
        assert all(row["records_hour"] is None for row in found if row["ts"] is None)


def refused(spark, change):
    frame = spark.sql("select 1L as user, timestamp'2024-01-01' as ts, 1.5D as amount")
    spine = spark.sql("select 1L as user, timestamp'2024-01-01' as ts, true as label")
    frame, spine, arguments, results = change(frame, spine, {"time": "ts"}, {"n": C.count()})
    return group_by(frame, "user").features_at(spine, "1 hour", **arguments).aggregate(**results)


@pytest.mark.parametrize(
    ("change", "kind", "rule"),
    [
        (
            lambda f, s, a, r: (f, s.drop("user"), a, r),
            InvalidValue,
            "key column of the spine `user` does not exist; the columns are ts, label.* rename it there",
        ),
        (
            lambda f, s, a, r: (f, s.withColumn("user", F.lit(1)), a, r),
            InvalidType,
            r"`user` must be of one type; got bigint in the records and int in the spine. Cast one",
        ),
        (
            lambda f, s, a, r: (f, s.drop("ts"), a, r),
            InvalidValue,
            "time column of the spine `ts` does not exist.* spine_time=",
        ),
        (
            lambda f, s, a, r: (f, s.withColumn("ts", F.col("ts").cast("date")), a, r),
            InvalidType,
            "`ts` must be timestamp or timestamp_ntz; got date",
        ),
        (
            lambda f, s, a, r: (f, s.withColumn("ts", F.col("ts").cast("timestamp_ntz")), a, r),
            InvalidType,
            "times must be of one type; got timestamp of the records and timestamp_ntz in column `ts`",
        ),
        (lambda f, s, a, r: (f, s, {"time": "when"}, r), InvalidValue, "time column `when` does not exist"),
        (lambda f, s, a, r: (f, s, {"time": ["ts"]}, r), InvalidType, "`time` is the name of a column; got"),
        (lambda f, s, a, r: (f, s, {**a, "spine_time": 3}, r), InvalidType, "`spine_time` is the name of a column"),
        (
            lambda f, s, a, r: (f, s, a, {"Label": C.count()}),
            InvalidValue,
            "result name `Label` collides with a column of the spine",
        ),
        (
            lambda f, s, a, r: (f, s.select("*", F.lit(1).alias("LABEL")), a, r),
            InvalidValue,
            "spine column `label` is ambiguous",
        ),
        (lambda f, s, a, r: (f, [(1, 2)], a, r), InvalidType, "the spine is a DataFrame"),
        (
            lambda f, s, a, r: (f, s.withColumn("gap", F.array(F.make_interval(F.lit(1)))), a, r),
            InvalidType,
            "spine column `gap` has type array<interval>, which Arrow cannot carry",
        ),
        (
            lambda f, s, a, r: (f, s.withColumn("gap", F.struct(F.expr("interval 1 month").alias("m"))), a, r),
            InvalidType,
            "spine column `gap` has type struct<m:interval month>, which Arrow cannot carry",
        ),
        (
            lambda f, s, a, r: (f, s, a, {"n": C.count(), "s": Aggregate(lambda: 0, lambda acc, v: v).on("amount")}),
            InvalidValue,
            r"features_at\('1 hour'\) joins partials, and `s` is eager: .* Give it a `combine`",
        ),
    ],
)
def test_what_is_refused_when_the_query_is_built(spark, change, kind, rule):
    with pytest.raises(kind, match=rule):
        refused(spark, change)


def test_streams_are_refused_with_the_remedy(spark, tmp_path):
    tmp_path.joinpath("files").mkdir()
    stream, frame = source(spark, tmp_path / "files"), spark.createDataFrame(table([record(1, START)]), SCHEMA)
    for one, other, which in ((stream, frame, "grouped DataFrame"), (frame, stream, "spine")):
        grouped = group_by(one, "world").features_at(other, "1 hour", time="ts")
        with pytest.raises(InvalidValue, match=rf"the {which} is a stream.*sliding\(.*right=False"):
            grouped.plan(n=C.count())


def test_a_plan_says_what_is_shuffled_and_joined(spark):
    frame = spark.createDataFrame(table([record(1, START)]), SCHEMA)
    grouped = group_by(frame, "world").features_at(frame, **LENGTHS, time="ts")
    plan = grouped.plan(records=C.count(), total=C.sum("x"), mean=C.mean("x"))
    assert [each.name for each in plan.assemblies] == ["records", "total", "mean"]
    assert (plan.combines(0), plan.combines(1)) == ("1 subtraction", "log2(m) combines, 2 log2(m) at worst")
    text = str(plan)
    assert "features_at(short='90 seconds', day='1 day') on bounded input" in text
    assert "a partial for each key and microsecond with records" in text
    assert "fields of total" in text
    found = grouped.plan(n=C.count_distinct("x"), k=C.count_distinct("n"), most=C.mode("n"))
    assert [found.combines(number) for number in (0, 1)] == ["no combines", "log2(m) combines, 2 log2(m) at worst"]
    assert "a value counts where a window has it first" in str(found)
    known = group_by(frame, "world").features_at(frame, "1 day", time="ts", known="ts").plan(records=C.count())
    assert known.combines(0) == "log2(m) combines, 2 log2(m) at worst"
    assert "features_at('1 day', known='ts') on bounded input" in str(known)
    assert "microsecond with records, and instant of knowledge" in str(known)
