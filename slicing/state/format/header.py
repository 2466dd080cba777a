"""The header of a bucket: marks, and the directory that finds its pages."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.packing import is_sealed, sealed, unsealed
from slicing.errors import StateMismatch
from slicing.profiling import ENCODE, of_stage
from slicing.state.format.zone_tables import Part

FORMAT = 7
OLDER = (4, 5, 6)
"""A suffix of a three-layer tree that is missing has no records in 4, and must be made from 5 on; made, it has none in
4. Slices are cut before they enter from 6 on, where 5 would not look for them. Pages carry a checksum from 7 on."""
READABLE = f"{OLDER[0]} to {FORMAT}"
Entry = list[int]
"""A page of a list: its number, its first slice, the end of its slices, how often it was merged."""
SlicePages = list[int]
"""Pages of slices of a stripe: the first slice and the end within the stripe, and how many pages."""
Run = list[int]
"""Cuts that follow each other: the first slice, slices and pages of each, how many."""


def to_runs(cuts: Iterable[SlicePages]) -> list[Run]:
    """Cuts as the header stores them: few runs, as neighbours are mostly alike.

    >>> to_runs([[0, 1, 1], [1, 2, 1], [2, 3, 1], [5, 9, 2]])
    [[0, 1, 1, 3], [5, 4, 2, 1]]
    """
    runs: list[Run] = []
    for first, end, pages in cuts:
        if runs and [first, end - first, pages] == [runs[-1][0] + runs[-1][1] * runs[-1][3], *runs[-1][1:3]]:
            runs[-1][3] += 1
        else:
            runs.append([first, end - first, pages, 1])
    return runs


def from_runs(runs: Iterable[Run]) -> list[SlicePages]:
    """The inverse of `to_runs`."""
    return [
        [at, at + length, pages]
        for first, length, pages, count in runs
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


@dataclass
class Walk:
    """How far the windows of one family are. `trees` are those that its cached nodes are of."""

    done: int = 0  # first window that has not gone out
    taking: int = 0  # first window that takes records: `done`, or one before it while windows are corrected
    kept: int = 0  # first window of which all slices are there
    nodes: int | None = 0  # the window before which the trees' nodes are, None if there are none
    trees: list[str] = field(default_factory=list)


@dataclass
class Header:
    """The directory of a bucket's pages, and what the next micro-batch must know; a few KB."""

    identity: dict[str, Any]
    layout: dict[str, Any]
    families: list[Walk]
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

    @of_stage(ENCODE)
    def to_text(self) -> str:
        """The header as compressed JSON in base64, with its checksum."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values |= {name: values[name] // 1000 for name in _MILLISECONDS}
        values["families"] = [vars(walk) for walk in self.families]
        if not self.zones:
            del values["zones"]  # as all headers were before there was such a field
        values["stripes"] = {str(key): [stripe.runs(), stripe.loose] for key, stripe in self.stripes.items()}
        content = json.dumps({"format": FORMAT, **values}, separators=(",", ":"))
        return sealed(base64.b64encode(zlib.compress(content.encode(), 1)).decode("ascii"))

    @classmethod
    def from_text(cls, text: str) -> Header | OldHeader:
        """The inverse of `to_text`. Raises StateMismatch for another format, or fields that it does not have."""
        content = json.loads(zlib.decompress(base64.b64decode(unsealed(text) if is_sealed(text) else text)))
        if isinstance(content, list):
            return OldHeader(content)
        version = content.pop("format")
        _check_format(version, (FORMAT,))
        content.setdefault("zones", {})
        _check_names("header", content, [each.name for each in fields(cls)])
        values = dict(content)
        for walk in values["families"]:
            _check_names("family in the header", walk, [each.name for each in fields(Walk)])
        values |= {name: values[name] * 1000 for name in _MILLISECONDS}
        values["families"] = [Walk(**walk) for walk in values["families"]]
        values["stripes"] = {
            int(key): Stripe(loose=loose, runs=runs) for key, (runs, loose) in values["stripes"].items()
        }
        return cls(**values)

    @property
    def is_empty(self) -> bool:
        """Whether there are no pages."""
        return not (self.fresh or self.stripes or self.late or self.lists)

    def spans(self) -> Array:
        """First slice and end of every page of slices, a row each; cached nodes are none."""
        length = self.layout["stripe"]
        entries = [*self.fresh, *self.late, *(entry for stripe in self.stripes.values() for entry in stripe.loose)]
        runs = [[key * length + run[0], *run[1:]] for key, stripe in self.stripes.items() for run in stripe.runs()]
        firsts, lengths, _, counts = np.array(runs, np.int64).reshape(-1, 4).T
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.repeat(firsts, counts) + within * np.repeat(lengths, counts)
        cuts = np.column_stack([starts, starts + np.repeat(lengths, counts)])
        return np.concatenate([np.array(entries, np.int64).reshape(-1, 4)[:, 1:3], cuts])

    # Of the only family, for engines that have one.

    @property
    def done(self) -> int:
        """First window that has not gone out."""
        return self.families[0].done

    @done.setter
    def done(self, window: int) -> None:
        self.families[0].done = window

    @property
    def taking(self) -> int:
        """First window that takes records."""
        return self.families[0].taking

    @taking.setter
    def taking(self, window: int) -> None:
        self.families[0].taking = window

    @property
    def kept(self) -> int:
        """First window of which all slices are there."""
        return self.families[0].kept

    @kept.setter
    def kept(self, window: int) -> None:
        self.families[0].kept = window

    @property
    def nodes(self) -> int | None:
        """The window before which the trees' nodes are, None if there are none."""
        return self.families[0].nodes

    @nodes.setter
    def nodes(self, window: int | None) -> None:
        self.families[0].nodes = window


