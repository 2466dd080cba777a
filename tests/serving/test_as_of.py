"""The windows as of an instant: of a reader, in training rows and in a lookup they are those of raw records."""

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from serving.test_served import (
    HOUR,
    MINUTE,
    RESULTS,
    WINDOWS,
    check,
    day_in_berlin,
    expected,
    floor,
    micros,
    run,
)
from streams import EPOCH, START, record, source, table, write

from slicing import InvalidValue, group_by, hopping, serve_to
from slicing.serving import Reader

KEYS = 40
SPACING = {"zone": HOUR, "cumulating": 20 * MINUTE}
"""The most time between records, for windows with long slices."""
GRID = {"zone": day_in_berlin, "cumulating": lambda t: floor(t, HOUR)}
"""The edge of slices before an instant."""
CHANGES = [micros(datetime(2024, *date, tzinfo=UTC)) for date in ((3, 29, 12), (10, 25, 12))]
"""Before the days on which the clocks of Berlin change."""


def feed(seed, begin, spacing):
    """Records of many keys in files; one in four is late, some also by the watermark, yet not for all windows."""
    choice, found, now = random.Random(seed), [], begin
    for _ in range(4):
        rows = []
        for _ in range(120):
            now += choice.randint(0, spacing)
            back = choice.choice([0, 0, 0, spacing * 5])
            rows.append(
                record(
                    choice.randrange(KEYS),
                    now - back,
                    n=choice.choice([None, choice.randint(-9, 2**40)]),
                    x=choice.uniform(-1, 1),
                    s=choice.choice(["a", "bb", "é"]),
                )
            )
        found.append(rows)
    return found


def definition(kind):
    windows, starts = WINDOWS[kind]
    windowed = group_by("world").window(
        *([windows[""]] if "" in windows else []), time="ts", **{n: w for n, w in windows.items() if n}
    )
    return (windowed if kind == "tail" else windowed.retain("1000 days")).define(**RESULTS), starts


def results(row, name):
    return {each: row[f"{each}_{name}" if name else each] for each in RESULTS}


def values_of(row, starts):
    """What a row says of each window: its start and its results."""
    return {name: (micros(row["starts"][name] if name else row["start"]), results(row, name)) for name in starts}


def agree(found, wanted):
    """Whether results are those of records: floats nearly."""
    close = found["x"] is None or abs(found["x"] - (wanted["x"] or 0)) < 1e-9
    return close and (found | {"x": None}) == (wanted | {"x": None})


BROAD = [(kind, begin, True) for kind in WINDOWS for begin in (CHANGES if kind in SPACING else [START])]


# The others are made of the same parts; they run with the slow tests, each with 1,000 keys and instants.
@pytest.mark.parametrize(
    ("kind", "begin", "broad"),
    [("tail", START, False), *(pytest.param(*case, marks=pytest.mark.slow) for case in BROAD)],
)
def test_the_windows_of_four_ways_are_one(spark, tmp_path, kind, begin, broad):
    card, starts = definition(kind)
    files = feed(f"{kind} {begin}", begin, SPACING.get(kind, MINUTE))
    (tmp_path / "in").mkdir()
    delay = "1 minute" if kind not in SPACING else "4 days"
    events, url = source(spark, tmp_path / "in", delay), f"sqlite:///{tmp_path}/features.db"
    each = 2 if broad else 4
    for first in range(0, 4, each):  # a restart between them
        write(list(map(table, files[first : first + each])), tmp_path / "in", first)
        run(spark, card.serve(events), serve_to(url, keep="1000 days"), tmp_path / "served")
        run(spark, card.on(events).dataframe(), lambda rows, _: rows.collect(), tmp_path / "emitted")
    records = [each for rows in files for each in rows]
    newest, choice, grid = (
        max(each["ts"] for each in records),
        random.Random(kind),
        GRID.get(kind, lambda t: floor(t, MINUTE)),
    )
    instants = [grid(choice.randint(begin, newest)) for _ in range(23 if broad else 1)] + [
        newest + 1,
        newest + 3 * HOUR,
    ]
    keys = range(0 if broad else KEYS - 5, KEYS + 1)  # the last one has no records; few are looked up in this process
    asked = [(key, t) for t in instants for key in keys]
    history = spark.createDataFrame(pa.concat_tables(list(map(table, files))))
    spine = {"world": [key for key, _ in asked], "at": [t for _, t in asked], "row": range(len(asked))}
    spine = pa.table(
        {
            name: pa.array(value, pa.timestamp("us", "UTC") if name == "at" else pa.int64())
            for name, value in spine.items()
        }
    )
    trained = {row["row"]: row for row in card.at(spark.createDataFrame(spine), history, spine_time="at").collect()}
    reader, defined = Reader(url, card), card.on(events)
    known = 0
    looked_up = {
        t: {
            row["world"]: row
            for row in defined.lookup(
                str(tmp_path / "emitted"), keys=keys, at=EPOCH + timedelta(microseconds=t)
            ).collect()
        }
        for t in instants
    }
    for number, (key, t) in enumerate(asked):
        own = [each for each in records if each["world"] == key]
        check(reader.read(key, at=t), own, starts, t)
        found = looked_up[t][key]
        for name, (start, values) in values_of(trained[number], starts).items():
            assert start == starts[name](t)
            wanted = expected([each for each in own if start <= each["ts"] < t])
            assert agree(values, wanted), (name, t)
            assert values_of(found, starts)[name][0] == start
            if results(found, name)["n"] is None:
                assert set(results(found, name).values()) == {None}
                assert micros(found["known_from"]) > start
            else:
                assert agree(results(found, name), wanted), (name, t)
                known += 1
        assert micros(found["at"]) == t
    assert known > len(asked) // 2


