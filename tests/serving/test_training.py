"""`definition.at`: training rows equal raw records and what a reader answers at the same instants."""

import random
import re
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from serving.test_reader import (
    CASES,
    DAY,
    EPOCH,
    HOUR,
    MINUTE,
    ORIGINS,
    RESULTS,
    compare,
    made,
    micros,
    records,
)

import combinators as C
from slicing import InvalidType, InvalidValue, by_edges, group_by, hopping, session, unbounded
from slicing.serving import Reader

SCHEMA = pa.schema(
    [
        ("user", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("m", pa.decimal128(12, 2)),
        ("d", pa.date32()),
    ]
)


def history(spark, held):
    rows = [{**each, "user": each["key"]} for each in held]
    return spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))


def spine(spark, asked):
    rows = [{"user": key, "at": t, "row": row} for row, (key, t) in enumerate(asked)]
    schema = pa.schema([SCHEMA.field("user"), ("at", pa.timestamp("us", "UTC")), ("row", pa.int64())])
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema))


@pytest.mark.parametrize(
    "kind", ["tails", pytest.param("zone", marks=pytest.mark.slow), pytest.param("cumulating", marks=pytest.mark.slow)]
)
def test_training_rows_equal_raw_records_and_served_values(spark, tmp_path, kind):
    windows, starts = CASES[kind]
    named = {f"w{number}": window for number, window in enumerate(windows)}
    card = group_by("user").window(**named, time="ts", long=True).define(**RESULTS)
    origin, choice = ORIGINS[0], random.Random(kind)
    held = records(5, origin, 3 * DAY)
    instants = [choice.randint(origin - HOUR, origin + 4 * DAY) for _ in range(300)]
    cut = card.windowed.windows.family
    instants += [cut.slice_start(cut.slice_at(t)) for t in instants] + [each["ts"] for each in held[:50]]
    asked = [(choice.choice(["ada", "bob", "é", "nobody"]), t) for t in instants]
    found = card.at(spine(spark, asked), history(spark, held), spine_time="at").collect()
    inclusive = card.at(spine(spark, asked), history(spark, held), spine_time="at", inclusive=True).collect()
    (tmp_path / "all").mkdir()
    reader = Reader(made(tmp_path / "all", card, held), card)
    assert len(found) == len(inclusive) == len(asked)
    for rows, until in ((found, 0), (inclusive, 1)):
        for row in rows:
            key, t = asked[row["row"]]
            own = [each for each in held if each["key"] == key]
            for name, start in zip(named, starts, strict=True):
                values = {each: row[f"{each}_{name}"] for each in RESULTS}
                values["both"] = values["both"].asDict()
                assert micros(row["starts"][name]) == start(t)
                compare(values, [each for each in own if start(t) <= each["ts"] < t + until])
                if not until and cut.slice_start(cut.slice_at(t)) == t:
                    served = reader.read(key, at=t)
                    assert served.starts[name] == EPOCH + timedelta(microseconds=start(t))
                    compare(served[name], [each for each in own if start(t) <= each["ts"] < t])


def test_records_count_from_when_they_were_known(spark):
    """Equal to raw records; some become known hours later, and some before their own time."""
    windows = {"ten": hopping("10 minutes", "1 minute"), "days": hopping("2 days", "1 minute", tail="1 hour")}
    card = group_by("user").window(**windows, time="ts", long=True).define(count=C.count(), total=C.sum("n"))
    held = records(8, ORIGINS[0], 3 * DAY)
    created = F.expr("CASE WHEN pmod(hash(ts), 5) > 0 THEN timestampadd(MINUTE, pmod(hash(ts, n), 300) - 30, ts) END")
    frame = history(spark, held).withColumn("created", created)
    known = [(row["user"], micros(row["ts"]), row["created"], row["n"]) for row in frame.collect()]
    choice = random.Random(8)
    asked = [(choice.choice(["ada", "bob"]), ORIGINS[0] + choice.randrange(3 * DAY)) for _ in range(200)]
    for row in card.at(spine(spark, asked), frame, spine_time="at", known="created").collect():
        key, t = asked[row["row"]]
        for name in windows:
            since = micros(row["starts"][name])
            of = [n for k, ts, when, n in known if k == key and since <= ts < t and when and micros(when) <= t]
            values = [n for n in of if n is not None]
            assert (row[f"count_{name}"], row[f"total_{name}"]) == (len(of), sum(values) if values else None)
    with pytest.raises(InvalidType, match="`known` names a column of the type of times"):
        card.at(spine(spark, asked), frame, spine_time="at", known="n")


