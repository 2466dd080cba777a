"""Lookups in checkpoints of real queries, against the records that they have read."""

import json
import tarfile
from collections import defaultdict
from datetime import UTC, datetime

import pytest
from golden.checkpoint import ADVANCE, HERE, SCHEMA, SEEN, SIZE, START, records, write

import combinators as C
from slicing import InvalidType, InvalidValue, StateMismatch, describe, group_by, hopping, session, tumbling
from slicing.cli.command import REFUSED
from slicing.cli.main import main


def definition(spark, directory, window=None, per_batch=1):
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", per_batch).json(str(directory))
    window = window or hopping(f"{SIZE} seconds", f"{ADVANCE} seconds")
    return (
        group_by(stream.withWatermark("ts", "20 seconds"), "world")
        .window(window, time="ts")
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
    rows = {(row["world"], seconds(row)): row for row in frame.collect()}
    return rows


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
    assert "1 minute every 10 seconds" in text
    assert "world bigint" in text
    assert sum(bucket.keys for bucket in state.buckets) == 3
    assert state.micro_batch == made.lookup(checkpoint).first()["as_of"]["micro_batch"]
    assert state.skew >= 1
    assert "<table>" in state._repr_html_()
    assert not state.damage


def test_the_command_line_describes_a_checkpoint(spark, stopped, monkeypatch, capsys):
    monkeypatch.setattr("slicing.cli.session.session", lambda scratch: spark)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    assert main(["state", stopped[1]]) == 0
    assert "1 minute every 10 seconds" in capsys.readouterr().out
    assert main(["state", f"{stopped[1]}/nowhere"]) == REFUSED
    assert "is no checkpoint" in capsys.readouterr().err


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
    with pytest.raises(StateMismatch, match="another shape"):
        definition(spark, tmp_path, hopping("70 seconds", "7 seconds")).lookup(checkpoint).count()
    bounded = spark.createDataFrame([], "world bigint, ts timestamp, n bigint, s string")
    with pytest.raises(InvalidValue, match="reads the state of a stream"):
        made.on(bounded).lookup(checkpoint)


def test_a_checkpoint_of_format_7_can_be_asked_and_described(spark, tmp_path):
    with tarfile.open(HERE / "checkpoint7.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
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
    assert describe(spark, str(tmp_path / "checkpoint")).keys == ("world bigint",)


@pytest.fixture
def few_kept(spark):
    """Old micro-batches are removed as soon as Spark may."""
    names = {
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "100ms",
    }
    for name, value in names.items():
        spark.conf.set(name, value)
    yield
    for name in names:
        spark.conf.unset(name)


def test_lookups_while_the_query_runs_and_removes_old_micro_batches(spark, tmp_path, few_kept):
    """Every answer is of one micro-batch: its windows of an hour hold all records of the first so many files."""
    files = [[(number % 3, START + number * 5 + second, second, "a") for second in range(20)] for number in range(25)]
    source, checkpoint = tmp_path / "files", str(tmp_path / "checkpoint")
    source.mkdir()
    sums = {}
    total = 0
    for number, rows in enumerate(files):
        total += sum(n for _, _, n, _ in rows)
        sums[20 * (number + 1)] = total
    made = definition(spark, source, hopping("2 hours", "1 hour"))

    def put():
        for number, rows in enumerate(files):
            lines = [
                json.dumps({"world": w, "ts": (datetime.fromtimestamp(at, UTC)).isoformat(), "n": n, "s": s})
                for w, at, n, s in rows
            ]
            hidden = source / f".f{number}"
            hidden.write_text("\n".join(lines))
            hidden.rename(source / f"f{number:03}.json")

    put()
    writer = made.dataframe().writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.start()
    seen = []
    try:
        while not query.lastProgress and query.isActive:
            query.awaitTermination(0.2)
        while len(seen) < 200 and query.isActive and (not seen or seen[-1][1] < 20 * len(files)):
            rows = made.lookup(checkpoint, windows=tumbling("2 hours")).collect()
            (batch,) = {row["as_of"]["micro_batch"] for row in rows}
            count = sum(row["records"] for row in rows)
            assert sum(row["total"] for row in rows) == sums[count]
            seen.append((batch, count))
    finally:
        query.stop()
    assert not query.exception()
    assert seen == sorted(seen)
    assert len(seen) > 3
