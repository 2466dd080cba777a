"""Which results keep fields of their own, and which are views of what others keep.

A mean and a sum are of the same total and count, a variance is of what a kurtosis is of, and the count of a column is a
field of each of them. What is stored is so planned by fields and not by results: of results of the same columns and
condition, those whose fields are all among another's are read off its partials::

    results     mean   sum   count   variance   stddev   kurtosis
    stored      high, low, n         (n), mean, m2, m3, m4

Each group keeps its own tree: an exact sum stays two-layer beside moments. A further result may add a group, or fields
to one; what the fields of a record are never changes.
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
    """A result's fields: their places among those of result `leader`, by its number and by its place in the groups."""

    leader: int
    group: int
    fields: tuple[int, ...]


Slot: TypeAlias = tuple[int, int]
"""A field: the place of its group, and its own among the fields of that."""


@dataclass(frozen=True)
class Sharing:
    """Groups of fields, each with the number of the result that has them all, and of each result its view.

    `same` has fields that a group before has too, and which: groups of one column count the same values. Each needs its
    own in its tree, but for a slice they are one.
    """

    leaders: tuple[int, ...]
    views: tuple[View, ...]
    same: Mapping[Slot, Slot]

    @property
    def is_any(self) -> bool:
        """Whether a result has a field that another has too."""
        return len(self.leaders) < len(self.views) or bool(self.same)

    def select(self, of_results: Sequence[Item]) -> tuple[Item, ...]:
        """Of something for each result that for each group."""
        return tuple(of_results[leader] for leader in self.leaders)

    def kernels(self, of_results: Sequence[Kernel]) -> tuple[Kernel, ...]:
        """A kernel for each group, whose results are all results of it, one after another."""
        together = []
        for group, leader in enumerate(self.leaders):
            views = [
                (view.fields, own) for view, own in zip(self.views, of_results, strict=True) if view.group == group
            ]
            own = of_results[leader]
            together.append(own if len(views) == 1 else kernel(own.label, _grouped(own.aggregate, views)))
        return tuple(together)

    def partials(self, of_groups: Sequence[Partials]) -> list[Partials]:
        """The partials of each result, without a copy."""
        return [[of_groups[view.group][field] for field in view.fields] for view in self.views]


def sharing(kernels: Sequence[Kernel], trees: Sequence[str], arguments: Sequence[tuple[int, ...]]) -> Sharing:
    """Groups of these results, of which `arguments` says by columns and condition what they are of.

    `trees` has the tree of each, of family after family; the first one decides.

    A result that several groups have the fields of is of the first one, of those with its own tree if there are such.
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
    """Exact fields of one meaning: floats that are added up in other orders may differ in their last bits."""
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
    """The results that have all fields of a result, and more or before it."""
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
    """Return the identities of fields: their meanings and kinds, or names for results that share none."""
    meanings = each.aggregate.meanings or [field.name for field in each.fields]
    return [(meaning, field.kind) for meaning, field in zip(meanings, each.fields, strict=True)]


def _grouped(aggregate: Aggregate, views: Sequence[tuple[tuple[int, ...], Kernel]]) -> Aggregate:
    results = [field.kind for _, own in views for field in own.results]
    returns = ", ".join(f"r{number} {kind}" for number, kind in enumerate(results))
    lower = _Results(tuple((fields, own.aggregate) for fields, own in views))
    return replace(aggregate, lower=lower, returns=returns)


@dataclass(frozen=True)
class _Results:
    """The `lower` of a group: the results of all of its views."""

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
