"""`definition.at`: training rows equal raw records and what a reader answers at the same instants."""

import random
from datetime import timedelta

import pyarrow as pa
import pytest
from serving.test_reader import (
    CASES,
    DAY,
    EPOCH,
    HOUR,
    ORIGINS,
    RESULTS,
    compare,
    made,
    records,
)

from slicing import InvalidValue, group_by, hopping
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
                compare(values, [each for each in own if start(t) <= each["ts"] < t + until])
                if not until and cut.slice_start(cut.slice_at(t)) == t:
                    served = reader.read(key, at=t)
                    assert served.starts[name] == EPOCH + timedelta(microseconds=start(t))
                    compare(served[name], [each for each in own if start(t) <= each["ts"] < t])


def test_rows_without_a_time_are_null_and_windows_need_names(spark):
    card = group_by("user").window(hopping("10 minutes", "1 minute"), time="ts").define(n=RESULTS["n"], x=RESULTS["x"])
    held = records(5, ORIGINS[0], HOUR, count=20)
    rows = card.at(
        spine(spark, [("ada", None), ("nobody", ORIGINS[0])]), history(spark, held), spine_time="at"
    ).collect()
    assert {row["row"]: (row["n"], row["x"]) for row in rows} == {0: (None, None), 1: (0, None)}
    two = group_by("user").window(hopping("10 minutes", "1 minute"), hopping("1 hour", "1 minute"), time="ts")
    with pytest.raises(InvalidValue, match="are told apart by names"):
        two.define(n=RESULTS["n"]).at(spine(spark, []), history(spark, held), spine_time="at")
