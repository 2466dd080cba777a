"""Share fields among results: some results keep fields of their own, others are views of the fields of another.

A mean and a sum have the same total and count, the fields of a variance are among those of a kurtosis, and the count of
a column is a field of each. Storage is therefore planned by fields, not by results. Among results of the same columns
and condition, a result whose fields are all among another's is read from the other's partials::

    results     mean   sum   count   variance   stddev   kurtosis
    stored      high, low, n         (n), mean, m2, m3, m4

Each group keeps its own tree: an exact sum stays two-layer together with moments. An additional result may add a group,
or fields to a group. It never changes the meaning of existing fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.arrays import Partials
from slicing.aggregates.fields import is_exact
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.kernels import kernel

Item = TypeVar("Item")


@dataclass(frozen=True)
class View:
    """The position of a result's fields among the fields of result `leader`; `group` is the number of its group."""

    leader: int
    group: int
    fields: tuple[int, ...]


Slot: TypeAlias = tuple[int, int]
"""A field: the number of its group, and its position in the group."""


@dataclass(frozen=True)
class Sharing:
    """Groups of fields, each with the number of the result that has all of them (leader), and a view per result.

    `same` maps fields to an equal field of an earlier group, since groups of one column may count the same values. Each
    group needs its own field in its tree, but a slice stores only one.
    """

    leaders: tuple[int, ...]
    views: tuple[View, ...]
    same: Mapping[Slot, Slot]

    @property
    def is_any(self) -> bool:
        """Whether a result has a field in common with another."""
        return len(self.leaders) < len(self.views) or bool(self.same)

    def select(self, of_results: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items of the leaders, one per group, from one item per result."""
        return tuple(of_results[leader] for leader in self.leaders)

    def kernels(self, of_results: Sequence[Kernel]) -> tuple[Kernel, ...]:
        """Return one kernel per group; its results are the results of all its views, one after another."""
        together = []
        for group, leader in enumerate(self.leaders):
            views = [
                (view.fields, own) for view, own in zip(self.views, of_results, strict=True) if view.group == group
            ]
            own = of_results[leader]
            together.append(own if len(views) == 1 else kernel(own.label, _grouped(own.aggregate, views)))
        return tuple(together)

    def partials(self, of_groups: Sequence[Partials]) -> list[Partials]:
        """Return the partials of each result, without copying."""
        return [[of_groups[view.group][field] for field in view.fields] for view in self.views]


def sharing(kernels: Sequence[Kernel], trees: Sequence[str], arguments: Sequence[tuple[int, ...]]) -> Sharing:
    """Return the groups of these results; `arguments` identifies the columns and the condition of each result.

    `trees` has the tree of each result, family by family; only the trees of the first family count.

    If the fields of a result are in several groups, it joins the first group with its tree, or else the first group.
    """
    hosts = [_hosts(number, kernels, arguments) for number in range(len(kernels))]
    leaders = tuple(number for number, found in enumerate(hosts) if not found)
    views = []
    for number, found in enumerate(hosts):
        able = [host for host in found if host in leaders] or [number]
        leader = min(able, key=lambda host, own=trees[number]: (trees[host] != own, host))  # type: ignore[misc]
        places = [_fields(kernels[leader]).index(each) for each in _fields(kernels[number])]
        views.append(View(leader, leaders.index(leader), tuple(places)))
    return Sharing(leaders, tuple(views), _same(leaders, kernels, arguments))


def _same(leaders: Sequence[int], kernels: Sequence[Kernel], arguments: Sequence[tuple[int, ...]]) -> dict[Slot, Slot]:
    """Return equal fields of groups, exact kinds only: floats added in another order may differ in the last bits."""
    first: dict[Any, Slot] = {}
    found = {}
    for group, leader in enumerate(leaders):
        own = kernels[leader]
        for place, (meaning, kind) in enumerate(_fields(own) if own.aggregate.meanings else ()):
            key = _of(own, arguments[leader]), meaning, kind
            if key in first and is_exact(kind):
                found[group, place] = first[key]
            first.setdefault(key, (group, place))
    return found


def _hosts(number: int, kernels: Sequence[Kernel], arguments: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the results that have all fields of a result and more, or the same fields and come earlier."""
    own = set(_fields(kernels[number]))
    if not kernels[number].aggregate.meanings:
        return []
    return [
        other
        for other, each in enumerate(kernels)
        if other != number
        and each.aggregate.meanings
        and _of(each, arguments[other]) == _of(kernels[number], arguments[number])
        and own <= set(_fields(each))
        and (len(_fields(each)) > len(own) or other < number)
    ]


def _of(each: Kernel, arguments: tuple[int, ...]) -> tuple[Any, ...]:
    return each.aggregate.filtered, arguments


def _fields(each: Kernel) -> list[tuple[str, str]]:
    """Return the identities of fields: meanings and kinds, or names for results that share nothing."""
    meanings = each.aggregate.meanings or [field.name for field in each.fields]
    return [(meaning, field.kind) for meaning, field in zip(meanings, each.fields, strict=True)]


def _grouped(aggregate: Aggregate, views: Sequence[tuple[tuple[int, ...], Kernel]]) -> Aggregate:
    results = [field.kind for _, own in views for field in own.results]
    returns = ", ".join(f"r{number} {kind}" for number, kind in enumerate(results))
    lower = _Results(tuple((fields, own.aggregate) for fields, own in views))
    return replace(aggregate, lower=lower, returns=returns, results_of_runs=None)


@dataclass(frozen=True)
class _Results:
    """The `lower` of a group: it returns the results of all its views."""

    views: tuple[tuple[tuple[int, ...], Aggregate], ...]

    def __call__(self, partial: Any) -> tuple[Any, ...]:
        columns = partial if isinstance(partial, tuple) else (partial,)
        found: list[Any] = []
        for fields, aggregate in self.views:
            own = tuple(columns[field] for field in fields)
            given = own[0] if len(own) == 1 else own
            result = given if aggregate.lower is None else aggregate.lower(given)
            found += result if isinstance(result, tuple) else (result,)
        return tuple(found)
