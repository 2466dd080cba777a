"""Rows and counters of a micro-batch, from the packed rows of its stateful operator.

The columns are those of `slicing.spark.query.Query.row_columns`, which makes them in the JVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from slicing.aggregates.fields import INTERVAL, element_of, entry_of, members_of
from slicing.aggregates.results import Nesting, is_single
from slicing.spark.query import Query
from slicing.spark.simulated import row_type
from slicing.stages import flat
from slicing.stages.flat import numbered
from slicing.stages.metrics import CAUSES, COUNTERS, MAXIMA
from slicing.stages.packed import COUNT, ROWS
from slicing.triggers.lateness import RECORDS
from slicing.triggers.trigger import KINDS
from slicing.windows.counting import Counting
from slicing.windows.unbounded import Unbounded

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Flat = Mapping[str, Any]
"""A flat row, see `slicing.stages.flat`."""


def counters_of(packed: Iterable[Flat]) -> dict[str, int]:
    """Return the counters of a micro-batch by name, as Spark observes them."""
    found = dict.fromkeys(COUNTERS, 0)
    names = {cause: name for name, cause in CAUSES.items() if name in found}
    for row in packed:
        if row[COUNT] is not None and row[flat.CAUSE] in names:
            name = names[row[flat.CAUSE]]
            found[name] = max(found[name], row[COUNT]) if name in MAXIMA else found[name] + row[COUNT]
    return found


@dataclass(frozen=True)
class Rows:
    """Makes rows of a query as Spark would collect them. Timestamps are in `zone`."""

    query: Query
    zone: tzinfo

    def of(self, packed: Iterable[Flat]) -> tuple[list[Any], list[Any]]:
        """Return the emitted rows and the late rows: late records if the query emits these, otherwise late partials."""
        rows: list[Any] = []
        late: list[Any] = []
        for scalars in packed:
            for inside in scalars[ROWS] or ():
                row = {**scalars, **inside}
                if row[flat.CAUSE] is None:
                    rows.append(_row(self._emitted(row)))
                elif (self.query.options.late == RECORDS) == (row.get(flat.TIME) is not None):
                    late.append(_row(self._late(row)))
        return rows, late

    def _emitted(self, row: Flat) -> dict[str, Any]:
        found = self._keys(row) | self._window(row) | self._results(row, flat.RESULT)
        if not self.query.once:
            found |= {"emission": KINDS[row[flat.KIND]], "revision": row[flat.REVISION]}
        if self.query.with_old:
            found["old"] = _row(self._results(row, flat.OLD)) if row[flat.REPLACES] else None
        return found

    def _late(self, row: Flat) -> dict[str, Any]:
        columns, tag = self.query.late_columns, self._tag(row)
        assert columns is not None, "the query emits late rows"
        if columns.values is None:
            return self._keys(row) | self._results(row, flat.RESULT) | {"late": _row(tag)}
        keys = self._keys(row)
        record = keys | {self.query.time: self.instant(row[flat.TIME])} | keys
        for column, field in numbered(flat.VALUE, columns.values).items():
            record.setdefault(field.name, self._value(row[column], field.kind))
        del tag["records"]
        return record | {"late": _row(tag)}

    def _tag(self, row: Flat) -> dict[str, Any]:
        """The struct `late` of a late row, as `slicing.spark.late.LateColumns.tag` makes it."""
        columns, first = self.query.late_columns, row[flat.TAKEN]
        assert columns is not None, "the query emits late rows"
        found = {
            "slice": self._interval(row[flat.START], row[flat.END]),
            "records": row[flat.RECORDS],
            "cause": "late" if first is None else "late_for_some",
            "watermark": self.instant(row[flat.WATERMARK]),
            "first_window": None
            if first is None
            else self._interval(first, row[flat.UNTIL] if columns.size is None else first + columns.size),
            "missed": row[flat.MISSED],
        }
        return found | ({"windows": columns.names[row[flat.FAMILY]]} if columns.names else {})

    # --- columns --------------------------------------------------------------------------------------------------

    def _keys(self, row: Flat) -> dict[str, Any]:
        leaves = iter(numbered(flat.KEY, self.query.shape.keys))
        return {key.name: self._key(iter(key.parts()), row, leaves) for key in self.query.keys}

    def _key(self, parts: Iterator[Any], row: Flat, leaves: Iterator[str]) -> Any:
        """The value of an atomic key, or the struct that the parts of a key make."""
        first, at = next(parts), next(leaves)
        if not first.is_struct:
            return self._value(row[at], first.field.kind)
        values: dict[tuple[str, ...], Any] = {first.path: {} if row[at] else None}
        for part in parts:
            value = row[next(leaves)]
            made = ({} if value else None) if part.is_struct else self._value(value, part.field.kind)
            values[part.path] = made
            if (inside := values[part.path[:-1]]) is not None:
                inside[part.path[-1]] = made
        return _frozen(values[first.path])

    def _window(self, row: Flat) -> dict[str, Any]:
        """What identifies the window of a row, as `slicing.spark.window_columns` has it."""
        window, start = self.query.window, row[flat.START]
        if isinstance(window, Unbounded):
            return {"window": None}
        if window.wide:
            return {"window_end": self.instant(start)}
        size = window.family.fixed_size
        if isinstance(window, Counting):
            places = numbered(flat.RESULT, range(2), len(self.query.flat.results) - 2)
            first, last = (row[at] for at in places) if self.query.time else (None, None)
            shown = None if first is None or last is None else self._interval(first, last + 1)
            return {"window": shown, "first_record": start, "last_record": row[flat.STOP] - 1}
        found = {"window": self._interval(start, row[flat.STOP] if size is None else start + size)}
        return found | ({"windows": window.names[row[flat.FAMILY]]} if window.names else {})

    def _results(self, row: Flat, prefix: str) -> dict[str, Any]:
        query = self.query
        if query.then is not None:
            return self._fields(row, numbered(prefix, query.then.returns))
        columns, at = [], 0
        for each in query.widths * query.shape.kernels:
            fields = self._fields(row, numbered(prefix, each.results, at))
            at += len(each.results)
            if each.aggregate.keeps_records:
                return fields
            columns.append(next(iter(fields.values())) if is_single(each) else _row(fields))
        found = iter(columns)
        if not query.window.wide:
            return _nested(query.nesting, found)
        names = query.window.names or ()
        return {f"{name}_{at}": value for at in names for name, value in _nested(query.nesting, found).items()}

    def _fields(self, row: Flat, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {field.name: self._value(row[column], field.kind) for column, field in fields.items()}

    # --- values ---------------------------------------------------------------------------------------------------

    def _interval(self, start: int, end: int) -> Any:
        return _row({"start": self.instant(start), "end": self.instant(end)})

    def instant(self, micros: int) -> Any:
        """Return an instant as rows have it."""
        return self._value(micros, self.query.time_kind)

    def _value(self, value: Any, kind: str) -> Any:
        """The value of a type, from its form in flat rows."""
        if value is None:
            return None
        if element := element_of(kind):
            return [self._value(each, element) for each in value]
        if entry := entry_of(kind):
            return {self._value(key, entry[0]): self._value(each, entry[1]) for key, each in value}
        if members := members_of(kind):
            return _row({member.name: self._value(value[member.name], member.kind) for member in members})
        if kind == "date":
            return date.fromordinal(_EPOCH.toordinal() + value)
        if kind == INTERVAL:
            return timedelta(microseconds=value)
        if kind == "timestamp":
            return (_EPOCH + timedelta(microseconds=value)).astimezone(self.zone)
        return _EPOCH.replace(tzinfo=None) + timedelta(microseconds=value) if kind == "timestamp_ntz" else value


def _row(values: Mapping[str, Any]) -> Any:
    return row_type(tuple(values))(*values.values())


def _frozen(value: Any) -> Any:
    """A struct of dicts as one of rows."""
    return _row({name: _frozen(each) for name, each in value.items()}) if isinstance(value, dict) else value


def _nested(nesting: Nesting, columns: Iterator[Any]) -> dict[str, Any]:
    """The results by name, the fields of a struct in one row."""
    return {name: _row(_nested(parts, columns)) if parts else next(columns) for name, parts in nesting}
