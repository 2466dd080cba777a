"""Cells: partials made of numbers as one numpy array per field; partials that do not fit stay Python objects.

A partial that does not fit is spilled (`aggregates.spill`), and its cell holds the reference. Code that moves cells
therefore moves the reference too, and a lookup reads only one field.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.calls import unzipped
from slicing.aggregates.spill import COUNT, FIRST, SPILL
from slicing.tracing.formulas import TYPES

Array = NDArray[Any]
Partials = list[Array]

_EXACT_FLOAT = 2**53


class Unfit(Exception):
    """A partial does not fit into columns, and no field can hold a reference to it; `index` is its position."""

    def __init__(self, index: int):
        super().__init__(index)
        self.index = index


class Cells:
    """Conversion of partials between Python objects and columns, for the fields of one aggregate."""

    def __init__(self, aggregate: Aggregate):
        value = aggregate.init()
        self.is_single = not isinstance(value, tuple)
        self.types = [TYPES[field.kind] for field in aggregate.fields]
        self.dtypes = [np.dtype({"bool": np.bool_, "int": np.int64, "float": np.float64}[t]) for t in self.types]
        carriers = [self.types.index(type_) for type_ in ("int", "float") if type_ in self.types]
        self.carrier = carriers[0] if carriers else None
        items = (value,) if self.is_single else value
        self.init = [dtype.type(item) for dtype, item in zip(self.dtypes, items, strict=True)]
        free = [at for at, type_ in enumerate(self.types) if type_ == "int" and at == self.carrier]
        self._checked = free[0] if free else None

    def spread(self, shape: int | tuple[int, ...]) -> Partials:
        """Return partials of this shape with `init` in every cell."""
        return [np.full(shape, item, dtype=dtype) for item, dtype in zip(self.init, self.dtypes, strict=True)]

    def references(self, columns: Sequence[Array]) -> Array | None:
        """Return the references of cells with spilled partials, negative in other cells; None if there are none."""
        return None if self.carrier is None else SPILL.found(columns[self.carrier])

    def reserved(self, columns: Sequence[Array]) -> Array | None:
        """Return a mask of cells with a number in the reserved range (they must be spilled); None if there are none."""
        if self._checked is None:
            return None
        column = columns[self._checked]
        if not column.size or int(column.max()) < FIRST:
            return None
        found: Array = (column >= FIRST) & (column < FIRST + COUNT)
        return found if found.any() else None

    def objects(self, columns: Sequence[Array]) -> list[Any]:
        """Return the partials of one-dimensional columns in the form that a user's function takes."""
        lists = [column.tolist() for column in columns]
        items = lists[0] if self.is_single else list(zip(*lists, strict=True))
        references = self.references(columns)
        if references is not None:
            for at in np.flatnonzero(references >= 0).tolist():
                items[at] = SPILL.partials[int(references[at])]
        return items

    def columns(self, items: list[Any]) -> Partials:
        """Return the columns of partials that a user's function returned. Raises Unfit."""
        found = self.fitting(items)
        return self._mixed(items) if found is None else found

    def fitting(self, items: list[Any]) -> Partials | None:
        """Return the same as `columns`, but None if a partial does not fit."""
        lists = [items] if self.is_single else unzipped(items, len(self.types))
        if lists is None or (not self.is_single and not set(map(type, items)) <= {tuple, list}):
            return None
        made = (_column(column, type_) for column, type_ in zip(lists, self.types, strict=True))
        found = list(takewhile(lambda column: column is not None, made))
        if len(found) < len(self.types):
            return None
        self.put_reserved(found)  # type: ignore[arg-type]
        return found  # type: ignore[return-value]

    def is_plain(self, partial: Any) -> bool:
        """Return whether a partial has Python's own numbers of the fields' types, of any size."""
        parts = (partial,) if self.is_single else partial
        if type(parts) is not tuple or len(parts) != len(self.types):
            return False
        kinds = {"bool": (bool,), "int": (int, bool), "float": (float, int)}
        return all(type(part) in kinds[type_] for part, type_ in zip(parts, self.types, strict=True))

    def put_reserved(self, columns: Partials) -> None:
        """Spill partials whose numbers look like references; the columns are changed."""
        reserved = self.reserved(columns)
        if reserved is None or self.carrier is None:
            return
        for at in np.flatnonzero(reserved).tolist():
            items = tuple(column[at].item() for column in columns)
            columns[self.carrier][at] = SPILL.put(items[0] if self.is_single else items)

    def _mixed(self, items: list[Any]) -> Partials:
        """Return the columns of partials; partials that do not fit are spilled. Raises Unfit."""
        columns = self.spread(len(items))
        marks = None if self.carrier is None else columns[self.carrier].view(np.int64)
        for at, item in enumerate(items):
            parts = (item,) if self.is_single else item
            if type(parts) in (tuple, list) and len(parts) == len(self.types) and all(map(_fits, parts, self.types)):
                for column, part in zip(columns, parts, strict=True):
                    column[at] = part
            elif marks is None:
                raise Unfit(at)
            else:
                marks[at] = SPILL.put(item)
        self.put_reserved_but(columns, items)
        return columns

    def put_reserved_but(self, columns: Partials, items: list[Any]) -> None:
        """Do the same as `put_reserved` for columns in which some cells already hold references."""
        reserved = self.reserved(columns)
        if reserved is None:
            return
        for at in np.flatnonzero(reserved).tolist():
            marks = columns[self.carrier]  # type: ignore[index]
            part = items[at] if self.is_single else items[at][self.carrier] if type(items[at]) is tuple else None
            if type(part) is int and part == int(marks[at]):
                marks[at] = SPILL.put(items[at])


def _column(items: Sequence[Any], type_: str) -> Array | None:
    """Return Python numbers as an array, None if one of them does not fit."""
    kinds = set(map(type, items))
    if any(issubclass(kind, np.generic) for kind in kinds):
        items = [item.item() if isinstance(item, np.generic) else item for item in items]
        kinds = set(map(type, items))
    if type_ == "float":
        if kinds <= {float}:
            return plain_nans(np.frombuffer(array("d", items), dtype=np.float64))
        if kinds <= {float, int} and all(abs(i) <= _EXACT_FLOAT for i in items if type(i) is int):
            return plain_nans(np.array(items, dtype=np.float64))
        return None
    if type_ == "bool":
        return np.array(items, dtype=np.bool_) if kinds <= {bool} else None
    if not kinds <= {int, bool}:
        return None
    try:
        return np.frombuffer(array("q", items), dtype=np.int64)  # in half the time of `np.array`
    except OverflowError:
        return None


def plain_nans(column: Array) -> Array:
    """Return the column with a plain NaN for each NaN whose bits could be a reference; other numbers are unchanged."""
    if column.dtype != np.float64 or not column.size:
        return column
    bits = column.view(np.int64)
    return column if int(bits.max()) < FIRST else np.where(bits < FIRST, column, np.nan)


def _fits(part: Any, type_: str) -> bool:
    return _column((part,), type_) is not None
