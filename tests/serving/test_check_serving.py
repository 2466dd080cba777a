"""`check_serving`: training rows and served values of a sample are compared, and a difference is shown."""

import random
from collections import Counter
from itertools import pairwise
from operator import itemgetter

import pytest
from pyspark.sql import functions as F
from serving.test_reader import CASES, DAY, HOUR, MINUTE, ORIGINS, RESULTS, compare, definition, made, records
from serving.test_training import history, spine

import combinators as C
from slicing import Aggregate, InvalidType, InvalidValue, group_by, hopping, tumbling
from slicing.serving import Reader
from slicing.spark.check_serving import _shown
from slicing.windows.time.durations import show_instant

STEP = 5 * MINUTE


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
    card = group_by("user").window(hopping("1 hour", "5 minutes"), time="ts").define(n=C.count(), odd=wrong.on("x"))
    held, t = records(5, ORIGINS[0], 3 * HOUR, count=300), ORIGINS[0] + 2 * HOUR + 7
    events = history(spark, held)
    rows = spine(spark, [("ada", t)])
    with pytest.raises(
        InvalidValue, match=r"key 'ada' as of .* differ in hopping.*`at` gives .*odd.* the reader"
    ) as error:
        card.check_serving(rows, events, spine_time="at")
    starts = [each["ts"] // STEP * STEP for each in held if each["key"] == "ada" and t - 7 - HOUR <= each["ts"] < t]
    shown = [line.split() for line in str(error.value).splitlines()[1:]]
    assert shown[0] == ["from", "to", "n", "odd"]
    assert shown[1:] == [
        [show_instant(start), show_instant(start + STEP), str(n), str(n)]
        for start, n in sorted(Counter(starts).items())
    ]
    with pytest.raises(InvalidType, match="`ts` is timestamp_ntz"):
        card.check_serving(rows, events.withColumn("ts", F.col("ts").cast("timestamp_ntz")), spine_time="at")
    computed = group_by(F.col("user")).window(hopping("1 hour", "5 minutes"), time="ts").define(n=C.count())
    with pytest.raises(InvalidType, match="whose time and keys are names of columns"):
        computed.check_serving(rows, events, spine_time="at")


def test_the_slices_of_an_answer_are_those_of_the_records(tmp_path):
    windows, starts = CASES["tails"]
    card, held = definition(windows), records(5, ORIGINS[0], 3 * DAY)
    reader, t = Reader(made(tmp_path, card, held), card), ORIGINS[0] + 3 * DAY
    own = [each for each in held if each["key"] == "ada"]
    for number, (start, step) in enumerate(zip(starts, (None, HOUR, 6 * HOUR), strict=True)):
        slices = sorted(reader.slices("ada", number, t), key=itemgetter(0))
        for low, high, values in slices:
            compare(values, [each for each in own if low <= each["ts"] < high])
        assert sum(values["n"] for _, _, values in slices) == sum(start(t) <= each["ts"] < t for each in own)
        assert all(end <= begin for (_, end, _), (begin, _, _) in pairwise(slices))
        assert {high - low for low, high, _ in slices} <= {MINUTE, step}
    assert step in {high - low for low, high, _ in slices}
    assert reader.slices("nobody", 0, t) == []
    assert _shown([(at, at + 1, {"n": at}) for at in range(150)]).splitlines()[-1] == "and 50 later slices"
