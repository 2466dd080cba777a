"""`check_serving`: training rows and served values of a sample are compared, and a difference is shown."""

import random

import pytest
from pyspark.sql import functions as F
from serving.test_reader import DAY, HOUR, ORIGINS, RESULTS, records
from serving.test_training import history, spine

import combinators as C
from slicing import Aggregate, InvalidType, InvalidValue, group_by, hopping, tumbling


@pytest.mark.slow
def test_a_sample_of_several_windows_is_the_same(spark):
    card = group_by("user").window(
        h=hopping("1 hour", "5 minutes"),
        d=hopping("1 day", "5 minutes", tail="1 hour"),
        b=tumbling("1 day", zone="Europe/Berlin"),
        time="ts",
        long=True,
    )
    choice = random.Random(1)
    held = records(5, ORIGINS[0], 2 * DAY)
    asked = [(choice.choice(["ada", "bob", "nobody"]), ORIGINS[0] + at * HOUR // 3) for at in range(0, 144, 8)]
    rows, events = spine(spark, [*asked, ("ada", None)]), history(spark, held)
    bounded = {name: result for name, result in RESULTS.items() if name != "seen"}
    assert card.define(**bounded).check_serving(rows, events, spine_time="at", instants=5) == 5


def test_a_combine_that_breaks_its_law_is_shown(spark):
    wrong = Aggregate(lambda: 0, lambda n, _: n + 1, lambda a, b: max(a, b), laws=False)
    card = group_by("user").window(hopping("1 hour", "5 minutes"), time="ts").define(n=C.count(), odd=wrong.on("n"))
    events = history(spark, records(5, ORIGINS[0], 3 * HOUR, count=300))
    rows = spine(spark, [("ada", ORIGINS[0] + 2 * HOUR + 7)])
    with pytest.raises(InvalidValue, match=r"key 'ada' as of .* differ in hopping.*`at` gives .*odd.* the reader"):
        card.check_serving(rows, events, spine_time="at")
    with pytest.raises(InvalidType, match="`ts` is timestamp_ntz"):
        card.check_serving(rows, events.withColumn("ts", F.col("ts").cast("timestamp_ntz")), spine_time="at")
    computed = group_by(F.col("user")).window(hopping("1 hour", "5 minutes"), time="ts").define(n=C.count())
    with pytest.raises(InvalidType, match="whose time and keys are names of columns"):
        computed.check_serving(rows, events, spine_time="at")
