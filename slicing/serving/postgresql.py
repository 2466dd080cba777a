"""Slices in tables of PostgreSQL, by psycopg: one statement, and so one round trip and one snapshot, for each read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from slicing.serving.drivers import driver, of_a_thread
from slicing.serving.levels import Range
from slicing.serving.sql import Dialect
from slicing.serving.store import Found, Row

T = TypeVar("T")
_TABLES = """
CREATE TABLE IF NOT EXISTS slices (
    feature_set text COLLATE "C", key text COLLATE "C", level smallint, slice_start bigint, slice_end bigint NOT NULL,
    records bigint NOT NULL, partial bytea NOT NULL, epoch integer NOT NULL, revision bigint NOT NULL,
    PRIMARY KEY (feature_set, key, level, slice_start)
);
CREATE INDEX IF NOT EXISTS slices_by_end ON slices (feature_set, level, slice_end);
CREATE TABLE IF NOT EXISTS feature_sets (feature_set text PRIMARY KEY, manifest text NOT NULL, progress text NOT NULL)
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('slicing.serving'))"
"""Two processes that create the same table at once would fail."""
_INCOMING = "CREATE TEMP TABLE incoming (LIKE slices) ON COMMIT DROP"
_COPY = (
    "COPY incoming (feature_set, key, level, slice_start, slice_end, records, partial, epoch, revision) "
    "FROM STDIN (FORMAT BINARY)"
)
_TYPES = ("text", "text", "int2", "int8", "int8", "int8", "bytea", "int4", "int8")
_PUT = """
INSERT INTO slices SELECT * FROM incoming ORDER BY key, level, slice_start
ON CONFLICT (feature_set, key, level, slice_start) DO UPDATE SET slice_end = excluded.slice_end,
    records = excluded.records, partial = excluded.partial, epoch = excluded.epoch, revision = excluded.revision
WHERE (excluded.epoch, excluded.revision) > (slices.epoch, slices.revision)
"""
_BEGIN = "INSERT INTO feature_sets (manifest, progress, feature_set) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_FOLLOW = "UPDATE feature_sets SET manifest = %s, progress = %s WHERE feature_set = %s AND progress = %s"
_RANGE = (
    ", ARRAY(SELECT partial FROM slices WHERE feature_set = %s AND key = asked.key AND level = %s "
    "AND slice_start >= %s AND slice_start < %s ORDER BY slice_start)"
)
_READ = (
    "SELECT manifest, progress, asked.key{ranges} FROM feature_sets, (VALUES {keys}) AS asked (key) "
    "WHERE feature_set = %s"
)
_REMOVE = (
    "DELETE FROM slices WHERE ctid = ANY (ARRAY(SELECT ctid FROM slices WHERE feature_set = %s AND level = %s "
    "AND slice_end <= %s LIMIT %s))"
)
_DIALECT = Dialect("get_byte(partial, {at})::bigint", "'Infinity'::float8", "'NaN'::float8")


class PostgresStore:
    """The store of a URL such as "postgresql://user@host/database"; its tables are in the first schema of the path.

    Each thread has a connection, which is opened again if the server has closed it. Raises MissingRequirement without
    psycopg.
    """

    dialect = _DIALECT

    def __init__(self, url: str):
        self.url = url
        self._driver = driver("psycopg", "PostgreSQL", "postgresql")
        self._of_thread = threading.local()

    def __reduce__(self) -> tuple[type[PostgresStore], tuple[str]]:
        return PostgresStore, (self.url,)

    def put(self, feature_set: str, rows: Sequence[Row]) -> None:
        """Write rows in one transaction."""

        def write(connection: Any) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.execute(_INCOMING)
                with cursor.copy(_COPY) as copy:
                    copy.set_types(_TYPES)
                    for row in rows:
                        copy.write_row((feature_set, *row))
                cursor.execute(_PUT)

        self._on_connection(write)

    def publish(self, feature_set: str, manifest: str, progress: str, before: str) -> bool:
        """Write manifest and progress, unless another progress than `before` is stored."""
        values = (manifest, progress, feature_set)
        statement = (_FOLLOW, (*values, before)) if before else (_BEGIN, values)
        return self._on_connection(lambda connection: bool(connection.execute(*statement).rowcount))

    def read(self, feature_set: str, keys: Sequence[str], ranges: Sequence[Range]) -> Found:
        """Return the partials of keys, with manifest and progress, by one statement."""
        asked = list(dict.fromkeys(keys)) or [""]
        statement = _READ.format(ranges=_RANGE * len(ranges), keys=", ".join(["(%s)"] * len(asked)))
        values = [value for each in ranges for value in (feature_set, *each)]

        def ask(connection: Any) -> Any:
            with connection.cursor(binary=True) as cursor:
                return cursor.execute(statement, (*values, *asked, feature_set), prepare=True).fetchall()

        found = self._on_connection(ask)
        manifest, progress = found[0][:2] if found else ("", "")
        of_key = {key: partials for _, _, key, *partials in found}
        return Found(manifest, progress, [of_key[key] for key in keys if found])

    def remove(self, feature_set: str, level: int, before: int, most: int) -> int:
        """Remove rows that end at or before an instant."""
        values = (feature_set, level, before, most)
        return self._on_connection(lambda connection: int(connection.execute(_REMOVE, values).rowcount))

    def close(self) -> None:
        """Close the connection of this thread."""
        if connection := self._of_thread.__dict__.pop("connection", None):
            connection.close()

    def _on_connection(self, work: Callable[[Any], T]) -> T:
        """Return the result of some work. It is repeated once on a new connection: all of it may be repeated."""
        known = hasattr(self._of_thread, "connection")
        try:
            return work(self._connection())
        except self._driver.OperationalError:
            self.close()
            if not known:
                raise
            return work(self._connection())

    def _connection(self) -> Any:
        known = getattr(self._of_thread, "connection", None)
        if known is None:
            known = of_a_thread(self._driver.Connection).connect(self.url, autocommit=True)
            with known.transaction():
                known.execute(_LOCK)
                known.execute(_TABLES)
            self._of_thread.connection = known
        return known
