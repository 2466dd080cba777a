"""A table in PostgreSQL that a stream keeps up to date, written by docs/sources-and-sinks.md: `make test-postgres`.

Micro-batches fail before the database commits and after it, where Spark does not know. A trigger notes every write, so
that it shows whether one came twice.
"""

import re
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from streams import MINUTE, SECOND, START, record, source, table, write

import combinators as C
from servers.postgres import postgres
from servers.process import Unavailable
from slicing import group_by, hopping, late_partials, on_change, on_close, on_update, results

psycopg = pytest.importorskip("psycopg", reason="it is in the group `servers`")
pytestmark = pytest.mark.servers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sources-and-sinks.md"
WINDOW = hopping("10 minutes", "5 minutes")
FAILS_BEFORE, FAILS_AFTER = 3, 5
"""The micro-batches that fail at their first try: before the database commits, and after it."""
BY_WINDOW, BY_KEY = '"user", window_start', '"user"'
EMISSIONS = {
    "updated": (on_update(), BY_WINDOW, "0 minutes"),
    "corrected": (on_close(corrections=True), BY_WINDOW, "10 minutes"),
    "changed": (on_change(drained=True), BY_KEY, "0 minutes"),
}
COLUMNS = '"user" bigint, orders bigint, spent bigint, window_end timestamptz, revision bigint'
TABLES = """
    CREATE TABLE {name} ({columns}, window_start timestamptz, emission text, PRIMARY KEY ({key}));
    CREATE TABLE {name}_late (
        {columns}, slice_start timestamptz, cause text, PRIMARY KEY ("user", slice_start, revision)
    );
    CREATE TABLE {name}_writes ("user" bigint, at timestamptz, emission text, revision bigint);
    CREATE FUNCTION note_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO {name}_writes VALUES (new."user", new.window_start, new.emission, new.revision); RETURN new;
    END $$;
    CREATE TRIGGER note AFTER INSERT OR UPDATE ON {name}
        FOR EACH ROW WHEN (new.emission <> 'drained') EXECUTE FUNCTION note_{name}();
"""


@pytest.fixture(scope="module")
def address():
    try:
        with postgres() as running:
            yield running
    except Unavailable as why:
        pytest.skip(str(why))


def recipe(**given):
    """The functions of the page, as they stand there."""
    blocks = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    namespace = dict(given)
    for block in blocks:
        if "def " in block:
            exec(compile(block, str(PAGE), "exec"), namespace)
    return namespace


class Interrupted(Exception):
    """What stops a query in its sink."""


class Sink:
    """The page's `save`, which fails in two micro-batches at their first try; `rows` is what it was given."""

    def __init__(self, recipe):
        self.recipe, self.upsert, self.rows, self.late, self.tries = recipe, recipe["upsert"], {}, {}, []

    def __call__(self, batch, number):
        self.tries.append(number)
        first = self.tries.count(number) == 1
        batch.persist()
        self.rows[number] = [row.asDict(recursive=True) for row in results(batch).collect()]
        self.late[number] = late_partials(batch).count()
        fails = first and number == FAILS_BEFORE
        self.recipe["upsert"] = self._fails_at_late if fails else self.upsert
        self.recipe["save"](batch, number)
        if first and number == FAILS_AFTER:
            raise Interrupted("the database has committed, and Spark does not know")

    def _fails_at_late(self, database, name, key, rows):
        if name.endswith("_late"):
            raise Interrupted("before the database commits")
        self.upsert(database, name, key, rows)


def files():
    """Two keys, of which one goes silent, records that are late for some windows and for all, and an end."""
    for number in range(7):
        at = START + number * 4 * MINUTE
        rows = [record(key, at + each * SECOND, n=each + key) for key in (1, 2) for each in range(0, 200, 20)]
        rows = [row for row in rows if row["world"] == 1 or number < 3]
        if number > 2:
            rows += [record(3, at - 8 * MINUTE, n=1), record(1, at - 17 * MINUTE, n=2), record(1, at - 40 * MINUTE)]
        yield table(rows)
    yield table([record(9, START + 4 * 60 * MINUTE)])


def newest(rows, columns):
    """Of each key the row of the largest revision, and of these the last window; without what is drained."""
    found = {}
    for row in sorted(rows, key=lambda row: (row["revision"], row["window"]["end"])):
        found[tuple(row[name] if name == "user" else row["window"]["start"] for name in columns)] = row
    return {key: row for key, row in found.items() if row["emission"] != "drained"}


@pytest.mark.parametrize("name", EMISSIONS)
def test_a_table_has_each_revision_once(spark, tmp_path, address, name):
    emission, key, grace = EMISSIONS[name]
    write(list(files()), tmp_path / "files")
    with psycopg.connect(address, autocommit=True) as database:
        database.execute(TABLES.format(name=name, key=key, columns=COLUMNS))
    events = source(spark, tmp_path / "files", "30 seconds").withColumnRenamed("world", "user")
    windowed = group_by(events, "user").window(WINDOW, time="ts").grace(grace).emit(emission).late("partials")
    frame = windowed.aggregate(orders=C.count(), spent=C.sum("n"))
    sink = Sink(recipe(address=address, table=name, key=key))
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    failures = 0
    while not _ends(writer):
        failures += 1
    assert failures == 2
    assert len(sink.tries) == len(set(sink.tries)) + failures
    assert all(sink.late[number] and sink.rows[number] for number in (FAILS_BEFORE, FAILS_AFTER))

    rows = [row for number in sorted(sink.rows) for row in sink.rows[number]]
    wanted = newest(rows, ["user"] if key == BY_KEY else ["user", "window"])
    with psycopg.connect(address) as database:
        found = database.execute(
            f'SELECT "user", window_start, window_end, orders, spent, emission, revision FROM {name}'
        ).fetchall()
        writes = database.execute(f'SELECT "user", at, emission, revision FROM {name}_writes').fetchall()
        (late,) = database.execute(f"SELECT count(*), sum(orders) FROM {name}_late").fetchall()
    assert sorted(found) == sorted(
        (
            row["user"],
            *(edge.astimezone() for edge in row["window"].values()),
            *(row[each] for each in ("orders", "spent", "emission", "revision")),
        )
        for row in wanted.values()
    )
    assert {row["emission"] for row in rows} == {"updated": {"update"}, "changed": {"final", "drained"}}.get(
        name, {"final", "correction"}
    )
    assert sorted(writes) == sorted(set(writes)), "a revision was written twice"
    assert late[0] == sum(sink.late.values()) > 3
    assert late[1] >= late[0]


def _ends(writer):
    """Whether the query came to the end of its files, and not to grief."""
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if "Interrupted" not in str(error):
            raise
        return False
    return True
