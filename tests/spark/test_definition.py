"""Definitions: one value for batch and streams, with or without a DataFrame, and checked as early as can be."""

import dataclasses
import pickle

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from streams import MINUTE, SECOND, START, record, run, source, table, write

import combinators as C
import slicing.spark.build
from slicing import (
    Aggregate,
    Definition,
    InvalidType,
    InvalidValue,
    counting,
    group_by,
    hopping,
    on_change,
    on_update,
    processing_time,
    session,
    sliding,
    tumbling,
    unbounded,
)

WINDOW = hopping("10 minutes", "5 minutes")
RESULTS = {"records": C.count(), "total": C.sum("n"), "s_most": C.max("s")}


def defined(*keys, window=WINDOW, time="ts", **results):
    return group_by(*keys).window(window, time=time).define(**(results or RESULTS))


def tables():
    for number in range(4):
        at = START + number * 6 * MINUTE
        rows = [record(key, at + each * SECOND, n=each + key) for key in (1, 2) for each in range(0, 300, 10)]
        yield table(rows + ([record(1, at - 20 * MINUTE, n=7)] if number == 3 else []))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("definition")
    write(list(tables()), root / "files")
    return root / "files"


@pytest.fixture(scope="module")
def batch(spark, folder):
    return spark.read.parquet(str(folder))


def rows(frame):
    return sorted(map(tuple, frame.collect()))


# --- one value, asked in several ways -------------------------------------------------------------------------------


def test_aggregate_is_the_short_form(batch):
    windowed = group_by(batch, "world").window(WINDOW, time="ts")
    definition = windowed.define(**RESULTS)
    assert rows(definition.dataframe()) == rows(windowed.aggregate(**RESULTS))
    assert str(definition.plan()) == str(windowed.plan(**RESULTS))


def test_explain_prints_the_plan(batch, capsys):
    definition = group_by(batch, "world").window(WINDOW, time="ts").define(**RESULTS)
    definition.explain()
    assert capsys.readouterr().out == f"{definition.plan()}\n"


def test_the_functions_of_one_aggregate_are_defined_as_they_are_aggregated(batch):
    functions = (lambda: 0), (lambda total, n: total + n), (lambda a, b: a + b)
    options = {"value": "n", "name": "total", "partial": "total long"}
    windowed = group_by(batch, "world").window(WINDOW, time="ts")
    assert rows(windowed.define(*functions, **options).dataframe()) == rows(windowed.aggregate(total=C.sum("n")))


def test_a_definition_is_a_value():
    one, other = defined("world"), defined("world")
    assert one == other
    assert one != defined("world", records=C.count())
    assert pickle.loads(pickle.dumps(defined("world", top=Aggregate(int, max).on("n")))).results[0][0] == "top"
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.results = ()


def test_nothing_is_built_until_it_is_asked(batch, monkeypatch):
    built = []
    monkeypatch.setattr(slicing.spark.build, "build", lambda *arguments: built.append(arguments) or batch)
    definition = group_by(batch, "world").window(WINDOW, time="ts").define(**RESULTS)
    assert not built
    definition.dataframe()
    assert len(built) == 1


# --- without a DataFrame --------------------------------------------------------------------------------------------


def test_one_definition_is_of_batch_and_stream(spark, batch, folder):
    hourly = defined("world")
    live = source(spark, folder, "30 seconds")
    assert rows(batch.transform(hourly)) == rows(
        group_by(batch, "world").window(WINDOW, time="ts").aggregate(**RESULTS)
    )
    ours, short = run(live.transform(hourly), group_by(live, "world").window(WINDOW, time="ts").aggregate(**RESULTS))
    assert len(ours.rows("world")) > 5
    assert ours.rows("world") == short.rows("world")


def test_options_are_part_of_it(spark, batch, folder):
    updating = (
        group_by("world").window(WINDOW, time="ts").emit(on_update()).grace("1 minute").buckets(3).define(**RESULTS)
    )
    live = source(spark, folder, "30 seconds").transform(updating)
    assert {"emission", "revision"} <= set(live.columns)
    assert "emission" not in batch.transform(updating).columns
    assert updating.on(batch).plan().buckets == 3
    late = group_by("world").window(WINDOW, time="ts").late("partials").define(**RESULTS)
    assert "late" in source(spark, folder).transform(late).columns


