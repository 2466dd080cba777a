"""`upsert_into` a table of PostgreSQL, over micro-batches that fail before and after the database commits.

`make test-postgres` runs it.
"""

from contextlib import closing
from functools import partial

import pytest
from upserts import STORIES, check, stored, story

from servers.postgres import postgres
from servers.process import Unavailable

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


@pytest.mark.parametrize("name", STORIES)
def test_a_table_has_each_revision_once(spark, tmp_path, address, name):
    connect = partial(psycopg.connect, address)
    key = STORIES[name][2]
    tables = TABLES.format(name=name, key=KEYS.get(key, '"user", window_start, window_end'), times=TIMES)
    with closing(psycopg.connect(address, autocommit=True)) as database:
        database.execute(tables)
    rows, late = story(spark, tmp_path, name, connect)
    check(rows, late, key, stored(connect, name), lambda instant: instant.astimezone())
