"""Errors: each at the earliest moment that exists, with the rule, the value found and the remedy in its message."""

import inspect
import operator
import pickle
from datetime import timedelta
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pyspark
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F
from streams import SECOND, START, record, run, source, table, write

import combinators as C
import slicing
import slicing.spark.requirements as requirements
from slicing import (
    Aggregate,
    InvalidType,
    InvalidValue,
    MissingRequirement,
    SlicingError,
    StateMismatch,
    assigned_by,
    group_by,
    hopping,
    on_close,
    on_update,
    tumbling,
)
from slicing.drafts import rules as of_drafts
from slicing.spark import rules

WINDOW = hopping("10 seconds", "5 seconds")


@pytest.fixture(scope="module")
def bounded(spark):
    """One column of every type that matters here."""
    return spark.range(10).select(
        F.timestamp_seconds("id").alias("ts"),
        F.col("id").alias("n"),
        F.col("id").cast("double").alias("x"),
        F.col("id").cast("string").alias("s"),
        F.array("id").alias("array"),
        F.create_map("id", "id").alias("map"),
        F.struct(F.array("id").alias("inside")).alias("struct"),
        F.parse_json(F.lit("1")).alias("variant"),
        F.collate(F.col("id").cast("string"), "UNICODE_CI").alias("collated"),
        F.timestamp_seconds("id").cast("timestamp_ntz").alias("ntz"),
        F.to_date(F.timestamp_seconds("id")).alias("date"),
        F.expr("interval '1' day * id").alias("interval"),
        F.col("id").alias("twice"),
        (F.col("id") + 1).alias("twice"),
    )


@pytest.fixture(scope="module")
def rate(spark):
    """A stream that is never started."""
    return spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts")


def refused(error, *parts):
    """The call inside raises exactly this error, which is ours, picklable, and says all of these."""
    return _Raises(error, parts)


class _Raises:
    def __init__(self, error, parts):
        self.raises, self.parts = pytest.raises(error), parts

    def __enter__(self):
        self.caught = self.raises.__enter__()
        return self.caught

    def __exit__(self, *details):
        done = self.raises.__exit__(*details)
        found = self.caught.value
        assert isinstance(found, SlicingError)
        assert str(pickle.loads(pickle.dumps(found))) == str(found)
        for part in self.parts:
            assert part in str(found)
        return done


def count(frame, *keys, window=WINDOW, time="ts", **results):
    return group_by(frame, *keys).window(window, time=time).aggregate(**(results or {"n": C.count()}))


# --- columns --------------------------------------------------------------------------------------------------------


def test_unknown_columns_are_refused(bounded):
    with refused(InvalidValue, "time column `at` does not exist", "ts, n, x"):
        count(bounded, time="at")
    with refused(InvalidValue, "key column `user` does not exist", "ts, n, x"):
        count(bounded, "user")
    with refused(InvalidValue, "column `amount` does not exist", "ts, n, x"):
        count(bounded, total=C.sum("amount"))


def test_ambiguous_columns_are_refused(bounded):
    with refused(InvalidValue, "`twice` is ambiguous", "2 columns", "Rename"):
        count(bounded, "twice")


@pytest.mark.parametrize(("column", "remedy"), [("n", "timestamp_micros"), ("s", "to_timestamp"), ("date", "cast")])
def test_a_time_column_of_another_type_is_refused(bounded, column, remedy):
    with refused(InvalidType, f"time column `{column}` must be timestamp or timestamp_ntz", remedy):
        count(bounded, time=column)


@pytest.mark.parametrize(
    ("column", "found", "remedy"),
    [
        ("array", "array<bigint>", "to_json"),
        ("map", "map<bigint,bigint>", "to_json"),
        ("variant", "variant", "to_json"),
        ("collated", "UNICODE_CI", "collate"),
        ("struct", "struct.inside", "to_json"),
        ("interval", "interval", "Take its seconds"),
    ],
)
def test_keys_that_cannot_be_grouped_here_are_refused(bounded, column, found, remedy):
    with refused(InvalidType, f"`{column}", found, remedy):
        count(bounded, column)