def test_another_dataframe_may_take_the_place_of_the_first(batch):
    of_all = group_by(batch, "world").window(WINDOW, time="ts").define(**RESULTS)
    first = batch.where("world = 1")
    assert rows(of_all(first)) == rows(first.transform(defined("world")))
    assert of_all.on(first).windowed.df is first
    assert of_all.windowed.df is batch


def test_keys_may_be_columns_before_there_is_a_dataframe(batch):
    day = F.to_date("ts").alias("day")
    found = batch.transform(defined("world", day))
    assert found.columns[:2] == ["world", "day"]
    assert rows(found) == rows(group_by(batch, "world", day).window(WINDOW, time="ts").aggregate(**RESULTS))
    assert rows(batch.transform(defined(day))) == rows(batch.transform(defined([day])))


@pytest.mark.parametrize(
    "window",
    [tumbling("1 hour"), session("5 minutes"), sliding("5 minutes"), unbounded(), counting(3, order_by="n")],
    ids=str,
)
def test_every_kind_of_windows_can_be_defined(batch, window):
    definition = defined("world", window=window, records=C.count())
    short = group_by(batch, "world").window(window, time="ts").aggregate(records=C.count())
    assert batch.transform(definition).schema == short.schema
    assert repr(definition) == f"group_by('world').window({window}, time='ts').define(records=C.count())"


# --- errors, when it is defined -------------------------------------------------------------------------------------

ADD = Aggregate(int, lambda total, n: total + n, partial="total long")
TREE = Aggregate(int, max, max, partial="most long")
EARLY = {
    "no results": (lambda: group_by("k").window(WINDOW, time="ts").define(), InvalidValue, "`define` needs at least"),
    "results without names": (
        lambda: group_by("k").window(WINDOW, time="ts").define(C.count()),
        InvalidType,
        r"write `define\(name=...\)`",
    ),
    "no combinator": (lambda: defined("k", n=3), InvalidType, "must be a combinator"),
    "a result called as a key": (lambda: defined("k", K=C.count()), InvalidValue, "`K` collides"),
    "a result called window": (lambda: defined("k", window_=C.count(), window=3), InvalidType, "window"),
    "keys twice": (lambda: defined("k", "K"), InvalidValue, "key columns must differ; got k, K"),
    "a reserved key": (lambda: defined("window"), InvalidValue, "cannot be called `window`"),
    "two in a struct": (
        lambda: defined("k", **{"a": C.struct(b=C.count()), "a.b": C.count()}),
        InvalidValue,
        "two results are called `a.b`",
    ),
    "a tree of sessions": (
        lambda: group_by("k").window(session("1 hour"), time="ts").assemble("recompute").define(n=C.count()),
        InvalidValue,
        "sessions are merged",
    ),
    "a tree without combine": (
        lambda: group_by("k").window(WINDOW, time="ts").assemble("two_layer").define(n=ADD.on("n")),
        InvalidValue,
        "needs `combine`",
    ),
    "two layers without invert": (
        lambda: group_by("k").window(WINDOW, time="ts").assemble("two_layer").define(n=TREE.on("n")),
        InvalidValue,
        "needs an exact `invert`",
    ),
    "many windows without combine": (
        lambda: defined("k", window=hopping("1 day", "1 minute"), n=ADD.on("n")),
        InvalidValue,
        "has no `combine`",
    ),
    "an eager result of sessions": (
        lambda: defined("k", window=session("1 hour"), n=ADD.on("n")),
        InvalidValue,
        "is eager: it has no partials",
    ),
    "grace by the clock": (
        lambda: group_by("k").window(WINDOW, time=processing_time()).grace("1 minute").define(n=C.count()),
        InvalidValue,
        "nothing is late",
    ),
    "event time without time": (
        lambda: group_by("k").window(unbounded()).define(n=C.first("x")),
        InvalidValue,
        "no time is given",
    ),
}


@pytest.mark.parametrize("case", EARLY)
def test_what_needs_no_schema_is_refused_when_it_is_defined(case):
    call, error, message = EARLY[case]
    with pytest.raises(error, match=message):
        call()


def test_what_only_a_stream_refuses_waits_for_one(spark, batch, folder):
    """Triggers have no effect on bounded input, so that a definition with any trigger is one."""
    changing = group_by("world").window(session("5 minutes"), time="ts").emit(on_change()).define(n=C.count())
    assert batch.transform(changing).columns == ["world", "window", "n"]
    with pytest.raises(InvalidValue, match="compares a window with the one before"):
        source(spark, folder).transform(changing)


