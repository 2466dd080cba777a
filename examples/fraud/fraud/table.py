"""A table in PostgreSQL with the newest features of each card."""

from collections.abc import Callable

import psycopg
from psycopg import sql
from pyspark.sql import DataFrame
from pyspark.sql import types as T

TYPES = {
    T.StringType(): "text",
    T.LongType(): "bigint",
    T.DoubleType(): "double precision",
    T.TimestampType(): "timestamptz",
}


def create(address: str, table: str, schema: T.StructType) -> None:
    """Create the table if it does not exist, with the columns of the features."""
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(TYPES[field.dataType])) for field in schema
    )
    statement = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY (card))")
    with psycopg.connect(address) as database:
        database.execute(statement.format(sql.Identifier(table), columns))


def keep_newest(address: str, table: str) -> Callable[[DataFrame, int], None]:
    """Return the function for `foreachBatch` that replaces the rows of cards by those of a larger revision.

    A micro-batch that Spark repeats has the same revisions, and changes nothing. Messages without a card are left out.
    """

    def save(batch: DataFrame, number: int) -> None:
        rows = batch.where("card IS NOT NULL").toArrow()
        names = sql.SQL(", ").join(map(sql.Identifier, rows.column_names))
        newer = sql.SQL(", ").join(sql.SQL("excluded.{}").format(sql.Identifier(name)) for name in rows.column_names)
        parts = {"table": sql.Identifier(table), "names": names, "newer": newer}
        with psycopg.connect(address) as database, database.cursor() as cursor:
            cursor.execute(sql.SQL("CREATE TEMPORARY TABLE incoming (LIKE {table}) ON COMMIT DROP").format(**parts))
            with cursor.copy(sql.SQL("COPY incoming ({names}) FROM STDIN").format(**parts)) as copy:
                for row in rows.to_pylist():
                    copy.write_row(tuple(row.values()))
            cursor.execute(
                sql.SQL(
                    "INSERT INTO {table} ({names}) SELECT {names} FROM incoming "
                    "ON CONFLICT (card) DO UPDATE SET ({names}) = ROW ({newer}) "
                    "WHERE {table}.revision < excluded.revision"
                ).format(**parts)
            )

    return save