def test_keys_are_names_and_differ(bounded):
    with refused(InvalidType, "keys are names of columns, or Columns of Spark; got 1"):
        group_by(bounded, "n", 1)
    with refused(InvalidValue, "key columns must differ", "n, n"):
        count(bounded, "n", "n", records=C.count())
    with refused(InvalidValue, "`window`", "Rename"):
        count(bounded.withColumnRenamed("n", "window"), "window")


@pytest.mark.parametrize("name", ["sum", "mean", "variance", "stddev_pop"])
def test_combinators_say_which_types_they_take(bounded, name):
    with refused(InvalidType, f"`{name}(s)`", "got string", 'F.col("s").cast("double")'):
        count(bounded, result=getattr(C, name)("s"))


# --- results --------------------------------------------------------------------------------------------------------


def test_late_takes_three_words(bounded):
    with refused(InvalidValue, "`late` takes counts, partials, records", "got 'record'"):
        group_by(bounded, "n").window(WINDOW, time="ts").late("record")


def test_the_column_that_tags_late_rows_is_taken(bounded):
    named = bounded.withColumn("Late", F.col("n"))
    for output in ("partials", "records"):
        for keys, results in ((("Late",), {"n": C.count()}), (("n",), {"late": C.count()})):
            with refused(InvalidValue, "ate`", "a column of"):
                group_by(named, *keys).window(WINDOW, time="ts").late(output).aggregate(**results)
    windowed = group_by(named, "n").window(WINDOW, time="ts")
    with refused(InvalidValue, '`.late("records")`', "cannot be called `late`", "Rename"):
        windowed.late("records").aggregate(total=C.sum("Late"))
    windowed.late("partials").aggregate(total=C.sum("Late"))
    group_by(named, "Late").window(WINDOW, time="ts").aggregate(late_=C.count())


@pytest.mark.parametrize("name", ["window_end", "window", "emission", "revision", "old"])
def test_with_late_rows_the_columns_of_all_windows_and_triggers_are_reserved(rate, name):
    """They are split by the names of columns, as rows may come from a table."""
    named = rate.withWatermark("ts", "1 second").withColumn(name, F.lit(1))
    wide = {"short": WINDOW, "twice": hopping("20 seconds", "5 seconds")}
    for windows in ({}, wide):
        windowed = group_by(named, name).window(*([] if windows else [WINDOW]), **windows, time="ts")
        if name == ("window_end" if windows else "window"):
            continue  # a column of these windows, with or without late rows
        windowed.emit(on_close()).aggregate(n=C.count())
        with refused(InvalidValue, f"cannot be called `{name}`", "Rename"):
            windowed.emit(on_update()).late("partials").aggregate(n=C.count())


def test_late_rows_are_split_only_where_there_are_any(rate, bounded):
    windowed = group_by(rate.withWatermark("ts", "1 second")).window(WINDOW, time="ts")
    for frame in (bounded, windowed.aggregate(n=C.count())):
        assert slicing.results(frame) is frame
        for split in (slicing.late_partials, slicing.late_records):
            with refused(InvalidValue, "tagged by a column `late`", '`.late("partials")`'):
                split(frame)
    partials = windowed.late("partials").aggregate(n=C.count())
    with refused(InvalidValue, '`.late("records")` only'):
        slicing.late_records(partials)
    assert slicing.results(partials).columns == ["window", "n"]
    assert slicing.late_partials(partials).columns == ["n", "late"]


def test_names_of_results_that_collide_are_refused(bounded):
    with refused(InvalidValue, "result name `n` collides", "another name"):
        count(bounded, "n", n=C.count())
    with refused(InvalidValue, "result name `window` collides", "another name"):
        group_by(bounded).window(WINDOW, time="ts").aggregate(window=C.count())


def test_columns_that_repeat_records_are_refused(bounded):
    """A generator of Spark would repeat each record for all results."""
    tags = bounded.withColumn("tags", F.array("n", "n"))
    with refused(InvalidValue, "explode(tags)", "cannot be computed of a record", "GENERATOR"):
        group_by(tags).window(WINDOW, time="ts").aggregate(n=C.count(), tags=C.max(F.explode("tags")))


def test_columns_are_one_or_several_names(bounded):
    windowed = group_by(bounded).window(WINDOW, time="ts")
    with refused(InvalidType, "names of columns", "withColumn"):
        windowed.process(lambda key, window, records, context: [], returns="n long", columns=F.col("n"))
    with refused(InvalidType, "names of columns", "withColumn"):
        assigned_by(lambda time, n: [], columns=F.col("n"))
    with refused(InvalidType, "column", "got 5"):
        windowed.aggregate(lambda: 0, lambda n, x: n + x, lambda a, b: a + b, value=5)


