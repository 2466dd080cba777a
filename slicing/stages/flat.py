"""The flat table in which Python passes rows to the JVM: the names, types and order of its columns.

::

    row         key       when                results    again                          cause  late
    a window    k0 k1 ..  start stop family   r0 r1 ..   kind revision replaces o0 ..
    late        k0 k1 ..  start        family r0 r1 ..                                  LATE   end records ...

`stages.output` writes it as Arrow tables, and `stages.packed` packs these for the JVM. There, `spark.packing` unpacks
them, and `spark.query` and, for late rows, `spark.late` read the DataFrame. Times are in microseconds. All columns may
be null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from slicing.aggregates.fields import INTERVAL, Field, arrow_type, ddl_of, over_leaves, width_of

START, STOP, FAMILY = "start", "stop", "family"
"""The start and the end of a window, and the number of its family; for a late row, the start of its slice instead."""
KIND, REVISION, REPLACES = "kind", "revision", "replaces"
"""The position in `trigger.KINDS`, the micro-batch, and whether the row replaces an earlier result."""
CAUSE, LATE_ROW = "cause", -1
"""Null for windows, LATE_ROW for late rows; in packed rows also the number of a counter in `metrics.CAUSES`."""
END, RECORDS, WATERMARK, TAKEN, MISSED, UNTIL, TIME = "end", "records", "watermark", "taken", "missed", "until", "time"
"""Columns of a late row: the end of its slice, its record count, the watermark by which it was late, the start of the
first window that was open, the number of closed windows, the end of that open window, and the time of the record."""
KEY, RESULT, OLD, VALUE = "k", "r", "o", "v"
"""The prefixes of numbered columns: leaves of keys, results, replaced results, values of a late record."""
_PHYSICAL = {"date": "int", "timestamp": "bigint", "timestamp_ntz": "bigint", INTERVAL: "bigint"}

Item = TypeVar("Item")


def numbered(prefix: str, items: Iterable[Item], first: int = 0) -> dict[str, Item]:
    """Return the items by the names of their numbered columns.

    >>> numbered(RESULT, ["bigint", "double"])
    {'r0': 'bigint', 'r1': 'double'}
    """
    return {f"{prefix}{first + i}": item for i, item in enumerate(items)}


def physical(kind: str) -> str:
    """Return the type in which values of a type are passed to the JVM."""
    return over_leaves(kind, lambda leaf: "binary" if width_of(leaf) else _PHYSICAL.get(leaf, leaf))


@dataclass(frozen=True)
class Flat:
    """The columns of the flat table of a query. `keys`, `results` and `values` are the types passed to the JVM.

    stops: windows differ in length, so each row has the end of its window.
    families: windows belong to several families, so each row has the number of its family.
    again: windows fire more than once; with `replaces` each row has the previous result.
    late: late rows are emitted, and with `values` also the values of late records.
    """

    keys: tuple[str, ...]
    results: tuple[str, ...]
    values: tuple[str, ...] | None
    stops: bool
    families: bool
    again: bool
    replaces: bool
    late: bool
    untils: bool

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the columns in order."""
        columns = numbered(KEY, self.keys) | {START: "bigint"}
        columns |= {STOP: "bigint"} if self.stops else {}
        columns |= {FAMILY: "int"} if self.families else {}
        columns |= numbered(RESULT, self.results)
        columns |= {KIND: "tinyint", REVISION: "bigint"} if self.again else {}
        columns |= {REPLACES: "boolean", **numbered(OLD, self.results)} if self.replaces else {}
        columns |= {CAUSE: "int"}
        if self.late:
            columns |= dict.fromkeys((END, RECORDS, WATERMARK, TAKEN, MISSED), "bigint")
            columns |= {UNTIL: "bigint"} if self.untils else {}
            columns |= {} if self.values is None else {TIME: "bigint", **numbered(VALUE, self.values)}
        return tuple(Field(name, kind) for name, kind in columns.items())

    @property
    def schema(self) -> str:
        """Return the columns as DDL for Spark."""
        return ", ".join(f"{field.name} {ddl_of(field.kind)}" for field in self.fields)

    def completed(self, table: pa.Table) -> pa.Table:
        """Return the table with all columns in order; missing columns are null."""
        there = set(table.column_names)
        columns = [table[f.name] if f.name in there else pa.nulls(len(table), arrow_type(f.kind)) for f in self.fields]
        return pa.table(columns, [field.name for field in self.fields])
