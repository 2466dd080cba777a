"""`upsert_into` a table of SQLite, over failures, and what it refuses; PostgreSQL is in tests/servers."""

import math
import pickle
import re
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime
from functools import partial

import pytest
from upserts import STORIES, check, stored, story

from slicing import InvalidType, InvalidValue, upsert_into
from slicing.spark.merging import GONE

KEYS = {("user",): "user", ("user", "window.start"): "user, window_start"}
TABLES = """
    CREATE TABLE {name} (
        user, window_start, window_end, orders, spent, emission, revision integer, PRIMARY KEY ({key})
    );
    CREATE TABLE {name}_late (
        user, orders, slice_start, slice_end, cause, at, PRIMARY KEY (user, slice_start, slice_end, at)
    );
    CREATE TABLE {name}_writes (user, window_start, window_end, revision);
    CREATE TRIGGER inserted AFTER INSERT ON {name} BEGIN
        INSERT INTO {name}_writes VALUES (new.user, new.window_start, new.window_end, new.revision);
    END;
    CREATE TRIGGER updated AFTER UPDATE ON {name} BEGIN
        INSERT INTO {name}_writes VALUES (new.user, new.window_start, new.window_end, new.revision);
    END;
"""
ROWS = "user string, window struct<start: timestamp, end: timestamp>, spent bigint, emission string, revision bigint"


