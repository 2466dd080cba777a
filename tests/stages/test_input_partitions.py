"""Streams with several input partitions in each micro-batch, against Spark's own windows and brute force.

In most other tests a micro-batch is one file, so one input partition. Here its records lie in files of very different
lengths, each a partition of its own: some are empty, one has only records without a time, and a filter drops all of the
first. The streams begin minutes after 1970, so that their first windows hold records from before.
"""

import random
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from pyspark.sql import functions as F
from scenarios.expected import Call
from scenarios.kinds.sessions import Sessions
from scenarios.kinds.sliding import Sliding
from streams import (
    EXACT,
    HOUR,
    MINUTE,
    NO_DATA,
    OURS,
    SECOND,
    START,
    Running,
    brute,
    by_spark,
    exact_differences,
    float_differences,
    micros,
    record,
    source,
    spark_window,
    table,
    times_of,
    worlds,
    write,
)
from test_counting_spark import placed

import combinators as C
from slicing import counting, cumulating, group_by, hopping, on_close, on_update, session, sliding, unbounded

pytestmark = pytest.mark.slow

PARTS = 5
DELAY = 90 * SECOND
HOPPING = hopping("10 minutes", "3 minutes", offset="-50 seconds")
SESSION, SLIDING = session("45 seconds"), sliding("1 minute")
PERIOD, STEP, OFFSET = 2 * HOUR, 20 * MINUTE, -30 * MINUTE
CUMULATING = cumulating("2 hours", "20 minutes", offset="-30 minutes")
SPLIT = {"spark.sql.files.maxPartitionBytes": "1m", "spark.sql.files.openCostInBytes": "1m"}
"""As opening a file costs as much as a partition may have, every file is a partition."""
RESULTS = {"records": C.count(), "total": C.sum("n"), "most": C.max("n")}


# --- records --------------------------------------------------------------------------------------------------------


def records_near_1970(seed, **size):
    """Worlds by micro-batch, from twenty minutes after 1970 on; the first has windows that begin before."""
    first = [record(2, second * SECOND, n=second) for second in (-40, -1, 0, 30)]
    for each in worlds(f"input partitions {seed}", **size):
        rows = zip(each.to_pylist(), times_of(each), strict=True)
        yield [row | {"ts": at if at is None else at - START + 20 * MINUTE} for row, at in rows] + first
        first = []


def split(records, choice):
    """The files of a micro-batch: records with a time in up to three, those without in another, and noise.

    The noise, which a filter drops, is the first partition, as Spark reads the longest file first.
    """
    weights = [1, *(choice.choice([0, 1, 5, 20]) for _ in range(PARTS - 3))]
    *timed, timeless, noise = files = [[] for _ in range(PARTS)]
    for each in records:
        (file,) = choice.choices(timed, weights)
        (timeless if each["ts"] is None else file).append(each)
    noise += [record(-1, 0, n=choice.randrange(1 << 60), x=choice.random()) for _ in range(4 * len(records))]
    return files


def numbers(records):
    """(time, key, n) of each record that has a time."""
    return [(each["ts"], each["world"], each["n"]) for each in records if each["ts"] is not None]


def result(values):
    """`RESULTS` of the values of n."""
    known = [n for n in values if n is not None]
    return [len(values), sum(known) if known else None, max(known, default=None)]


# --- queries --------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """Records and files by micro-batch, and the queries that read them."""

    steps: list
    files: list
    queries: dict

    def batches(self, name):
        """(micro-batch, its records as `numbers`, its watermark) of a query."""
        read = 0
        for number, until, watermark, _ in self.queries[name].micro_batches():
            yield number, [each for step in self.steps[read:until] for each in numbers(step)], watermark
            read = until
        assert read == len(self.steps)

    def rows(self, name):
        """The rows of a query: (micro-batch, kind, key, start, end) -> results, None for what is taken back."""
        found = {}
        for batch, each in self.queries[name].output.tables.items():
            for row in each.to_pylist():
                window = row["window"] and tuple(micros(row["window"][edge]) for edge in ("start", "end"))
                place = batch, row.get("emission", "final"), row["world"], *(window or (None, None))
                assert place not in found, "a row is emitted once"
                taken_back = row.get("emission") == "merged"
                found[place] = None if taken_back else [row[result] for result in RESULTS]
        return found

    def late(self, name):
        """How many records were late for all windows."""
        return sum(self.queries[name].output.counters("late").values())


