"""The header of a bucket: the progress of its windows, and the directory of its pages."""

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
"""The format that is written. Since 7, pages and headers have a checksum; since 8, pages have a generation, and results
and families have an id."""
READABLE = "7 and 8"
Entry = list[int]
"""A page of a list: its number, its first slice, the end of its slices, its merge level, its generation."""
SlicePages = list[int]
"""A cut: its first slice and its end, relative to the slice group, its number of pages, their generation."""
PER_GROUP = "stripe"
"""The stored name, in the layout, of the number of slices per slice group."""
TTL, GRACE, KEY_TTL = "ttl", "grace", "key_ttl"
"""The names in `Header.parameters`: the `ttl=` of keys in milliseconds, None without one; the grace and the `key_ttl=`
of states of functions in microseconds.

Parameters may change on a live checkpoint. What a micro-batch has forgotten by the old value stays forgotten, and the
new value holds from the next one on. A parameter that is not stored, as in older checkpoints, counts as unchanged.
"""
SAME = " of result "
"""The text that marks a field as shared with another result. Such a field has no column of its own."""
Run = list[int]
"""Consecutive equal cuts: the first slice, slices per cut, pages per cut, number of cuts, generation."""


def to_runs(cuts: Iterable[SlicePages]) -> list[Run]:
    """Return cuts as the header stores them: as runs. There are few runs, as neighbouring cuts are mostly alike.

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
    """Return the cut that would continue a run: first slice, length, pages, generation."""
    first, length, pages, count, generation = run
    return [first + length * count, length, pages, generation]


def from_runs(runs: Iterable[Run]) -> list[SlicePages]:
    """Return the cuts of runs: the inverse of `to_runs`."""
    return [
        [at, at + length, pages, generation]
        for first, length, pages, count, generation in runs
        for at in range(first, first + length * count, length)
    ]


class SliceGroup:
    """The cut pages and the loose pages of one slice group.

    Most slice groups are read and written without a change, so runs are expanded to cuts only on access.
    """

    def __init__(
        self, cuts: list[SlicePages] | None = None, loose: list[Entry] | None = None, runs: Iterable[Run] = ()
    ):
        self.loose: list[Entry] = [] if loose is None else loose
        self._cuts, self._runs = cuts, list(runs)

    @property
    def cuts(self) -> list[SlicePages]:
        """Return the cuts in order, as a list that the caller may change."""
        if self._cuts is None:
            self._cuts = from_runs(self._runs)
        return self._cuts

    def runs(self) -> list[Run]:
        """Return the cuts as runs."""
        return self._runs if self._cuts is None else to_runs(self._cuts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SliceGroup) and (self.runs(), self.loose) == (other.runs(), other.loose)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"SliceGroup({self.cuts}, {self.loose})"


def alike_slice_groups(slice_groups: Mapping[int, SliceGroup]) -> list[list[Any]]:
    """Group the slice groups without loose pages that have the same cuts, for a shorter header.

    Each entry is `[runs, first, steps]`: the shared runs, the number of the first slice group, and the distances from
    one slice group to the next as `[distance, repetitions]`. A group has two members or more. Merged slices of a long
    window have few patterns, whatever its size.

    >>> cuts = [[0, 60, 1, 6, 0]]
    >>> one, other = SliceGroup(runs=cuts), SliceGroup()
    >>> alike_slice_groups({7: one, 8: one, 9: other, 11: one})
    [[[[0, 60, 1, 6, 0]], 7, [[1, 1], [3, 1]]]]
    """
    patterns: dict[str, list[int]] = {}
    for key in sorted(slice_groups):
        if not slice_groups[key].loose:
            patterns.setdefault(repr(slice_groups[key].runs()), []).append(key)
    return [
        [
            slice_groups[keys[0]].runs(),
            keys[0],
            [[step, len(list(of))] for step, of in groupby(map(sub, keys[1:], keys))],
        ]
        for keys in patterns.values()
        if len(keys) > 1
    ]


def keys_of_alike(first: int, steps: Iterable[Sequence[int]]) -> Iterator[int]:
    """Yield the numbers of the slice groups of an entry of `alike_slice_groups`.

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
    """The progress of one family. `trees` has the names of the trees of its cached nodes.

    `id` does not change when other families are added or removed; the names of the family's lists of pages begin with
    it. `spec` is read by `slicing.windows.specs.from_spec`.
    """

    next_to_fire: int = 0  # the next window to fire
    first_accepting: int = 0  # the first window that accepts records: `next_to_fire`, or earlier for late firings
    retained_from: int = 0  # the first window whose slices are all retained
    nodes: int | None = 0  # the next window that the cached nodes can assemble, None if there are no nodes
    trees: list[str] = field(default_factory=list)
    id: int = 0
    spec: list[Any] = field(default_factory=list)
    added: bool = False  # whether the family was added, and its first window is later than the open ones
    merged: int | None = None  # slices before this one may be merged across starts of these windows, None if none are
    apart: int | None = None  # slice groups from this slice on are not merged with the one before; None if all may be
    whole: int | None = None  # for older code: `retained_from` if the family `lacks` records, None if it does not

    def skip_until(self, window: int) -> None:
        """Skip the windows before `window`: they do not fire, and their slices are not retained."""
        self.next_to_fire = self.first_accepting = self.retained_from = window

    @property
    def lacks(self) -> bool:
        """Whether windows will fire that lack records, as rows of other windows do: those before `retained_from`."""
        return self.next_to_fire < self.retained_from


