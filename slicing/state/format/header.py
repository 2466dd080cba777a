"""The header of a bucket: marks, and the directory that finds its pages."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby
from operator import sub
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.packing import is_sealed, sealed, unsealed
from slicing.errors import StateMismatch
from slicing.profiling import ENCODE, of_stage
from slicing.state.format import format7
from slicing.state.format.buckets import canonical
from slicing.state.format.names import check_names
from slicing.state.format.zone_tables import Part

FORMAT = 8
"""Pages have a generation, results and families an id, from 8 on; pages and headers a checksum from 7 on."""
READABLE = "7 and 8"
Entry = list[int]
"""A page of a list: its number, its first slice, the end of its slices, how often it was merged, its generation."""
SlicePages = list[int]
"""Pages of slices of a stripe: the first slice and the end within the stripe, how many pages, their generation."""
SAME = " of result "
"""What a field of another result is told by, which is no column."""
Run = list[int]
"""Cuts that follow each other: the first slice, slices and pages of each, how many, the generation of all."""


def to_runs(cuts: Iterable[SlicePages]) -> list[Run]:
    """Cuts as the header stores them: few runs, as neighbours are mostly alike.

    >>> to_runs([[0, 1, 1, 0], [1, 2, 1, 0], [2, 3, 1, 0], [5, 9, 2, 0], [9, 13, 2, 1]])
    [[0, 1, 1, 3, 0], [5, 4, 2, 1, 0], [9, 4, 2, 1, 1]]
    """
    runs: list[Run] = []
    for first, end, pages, generation in cuts:
        if runs and [first, end - first, pages, generation] == _following(runs[-1]):
            runs[-1][3] += 1
        else:
            runs.append([first, end - first, pages, 1, generation])
    return runs


def _following(run: Run) -> list[int]:
    """The first slice, the length, the pages and the generation of a cut that would belong to a run."""
    first, length, pages, count, generation = run
    return [first + length * count, length, pages, generation]


def from_runs(runs: Iterable[Run]) -> list[SlicePages]:
    """The inverse of `to_runs`."""
    return [
        [at, at + length, pages, generation]
        for first, length, pages, count, generation in runs
        for at in range(first, first + length * count, length)
    ]


class Stripe:
    """Pages of the entered slices of one stripe: cut ones, and loose ones.

    Most stripes are read and written as they are: their runs become cuts only where somebody asks for these.
    """

    def __init__(
        self, cuts: list[SlicePages] | None = None, loose: list[Entry] | None = None, runs: Iterable[Run] = ()
    ):
        self.loose: list[Entry] = [] if loose is None else loose
        self._cuts, self._runs = cuts, list(runs)

    @property
    def cuts(self) -> list[SlicePages]:
        """The cuts, in order, as a list that may be changed."""
        if self._cuts is None:
            self._cuts = from_runs(self._runs)
        return self._cuts

    def runs(self) -> list[Run]:
        """The cuts in runs."""
        return self._runs if self._cuts is None else to_runs(self._cuts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stripe) and (self.runs(), self.loose) == (other.runs(), other.loose)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Stripe({self.cuts}, {self.loose})"


def alike_stripes(stripes: Mapping[int, Stripe]) -> list[list[Any]]:
    """Two and more stripes that have the same cuts alone: their runs, the first one, and the steps between them.

    A step is followed by how often it comes. Merged slices of a long window are in a few patterns, whatever its size.

    >>> cuts = [[0, 60, 1, 6, 0]]
    >>> alike_stripes({7: Stripe(runs=cuts), 8: Stripe(runs=cuts), 9: Stripe(), 11: Stripe(runs=cuts)})
    [[[[0, 60, 1, 6, 0]], 7, [[1, 1], [3, 1]]]]
    """
    patterns: dict[str, list[int]] = {}
    for key in sorted(stripes):
        if not stripes[key].loose:
            patterns.setdefault(repr(stripes[key].runs()), []).append(key)
    return [
        [stripes[keys[0]].runs(), keys[0], [[step, len(list(of))] for step, of in groupby(map(sub, keys[1:], keys))]]
        for keys in patterns.values()
        if len(keys) > 1
    ]


def keys_of_alike(first: int, steps: Iterable[Sequence[int]]) -> Iterator[int]:
    """The stripes of an entry of `alike_stripes`.

    >>> list(keys_of_alike(7, [[1, 1], [3, 2]]))
    [7, 8, 11, 14]
    """
    yield first
    for step, count in steps:
        for _ in range(count):
            first += step
            yield first


@dataclass
class FamilyState:
    """The progress of the windows of one family. `trees` are those that its cached nodes are of.

    `id` stays while other families come and go, and begins the names of the family's lists of pages; `spec` is what
    `slicing.windows.specs.from_spec` reads.
    """

    next_to_fire: int = 0  # first window that has not fired
    first_accepting: int = 0  # first window that accepts records: `next_to_fire`, or an earlier one for late firings
    retained_from: int = 0  # first window of which all slices are there
    nodes: int | None = 0  # the window before which the trees' nodes are, None if there are none
    trees: list[str] = field(default_factory=list)
    id: int = 0
    spec: list[Any] = field(default_factory=list)
    added: bool = False  # whether the family is new here, and its first window is not among the open ones yet
    merged: int | None = None  # the slice before which slices may hold starts of these windows inside, None for none
    whole: int | None = None  # in wide rows: the window before which windows may lack records, None if none do


@dataclass
class Result:
    """What pages hold of one result. `id` stays while other results come and go; what it is of never changes.

    `partial` has the name and the type of each column, `content` says in which pages they are: partials of slices, or,
    of an eager result, those of windows. A field of another result with the same values, as `n bigint of result 1`, is
    no column: the one of the result with that id is read.

    A result that was added to a checkpoint says by field what is known: `since` has the microsecond from which on
    windows must begin to hold all records, None where all of them do, and `origin` the id and the field of the result
    that pages from before have in its place, None where they have none. Both are empty where all was there from the
    beginning.
    """

    id: int
    columns: list[str | None]
    version: str
    partial: list[str]
    content: str
    since: list[int | None] = field(default_factory=list)
    origin: list[list[int] | None] = field(default_factory=list)
    code: str = ""  # the digest of a user's functions, see `slicing.aggregates.code_digest`

    @property
    def fields(self) -> list[str]:
        """Name and type of each field, whatever stores it."""
        return [each.partition(SAME)[0] for each in self.partial]


@dataclass
class Header:
    """The directory of a bucket's pages, and what the next micro-batch must know; a few KB.

    `generations` has the ids of the results, in the order of their columns, by the generation of the pages. Pages are
    written in the last one. A field that is added to a header, a family or a result has a default, and is written only
    where it says something else: then older code refuses it by name, and the format stays.
    """

    keys: list[str]
    buckets: str
    results: list[Result]
    layout: dict[str, Any]
    families: list[FamilyState]
    generations: dict[int, list[int]] = field(default_factory=lambda: {0: []})
    watermark: int = 0  # microseconds, the last one that closed windows
    clock: int = 0  # microseconds, the last trigger's time, where that is known
    tick: int | None = None  # the last tick, None before the first micro-batch
    newest: int | None = None  # newest slice ever seen, None when nothing is left
    serial: int = 0  # number of the next page
    revision: int = 0  # micro-batches so far, where results carry it
    nonce: str = ""  # of what a worker process may have kept, see `recent`
    fresh: list[Entry] = field(default_factory=list)
    stripes: dict[int, Stripe] = field(default_factory=dict)
    late: list[Entry] = field(default_factory=list)
    lists: dict[str, list[Entry]] = field(default_factory=dict)
    zones: dict[str, Part] = field(default_factory=dict)  # what the slices were cut by, see `zone_tables`
    warm: int = 0  # microseconds, the end of the history that was loaded: no window that ends by then is emitted
    shipped: list[Any] = field(default_factory=list)  # the cut of the query, if the slices here have more edges
    cut_since: int | None = None  # microseconds, from which on slices have all edges of `shipped`, None for all slices
    trigger: list[str] = field(default_factory=list)  # the name of a user's trigger, and the fields of its state
    idle: list[int] = field(default_factory=list)  # milliseconds, the clock and the watermark since which nothing came
    entered: int | None = None  # the end of the slices that have entered, where the families do not tell it
    merged: int | None = None  # the slice before which slices may hold ends of windows inside, None for none
    alike: list[Any] = field(default_factory=list)  # in the text only: stripes with the same cuts
    refused: int | None = None  # microseconds, before which records may be in no slice, while slices are retained

    @of_stage(ENCODE)
    def to_text(self) -> str:
        """The header as compressed JSON in base64, with its checksum."""
        values = {"format": FORMAT, **vars(self)}
        for name in _MILLISECONDS:
            values[name] //= 1000
        for name in _RECORDS:
            values[name] = [_without_defaults(each) for each in values[name]]
        values["alike"] = [] if self.merged is None else alike_stripes(self.stripes)
        together = {key for _, first, steps in values["alike"] for key in keys_of_alike(first, steps)}
        values["stripes"] = {
            key: [stripe.runs(), stripe.loose] for key, stripe in self.stripes.items() if key not in together
        }
        for name, nothing in _OPTIONAL.items():
            if values[name] == nothing:
                del values[name]
        return sealed(base64.b64encode(zlib.compress(_TO_JSON(values).encode(), 1)).decode("ascii"))

    @classmethod
    def from_text(cls, text: str) -> Header:
        """The inverse of `to_text`; one of format 7 is as if it had been written in this format.

        Raises StateMismatch for another format, or fields that it does not have.
        """
        content = json.loads(zlib.decompress(base64.b64decode(unsealed(text) if is_sealed(text) else text)))
        version = content[0] if isinstance(content, list) else content.pop("format")
        if version == format7.FORMAT:
            content = format7.renewed(content)
        elif version != FORMAT:
            raise StateMismatch(
                f"the checkpoint has state of format {version}, this version reads formats {READABLE}. "
                "Start with a new checkpoint, or go back to the version that wrote it."
            )
        check_names("header", FORMAT, content, _NAMES, _OPTIONAL)
        for name, (what, names, made) in _RECORDS.items():
            for each in content[name]:
                check_names(what, FORMAT, each, names.keys(), _OPTIONAL_WITHIN)
            content[name] = [made(**{names[stored]: value for stored, value in each.items()}) for each in content[name]]
        for name in _MILLISECONDS:
            content[name] *= 1000
        content["generations"] = {int(number): ids for number, ids in content["generations"].items()}
        stripes = {int(key): Stripe(None, loose, runs) for key, (runs, loose) in content["stripes"].items()}
        for runs, first, steps in content.pop("alike", ()):
            stripes |= {key: Stripe(runs=runs) for key in keys_of_alike(first, steps)}
        content["stripes"] = stripes
        return cls(**content)

    @property
    def generation(self) -> int:
        """The generation of the pages that are written now."""
        return max(self.generations)

    @property
    def identity(self) -> dict[str, Any]:
        """What state is of, as a `Fingerprint` has it; without what is not said."""
        places = {str(number): str(place) for place, number in enumerate(self.generations[self.generation], 1)}
        results = [
            {"columns": r.columns, "version": r.version, "partial": [_renamed(each, places) for each in r.partial]}
            for r in self.current
        ]
        found = {"keys": self.keys, "results": results, "buckets": canonical(self.buckets)}
        return {name: value for name, value in found.items() if value}

    @property
    def current(self) -> list[Result]:
        """The results that are written now, in their order."""
        by_id = {result.id: result for result in self.results}
        return [by_id[number] for number in self.generations[self.generation]]

    def columns(self, generation: int, content: str) -> list[tuple[int, str]]:
        """Return the columns of pages that hold partials: ids of results, and the name and type of each, in order.

        Some lists of pages have those of some results only, or columns of their own behind them.
        """
        by_id = {result.id: result for result in self.results}
        results = [by_id[number] for number in self.generations[generation]]
        return [
            (result.id, field)
            for result in results
            for field in result.partial
            if result.content == content and SAME not in field
        ]

    def column(self, generation: int, number: int, place: int) -> tuple[int, str] | None:
        """Return which of `columns` has a field of a result in pages of a generation; None if they have no such field.

        `number` is the id of the result, and `place` that of the field in its partial.
        """
        result = next(each for each in self.results if each.id == number)
        if number not in self.generations[generation]:
            origin = result.origin[place] if result.origin else None
            return None if origin is None else self.column(generation, *origin)
        name, same, other = result.partial[place].partition(SAME)
        return (int(other), name) if same else (number, name)

    @property
    def passed(self) -> int:
        """The instant by which windows have been passed: that of the watermark, or the end of a history."""
        return max(self.watermark, self.warm)

    @property
    def all_merged(self) -> int | None:
        """The slice before which slices are merged as far as windows allow it until now; None if none are."""
        marks = [self.merged, *(family.merged for family in self.families)]
        return None if self.merged is None else min(mark for mark in marks if mark is not None)

    @property
    def is_unused(self) -> bool:
        """Whether there are no pages and no watermark has come yet."""
        return not (self.fresh or self.stripes or self.late or self.lists or self.passed)

    def spans(self, first: int | None = None) -> Array:
        """First slice and end of every page of slices, a row each; cached nodes are none.

        Stripes that end before slice `first` may be left out.
        """
        length = self.layout["stripe"]
        stripes = {key: each for key, each in self.stripes.items() if first is None or (key + 1) * length > first}
        entries = [*self.fresh, *self.late, *(entry for stripe in stripes.values() for entry in stripe.loose)]
        runs = [[key * length + run[0], *run[1:]] for key, stripe in stripes.items() for run in stripe.runs()]
        firsts, lengths, _, counts, _ = np.array(runs, np.int64).reshape(-1, 5).T
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.repeat(firsts, counts) + within * np.repeat(lengths, counts)
        cuts = np.column_stack([starts, starts + np.repeat(lengths, counts)])
        return np.concatenate([np.array(entries, np.int64).reshape(-1, 5)[:, 1:3], cuts])

    # Of the only family, for engines that have one.

    @property
    def next_to_fire(self) -> int:
        """First window that has not fired."""
        return self.families[0].next_to_fire

    @next_to_fire.setter
    def next_to_fire(self, window: int) -> None:
        self.families[0].next_to_fire = window

    @property
    def first_accepting(self) -> int:
        """First window that accepts records."""
        return self.families[0].first_accepting

    @first_accepting.setter
    def first_accepting(self, window: int) -> None:
        self.families[0].first_accepting = window

    @property
    def retained_from(self) -> int:
        """First window of which all slices are there."""
        return self.families[0].retained_from

    @retained_from.setter
    def retained_from(self, window: int) -> None:
        self.families[0].retained_from = window

    @property
    def nodes(self) -> int | None:
        """The window before which the trees' nodes are, None if there are none."""
        return self.families[0].nodes

    @nodes.setter
    def nodes(self, window: int | None) -> None:
        self.families[0].nodes = window