def queries(spark, folder, emission):
    """Frames by name, and the output mode of those by Spark."""
    frame = source(spark, folder, f"{DELAY} microseconds", PARTS).where("coalesce(world, 0) >= 0")
    frame = frame.withColumn("part", F.spark_partition_id())

    def ours(window, results=RESULTS, buckets=2):
        windowed = group_by(frame, "world").window(window, time="ts").emit(emission)
        return windowed.buckets(buckets).aggregate(**results)

    def theirs(window):
        part = F.max("part").alias("part")
        return frame.groupBy("world", window.alias("window")).agg(*by_spark(), part)

    catalogue = OURS | {"part": C.max("part")}
    found = {
        "hopping": ours(HOPPING, catalogue),
        "hopping by Spark": theirs(spark_window(HOPPING)),
        "cumulating": ours(CUMULATING, buckets=64),
        "sliding": ours(SLIDING),
    }
    if emission == on_close():
        found["sessions"] = ours(SESSION, catalogue)
        found["sessions by Spark"] = theirs(F.session_window("ts", "45 seconds"))
    else:
        found |= {"sessions": ours(SESSION), "unbounded": ours(unbounded())}
    return found


def counted(spark, folder):
    """Windows of so many records, and each record alone, with the place at which it was read."""
    schema = "world bigint, ts timestamp, n bigint"
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", PARTS).parquet(str(folder))
    frame = frame.where("coalesce(world, 0) >= 0").mapInArrow(placed, f"{schema}, at bigint")
    grouped = group_by(frame, "world")
    return {
        "each": grouped.window(counting(1)).aggregate(**RESULTS, at=C.max("at")),
        "counting": grouped.window(counting(7, 3)).aggregate(**RESULTS, at=C.max("at")),
    }


def late_ones(spark, folder):
    """The late records of each kind, in columns of their own, as Arrow brings no nulls of structs to Python."""
    frame = source(spark, folder, f"{DELAY} microseconds", PARTS).where("coalesce(world, 0) >= 0")
    fields = [F.col(f"late.{name}") for name in ("cause", "watermark", "record.world", "record.ts", "record.n")]
    windows = {"hopping": HOPPING, "cumulating": CUMULATING, "sessions": SESSION, "sliding": SLIDING}
    grouped = group_by(frame, "world")
    found = {
        name: grouped.window(window, time="ts").buckets(2).late("records").aggregate(**RESULTS)
        for name, window in windows.items()
    }
    return {name: each.where("late.record is not null").select(*fields) for name, each in found.items()}


@contextmanager
def settings(spark, values):
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def ran(spark, root, seed, frames, options=None, **size):
    """The case of a seed, when the queries that `frames` makes have read all of it."""
    steps, choice = list(records_near_1970(seed, **size)), random.Random(f"input partitions {seed}")
    files = [split(records, choice) for records in steps]
    write([table(each) for some in files for each in some], root / "files")
    with settings(spark, SPLIT | (options or {})):
        made = {
            name: Running(frame, root / name, {"availableNow": True}, mode=mode)
            for name, (frame, mode) in frames(spark, root / "files").items()
        }
        for each in made.values():
            each.finish()
    return Case(steps, files, made)


def in_time(spark, root, seed, emission, **size):
    """All kinds that go by event time."""

    def frames(spark, folder):
        update = emission == on_update()
        return {
            name: (frame, "update" if update and "by Spark" in name else "append")
            for name, frame in queries(spark, folder, emission).items()
        }

    return ran(spark, root, seed, frames, **size)


def late_in_time(spark, root, seed, **size):
    """The late records of all kinds that go by event time and close."""

    def frames(spark, folder):
        return {name: (frame, "append") for name, frame in late_ones(spark, folder).items()}

    return ran(spark, root, seed, frames, **size)


def by_count(spark, root, seed, **size):
    def frames(spark, folder):
        return {name: (frame, "append") for name, frame in counted(spark, folder).items()}

    return ran(spark, root, seed, frames, {NO_DATA: "false"}, **size)


# --- what has to come out -------------------------------------------------------------------------------------------


def check_hopping(case, at_least):
    ours, theirs = (case.queries[name].output.rows("world") for name in ("hopping", "hopping by Spark"))
    assert exact_differences(ours, theirs, (*EXACT, "part"))[:5] == []
    assert float_differences(ours, theirs)[:5] == []
    assert len(theirs) > at_least, "the worlds are rich enough to say something"
    assert any(begin < 0 for *_, begin in theirs), "some records from before 1970 count"
    known = brute([table(step) for step in case.steps], HOPPING, DELAY)
    for name, expected in known.counters.items():
        assert case.queries["hopping"].output.counters(name) == expected, name
    assert all(known.counters[name] for name in ("late", "late_for_some", "no_time"))