@dataclass
class Result:
    """The columns of one result in pages. The meaning of an `id` never changes, also if results are added or removed.

    `partial` has the name and the type of each field. `content` says which pages hold the fields: partials of slices,
    or, for an eager result, partials of windows. A field such as `n bigint of result 1` is shared: it has no column of
    its own, and the column of the result with that id is read.

    `since` and `origin` have an item for each field of a result that was added to an existing checkpoint; both are
    empty for a result that was there from the beginning. A window has all records of a field if it begins at `since`
    (microseconds) or later; None if all windows have. `origin` has the result id and the field index that older pages
    have for the field; None if they have none.
    """

    id: int
    columns: list[str | None]
    version: str
    partial: list[str]
    content: str
    since: list[int | None] = field(default_factory=list)
    origin: list[list[int] | None] = field(default_factory=list)
    code: str = ""  # the digest of a user's functions, see `slicing.aggregates.code_digest`
    filtered: bool | None = None  # whether the last column is a condition (`where=`); None if older code wrote it

    @property
    def fields(self) -> list[str]:
        """Return the name and the type of each field, also of shared fields."""
        return [each.partition(SAME)[0] for each in self.partial]

    def may_be(self, filtered: bool | None) -> bool:
        """Return whether the last column is a condition as `filtered` says; also if one of the two does not tell."""
        return None in (self.filtered, filtered) or self.filtered == filtered


