"""Stages of the Python side are timed where a session asks for it, each without those it calls; else nothing is."""

import pytest
from oracle import evenly, moment
from scenarios.kind import PARTIALS, RECORDS
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario, records_of
from streams import SECOND, START, record, source, table, write

import combinators as C
from slicing import group_by, hopping, on_close
from slicing import profiling as module
from slicing.profiling import ASSEMBLE, COMBINE, ENCODE, Stopwatch, of_stage, profiled
from slicing.spark.progress import micro_batch
from slicing.stages.metrics import TIMERS


@pytest.fixture
def pass_time(monkeypatch):
    """A clock that moves only when it is told to, in microseconds."""
    now = [0]
    monkeypatch.setattr(module, "perf_counter_ns", lambda: now[0])

    def pass_time(micros):
        now[0] += 1000 * micros

    return pass_time


def test_a_stage_does_not_have_the_time_of_those_it_calls(pass_time):
    inner = of_stage("inner")(lambda: pass_time(5))

    @of_stage("outer")
    def outer():
        pass_time(1)
        inner()
        pass_time(2)
        return "result"

    stopwatch = Stopwatch()
    with profiled(stopwatch):
        pass_time(100)
        assert outer() == "result"
        pass_time(100)
    assert stopwatch.lap() == {"outer": 3, "inner": 5}
    assert stopwatch.lap() == {}


@pytest.mark.parametrize("iterator", [lambda items: items(), lambda items: map(int, items())])
def test_an_iterator_is_timed_while_it_runs_and_not_while_it_waits(pass_time, iterator):
    def items():
        for number in range(2):
            pass_time(10)
            yield number
        pass_time(1)

    stopwatch = Stopwatch()
    with profiled(stopwatch):
        for _ in of_stage("made")(iterator)(items):
            pass_time(1000)
    assert stopwatch.lap() == {"made": 21}


def test_a_stage_that_raises_ends(pass_time):
    stopwatch = Stopwatch()

    @of_stage("a")
    def fails():
        pass_time(1)
        raise KeyError

    with profiled(stopwatch):
        with pytest.raises(KeyError):
            fails()
        pass_time(100)
    assert stopwatch.lap() == {"a": 1}


def test_nothing_is_timed_unless_a_watch_is_set(pass_time):
    outer, inner = Stopwatch(), Stopwatch()
    function = of_stage("a")(lambda: pass_time(1))
    function()
    with profiled(outer):
        function()
        with profiled(inner):
            function()
            function()
        function()
    function()
    assert (outer.lap(), inner.lap()) == ({"a": 2}, {"a": 2})


@pytest.mark.parametrize("eager", [False, True])
def test_the_stages_of_a_bucket_never_run_at_the_same_time(eager, monkeypatch):
    """By a clock that moves a microsecond at every look: all stages together have the time from first to last."""
    looks = []
    monkeypatch.setattr(module, "perf_counter_ns", lambda: looks.append(None) or 1000 * len(looks))
    kind, stopwatch = Even.of(8, 1), Stopwatch()
    one = Scenario(kind, on_close(), content=RECORDS if eager else PARTIALS, results=("sum",))
    with profiled(stopwatch):
        for first in range(0, 40, 4):
            bucket = one.bucket()
            records = records_of(evenly(kind.window.family, range(first, first + 4), keys=3))
            bucket.accept(one.arriving(records, 1)[0])
            list(bucket.close(moment(first)))
    outside = stopwatch._nanos[""] // 1000
    lap = stopwatch.lap()
    assert {ASSEMBLE, COMBINE, ENCODE} <= lap.keys()
    assert min(lap.values()) > 0
    assert sum(lap.values()) + outside == len(looks)


def ran(spark, folder, tree):
    """The rows of a stream, and the progress of its micro-batches."""
    windowed = group_by(source(spark, folder), "world").window(hopping("20 seconds", "2 seconds"), time="ts")
    out = windowed.assemble(tree).aggregate(total=C.sum("n"), most=C.max("x"))
    query = out.writeStream.format("memory").queryName("timed").trigger(availableNow=True).start()
    query.awaitTermination()
    return sorted(map(str, spark.table("timed").collect())), query.recentProgress


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["auto", pytest.param("eager", marks=pytest.mark.long)])
def test_a_stream_is_timed_if_its_session_asks_for_it(spark, tmp_path, tree):
    files = [[record(key, START + (20 * batch + key) * SECOND) for key in range(20)] for batch in range(4)]
    write(map(table, files), tmp_path)
    expected, progress = ran(spark, tmp_path, tree)
    assert not any(set(row.asDict()) & set(TIMERS) for each in progress for row in each["observedMetrics"].values())
    spark.conf.set("spark.slicing.timers", "true")
    try:
        rows, progress = ran(spark, tmp_path, tree)
    finally:
        spark.conf.unset("spark.slicing.timers")
    assert rows == expected
    assert len(rows) > 20
    batches = [found for each in progress if (found := micro_batch(each))]
    assert len(batches) >= 4
    for stage in TIMERS:
        micros = [each.counts[stage] for each in batches]
        assert min(micros) >= 0
        assert max(micros) > 0, stage
    for each in batches:
        assert f"output {each.counts['micros_output'] / 1e6:.2f} s" in each.line()
        assert each.gauges()["micros_read"] == each.counts["micros_read"]