def test_results_are_named_and_of_one_form(bounded):
    windowed = group_by(bounded).window(WINDOW, time="ts")
    with refused(InvalidValue, "at least one result", "C.count()"):
        windowed.aggregate()
    with refused(InvalidType, "results need names", "orders=C.count()"):
        windowed.aggregate(C.count())
    with refused(InvalidType, "result `n` must be", "got 1"):
        windowed.aggregate(n=1)
    with refused(InvalidValue, "cannot be mixed", "`orders`"):
        windowed.aggregate(int, lambda acc: acc + 1, orders=C.count())


def test_a_window_is_made_with_its_functions(bounded):
    with refused(InvalidType, "`hopping`, `tumbling`", "'1 hour'"):
        group_by(bounded).window("1 hour", time="ts")
    with refused(InvalidType, "`time` is the name of a column"):
        group_by(bounded).window(WINDOW, time=3)


# --- durations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duration", "error", "rule"),
    [
        (60, InvalidType, "needs a unit"),
        (1.5, InvalidType, "needs a unit"),
        ("60", InvalidValue, "needs a unit"),
        ("1 month", InvalidValue, "need a zone"),
        ("2 years", InvalidValue, "need a zone"),
        ("a while", InvalidValue, "not a duration"),
        ("3 fortnights", InvalidValue, "unknown unit `fortnights`"),
        ("", InvalidValue, "empty"),
        ("0 seconds", InvalidValue, "must be positive"),
        ("-1 minute", InvalidValue, "must be positive"),
        (timedelta(0), InvalidValue, "must be positive"),
    ],
)
def test_durations_are_refused_where_they_are_written(duration, error, rule):
    with refused(error, "`size`", rule):
        hopping(duration, "1 minute")
    with refused(error, "`advance`", rule):
        hopping("1 minute", duration)


def test_options_are_refused_where_they_are_written(bounded):
    windowed = group_by(bounded).window(WINDOW, time="ts")
    with refused(InvalidValue, "`grace` must not be negative", "-1 second"):
        windowed.grace("-1 second")
    with refused(InvalidValue, "`retain` must not be negative", "-1 second", '.retain("1 day")'):
        windowed.retain("-1 second")
    with refused(InvalidType, "`grace`", "needs a unit", "5"):
        windowed.grace(5)
    for number in (0, -1, 2.0, True, "4"):
        with refused(InvalidValue, "`buckets` must be a positive integer", repr(number)):
            windowed.buckets(number)
    with refused(InvalidValue, "`assemble` takes", "four_layer"):
        windowed.assemble("four_layer")


def test_less_than_a_millisecond_is_refused_on_streams_only(bounded, rate):
    short = tumbling("500 microseconds")
    count(bounded, window=short)
    watched = rate.withWatermark("ts", "1 second")
    with refused(InvalidValue, "edges of windows must be at least 1 ms on a stream", "500 microseconds"):
        count(watched, window=short)
    with refused(InvalidValue, "`grace` must be at least 1 ms on a stream", "10 microseconds"):
        group_by(watched).window(WINDOW, time="ts").grace("10 microseconds").aggregate(n=C.count())


# --- the watermark --------------------------------------------------------------------------------------------------


def test_a_stream_needs_a_watermark_on_its_time_column(rate):
    with refused(InvalidValue, "needs a watermark on the time column `ts`", "there is none", '.withWatermark("ts"'):
        count(rate)
    other = rate.withColumn("other", F.col("ts")).withWatermark("other", "1 second")
    with refused(InvalidValue, "the watermark is on `other`", '.withWatermark("ts"', "in place of that on `other`"):
        count(other)
    rows = count(rate.withWatermark("ts", "1 second")).withColumn("ts", F.col("window.end"))
    with refused(InvalidValue, "the watermark is on `window`", 'withColumn("at", F.window_time("window"))'):
        count(rows)
    lost = rate.withWatermark("ts", "1 second").withColumn("ts", F.col("ts") + F.expr("interval 1 second"))
    with refused(InvalidValue, "an expression lost that of `.withWatermark(", "on rate", "after the expression"):
        count(lost)
    local = rate.withColumn("ts", F.col("ts").cast("timestamp_ntz"))
    with refused(InvalidValue, "Cast `ts` to timestamp, the only type that takes one, then call `.withWatermark("):
        count(local)
    with pytest.raises(PySparkException, match="EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE"):
        local.withWatermark("ts", "1 second")