SLOW = ("changed", "closed", "early")
"""`updated` replaces, `corrected` has a key of its own, and `sessions` removes."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in STORIES])
def test_a_table_has_each_revision_once(spark, tmp_path, name):
    connect = partial(sqlite3.connect, tmp_path / "features.db")
    key = STORIES[name][2]
    with closing(connect()) as database:
        database.executescript(TABLES.format(name=name, key=KEYS.get(key, "user, window_start, window_end")))
    rows, late = story(spark, tmp_path, name, connect)
    emissions = {row.get("emission") for row in rows}
    assert emissions & set(GONE) == {"changed": {"drained"}, "sessions": {"merged"}, "early": {"merged"}}.get(
        name, set()
    )
    check(rows, late, key, stored(connect, name), lambda instant: instant.astimezone(UTC).strftime("%F %T.%f"))


def test_older_rows_do_not_return_in_any_order_of_rows(spark, tmp_path):
    connect = partial(sqlite3.connect, tmp_path / "some.db")
    at = datetime(2024, 5, 1, 12)
    window = (at, at.replace(minute=10))
    with closing(connect()) as database:
        database.execute(
            "CREATE TABLE t (user, window_start, window_end, spent, emission, revision, PRIMARY KEY(user))"
        )
    sink = upsert_into(connect, "t", "user")

    def put(*rows):
        sink(spark.createDataFrame([(user, window, *rest) for user, *rest in rows], ROWS), 0)
        with closing(connect()) as database:
            return database.execute("SELECT user, spent, revision FROM t ORDER BY user").fetchall()

    assert put(("ada", 2, "update", 2), ("ada", 1, "update", 1), ("bob", None, None, 1)) == [
        ("ada", 2, 2),
        ("bob", None, 1),
    ]
    assert put(("ada", 9, "drained", 2), ("bob", 9, "drained", 0)) == [("ada", 2, 2), ("bob", None, 1)], "not newer"
    assert put(("ada", 9, "drained", 5), ("ada", 3, "update", 4)) == [("bob", None, 1)]
    assert put(("bob", 9, "merged", 2), ("bob", 7, "update", 3)) == [("bob", 7, 3)]


def test_values_are_those_of_the_rows(spark, tmp_path):
    connect = partial(sqlite3.connect, tmp_path / "some.db")
    kinds = '`a"b` string, n timestamp_ntz, d date, x double, b binary, y boolean, w struct<t: timestamp>, at bigint'
    with closing(connect()) as database:
        database.execute('CREATE TABLE "t 1" ("a""b" PRIMARY KEY, n, d, x, b, y, w_t, at)')
    far = datetime(1901, 2, 3, 4, 5, 6, 7, tzinfo=UTC)
    row = ("k", datetime(2024, 3, 31, 2, 30), date(1969, 1, 1), -math.inf, b"\x00", True, (far,), 1)
    nulls = ("n", *[None] * 6, 1)
    upsert_into(connect, '"t 1"', 'a"b', revision="at")(spark.createDataFrame([row, nulls], kinds), 0)
    with closing(connect()) as database:
        found = database.execute('SELECT * FROM "t 1" ORDER BY 1').fetchall()
    expected = ("k", "2024-03-31 02:30:00.000000", "1969-01-01", -math.inf, b"\x00", 1, "1901-02-03 04:05:06.000007", 1)
    assert found == [expected, nulls]


WIDE = (
    "user string, orders int, spent double, mean decimal(9,2), seen timestamp, day date, at timestamp_ntz, "
    "few smallint, revision bigint"
)


def test_the_message_for_a_missing_column_has_the_statement_that_adds_it(spark, tmp_path):
    connect = partial(sqlite3.connect, tmp_path / "some.db")
    frame = spark.createDataFrame([], WIDE).drop("mean")
    with closing(connect()) as database:
        database.execute("CREATE TABLE t (User, spent, revision, PRIMARY KEY(user))")
    with pytest.raises(InvalidValue, match="table `t` has no `orders`, `seen`, `day`, `at`, `few`; its") as raised:
        upsert_into(connect, "t", "user")(frame, 0)
    with closing(connect()) as database:
        database.executescript(re.findall("`(ALTER .*?)`", str(raised.value))[0])
    row = frame.sparkSession.createDataFrame([("u", 1, 0.5, None, None, None, 2, 3)], frame.schema)
    upsert_into(connect, "t", "user")(row, 0)
    with closing(connect()) as database:
        assert database.execute("SELECT user, orders, spent, few, revision FROM t").fetchall() == [("u", 1, 0.5, 2, 3)]


def test_the_message_for_a_missing_column_of_the_key_has_the_table(spark, tmp_path):
    connect = partial(sqlite3.connect, tmp_path / "some.db")
    with closing(connect()) as database:
        database.execute("CREATE TABLE t (user PRIMARY KEY, orders, spent, revision)")
    with pytest.raises(InvalidValue, match="has no `window_start`") as raised:
        upsert_into(connect, "t", "user", "window")(spark.createDataFrame([], ROWS), 0)
    with closing(connect()) as database:
        database.execute("DROP TABLE t")
        database.execute(re.findall("`(CREATE .*?)`", str(raised.value))[0])
    at = datetime(2024, 5, 1, 12)
    frame = spark.createDataFrame([("u", (at, at), 5, "final", 1)] * 2, ROWS)
    upsert_into(connect, "t", "user", "window")(frame, 0)
    with closing(connect()) as database:
        assert database.execute("SELECT user, spent FROM t").fetchall() == [("u", 5)]


def test_what_cannot_be_upserted_is_refused(spark, tmp_path):
    connect = partial(sqlite3.connect, tmp_path / "some.db")
    for given in (("features.db", "t", "user"), (connect, 1, "user"), (connect, "t", None)):
        with pytest.raises(InvalidType, match="`upsert_into` takes"):
            upsert_into(*given)
    for given in (("t",), (" ", "user")):
        with pytest.raises(InvalidValue, match="a table and the columns of its primary key"):
            upsert_into(connect, *given)
    frame = spark.createDataFrame([], ROWS)
    with closing(connect()) as database:
        database.execute("CREATE TABLE t (user PRIMARY KEY, spent, m, revision)")
    with pytest.raises(InvalidValue, match="got `who`, and the rows have user, window_start, window_end, spent"):
        upsert_into(connect, "t", "who")(frame, 0)
    with pytest.raises(InvalidValue, match="`revision` is a column of the rows; got `number`"):
        upsert_into(connect, "t", "user", revision="number")(frame, 0)
    with pytest.raises(InvalidValue, match="by `revision`, `window` or `window_end`; these have user, spent"):
        upsert_into(connect, "t", "user")(frame.select("user", "spent"), 0)
    with pytest.raises(InvalidValue, match="1 rows have null in `user`"):
        upsert_into(connect, "t", "user", revision="spent")(
            spark.createDataFrame([(None, 1)], "user int, spent int"), 0
        )
    for kind, remedy in (("decimal(9,2)", "double or string"), ("array<int>", "text, by `to_json`")):
        rows = spark.createDataFrame([], f"user int, m {kind}, revision int")
        with pytest.raises(InvalidType, match=f"`m` is .*Make it {remedy}"):
            upsert_into(connect, "t", "user")(rows, 0)
    sink = upsert_into(connect, "t", "user")
    assert pickle.loads(pickle.dumps(sink)).key == sink.key, "over Spark Connect it goes to the server"