def check_sessions(case, at_least):
    ours, theirs = (case.queries[name].output.rows("world") for name in ("sessions", "sessions by Spark"))
    assert exact_differences(ours, theirs, (*EXACT, "window", "part"))[:5] == []
    assert float_differences(ours, theirs)[:5] == []
    assert len(theirs) > at_least
    assert any(begin < 0 for *_, begin in theirs)


def cumulating_windows(time):
    """Those of a record: from the start of its period to every step behind it."""
    start = (time - OFFSET) // PERIOD * PERIOD + OFFSET
    return [(start, end) for end in range(start + STEP, start + PERIOD + 1, STEP) if end > time]


def folded(batches, windows_of, update):
    """(micro-batch, kind, key, start, end) -> `result` of the windows by brute force, and how many records are late."""
    held, wanted, before, late = defaultdict(list), {}, 0, 0
    for number, records, watermark in batches:
        touched = set()
        for time, key, n in records:
            taken = [w for w in windows_of(time) if w[1] is None or w[1] > before * 1000]
            late += not taken
            for window in taken:
                held[key, window].append(n)
                touched.add((key, window))
        closed = [
            place for place in held if place[1][1] is not None and before * 1000 < place[1][1] <= watermark * 1000
        ]
        kind = "update" if update else "final"
        wanted |= {
            (number, kind, key, *window): result(held[key, window]) for key, window in (touched if update else closed)
        }
        before = watermark
    return wanted, late


def defined(batches, call):
    """The rows of sessions or sliding windows by definition in the same form, and how many records are late."""
    wanted, late = {}, 0
    for number, records, watermark in batches:
        for (kind, key, _, *edges), (held, _) in call.step(call.made(records), watermark).items():
            values = None if held is None else result([each.value for each in held])
            wanted[number, kind, key, *edges] = values
        late += sum(by_all for _, by_all in call.late())
    return wanted, late


def compare(case, name, wanted, late, at_least):
    found = case.rows(name)
    assert list(found.keys() ^ wanted.keys())[:5] == []
    assert [(place, found[place], wanted[place]) for place in wanted if found[place] != wanted[place]][:5] == []
    assert case.late(name) == late
    assert len(wanted) > at_least


def check_others(case, emission, at_least):
    """Cumulating windows by brute force, sessions and sliding windows by their definitions."""
    wanted, late = folded(case.batches("cumulating"), cumulating_windows, emission == on_update())
    compare(case, "cumulating", wanted, late, at_least)
    for name, kind in {"sessions": Sessions(SESSION), "sliding": Sliding(SLIDING)}.items():
        compare(case, name, *defined(case.batches(name), Call(kind, emission)), at_least)


def check_unbounded(case, at_least):
    wanted, late = folded(case.batches("unbounded"), lambda time: [(None, None)], update=True)
    compare(case, "unbounded", wanted, late, at_least)
    assert late == 0


def arrivals(case):
    """(micro-batch, key, n, place) of all records in the order of input partitions, if the micro-batches are right."""
    for batch, (step, files) in enumerate(zip(case.steps, case.files, strict=True)):
        rows = case.queries["each"].output.tables[batch].to_pylist()
        found, wanted = Counter((row["world"], row["total"]) for row in rows), Counter()
        for each in step:
            wanted[each["world"], each["n"]] += 1
        assert found == wanted
        sizes = Counter(row["at"] >> 33 for row in rows)
        assert sorted(sizes.values()) == sorted(len(file) for file in files[:-1] if file), "one partition for each file"
        assert 0 not in sizes, "the first one is noise"
        for row in sorted(rows, key=lambda row: row["at"]):
            yield batch, row["world"], row["total"], row["at"]


def check_counting(case, at_least):
    """Windows go by partition and place: the rows are those of the places, and those of one record show these."""
    came, wanted = defaultdict(list), {}
    for batch, world, n, at in arrivals(case):
        came[world].append((n, at))
        if len(came[world]) % 3 == 0:
            values, places = zip(*came[world][-7:], strict=True)
            wanted[world, len(came[world])] = [batch, *result(values), max(places)]
    found = {}
    for batch, each in case.queries["counting"].output.tables.items():
        for row in each.to_pylist():
            assert (row["world"], row["last_record"]) not in found, "a window is emitted once"
            found[row["world"], row["last_record"]] = [batch, *(row[name] for name in (*RESULTS, "at"))]
    assert found == wanted
    assert len(wanted) > at_least


