"""Keeps a table of a database up to date with a stream: `INSERT ... ON CONFLICT`, one transaction a micro-batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from slicing.column_names import parts_of
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.spark.columns import quoted
from slicing.spark.late import results
from slicing.spark.merging import GONE, check_names

_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}
"""How a statement names a value, by the `paramstyle` of the driver's module (PEP 249)."""

_TYPES = {
    "string": "text",
    "tinyint": "smallint",
    "float": "real",
    "double": "double precision",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "binary": "bytea",
}
"""Types of Spark that PostgreSQL calls otherwise."""

Connect = Callable[[], Any]
"""Returns an open connection by PEP 249, such as `lambda: psycopg.connect("postgresql://...")`."""


@dataclass(frozen=True)
class Target:
    """One column of the table: where its values are in a row, and their type."""

    path: tuple[str, ...]
    kind: T.DataType

    @property
    def name(self) -> str:
        """The name in the table: a field of a struct has the names on its path, as in `window_start`."""
        return "_".join(self.path)

    @property
    def declared(self) -> str:
        """The column in a `CREATE TABLE` of PostgreSQL."""
        *arrays, kind = self.kind.simpleString().rstrip(">").split("array<")
        return f"{_in_quotes(self.name)} {_TYPES.get(kind, kind)}{'[]' * len(arrays)}"

    @property
    def column(self) -> Column:
        """The values in a row."""
        value = quoted(self.path[0])
        for field in self.path[1:]:
            value = value.getField(field)
        return value.alias(self.name)


@dataclass(frozen=True)
class UpsertInto:
    """The function for `foreachBatch` that `upsert_into` returns."""

    connect: Connect
    table: str
    key: tuple[str, ...]
    revision: str | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write the rows of a micro-batch. The number is ignored: the rows themselves tell which is newer."""
        batch.persist()  # what is written and what is removed come from one run of the micro-batch
        try:
            rows = results(batch)
            targets = list(_targets(rows.schema))
            plan = Statements(self.table, targets, self._key(targets), self._order(targets))
            with closing(self.connect()) as database:
                plan.check(database)
                plan.write(database, rows)
                database.commit()
        finally:
            batch.unpersist()

    def _key(self, targets: list[Target]) -> list[str]:
        """The columns of the table's key; a struct stands for its fields."""
        found = []
        for name in self.key:
            path = (name,) if any(name == target.path[0] for target in targets) else tuple(parts_of(name))
            columns = [target.name for target in targets if target.path[: len(path)] == path]
            if not columns:
                raise InvalidValue(
                    f"the key of `upsert_into` is columns of the rows; got `{name}`, and the rows have "
                    f"{_listed(targets)}. Name the group's keys, and `window` where each window has a row."
                )
            found += columns
        return found

    def _order(self, targets: list[Target]) -> list[str]:
        """The columns that order the rows of a key from old to new."""
        names = [target.name for target in targets]
        if self.revision is not None and self.revision not in names:
            raise InvalidValue(
                f"`revision` is a column of the rows; got `{self.revision}`, and the rows have {_listed(targets)}."
            )
        found = [name for name in (self.revision or "revision", "window_end") if name in names]
        if not found:
            raise InvalidValue(
                "rows to upsert say which is newer by `revision`, `window` or `window_end`; these have "
                f"{_listed(targets)}. Leave one of the three as it is, or name the column: `revision=`."
            )
        return found


@dataclass(frozen=True)
class Statements:
    """What is said to the database: which rows it replaces, and which it removes."""

    table: str
    targets: list[Target]
    key: list[str]
    order: list[str]

    def check(self, database: Any) -> None:
        """Raise InvalidValue with the statement to run if the table lacks a column of the rows."""
        with closing(database.cursor()) as cursor:
            cursor.execute(f"SELECT * FROM {self.table} WHERE 1 = 0")
            has = [column[0] for column in cursor.description]
        known = {name.casefold() for name in has}
        if not (lacking := [target for target in self.targets if target.name.casefold() not in known]):
            return
        if {target.name for target in lacking} & {*self.key}:
            columns = ", ".join(target.declared for target in self.targets)
            ddl = f"make the table anew: `CREATE TABLE {self.table} ({columns}, PRIMARY KEY ({_names(self.key)}))`"
        else:
            add = "; ".join(f"ALTER TABLE {self.table} ADD COLUMN {target.declared}" for target in lacking)
            ddl = f"run `{add}`, or drop these columns after `aggregate`"
        raise InvalidValue(
            f"`upsert_into` writes each column of the rows, and table `{self.table}` has no "
            f"{', '.join(f'`{target.name}`' for target in lacking)}; its columns are {', '.join(has)}. "
            f"To add them, {ddl}."
        )

    def write(self, database: Any, rows: DataFrame) -> None:
        """Put rows into the table, then remove what is withdrawn: so an older row does not return after its removal."""
        table = rows.select(*(target.column for target in self.targets)).toArrow()
        for name in self.key:
            if table[name].null_count:
                raise InvalidValue(
                    f"{table[name].null_count} rows have null in `{name}`, which is of their key, and a database never "
                    "finds such a row again. Leave these records out before the windows, or `coalesce` them."
                )
        gone = pa.array([False] * len(table), pa.bool_())
        if "emission" in table.column_names:
            gone = pc.is_in(table["emission"], pa.array(GONE, table["emission"].type))
        with closing(database.cursor()) as cursor:
            self._run(cursor, self.insert, table.filter(pc.invert(gone)))
            self._run(cursor, self.delete, table.filter(gone).select([*self.key, *self.order]))

    def _run(self, cursor: Any, statement: Callable[[str], str], table: pa.Table) -> None:
        driver = sys.modules[type(cursor).__module__.split(".")[0]]
        kinds = {target.name: target for target in self.targets}
        convert = [_conversion(kinds[name], driver.__name__) for name in table.column_names]
        text = statement(_mark(driver))
        if len(table):
            cursor.executemany(text, _tuples(table, convert))

    def insert(self, mark: str) -> str:
        """Return the statement that puts a row, unless the stored one is as new."""
        names = [target.name for target in self.targets]
        changed = [name for name in names if name not in self.key]
        sets = ", ".join(f"{_in_quotes(name)} = excluded.{_in_quotes(name)}" for name in changed)
        return (
            f"INSERT INTO {self.table} AS kept ({_names(names)}) VALUES ({', '.join([mark] * len(names))}) "
            f"ON CONFLICT ({_names(self.key)}) DO UPDATE SET {sets} "
            f"WHERE ({_names(self.order, 'kept.')}) < ({_names(self.order, 'excluded.')})"
        )

    def delete(self, mark: str) -> str:
        """Return the statement that removes the row with this key, unless it is as new as its withdrawal."""
        same = " AND ".join(f"{_in_quotes(name)} = {mark}" for name in self.key)
        return (
            f"DELETE FROM {self.table} WHERE {same} "
            f"AND ({_names(self.order)}) < ({', '.join([mark] * len(self.order))})"
        )


