"""The combinators that count values, sketch and collect them, on Spark: against its own functions, and on a stream."""

import math
import random
from datetime import UTC, datetime
from importlib.util import find_spec

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F
from streams import START, record, run, source, spark_window, table, write

import combinators as C
from slicing import InvalidType, InvalidValue, group_by, hopping
from slicing.errors import SlicingError

WINDOW = hopping("30 seconds", "6 seconds")
EXACT = {
    "distinct": (C.count_distinct("x", limit=99), "count(distinct x)"),
    "words": (C.count_distinct("s", limit=99), "count(distinct s)"),
    "quartiles": (C.percentile("n", [0.25, 0.5, 0.9], limit=99), "percentile(n, array(0.25, 0.5, 0.9))"),
    "tenth": (C.percentile("m", 0.1, limit=99), "percentile(m, 0.1)"),
    "middle": (C.median("x", limit=99), "median(x)"),
    "often": (C.mode("s", limit=99), "mode(s, true)"),
    "often_x": (C.mode("x", limit=99), "mode(x, true)"),
    "all": (C.collect_list("n", limit=99), "transform(array_sort(collect_list(struct(ts, n))), p -> p.n)"),
    "numbers": (
        C.collect_list("x", limit=99),
        "transform(filter(array_sort(collect_list(struct(ts, x))), p -> p.x is not null), p -> p.x)",
    ),
    "days": (C.collect_set("d", limit=99), "array_sort(collect_set(d))"),
    "instants": (C.collect_set("ts", limit=99), "array_sort(collect_set(ts))"),
    "amounts": (C.collect_set("m", limit=99), "array_sort(collect_set(m))"),
    "marked": (C.sum("n", where="even"), "sum(n) filter (where even)"),
    "marked_records": (C.count(where="even"), "count(*) filter (where even)"),
    "marked_last": (C.last("s", where="even"), "max_by(s, ts) filter (where even)"),
    "candle": (
        C.ohlc("n", "f"),
        "struct(min_by(n, ts) as open, max(n) as high, min(n) as low, max_by(n, ts) as close, sum(f) as volume)",
    ),
    "nested": (
        C.struct(a=C.struct(most=C.max("d")), b=C.count("f")),
        "struct(struct(max(d) as most) as a, count(f) as b)",
    ),
    "reduced": (C.reduce(max, "n"), "max(n)"),
    "some": (C.any_value("s"), "min(s)"),
    "growth": (C.delta("n"), "cast(max_by(n, ts) - min_by(n, ts) as double)"),
    "joined": (
        C.string_agg("s", "-", limit=99),
        "array_join(transform(array_sort(collect_list(struct(ts, s))), p -> p.s), '-')",
    ),
    "first_two": (C.first_n("n", 2), "slice(transform(array_sort(collect_list(struct(ts, n))), p -> p.n), 1, 2)"),
}
"""Combinators, and what they are in Spark's SQL."""
NEAR = {
    "about": (C.approx_count_distinct("n", 0.02), "count(distinct n)", lambda x, y: abs(x - y) <= 1),
    "relative": (
        C.percentile_relative("n", 0.5),
        "array_sort(collect_list(n))[cast(floor((count(n) - 1) / 2) as int)]",
        lambda x, y: abs(x - y) <= 0.01 * abs(y),
    ),
    "top": (
        C.top_k("s", 1, limit=99),
        "mode(s, true)",
        lambda x, y: [item["value"] for item in x] == [y],
    ),
    "frequent": (C.top_k("n", 2, exact=False), "count(n)", lambda x, y: 0 < sum(item["count"] for item in x) <= y),
    "between": (C.histogram("n", [0, 50, 100]), "count(n)", lambda x, y: sum(x) == y),
    "lasting": (
        C.time_in_state("s", limit=99),
        "(unix_micros(max(ts)) - unix_micros(min(ts))) / 1e6",
        lambda x, y: math.isclose(sum(item["seconds"] for item in x), y, abs_tol=1e-9),
    ),
}
if find_spec("datasketches"):
    NEAR["sampled"] = (
        C.approx_percentile("n", 0.5, 1000),
        "approx_percentile(n, 0.5, 1000)",
        lambda x, y: abs(x - y) <= 100,
    )


def rows(count, seed):
    """Records of distinct times, whose text is never null; numbers repeat."""
    choice = random.Random(seed)
    for at in range(count):
        yield record(
            choice.randrange(3),
            START + at * 450_001 + choice.randrange(400_000),
            n=choice.randrange(100),
            x=choice.choice([0.0, -0.0, 1.5, math.nan, 7.25, None]),
            s=choice.choice(["a", "b", "é", "", "zz"]),
            d=datetime(2024, 2, 1 + choice.randrange(9), tzinfo=UTC).date(),
        )


def prepared(frame):
    return frame.withColumn("even", F.when(F.col("f") % 5 > 0, F.col("n") % 2 == 0))


def compare(found, expected):
    """Rows by key and start of the window."""
    pairs = [{(row["world"], row["window"]["start"]): row for row in table.to_pylist()} for table in (found, expected)]
    assert pairs[0].keys() == pairs[1].keys()
    assert len(pairs[0]) > 20
    differences = []
    for place, mine in pairs[0].items():
        theirs = pairs[1][place]
        differences += [(place, name, mine[name], theirs[name]) for name in EXACT if not same(mine[name], theirs[name])]
        differences += [
            (place, name, mine[name], theirs[name])
            for name, (_, _, near) in NEAR.items()
            if not near(mine[name], theirs[name])
        ]
    assert differences[:5] == []


