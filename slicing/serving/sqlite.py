"""Slices in a file of SQLite: the store that needs nothing but Python."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from slicing.errors import InvalidValue, excerpt
from slicing.serving.drivers import of_a_thread
from slicing.serving.levels import Range
from slicing.serving.sql import Dialect
from slicing.serving.store import Found, Row

_TABLES = """
CREATE TABLE IF NOT EXISTS slices (
    feature_set TEXT NOT NULL, key TEXT NOT NULL, level INTEGER NOT NULL, slice_start INTEGER NOT NULL,
    slice_end INTEGER NOT NULL, records INTEGER NOT NULL, partial BLOB NOT NULL,
    epoch INTEGER NOT NULL, revision INTEGER NOT NULL,
    PRIMARY KEY (feature_set, key, level, slice_start)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS slices_by_end ON slices (feature_set, level, slice_end);
CREATE TABLE IF NOT EXISTS feature_sets (feature_set TEXT PRIMARY KEY, manifest TEXT NOT NULL, progress TEXT NOT NULL);
"""
_PUT = """
INSERT INTO slices (feature_set, key, level, slice_start, slice_end, records, partial, epoch, revision)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (feature_set, key, level, slice_start) DO UPDATE SET slice_end = excluded.slice_end,
    records = excluded.records, partial = excluded.partial, epoch = excluded.epoch, revision = excluded.revision
WHERE (excluded.epoch, excluded.revision) > (slices.epoch, slices.revision)
"""
_BEGIN = "INSERT OR IGNORE INTO feature_sets (manifest, progress, feature_set) VALUES (?, ?, ?)"
_FOLLOW = "UPDATE feature_sets SET manifest = ?, progress = ? WHERE feature_set = ? AND progress = ?"
_SETS = "SELECT manifest, progress FROM feature_sets WHERE feature_set = ?"
_READ = (
    "SELECT partial FROM slices WHERE feature_set = ? AND key = ? AND level = ? AND slice_start >= ? "
    "AND slice_start < ? ORDER BY slice_start"
)
_REMOVE = (
    "DELETE FROM slices WHERE (feature_set, key, level, slice_start) IN (SELECT feature_set, key, level, slice_start "
    "FROM slices WHERE feature_set = ? AND level = ? AND slice_end <= ? LIMIT ?)"
)
_DIGIT = "instr('123456789ABCDEF', substr(hex(substr(partial, {{at}} + 1, 1)), {}, 1))"
_DIALECT = Dialect(f"({_DIGIT.format(1)} * 16 + {_DIGIT.format(2)})", infinity="9e999", nan="NULL")
_CONNECTION = of_a_thread(sqlite3.Connection)
_WAIT = 60
"""Seconds to wait for other writers."""


class SqliteStore:
    """The store of a URL such as "sqlite:///features.db", a path, or "sqlite:////var/features.db", an absolute path.

    Each thread has a connection. Readers do not wait for the writer, nor does it for them. What is written is on the
    disk: the checkpoint of the stream continues from it, also after a power failure. Raises InvalidValue for a
    URL without a path, and for one into a folder that does not exist.
    """

    dialect = _DIALECT

    def __init__(self, url: str):
        self.url, self.path = url, url.removeprefix("sqlite:///")
        if self.path == url or not self.path:
            raise InvalidValue(
                f'the URL of SQLite has a path, as "sqlite:///features.db" or "sqlite:////var/features.db"; got '
                f"{excerpt(url)}. Write one of these."
            )
        folder = Path(self.path).resolve().parent
        if not folder.is_dir():
            raise InvalidValue(
                f"a store of SQLite is a file in a folder that exists; {folder} does not. Make the folder, or write "
                "another path: a relative one begins where the program was started."
            )
        self._of_thread = threading.local()

    def __reduce__(self) -> tuple[type[SqliteStore], tuple[str]]:
        return SqliteStore, (self.url,)

    def put(self, feature_set: str, rows: Sequence[Row]) -> None:
        """Write rows in one transaction."""
        connection = self._connection()
        with connection:
            connection.executemany(_PUT, [(feature_set, *row) for row in rows])

    def publish(self, feature_set: str, manifest: str, progress: str, before: str) -> bool:
        """Write manifest and progress, unless another progress than `before` is stored."""
        connection, values = self._connection(), (manifest, progress, feature_set)
        with connection:
            written = connection.execute(_FOLLOW, (*values, before)) if before else connection.execute(_BEGIN, values)
            return written.rowcount == 1

    def read(self, feature_set: str, keys: Sequence[str], ranges: Sequence[Range]) -> Found:
        """Return the partials of keys, with manifest and progress, as of one transaction."""
        if not hasattr(self._of_thread, "connection") and not Path(self.path).exists():
            return Found("", "", [])
        execute = self._connection().execute
        execute("BEGIN")
        try:
            manifest, progress = execute(_SETS, (feature_set,)).fetchone() or ("", "")
            found = [
                [[partial for (partial,) in execute(_READ, (feature_set, key, *each)).fetchall()] for each in ranges]
                for key in keys
            ]
        finally:
            execute("COMMIT")
        return Found(manifest, progress, found)

    def remove(self, feature_set: str, level: int, before: int, most: int) -> int:
        """Remove rows that end at or before an instant."""
        connection = self._connection()
        with connection:
            return connection.execute(_REMOVE, (feature_set, level, before, most)).rowcount

    def close(self) -> None:
        """Close the connection of this thread."""
        if connection := self._of_thread.__dict__.pop("connection", None):
            connection.close()

    def _connection(self) -> sqlite3.Connection:
        known: sqlite3.Connection | None = getattr(self._of_thread, "connection", None)
        if known is None:
            # Another thread may notice that this one is gone, and close its connection.
            known = sqlite3.connect(self.path, timeout=_WAIT, check_same_thread=False, factory=_CONNECTION)
            _prepare(known, time.monotonic() + _WAIT)
            self._of_thread.connection = known
        return known


def _prepare(connection: sqlite3.Connection, until: float) -> None:
    """Set the journal, and make the tables. SQLite does not wait by itself if another one begins a journal now."""
    while True:
        try:
            connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + _TABLES)
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
