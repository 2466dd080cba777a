"""Spark Connect: bounded input and a stream give Spark's rows, and counters can be read: `make test-connect`."""

import sys
import time

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rooms import python_path
from streams import MINUTE, SECOND, START, record, source, table, write

import combinators as C
from slicing import (
    Aggregate,
    InvalidValue,
    ProgressListener,
    describe,
    group_by,
    hopping,
    late_partials,
    lateness,
    on_close,
    on_update,
    results,
    session,
)
from slicing.column_names import text_of
from slicing.spark.progress import micro_batch
from slicing.state.format.column_texts import renumbered

pytest.importorskip("grpc", reason="it is in the group `servers`")
pytestmark = pytest.mark.servers

WINDOW = hopping("10 minutes", "5 minutes")


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    from conftest import options

    from servers.connect import connect

    root = tmp_path_factory.mktemp("connect")
    (root / "tmp").mkdir()
    environment = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "TZ": "UTC"}
    environment["PYTHONPATH"] = python_path()
    with connect(root, options(root), environment) as address:
        session = SparkSession.builder.remote(address).getOrCreate()
        yield session
        session.stop()


def files():
    for number in range(4):
        at = START + number * 6 * MINUTE
        rows = [record(key, at + each * SECOND, n=each + key) for key in (1, 2) for each in range(0, 300, 10)]
        yield table(rows + ([record(1, at - 20 * MINUTE, n=7)] if number == 3 else []))


def aggregates():
    mine = Aggregate(lambda: 0, lambda acc, n: acc + n, lambda a, b: a + b, lambda ab, a: ab - a, partial="total long")
    return {"records": C.count(), "total": C.sum("n"), "mine": mine.on("n")}


def expected(frame):
    window = F.window("ts", "10 minutes", "5 minutes")
    total = F.sum("n")
    return frame.groupBy("world", window).agg(F.count("*"), total, total)


def rows(frame):
    return sorted(map(tuple, frame.collect()))


def test_bounded_windows_are_sparks(remote, tmp_path):
    write(list(files()), tmp_path / "files")
    frame = remote.read.parquet(str(tmp_path / "files"))
    found = rows(group_by(frame, "world").window(WINDOW, time="ts").aggregate(**aggregates()))
    assert found == rows(expected(frame))
    assert len(found) > 10


def test_a_definition_without_a_dataframe_is_a_function_of_them(remote, tmp_path):
    write(list(files()), tmp_path / "files")
    frame = remote.read.parquet(str(tmp_path / "files"))
    definition = group_by("world").window(WINDOW, time="ts").define(**aggregates())
    assert rows(frame.transform(definition)) == rows(expected(frame))
    stream = source(remote, tmp_path / "files").transform(definition)
    assert stream.isStreaming
    assert stream.columns == ["world", "window", *aggregates()]


def test_training_rows_are_as_of_the_times_of_a_spine(remote, tmp_path):
    write(list(files()), tmp_path / "files")
    frame = remote.read.parquet(str(tmp_path / "files"))
    definition = group_by("world").window(WINDOW, time="ts").define(**aggregates())
    spine = frame.select("world", F.window("ts", "5 minutes").end.alias("at")).distinct()
    found = {
        (row["world"], row["at"]): tuple(row)[2:] for row in definition.at(spine, frame, spine_time="at").collect()
    }
    windows = {(row["world"], row["window"]["end"]): row for row in expected(frame).collect()}
    assert found == {key: (*tuple(windows[key])[2:], windows[key]["window"]["start"]) for key in found}
    assert len(found) > 5


WAITING = {"collect_metrics", "filter", "map_partitions", "project", "read", "repartition_by_expression", "sort"}


def relations(relation):
    """The kinds of relations that a plan of one input is made of."""
    kind = relation.WhichOneof("rel_type")
    found = getattr(relation, kind)
    return {kind, *(relations(found.input) if kind != "read" else ())}