def same(x, y):
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, float) and isinstance(y, float):
        # Interpolated percentiles are rounded in another order.
        return math.isclose(x, y, rel_tol=1e-12) or (x != x and y != y)
    return x == y


def ours(frame, window=WINDOW):
    asked = {name: bound for name, (bound, *_) in (EXACT | NEAR).items()}
    # A Column needs a session, so that it cannot be made while this module is read.
    asked["marked"] = C.sum("n", where=F.col("even") & (F.col("n") >= 0))
    return group_by(frame, "world").window(window, time="ts"), asked


def by_spark(frame):
    columns = [F.expr(text).alias(name) for name, (_, text, *_) in (EXACT | NEAR).items()]
    return frame.groupBy("world", spark_window(WINDOW)).agg(*columns)


def test_windows_are_those_of_spark(spark):
    frame = prepared(spark.createDataFrame(table(list(rows(400, 1)))).repartition(2)).cache()
    windowed, asked = ours(frame)
    found, expected = windowed.aggregate(**asked), by_spark(frame)
    wanted = {field.name: field.dataType.simpleString() for field in expected.schema}
    types = {field.name: field.dataType.simpleString() for field in found.schema}
    assert {name: types[name] for name in EXACT} == {name: wanted[name] for name in EXACT}
    compare(found.toArrow(), expected.toArrow())
    frame.unpersist()


@pytest.mark.slow
def test_a_stream_goes_on_after_a_restart_and_puts_late_partials_out(spark, tmp_path):
    records = list(rows(200, 2))
    tables = [table(records[at : at + 40]) for at in range(0, 200, 40)]
    late = [{**each, "s": "late"} for each in records[:20]]
    end = [record(0, START + 10**10)]
    write(tables[:3], tmp_path / "files")
    stream = prepared(source(spark, tmp_path / "files", "5 seconds"))
    windowed, asked = ours(stream)
    frame = windowed.late("partials").aggregate(**asked)
    frame = frame.withColumn("was_late", F.col("late").isNotNull()).drop("late")
    run(frame, checkpoint=tmp_path / "checkpoint")
    write([*tables[3:], table(late), table(end)], tmp_path / "files", first=3)
    (second,) = run(frame, checkpoint=tmp_path / "checkpoint")
    (whole,) = run(frame)
    together, again = (
        pa.concat_tables([batch for batch in output.tables.values() if len(batch)]) for output in (whole, second)
    )
    was_late = together["was_late"]
    expected = by_spark(prepared(spark.createDataFrame(table(records))))
    compare(together.filter(pc.invert(was_late)), expected.toArrow())
    refused = together.filter(was_late).to_pylist()
    assert {word for row in refused for word in row["joined"].split("-")} == {"late"}
    # What continues from a checkpoint puts out the rest of what a query puts out that was never stopped.
    assert len(again) < len(together)
    assert set(map(repr, again.to_pylist())) <= set(map(repr, together.to_pylist()))


def test_a_stream_needs_limits_where_windows_overlap(spark, tmp_path):
    write([table(list(rows(3, 3)))], tmp_path / "files")
    stream = prepared(source(spark, tmp_path / "files"))
    for bound in (C.count_distinct("n"), C.collect_list("n"), C.counter_rate("n"), C.top_k("n", 3)):
        with pytest.raises(InvalidValue, match=r"`kept` is .*, which keeps every .* here R = 5, .* `limit=10_000`"):
            group_by(stream, "world").window(WINDOW, time="ts").aggregate(kept=bound)
        group_by(stream, "world").window(hopping("1 minute", "1 minute"), time="ts").aggregate(kept=bound)
        group_by(spark.createDataFrame(table([]))).window(WINDOW, time="ts").aggregate(kept=bound)


def test_what_a_query_refuses(spark):
    frame = prepared(spark.createDataFrame(table(list(rows(3, 3)))))
    windowed = group_by(frame, "world").window(WINDOW, time="ts")
    with pytest.raises(InvalidType, match=r"`sum\(n\) where x` takes a column of booleans; `x` is double"):
        windowed.aggregate(total=C.sum("n", where="x"))
    with pytest.raises(InvalidValue, match="column `nope` does not exist"):
        windowed.aggregate(total=C.sum("n", where="nope"))
    with pytest.raises(InvalidValue, match=r"two results are called `a\.b`"):
        windowed.aggregate(**{"a.b": C.count(), "a": C.struct(b=C.count())})
    with pytest.raises(InvalidValue, match="collides"):
        windowed.aggregate(world=C.struct(b=C.count()))
    with pytest.raises(SlicingError, match="associativity"):
        windowed.aggregate(odd=C.reduce(lambda a, b: a - b, "n"))


def test_a_window_beyond_its_limit_is_named(spark):
    frame = spark.createDataFrame(table(list(rows(200, 4))))
    query = group_by(frame, "world").window(WINDOW, time="ts").aggregate(kept=C.collect_list("n", limit=15))
    with pytest.raises(Exception, match=r"TooLarge: `collect_list\(n\)` keeps every record .* for key \(\d,\) in "):
        query.collect()


def test_a_plan_prints_bytes_of_partials(spark):
    frame = spark.createDataFrame(table(list(rows(3, 3))))
    plan = (
        group_by(frame, "world")
        .window(WINDOW, time="ts")
        .plan(about=C.approx_count_distinct("n"), spread=C.histogram("n", range(11)), candle=C.ohlc("n", where=None))
    )
    assert [each.partial_bytes for each in plan.assemblies[:2]] == [512, 80]
    assert [each.name for each in plan.assemblies][2:] == ["candle.open", "candle.high", "candle.low", "candle.close"]
