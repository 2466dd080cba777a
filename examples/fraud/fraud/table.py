"""A table in PostgreSQL with the newest features of each card."""

from collections.abc import Callable
from functools import partial

import psycopg
from psycopg import sql
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from slicing import upsert_into

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
    upsert = upsert_into(partial(psycopg.connect, address), table, "card")

    def save(batch: DataFrame, number: int) -> None:
        upsert(batch.where("card IS NOT NULL"), number)

    return save
