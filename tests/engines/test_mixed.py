"""Calls of which some aggregates are eager: what goes out is what the aggregates have in calls of their own."""

import numpy as np
import pytest
from oracle import ARRIVED, CASES, Case, EmittingStream, MixedStream, cases, emitted, evenly, hopping, moment, seeds
from pyspark.sql import functions as F
from streams import SCHEMA, Output, Running, exact_differences, source, spark_window, worlds, write
from test_emission import MODES, random_records, random_slicing

import combinators as C
from slicing import Aggregate, FunctionFailed, InvalidValue, StateMismatch, group_by, on_close, results, tumbling
from slicing import hopping as hopping_of
from slicing.explain.costs import Cost
from slicing.spark.stream import fingerprint
from slicing.state import bucket_cache as memory
from slicing.triggers.change import OnChange

BALANCE = Aggregate(lambda: 0, lambda acc, v: max(0, acc + v - 10))
"""What a record does depends on all records before it, in the order in which they arrive."""
OWN = {
    "slices": cases("sum", "joined", "floats"),
    "eager": [Case(BALANCE, None), CASES["highest"], Case(Aggregate(lambda: "", lambda acc, v: f"{acc}{v};"), None)],
}
TOGETHER = [each for pair in zip(OWN["slices"], OWN["eager"], strict=True) for each in pair]


def step(stream, records, watermark, now):
    """One micro-batch of a bucket, without anything beside it to compare with."""
    bucket = stream.bucket()
    late = bucket.accept(stream.arriving(records, 2))
    return emitted(stream.shape, bucket.close(moment(watermark, now))), (late.all, late.some)


