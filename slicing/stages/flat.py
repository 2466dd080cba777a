"""The flat table in which Python hands rows to the JVM: the names of its columns, their kinds, their order.

::

    row         key       when                results    again                          cause  late
    a window    k0 k1 ..  start stop family   r0 r1 ..   kind revision replaces o0 ..
    late        k0 k1 ..  start        family r0 r1 ..                                  LATE   end records ...

`stages.output` writes it as Arrow tables, which `stages.packed` packs for the JVM; `spark.packing` takes them apart
there, and `spark.query` and, for late rows, `spark.late` read the DataFrame. Times are in microseconds. All columns may
be null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from slicing.aggregates.fields import Field, arrow_type, element_of, members_of, width_of

START, STOP, FAMILY = "start", "stop", "family"
"""Of a window its start and end, and the number of its family; of a late row its slice."""
KIND, REVISION, REPLACES = "kind", "revision", "replaces"
"""The position in `trigger.KINDS`, the micro-batch, and whether there was another result before."""
CAUSE, LATE_ROW = "cause", -1
"""Null for windows, or LATE_ROW; of packed rows also the position among the counters of what is counted."""
END, RECORDS, WATERMARK, TAKEN, MISSED, UNTIL, TIME = "end", "records", "watermark", "taken", "missed", "until", "time"
"""Of a late row: the end of its slice, its records, the watermark by which it was late, the start of the first window
that was open, how many others were not, the end of that window, and the time of the record."""
KEY, RESULT, OLD, VALUE = "k", "r", "o", "v"
"""How columns begin that are numbered: leaves of keys, results, those that are replaced, values of a late record."""
SIGNAL, NUMBER = "s0", "s1"
"""The columns of records that a trigger asks for, behind those of values: a condition, and a number."""
_PHYSICAL = {"date": "int", "timestamp": "bigint", "timestamp_ntz": "bigint"}

Item = TypeVar("Item")


def numbered(prefix: str, items: Iterable[Item], first: int = 0) -> dict[str, Item]:
    """Things by the names of columns that are numbered.

    >>> numbered(RESULT, ["bigint", "double"])
    {'r0': 'bigint', 'r1': 'double'}
    """
    return {f"{prefix}{first + i}": item for i, item in enumerate(items)}


def physical(kind: str) -> str:
    """The kind in which a kind travels to the JVM."""
    if element := element_of(kind):
        return f"array<{physical(element)}>"
    if members := members_of(kind):
        return f"struct<{','.join(f'{member.name}:{physical(member.kind)}' for member in members)}>"
    return "binary" if width_of(kind) else _PHYSICAL.get(kind, kind)


@dataclass(frozen=True)
class Flat:
    """Which columns a query has. `keys`, `results` and `values` are kinds, in which these travel.

    stops: windows differ in length, so that each says its end.
    families: rows are of several windows that are told apart.
    again: windows fire more than once; with `replaces` each row has the previous result.
    late: late rows are emitted, and with `values` also their records.
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
        """The columns, in their order."""
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
        """The columns as Spark wants to know them."""
        return ", ".join(map(str, self.fields))

    def completed(self, table: pa.Table) -> pa.Table:
        """A table with all columns, in their order, null where it has none."""
        there = set(table.column_names)
        columns = [table[f.name] if f.name in there else pa.nulls(len(table), arrow_type(f.kind)) for f in self.fields]
        return pa.table(columns, [field.name for field in self.fields])