_TO_JSON = json.JSONEncoder(separators=(",", ":")).encode
_MILLISECONDS = ("watermark", "clock")
"""Fields that are stored in milliseconds, as Spark counts them."""
_OPTIONAL = {
    "zones": {},
    "warm": 0,
    "shipped": [],
    "cut_since": None,
    "trigger": [],
    "idle": [],
    "entered": None,
    "merged": None,
    "alike": [],
    "refused": None,
}
"""Fields that are stored only where they say something else than this."""
_OPTIONAL_WITHIN = {"since": [], "origin": [], "code": "", "added": False, "merged": None, "whole": None}
_STORED_NAMES = {"next_to_fire": "done", "first_accepting": "taking", "retained_from": "kept"}
"""The stored names of fields of families that are called otherwise in the code; stored names never change."""
_SAID = object()
"""What no field says, as the default of those that are always stored."""
_NAMES = frozenset(each.name for each in fields(Header))
"""The stored names of all fields."""


def _by_stored_name(kind: type[FamilyState | Result]) -> dict[str, str]:
    """Return the fields of a type by their stored names."""
    return {_STORED_NAMES.get(each.name, each.name): each.name for each in fields(kind)}


_RECORDS: dict[str, tuple[str, dict[str, str], Any]] = {
    "results": ("result in the header", _by_stored_name(Result), Result),
    "families": ("family in the header", _by_stored_name(FamilyState), FamilyState),
}
"""Fields that are lists of values with names: what messages call one, its fields by stored names, and its type."""


