"""`serve_to`: what a stream writes in failures, from another checkpoint and after rows are not needed any more."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from serving.test_reader import HOUR, MINUTE, START, micros
from serving.test_served import run
from streams import record, source, table, write

import combinators as C
from slicing import (
    InvalidType,
    InvalidValue,
    MissingRequirement,
    group_by,
    hopping,
    on_update,
    reason,
    serve_to,
    session,
    unbounded,
)
from slicing.serving import Reader, store_of
from slicing.spark import serving

WINDOW = hopping("10 minutes", "1 minute")
CARD = group_by("world").window(WINDOW, time="ts").define(n=C.count(), x=C.sum("x"))


class Breaks:
    """A store that fails once, after the rows of a micro-batch are written and before readers are told of them."""

    def __init__(self, of):
        self.of, self.broken = of, False

    def __getattr__(self, name):
        return getattr(self.of, name)

    def publish(self, *given):
        if not self.broken and self.of._connection().execute("SELECT count(*) FROM slices").fetchone()[0]:
            self.broken = True
            raise RuntimeError("the power is gone")
        return self.of.publish(*given)


def counts(reader, t):
    return [reader.read(key, at=t)[WINDOW]["n"] for key in range(3)]


def test_micro_batches_that_fail_are_repeated_and_checkpoints_follow_each_other(spark, tmp_path):
    url, folder = f"sqlite:///{tmp_path}/features.db", tmp_path / "in"
    folder.mkdir()
    events = source(spark, folder, "1 minute")
    write([table([record(0, START), record(1, START + 1), record(1, START + MINUTE)])], folder)
    breaks = Breaks(store_of(url))
    with pytest.raises(StreamingQueryException) as failed:
        run(spark, CARD.serve(events), serve_to(breaks), tmp_path / "one")
    assert "the power is gone" in reason(failed.value)
    written = _rows(breaks.of)
    assert len(written) == 3
    with pytest.raises(InvalidValue, match="the store has no `world`"):
        Reader(url, CARD)
    run(spark, CARD.serve(events), serve_to(breaks), tmp_path / "one")
    assert _rows(breaks.of) == written
    reader = Reader(url, CARD)
    assert counts(reader, START + 5 * MINUTE) == [1, 2, 0]
    write([table([record(0, START + 2), record(2, START + 3)])], folder, 1)
    run(spark, CARD.serve(events), serve_to(url), tmp_path / "one")
    assert counts(reader, START + 5 * MINUTE) == [2, 2, 1]
    assert reader.read(0).as_of.batch > 0
    run(spark, CARD.serve(events), serve_to(url), tmp_path / "two")
    assert counts(reader, START + 5 * MINUTE) == [2, 2, 1]
    assert {row[-2] for row in _rows(breaks.of)} == {2}
    write([table([record(0, START + 4)])], folder, 2)
    with pytest.raises(StreamingQueryException) as failed:
        run(spark, CARD.serve(events), serve_to(url), tmp_path / "one")
    assert "a newer one than this has written it: epoch 2, this is 1" in reason(failed.value)
    other = group_by("world").window(WINDOW, time="ts").define(n=C.count())
    with pytest.raises(StreamingQueryException) as failed:
        run(spark, other.serve(events), serve_to(url), tmp_path / "three")
    assert "its result `x` is only there" in reason(failed.value)


def _rows(store):
    return store._connection().execute("SELECT * FROM slices ORDER BY key, slice_start").fetchall()


class Noted:
    """A store that keeps what is put, call by call."""

    def __init__(self, of):
        self.of, self.puts = of, []

    def __getattr__(self, name):
        return getattr(self.of, name)

    def put(self, name, rows):
        self.puts.append(rows)
        self.of.put(name, rows)


def test_rows_of_a_key_are_put_at_once(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "ROWS_AT_ONCE", 4)
    folder, window = tmp_path / "in", hopping("1 hour", "1 minute", tail="10 minutes")
    folder.mkdir()
    tailed = group_by("world").window(window, time="ts").define(n=C.count())
    times = [START + at * MINUTE for at in range(0, 40, 2)]
    first = [record(key, at) for at in times for key in range(3)]
    write(
        [table(first), table([record(0, times[-1] + 20 * MINUTE)]), table([record(0, times[-1] + 21 * MINUTE)])], folder
    )
    store = Noted(store_of(f"sqlite:///{tmp_path}/features.db"))
    run(spark, tailed.serve(source(spark, folder, "1 minute")), serve_to(store), tmp_path / "one")
    batches = {}
    for rows in store.puts:
        for key in {row.key for row in rows}:
            batches.setdefault((rows[0].revision, key), []).append({row.level for row in rows if row.key == key})
    assert all(len(calls) == 1 for calls in batches.values())
    assert len(store.puts) > len({revision for revision, _ in batches})
    assert {0, 1} in [levels for (levels,) in batches.values()]


def test_rows_leave_when_no_window_needs_them_and_the_watermark_equals_a_lookup(spark, tmp_path):
    url, folder = f"sqlite:///{tmp_path}/features.db", tmp_path / "in"
    folder.mkdir()
    events = source(spark, folder, "1 minute")
    held = [record(at % 3, START + at * MINUTE + 7, x=0.1 * at) for at in range(0, 90)]
    held += [record(0, START + 80 * MINUTE + 1, x=5.0)]
    write([table(held[:40]), table(held[40:85]), table(held[85:])], folder)
    run(spark, CARD.serve(events), serve_to(url), tmp_path / "served")
    closes = CARD.on(events).dataframe().writeStream.format("memory").queryName("closes").trigger(availableNow=True)
    closes.option("checkpointLocation", str(tmp_path / "closed")).start().awaitTermination()
    reader = Reader(url, CARD)
    at = micros(reader.read(0, at="watermark").at)
    emitted = {
        row["world"]: (row["n"], row["x"])
        for row in spark.table("closes").where("unix_micros(window.end) = " + str(at)).collect()
    }
    served = {key: reader.read(key, at="watermark")[WINDOW] for key in range(3)}
    assert {key: (each["n"], pytest.approx(each["x"], rel=1e-12)) for key, each in served.items()} == emitted
    starts = sorted({row[3] for row in _rows(store_of(url))})
    assert starts[0] == at - 10 * MINUTE
    answer = reader.read(0, at=at - MINUTE)
    assert answer[WINDOW] is None
    assert micros(answer.known_from[repr(WINDOW)]) == at - 10 * MINUTE


def test_the_watermark_is_that_of_the_last_micro_batch(spark, tmp_path):
    """After a restart, too: a record that the state refuses is in no window as of the watermark."""
    url, folder = f"sqlite:///{tmp_path}/features.db", tmp_path / "in"
    folder.mkdir()
    events, read, watermarks = source(spark, folder, "1 minute"), [], []

    def write_and_read(batch, number):
        serve_to(url, keep="1 day")(batch, number)
        if number:
            answer = Reader(url, CARD).read(0, at="watermark")
            watermarks.append(micros(answer.watermark))
            start, at = micros(answer.starts[repr(WINDOW)]), micros(answer.at)
            assert answer[WINDOW]["n"] == sum(start <= each < at for each in read)

    for times in ([START, START + HOUR], [START - 5 * MINUTE]):
        write([table([record(0, t)]) for t in times], folder, len(read))
        read += times
        run(spark, CARD.serve(events), write_and_read, tmp_path / "checkpoint")
    assert watermarks == [START - MINUTE, *[START + HOUR - MINUTE] * (len(watermarks) - 1)]
    assert len(watermarks) > 2


def test_what_cannot_be_served_is_refused_when_the_query_is_built(spark, tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    events = source(spark, tmp_path / "in", "1 minute")
    grouped = group_by("world")
    with pytest.raises(InvalidValue, match="shares none"):
        grouped.window(session("5 minutes"), time="ts").define(n=C.count()).serve(events)
    with pytest.raises(InvalidValue, match="column `level` of their own"):
        grouped.window(WINDOW, time="ts").define(level=C.count()).serve(events)
    with pytest.raises(InvalidType, match="this DataFrame is bounded"):
        CARD.serve(spark.createDataFrame([], events.schema))
    history = spark.createDataFrame([], events.schema)
    with pytest.raises(InvalidValue, match=r"a history of records; got warm\(partials=df"):
        CARD.on(events).warm(partials=CARD.on(history).partials(), until=START).serve(events)
    with pytest.raises(InvalidValue, match="shares none"):
        grouped.window(unbounded(ttl="1 day"), time="ts").emit(on_update()).define(n=C.count()).serve(events)
    for key in ("array('a')", "map('a', 1)", "named_struct('a', array(1))", "interval '1' day"):
        odd = group_by(F.expr(key).alias("odd")).window(WINDOW, time="ts").define(n=C.count())
        with pytest.raises(InvalidType, match=r"key column `odd.* has type"):
            odd.serve(events)
    spaced = group_by(F.expr("named_struct('a b:c', 1)").alias("odd")).window(WINDOW, time="ts").define(n=C.count())
    with pytest.raises(InvalidType, match="names in structs have none of"):
        spaced.serve(events)
    monkeypatch.setattr(serving, "on_connect", lambda session: True)
    with pytest.raises(MissingRequirement, match=r"of Spark Connect cannot. Start this query in a program"):
        CARD.serve(events)
    monkeypatch.undo()
    for wrong in ("features.db", "mysql://host/database"):
        with pytest.raises(InvalidValue, match="begins with its kind"):
            serve_to(wrong)
    with pytest.raises(InvalidValue, match=r"`serve_to` writes the rows of `definition.serve\(events\)`"):
        serve_to(f"sqlite:///{tmp_path}/features.db")(spark.createDataFrame([(1,)], "n int"), 0)
    stored = spark.createDataFrame([], CARD.serve(events).schema)
    with pytest.raises(InvalidValue, match=r"there is no query here\. Pass the function to `foreachBatch`"):
        serve_to(f"sqlite:///{tmp_path}/features.db")(stored, 0)
    with pytest.raises(InvalidValue, match=r"these have world, slice, n. Give it that stream as it is"):
        serve_to(f"sqlite:///{tmp_path}/features.db")(CARD.serve(events).select("world", "slice", "n"), 0)


def test_a_warm_start_serves_its_history(spark, tmp_path):
    url, folder, until = f"sqlite:///{tmp_path}/features.db", tmp_path / "in", START + HOUR
    folder.mkdir()
    window = hopping("30 minutes", "1 minute", tail="10 minutes")
    card = group_by("world").window(m10=WINDOW, m30=window, time="ts", long=True).define(n=C.count(), x=C.sum("x"))
    held = [record(at % 3, START + at * MINUTE // 2 + 7, x=0.5 * at) for at in range(200)]
    past = [each for each in held if each["ts"] < until]
    events, history = source(spark, folder, "1 minute"), spark.createDataFrame(table(past))
    rest = held[len(past) :]
    write([table(rest[:5]), table(rest[5:40]), table(rest[40:])], folder)
    stream = card.warm(history, until=until)
    run(spark, stream.serve(events), serve_to(url, keep="1 hour"), tmp_path / "warm")
    reader, times = Reader(url, card), [until, until + 11 * MINUTE, until + 30 * MINUTE, until + 5 * HOUR]
    spine = spark.createDataFrame([(key, t) for key in range(4) for t in times], "world long, t long")
    rows = card.at(spine.select("world", F.timestamp_micros("t").alias("ts")), spark.createDataFrame(table(held)))
    for row in rows.collect():
        answer = reader.read(row["world"], at=row["ts"].astimezone())
        assert dict(answer) == {w: {"n": row[f"n_{w}"], "x": row[f"x_{w}"]} for w in ("m10", "m30")}, row
        assert {w: at.timestamp() for w, at in answer.starts.items()} == {
            w: at.timestamp() for w, at in row["starts"].asDict().items()
        }