def test_bounded_input_needs_no_watermark(bounded):
    assert count(bounded).columns == ["window", "n"]


# --- functions ------------------------------------------------------------------------------------------------------


def windowed(frame):
    return group_by(frame).window(WINDOW, time="ts")


def test_aggregates_that_exclude_themselves_are_refused():
    with refused(InvalidType, "`agg` must be a function", "None"):
        Aggregate(int, None)
    with refused(InvalidValue, "`invert` needs `combine`"):
        Aggregate(int, max, invert=min)
    with refused(InvalidValue, "commutative", "ordered=True"):
        Aggregate(int, max, max, min, ordered=True)
    with refused(InvalidValue, "`returns` is needed with `lower`", '"double"'):
        Aggregate(int, max, max, lower=float)
    with refused(InvalidValue, "subtracting floats is not", "value double", "Leave `invert` out"):
        Aggregate(float, max, max, min)
    with refused(InvalidType, "what is aggregated are columns", "got 1"):
        Aggregate(int, max, max).on(1)


def test_partials_that_do_not_match_init_are_refused(bounded):
    with refused(InvalidValue, "one field for each item of `init()`", "(0, 0)"):
        windowed(bounded).aggregate(lambda: (0, 0), lambda a, n: a, lambda a, b: a, value="n", partial="n long")
    with refused(InvalidValue, "`decimals` is not an atomic type"):
        windowed(bounded).aggregate(int, lambda a, n: a, lambda a, b: a, value="n", partial="n decimals")
    with refused(InvalidType, "cannot be inferred from `init()`", "[]", "partial="):
        windowed(bounded).aggregate(list, lambda a, n: a, lambda a, b: a, value="n")
    with refused(InvalidType, "partial", "'zero'"):
        windowed(bounded).aggregate(lambda: "zero", lambda a, n: a, lambda a, b: a, value="n", partial="n long")


def test_functions_that_return_another_type_than_the_partial_are_refused(bounded):
    with refused(InvalidType, "`value`", "bigint", "'one'", "Return that type"):
        windowed(bounded).aggregate(int, lambda a, n: "one", lambda a, b: a, value="n")
    with refused(InvalidType, "`mean`", "double", "'x'", "Return that type"):
        windowed(bounded).aggregate(
            int, lambda a, n: a + n, lambda a, b: a + b, value="n", lower=lambda a: "x", returns="double", name="mean"
        )


def test_functions_that_take_another_number_of_arguments_are_refused(bounded):
    with refused(InvalidType, "`agg` of `total` must take 2 argument(s)", "(acc)"):
        windowed(bounded).aggregate(int, lambda acc: acc, lambda a, b: a, value="n", name="total")
    with refused(InvalidType, "`combine` of `total` must take 2 argument(s)"):
        windowed(bounded).aggregate(int, lambda a, n: a, lambda a: a, value="n", name="total")


def test_columns_functions_of_a_wrong_shape_are_refused(bounded):
    with refused(InvalidType, "`agg` of `total`", "shape"):
        windowed(bounded).aggregate(
            int, lambda a, n: np.sum(a + n), lambda a, b: a + b, value="n", columns=True, name="total"
        )
    with refused(InvalidType, "`agg` of `total` must return 2 array(s)", "got 1"):
        windowed(bounded).aggregate(
            lambda: (0, 0), lambda a, n: a[0] + n, lambda a, b: a, value="n", columns=True, name="total"
        )


def test_columns_functions_that_disagree_with_themselves_are_refused_with_a_counter_example(bounded):
    with refused(InvalidType, "`total` do not work on columns", "left  = 3", "right = 2"):
        windowed(bounded).aggregate(
            int, lambda a, n: a + np.cumsum(n), lambda a, b: a + b, value="n", columns=True, name="total"
        )


