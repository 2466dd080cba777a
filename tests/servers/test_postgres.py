"""`upsert_into` a table of PostgreSQL, over micro-batches that fail before and after the database commits.

`make test-postgres` runs it.
"""

import re
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from functools import partial

import pytest
from upserts import STORIES, check, stored, story

from servers.postgres import postgres
from servers.process import Unavailable
from slicing import InvalidValue, upsert_into

psycopg = pytest.importorskip("psycopg", reason="it is in the group `servers`")
pytestmark = pytest.mark.servers

KEYS = {("user",): '"user"', ("user", "window.start"): '"user", window_start'}
TIMES = "window_start timestamptz, window_end timestamptz"
TABLES = """
    CREATE TABLE {name} (
        "user" bigint, {times}, orders bigint, spent bigint, emission text, revision bigint, PRIMARY KEY ({key})
    );
    CREATE TABLE {name}_late (
        "user" bigint, orders bigint, slice_start timestamptz, slice_end timestamptz, cause text, at bigint,
        PRIMARY KEY ("user", slice_start, slice_end, at)
    );
    CREATE TABLE {name}_writes ("user" bigint, {times}, revision bigint);
    CREATE FUNCTION note_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO {name}_writes VALUES (new."user", new.window_start, new.window_end, new.revision); RETURN new;
    END $$;
    CREATE TRIGGER note AFTER INSERT OR UPDATE ON {name} FOR EACH ROW EXECUTE FUNCTION note_{name}();
"""


@pytest.fixture(scope="module")
def address():
    try:
        with postgres() as running:
            yield running
    except Unavailable as why:
        pytest.skip(str(why))


def test_the_message_for_missing_columns_has_the_statements_that_add_them(spark, address):
    kinds = (
        "user bigint, n int, x double, y float, name string, exact decimal(9,2), seen timestamp, at timestamp_ntz, "
        "day date, few smallint, least tinyint, yes boolean, raw binary, many array<int>, names array<string>, "
        "w struct<a: double, b: array<double>>, revision bigint"
    )
    at = datetime(2024, 5, 1, 12)
    values = (1, 2, 0.5, 0.5, "a", Decimal("1.25"), at.astimezone(), at, at.date(), 3, 4, True, b"r", [5], ["b"])
    frame = spark.createDataFrame([(*values, (1.5, [2.5]), 6)], kinds)
    with closing(psycopg.connect(address, autocommit=True)) as database:
        database.execute('CREATE TABLE typed ("user" bigint PRIMARY KEY)')
        with pytest.raises(InvalidValue, match=r"table `typed` has no `n`, `x`, .*; its columns are user") as raised:
            upsert_into(partial(psycopg.connect, address), "typed", "user")(frame, 0)
        database.execute(re.findall("`(ALTER .*?)`", str(raised.value))[0])
        upsert_into(partial(psycopg.connect, address), "typed", "user")(frame, 0)
        assert database.execute("SELECT * FROM typed").fetchone() == (*values, 1.5, [2.5], 6)


@pytest.mark.parametrize("name", STORIES)
def test_a_table_has_each_revision_once(spark, tmp_path, address, name):
    connect = partial(psycopg.connect, address)
    key = STORIES[name][2]
    tables = TABLES.format(name=name, key=KEYS.get(key, '"user", window_start, window_end'), times=TIMES)
    with closing(psycopg.connect(address, autocommit=True)) as database:
        database.execute(tables)
    rows, late = story(spark, tmp_path, name, connect)
    check(rows, late, key, stored(connect, name), lambda instant: instant.astimezone())
