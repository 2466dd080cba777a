"""Values themselves, as arrays: all of them, the different ones, the first and the last by event time, joined text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from combinators._common import ANY_NESTED, ATOMIC, CARRIED, Array, checked_flag, require, shown
from combinators._counted import by_time, checked_limit, counted, timed
from combinators._items import Items
from combinators._ordered import Ordered, checked_count, gathered
from combinators._tables import Joined, Layout, Limit, Tables, lists
from slicing.aggregates.aggregate import EVENT_TIME, Aggregate, Bound, Condition, Input
from slicing.errors import InvalidType, excerpt

_CAST = "Choose or compute a column of one of these first."
_TEXT = 'Cast it first, for example `withColumn("x", F.col("x").cast("string"))`.'


def collect_list(column: Input, *, limit: int | None = None, where: Condition = None) -> Bound:
    """The values of `column` as an array, in the order of event time; ties: the smaller value first.

    Nulls are left out; no value gives an empty array, never null. The partial is a table of times and values: 24 bytes
    per record, more for decimals and text; invertible: 2 combines a window. More values in a window than `limit` raise
    TooLarge; streams whose windows overlap need a `limit`. Arrays, maps and structs are ordered as for `first`, and
    stored as bytes in that order. Raises InvalidType for a column of intervals or variants. Reference: Spark's
    `collect_list`, which does not define the order.

    >>> collect_list("x", limit=100).resolve(("string", "bigint")).returns
    'array<string>'
    """
    return _all(f"collect_list({column})", column, limit, CARRIED, _CAST, _in_order, "array<{kind}>").where(where)


def collect_set(column: Input, *, limit: int | None = None, where: Condition = None) -> Bound:
    """The distinct values of `column` as an array, ascending; 0.0 and -0.0 are one value, and all NaN are one.

    Nulls are left out; no value gives an empty array, never null. The partial is a table of the values and their
    counts: 16 bytes per different value of a slice, more for decimals and text; invertible: 2 combines a window. More
    different values in a window than `limit` raise TooLarge; streams whose windows overlap need a `limit`. Raises
    InvalidType for a column that is not atomic. Reference: Spark's `collect_set`, which does not define the order.

    >>> collect_set("x", limit=100).resolve(("date",)).returns
    'array<date>'
    """
    label = f"collect_set({column})"
    limits = Limit(label, "every value", checked_limit(limit))
    return counted(label, column, limits, ATOMIC, _CAST, _different, "array<{kind}>").where(where)


def string_agg(column: Input, delimiter: str = ",", *, limit: int | None = None, where: Condition = None) -> Bound:
    """The strings of `column` joined by `delimiter`, in the order of event time; ties: the smaller string first.

    Nulls are left out; no text gives null. Cost, `limit` and errors as for `collect_list`; raises InvalidType for a
    column that is not text. Reference: Spark's `string_agg`, which does not define the order.

    >>> string_agg("x", "; ", limit=100).label
    'string_agg(x)'
    """
    if not isinstance(delimiter, str):
        raise InvalidType(f"`delimiter` must be text; got {excerpt(delimiter)}.")
    label = f"string_agg({column})"
    return _all(label, column, limit, ("string",), _TEXT, partial(_text, delimiter), "{kind}").where(where)


def first_n(
    column: Input, n: int, *, by: Input | None = None, ignore_nulls: bool = False, where: Condition = None
) -> Bound:
    """The first `n` values of `column` by event time as an array; ties: the smaller value first.

    Records of one time are ordered by `by` first, if it is given; those in which it is null come after the others. Null
    is the smallest value; with `ignore_nulls`, records with null are left out. No record gives an empty array, never
    null. The partial is a table of at most `n` times and values, 32 bytes each, more for decimals and text, 8 bytes
    less with `ignore_nulls`. Arrays, maps and structs as in `collect_list`: `first_n(F.struct("a", "b"), 5)` has the
    first five records. Not invertible: 4 combines a window on average, 2 sqrt(n) at worst. Raises InvalidType for a
    column of intervals or variants, or a `by` that is not a number, boolean, date or time; InvalidValue for an `n` that
    is not positive. Reference: a sort by time and value with Python's `sorted`.

    >>> first_n("x", 3).resolve(("double", "bigint")).returns
    'array<double>'
    """
    return _some("first_n", column, n, by, ignore_nulls, last=False).where(where)


def last_n(
    column: Input, n: int, *, by: Input | None = None, ignore_nulls: bool = False, where: Condition = None
) -> Bound:
    """The last `n` values of `column` by event time as an array, ordered by time, then by value.

    Records of one time are ordered by `by` first, if it is given; those in which it is null come before the others.
    Nulls, cost and errors as for `first_n`. Reference: a sort by time and value with Python's `sorted`.

    >>> last_n("x", 3).label
    'last_n(x, 3)'
    """
    return _some("last_n", column, n, by, ignore_nulls, last=True).where(where)


def _different(items: Items, tables: Tables) -> Array:
    return lists([items.values(tables.numbers, tables.texts)], tables.starts())


def _all(
    label: str,
    column: str,
    limit: int | None,
    kinds: tuple[str, ...],
    remedy: str,
    lower: Callable[[Items, Tables], Array],
    returns: str,
) -> Bound:
    limits = Limit(label, "every record", checked_limit(limit))
    source = partial(_timed, limits, kinds, remedy, lower, returns)
    unlimited = "" if limits.most else limits.what
    return Bound(source, (column, EVENT_TIME), label, unlimited=unlimited, nested=ANY_NESTED in kinds)


def _timed(
    limit: Limit,
    kinds: tuple[str, ...],
    remedy: str,
    lower: Callable[[Items, Tables], Array],
    returns: str,
    kind: str,
    _time: str = "bigint",
) -> Aggregate:
    require(limit.label, kinds, kind, remedy)
    items = Items(kind, equal_zeros=False)
    joined = Joined(Layout(1 + items.width, items.varied), f"timed {kind}", limit=limit, measure=Tables.totals)
    gather, returned = partial(by_time, joined, items), returns.replace("{kind}", kind)
    return timed(joined, gather, partial(lower, items), returned, joined.meaning, limit.most)


def _in_order(items: Items, tables: Tables) -> Array:
    values = items.values(tables.numbers[1:], tables.texts)
    if isinstance(values, np.ndarray):
        values = np.repeat(values, tables.counts)
    else:
        values = values.take(pa.array(np.repeat(np.arange(len(values)), tables.counts)))
    return lists([values], np.concatenate([[0], np.cumsum(tables.totals())]))


def _text(delimiter: str, items: Items, tables: Tables) -> Array:
    parts = _in_order(items, tables)
    joined = np.empty(len(parts), object)
    joined[:] = [delimiter.join(part) for part in parts.tolist()]
    return shown(joined, tables.sizes() == 0)


def _some(name: str, column: Input, n: int, by: Input | None, ignore_nulls: bool, last: bool) -> Bound:
    label = f"{name}({column}, {checked_count('n', n)})"
    columns = (column, EVENT_TIME) if by is None else (column, EVENT_TIME, by)
    source = partial(_ends, label, name, n, not checked_flag("ignore_nulls", ignore_nulls), last)
    return Bound(source, columns, label, nested=True)


def _ends(
    label: str, name: str, n: int, nulls: bool, last: bool, kind: str, _time: str = "bigint", *by: str
) -> Aggregate:
    ordered = Ordered(label, name, n, ("bigint", *by), kind, last=last, nulls=nulls)
    return ordered.aggregate(partial(gathered, ordered), null_inputs=nulls or bool(by))
