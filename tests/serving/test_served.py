"""Values of keys from a store that a stream has written: against raw records, at random keys and instants."""

import math
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import functions as F
from serving import stored
from streams import EPOCH, HOUR, MINUTE, START, record, source, table, write

import combinators as C
from slicing import InvalidType, cumulating, group_by, hopping, serve_to
from slicing.serving import Reader

BERLIN = ZoneInfo("Europe/Berlin")
RESULTS = stored.RESULTS | {"day": C.max("d")}


def floor(time, length):
    return time // length * length


def hop(size, advance):
    return lambda t: floor(t, advance) - size


def tail(size, advance, step):
    return lambda t: floor(floor(t, advance) - size, step)


def day_in_berlin(t):
    """The start of the day in Berlin that holds the microsecond before an instant."""
    local = (EPOCH + timedelta(microseconds=t - 1)).astimezone(BERLIN)
    return micros(datetime(local.year, local.month, local.day, tzinfo=BERLIN))


def days_in_berlin(t):
    """The start of the two days in Berlin that had ended at an instant."""
    local = (EPOCH + timedelta(microseconds=t)).astimezone(BERLIN)
    return micros(datetime(local.year, local.month, local.day, tzinfo=BERLIN) - timedelta(days=2))


def micros(instant):
    return (instant.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)


WINDOWS = {
    "hopping": ({"": hopping("10 minutes", "1 minute")}, {"": hop(10 * MINUTE, MINUTE)}),
    "several": (
        {"m10": hopping("10 minutes", "1 minute"), "h": hopping("1 hour", "1 minute")},
        {"m10": hop(10 * MINUTE, MINUTE), "h": hop(HOUR, MINUTE)},
    ),
    "tail": (
        {"m10": hopping("10 minutes", "1 minute"), "h6": hopping("6 hours", "1 minute", tail="1 hour")},
        {"m10": hop(10 * MINUTE, MINUTE), "h6": tail(6 * HOUR, MINUTE, HOUR)},
    ),
    "zone": ({"": hopping("2 days", "1 day", zone="Europe/Berlin")}, {"": days_in_berlin}),
    "cumulating": (
        {"": cumulating("1 day", "1 hour", zone="Europe/Berlin")},
        {"": day_in_berlin},
    ),
}


def definition(windows):
    grouped = group_by("world")
    unnamed = list(windows) == [""]
    windowed = grouped.window(windows[""], time="ts") if unnamed else grouped.window(**windows, time="ts")
    return windowed.define(**RESULTS)


def feed(seed, spacing, files=5):
    """Records of three keys, mostly in order, in files; late ones are within the windows."""
    choice = random.Random(seed)
    found, now = [], START
    for _ in range(files):
        rows = []
        for _ in range(60):
            now += choice.randint(0, spacing)
            late = choice.choice([0, 0, 0, spacing * 5])
            rows.append(
                record(
                    choice.randint(0, 2),
                    now - late,
                    n=choice.choice([None, choice.randint(-(2**40), 2**40)]),
                    x=choice.uniform(-1, 1),
                    s=choice.choice(["a", "bb", "", "é"]),
                    m=Decimal(choice.randint(-(10**6), 10**6)).scaleb(-2),
                )
            )
        found.append(rows)
    return found


def expected(records):
    if not records:
        return {name: 0 if name in ("n", "shops") else None for name in RESULTS}
    numbers = [each["n"] for each in records if each["n"] is not None]
    return {
        "n": len(records),
        "total": sum(numbers) if numbers else None,
        "x": math.fsum(each["x"] for each in records),
        "low": min((each["s"] for each in records), key=str.encode),
        "m": sum((each["m"] for each in records), Decimal(0)),
        "shops": len({each["s"] for each in records}),
        "day": max(each["d"] for each in records),
    }


def check(answer, records, starts, t):
    """Compare an answer with the records of its key that are before an instant."""
    for name, values in answer.items():
        start = starts[name if name in starts else ""](t)
        assert micros(answer.starts[name]) == start, (name, t)
        wanted = expected([each for each in records if start <= each["ts"] < t])
        assert values is not None, (name, t, answer.known_from)
        assert values.keys() == wanted.keys()
        for each, value in values.items():
            if each == "x" and value is not None:
                assert math.isclose(value, wanted[each], abs_tol=1e-9)
            else:
                assert value == wanted[each], (name, t, each)