class NoServer:
    """Fails when anything is asked of a server."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} is asked of the server")


@pytest.mark.parametrize("window", [WINDOW, session("5 minutes", late_by="session")], ids=str)
@pytest.mark.parametrize("late", ["counts", "records"])
def test_with_a_declared_schema_a_query_is_built_without_a_call(remote, tmp_path, monkeypatch, window, late):
    windowed = group_by("world", "in.key").window(window, time="ts").emit(on_update()).late(late).buckets(3)
    definition = windowed.define(**aggregates(), some=C.count(where="in.paid"))
    schema = "world bigint, ts timestamp, n bigint, in struct<key: string, paid: boolean>"
    (tmp_path / "files").mkdir()
    read = remote.readStream.schema(schema).parquet(str(tmp_path / "files"))
    bounded = remote.read.schema(schema).parquet(str(tmp_path / "files"))
    F.col("n")  # the first Column of a process has PySpark ask whether it is to be debugged
    with monkeypatch.context() as patch:
        patch.setattr(remote.client, "_stub", NoServer())
        with pytest.raises(AssertionError, match="AnalyzePlan is asked"):
            _ = read.schema
        live = definition.declare(schema, streaming=True, watermark="1 minute", partitions=2)
        streaming = read.transform(live)
        history = bounded.transform(definition.declare(schema))
    # The server resolves what other relations are called on at once: in a pipeline the table of an earlier run.
    assert relations(history._plan.to_proto(remote.client).root) <= WAITING
    asked = read.withWatermark("ts", "1 minute").transform(definition)
    assert streaming.schema.simpleString() == asked.schema.simpleString()
    assert history.schema.simpleString() == bounded.transform(definition).schema.simpleString()
    assert history.count() == 0


def test_a_stream_has_sparks_rows_and_its_counters(remote, tmp_path):
    write(list(files()), tmp_path / "files")
    exported = []
    listener = ProgressListener(lambda query, gauges: exported.append(gauges), lines=False)
    remote.streams.addListener(listener)
    windowed = group_by(source(remote, tmp_path / "files", "30 seconds"), "world").window(WINDOW, time="ts")
    out = windowed.emit(on_close()).late("partials").aggregate(**aggregates())
    writer = out.writeStream.format("memory").queryName("connected")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()

    found = remote.table("connected")
    frame = remote.read.parquet(str(tmp_path / "files"))
    newest = F.lit(START + (18 * 60 + 290 - 30) * SECOND)
    closed = expected(frame.where("n != 7")).where(F.unix_micros("window.end") <= newest)
    assert rows(results(found)) == rows(closed)
    assert [row.late.records for row in late_partials(found).collect()] == [1]

    figures = [each for progress in query.recentProgress if (each := micro_batch(progress))]
    assert sum(each.records for each in figures) == 4 * 60 + 1
    assert sum(each.counts["results"] for each in figures) == results(found).count()
    assert [each.counts["late"] for each in figures if each.counts["late"]] == [1]
    assert max(each.counts["partials_written"] for each in figures) > 0
    assert "1 late" in figures[3].line()
    delays = [each.lateness for each in figures if each.lateness]
    assert [each.late for each in delays if each.late] == [1]
    assert sum(each.records for each in delays) == 4 * 60 + 1
    assert {each.delay for each in delays} == {30 * SECOND}
    until = time.monotonic() + 30
    while len(exported) < len(figures) and time.monotonic() < until:
        time.sleep(0.1)
    remote.streams.removeListener(listener)
    assert listener.lateness("connected") == lateness(query.recentProgress)
    assert [gauges["results"] for gauges in exported] == [each.counts["results"] for each in figures]


def test_state_is_looked_up_and_described(remote, tmp_path):
    write(list(files()), tmp_path / "files")
    definition = group_by(source(remote, tmp_path / "files", "30 seconds"), "world").window(WINDOW, time="ts")
    made, checkpoint = definition.define(**aggregates()), str(tmp_path / "checkpoint")
    writer = made.dataframe().writeStream.format("noop").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()

    frame = remote.read.parquet(str(tmp_path / "files"))
    newest = F.lit(START + (18 * 60 + 290 - 30) * SECOND)
    still_open = expected(frame.where("n != 7")).where(F.unix_micros("window.end") > newest)
    found = made.lookup(checkpoint)
    assert rows(found.drop("as_of", "closed")) == rows(still_open)
    assert found.where("closed").count() == 0
    one = made.lookup(checkpoint, keys=[2]).drop("as_of", "closed", "known_from")
    assert rows(one) == rows(still_open.where("world = 2"))
    assert made.lookup(checkpoint, windows=hopping("5 minutes", "5 minutes"), latest=True).count() == 2
    row = made.lookup(checkpoint, keys=[2], latest=True).withColumn("at", F.unix_micros("window.start")).first()
    why = made.why(checkpoint, 2, row["at"])
    assert (why.start, why.end - why.start) == (row["at"], 10 * MINUTE)
    assert why.slices
    assert {name: row[name] for name in why.results} == why.results
    state = describe(remote, checkpoint)
    assert sum(bucket.keys for bucket in state.buckets) == 2
    assert len(state.largest_keys) == 2
    assert state.keys == ("world bigint",)


def test_the_variables_of_lambdas_are_numbered_anew(remote):
    """A Column has other ones each time it is built; state holds a text that is always the same."""

    def built():
        return text_of(F.aggregate("items", F.lit(0), lambda total, item: total + item))

    first, second = built(), built()
    assert first != second
    assert renumbered(first) == renumbered(second)
    assert renumbered(first) != first


def test_a_second_watermark_is_found_in_the_plan_that_the_server_prints(remote, tmp_path):
    write(files(), tmp_path)
    stream = source(remote, tmp_path, "1 minute")
    windowed = group_by(stream.withWatermark("ts", "2 minutes"), "world").window(WINDOW, time="ts")
    with pytest.raises(InvalidValue, match=r'The first is `\.withWatermark\("ts", "1 minutes"\)` on FileSource'):
        windowed.aggregate(n=C.count())
    once = group_by(stream.dropDuplicatesWithinWatermark(["n"]), "world").window(WINDOW, time="ts")
    query = once.aggregate(n=C.count()).writeStream.format("noop").trigger(availableNow=True)
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    # The last record is 20 minutes behind.
    assert "another operator dropped 1 record; its delay is the watermark's" in str(lateness(query.recentProgress))
