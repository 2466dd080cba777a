"""Lookups in checkpoints of real queries, against the records that they have read."""

import json
import os
import re
import sys
import tarfile
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from golden.checkpoint import ADVANCE, HERE, SCHEMA, SEEN, SIZE, START, moved, records, write
from golden.make import load
from pyspark.errors import StreamingQueryException

import combinators as C
from slicing import (
    InvalidType,
    InvalidValue,
    StateMismatch,
    Trigger,
    describe,
    group_by,
    hopping,
    on_close,
    session,
    tumbling,
)
from slicing.cli.command import FAILED, REFUSED
from slicing.cli.main import main
from slicing.engines.looking import Look
from slicing.options import Options
from slicing.spark.checkpoint import OnePartition
from slicing.spark.lookup import LookupRequest
from slicing.state.format.buckets import Buckets
from slicing.state.format.header import Header


def definition(spark, directory, window=None, per_batch=1, trigger=None):
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", per_batch).json(str(directory))
    window = window or hopping(f"{SIZE} seconds", f"{ADVANCE} seconds")
    return (
        group_by(stream.withWatermark("ts", "20 seconds"), "world")
        .window(window, time="ts")
        .emit(trigger or on_close())
        .define(records=C.count(), total=C.sum("n"), most=C.max("s"), mean=C.mean("n"))
    )


def seconds(row):
    return int(row["window"]["start"].replace(tzinfo=UTC).timestamp())


def truth(files, size=SIZE, advance=ADVANCE):
    """The rows of all windows of some files: by (world, start in seconds) records, total, most."""
    held = defaultdict(list)
    for rows in files:
        for world, at, n, s in rows:
            last = at // advance * advance
            for start in range(last, last - size, -advance):
                held[world, start].append((n, s))
    return {p: (len(h), sum(n for n, _ in h), max(s for _, s in h)) for p, h in held.items()}


