"""Call Python functions for many items with little overhead around the calls."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import chain, islice, repeat
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array


class Raised(Exception):
    """The exception of a function, and the number of its group; `record` is the number of its record, if it has one."""

    def __init__(self, error: Exception, group: int, record: int | None = None):
        super().__init__(error, group, record)
        self.error, self.group, self.record = error, group, record


def folded(agg: Callable[..., Any], accs: list[Any], values: Sequence[Any], starts: Array, count: int) -> list[Any]:
    """Fold the records of each group into its partial in `accs`, group by group; group g begins at `starts[g]`.

    Raises Raised.
    """
    columns = [value.tolist() for value in values]
    single = len(columns) == 1
    items = iter(columns[0] if single else _run(columns, 0, count))
    made: list[Any] = []
    try:
        for acc, size in zip(accs, sizes_of(starts, count), strict=True):
            if not single:
                made.append(_star(agg, acc, islice(items, size)))
            elif size == 1:  # if there are many keys, most have one record
                made.append(agg(acc, next(items)))
            else:
                made.append(reduce(agg, islice(items, size), acc))
    except MemoryError:
        raise
    except Exception as error:
        raise Raised(error, len(made), max(0, count - operator.length_hint(items) - 1)) from error
    return made


def _star(agg: Callable[..., Any], acc: Any, records: Iterable[tuple[Any, ...]]) -> Any:
    for record in records:
        acc = agg(acc, *record)
    return acc


def folded_runs(
    agg_many: Callable[[Any, Iterable[Any]], Any], accs: list[Any], values: Sequence[Any], starts: Array, count: int
) -> list[Any]:
    """Return the same as `folded`, with one call for all records of a group. Raises Raised."""
    columns = [value.tolist() for value in values]
    made: list[Any] = []
    try:
        for acc, start, end in zip(accs, starts.tolist(), [*starts[1:].tolist(), count], strict=True):
            made.append(agg_many(acc, columns[0][start:end] if len(columns) == 1 else _run(columns, start, end)))
    except MemoryError:
        raise
    except Exception as error:
        raise Raised(error, len(made)) from error
    return made


def records(values: Sequence[Any], count: int) -> list[tuple[Any, ...]]:
    """Return the records of some columns as tuples."""
    return _run([value.tolist() for value in values], 0, count)


def _run(columns: Sequence[list[Any]], start: int, end: int) -> list[tuple[Any, ...]]:
    if not columns:
        return list(repeat((), end - start))
    return list(zip(*(column[start:end] for column in columns), strict=True))


def sizes_of(starts: Array, count: int) -> list[int]:
    """Return the number of items of each group."""
    sizes: list[int] = np.diff(starts, append=count).tolist()
    return sizes


def unzipped(items: list[Any], width: int) -> list[list[Any]] | None:
    """Return the columns of tuples with `width` parts; None if an item is not such a tuple."""
    if not (set(map(type, items)) <= {tuple} or all(isinstance(item, tuple | list) for item in items)):
        return None
    if not set(map(len, items)) <= {width}:
        return None
    # Faster than `zip(*items)`, which creates an iterator per item.
    flat = list(chain.from_iterable(items))
    return [flat[at::width] for at in range(width)]