def test_what_the_schema_decides_waits_for_a_dataframe(batch):
    for definition, message in (
        (defined("nobody"), "key column `nobody` does not exist"),
        (defined("world", time="s"), "time column `s` must be timestamp"),
        (defined("world", n=C.sum("s")), "takes a column of one of"),
    ):
        with pytest.raises((InvalidType, InvalidValue), match=message):
            batch.transform(definition)
    with pytest.raises(InvalidValue, match="key column `nobody` does not exist"):
        group_by(batch, "nobody").window(WINDOW, time="ts").define(**RESULTS)


def test_a_user_s_functions_are_tried_when_there_is_a_dataframe(batch):
    wrong = Aggregate(lambda: 1, lambda total, n: total + n, lambda a, b: a + b, partial="total long")
    definition = defined("world", total=wrong.on("n"))
    with pytest.raises(InvalidValue, match="identity"):
        definition.on(batch)


def test_without_a_dataframe_there_is_nothing_to_ask():
    definition = defined("world")
    for ask in (definition.dataframe, definition.plan, definition.explain):
        with pytest.raises(InvalidType, match=r"no DataFrame yet.*df\.transform\(definition\)"):
            ask()
    windowed = group_by("world").window(WINDOW, time="ts")
    for ask in (windowed.aggregate, windowed.plan, windowed.explain):
        with pytest.raises(InvalidType, match=r"needs a DataFrame, and this grouping has none.*define"):
            ask(n=C.count())
    with pytest.raises(InvalidType, match="needs the DataFrame of the records"):
        group_by("world").features_at(None, "1 hour", time="ts")


def test_only_dataframes_are_transformed(batch):
    definition = defined("world")
    for value, message in (
        (batch.toPandas(), r"`definition.on\(spark.createDataFrame\(df\)\)`"),
        (None, "return none"),
        ("events", "got builtins.str"),
    ):
        with pytest.raises(InvalidType, match=message):
            definition(value)


def test_a_dataframe_comes_before_its_keys(batch):
    with pytest.raises(InvalidType, match="a DataFrame is no key; it comes first"):
        group_by("world", batch)
    assert group_by(batch, "world").df is batch
    for keys in (("world",), (F.col("world"),), (["world"],), ()):
        assert group_by(*keys).df is None


def test_what_others_would_ask_of_a_definition_has_an_answer():
    definition = defined("world")
    for name, answer in (("grace", "Options come before"), ("show", r"`\.dataframe\(\)`"), ("transform", "other way")):
        with pytest.raises(AttributeError, match=answer):
            getattr(definition, name)
    assert not hasattr(definition, "sohw")
    assert isinstance(definition, Definition)


# --- with a declared schema -----------------------------------------------------------------------------------------

DECLARED = "world bigint, ts timestamp, n bigint, s string"