@pytest.fixture(scope="module")
def stopped(spark, tmp_path_factory):
    """A definition, the checkpoint that a query of it has left, and its files."""
    root = tmp_path_factory.mktemp("stopped")
    write(root / "files", 0, SEEN)
    made = definition(spark, root / "files")
    writer = made.dataframe().writeStream.format("noop").option("checkpointLocation", str(root / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(300)
    assert not query.exception()
    return made, str(root / "checkpoint")


def found(frame):
    """The rows of windows that are whole, without the column that says so of windows that are named."""
    if "known_from" in frame.columns:
        frame = frame.where("known_from is null").drop("known_from")
    return {(row["world"], seconds(row)): row for row in frame.collect()}


def rows_of(made, checkpoint):
    return found(made.lookup(checkpoint))


def equal(rows, wanted):
    return all((row["records"], row["total"], row["most"]) == wanted[place] for place, row in rows.items())


def test_a_lookup_of_a_stopped_query_has_the_windows_of_its_records(spark, stopped):
    made, checkpoint = stopped
    frame = made.lookup(checkpoint)
    assert not frame.isStreaming
    assert frame.columns == ["world", "window", "records", "total", "most", "mean", "as_of", "closed"]
    rows, wanted = found(frame), truth(records()[:SEEN])
    (as_of,) = {row["as_of"] for row in rows.values()}
    assert as_of["micro_batch"] >= SEEN - 1
    watermark = int(as_of["watermark"].replace(tzinfo=UTC).timestamp())
    assert equal(rows, wanted)
    assert {place for place in wanted if place[1] + SIZE > watermark} <= rows.keys()
    assert all(row["closed"] == (place[1] + SIZE <= watermark) for place, row in rows.items())
    assert len(rows) > 10

    some = found(made.lookup(checkpoint, keys=[1, None, 7]))
    assert some == {place: row for place, row in rows.items() if place[0] in (1, None)}
    assert some
    assert found(made.lookup(checkpoint, keys=spark.createDataFrame([(2,)], "world bigint"))) == {
        place: row for place, row in rows.items() if place[0] == 2
    }
    low, high = sorted(rows, key=lambda place: place[1])[2][1], max(place[1] for place in rows) - ADVANCE
    starts = (datetime.fromtimestamp(low, UTC), datetime.fromtimestamp(high, UTC))
    assert found(made.lookup(checkpoint, starts=starts)) == {
        place: row for place, row in rows.items() if low <= place[1] <= high
    }
    unknown = [made.lookup(checkpoint, keys=keys, starts=(0, 0)).collect() for keys in ([7, 1], range(12))]
    for keys, rows in zip(({1}, {1, 2}), unknown, strict=True):  # buckets of other keys may never have had a record
        assert keys <= {row["world"] for row in rows}
        assert len({row["world"] for row in rows}) == len(rows)
    for row in (row for rows in unknown for row in rows):
        assert (row["window"]["start"], row["closed"]) == (datetime(1970, 1, 1), True)
        assert (row["records"], row["total"], row["mean"]) == (None, None, None)
        assert row["known_from"].replace(tzinfo=UTC).timestamp() <= min(start for _, start in rows_of(made, checkpoint))
    latest = made.lookup(checkpoint, latest=True).collect()
    assert sorted(row["world"] or 0 for row in latest) == [0, 1, 2]

    other = made.lookup(checkpoint, windows=[hopping("20 seconds", "10 seconds"), tumbling("40 seconds")])
    assert other.columns == frame.columns
    wanted = {20: truth(records()[:SEEN], 20, 10), 40: truth(records()[:SEEN], 40, 40)}
    asked = other.collect()
    sizes = [int((row["window"]["end"] - row["window"]["start"]).total_seconds()) for row in asked]
    assert {*sizes} == {20, 40}
    for row, size in zip(asked, sizes, strict=True):
        assert (row["records"], row["total"], row["most"]) == wanted[size][row["world"], seconds(row)]
    beside = made.lookup(
        checkpoint, windows={"short": hopping("20 seconds", "10 seconds"), "long": hopping("60 seconds", "10 seconds")}
    )
    assert beside.columns[:4] == ["world", "window_end", "records_short", "total_short"]
    incomplete = made.lookup(checkpoint, windows=tumbling("1 hour"), incomplete=True)
    assert incomplete.columns[-1] == "known_from"
    assert all(row["known_from"] is not None for row in incomplete.collect())


def test_earlier_micro_batches_can_be_asked(stopped):
    made, checkpoint = stopped
    for batch in (0, 2):
        rows = made.lookup(checkpoint, batch=batch).collect()
        assert {row["as_of"]["micro_batch"] for row in rows} == {batch}
        reading = truth(records()[: batch + 1])
        assert equal({(row["world"], seconds(row)): row for row in rows}, reading)


def test_the_state_of_a_checkpoint_is_described(spark, stopped):
    made, checkpoint = stopped
    state = describe(spark, checkpoint)
    text = str(state)
    assert "watermark" in text
    assert "hopping('1 minute', advance='10 seconds')" in text
    assert "world bigint" in text
    assert sum(bucket.keys for bucket in state.buckets) == 3
    assert [bucket.number for bucket in state.buckets] == [*range(len(state.buckets))]
    assert state.micro_batch == made.lookup(checkpoint).first()["as_of"]["micro_batch"]
    assert state.skew >= 1
    assert "<table>" in state._repr_html_()
    assert not state.damage
    assert state.formats == (8,)
    assert state.trigger == state.trigger_state == (), "windows fire when they close"


@pytest.mark.slow
def test_why_a_result_is_what_it_is(stopped):
    """The slices of every window of a key hold its records, and end with the result that a lookup gives."""
    made, checkpoint = stopped
    held = defaultdict(list)
    for world, at, n, _ in (row for rows in records()[:SEEN] for row in rows):
        held[world].append((at, n))
    for (world, start), row in found(made.lookup(checkpoint, keys=[1, None])).items():
        why = made.why(checkpoint, world, datetime.fromtimestamp(start, UTC))
        assert (why.start, why.end) == (start * 10**6, (start + SIZE) * 10**6)
        assert (why.records, why.closed) == (row["records"], row["closed"])
        assert {name: why.results[name] for name in ("total", "most", "mean")} == {
            name: row[name] for name in ("total", "most", "mean")
        }
        for each in why.slices:
            inside = [n for at, n in held[world] if each.start <= at * 10**6 < each.end]
            assert each.records == len(inside)
            assert each.end - each.start == ADVANCE * 10**6
            assert each.partials["records"] == len(inside)
        assert why.micro_batch == row["as_of"]["micro_batch"]
    text = str(why)
    assert "total, so far" in text
    assert "late records that a slice no longer accepted are in no state" in text
    assert "<table>" in why._repr_html_()
    start = datetime.fromtimestamp(start, UTC)
    other = made.why(checkpoint, 1, start, windows=hopping("20 seconds", "10 seconds"))
    assert other.end - other.start == 20 * 10**6
    empty = made.why(checkpoint, 77, start)
    assert (empty.records, empty.results, empty.slices) == (0, {}, ())
    with pytest.raises(InvalidValue, match=r"no window of .* starts at .* all records are known from"):
        made.why(checkpoint, 1, datetime(1999, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidValue, match="Leave `end` out"):
        made.why(checkpoint, 1, start, end=datetime(1999, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidValue, match=r"windows of .* start at .*Say which one by `end`"):
        made.why(checkpoint, 1, start, windows=[hopping("20 seconds", "10 seconds"), tumbling("10 seconds")])
    with pytest.raises(InvalidType, match="`key` is one key"):
        made.why(checkpoint, [1], start)
    with pytest.raises(InvalidValue, match="`start` is a datetime with a zone"):
        made.why(checkpoint, 1, "noon")


def test_the_largest_keys_of_a_checkpoint_are_described(spark, stopped):
    state = describe(spark, stopped[1])
    assert {each.key for each in state.largest_keys} == {"1", "2", "None"}
    assert state.largest_keys[0].bytes >= state.largest_keys[-1].bytes > 0
    kept = {
        world: len({r[1] // ADVANCE for rows in records()[:SEEN] for r in rows if r[0] == world}) for world in (1, 2)
    }
    assert all(0 < each.slices <= kept[int(each.key)] for each in state.largest_keys if each.key != "None")


def test_slices_of_the_largest_keys_are_counted_once(spark, tmp_path):
    """Three micro-batches bring records of one slice of a key; the third one has another slice of it, too."""
    files, checkpoint = tmp_path / "files", str(tmp_path / "checkpoint")
    files.mkdir()
    seconds_of = [[(1, 1), (2, 2)], [(1, 3)], [(1, 5), (1, 15)]]
    for number, rows in enumerate(seconds_of):
        lines = [{"world": world, "ts": _instant(START + at), "n": 1, "s": "a"} for world, at in rows]
        (files / f"f{number}.json").write_text("\n".join(map(json.dumps, lines)))
        os.utime(files / f"f{number}.json", (1e9 + number, 1e9 + number))
    writer = definition(spark, files).dataframe().writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(300)
    assert not query.exception()
    found = {each.key: (each.slices, each.records) for each in describe(spark, checkpoint).largest_keys}
    assert found == {"1": (2, 4), "2": (1, 1)}


def _instant(second):
    return datetime.fromtimestamp(second, UTC).isoformat()


def test_the_command_line_describes_a_checkpoint(spark, stopped, monkeypatch, capsys):
    monkeypatch.setattr("slicing.cli.session.session", lambda scratch: spark)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    assert main(["state", stopped[1]]) == 0
    assert "hopping('1 minute', advance='10 seconds')" in capsys.readouterr().out
    assert main(["state", f"{stopped[1]}/nowhere"]) == REFUSED
    assert "is no checkpoint" in capsys.readouterr().err


JOB = """
import combinators as C
from slicing import group_by, hopping

def hourly(spark):
    stream = spark.readStream.schema("world bigint, ts timestamp, n bigint, s string").json({files!r})
    return (group_by(stream.withWatermark("ts", "20 seconds"), "world")
            .window(hopping("{size} seconds", "{advance} seconds"), time="ts")
            .define(records=C.count(), total=C.sum("n"), most=C.max("s"), mean=C.mean("n")))

def broken(spark):
    raise KeyError("gone")

number = 7

def nested(spark):
    stream = spark.readStream.schema("world struct<at: bigint>, ts timestamp").json({files!r})
    return (group_by(stream.withWatermark("ts", "20 seconds"), "world")
            .window(hopping("{size} seconds", "{advance} seconds"), time="ts").define(records=C.count()))

def priced(spark):
    stream = spark.readStream.schema("price decimal(10, 2), ts timestamp").json({files!r})
    return (group_by(stream.withWatermark("ts", "20 seconds"), "price")
            .window(hopping("{size} seconds", "{advance} seconds"), time="ts").define(records=C.count()))
"""


OWN_JOB = """
from __future__ import annotations
from dataclasses import dataclass
import beside_own
from beside_own import SIZE
import combinators as C
from slicing import Aggregate, group_by, hopping

@dataclass
class Settings:
    advance: str

def squares(acc, n):
    return (beside_own.added(acc[0], n), acc[1] + 1)

def made(spark):
    own = Aggregate(lambda: (0, 0), squares, lambda a, b: (a[0] + b[0], a[1] + b[1]),
                    lambda ab, a: (ab[0] - a[0], ab[1] - a[1]), lower=lambda acc: acc[0], returns="bigint")
    stream = spark.readStream.schema("world bigint, ts timestamp, n bigint, s string").json({files!r})
    return (group_by(stream.withWatermark("ts", "20 seconds"), "world")
            .window(hopping(SIZE, Settings("{advance} seconds").advance), time="ts")
            .define(records=C.count(), total=C.sum("n"), most=C.max("s"), squares=own.on("n")))
"""
"""A function of the user's own in a file, with a dataclass whose annotations are text, and a module beside it."""


@pytest.fixture
def typed(spark, monkeypatch):
    """The command line in this process, with its session."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("slicing.cli.session.session", lambda scratch: spark)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)


@pytest.fixture
def elsewhere():
    """This process is in another zone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


def test_the_command_line_prints_times_in_utc(stopped, typed, elsewhere, tmp_path, capsys):
    job = tmp_path / "job.py"
    job.write_text(JOB.format(files=str(tmp_path), size=SIZE, advance=ADVANCE))
    assert main(["state", stopped[1], "--define", f"{job}:hourly", "--keys", "world=1", "--limit", "99"]) == 0
    starts = {
        int(datetime.fromisoformat(line.split()[1]).replace(tzinfo=UTC).timestamp())
        for line in capsys.readouterr().out.splitlines()[1:]
    }
    assert starts <= {start for world, start in truth(records()[:SEEN]) if world == 1}
    assert starts


def test_the_command_line_takes_a_file_with_its_neighbours(typed, tmp_path, capsys):
    with tarfile.open(HERE / "checkpoint7.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    moved(tmp_path / "checkpoint")
    folder = tmp_path / "jobs"
    folder.mkdir()
    (tmp_path / "files").mkdir()
    (folder / "own_job.py").write_text(OWN_JOB.format(files=str(tmp_path / "files"), advance=ADVANCE))
    (folder / "beside_own.py").write_text(f"SIZE = '{SIZE} seconds'\ndef added(sum, n):\n    return sum + n * n\n")
    code = main(["state", str(tmp_path / "checkpoint"), "--define", f"{folder}/own_job.py:made", "--limit", "999"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    wanted = defaultdict(int)
    for rows in records()[:SEEN]:
        for world, at, n, _ in rows:
            for start in range(at // ADVANCE * ADVANCE, at // ADVANCE * ADVANCE - SIZE, -ADVANCE):
                wanted[str(world), start] += n * n
    lines = [line.split() for line in printed.out.splitlines()]
    assert lines[0][-3:] == ["squares", "as_of", "closed"]
    assert len(lines) > 10
    for line in lines[1:]:
        start = int(datetime.fromisoformat(line[1]).replace(tzinfo=UTC).timestamp())
        assert int(line[-4]) == wanted[line[0].replace("null", "None"), start]


def test_the_command_line_says_in_one_line_why_spark_failed(spark, stopped, typed, tmp_path, monkeypatch, capsys):
    def session(scratch):
        (scratch / "spark.log").write_text("")
        return spark

    def failing(*_, **__):
        return spark.sql("SELECT raise_error('a disk is gone')").collect()

    monkeypatch.setattr("slicing.cli.session.session", session)
    monkeypatch.setattr("slicing.spark.describe.describe", failing)
    assert main(["state", stopped[1]]) == FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert "a disk is gone" in line
    Path(re.search(r"Spark's log: (.*)\)", line)[1]).unlink()


@pytest.mark.slow
def test_the_command_line_looks_windows_up(stopped, typed, tmp_path, capsys):
    """Its rows are those of the same lookup in Python."""
    made, checkpoint = stopped
    (tmp_path / "files").mkdir()
    job = tmp_path / "job.py"
    job.write_text(JOB.format(files=str(tmp_path / "files"), size=SIZE, advance=ADVANCE))
    common = ["state", checkpoint, "--define", f"{job}:hourly"]

    def printed(*more):
        assert main([*common, *more]) == 0
        return capsys.readouterr().out.splitlines()

    def refused(*more, define="hourly"):
        assert main(["state", checkpoint, "--define", f"{job}:{define}", *more]) == REFUSED
        return capsys.readouterr().err

    (row,) = made.lookup(checkpoint, keys=[1], latest=True).collect()
    head, line = printed("--keys", "world=1", "--latest")
    assert head.split()[:5] == ["world", "window", "records", "total", "most"]
    start, end = (row["window"][at].isoformat() for at in ("start", "end"))
    assert line.split()[:5] == ["1", start, end, str(row["records"]), str(row["total"])]
    other = made.lookup(checkpoint, keys=[1], windows=hopping("20 seconds", "10 seconds")).count()
    assert len(printed("--keys", "world=1", "--windows", "20 seconds every 10 seconds", "--limit", "99")) == 1 + other
    assert printed("--limit", "2")[-1] == "more than 2: add --limit"
    assert any("total, so far" in each for each in printed("--keys", "world=1", "--why", start))
    assert "`--keys` has a value for each key column of the definition, world; got user" in refused("--keys", "user=1")
    assert "column `world` is bigint; got 'bob'" in refused("--keys", "world=bob")
    assert "column `price` is decimal(10,2); got '1.005'" in refused("--keys", "price=1.005", define="priced")
    assert "`--keys` are texts, and column `world` is struct<at:bigint>" in refused(
        "--keys", "world=1", define="nested"
    )
    null = made.lookup(checkpoint, keys=[None]).count()
    assert null
    assert len(printed("--keys", "world is null", "--limit", "99")) == 1 + null
    assert "cut at every 10 seconds" in refused("--windows", "15 seconds")
    assert "cannot be read: KeyError" in refused(define="broken")
    assert "must be what `.define(...)` returns" in refused(define="number")
    assert "is no file" in refused("--define", f"{tmp_path}/nowhere.py:hourly")


def test_what_cannot_be_asked_is_refused(spark, stopped, tmp_path):
    made, checkpoint = stopped
    with pytest.raises(InvalidValue, match="a committed micro-batch that the checkpoint still has, 0 to"):
        made.lookup(checkpoint, batch=99)
    with pytest.raises(InvalidValue, match="is no checkpoint"):
        made.lookup(str(tmp_path / "nothing"))
    with pytest.raises(InvalidValue, match=r"cut at every 10 seconds, and .* needs an edge at every 15 seconds"):
        made.lookup(checkpoint, windows=tumbling("15 seconds"))
    with pytest.raises(InvalidValue, match="is not made of slices"):
        made.lookup(checkpoint, windows=session("10 seconds"))
    with pytest.raises(InvalidType, match="a list of values of world"):
        made.lookup(checkpoint, keys="a")
    with pytest.raises(InvalidType, match="of type bigint"):
        made.lookup(checkpoint, keys=["a"])
    with pytest.raises(InvalidValue, match="Leave one out"):
        made.lookup(checkpoint, latest=True, starts=(None, None))
    with pytest.raises(StateMismatch, match="written by another query"):
        definition(spark, tmp_path, hopping("70 seconds", "7 seconds")).lookup(checkpoint).count()
    bounded = spark.createDataFrame([], "world bigint, ts timestamp, n bigint, s string")
    with pytest.raises(InvalidValue, match="reads the state of a stream"):
        made.on(bounded).lookup(checkpoint)


def test_a_checkpoint_of_format_7_can_be_asked_and_described(spark, tmp_path):
    with tarfile.open(HERE / "checkpoint7.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    moved(tmp_path / "checkpoint")
    (tmp_path / "files").mkdir()
    from golden import checkpoint as golden

    own = golden.query.__globals__["Aggregate"](
        lambda: (0, 0),
        lambda acc, n: (acc[0] + n * n, acc[1] + 1),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda ab, a: (ab[0] - a[0], ab[1] - a[1]),
        lower=lambda acc: acc[0],
        returns="bigint",
    )
    stream = spark.readStream.schema(SCHEMA).json(str(tmp_path / "files")).withWatermark("ts", "20 seconds")
    made = (
        group_by(stream, "world")
        .window(hopping(f"{SIZE} seconds", f"{ADVANCE} seconds"), time="ts")
        .define(records=C.count(), total=C.sum("n"), most=C.max("s"), squares=own.on("n"))
    )
    rows = found(made.lookup(str(tmp_path / "checkpoint")))
    assert equal(rows, truth(records()[:SEEN]))
    emitted = json.loads((tmp_path / "rows.json").read_text())
    assert not rows.keys() & {(world, start) for world, start, *_ in emitted}
    assert len(rows) > 10
    state = describe(spark, str(tmp_path / "checkpoint"))
    assert (state.keys, state.formats) == (("world bigint",), (7,))


@pytest.mark.parametrize("buckets", ["7", "renewed"])
def test_few_keys_of_a_checkpoint_of_format_7_are_read_from_all_partitions(buckets):
    """Its headers name no buckets; those that do, and the right ones, are read from few partitions."""
    text = load("every7")["scenarios"]["hopping, combined, on close"]["header"]
    if buckets == "renewed":
        head = Header.from_text(text)
        head.buckets = "8"
        text = head.to_text()
    keys = pa.table({"k0": pa.array([1], pa.int64())})

    def stored(labels, only):
        return pa.table({"bucket": labels, "page": pa.nulls(len(labels), pa.string()), "text": [text] * len(labels)})

    state = SimpleNamespace(
        partitions=8,
        newest_snapshot=lambda partition: OnePartition(partition, 1),
        buckets=lambda labels, only: SimpleNamespace(toArrow=partial(stored, labels, only)),
    )
    query = SimpleNamespace(options=Options(buckets=Buckets(8)))
    found = LookupRequest(query, None, Look(keys=keys))._of_few_partitions(state)
    assert (found is None) == (buckets == "7")


def test_one_of_several_aggregations_is_asked(spark, tmp_path):
    """Two aggregations of one query: each definition continues with its own, and `operator` says which that is."""
    write(tmp_path / "files", 0, 2)
    definitions = [definition(spark, tmp_path / "files", tumbling(f"{size} seconds")) for size in (20, 30)]
    one, other = (each.dataframe().select("world", "window", "records") for each in definitions)
    writer = one.unionAll(other).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(300)
    assert not query.exception()
    checkpoint, own = str(tmp_path / "checkpoint"), []
    for each, size in zip(definitions, (20, 30), strict=True):
        with pytest.raises(InvalidValue, match="Say which one is meant, for example operator=0"):
            each.changes(checkpoint)
        (number,) = (number for number in (0, 1) if not each.changes(checkpoint, operator=number))
        (refused, _) = each.changes(checkpoint, operator=1 - number)
        assert (refused.what, refused.allowed) == ("windows added", False)
        assert describe(spark, checkpoint, operator=number).windows == (f"tumbling('{size} seconds')",)
        own.append(number)
    assert sorted(own) == [0, 1]


def nth(state):
    """A trigger that fires windows with five records or more; `state` has the field `seen`."""

    def on_records(self, windows, at):
        windows["seen"] = windows["seen"] + windows.came
        return np.where(windows["seen"] >= 5, self.FIRE, self.CONTINUE)

    return dataclass(frozen=True)(type("Nth", (Trigger,), {"on_records": on_records, "state": state}))()


def test_the_state_of_an_own_trigger_is_described_and_compared(spark, tmp_path):
    """What a start refuses is in the list of differences beforehand."""
    write(tmp_path / "files", 0, 2)
    made = definition(spark, tmp_path / "files", tumbling("30 seconds"), trigger=nth("seen bigint"))
    writer = made.dataframe().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(300)
    assert not query.exception()
    state = describe(spark, str(tmp_path / "checkpoint"))
    assert state.trigger == ("Nth with seen bigint",)
    parts = {part.content: part for part in state.trigger_state}
    assert parts.keys() == {"record counts by slice", "fields of the trigger by window"}
    assert all(0 < part.pages < part.bytes for part in parts.values())
    assert "trigger state" in str(state)

    assert not made.changes(str(tmp_path / "checkpoint"))
    other = definition(spark, tmp_path / "files", tumbling("30 seconds"), trigger=nth("seen double"))
    (change,) = other.changes(str(tmp_path / "checkpoint"))
    assert (change.what, change.stored, change.wanted) == ("trigger state", "Nth: seen bigint", "seen double")
    assert not change.allowed
    write(tmp_path / "files", 2, 3)
    writer = other.dataframe().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException, match="is bigint in the checkpoint, and double now"):
        writer.trigger(availableNow=True).start().awaitTermination(300)


@pytest.fixture
def few_kept(spark):
    """Old micro-batches are removed as soon as Spark may."""
    names = {
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "2000",
        "spark.sql.streaming.stateStore.maintenanceInterval": "100ms",
    }
    for name, value in names.items():
        spark.conf.set(name, value)
    yield
    for name in names:
        spark.conf.unset(name)


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, pytest.param(200, marks=pytest.mark.long)])
def test_lookups_while_the_query_runs_and_removes_old_micro_batches(spark, tmp_path, few_kept, count):
    """None fails, and every answer is of one micro-batch: it holds all records of the files that were read by then."""
    source, checkpoint, written = tmp_path / "files", str(tmp_path / "checkpoint"), {}
    source.mkdir()

    def put():
        """One more file, all of one key; what is in it."""
        number = len(written)
        world, values = number % 3, [number % 17 + second for second in range(20)]
        lines = [
            {
                "world": world,
                "ts": datetime.fromtimestamp(START + number % 20 * 5 + at, UTC).isoformat(),
                "n": n,
                "s": "a",
            }
            for at, n in enumerate(values)
        ]
        hidden, name = source / f".f{number}", f"f{number:05}.json"
        hidden.write_text("\n".join(map(json.dumps, lines)))
        hidden.rename(source / name)
        written[name] = world, len(values), sum(values)

    made = definition(spark, source, hopping("2 hours", "1 hour"))
    for _ in range(3):
        put()
    writer = made.dataframe().writeStream.format("noop").option("checkpointLocation", checkpoint)
    query, seen = writer.start(), []
    try:
        query.processAllAvailable()
        for each in range(count):
            put()
            put()
            world = None if each % 2 else each % 3
            keys = None if world is None else [world]
            rows = made.lookup(checkpoint, keys=keys, windows=tumbling("2 hours")).collect()
            (batch,) = {row["as_of"]["micro_batch"] for row in rows}
            seen.append((batch, world, sum(row["records"] for row in rows), sum(row["total"] for row in rows)))
        assert query.isActive
        query.processAllAvailable()
    finally:
        query.stop()
    assert not query.exception()
    # Not by their names: a listing may have a file, and not the one that was put there just before.
    read = files_by_offset(tmp_path / "checkpoint" / "sources" / "0")
    ends = {each["batchId"]: json.loads(each["sources"][0]["endOffset"])["logOffset"] for each in query.recentProgress}
    for batch, world, count_of, total in seen:
        held = [
            written[name]
            for name, offset in read.items()
            if offset <= ends[batch] and (world is None or written[name][0] == world)
        ]
        assert (count_of, total) == (sum(each[1] for each in held), sum(each[2] for each in held))
    batches = [batch for batch, *_ in seen]
    assert batches == sorted(batches)
    assert len(set(batches)) > 1, "the query went on between lookups"
    with pytest.raises(InvalidValue, match="a committed micro-batch that the checkpoint still has"):
        made.lookup(checkpoint, batch=0)


def files_by_offset(log):
    """The files that a source has read, with the offset of each, from its log in the checkpoint."""
    entries = [line for each in log.glob("[0-9]*") for line in each.read_text().splitlines() if line.startswith("{")]
    return {Path(entry["path"]).name: entry["batchId"] for entry in map(json.loads, entries)}
