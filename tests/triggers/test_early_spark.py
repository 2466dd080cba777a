"""Early triggers of several conditions on real queries, with the query started again from its checkpoint."""

from dataclasses import dataclass

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from streams import MINUTE, START, ending, record, run, source, table, write

import combinators as C
from slicing import (
    InvalidType,
    InvalidValue,
    Trigger,
    buffer,
    early,
    group_by,
    hopping,
    keep_last,
    on_update,
    reason,
    session,
    tumbling,
    unbounded,
)

WINDOW = tumbling("10 minutes")


@pytest.mark.versions
def test_a_count_of_3_fires_as_that_of_flink_does_and_survives_a_restart(spark, tmp_path):
    """Flink's CountTrigger: one record in each micro-batch, every third one of a window and key fires it."""
    order = [1, 2, 1, 1, 2, 1, 2, 1, 1, 2, 2, 1, 1]
    times = [START + at * MINUTE // 2 for at in (0, 1, 25, 2, 3, 4, 26, 27, 5, 6, 7, 28, 8)]
    tables = [
        table([record(world, time, n=number)]) for number, (world, time) in enumerate(zip(order, times, strict=True))
    ]
    write(tables[:5], tmp_path / "files")
    frame = group_by(source(spark, tmp_path / "files", "2 hours"), "world").window(WINDOW, time="ts")
    frame = frame.emit(early(records=3, per="window", final=False)).aggregate(records=C.count(), total=C.sum("n"))
    outputs = []
    for first, end in ((0, 5), (5, 6), (6, len(tables))):
        write(tables[first:end], tmp_path / "files", first=first)
        outputs += run(frame, checkpoint=tmp_path / "checkpoint")
    found = sorted(
        (row["emission"], world, (start - START) // MINUTE, row["records"], row["total"])
        for output in outputs
        for (_, world, start), row in output.rows("world").items()
    )
    held, wanted = {}, []
    for number, (world, time) in enumerate(zip(order, times, strict=True)):
        pair = world, (time - START) // MINUTE // 10 * 10
        held.setdefault(pair, []).append(number)
        if len(held[pair]) % 3 == 0:
            wanted.append(("early", *pair, len(held[pair]), sum(held[pair])))
    assert found == sorted(wanted)
    assert len(found) == 3


@pytest.mark.slow
def test_multiples_of_event_time_fire_as_the_watermark_passes_them(spark, tmp_path):
    """Before each file the watermark is at the newest time of the files before; no clock is asked for."""
    tables = [table([record(1, START + at * MINUTE)]) for at in (1, 3, 6, 7, 9, 12, 21, 22)]
    write(tables, tmp_path / "files")
    frame = group_by(source(spark, tmp_path / "files"), "world").window(tumbling("1 hour"), time="ts")
    frame = frame.emit(early(every="5 minutes", by="event"))
    assert not frame.plan(n=C.count()).by_clock
    (output,) = run(frame.aggregate(records=C.count()))
    assert [(row["emission"], row["records"]) for _, row in sorted(output.rows("world").items())] == [
        ("early", 2),  # a multiple has passed when there is a watermark
        ("early", 4),  # 6 has passed 5 when the record at 7 comes
        ("early", 7),  # 12 has passed 10 when that at 21 comes
        ("early", 8),  # 21 has passed 20
    ]


@pytest.mark.slow
def test_conditions_of_records_and_delays_of_event_time_fire(spark, tmp_path):
    """A file is a micro-batch; the watermark in it is at the newest time of the files before."""
    times = (1, 3, 4, 9, 12, 13)
    tables = [table([record(1, START + at * MINUTE, n=at)]) for at in times]
    write(tables, tmp_path / "files")
    windowed = group_by(source(spark, tmp_path / "files"), "world").window(tumbling("1 hour"), time="ts")
    by_record = windowed.emit(early(when=F.col("n") % 3 == 0)).aggregate(records=C.count())
    delayed = windowed.emit(early(after="2 minutes", by="event")).aggregate(records=C.count())
    found = [
        [(batch, row["records"]) for (batch, *_), row in sorted(output.rows("world").items())]
        for output in run(by_record, delayed)
    ]
    assert found[0] == [(1, 2), (3, 4), (4, 5)]
    # Waits since 1, and fires when the watermark is at 3 or later, in micro-batch 2, and so on.
    assert found[1] == [(2, 3), (5, 6)]


@pytest.mark.slow
def test_a_record_ends_its_session_on_a_stream_and_on_bounded_input(spark, tmp_path):
    """The record at 3 ends its session, although it comes after that at 4; the gap is 5 minutes."""
    minutes = (0, 2, 4, 3, 6, 30)
    write([table([record(1, START + at * MINUTE, n=at)]) for at in minutes], tmp_path / "files")
    sessions = group_by(source(spark, tmp_path / "files", "10 minutes"), "world").window(
        session("5 minutes"), time="ts"
    )
    ended = sessions.emit(early(when=F.col("n") == 3, ends=True)).define(records=C.count(), total=C.sum("n"))
    (output,) = run(ended.dataframe())
    found = {
        (row["emission"], (start - START) // MINUTE): (row["records"], row["total"])
        for (_, _, start), row in sorted(output.rows("world").items())
    }
    assert found == {
        ("early", 0): (3, 5),
        ("final", 0): (3, 5),
        ("final", 4): (2, 10),
    }
    bounded = spark.read.parquet(str(tmp_path / "files"))
    windowed = (
        group_by(bounded, "world").window(session("5 minutes"), time="ts").emit(early(when=F.col("n") == 3, ends=True))
    )
    rows = windowed.aggregate(records=C.count(), total=C.sum("n")).select(
        F.unix_micros("window.start"), "records", "total"
    )
    assert sorted(((start - START) // MINUTE, n, total) for start, n, total in rows.collect()) == [
        (0, 3, 5),
        (4, 2, 10),
        (30, 1, 30),
    ]


@pytest.mark.slow
def test_a_change_of_a_value_fires_and_drops_what_has_fired(spark, tmp_path):
    """A file is a micro-batch; 1 is compared with 5, then 5 with 9 and 9 with 20."""
    tables = [table([record(1, START + at * MINUTE, n=n)]) for at, n in enumerate((1, 3, 5, 8, 9, 20))]
    write(tables, tmp_path / "files")
    windowed = group_by(source(spark, tmp_path / "files", "1 hour"), "world").window(tumbling("1 hour"), time="ts")
    changes = windowed.emit(early(delta=(F.col("n") + 1, 3), final=False, purge=True))
    (output,) = run(changes.aggregate(records=C.count(), total=C.sum("n")))
    assert [(batch, row["records"], row["total"]) for (batch, *_), row in sorted(output.rows("world").items())] == [
        (2, 3, 9),
        (4, 2, 17),
        (5, 1, 20),
    ]


@pytest.mark.versions
def test_a_full_buffer_fires_the_window_that_has_waited_for_longest(spark, tmp_path):
    """No condition goes by the clock. A file is a micro-batch; the query is started again after the first one."""
    fired = []
    for first, minutes in ((0, (5,)), (1, (3, 1))):
        write([table([record(1, START + at * MINUTE)]) for at in minutes], tmp_path / "files", first=first)
        windowed = group_by(source(spark, tmp_path / "files", "10 minutes")).window(tumbling("1 minute"), time="ts")
        bounded = windowed.emit(early(records=5, per="window", buffer=buffer(records=1))).aggregate(records=C.count())
        (output,) = run(bounded, checkpoint=tmp_path / "checkpoint")
        fired += [(row["emission"], (start - START) // MINUTE) for (_, start), row in output.rows().items()]
    assert fired == [("early", 5), ("early", 3)]


@dataclass(frozen=True)
class Paused(Trigger):
    """Windows whose newest record came a millisecond after the one before, or later."""

    state = "last bigint"
    final = False

    def on_records(self, windows, at):
        fires = (windows["last"] > 0) & (at.clock - windows["last"] >= 1000)
        windows["last"] = at.clock
        return np.where(fires, self.FIRE, self.CONTINUE)


@pytest.mark.versions
def test_a_trigger_of_ones_own_is_told_the_clock(spark, tmp_path):
    """Whether Spark has timers of event time or none; a file is a micro-batch."""
    write([table([record(1, START + at)]) for at in range(3)], tmp_path / "files")
    grouped = group_by(source(spark, tmp_path / "files", "1 hour"), "world")
    windowed = grouped.window(WINDOW, time="ts"), grouped.window(unbounded())
    for output in run(*(each.emit(Paused()).aggregate(records=C.count()) for each in windowed)):
        counts = {batch: found["records"].to_pylist() for batch, found in output.tables.items()}
        assert [count for _, found in sorted(counts.items()) for count in found] == [2, 3]


@pytest.mark.slow
def test_timers_that_were_not_set_are_named(spark, tmp_path):
    """With `ttl=` Spark has timers of processing time in any case, and `on_update()` sets none."""
    write([table([record(1, START)])], tmp_path / "files")
    windowed = group_by(source(spark, tmp_path / "files"), "world").window(unbounded(ttl="1 hour"))
    before, after = (windowed.emit(each).aggregate(n=C.count()) for each in (on_update(), early(every="1 second")))
    with ending(spark, early(every="1 second")):
        run(before, checkpoint=tmp_path / "checkpoint")
        write([table([record(1, START)])], tmp_path / "files", first=1)
        with pytest.raises(StreamingQueryException) as caught:
            run(after, checkpoint=tmp_path / "checkpoint")
    assert "early(every='1 second') fires by timers of buckets, and the query that wrote" in reason(caught.value)


def test_a_condition_that_is_no_boolean_is_refused(spark):
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    windowed = group_by(stream, "value").window(WINDOW, time="timestamp")
    with pytest.raises(InvalidType, match="`when` takes a column of booleans; `value` is bigint"):
        windowed.emit(early(when="value")).aggregate(n=C.count())
    with pytest.raises(InvalidType, match="`delta` takes a column of numbers; `timestamp` is timestamp"):
        windowed.emit(early(delta=("timestamp", 5))).aggregate(n=C.count())
    with pytest.raises(InvalidValue, match="lets records end sessions, and other windows end when they are over"):
        windowed.emit(early(when="value", ends=True)).aggregate(n=C.count())


def test_a_buffer_without_room_is_refused_when_the_query_is_built(spark):
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    windowed = group_by(stream, "value").window(WINDOW, time="timestamp")
    # The number of records, the key, and the window with its number of records take 8 bytes each.
    windowed.emit(early(after="1 hour", buffer=buffer(bytes=32))).aggregate(n=C.count())
    with pytest.raises(InvalidValue, match=r"take about 32 bytes; got buffer\(bytes=31\)"):
        windowed.emit(early(after="1 hour", buffer=buffer(bytes=31))).aggregate(n=C.count())
    kept = windowed.emit(early(after="1 hour", buffer=buffer(bytes=1 << 20))).evict(keep_last(2))
    with pytest.raises(InvalidValue, match=r"keep records instead.*buffer\(records=100_000\)"):
        kept.aggregate(n=C.sum("value"))


def test_what_has_no_meaning_is_refused_when_the_query_is_built(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidValue, match="goes by event time, and unbounded\\(\\) needs no watermark"):
        group_by(stream, "value").window(unbounded()).emit(early(every="1 minute", by="event")).aggregate(n=C.count())
    plan = group_by(stream.withWatermark("timestamp", "1 second"), "value").window(
        hopping("10 minutes", "1 minute"), time="timestamp"
    )
    text = str(plan.emit(early(records=5, after="10 seconds")).plan(n=C.count()))
    assert "5 more records have come or 10 seconds have passed since the first record after the last firing" in text
    assert "availableNow ends only without" in text