def test_rows_without_a_time_are_null_and_windows_need_names(spark):
    card = group_by("user").window(hopping("10 minutes", "1 minute"), time="ts").define(n=RESULTS["n"], x=RESULTS["x"])
    held = records(5, ORIGINS[0], HOUR, count=20)
    rows = card.at(
        spine(spark, [("ada", None), ("nobody", ORIGINS[0])]), history(spark, held), spine_time="at"
    ).collect()
    assert {row["row"]: (row["n"], row["x"]) for row in rows} == {0: (None, None), 1: (0, None)}
    start = datetime.fromtimestamp((ORIGINS[0] // MINUTE - 10) * 60)
    assert {row["row"]: row["start"] for row in rows} == {0: None, 1: start}
    two = group_by("user").window(hopping("10 minutes", "1 minute"), hopping("1 hour", "1 minute"), time="ts")
    with pytest.raises(InvalidValue, match="distinguished by their names"):
        two.define(n=RESULTS["n"]).at(spine(spark, []), history(spark, held), spine_time="at")


def test_keys_of_several_columns_and_structs(spark):
    rows = spark.sql(
        "select id % 2 as a, named_struct('b', id % 3, 'c', string(id % 2)) as k, id as n, "
        "timestamp_micros(id * 60000000) as ts from range(600)"
    )
    asked = rows.select("a", "k", F.timestamp_micros(F.col("n") * 61_000_000).alias("ts"), F.col("n").alias("row"))
    card = group_by("a", "k").window(hopping("1 hour", "10 minutes"), time="ts").define(n=C.count(), total=C.sum("n"))
    for row in card.at(asked, rows).collect():
        t = row["row"] * 61
        start = t // 600 * 600 - 3600
        held = [n for n in range(600) if start <= n * 60 < t and (n - row["row"]) % 6 == 0]
        assert (row["n"], row["total"]) == (len(held), sum(held) if held else None)
        assert row["start"] == datetime.fromtimestamp(start)


def test_the_plan_is_explained(spark, capsys):
    asked = spark.sql("select 'ada' as user, timestamp_micros(0) as at")
    card = group_by("user").window(hopping("1 hour", "1 minute"), time="ts").define(n=C.count(), top=C.max("n"))
    of_history = card.on(spark.sql("select 'ada' as user, timestamp_micros(0) as ts, 1 as n"))
    of_history.explain(asked, spine_time="at")
    told = capsys.readouterr().out
    assert told == f"{of_history.plan(asked, spine_time='at')}\n"
    assert "hopping('1 hour', advance='1 minute') on bounded input" in told
    assert "per row of the spine: top" in told
    with pytest.raises(InvalidType, match="has no DataFrame"):
        card.plan(asked)


def test_what_has_no_value_as_of_an_instant_is_refused(spark):
    events = spark.sql("select 'ada' as user, timestamp_micros(0) as ts, 1 as n")
    for window, reason in (
        (unbounded(ttl="1 day"), "unbounded(ttl='1 day') shares none, as it never closes"),
        (session("5 minutes"), "session('5 minutes') shares none, as records decide where it ends"),
        (by_edges(["2024-05-01 00:00Z"], ["2024-05-01 08:00Z"]), "may have gaps"),
    ):
        time = {} if isinstance(window, type(unbounded())) else {"time": "ts"}
        card = group_by("user").window(window, **time).define(n=C.count())
        with pytest.raises(InvalidValue, match=re.escape(reason)):
            card.at(events, events, spine_time="ts")
    card = group_by("user").window(hopping("1 hour", "1 minute"), time="ts").define(n=C.count())
    with pytest.raises(InvalidValue, match="have a column `start` of their own"):
        card.at(events.selectExpr("user", "ts as Start"), events, spine_time="Start")
    with pytest.raises(InvalidType, match=re.escape("`definition.at(labels, history)`")):
        card.at("labels", events)
    stream = spark.readStream.format("rate").load().selectExpr("'ada' as user", "timestamp as ts")
    with pytest.raises(InvalidValue, match=r"the history is a stream.*Reader"):
        card.at(events, stream)