def run(spark, frame, to, checkpoint):
    query = (
        frame.writeStream.outputMode("update")
        .foreachBatch(to)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def of_structs(rows):
    """Records by a struct in a struct, which may be null itself, and by a plain key."""
    inner = F.struct(F.expr("nullif(s, '')").alias("name"), F.col("d").alias("day"), (F.col("x") * 0).alias("zero"))
    return rows.withColumn("who", F.when(F.col("world") != 2, F.struct(F.col("world").alias("at"), inner.alias("of"))))


def struct_of(row):
    """The same key of a record."""
    if row["world"] == 2:
        return None
    return {"at": row["world"], "of": {"name": row["s"] or None, "day": row["d"], "zero": 0.0}}


def test_structs_are_keys(spark, tmp_path):
    """Reads, training rows and raw records agree; records are late, and a restart is between them."""
    window, start = hopping("2 hours", "1 minute"), hop(2 * HOUR, MINUTE)
    card = group_by("who", "m").window(window, time="ts").define(n=C.count(), total=C.sum("n"))
    files, url = feed(3, MINUTE), f"sqlite:///{tmp_path}/features.db"
    files = [[each | {"m": Decimal(index % 2)} for index, each in enumerate(rows)] for rows in files]
    (tmp_path / "in").mkdir()
    for first, until in ((0, 3), (3, 5)):
        write(list(map(table, files[first:until])), tmp_path / "in", first)
        events = of_structs(source(spark, tmp_path / "in", "10 minutes"))
        run(spark, card.serve(events), serve_to(url, keep="1000 days"), tmp_path / "checkpoint")
    held, choice, reader = [each for rows in files for each in rows], random.Random(1), Reader(url, card)
    spine = [choice.choice(held) | {"ts": floor(choice.choice(held)["ts"] + HOUR, MINUTE)} for _ in range(300)]
    asked, history = (of_structs(spark.createDataFrame(table(rows))) for rows in (spine, held))
    known = 0
    for row in card.at(asked.select("who", "m", "ts"), history).collect():
        t, key = micros(row["ts"]), (row["who"] and row["who"].asDict(recursive=True), row["m"])
        own = [e["n"] for e in held if (struct_of(e), e["m"]) == key and start(t) <= e["ts"] < t]
        numbers = [n for n in own if n is not None]
        wanted = {"n": len(own), "total": sum(numbers) if numbers else None}
        assert {"n": row["n"], "total": row["total"]} == wanted
        assert reader.read(key, at=t)[window] == reader.read((row["who"], row["m"]), at=t)[window] == wanted
        known += len(own)
    assert known > 300
    with pytest.raises(InvalidType, match=r"key column `who` is a struct of at, of; got .*Give a dict with these"):
        reader.read(({"at": 1}, 0))
    with pytest.raises(InvalidType, match=r"key column `who\.of\.day` is date; got 'now'"):
        reader.read(({"at": 1, "of": ("a", "now", 0.0)}, 0))


# The others are made of the same parts; they run with the slow tests.
KINDS = [pytest.param(kind, marks=() if kind == "tail" else pytest.mark.slow) for kind in WINDOWS]


@pytest.mark.parametrize("kind", KINDS)
def test_reads_equal_raw_records_after_a_restart(spark, tmp_path, kind):
    windows, starts = WINDOWS[kind]
    card = definition(windows)
    spacing, grid = SPACINGS.get(kind, (MINUTE, lambda t: floor(t, MINUTE)))
    files = feed(kind, spacing)
    url = f"sqlite:///{tmp_path}/features.db"
    (tmp_path / "in").mkdir()
    events = source(spark, tmp_path / "in", "10 minutes")
    choice, read = random.Random(1), []
    for first, until in ((0, 3), (3, 5)):
        write(list(map(table, files[first:until])), tmp_path / "in", first)
        read += [each for rows in files[first:until] for each in rows]
        run(spark, card.serve(events), serve_to(url, keep="1000 days"), tmp_path / "checkpoint")
        reader = Reader(url, card)
        newest = max(each["ts"] for each in read)
        for _ in range(500):
            t = choice.randint(START - HOUR, newest + 8 * HOUR)
            t = grid(t) if t <= newest else t
            key = choice.randint(0, 3)
            check(reader.read(key, at=t), [each for each in read if each["world"] == key], starts, t)


SPACINGS = {"zone": (HOUR, day_in_berlin), "cumulating": (20 * MINUTE, lambda t: floor(t, HOUR))}
"""The time between records, and the edges of slices, of windows with long slices."""
