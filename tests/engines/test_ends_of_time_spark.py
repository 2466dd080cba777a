"""Records at the ends of Spark's timestamps on real queries: no row is wrapped, and no query stops."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from streams import START

import combinators as C
from slicing import assigned_by, counting, cumulating, group_by, hopping, session, sliding, tumbling
from slicing.windows.time.edges import AFTER, BEFORE

HOUR = 3600 * 10**6
KINDS = {
    "hopping": (hopping("1 hour", "30 minutes"), 2),
    "sessions": (session("10 minutes"), 1),
    "assigned": (assigned_by(lambda time: [(time, time + HOUR), (time - HOUR, time + 1)]), 2),
    "tumbling": (tumbling("1 hour"), 1),
    "cumulating": (cumulating("1 day", "12 hours", zone="Europe/Berlin"), 2),
    "sliding": (sliding("10 minutes"), 1),
    "counting": (counting(1, order_by="n"), 1),
}
SHORT = "hopping", "sessions", "assigned"


@pytest.fixture(scope="module")
def records(spark):
    times = pa.array([AFTER, START + HOUR - 1, BEFORE], pa.int64())
    frame = spark.createDataFrame(pa.table({"micros": times, "n": pa.array([1, 10, 100])}))
    return frame.withColumn("ts", F.timestamp_micros("micros")).drop("micros")


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.slow) for name in KINDS]
)
def test_records_between_the_ends_are_in_their_windows(records, name):
    window, count = KINDS[name]
    found = group_by(records).window(window, time="ts").aggregate(total=C.sum("n"))
    bounds = [F.unix_micros(f"window.{end}").alias(end) for end in ("start", "end")]
    rows = {(row["start"], row["end"]): row["total"] for row in found.select(*bounds, "total").collect()}
    assert all(start <= end for start, end in rows)
    near = [total for (start, _), total in rows.items() if abs(start - START) < 30 * HOUR]
    assert near == [10] * count
    # The first instant begins a session, and is in a count window.
    own = {"sessions": {(BEFORE, BEFORE + HOUR // 6): 100}, "counting": {(BEFORE, BEFORE + 1): 100}}
    own["assigned"] = {(BEFORE, BEFORE + HOUR): 100}
    assert {place: total for place, total in rows.items() if total != 10} == own.get(name, {})


@pytest.mark.parametrize("inclusive", [False, True])
def test_features_at_the_ends(records, inclusive):
    spine = records.select("ts", F.col("n").alias("label"))
    found = group_by(records).features_at(spine, "1 hour", time="ts", inclusive=inclusive).aggregate(total=C.sum("n"))
    wanted = {1: 1, 10: 10, 100: 100} if inclusive else {1: None, 10: None, 100: None}
    assert {row["label"]: row["total"] for row in found.select("label", "total").collect()} == wanted