@dataclass
class Header:
    """The directory of a bucket's pages, and the progress that the next micro-batch continues from; a few KB.

    `generations` maps the generation of pages to the ids of their results, in the order of their columns. New pages
    have the last generation. A field that a later version adds to a header, a family or a result has a default, and is
    written only if its value differs from it. Older code then refuses the field by name, and the format number stays.
    """

    keys: list[str]
    buckets: str
    results: list[Result]
    layout: dict[str, Any]
    families: list[FamilyState]
    generations: dict[int, list[int]] = field(default_factory=lambda: {0: []})
    watermark: int = 0  # microseconds, the last watermark that closed windows
    clock: int = 0  # microseconds, the processing time of the last micro-batch, if it is known
    tick: int | None = None  # the last watermark for which hooks were called, see `passed_watermark`
    newest: int | None = None  # the newest slice ever seen, None if no slice is left
    serial: int = 0  # the number of the next page
    revision: int = 0  # the number of micro-batches so far, if the output has the column `revision`
    nonce: str = ""  # the key of the entry in the bucket cache, see `bucket_cache`
    fresh: list[Entry] = field(default_factory=list)  # pages of slices that have not entered the trees
    slice_groups: dict[int, SliceGroup] = field(default_factory=dict)
    late: list[Entry] = field(default_factory=list)
    lists: dict[str, list[Entry]] = field(default_factory=dict)
    zones: dict[str, Part] = field(default_factory=dict)  # the time zone data of the slices, see `zone_tables`
    warm: int = 0  # microseconds, the end of the loaded history: windows that end by then are not emitted
    shipped: list[Any] = field(default_factory=list)  # the cut of the query, if the stored slices have more edges
    cut_since: int | None = None  # microseconds; later slices have all edges of `shipped`; None if all slices have
    trigger: list[str] = field(default_factory=list)  # the name of the trigger and the fields of its state, if known
    idle: list[int] = field(default_factory=list)  # milliseconds, of the last move of the watermark, see `lifecycle`
    entered: int | None = None  # the end of the slices that have entered, if it does not follow from the families
    merged: int | None = None  # slices before this one may be merged across ends of windows; None if none are
    alike: list[Any] = field(default_factory=list)  # slice groups with the same cuts; only in the stored text
    refused: int | None = None  # microseconds; records before it may be in no slice; only if slices are retained
    retained_since: int | None = None  # microseconds, the start of the retained slices, if no family tells it
    forgets: bool = False  # whether states of functions are forgotten with their keys, instead of by their last firing
    parameters: dict[str, int | None] = field(default_factory=dict)  # of the last micro-batch, see `TTL`
    untold: bool = False  # whether a loaded history is still to be emitted, by a trigger that emits what is stored

    @of_stage(ENCODE)
    def to_text(self) -> str:
        """Return the header as compressed JSON in base64, with its checksum."""
        values = {"format": FORMAT, **{_STORED_NAMES.get(name, name): value for name, value in vars(self).items()}}
        for name in _MILLISECONDS:
            values[name] //= 1000
        for name in _RECORDS:
            values[name] = [_without_defaults(each) for each in values[name]]
        values["alike"] = [] if self.merged is None else alike_slice_groups(self.slice_groups)
        together = {key for _, first, steps in values["alike"] for key in keys_of_alike(first, steps)}
        values["stripes"] = {
            key: [group.runs(), group.loose] for key, group in self.slice_groups.items() if key not in together
        }
        for name, nothing in _OPTIONAL.items():
            if values[name] == nothing:
                del values[name]
        return sealed(base64.b64encode(zlib.compress(_TO_JSON(values).encode(), 1)).decode("ascii"))

    @classmethod
    def from_text(cls, text: str) -> Header:
        """Return the header of a text: the inverse of `to_text`. A text of format 7 is converted.

        Raises StateMismatch for other formats, and for unknown or missing fields.
        """
        version, content = _read(text)
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
        slice_groups = {
            int(key): SliceGroup(None, loose, runs) for key, (runs, loose) in content.pop("stripes").items()
        }
        for runs, first, steps in content.pop("alike", ()):
            slice_groups |= {key: SliceGroup(runs=runs) for key in keys_of_alike(first, steps)}
        content["slice_groups"] = slice_groups
        return cls(**content)

    @property
    def generation(self) -> int:
        """Return the generation of new pages."""
        return max(self.generations)

    @property
    def identity(self) -> dict[str, Any]:
        """Return the identity of the state, in the form of `Fingerprint.identity`, without empty values."""
        places = {str(number): str(place) for place, number in enumerate(self.generations[self.generation], 1)}
        results = [
            {"columns": r.columns, "version": r.version, "partial": [_renamed(each, places) for each in r.partial]}
            for r in self.current
        ]
        found = {"keys": self.keys, "results": results, "buckets": canonical(self.buckets)}
        return {name: value for name, value in found.items() if value}

    @property
    def current(self) -> list[Result]:
        """Return the results of new pages, in order."""
        by_id = {result.id: result for result in self.results}
        return [by_id[number] for number in self.generations[self.generation]]

    def columns(self, generation: int, content: str) -> list[tuple[int, str]]:
        """Return the columns of pages that hold partials, in order: the id of the result, and the field.

        Some lists of pages have only some of these columns, or additional columns after them.
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
        """Return the item of `columns` that stores a field of a result in a generation; None if no column does.

        `number` is the id of the result, `place` the index of the field in its partial.
        """
        result = next(each for each in self.results if each.id == number)
        if number not in self.generations[generation]:
            origin = result.origin[place] if result.origin else None
            return None if origin is None else self.column(generation, *origin)
        name, same, other = result.partial[place].partition(SAME)
        return (int(other), name) if same else (number, name)

    @property
    def passed(self) -> int:
        """Return the later of the watermark and the end of the loaded history, in microseconds."""
        return max(self.watermark, self.warm)

    @property
    def all_merged(self) -> int | None:
        """Return the slice before which no slice will be merged any further for now; None if none is merged."""
        marks = [self.merged, *(family.merged for family in self.families)]
        return None if self.merged is None else min(mark for mark in marks if mark is not None)

    @property
    def specs(self) -> list[Any]:
        """Return the specs of the cuts and of the families."""
        return [self.layout.get("cut"), self.shipped, [family.spec for family in self.families]]

    @property
    def is_unused(self) -> bool:
        """Whether the bucket has no pages and has seen no watermark."""
        return not (self.fresh or self.slice_groups or self.late or self.lists or self.passed)

    def spans(self, first: int | None = None) -> Array:
        """Return the first slice and the end of every page of slices: `int64[n, 2]`. Cached nodes are left out.

        With `first`, slice groups that end at that slice or earlier are left out.
        """
        length = self.layout[PER_GROUP]
        groups = {key: each for key, each in self.slice_groups.items() if first is None or (key + 1) * length > first}
        entries = [*self.fresh, *self.late, *(entry for group in groups.values() for entry in group.loose)]
        runs = [[key * length + run[0], *run[1:]] for key, group in groups.items() for run in group.runs()]
        firsts, lengths, _, counts, _ = np.array(runs, np.int64).reshape(-1, 5).T
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.repeat(firsts, counts) + within * np.repeat(lengths, counts)
        cuts = np.column_stack([starts, starts + np.repeat(lengths, counts)])
        return np.concatenate([spans_of(entries), cuts])

    # Shortcuts for engines with a single family.

    @property
    def nodes(self) -> int | None:
        """Return the next window that the cached nodes can assemble, None if there are no nodes."""
        return self.families[0].nodes

    @nodes.setter
    def nodes(self, window: int | None) -> None:
        self.families[0].nodes = window


_TO_JSON = json.JSONEncoder(separators=(",", ":")).encode
_MILLISECONDS = ("watermark", "clock")
"""Fields that are stored in milliseconds, because Spark's watermark and clock have that precision."""
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
    "retained_since": None,
    "forgets": False,
    "parameters": {},
    "untold": False,
}
"""The defaults of optional fields: a field is stored only if its value differs."""
_OPTIONAL_WITHIN: dict[str, Any] = {
    "since": [],
    "origin": [],
    "code": "",
    "filtered": None,
    "added": False,
    "merged": None,
    "apart": None,
    "whole": None,
}
_STORED_NAMES = {
    "next_to_fire": "done",
    "first_accepting": "taking",
    "retained_from": "kept",
    "slice_groups": "stripes",
}
"""The stored names of fields that are called otherwise in the code; stored names never change."""
_SAID = object()
"""A default that no value equals, for the fields that are always stored."""
_NAMES = frozenset(_STORED_NAMES.get(each.name, each.name) for each in fields(Header))
"""The stored names of all fields."""


