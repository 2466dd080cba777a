"""The fingerprint of a query: everything that its state depends on. A query that differs is refused with the reason.

The *identity* is the meaning of the state: keys, buckets, and of each result its columns, its partial and the `version`
of its aggregate. It must be equal. The *layout* is the form of the state: cut, families of windows, content and time.
Trees are in neither, because nodes are caches: nodes of other trees are dropped. Functions are in neither, because
neither the name nor the text of a function says reliably what it computes. The digest of their code is stored with each
result; a difference is reported, but refuses nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slicing.content.block import Shape
from slicing.errors import StateMismatch
from slicing.state.format.buckets import canonical
from slicing.state.format.column_texts import renumbered
from slicing.state.format.format7 import contents_of
from slicing.state.format.header import PER_GROUP, FamilyState, Header, Result
from slicing.state.format.result_texts import result_text, texts
from slicing.state.format.zone_tables import (
    MARGIN,
    Part,
    counted_once,
    difference,
    digests,
    once,
    other_number,
    renewed,
    twice,
    zones_of,
)
from slicing.windows.families.even import Even
from slicing.windows.families.family import Family
from slicing.windows.families.several import Several
from slicing.windows.specs import Given, from_spec, short, windows_text
from slicing.windows.time.clocks import SECOND
from slicing.windows.time.cut import Cut
from slicing.windows.time.durations import show_instant
from slicing.windows.time.local import Local
from slicing.windows.time.zones import Zone

PARTIALS, WINDOWS = "partials", "windows"
"""The contents of pages: partials of slices, or, for an eager result, partials of windows."""

CUT = "cut"
REFUSE, ALLOW = ADAPTS = ("refuse", "allow")
"""The ways to treat a checkpoint that differs from the query: refuse it, or adapt it if possible."""

_TIME_COLUMN = "time column"
_STATES = "states"
_BUCKETS = "buckets"
_WAY_OUT = "Continue with the data from then, for example by the version of the package tzdata from then,"
_LOG = logging.getLogger("slicing")


@dataclass(frozen=True)
class Fingerprint:
    """Identity and layout of a query, as JSON values.

    `zones` are the time zones of the windows. `cut` is the full spec of a cut with time zones, if `layout` has only its
    digest. The other fields are not compared; they serve checkpoints that differ from the query. `adapt` says whether
    to continue with such a checkpoint, and `fixed` has the reasons for which some changes are refused. `family` has the
    windows, `names` has the names of the results, and `labels` says of what they are, as "mean of bid"; `calls` are the
    windows as the user wrote them, by family. For each result, `shares` says whether other results may share
    its fields, `filtered` whether its last column is a condition, and `codes` has the digest of its functions. `retain`
    is the time in microseconds for which slices stay after the watermark although no window needs them. `trigger` is
    the name of the trigger and the fields of its state, as `Trigger.stored`.
    """

    identity: Mapping[str, Any] = field(default_factory=dict)
    layout: Mapping[str, Any] = field(default_factory=dict)
    zones: tuple[Zone, ...] = ()
    cut: list[Any] | None = None
    adapt: str = field(default=REFUSE, compare=False)
    fixed: Mapping[str, str] = field(default_factory=dict, compare=False)
    family: Family | None = field(default=None, compare=False)
    names: tuple[str, ...] = field(default=(), compare=False)
    labels: tuple[str, ...] = field(default=(), compare=False)
    calls: tuple[str, ...] = field(default=(), compare=False)
    shares: tuple[bool, ...] = field(default=(), compare=False)
    filtered: tuple[bool, ...] = field(default=(), compare=False)
    codes: tuple[str, ...] = field(default=(), compare=False)
    retain: int = field(default=0, compare=False)
    trigger: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if _BUCKETS in self.identity:
            buckets = canonical(self.identity[_BUCKETS])
            object.__setattr__(self, "identity", {**self.identity, _BUCKETS: buckets})

    @property
    def members(self) -> tuple[Family, ...]:
        """Return the families, each over its own cut."""
        assert self.family is not None, "a query has windows"
        return _members(self.family)

    @property
    def cut_of(self) -> Cut:
        """Return the cut of the query."""
        assert self.family is not None, "a query has windows"
        return self.family.cut

    def said(self, result: Result, place: int) -> str:
        """Return a wanted result, at a place, by its name and what it is of."""
        return f"{self.names[place]} ({self.labels[place] if place < len(self.labels) else result_text(result)})"

    def windows_said(self, spec: Sequence[Any]) -> str:
        """Return the windows of a spec as the user wrote them, or, if the query has none of this spec, by the spec."""
        own = dict(zip(map(str, self.layout.get("families", ())), self.calls, strict=False))
        return own.get(str(spec)) or windows_text(spec)

    @property
    def results(self) -> list[Result]:
        """Return the results for a new header."""
        given = self.identity.get("results", ())
        contents = contents_of(self.layout.get("content", ""), len(given))
        codes, filtered = self.codes or [""] * len(given), self.filtered or [None] * len(given)
        parts = enumerate(zip(given, contents, codes, filtered, strict=True), 1)
        return [
            Result(number, each["columns"], each["version"], each["partial"], held, code=code, filtered=condition)
            for number, (each, held, code, condition) in parts
        ]

    def header(self, next_to_fire: Sequence[int]) -> Header:
        """Return the header of a new bucket; `next_to_fire` has the next window to fire of each family."""
        layout = dict(self.layout)
        specs = layout.pop("families", [[] for _ in next_to_fire])
        layout.pop("content", "")
        results = self.results
        families = [
            FamilyState(window, window, window, window, id=number, spec=spec)
            for number, (window, spec) in enumerate(zip(next_to_fire, specs, strict=True))
        ]
        ids = {0: [result.id for result in results]}
        return Header(
            self.identity.get("keys", []), self.identity.get("buckets", ""), results, layout, families, generations=ids
        )

    def header_of(self, stored: Header) -> Header:
        """Return the stored header if it fits the query. Raises StateMismatch with every difference otherwise."""
        if different := self.differences(stored):
            raise mismatch(different)
        return stored

    def differences(self, stored: Header) -> list[str]:
        """Return the differences from a stored header, each with both values.

        A missing time column, changed time zone data and the edges of a repeated hour are updated in the stored header.
        """
        if _TIME_COLUMN in self.layout:
            # Checkpoints of version 0.1 do not have the time column; this start adds it.
            stored.layout.setdefault(_TIME_COLUMN, self.layout[_TIME_COLUMN])
        if self.zones:
            self._renew_zones(stored)
            self._renew_clocks(stored)
        identity, layout = stored.identity, layout_of(stored)
        if identity == self.identity and layout == self.layout:
            return self._conditions(stored)
        held, query = flat(stored, self)
        return [
            f"{name}: checkpoint `{held.get(name, 'none')}`, query `{query.get(name, 'none')}`"
            for name in sorted({*held, *query})
            if held.get(name) != query.get(name)
        ]

    def _conditions(self, stored: Header) -> list[str]:
        """Return the results whose last column is a condition in the checkpoint or in the query, but not in both."""
        pairs = enumerate(zip(stored.current, self.filtered, strict=bool(self.filtered)), 1)
        return [
            f"where of result {number}: checkpoint `{_condition(held, held.filtered)}`, "
            f"query `{_condition(held, filtered)}`"
            for number, (held, filtered) in pairs
            if not held.may_be(filtered)
        ]

    def _renew_zones(self, stored: Header) -> None:
        """Replace changed time zone data in a stored header, if the stored slices would be the same by the new data.

        Raises StateMismatch if they would differ, or if the header does not have the data to compare.
        """
        known = dict(digests(stored.specs))
        changed = [zone for zone in self.zones if known.get(zone.name, zone.digest) != zone.digest]
        for zone in changed:
            _check_zone(zone, stored)
        for spec in () if self.cut is None else (self.cut, once(self.cut)):
            if stored.layout.get(CUT) == short(renewed(spec, known)):
                stored.layout[CUT] = short(spec)
        for zone in changed:
            _LOG.warning("the time zone data of %s have changed; windows to come go by the new ones", zone.name)
            new = {zone.name: zone.digest}
            _respell(stored, lambda spec, new=new: renewed(spec, new))  # type: ignore[misc]

    def _renew_clocks(self, stored: Header) -> None:
        """Make both instants of a repeated hour edges, if that changes no number of a stored slice or window.

        Raises StateMismatch if it changes numbers, and the query has such edges.
        """
        pairs = list(counted_once(stored.specs, self.zones))
        if not pairs or not any(edges.repeats for edges in self.cut_of.sequences if isinstance(edges, Local)):
            return
        for before, now in () if stored.is_unused else pairs:
            self._check_numbers(before, now, stored.zones.get(now.zone.name))
        if self.cut is not None and stored.layout.get(CUT) == short(once(self.cut)):
            stored.layout[CUT] = self.layout[CUT]
        _LOG.warning("windows to come have both instants of a repeated hour of %s as edges", pairs[0][1].zone.name)
        _respell(stored, lambda spec: twice(spec, self.zones))

    def _check_numbers(self, before: Local, now: Local, held: Part | None) -> None:
        """Raise StateMismatch unless both sequences have the same numbers, for all slices and windows of a checkpoint.

        `held` is the part of the zone's table from the oldest slice to the newest one. A window of the newest slice may
        end later.
        """
        between = ""
        if held is not None:
            first, last = (held[0] + MARGIN) * SECOND, (held[1] + 1) * SECOND
            last = max([last, *(int(each.window_end(each.last_window(each.slice_at(last)))) for each in self.members)])
            changes = np.array(now.zone.transitions, np.int64) * SECOND
            changes = changes[(first < changes) & (changes <= last)]
            at = np.concatenate([np.array([first, last]), changes, changes - 1])
            if np.array_equal(before.count(at), now.count(at)):
                return
            between = f" between {show_instant(first)} and {show_instant(last)}"
        raise StateMismatch(
            f"both instants of a repeated hour are now edges of windows by {now}, and only the earlier one is in this "
            f"checkpoint, so the numbers of its slices{between} differ. Start with a new checkpoint, or continue "
            "with the version that wrote this one."
        )


def _respell(stored: Header, changed: Callable[[Any], Any]) -> None:
    """Change the specs of the cuts and of the families of a stored header."""
    stored.layout[CUT] = changed(stored.layout.get(CUT))
    stored.shipped = changed(stored.shipped)
    for family in stored.families:
        family.spec = changed(family.spec)


def _check_zone(zone: Zone, stored: Header) -> None:
    """Raise StateMismatch unless the stored part of a changed time zone is equal in the new data."""
    held = stored.zones.get(zone.name)
    if held is None and not stored.is_unused:
        raise StateMismatch(
            f"the time zone data of {zone.name} have changed since the checkpoint was written, and it does not have "
            "the part of them that its windows go by, so it cannot be told whether these would be the same. "
            f"{_WAY_OUT} or start with a new checkpoint."
        )
    if held and (different := difference(zone, held)):
        raise StateMismatch(
            f"the time zone data of {zone.name} have changed for windows that the checkpoint holds or that have "
            f"closed last: {different}. {_WAY_OUT} until later windows have closed, or start with a new checkpoint."
        )
    if held and (different := other_number(zone, held)):
        raise StateMismatch(
            f"the time zone data of {zone.name} have changed by a part of a window, and slices are numbered over it: "
            f"{different}. {_WAY_OUT} or start with a new checkpoint."
        )


def fingerprint_of(
    shape: Shape,
    contents: Sequence[str],
    columns: Sequence[Sequence[str | None]],
    buckets: str,
    time: str = "event",
    time_column: str | None = None,
    adapt: str = REFUSE,
    fixed: Mapping[str, str] | None = None,
    states: str = "",
) -> Fingerprint:
    """Return the fingerprint of a query.

    `contents` has the content of the pages of each result, and `columns` its input columns, None for the event time.
    `buckets` is the text of the buckets (`Buckets.text`), `time` names the time of the windows, and `time_column` is
    the column of the event time, if there is one. `adapt` and `fixed` are as in `Fingerprint`. `states` names the
    fields of the states of a function.
    """
    cut, zones = shape.family.cut.spec(), zones_of([*shape.family.cut.sequences, *shape.family.families])
    named = {} if time_column is None else {_TIME_COLUMN: renumbered(time_column)}
    members = _members(shape.family)
    keys = [str(key) for key in shape.keys]
    partials = [[str(each) for each in kernel.fields] for kernel in shape.kernels]
    results = [
        {"columns": texts(bound), "version": kernel.aggregate.identity, "partial": partial}
        for bound, kernel, partial in zip(columns, shape.kernels, partials, strict=True)
    ]
    return Fingerprint(
        {"keys": keys, "results": results, "buckets": buckets},
        {
            CUT: short(cut),
            "families": [short(family.spec()) for family in members],
            "content": contents[0] if len(set(contents)) == 1 else ", ".join(contents),
            "time": time,
            **named,
            **({_STATES: states} if states else {}),
        },
        zones,
        cut if zones and short(cut) != cut else None,
        adapt=adapt,
        fixed=fixed or {},
        family=shape.family,
        names=tuple(kernel.label for kernel in shape.kernels),
        shares=tuple(bool(kernel.aggregate.meanings) for kernel in shape.kernels),
        filtered=tuple(kernel.aggregate.filtered for kernel in shape.kernels),
    )


def _condition(result: Result, filtered: bool | None) -> str:
    return str(texts(result.columns)[-1]) if filtered else "none"


def _members(family: Family) -> tuple[Family, ...]:
    """Return the families of a set, each over its own cut, or the single family."""
    return family.members if isinstance(family, Several) else (family,)


def mismatch(different: Sequence[str], goes_on: bool = False) -> StateMismatch:
    """Return the error for a checkpoint with these differences; `goes_on` if `.adapt("allow")` allows them all."""
    remedy = 'Add `.adapt("allow")` to continue, change' if goes_on else "Change"
    return StateMismatch(
        f"{remedy} the query back, or start with a new checkpoint: it was written by another query. "
        f"Different: {'; '.join(each.removesuffix('.') for each in different)}."
    )


def flat(stored: Header, wanted: Fingerprint) -> tuple[dict[str, str], dict[str, str]]:
    """Return checkpoint and query as names and values for a message."""
    sides = (stored.identity, layout_of(stored)), (wanted.identity, wanted.layout)
    held, query = ({**_flat(identity), **_laid(layout)} for identity, layout in sides)
    return held, query


def layout_of(head: Header) -> dict[str, Any]:
    """Return the layout of the query that wrote a header, in the form of `Fingerprint.layout`, without empty values.

    The length of slice groups is left out: it belongs to the pages, not to the query.
    """
    contents = [result.content for result in head.current]
    content = contents[0] if len(set(contents)) == 1 else ", ".join(contents)
    found = {"families": [family.spec for family in head.families if family.spec], "content": content}
    of_query = {name: value for name, value in head.layout.items() if name != PER_GROUP}
    if head.shipped:
        of_query[CUT] = head.shipped
    return of_query | {name: value for name, value in found.items() if value}


def families_of(head: Header, zones: Sequence[Zone] = (), own: Sequence[Given] = ()) -> tuple[Family, ...]:
    """Return the families of windows of a header, over its cut; see `from_spec`.

    Raises StateMismatch if a spec needs something that is not given: older time zone data, a user's class, a long list.
    """
    cut = from_spec(head.layout["cut"], zones, own)
    return tuple(from_spec(family.spec, zones, own).over(cut) for family in head.families)


def _flat(identity: Mapping[str, Any]) -> dict[str, str]:
    """Return an identity as names and values for a message."""
    found = {name: shown(value) for name, value in identity.items() if name != "results"}
    for number, result in enumerate(identity.get("results", ()), 1):
        # Older checkpoints have the lambda variables with the numbers of the process that wrote them.
        shown_as = {**result, "columns": texts(result["columns"])}
        found |= {f"{name} of result {number}": shown(value) for name, value in shown_as.items()}
    return found


def _laid(layout: Mapping[str, Any]) -> dict[str, str]:
    """Return a layout as names and values for a message; the usual cut of hopping windows is left out.

    Different values have different texts: by these a difference is found.
    """
    found = {name: shown(value) for name, value in layout.items() if name not in ("families", "cut")}
    families = [windows_text(spec) if spec[0] == "hopping" else shown(spec) for spec in layout.get("families", ())]
    if families:
        found["windows"] = "; ".join(families)
    if "cut" in layout and layout["cut"] != _usual_cut(layout.get("families", ())):
        found["cut"] = shown(layout["cut"])
    return found


def _usual_cut(families: Sequence[Sequence[Any]]) -> Any:
    """Return the cut of a single family of hopping windows; None for other windows."""
    return Even(*families[0][1:]).cut.spec() if len(families) == 1 and families[0][0] == "hopping" else None


def shown(value: Any) -> str:
    """Return a value of an identity or a layout as text for a message."""
    if isinstance(value, list) and all(isinstance(item, str | None) for item in value):
        return ", ".join("event time" if item is None else item for item in value)
    return value if isinstance(value, str) else json.dumps(value)