def test_lookups_as_of_the_watermark_and_what_they_refuse(spark, tmp_path):
    card = group_by("world").window(hopping("10 minutes", "1 minute"), time="ts").retain("1 hour").define(**RESULTS)
    (tmp_path / "in").mkdir()
    write([table([record(1, START + 30 * MINUTE), record(2, START + 35 * MINUTE + 1)])], tmp_path / "in", 0)
    defined = card.on(source(spark, tmp_path / "in", "1 minute"))
    for first in range(2):
        write([table([record(2, START + 35 * MINUTE + 1)])], tmp_path / "in", 1 + first)
        run(spark, defined.dataframe(), lambda rows, _: rows.collect(), tmp_path / "checkpoint")
    found = {row["world"]: row for row in defined.lookup(str(tmp_path / "checkpoint"), at="watermark").collect()}
    assert {key: (micros(row["at"]), micros(row["start"]), row["n"]) for key, row in found.items()} == {
        1: (START + 34 * MINUTE, START + 24 * MINUTE, 1),
        2: (START + 34 * MINUTE, START + 24 * MINUTE, 0),
    }
    old = defined.lookup(str(tmp_path / "checkpoint"), keys=[1], at=EPOCH + timedelta(days=1)).collect()
    assert [(row["n"], row["shops"]) for row in old] == [(None, None)]
    assert micros(old[0]["known_from"]) > 0
    half = {"half": hopping("30 minutes", "5 minutes")}
    (row,) = defined.lookup(
        str(tmp_path / "checkpoint"), keys=[1], at=EPOCH + timedelta(microseconds=START + 36 * MINUTE), windows=half
    ).collect()
    assert (row["n_half"], micros(row["starts"]["half"])) == (1, START + 5 * MINUTE)
    with pytest.raises(InvalidValue, match="got `latest`, which chooses windows, too"):
        defined.lookup(str(tmp_path / "checkpoint"), at="watermark", latest=True)
    eager = group_by("world").window(hopping("10 minutes", "1 minute"), time="ts").assemble("eager").define(**RESULTS)
    with pytest.raises(InvalidValue, match="`at` cannot be looked up"):
        eager.on(source(spark, tmp_path / "in", "1 minute")).lookup(str(tmp_path / "checkpoint"), at="watermark")
    named = group_by("world").window(hopping("10 minutes", "1 minute"), time="ts").define(at=RESULTS["n"])
    with pytest.raises(InvalidValue, match="have a column `at` of their own, and so has the definition"):
        named.on(source(spark, tmp_path / "in", "1 minute")).lookup(str(tmp_path / "checkpoint"), at="watermark")