def known_since(result: Result, fields: Iterable[int] | None = None) -> int | None:
    """Return the instant from which on windows must begin to have some fields of a result; None if all windows have."""
    chosen = range(len(result.since)) if fields is None or not result.since else fields
    return max((at for place in chosen if (at := result.since[place]) is not None), default=None)


def _without_defaults(each: FamilyState | Result) -> dict[str, Any]:
    """The fields of a value by their stored names, without those that have their default."""
    said = ((name, value) for name, value in vars(each).items() if value != _OPTIONAL_WITHIN.get(name, _SAID))
    return {_STORED_NAMES.get(name, name): value for name, value in said}


def _renamed(field: str, places: dict[str, str]) -> str:
    """A field of a result, of which another one is told by its place in place of its id."""
    name, same, other = field.partition(SAME)
    return f"{name}{same}{places[other]}" if same else field


RESTORE = "The checkpoint is damaged: restore a copy of it, or start with a new one."


def covered(spans: Array) -> int:
    """How many slices lie in one of the spans at least, a span being a row of its first slice and its end."""
    firsts, ends = spans[np.argsort(spans[:, 0])].T
    seen = np.maximum.accumulate(ends)
    firsts[1:] = np.maximum(firsts[1:], seen[:-1])
    return int(np.maximum(ends - firsts, 0).sum())