@pytest.mark.parametrize("mode", ["on_close()", *MODES])
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_results_are_those_of_calls_of_their_own(mode, seed, monkeypatch):
    """In a call that emits changes a row goes out if any of its results has changed."""
    rng = np.random.default_rng(500 + seed)
    monkeypatch.setattr(memory, "KEPT_BYTES", int(rng.choice([0, 1 << 30])))
    family, emission = random_slicing(rng, seed), MODES.get(mode, on_close())
    grace = int(rng.choice([2000, 30_500])) * 1000 if emission.fires_late else 0
    together = MixedStream(family, TOGETHER, emission, grace=grace)
    own = {name: EmittingStream(family, OWN[name], emission, grace=grace, eager=name == "eager") for name in OWN}
    streams, records, watermark, now = [together, *own.values()], random_records(rng), 0, 0
    while records or watermark < 1 << 43:
        batch, records = records[:10], records[10:]
        now += int(rng.integers(1, 2500))
        rows, *others = (step(stream, batch, watermark, now) for stream in streams)
        assert all(late == rows[1] for _, late in others)
        for first, (found, _) in enumerate(others):
            assert isinstance(emission, OnChange) or found.keys() == rows[0].keys()
            assert all([column[first::2] for column in rows[0][place]] == list(found[place]) for place in found)
        assert rows[0].keys() == others[0][0].keys() | others[1][0].keys()
        for stream in streams:
            stream.bucket().check()
        after = max([watermark, *(time // 1000 - 5 for time, _, _ in batch)])
        watermark = after if records or after > watermark else 1 << 43
    step(together, [], 1 << 43, now)
    step(together, [], (1 << 43) + 10**6, now)
    assert not together.store.pages


def test_a_page_of_a_window_is_read_once_for_a_frame():
    stream = MixedStream(hopping(12), [CASES["sum"], ARRIVED], on_close())
    for index in range(20):
        stream.step(evenly(stream.family, [index], keys=3), index)
    bucket, slices = stream.bucket(), EmittingStream(hopping(12), cases("sum"), on_close())
    for index in range(20):
        slices.step(evenly(stream.family, [index], keys=3), index)
    alone = slices.bucket()
    assert sum(map(len, bucket.close(moment(20)))) == sum(map(len, alone.close(moment(20)))) == 3
    assert bucket.pages.read - alone.pages.read == 3


@pytest.mark.parametrize(("window", "reads"), [(hopping_of("1 hour", "1 minute"), 60), (tumbling("1 minute"), 1)])
def test_a_plan_says_what_is_eager_and_what_it_costs(spark, window, reads):
    windowed = group_by(stream_of(spark), "value").window(window, time="ts")
    plan = windowed.plan(n=C.count(), balance=Aggregate(BALANCE.init, BALANCE.agg).on("value"))
    counted, balance = plan.assemblies
    assert (counted.per_record, balance.per_record) == (Cost(0, 1), Cost(reads, reads))
    assert plan.per_record == Cost(reads, reads + 1)
    assert (counted.tree, balance.tree, balance.reason) == (plan.trees[0], "eager", "no `combine`")
    assert counted.tree != "eager"
    assert plan.state_bytes_per_key >= plan_bytes(counted) + plan_bytes(balance)
    words = " ".join(str(plan).split())
    assert "eager balance: the shuffle carries every record" in words
    assert "per record: balance" in words


def plan_bytes(assembly):
    return assembly.slices_kept * (20 + assembly.partial_bytes)


def stream_of(spark):
    return spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts").withWatermark("ts", "1 minute")


def test_eager_without_bound_has_to_be_asked_for(spark):
    """R = 43,200 makes so many pages of windows a record."""
    asked = Aggregate(BALANCE.init, BALANCE.agg, eager=True).on("value")
    silent = Aggregate(BALANCE.init, BALANCE.agg).on("value")
    for frame in (stream_of(spark), spark.range(1).selectExpr("timestamp_seconds(id) ts", "id value")):
        windowed = group_by(frame).window(hopping_of("12 hours", "1 second"), time="ts")
        with pytest.raises(InvalidValue) as error:
            windowed.aggregate(n=C.count(), balance=silent)
        for part in ("`balance`", "R = 43,200", "43,200 pages", "43,200 written", "`combine`", "eager=True", "R = 100"):
            assert part in str(error.value)
        assert windowed.plan(n=C.count(), balance=asked).trees == ("two_layer", "eager")
        assert windowed.assemble("eager").plan(n=C.count(), balance=silent).trees == ("eager", "eager")
        assert windowed.assemble("three_layer").plan(n=C.count(), balance=asked).trees == ("three_layer", "eager")
        assert windowed.plan(BALANCE.init, BALANCE.agg, value="value", eager=True).trees == ("eager",)
        assert (
            windowed.plan(lambda: 0, lambda a, v: a + v, lambda a, b: a + b, value="value", eager=True).trees[0]
            == "eager"
        )
    at_most = group_by(stream_of(spark)).window(hopping_of("100 seconds", "1 second"), time="ts")
    assert at_most.plan(n=C.count(), balance=silent).trees == ("two_layer", "eager")
    with pytest.raises(InvalidValue, match="a tree needs `combine`"):
        at_most.assemble("recompute").plan(balance=silent)


def test_a_checkpoint_that_was_all_eager_is_refused_by_name_and_goes_on_as_eager(spark):
    windowed = group_by(stream_of(spark)).window(hopping_of("10 minutes", "1 minute"), time="ts")
    results = {"n": C.count(), "balance": Aggregate(BALANCE.init, BALANCE.agg).on("value")}
    now, asked = (fingerprint(each._query((), results), (0,), 1) for each in (windowed, windowed.assemble("eager")))
    with pytest.raises(StateMismatch, match="content: checkpoint `windows`, query `partials, windows`"):
        now.header_of(asked.header([0]))


LONGEST = Aggregate(lambda: "", lambda acc, s: max(acc, s, key=lambda text: (len(text), text))).on("s")


def test_a_stream_and_bounded_input_equal_spark_over_failures(spark, tmp_path):
    write(worlds("mixed", files=5, count=12), tmp_path / "files")
    window = hopping_of("10 minutes", "3 minutes")
    ours = {"n": C.count(), "longest": LONGEST, "total": C.sum("n")}
    longest = F.coalesce(F.max_by("s", F.struct(F.length("s"), "s")), F.lit("")).alias("longest")
    spark_results = F.count("*").alias("n"), longest, F.sum("n").alias("total")
    stream = source(spark, tmp_path / "files", "90 seconds")
    frames = [
        results(group_by(stream, "world").window(window, time="ts").late("records").aggregate(**ours)),
        stream.groupBy("world", spark_window(window)).agg(*spark_results),
    ]
    outputs = [Output(cuts={1, 3}), Output()]
    for frame, output in zip(frames, outputs, strict=True):
        Running(frame, tmp_path / f"checkpoint{outputs.index(output)}", {"availableNow": True}, output).finish()
    assert not outputs[0].cuts
    found, wanted = (output.rows("world") for output in outputs)
    assert exact_differences(found, wanted, list(ours))[:5] == []
    assert len(wanted) > 50

    files = spark.read.schema(SCHEMA).parquet(str(tmp_path / "files"))
    bounded = group_by(files, "world").window(window, time="ts").aggregate(**ours)
    theirs = files.where("ts is not null").groupBy("world", spark_window(window)).agg(*spark_results)
    columns = ["world", "window", *ours]
    found, wanted = (sorted(map(repr, frame.select(columns).collect())) for frame in (bounded, theirs.select(columns)))
    assert found == wanted


def test_a_combine_that_fails_in_a_page_names_its_key():
    """Each key has several records in a micro-batch, and only the partials of the last one cannot be joined."""

    def joined(a, b):
        if a + b > 200:
            raise ValueError("too much")
        return a + b

    stream = EmittingStream(hopping(4), [Case(Aggregate(lambda: 0, lambda acc, v: acc + v, joined), sum)], on_close())
    stream.eager = True
    bucket = stream.bucket()
    records = [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1), (2, 2, 101)]
    bucket.accept([stream.shipped(records)])
    with pytest.raises(FunctionFailed, match=r"too much.* key \(2,\)"):
        bucket.accept([stream.shipped(records)])