_MILLISECONDS = ("watermark", "clock")
"""Fields that are stored in milliseconds, as Spark counts them."""


class OldHeader:
    """A header of formats 4 to 6: values by position, of one family.

    `fingerprint` is what they had in place of identity and layout. Raises StateMismatch for another format.
    """

    def __init__(self, content: list[Any]):
        version, *values = content
        _check_format(version, OLDER)
        named = dict(zip(_POSITIONS, values, strict=True))
        self.fingerprint: dict[str, str] = named.pop("fingerprint")
        named |= {name: named[name] * 1000 for name in _MILLISECONDS}
        stripes = {int(key): Stripe(*stripe) for key, stripe in named.pop("stripes").items()}
        walk = Walk(**{name: named.pop(name) for name in ("done", "taking", "kept", "nodes")})
        self._rest = {**named, "families": [walk], "stripes": stripes}

    def renewed(self, identity: dict[str, Any], layout: dict[str, Any], trees: list[str]) -> Header:
        """The same as a header of today's format."""
        head = Header(identity, layout, **self._rest)
        head.families[0].trees = trees
        return head


_POSITIONS = (
    *("fingerprint", "watermark", "done", "taking", "kept", "nodes", "newest", "serial", "fresh", "stripes", "late"),
    *("lists", "revision", "nonce", "clock", "tick"),
)
"""The fields of formats 4 to 6 in their order."""


def _check_format(version: object, known: tuple[int, ...]) -> None:
    if version not in known:
        raise StateMismatch(
            f"the checkpoint has state of format {version}, this version reads formats {READABLE}. "
            "Start with a new checkpoint, or go back to the version that wrote it."
        )


def _check_names(what: str, found: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse fields that another version of the same format has, or does not have."""
    names = set(known)
    faults = [f"it has `{name}`, which is not known" for name in sorted(found.keys() - names)]
    faults += [f"it does not have `{name}`" for name in sorted(names - found.keys())]
    if faults:
        raise StateMismatch(
            f"the {what} of the checkpoint is not one of format {FORMAT} as this version has it: {'; '.join(faults)}. "
            "Go on with the version that wrote it, or start with a new checkpoint."
        )


RESTORE = "The checkpoint is damaged: restore a copy of it, or start with a new one."


def covered(spans: Array) -> int:
    """How many slices lie in one of the spans at least, a span being a row of its first slice and its end."""
    firsts, ends = spans[np.argsort(spans[:, 0])].T
    seen = np.maximum.accumulate(ends)
    firsts[1:] = np.maximum(firsts[1:], seen[:-1])
    return int(np.maximum(ends - firsts, 0).sum())
