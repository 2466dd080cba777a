"""Keeps a table up to date with a stream: a newer row replaces an older row, and a repeated row changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slicing.column_names import in_backquotes, parts_of
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.spark.late import results

GONE = ("drained", "merged")
"""Values of the column `emission` of rows that withdraw a result: empty windows and merged sessions."""
_ENDS = ("window.end", "window_end")


@dataclass(frozen=True)
class MergeInto:
    """The function for `foreachBatch` that `merge_into` returns."""

    table: str
    key: tuple[str, ...]

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Merge the rows of a micro-batch. The number is ignored: the rows themselves tell which is newer."""
        batch.persist()  # MERGE may read its rows more than once, and they are computed from the state
        try:
            rows = results(batch)
            newest, statement = self.newest(rows), self.statement(rows)
            batch.sparkSession.sql(statement, incoming=newest)
        finally:
            batch.unpersist()

    def newest(self, rows: DataFrame) -> DataFrame:
        """Return the newest row of each key."""
        key = [F.col(_quoted(name, rows)).alias(f"key{at}") for at, name in enumerate(self.key)]
        order = F.struct(*map(F.col, _order(rows)))
        found = rows.groupBy(*key).agg(F.max_by(F.struct("*"), order).alias("row"))
        return found.select("row.*")

    def statement(self, rows: DataFrame) -> str:
        """Return the MERGE statement for rows with these columns, `{incoming}`, into the table. Raises InvalidValue."""
        if not _order(rows):
            raise InvalidValue(
                "rows to merge say which is newer by `revision`, `window` or `window_end`; these have "
                f"{', '.join(rows.columns)}. Leave one of the three as it is."
            )
        missing = [name for name in self.key if _parts(name, rows)[0] not in rows.columns]
        if missing:
            raise InvalidValue(
                f"the key of `merge_into` is columns of the rows; got `{missing[0]}`, and the rows have "
                f"{', '.join(rows.columns)}. Name the group's keys, and `window` where each window has a row."
            )
        same = " AND ".join(f"kept.{name} <=> incoming.{name}" for name in (_quoted(name, rows) for name in self.key))
        newer = " > ".join(
            f"struct({', '.join(f'{side}.{_quoted(name, rows)}' for name in _order(rows))})"
            for side in ("incoming", "kept")
        )
        withdrawn = f"incoming.emission IN ({', '.join(map(repr, GONE))})" if "emission" in rows.columns else "false"
        table = self.table.replace("{", "{{").replace("}", "}}")
        return (
            f"MERGE INTO {table} AS kept USING {{incoming}} AS incoming ON {same} "
            f"WHEN MATCHED AND {newer} AND {withdrawn} THEN DELETE "
            f"WHEN MATCHED AND {newer} THEN UPDATE SET * "
            f"WHEN NOT MATCHED AND NOT {withdrawn} THEN INSERT *"
        )


def merge_into(table: str, *key: str) -> MergeInto:
    """Return a function for `foreachBatch` that merges the rows of each micro-batch into a table, by SQL's MERGE.

    The table must have a format that supports MERGE, such as Delta Lake or Apache Iceberg.

    `table` is its name in SQL, for example "lake.db.features" or "delta.`/features`". The table has the columns of the
    rows, and one row for each value of the key: `"user", "window"` keeps each window, `"user"` the newest row of each
    user. A row replaces the stored row if it has a larger `revision`, or, without revisions, a later window. A newer
    row whose emission is "drained" or "merged" removes the stored row. So a repeated micro-batch changes nothing. Late
    rows are left out. A query with a new checkpoint restarts its revisions: empty the table, too. Raises InvalidType,
    InvalidValue.
    """
    check_names("merge_into", table, key, "columns that tell its rows apart", '"lake.db.features"')
    return MergeInto(table, key)


def check_names(call: str, table: object, key: tuple[object, ...], of_key: str, example: str) -> None:
    """Raise InvalidType or InvalidValue unless a call has the names of a table and of the columns of its key."""
    for what, given in (("table", table), *(("key", name) for name in key)):
        if not isinstance(given, str):
            raise InvalidType(f"`{call}` takes names, of a table and of columns; got {excerpt(given)} as {what}.")
    if not str(table).strip() or not key:
        raise InvalidValue(
            f"`{call}` takes a table and the {of_key}; got {excerpt((table, *key))}. "
            f'Write for example `{call}({example}, "user", "window")`.'
        )


def _order(rows: DataFrame) -> list[str]:
    """The columns that order the rows of a key from old to new."""
    ends = [end for end in _ENDS if end.split(".")[0] in rows.columns]
    return [*(["revision"] if "revision" in rows.columns else []), *ends]


def _quoted(name: str, rows: DataFrame) -> str:
    """A column, or a field of a struct by its path, quoted for SQL."""
    return ".".join(map(in_backquotes, _parts(name, rows)))


def _parts(name: str, rows: DataFrame) -> list[str]:
    return [name] if name in rows.columns else parts_of(name)
