"""First guesses of those who know Spark or pandas: they do what Spark does, or the answer is in the message."""

import pickle
from datetime import timedelta

import pandas as pd
import pytest
from pyspark.sql import functions as F

import combinators as C
import slicing
from slicing import (
    Aggregate,
    InvalidType,
    InvalidValue,
    SlicingError,
    by_edges,
    counting,
    cumulating,
    early,
    group_by,
    hopping,
    on_change,
    on_close,
    on_update,
    processing_time,
    session,
    sliding,
    tumbling,
    unbounded,
)
from slicing.column_names import text_of

HOUR = tumbling("1 hour")


@pytest.fixture(scope="module")
def frame(spark):
    number = F.col("id")
    made = spark.range(60).select(
        F.timestamp_seconds(number * 300).alias("ts"),
        (number % 7).alias("amount"),
        F.concat(F.lit("u"), (number % 3).cast("string")).alias("user"),
        F.struct((number % 2).cast("string").alias("half"), (number * 2).alias("fee")).alias("s"),
        (number % 5).alias("a.b"),
    )
    return made.withColumn("window", F.window("ts", "1 hour")).withColumn("day", F.to_date("ts"))


def windowed(frame, *keys):
    return group_by(frame, *(keys or ("user",))).window(HOUR, time="ts")


def columns_of(frame, **results):
    return windowed(frame)._query((), results).columns


def test_what_works_is_what_spark_makes_of_it(frame):
    add = Aggregate(lambda: 0, lambda total, x: total + x, lambda a, b: a + b)
    keys = [F.col("USER"), "S.Half", (F.col("amount") % 2).alias("odd"), F.upper("user").alias("Amount"), "Day"]
    ours = (
        group_by(frame, keys[:2], *keys[2:])
        .window(HOUR, F.col("TS"))
        .aggregate(
            twice=C.sum(F.col("amount") * 2),
            nested=C.sum("s.fee"),
            case=C.max("AMOUNT"),
            dotted=C.sum("a.b"),
            all=C.count("*"),
            some=C.count(F.when(F.col("amount") > 2, 1)),
            few=C.count(where=F.col("s.fee") > 50),
            own=add.on(F.col("amount") + F.col("s.fee")),
            pair=C.min_by(F.col("s.fee"), F.col("s.fee") - F.col("amount")),
        )
    )
    theirs = frame.groupBy(*keys, F.window("ts", "1 hour")).agg(
        F.sum(F.col("amount") * 2).alias("twice"),
        F.sum("s.fee").alias("nested"),
        F.max("AMOUNT").alias("case"),
        F.sum("`a.b`").alias("dotted"),
        F.count("*").alias("all"),
        F.count(F.when(F.col("amount") > 2, 1)).alias("some"),
        F.count_if(F.col("s.fee") > 50).alias("few"),
        F.sum(F.col("amount") + F.col("s.fee")).alias("own"),
        F.min_by("s.fee", F.col("s.fee") - F.col("amount")).alias("pair"),
    )
    assert ours.columns == theirs.columns
    assert sorted(map(repr, ours.collect())) == sorted(map(repr, theirs.collect()))


def test_the_same_expression_is_one_column_and_the_same_text_is_not(frame):
    add_one, add_two = (F.udf(lambda x, by=by: x + by, "long") for by in (1, 2))
    assert columns_of(frame, a=C.sum(add_one("amount")), b=C.sum(add_two("amount"))) == (
        "<lambda>(amount)",
        "<lambda>(amount)'",
    )
    double = F.col("amount") * 2
    columns = columns_of(frame, a=C.sum(double), b=C.max(F.col("AMOUNT") * 2), c=C.count("amount", where=double > 2))
    assert columns == (text_of(double), "amount", text_of(double > 2))
    other = frame.withColumn(text_of(double), F.lit(1))
    assert columns_of(other, a=C.sum(double), b=C.sum(text_of(double))) == (text_of(double) + "'", text_of(double))
    assert columns_of(frame, a=C.sum(frame.amount), b=C.sum("Amount"), c=C.sum(F.col("s.fee")), d=C.sum("s.fee")) == (
        "amount",
        "s.fee",
    )


