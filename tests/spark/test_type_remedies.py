"""Each remedy for a column of a type that cannot be used, tried against Spark as it is written in the message."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

import combinators as C
from slicing import early, group_by, session, tumbling, within_delta
from slicing.errors import InvalidType

INTERVALS = ("'0 00:00:01.5'", "'0 00:00:00.4'", "'0 00:00:00.9'")
VALUES = {
    "interval day to second": [f"interval {text} day to second" for text in INTERVALS],
    "interval second": [f"interval '{text}' second" for text in ("1.5", "0.4", "0.9")],
    "interval day": [f"interval '{days}' day" for days in (9, 10, 2)],
    "interval hour to minute": [f"interval '{text}' hour to minute" for text in ("9:00", "10:01", "2:00")],
    "interval year to month": [f"interval '{text}' year to month" for text in ("0-9", "1-1", "0-2")],
    "interval": [f"make_interval(0, 0, 0, {days}, 1)" for days in (9, 10, 2)],
    "date": [f"date'1970-01-{day:02}'" for day in (9, 10, 2)],
    "timestamp": [f"timestamp'1970-01-01 00:00:00.{each}'" for each in (9, 15, 2)],
    "timestamp_ntz": [f"timestamp_ntz'1970-01-01 00:00:00.{each}'" for each in (9, 15, 2)],
    "binary": ["X'09'", "X'0909'", "X'02'"],
    "boolean": ["true", "true", "false"],
    "string": ["'9'", "'10'", "'2'"],
    "struct": [f"struct({number} as name, 'x' as other)" for number in (9, 10, 2)],
    "map": [f"map('key', {number})" for number in (9, 10, 2)],
    "array": [f"array({number}, 1)" for number in (9, 10, 2)],
    "variant": [f"""parse_json('{{"name": {number}}}')""" for number in (9, 10, 2)],
    "void": ["null"] * 3,
    "collated": [f"'{number}' collate UNICODE_CI" for number in (9, 10, 2)],
}
SUMS = {
    "interval year to month": 9 + 13 + 2,
    "interval": (21 * 24 + 3) * 3600 * 10**6,
    "date": 8 + 9 + 1,
    "timestamp": 10**5 * (9 + 1.5 + 2),
    "timestamp_ntz": 10**5 * (9 + 1.5 + 2),
    "binary": 4,
    "boolean": 2,
    "string": 21.0,
}
"""What `sum` gives of the numbers that the messages make, by hand."""
DAYS_TO_SECONDS = ("interval day to second", "interval second", "interval day", "interval hour to minute")
"""Types that sums and extremes take as they are; other combinators make numbers of them."""
MAXIMA = {"struct": 10, "map": 10, "variant": "9"}


def named(kind):
    """The name of the column of a type."""
    return f"a.{kind}"


def plain(kind):
    return kind.replace(" ", "_")


FORMS = {
    "a name with a dot": (named, named),
    "an expression": (plain, lambda kind: F.expr(f"if(true, {plain(kind)}, {plain(kind)})")),
}
"""How the column of a type is called, and how results name it."""


def frame(spark, values, called=named):
    """Three records of one key, a second apart, with a column for each type."""
    rows = (
        f"select 1 as u, timestamp'2024-05-01 00:00:0{at}' as ts, "
        + ", ".join(f"{each[at]} as `{called(kind)}`" for kind, each in values.items())
        for at in range(3)
    )
    return spark.sql(" union all ".join(rows))


def written(refused):
    """The expressions of a message."""
    found = [text for text in re.findall(r"`(F\..*?)`(?:[.;, ]|$)", str(refused.value)) if "..." not in text]
    assert found, refused.value
    return [eval(text, {"F": F}) for text in found]


def windows(df):
    return group_by(df, "u").window(tumbling("1 day"), time="ts")


@pytest.mark.parametrize("form", FORMS)
def test_numbers_of_each_type(spark, form):
    called, given = FORMS[form]
    df, made = frame(spark, VALUES, called), {}
    for kind in SUMS:
        with pytest.raises(InvalidType) as refused:
            windows(df).aggregate(r=C.sum(given(kind)))
        (made[kind],) = written(refused)
    (row,) = (
        windows(df.withColumns(made)).aggregate(**{f"of_{at}": C.sum(kind) for at, kind in enumerate(SUMS)}).collect()
    )
    assert {kind: row[f"of_{at}"] for at, kind in enumerate(SUMS)} == SUMS


@pytest.mark.parametrize("form", FORMS)
def test_atomic_columns_of_each_type(spark, form):
    called, given = FORMS[form]
    df, made = frame(spark, VALUES, called), {}
    for kind in VALUES:
        if kind not in DAYS_TO_SECONDS and (kind not in SUMS or "interval" in kind):
            with pytest.raises(InvalidType) as refused:
                windows(df).aggregate(r=C.max(given(kind)))
            made |= {f"{kind} {at}": each for at, each in enumerate(written(refused))}
    df = df.withColumns({f"of_{at}": each for at, each in enumerate(made.values())})
    (row,) = windows(df).aggregate(**{f"r{at}": C.max(f"of_{at}") for at in range(len(made))}).collect()
    found = {name: row[f"r{at}"] for at, name in enumerate(made)}
    assert [name for name, value in found.items() if value is None] == ["void 0"]
    assert {kind: found[f"{kind} 0"] for kind in MAXIMA} == MAXIMA


@pytest.mark.parametrize("form", FORMS)
def test_intervals_where_they_are_not_taken(spark, form):
    called, given = FORMS[form]
    df, kind = frame(spark, VALUES, called), "interval day to second"
    for combinator in (C.variance, C.mode):
        with pytest.raises(InvalidType) as refused:
            windows(df).aggregate(r=combinator(given(kind)))
        (made,) = written(refused)[:1]
        (row,) = windows(df.withColumn("made", made)).aggregate(most=C.max("made")).collect()
        assert row.most == Decimal("1.5")
    (seconds,) = df.select(F.make_dt_interval(secs=F.lit(row.most))).limit(1).collect()
    assert seconds[0] == timedelta(seconds=1.5), "and back"


@pytest.mark.parametrize("key", ["`a.k`", F.expr])
def test_fields_of_keys(spark, key):
    """The key is a struct whose field is a map, and an expression that makes one."""
    df = spark.sql("select timestamp'2024-05-01' as ts, named_struct('of.b', map('key', 9)) as `a.k`")
    df = df if isinstance(key, str) else df.withColumnRenamed("a.k", "k")
    with pytest.raises(InvalidType, match="key column") as refused:
        group_by(df, key if isinstance(key, str) else key("if(true, k, k)")).window(
            tumbling("1 day"), time="ts"
        ).aggregate(n=C.count())
    assert df.select(*written(refused)).first()[:] == (9, '{"key":9}')


def test_the_column_of_two_that_holds_no_numbers_is_named(spark):
    df = frame(spark, {"date": VALUES["date"], "int": ["1", "2", "3"]})
    with pytest.raises(InvalidType) as refused:
        windows(df).aggregate(r=C.corr(F.col("`a.int`") * 2, "a.date"))
    assert str(refused.value).endswith('`F.unix_date("`a.date`")`.')


def test_numbers_for_triggers_and_evictors(spark):
    """The same expressions; a Column takes the place of a name in `delta`."""
    df = frame(spark, VALUES)
    live = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts").withWatermark("ts", "1 minute")
    live = live.withColumn("u", F.col("value")).withColumn("a.date", F.to_date("ts")).withColumn("a.string", F.lit("9"))
    for kind in SUMS:
        with pytest.raises(InvalidType) as refused:
            windows(df).evict(within_delta(f"`{named(kind)}`", 1)).aggregate(n=C.count())
        (number,) = written(refused)
        made = windows(df.withColumn(named(kind), number))
        assert made.evict(within_delta(f"`{named(kind)}`", 1)).aggregate(n=C.count()).columns
    for kind in ("date", "string"):
        with pytest.raises(InvalidType, match="`delta` takes") as refused:
            windows(live).emit(early(delta=(named(kind), 1.0))).aggregate(n=C.count())
        (number,) = written(refused)
        assert windows(live).emit(early(delta=(number, 1.0))).aggregate(n=C.count()).columns


TIMES = {
    "int": "1714521600",
    "bigint": "1714521600000L",
    "double": "1714521600.5D",
    "decimal": "1714521600.5",
    "string": "'2024-05-01T00:00:00Z'",
    "date": "date'2024-05-01'",
    "window": "named_struct('start', timestamp'2024-04-30', 'end', timestamp'2024-05-01')",
}


@pytest.mark.parametrize("form", ["window", "a.window", "an expression"])
def test_times_of_each_type(spark, form):
    """One of the calls makes the first of May; the other units of a number make other times."""
    noon = spark.sql("select timestamp'2024-04-30 12:00:00' as ts")
    spans = noon.groupBy(F.window("ts", "1 day")).count()
    name, new = ("window", "at") if form == "an expression" else (form, form)
    for kind, value in TIMES.items():
        df = (spans if kind == "window" else spark.sql(f"select {value} as window")).withColumnRenamed("window", name)
        given = F.expr("if(true, window, window)") if form == "an expression" else name
        if kind == "window" and form == "an expression":
            continue  # its time is no longer that of a window
        with pytest.raises(InvalidType, match="must be timestamp") as refused:
            group_by(df).window(tumbling("1 day"), time=given).aggregate(n=C.count())
        calls = re.findall(r"`((?:withColumn\(|F\.).*?\))`(?:[.;, ]|$)", str(refused.value).replace("...", f"'{new}'"))
        calls = [call if call.startswith("with") else f"withColumn('{new}', {call})" for call in calls if "F." in call]
        made = [eval(f"df.{call}", {"F": F, "df": df}).select(F.unix_seconds(f"`{new}`")).first()[0] for call in calls]
        wanted = 1714521599 if kind == "window" else 1714521600
        assert wanted in made, (kind, calls)
    for value in ("true", "X'00'", "array(1)", "named_struct('a', 1)", "interval '1' day"):
        with pytest.raises(InvalidType, match=r"must be timestamp.*or name another column"):
            group_by(spark.sql(f"select {value} as x")).window(tumbling("1 day"), time="x").aggregate(n=C.count())


GAPS = {
    "string": ["'1 minute'", "'5 minutes'", "'90 seconds'"],
    "int": ["60", "300", "90"],
    "double": ["60.0", "300.0", "90.0"],
    "decimal": ["cast(60 as decimal(10,2))", "cast(300 as decimal(10,2))", "cast(90 as decimal(10,2))"],
}


def test_gaps_of_sessions(spark):
    """The session of three records a second apart ends after the longest gap, 5 minutes from the second record."""
    for kind in GAPS:
        df = frame(spark, {"gap": GAPS[kind]})
        windows = session(gap_column="a.gap")
        with pytest.raises(InvalidType, match="must be an interval, or microseconds as long") as refused:
            group_by(df, "u").window(windows, time="ts").aggregate(n=C.count())
        (call,) = re.findall(r"`(withColumn\(.*?\))`(?:[.;, ]|$)", str(refused.value))
        df = eval(f"df.{call}", {"F": F, "df": df})
        (row,) = group_by(df, "u").window(windows, time="ts").aggregate(n=C.count()).collect()
        assert (row.n, row.window.end - row.window.start) == (3, timedelta(seconds=1, minutes=5)), kind
