"""A table of a database that a stream keeps up to date, through micro-batches that fail and come again.

They fail before the database commits, and after it, where Spark does not know. A trigger of the database notes every
write, so that it shows whether a revision came twice.
"""

from contextlib import closing

from streams import MINUTE, SECOND, START, Interrupted, ends, record, source, table, write

import combinators as C
from slicing import (
    early,
    group_by,
    hopping,
    late_partials,
    on_change,
    on_close,
    on_update,
    results,
    session,
    upsert_into,
)
from slicing.spark.merging import GONE

FAILS_BEFORE, FAILS_AFTER = 3, 5
"""The micro-batches that fail at their first try: before the database commits, and after it."""
HOPS, BY_WINDOW = hopping("10 minutes", "5 minutes"), ("user", "window")
STORIES = {
    "updated": (HOPS, on_update(), BY_WINDOW, "0 minutes"),
    "corrected": (HOPS, on_close(corrections=True), ("user", "window.start"), "10 minutes"),
    "changed": (HOPS, on_change(drained=True), ("user",), "0 minutes"),
    "closed": (HOPS, on_close(), BY_WINDOW, "0 minutes"),
    "sessions": (session("3 minutes"), on_update(), BY_WINDOW, "10 minutes"),
    "early": (session("3 minutes"), early(records=7, per="window"), BY_WINDOW, "0 minutes"),
}
"""For each table the windows, the emission, the key, and the grace."""


class Refusing:
    """A connection that closes before it commits."""

    def __init__(self, connection):
        self.connection = connection

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def commit(self):
        raise Interrupted("before the database commits")


class Sink:
    """`upsert_into` of results and of late partials, which fails in two micro-batches; `rows` is what it was given."""

    def __init__(self, connect, name, key):
        self.connect, self.rows, self.late, self.tries = connect, {}, {}, []
        self.results = upsert_into(self._connect, name, *key)
        self.partials = upsert_into(connect, f"{name}_late", "user", "slice", "at", revision="at")

    def _connect(self):
        first = self.tries.count(self.tries[-1]) == 1
        return Refusing(self.connect()) if first and self.tries[-1] == FAILS_BEFORE else self.connect()

    def __call__(self, batch, number):
        self.tries.append(number)
        batch.persist()
        self.rows[number] = [row.asDict(recursive=True) for row in results(batch).collect()]
        late = late_partials(batch).selectExpr("user", "orders", "late.slice", "late.cause", f"{number} AS at")
        self.late[number] = late.count()
        self.partials(late, number)
        self.results(batch, number)
        if number == FAILS_AFTER and self.tries.count(number) == 1:
            raise Interrupted("the database has committed, and Spark does not know")


def files():
    """Two keys; one falls silent. There are records that are late for some windows and for all, and an end."""
    for number in range(7):
        at = START + number * 4 * MINUTE
        rows = [record(key, at + each * SECOND, n=each + key) for key in (1, 2) for each in range(0, 200, 20)]
        rows = [row for row in rows if row["world"] == 1 or number < 3]
        if number > 2:
            rows += [record(3, at - 8 * MINUTE, n=1), record(1, at - 17 * MINUTE, n=2), record(1, at - 40 * MINUTE)]
        yield table(rows)
    yield table([record(9, START + 4 * 60 * MINUTE)])


def newest(rows, key):
    """Of each key the row of the largest revision, and of these the last window; without what is withdrawn."""
    found = {}
    for row in sorted(rows, key=lambda row: (row.get("revision"), row["window"]["end"])):
        window = row["window"]
        values = {"user": row["user"], "window": tuple(window.values()), "window.start": window["start"]}
        found[tuple(values[name] for name in key)] = row
    return [row for row in found.values() if row.get("emission") not in GONE]


def story(spark, folder, name, connect):
    """Run the stream to its end. Returns its rows, and its number of late partials."""
    window, emission, key, grace = STORIES[name]
    write(list(files()), folder / "files")
    events = source(spark, folder / "files", "30 seconds").withColumnRenamed("world", "user")
    windowed = group_by(events, "user").window(window, time="ts").grace(grace).emit(emission).late("partials")
    frame = windowed.aggregate(orders=C.count(), spent=C.sum("n"))
    sink = Sink(connect, name, key)
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint"))
    failures = 0
    while not ends(writer):
        failures += 1
    assert failures == 2
    assert len(sink.tries) == len(set(sink.tries)) + failures
    assert all(sink.rows[number] for number in (FAILS_BEFORE, FAILS_AFTER)) or name in ("closed", "early")
    return [row for number in sorted(sink.rows) for row in sink.rows[number]], sum(sink.late.values())


def stored(connect, name):
    """The table, the writes that its trigger noted, and the number of late rows with the sum of their records."""
    with closing(connect()) as database:
        order = "revision" if name != "closed" else "0"
        asked = (
            f'SELECT "user", window_start, window_end, orders, spent, {order} FROM {name}',
            f'SELECT "user", window_start, window_end, revision FROM {name}_writes',
            f"SELECT count(*), sum(orders) FROM {name}_late",
        )
        return [_rows(database, query) for query in asked]


def _rows(database, query):
    with closing(database.cursor()) as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def check(rows, late, key, found, of_instant):
    """The table has what the rows say last, each revision was written once, and each late partial is there."""
    table, writes, [counts] = found
    assert sorted(table) == sorted(
        (
            row["user"],
            *map(of_instant, row["window"].values()),
            *(row[each] for each in ("orders", "spent")),
            row.get("revision", 0),
        )
        for row in newest(rows, key)
    )
    assert sorted(writes) == sorted(set(writes)), "a revision was written twice"
    assert counts[0] == late > 3
    assert counts[1] >= late