def test_streams_take_columns_too(spark):
    rate = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    made = group_by(rate, (F.col("value") % 3).alias("k")).window(HOUR, time=F.col("Timestamp"))
    assert made.aggregate(twice=C.sum(F.col("value") * 2)).columns == ["k", "window", "twice"]
    with pytest.raises(InvalidValue, match="the watermark is on `timestamp`"):
        group_by(rate).window(HOUR, time=F.col("timestamp") + F.expr("interval 1 hour")).aggregate(n=C.count())
    made = group_by(rate, (F.col("value") % 3).alias("value")).window(HOUR, time="timestamp").late("records")
    with pytest.raises(InvalidValue, match=r"the key `value`, computed as `.*`, and the column `value` would share a"):
        made.aggregate(total=C.sum("value"))


def test_cases_differ_where_spark_says_so(spark, frame):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert columns_of(frame.withColumn("AMOUNT", F.lit(1)), a=C.sum("AMOUNT"), b=C.sum("amount")) == (
            "AMOUNT",
            "amount",
        )
        with pytest.raises(InvalidValue, match="key column `USER` does not exist"):
            windowed(frame, "USER").aggregate(n=C.count())
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


ANSWERED = {
    "pandas": (lambda f: group_by(pd.DataFrame({"user": ["ada"]}), "user"), InvalidType, "spark.createDataFrame(df)"),
    "grouped by Spark": (lambda f: group_by(f.groupBy("user")), InvalidType, "Give the DataFrame itself"),
    "nothing": (lambda f: windowed(None).aggregate(n=C.count()), InvalidType, "`show`, `start` and the like"),
    "a number as key": (lambda f: group_by(f, 1), InvalidType, "keys are names of columns, or Columns"),
    "a window as key": (lambda f: group_by(f, F.window("ts", "1 hour")), InvalidType, ".window(hopping(size, advance)"),
    "Spark's window": (
        lambda f: group_by(f).window(F.window("ts", "1 hour")),
        InvalidType,
        "`.window(tumbling('1 hour'), time='ts')`",
    ),
    "Spark's window with a slide": (
        lambda f: group_by(f).window(F.window(F.col("ts"), "1 hour", "1 minute", "5 seconds").alias("w")),
        InvalidType,
        "`.window(hopping('1 hour', advance='1 minute', offset='5 seconds'), time='ts')`",
    ),
    "Spark's session window": (
        lambda f: group_by(f).window(F.session_window("ts", "5 minutes")),
        InvalidType,
        "`.window(session('5 minutes'), time='ts')`",
    ),
    "a column with a typing error": (
        lambda f: windowed(f).aggregate(n=C.sum("amuont")),
        InvalidValue,
        "Did you mean `amount`?",
    ),
    "a Column as a value that is not null": (
        lambda f: C.last(F.col("s.fee"), True),
        InvalidType,
        "`C.last(F.expr('s.fee'), ignore_nulls=True)`",
    ),
    "no time": (lambda f: group_by(f).window(HOUR), InvalidType, '`.window(..., time="ts")`'),
    "all columns as key": (lambda f: windowed(f, "s.*").aggregate(n=C.count()), InvalidValue, "several columns"),
    "agg": (lambda f: windowed(f).agg(n=C.count()), AttributeError, "It is `aggregate`"),
    "count": (lambda f: windowed(f).count(), AttributeError, "orders=C.count()"),
    "agg before window": (lambda f: group_by(f, "user").agg(n=C.count()), AttributeError, "Windows come first"),
    "a kind of window as method": (lambda f: group_by(f).sliding("1 hour"), AttributeError, "import sliding`, then"),
    "text as a flag": (lambda f: on_update("False"), InvalidType, "True or False; got 'False'"),
    "text as another": (lambda f: on_close(corrections="no"), InvalidType, "True or False; got 'no'"),
    "text as a third": (lambda f: on_change(drained="no"), InvalidType, "True or False; got 'no'"),
    "gaps as text": (lambda f: hopping("1 minute", "1 hour", gaps="no"), InvalidType, "True or False; got 'no'"),
    "a column as gap": (lambda f: session("gap"), InvalidValue, 'session(gap_column="gap")'),
    "a Column as gap": (lambda f: session(F.col("gap")), InvalidType, 'session(gap_column="gap")'),
    "two columns as order": (lambda f: counting(10, order_by=["ts", "n"]), InvalidType, "made of several"),
    "a name": (lambda f: windowed(f).aggregate("count"), InvalidType, "`count=C.count()`"),
    "another name": (lambda f: windowed(f).aggregate("sum"), InvalidType, 'spent=C.sum("amount")'),
    "a dict": (
        lambda f: windowed(f).aggregate({"amount": "sum"}),
        InvalidType,
        '`aggregate(sum_amount=C.sum("amount"))`',
    ),
    "a dict of results": (lambda f: windowed(f).aggregate({"n": C.count()}), InvalidType, "`aggregate(**results)`"),
    "a list": (lambda f: windowed(f).aggregate([C.count()]), InvalidType, "`aggregate(orders=C.count()"),
    "F.sum": (lambda f: windowed(f).aggregate(F.sum("amount")), InvalidType, '`C.sum("amount")`'),
    "F.sum by name": (lambda f: windowed(f).aggregate(n=F.sum("amount")), InvalidType, '`C.sum("amount")`'),
    "an expression as result": (lambda f: windowed(f).aggregate(n=F.col("a") * 2), InvalidType, "by `withColumn`"),
    "F.sum, not called": (lambda f: windowed(f).aggregate(n=F.sum), InvalidType, "`C.sum(...)`"),
    "C.sum, not called": (lambda f: windowed(f).aggregate(C.sum), InvalidType, "Call it: `C.sum(...)`"),
    "F.sum inside": (
        lambda f: windowed(f).aggregate(n=C.sum(F.sum("amount"))),
        InvalidValue,
        "cannot be computed of a",
    ),
    "an unknown column": (lambda f: windowed(f).aggregate(n=C.sum(F.col("x") + 1)), InvalidValue, "UNRESOLVED_COLUMN"),
    "text of an expression": (
        lambda f: windowed(f).aggregate(n=C.sum("amount * 2")),
        InvalidValue,
        "`F.expr('amount * 2')`",
    ),
    "a constant": (lambda f: C.sum(1), InvalidType, "`F.lit(...)`"),
    "time of a window": (
        lambda f: group_by(f).window(HOUR, "window").aggregate(n=C.count()),
        InvalidType,
        'F.window_time("window")',
    ),
    "a number as time": (
        lambda f: group_by(f).window(HOUR, "amount").aggregate(n=C.count()),
        InvalidType,
        '`F.timestamp_millis("amount")`',
    ),
    "a date as time": (
        lambda f: group_by(f).window(HOUR, "day").aggregate(n=C.count()),
        InvalidType,
        'cast("timestamp")',
    ),
    "text as time": (
        lambda f: group_by(f).window(HOUR, "user").aggregate(n=C.count()),
        InvalidType,
        'F.to_timestamp("user")',
    ),
    "a list as partial": (lambda f: Aggregate(lambda: [0, 0], max), InvalidType, "Use a tuple: (0, 0)"),
    "an empty list": (lambda f: Aggregate(list, max), InvalidType, "`C.collect_list`"),
    "a dict as partial": (
        lambda f: Aggregate(lambda: {"n": 0}, max),
        InvalidType,
        "Use a tuple, and names in `partial`",
    ),
    "an empty dict": (
        lambda f: group_by(f).window(HOUR, "ts").aggregate(n=Aggregate(dict, max, partial="n long").on("amount")),
        InvalidType,
        "`C.histogram`",
    ),
    "a set": (lambda f: Aggregate(set, max), InvalidType, "`C.collect_set`"),
}