@pytest.mark.slow
def test_with_a_declared_schema_rows_are_the_same(spark, batch, folder):
    hourly = defined("world")
    history = hourly.declare(DECLARED)
    live = hourly.declare(DECLARED, streaming=True, watermark="30 seconds", partitions=2)
    assert rows(batch.transform(history)) == rows(batch.transform(hourly))
    assert batch.transform(history).schema == batch.transform(hourly).schema
    read = spark.readStream.schema(batch.schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    ours, short = run(read.transform(live), source(spark, folder, "30 seconds").transform(hourly))
    assert len(ours.rows("world")) > 5
    assert ours.rows("world") == short.rows("world")
    assert ours.counters("late") == short.counters("late") == {3: 1}
    assert ours.watermarks() == short.watermarks()
    assert read.transform(live).schema == source(spark, folder, "30 seconds").transform(hourly).schema


@pytest.mark.parametrize(
    ("window", "streaming", "watermark"),
    [(session("5 minutes"), True, "1 minute"), (sliding("5 minutes"), False, None), (unbounded(), True, None)],
    ids=str,
)
def test_other_windows_have_the_same_columns(spark, batch, folder, window, streaming, watermark):
    definition = group_by("world").window(window, time="ts").emit(on_update()).define(**RESULTS)
    declared = definition.declare(DECLARED, streaming=streaming, watermark=watermark, partitions=2)
    read = spark.readStream.schema(batch.schema).parquet(str(folder)) if streaming else batch
    theirs = source(spark, folder, watermark or "0 seconds") if streaming else batch
    assert read.transform(declared).schema.simpleString() == theirs.transform(definition).schema.simpleString()
    if not streaming:
        assert rows(batch.transform(declared)) == rows(batch.transform(definition))


def test_fields_of_structs_are_found_in_the_declared_schema(batch):
    nested = batch.select(F.struct("world", F.struct("n", (F.col("n") > 5).alias("big")).alias("in")).alias("s"), "ts")
    definition = defined("s.world", total=C.sum("S.in.n"), some=C.count(where="s.in.big"))
    declared = definition.declare("s struct<world: bigint, in: struct<n: bigint, big: boolean>>, ts timestamp")
    assert nested.transform(declared).columns == ["world", "window", "total", "some"]
    assert rows(nested.transform(declared)) == rows(nested.transform(definition))


def test_a_declared_schema_can_be_explained_without_a_dataframe(capsys):
    live = defined("world").declare(DECLARED, streaming=True, watermark="30 seconds", partitions=4)
    live.explain()
    assert "over 4 shuffle partitions" in capsys.readouterr().out
    with pytest.raises(InvalidType, match="no DataFrame yet"):
        live.dataframe()
    assert live.declare(DECLARED).declared.streaming is False
    assert "declare(" in repr(live)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int", "double", "string"])
def test_a_column_of_another_type_than_declared_is_an_error(batch, kind):
    """Cast without a word, 1.5 would be 1."""
    other = batch.withColumn("n", F.col("n").cast(kind))
    found = other.transform(defined("world", total=C.sum("n")).declare(DECLARED))
    with pytest.raises(PySparkException, match=f"column `n` is declared as bigint, and is {kind}"):
        found.collect()
    unused = other.transform(defined("world", records=C.count()).declare(DECLARED))
    assert len(unused.collect()) > 5
    with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN"):
        batch.drop("s").transform(defined("world").declare(DECLARED))


def test_what_is_declared_bounded_is_no_stream(spark, folder):
    with pytest.raises(PySparkException, match=r"[Ss]tream"):
        run(source(spark, folder).transform(defined("world").declare(DECLARED)))


REFUSED = {
    "a stream without its watermark": (
        lambda: defined("world").declare(DECLARED, streaming=True),
        InvalidValue,
        'declared with its schema.*watermark="10 minutes"',
    ),
    "a watermark of bounded input": (
        lambda: defined("world").declare(DECLARED, watermark="1 minute"),
        InvalidValue,
        "nothing is late on bounded input; got .* with watermark='1 minute'",
    ),
    "a watermark where nothing is late": (
        lambda: defined("world", window=unbounded()).declare(DECLARED, streaming=True, watermark="1 minute"),
        InvalidValue,
        "nothing is late where time closes no window",
    ),
    "a negative watermark": (
        lambda: defined("world").declare(DECLARED, streaming=True, watermark="-1 minute"),
        InvalidValue,
        "must not be negative",
    ),
    "a time that is computed": (
        lambda: defined("world", time=F.col("ts") + F.expr("interval 1 day")).declare(
            DECLARED, streaming=True, watermark="1 minute"
        ),
        InvalidValue,
        "the watermark is on a declared column",
    ),
    "a time without a zone on a stream": (
        lambda: defined("world").declare(
            DECLARED.replace("timestamp", "timestamp_ntz"), streaming=True, watermark="1 minute"
        ),
        InvalidType,
        "only timestamp takes a watermark",
    ),
    "a key that is computed": (
        lambda: defined(F.upper("s")).declare(DECLARED),
        InvalidType,
        "the type of an expression cannot be asked",
    ),
    "a key that is not there": (lambda: defined("user").declare(DECLARED), InvalidValue, "`user` does not exist"),
    "a field that is not there": (lambda: defined("s.x").declare(DECLARED), InvalidType, "`s.x` is no declared column"),
    "a result of the wrong type": (
        lambda: defined("world", total=C.sum("s")).declare(DECLARED),
        InvalidType,
        "takes a column of one of",
    ),
    "a text that is no schema": (lambda: defined("world").declare("world"), InvalidValue, "a schema is text such as"),
    "no schema": (lambda: defined("world").declare(["world"]), InvalidType, "a schema is text such as"),
    "no columns": (lambda: defined("world").declare(""), InvalidValue, "at least one column"),
    "a column twice": (lambda: defined("world").declare("a int, A int"), InvalidValue, "`a` is declared 2 times"),
    "no partitions": (lambda: defined("world").declare(DECLARED, partitions=0), InvalidValue, "`partitions` must be"),
    "streaming by word": (lambda: defined("world").declare(DECLARED, streaming="yes"), InvalidType, "True or False"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_declared_is_checked_at_once(case):
    call, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        call()