def test_a_two_layer_tree_for_floats_is_refused(bounded):
    with refused(InvalidValue, "two-layer", "`x_total`", '.assemble("auto")'):
        windowed(bounded).assemble("two_layer").aggregate(n=C.count(), x_total=C.sum("x"))
    assert windowed(bounded).assemble("two_layer").aggregate(n=C.count(), total=C.sum("n")).columns


# --- requirements ---------------------------------------------------------------------------------------------------


@pytest.fixture
def watched(rate):
    return rate.withWatermark("ts", "1 second")


def test_another_state_store_is_refused(spark, watched):
    name = "spark.sql.streaming.stateStore.providerClass"
    mine = spark.conf.get(name)
    other = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    spark.conf.set(name, other)
    try:
        with refused(MissingRequirement, "RocksDB", other, f'spark.conf.set("{name}"'):
            count(watched)
    finally:
        spark.conf.set(name, mine)
    assert count(watched).isStreaming


@pytest.mark.parametrize("found", ["auto", "0", ""])
def test_partitions_that_are_not_a_number_are_refused(spark, bounded, watched, monkeypatch, found):
    """Some platforms take `auto`, which Spark's own session does not."""
    name, get = "spark.sql.shuffle.partitions", type(spark.conf).get
    monkeypatch.setattr(type(spark.conf), "get", lambda *args: found if args[1] == name else get(*args))
    if not found:  # there is no such setting
        assert count(bounded).columns == ["window", "n"]
        return
    for frame in (bounded, watched):
        windows = group_by(frame).window(WINDOW, time="ts")
        for build in (windows.aggregate, windows.explain):
            rule, remedy = f"`{name}` must be a positive number", f'spark.conf.set("{name}"'
            with refused(InvalidValue, rule, f"got '{found}'", remedy):
                build(n=C.count())


@pytest.mark.parametrize(
    ("package", "version", "rule"),
    [
        ("pandas", None, "pandas >= 2.2 and < 3; found none"),
        ("pandas", "2.1.4", "found 2.1.4"),
        ("pandas", "3.0.0", "found 3.0.0"),
        ("protobuf", None, "streams need protobuf, which Spark does not bring; found none"),
    ],
)
def test_packages_that_are_missing_or_do_not_fit_are_named(bounded, watched, monkeypatch, package, version, rule):
    real = requirements._installed
    monkeypatch.setattr(requirements, "_installed", lambda name: version if name == package else real(name))
    with refused(MissingRequirement, rule, "pip install 'spark-slicing[spark]'"):
        count(watched)
    assert count(bounded).columns == ["window", "n"]


def test_a_protobuf_that_does_not_read_the_messages_of_spark_is_named(bounded, watched, monkeypatch):
    def refuse(name):
        raise ValueError(
            "incompatible Gencode/Runtime versions when loading StateMessage.proto: gencode 9.8.7 runtime 6.5"
        )

    monkeypatch.setattr(requirements, "import_module", refuse)
    found = f"found {version('protobuf')}, and the messages of Spark {pyspark.__version__} want 9.8.7 or newer"
    with refused(MissingRequirement, "streams need protobuf", found, "pip install 'spark-slicing[spark]'"):
        count(watched)
    assert count(bounded).columns == ["window", "n"]


@pytest.mark.versions
def test_an_older_spark_is_refused_by_name(bounded, watched, monkeypatch):
    remedy = "pip install 'spark-slicing[spark]'"
    with monkeypatch.context() as patch:
        patch.setattr(pyspark, "__version__", "3.5.7")
        for frame in (bounded, watched):
            with refused(MissingRequirement, "windows need Spark 4.0 or newer", "found 3.5.7", remedy):
                count(frame)
    assert count(bounded).columns == ["window", "n"]
    with refused(MissingRequirement, "streams need Spark 4.0 or newer", "found 3.5.7", remedy):
        requirements.check_stream(SimpleNamespace(version="3.5.7"))  # the session of an older server


def test_all_errors_are_builtin_errors_too_and_travel_between_processes():
    kinds = {name: getattr(slicing, name) for name in slicing.__all__}
    errors = [kind for kind in kinds.values() if isinstance(kind, type) and issubclass(kind, SlicingError)]
    for kind in errors:
        found = pickle.loads(pickle.dumps(kind("why")))
        assert type(found) is kind
        assert str(found) == "why"
        assert kind is SlicingError or issubclass(
            kind, (ValueError, TypeError, RuntimeError, ArithmeticError, AttributeError)
        )
    assert StateMismatch in errors