@pytest.mark.parametrize("guess", ANSWERED)
def test_the_answer_is_one_line(frame, guess):
    call, error, remedy = ANSWERED[guess]
    with pytest.raises(error) as raised:
        call(frame)
    assert isinstance(raised.value, SlicingError)
    assert remedy in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_numbers_are_no_times_by_to_timestamp(frame):
    with pytest.raises(InvalidType) as raised:
        group_by(frame).window(HOUR, "amount").aggregate(n=C.count())
    assert "to_timestamp" not in str(raised.value)


def test_other_attributes_are_as_of_any_object():
    for value in (group_by(None, "a"), windowed(None)):
        assert not hasattr(value, "agregate")
        assert not hasattr(value, "__array__")
        assert pickle.loads(pickle.dumps(value)) == value


NAMES = {name: getattr(slicing, name) for name in slicing.__all__} | {"C": C, "timedelta": timedelta, "df": None}
VALUES = [
    tumbling("1h"),
    hopping("1 hour", "1 minute", offset="30 s"),
    hopping("1 minute", "1 hour", gaps=True),
    tumbling("1 month", zone="Europe/Berlin"),
    cumulating("1 day", "1 minute", zone="UTC"),
    session("30 minutes", late_by="session", unit="1 ms"),
    unbounded(ttl="30 days"),
    processing_time(),
    on_close(corrections=True, old=True),
    on_update(latest_only=True),
    on_change(drained=True),
    early(records=100),
    C.sum("amount", overflow="null"),
    C.count(),
    C.avg("amount", where="paid"),
    C.max("amount").where("paid"),
    C.percentile("amount", [0.5, 0.9], limit=3),
    C.struct(low=C.min("x"), more=C.struct(high=C.max("x"))),
    C.ohlc("price", "volume"),
    Aggregate(int, max, min, partial="value long", ordered=True),
    Aggregate(int, max).on("amount", "fee").where("paid"),
    group_by(None, "user", "city"),
    group_by(None).window(HOUR, time=processing_time()).grace("1 minute").buckets(3).late("records"),
    group_by(None).window(a=HOUR, b=hopping("2h", "1h"), time="ts").assemble("recompute").emit(on_update()),
    group_by(None, ["k"]).window(unbounded()),
    group_by("user", "city"),
    group_by("user").window(HOUR, time="ts").grace("1 minute").define(n=C.count(), spent=C.sum("amount", where="paid")),
    group_by().window(HOUR, time="ts").define(int, max, name="most", value="x", partial="most long"),
    group_by(None).window(a=HOUR, b=tumbling("1 day"), long=True, time="ts"),
    group_by(None).window(HOUR, tumbling("1 day"), time="ts"),
    sliding("1 hour"),
    counting(100, advance=10),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_print_as_the_call_that_makes_them(value):
    assert repr(eval(repr(value), NAMES)) == repr(value) == str(value)


def test_columns_and_functions_print_as_far_as_they_can(spark):
    double = F.col("amount") * 2
    assert repr(C.sum(double)) == f"C.sum(F.expr({text_of(double)!r}))"
    assert C.sum(double).label == f"sum({text_of(double)})"
    assert repr(C.reduce(max, "x")) == "C.reduce(max, 'x')"
    assert repr(by_edges([0], [5])) == "by_edges(1 instants, 1 instants)"


def test_dir_has_what_loads_later():
    assert {*slicing.__all__, "laws", "__version__"} <= {*dir(slicing)}
    assert not {"Any", "TYPE_CHECKING", "import_module"} & {*dir(slicing)}
