"""Calls where some aggregates are eager: what they cost, say and refuse, and that Spark has the same rows.

Which rows they emit of any records is asked in `test_scenarios.py`.
"""

import pytest
from oracle import ARRIVED, Case, evenly
from pyspark.sql import functions as F
from scenarios.kind import MIXED, PARTIALS, RECORDS
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario
from streams import SCHEMA, Output, Running, exact_differences, source, spark_window, worlds, write

import combinators as C
from slicing import Aggregate, FunctionFailed, InvalidValue, StateMismatch, group_by, on_close, results, tumbling
from slicing import hopping as hopping_of
from slicing.explain.costs import Cost
from slicing.spark.stream import fingerprint
from slicing.state.format.buckets import Buckets

BALANCE = Aggregate(lambda: 0, lambda acc, v: max(0, acc + v - 10))
"""What a record does depends on all records before it, in the order in which they arrive."""


def test_a_page_of_a_window_is_read_once_for_a_frame():
    kind, read = Even.of(12, 1), []
    for content, chosen in ((MIXED, ("sum", ARRIVED)), (PARTIALS, ("sum",))):
        one = Scenario(kind, on_close(), content=content, results=chosen)
        for index in range(20):
            one.step(evenly(kind.window.family, [index], keys=3), index)
        assert len(one.emit([], 20)) == 3
        read.append(one.read)
    assert read[0] - read[1] == 3


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
    now, asked = (fingerprint(each._query((), results), Buckets(1)) for each in (windowed, windowed.assemble("eager")))
    with pytest.raises(StateMismatch, match="content: checkpoint `windows`, query `partials, windows`"):
        now.header_of(asked.header([0]))


LONGEST = Aggregate(lambda: "", lambda acc, s: max(acc, s, key=lambda text: (len(text), text))).on("s")


@pytest.mark.slow
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

    case = Case(Aggregate(lambda: 0, lambda acc, v: acc + v, joined), sum)
    one = Scenario(Even.of(4, 1), on_close(), content=RECORDS, results=[case])
    records = [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1), (2, 2, 101)]
    one.emit(records, partitions=1)
    with pytest.raises(FunctionFailed, match=r"too much.* key \(2,\)"):
        one.emit(records, partitions=1)