# --- while it runs --------------------------------------------------------------------------------------------------


def flaky(acc, n):
    if n == 13:
        raise KeyError("thirteen")
    return acc + n


def touchy(a, b):
    if a + b > 100:
        raise ArithmeticError("too much")
    return a + b


def add(a, b):
    return a + b


def picky(total):
    return 100 // (total - 45)


@pytest.fixture(scope="module")
def events(spark):
    """Key "a" holds 0 .. 9 and key "b" 10 .. 19, one a second from 1970 on."""
    return (
        spark.range(20)
        .select(
            F.timestamp_seconds(F.col("id") % 10).alias("ts"),
            F.when(F.col("id") < 10, "a").otherwise("b").alias("k"),
            F.col("id").alias("n"),
            (F.lit(2**62) + F.col("id")).alias("huge"),
            F.lit("9" * 28).cast("decimal(28,0)").alias("long"),
        )
        .coalesce(1)
    )


def message(frame):
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    return str(caught.value)


def test_a_function_that_raises_is_named_with_key_and_slice(events):
    grouped = group_by(events, "k").window(WINDOW, time="ts")
    found = message(grouped.aggregate(int, flaky, add, value="n", name="total"))
    for part in ("FunctionFailed", "`agg` of `total`", "KeyError", "thirteen", "'b'", "00:00:00", "00:00:05"):
        assert part in found, part


def strict(acc, n):
    if (n == 13).any():
        raise KeyError("thirteen")
    return acc + n


def bounded_below(a, b):
    if (a + b > 100).any():
        raise ArithmeticError("too much")
    return a + b


def test_a_columns_function_that_raises_is_named_with_key_and_slice(events):
    grouped = group_by(events, "k").window(WINDOW, time="ts")
    found = message(grouped.aggregate(int, strict, np.add, value="n", columns=True, name="total"))
    for part in ("FunctionFailed", "`agg` of `total`", "KeyError", "thirteen", "'b'", "00:00:00", "00:00:05"):
        assert part in found, part
    found = message(grouped.aggregate(int, operator.add, bounded_below, value="n", columns=True, name="total"))
    for part in ("FunctionFailed", "`combine` of `total`", "ArithmeticError", "too much", "'b'"):
        assert part in found, part


def test_a_combine_that_raises_in_assembly_is_named_with_key(events):
    grouped = group_by(events, "k").window(WINDOW, time="ts")
    found = message(grouped.aggregate(int, add, touchy, value="n", name="total"))
    for part in ("FunctionFailed", "`combine` of `total`", "ArithmeticError", "too much", "'b'"):
        assert part in found, part


def test_a_lower_that_raises_is_named_with_key_and_window(events):
    grouped = group_by(events, "k").window(WINDOW, time="ts")
    found = message(grouped.aggregate(int, add, add, value="n", lower=picky, returns="long", name="share"))
    for part in ("FunctionFailed", "`lower` of `share`", "ZeroDivisionError", "'a'", "1970-01-01T00:00:00", "00:00:10"):
        assert part in found, part


def test_overflow_is_an_error_that_names_the_result(events):
    grouped = group_by(events, "k").window(WINDOW, time="ts")
    found = message(grouped.aggregate(total=C.sum("huge")))
    for part in ("ResultOverflow", "`sum(huge)`", "must fit bigint", "decimal(38,0)"):
        assert part in found, part
    whole = grouped.aggregate(total=C.sum("long"))
    assert whole.schema["total"].dataType.simpleString() == "decimal(38,0)"
    assert len(whole.collect()) == 6


def test_overflow_is_an_error_that_names_key_and_window(events):
    found = message(group_by(events, "k").window(WINDOW, time="ts").aggregate(total=C.sum("huge")))
    for part in ("key ('", "in window ["):
        assert part in found, part


def test_overflow_of_a_window_that_holds_less_is_none(events):
    """The sum of a slice may leave the type as long as no window does: 2^62 + 2^62 - 2^62."""
    frame = events.where("n < 3").withColumn("huge", F.expr("if(n = 2, -huge, huge)"))
    (row,) = group_by(frame).window(tumbling("10 seconds"), time="ts").aggregate(total=C.sum("huge")).collect()
    assert row.total == 2**62 - 1