def late_by_windows(batches, windows_of):
    """(micro-batch, cause, watermark, record) by the windows of each record, and whether they had ended."""
    before = 0
    for number, records, watermark in batches:
        for each in records:
            windows = windows_of(each[0])
            ended = sum(end <= before * 1000 for _, end in windows)
            if ended:
                yield number, "late" if ended == len(windows) else "late_for_some", before, each
        before = watermark


def late_by_definition(batches, call):
    """The same of sessions or sliding windows."""
    before = 0
    for number, records, watermark in batches:
        call.step(call.made(records), watermark)
        for each, by_all in call.late():
            yield number, "late" if by_all else "late_for_some", before, (each.time, each.key, each.value)
        before = watermark


def hopping_windows(time):
    size, advance, offset = HOPPING.size, HOPPING.advance, HOPPING.offset
    last = (time - offset) // advance * advance + offset
    return [(begin, begin + size) for begin in range(last, time - size, -advance)]


def check_late_records(case, at_least):
    """Each late record once, with its cause and the watermark; they come from several input partitions."""
    wanted = {
        "hopping": late_by_windows(case.batches("hopping"), hopping_windows),
        "cumulating": late_by_windows(case.batches("cumulating"), cumulating_windows),
        "sessions": late_by_definition(case.batches("sessions"), Call(Sessions(SESSION), on_close())),
        "sliding": late_by_definition(case.batches("sliding"), Call(Sliding(SLIDING), on_close())),
    }
    for name, expected in wanted.items():
        found = Counter(
            (batch, row["cause"], micros(row["watermark"]) // 1000, (micros(row["ts"]), row["world"], row["n"]))
            for batch, each in case.queries[name].output.tables.items()
            for row in each.to_pylist()
        )
        expected = Counter(expected)
        assert sorted(map(repr, (found - expected).elements()))[:5] == [], name
        assert sorted(map(repr, (expected - found).elements()))[:5] == [], name
        assert found.total() >= at_least, name
        assert max(parts_of(case, batch, found) for batch in range(len(case.files))) >= 2, name


def parts_of(case, batch, found):
    """From how many input partitions the late records of a micro-batch come."""
    late = {place[3] for place in found if place[0] == batch}
    return sum(not late.isdisjoint(numbers(file)) for file in case.files[batch])


# --- the tests ------------------------------------------------------------------------------------------------------

SMALL = {"files": 6, "count": 40}


@pytest.fixture(scope="module")
def closed(spark, tmp_path_factory):
    return in_time(spark, tmp_path_factory.mktemp("closed"), "closed", on_close(), **SMALL)


@pytest.fixture(scope="module")
def updated(spark, tmp_path_factory):
    return in_time(spark, tmp_path_factory.mktemp("updated"), "updated", on_update(), **SMALL)


def test_hopping_windows_are_those_of_spark(closed):
    check_hopping(closed, at_least=150)


def test_sessions_are_those_of_spark(closed):
    check_sessions(closed, at_least=100)


def test_other_kinds_are_those_of_brute_force(closed):
    check_others(closed, on_close(), at_least=50)


def test_updates_of_hopping_windows_are_those_of_spark(updated):
    check_hopping(updated, at_least=150)


def test_updates_of_other_kinds_are_those_of_brute_force(updated):
    check_others(updated, on_update(), at_least=50)
    check_unbounded(updated, at_least=30)


def test_windows_of_so_many_records_go_by_partition_and_place(spark, tmp_path):
    check_counting(by_count(spark, tmp_path, "counted", **SMALL), at_least=100)


def test_late_records_are_those_of_brute_force(spark, tmp_path):
    check_late_records(late_in_time(spark, tmp_path, "late", **SMALL), at_least=12)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_more_seeds(spark, tmp_path, seed):
    size = {"files": 9, "count": 60}
    for emission in (on_close(), on_update()):
        case = in_time(spark, tmp_path / str(emission), seed, emission, **size)
        check_hopping(case, at_least=200)
        check_others(case, emission, at_least=100)
        check_sessions(case, at_least=100) if emission == on_close() else check_unbounded(case, at_least=100)
    check_counting(by_count(spark, tmp_path / "counted", seed, **size), at_least=200)
    check_late_records(late_in_time(spark, tmp_path / "late", seed, **size), at_least=20)