def upsert_into(connect: Connect, table: str, *key: str, revision: str | None = None) -> UpsertInto:
    """Return a function for `foreachBatch` that puts the rows of each micro-batch into a table of a database.

    `connect` returns an open connection of the driver, for example `lambda: psycopg.connect("postgresql://...")` or
    `lambda: sqlite3.connect("features.db")`. The database must know `INSERT ... ON CONFLICT`, as PostgreSQL and SQLite
    do. `table` is its name in SQL. It has the columns of the rows, and a primary key of the columns `key`. A field of a
    struct is a column of its own: `window` is `window_start` and `window_end`, both in the key and in the table.

    A row replaces the stored row if it has a larger `revision` (the column with this name, or the one named by
    `revision=`), or, without revisions, a later window. A newer row whose emission is "drained" or "merged" removes
    the stored row. So a repeated micro-batch changes nothing. Each micro-batch is one transaction of the query's
    driver, which holds its rows: `spark.driver.maxResultSize` bounds them. Late rows are left out. A query with a new
    checkpoint restarts its revisions: empty the table, too. SQLite has instants as text in UTC, and null for NaN.

    Raises InvalidType for maps, in SQLite also for arrays and decimals, and InvalidValue; at the first micro-batch if
    the rows do not fit, with the statement to run if the table lacks a column, then also for null in the key.
    """
    if not callable(connect):
        raise InvalidType(
            "`upsert_into` takes a function that connects, as each micro-batch has a connection of its own; got "
            f"{excerpt(connect)}. Write for example `lambda: psycopg.connect(address)`."
        )
    check_names("upsert_into", table, key, "columns of its primary key", 'connect, "features"')
    if not isinstance(revision, str | None):
        raise InvalidType(f"`revision` is the name of a column; got {excerpt(revision)}.")
    return UpsertInto(connect, table, key, revision)


def _targets(schema: T.StructType, path: tuple[str, ...] = ()) -> Iterator[Target]:
    for field in schema:
        here, kind = (*path, field.name), field.dataType
        if isinstance(kind, T.StructType):
            yield from _targets(kind, here)
        else:
            yield Target(here, kind)


def _mark(driver: Any) -> str:
    style = getattr(driver, "paramstyle", None)
    if style not in _MARKS:
        raise InvalidValue(
            f"`upsert_into` writes with drivers whose `paramstyle` is {', '.join(_MARKS)}; got {style!r} of the module "
            f"`{driver.__name__}`. Use psycopg or sqlite3."
        )
    return _MARKS[style]


def _conversion(target: Target, driver: str) -> Callable[[Any], Any]:
    """How a value of Spark becomes a value of the driver. Raises InvalidType where it cannot."""
    sqlite = driver == "sqlite3"
    if sqlite and isinstance(target.kind, T.DateType | T.TimestampType | T.TimestampNTZType):
        return _text
    refused = (T.MapType, T.VariantType, T.DecimalType, T.ArrayType) if sqlite else (T.MapType, T.VariantType)
    if isinstance(target.kind, refused):
        remedy = "double or string" if isinstance(target.kind, T.DecimalType) else "text, by `to_json`"
        raise InvalidType(
            f"`upsert_into` writes values that the database has too; `{target.name}` is "
            f"{target.kind.simpleString()}. Make it {remedy}, after `aggregate`."
        )
    return _unchanged


def _tuples(table: pa.Table, convert: list[Callable[[Any], Any]]) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(max_chunksize=1_000):  # few values as objects of Python at a time
        columns = [map(each, column.to_pylist()) for each, column in zip(convert, batch.columns, strict=True)]
        yield from zip(*columns, strict=True)


def _unchanged(value: Any) -> Any:
    return value


def _text(value: date | None) -> str | None:
    """The text that SQLite's functions of time read; instants are in UTC, all of one length, so that they compare."""
    if not isinstance(value, datetime):
        return None if value is None else value.isoformat()
    utc = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return utc.isoformat(" ", "microseconds")


def _names(names: list[str], prefix: str = "") -> str:
    return ", ".join(prefix + _in_quotes(name) for name in names)


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(targets: list[Target]) -> str:
    return ", ".join(target.name for target in targets)
