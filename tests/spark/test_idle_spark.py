"""`.idle(after=)` on Spark: a window closes while nothing comes, and a record for it is late then."""

import time

import pytest
from streams import SECOND, START, record, source, table, write

import combinators as C
from slicing import counting, group_by, on_update, processing_time, tumbling, unbounded
from slicing.errors import InvalidValue

PATIENCE = 90


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.2)


def test_a_window_closes_without_input_and_refuses_what_comes_then(spark, tmp_path):
    write(
        [table([record(1, START), record(2, START + SECOND)]), table([record(1, START + 2 * SECOND)])], tmp_path / "in"
    )
    windows = group_by(source(spark, tmp_path / "in"), "world").window(tumbling("4 seconds"), time="ts")
    frame = windows.idle(after="1 second").aggregate(records=C.count())
    query = frame.writeStream.format("memory").queryName("idle").trigger(processingTime="100 milliseconds").start()
    try:
        until(lambda: query.exception() is not None or spark.table("idle").count() == 2)
        assert query.exception() is None
        assert sorted((row.world, row.records) for row in spark.table("idle").collect()) == [(1, 2), (2, 1)]
        write([table([record(1, START + 3 * SECOND)])], tmp_path / "in", first=2)
        until(lambda: any(_late(progress) for progress in query.recentProgress))
        assert spark.table("idle").count() == 2
    finally:
        query.stop()


def test_a_bucket_without_records_is_idle_beside_one_with_them(spark, tmp_path):
    write([table([record(world, START) for world in range(1, 33)])], tmp_path / "in")
    windows = group_by(source(spark, tmp_path / "in"), "world").window(tumbling("4 seconds"), time="ts")
    definition = windows.idle(after="6 seconds").retain("1 hour").define(held=C.count())
    writer = definition.dataframe().writeStream.format("memory").queryName("idle_beside")
    writer = writer.option("checkpointLocation", str(tmp_path / "state"))
    query = writer.trigger(processingTime="200 milliseconds").start()
    number, next_file = 1, 0.0

    def closed():
        nonlocal number, next_file
        assert query.exception() is None
        if time.monotonic() > next_file:  # a record of one bucket, which does not move the watermark
            write([table([record(99, START)])], tmp_path / "in", first=number)
            number, next_file = number + 1, time.monotonic() + 0.5
        return spark.table("idle_beside").count()

    try:
        until(closed)
    finally:
        query.stop()
    rows = definition.lookup(str(tmp_path / "state")).collect()
    assert all(row.closed == (row.window.end <= row.as_of.watermark) for row in rows)
    assert {row.world: row.closed for row in rows}[99] is False
    assert len({row.as_of.watermark for row in rows}) > 1
    partials = definition.lookup_partials(str(tmp_path / "state"))
    assert {row.as_of.watermark for row in partials.collect()} == {row.as_of.watermark for row in rows}
    with pytest.raises(InvalidValue, match=r"some keys were ahead: theirs have closed until .*batch=\.\.\.\)"):
        definition.warm(partials=partials)
    one = partials.where("world = 99")
    assert "warm(partials=df)" in repr(definition.warm(partials=one))


def _late(progress):
    metrics = progress["observedMetrics"] if isinstance(progress, dict) else progress.observedMetrics
    return any(each["late"] for each in metrics.values())


@pytest.mark.parametrize(
    ("window", "clock"), [(counting(3), "ts"), (unbounded(), "ts"), (tumbling("1 hour"), processing_time())]
)
def test_windows_that_no_watermark_closes_refuse_it(spark, tmp_path, window, clock):
    (tmp_path / "in").mkdir()
    windows = group_by(source(spark, tmp_path / "in"), "world").window(window, time=clock).idle(after="1 minute")
    with pytest.raises(InvalidValue, match="`idle` closes windows while no record moves the watermark"):
        (windows if window.counts else windows.emit(on_update())).aggregate(n=C.count())
