"""Aggregates of a table of values and their counts: exact, and invertible because counts add and subtract exactly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from combinators._common import ANY_NESTED, Array, constant, require
from combinators._items import Items
from combinators._runs import counts_of_runs
from combinators._tables import Joined, Layout, Limit, Measure, Tables, by_parts, parted
from slicing.aggregates.aggregate import Aggregate, Bound, Gathered
from slicing.aggregates.fields import INTERVAL
from slicing.errors import InvalidValue, excerpt

Lower = Callable[[Items, Tables], Any]
OfRuns = Callable[[Array, Array], Array | None]


def checked_limit(limit: int | None) -> int | None:
    """Return the limit if it is valid. Raises InvalidValue."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise InvalidValue(f"`limit` must be a positive integer: how many a window may have; got {excerpt(limit)}.")
    return limit


def counted(
    label: str,
    column: str,
    limit: Limit,
    kinds: tuple[str, ...],
    remedy: str,
    lower: Lower,
    returns: str,
    of_runs: Callable[[Layout, Limit, Array], OfRuns] | None = None,
) -> Bound:
    """Return an aggregate of the counted values of a column.

    In `returns`, "{kind}" stands for the kind of the column, "{mean}" for double or, of intervals, an interval.
    `of_runs` gives `Aggregate.results_of_runs` for a layout of tables.
    """
    source = partial(_counted, limit, kinds, remedy, lower, returns, of_runs)
    return Bound(source, (column,), label, unlimited="" if limit.most else limit.what, nested=ANY_NESTED in kinds)


def _counted(
    limit: Limit,
    kinds: tuple[str, ...],
    remedy: str,
    lower: Lower,
    returns: str,
    of_runs: Callable[[Layout, Limit, Array], OfRuns] | None,
    kind: str,
) -> Aggregate:
    require(limit.label, kinds, kind, remedy)
    items = Items(kind)
    joined = Joined(Layout(items.width, items.varied), f"counted {kind}", limit=limit)
    return Aggregate(
        constant(b""),
        Gathered(partial(parted, joined, items)),
        joined,
        joined.inverse,
        partial(lowered, joined.layout, limit, Tables.sizes, partial(lower, items)),
        partial="counted binary",
        returns=returns.replace("{kind}", kind).replace("{mean}", INTERVAL if kind == INTERVAL else "double"),
        columns=True,
        view="limbs",
        meanings=(joined.meaning,),
        growth=joined.layout.growth("different value", limit.most),
        partials_of_runs=partial(counts_of_runs, joined.layout),
        results_of_runs=of_runs and partial(of_runs, joined.layout, limit),
    )


def timed(
    joined: Joined,
    gather: Callable[..., Array],
    lower: Callable[[Tables], Any],
    returns: str,
    meaning: str,
    most: int | None,
) -> Aggregate:
    """Return an aggregate of tables of values and times, at most `most`; invertible unless `joined` drops rows."""
    return Aggregate(
        constant(b""),
        Gathered(gather),
        joined,
        joined.inverse if joined.reduced is None else None,
        partial(lowered, joined.layout, joined.limit, Tables.totals, lower),
        partial="timed binary",
        returns=returns,
        columns=True,
        view="limbs",
        meanings=(meaning,),
        growth=joined.layout.growth("record", most),
    )


def by_time(joined: Joined, items: Items, starts: Array, value: Any, time: Array) -> Array:
    """Return the partials of runs of values with their times, for `Gathered`."""
    return parted(joined, items, starts, value, time)


def lowered(
    layout: Layout, limit: Limit | None, measure: Measure, lower: Callable[[Tables], Any], partials: Array
) -> Any:
    """Return the results of tables. Raises RowFailure if one exceeds its limit."""

    def of_some(some: Array) -> Any:
        tables = layout.read(some)
        if limit is not None:
            limit.check(measure(tables))
        return lower(tables)

    return by_parts(of_some, partials)