def _by_stored_name(kind: type[FamilyState | Result]) -> dict[str, str]:
    """Return the fields of a type by their stored names."""
    return {_STORED_NAMES.get(each.name, each.name): each.name for each in fields(kind)}


_RECORDS: dict[str, tuple[str, dict[str, str], Any]] = {
    "results": ("result in the header", _by_stored_name(Result), Result),
    "families": ("family in the header", _by_stored_name(FamilyState), FamilyState),
}
"""Fields that are lists of objects: the word for one in messages, its field names, its type."""


def known_since(result: Result, fields: Iterable[int] | None = None) -> int | None:
    """Return the microsecond from which on windows must begin to have all records of a result, or of some fields.

    None if all windows have them.
    """
    chosen = range(len(result.since)) if fields is None or not result.since else fields
    return max((at for place in chosen if (at := result.since[place]) is not None), default=None)


def _without_defaults(each: FamilyState | Result) -> dict[str, Any]:
    """The fields of a value by their stored names, without those that have their default."""
    said = ((name, value) for name, value in vars(each).items() if value != _OPTIONAL_WITHIN.get(name, _SAID))
    return {_STORED_NAMES.get(name, name): value for name, value in said}


def _renamed(field: str, places: dict[str, str]) -> str:
    """Return a field of a result; a shared field refers to the other result by its position, not by its id."""
    name, same, other = field.partition(SAME)
    return f"{name}{same}{places[other]}" if same else field


def _read(text: str) -> tuple[Any, Any]:
    """Return the format number and the content of a stored header. Formats before 7 may be lists."""
    content = json.loads(zlib.decompress(base64.b64decode(unsealed(text) if is_sealed(text) else text)))
    return content[0] if isinstance(content, list) else content.pop("format"), content


def stored_format(text: str) -> int:
    """Return the number of the format in which a header is stored, also of one that this version cannot read."""
    return int(_read(text)[0])


RESTORE = "The checkpoint is damaged: restore a copy of it, or start with a new one."


def spans_of(entries: Sequence[Entry]) -> Array:
    """Return the first slice and the end of each page of a list: `int64[n, 2]`."""
    return np.array(entries, np.int64).reshape(-1, 5)[:, 1:3]


def covered(spans: Array) -> int:
    """Return the number of slices that at least one of the spans covers.

    `spans` is `int64[n, 2]`, the first slice and the end of each.
    """
    firsts, ends = spans[np.argsort(spans[:, 0])].T
    seen = np.maximum.accumulate(ends)
    firsts[1:] = np.maximum(firsts[1:], seen[:-1])
    return int(np.maximum(ends - firsts, 0).sum())