def test_on_a_stream_the_query_fails_with_the_same_message(spark, tmp_path):
    write([table([record(1, START + 13 * SECOND, n=13)]), table([record(1, START + 14 * SECOND, n=1)])], tmp_path)
    frame = group_by(source(spark, tmp_path), "world").window(WINDOW, time="ts")
    with pytest.raises(StreamingQueryException) as caught:
        run(frame.aggregate(int, flaky, add, value="n", name="total"))
    for part in ("FunctionFailed", "`agg` of `total`", "thirteen", "key (1,)", "in slice [2023-11-15T00:00:10"):
        assert part in str(caught.value), part


@pytest.mark.slow
def test_a_query_that_overflows_goes_on_with_nulls_from_its_checkpoint(spark, tmp_path):
    huge = [record(1, START, n=2**63 - 1), record(1, START + SECOND, n=1), record(2, START, n=5)]
    later = [[record(2, START + 30 * SECOND, n=7)], [record(3, START + 60 * SECOND)]]
    write([table(records) for records in (huge, *later)], tmp_path)
    windowed = group_by(source(spark, tmp_path), "world").window(tumbling("10 seconds"), time="ts")
    checkpoint = tmp_path / "checkpoint"
    for part in ("ResultOverflow", 'overflow="null"'):
        with pytest.raises(StreamingQueryException, match=part):
            run(windowed.aggregate(total=C.sum("n")), checkpoint=checkpoint)
    (output,) = run(windowed.aggregate(total=C.sum("n", overflow="null")), checkpoint=checkpoint)
    found = {(world, start - START): row["total"] for (_, world, start), row in output.rows("world").items()}
    assert found == {(1, 0): None, (2, 0): 5, (2, 30 * SECOND): 7}


def test_another_python_in_the_workers_is_refused_by_the_first_task(spark, bounded, monkeypatch):
    """The rule is Spark's, and so is the check."""
    monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.9")
    found = message(windowed(bounded).aggregate(n=C.count()))
    assert "PYTHON_VERSION_MISMATCH" in found
    assert "3.9" in found


# --- rules ----------------------------------------------------------------------------------------------------------


def test_every_rule_of_a_call_is_listed_once_and_says_what_it_asks():
    drafts = [each for each in of_drafts.RULES_OF_DRAFTS if each not in rules.RULES]
    listed = [*rules.RULES, *of_drafts.OF_TREES, *drafts]
    written = {
        each
        for module in (rules, of_drafts)
        for each in vars(module).values()
        if inspect.isfunction(each) and each.__module__ == module.__name__
    }
    assert len(listed) == len(set(listed))
    # Others are asked by the listed ones, or ask them.
    others = {each for each in written if str(inspect.signature(each).return_annotation) != "None"}
    others |= {each for each in written if "call" in inspect.signature(each).parameters}
    assert set(listed) == {each for each in written - others if not each.__name__.startswith("_")}
    assert all(each.__doc__ and "\n" not in each.__doc__ for each in listed)


def test_functions_that_a_null_would_stop_are_refused(bounded):
    """Columns without nulls are told by the schema; a condition leaves records out of them too."""
    functions = (lambda: (0, 0), lambda a, v: (a[0] + 1, a[1] + v), lambda a, b: (a[0] + b[0], a[1] + b[1]))
    mean = Aggregate(*functions, lower=lambda a: a[1] / a[0], returns="double")
    nullable = bounded.withColumn("v", F.when(F.col("n") > 0, F.col("n")))
    never = nullable.withColumn("v", F.lit(1))
    assert count(never, mean=mean.on("v")).columns
    for frame, bound in ((nullable, mean.on("v")), (never, mean.on("v").where(F.lit(False)))):
        with refused(InvalidValue, "`lower` of `mean` must take `init()`", "ZeroDivisionError", "if a[0] else None"):
            count(frame, mean=bound)
    total = Aggregate(lambda: 0, lambda a, v: a + v, lambda a, b: a + b, nulls=True)
    assert count(never, total=total.on("v")).columns
    with refused(InvalidValue, "`agg` of `total` must take a null as None", "TypeError"):
        count(nullable, total=total.on("v"))
