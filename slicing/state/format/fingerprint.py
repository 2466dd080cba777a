"""What state depends on, so that a query of another shape is refused by name instead of reading it as its own.

The *identity* is what state is of, and must be equal: keys, buckets, and of each result its columns, its partial and
the `version` of its aggregate. The *layout* is how it is laid out: cut, families of windows, content and time. Trees
are in neither, as nodes are caches: those of other trees are dropped. Functions are in neither, as they cannot be seen:
the text of a function is not what it does, and its name still less.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicing.aggregates.aggregate import Aggregate
from slicing.content.block import Shape
from slicing.errors import StateMismatch
from slicing.state.format.column_texts import renumbered
from slicing.state.format.header import Header, OldHeader
from slicing.state.format.zone_tables import difference, digests, renewed, zones_of
from slicing.windows.families.even import Even
from slicing.windows.families.family import Family
from slicing.windows.families.several import Several
from slicing.windows.time.cut import Cut
from slicing.windows.time.slices import Slicing
from slicing.windows.time.zones import Zone
from slicing.windows.window import Hopping

PARTIALS, WINDOWS = "partials", "windows"
"""What pages hold of a result: partials of slices, or, of an eager one, those of windows."""

LONG = 1000
"""Specs of more characters are stored as their digests."""

_TIME_COLUMN = "time column"
_CUT = "cut"
_ZONED = (_CUT, "families")
"""What of a layout has zones, with the digests of their tables."""
_WAY_OUT = "Go on with the data from then, for example by the version of the package tzdata from then,"
_LOG = logging.getLogger("slicing")
_EAGER = "eager"
_TREE = re.compile(r": (two_layer|three_layer|recompute|eager)(?=; |$)")
"""How the partials of each result end in the fingerprints of formats 4 to 6."""


@dataclass(frozen=True)
class Fingerprint:
    """Identity and layout as JSON has them, and `older`: the texts that formats 4 to 6 are compared by.

    `zones` are those that windows go by, and `cut` is the whole spec of a cut with zones of which `layout` has only a
    digest.
    """

    identity: Mapping[str, Any] = field(default_factory=dict)
    layout: Mapping[str, Any] = field(default_factory=dict)
    older: Mapping[str, str] = field(default_factory=dict)
    zones: tuple[Zone, ...] = ()
    cut: list[Any] | None = None

    def header_of(self, stored: Header | OldHeader) -> Header:
        """The header that was stored, if it is of such a query. Raises StateMismatch that names every difference."""
        if isinstance(stored, Header):
            if _TIME_COLUMN in self.layout:
                # Checkpoints of version 0.1 do not say; this start does.
                stored.layout.setdefault(_TIME_COLUMN, self.layout[_TIME_COLUMN])
            self._renew_zones(stored)
            compare({**_flat(stored.identity), **_laid(stored.layout)}, {**_flat(self.identity), **_laid(self.layout)})
            return stored
        compare(_older(stored.fingerprint), self.older)
        stripe = int(stored.fingerprint["stripe"])
        trees = [tree for tree in _TREE.findall(stored.fingerprint["partials"]) if tree != _EAGER]
        return stored.renewed(dict(self.identity), {**self.layout, "stripe": stripe}, trees)

    def _renew_zones(self, stored: Header) -> None:
        """Let zones whose data have changed go on by the new ones, if what was cut by the old ones would be the same.

        Raises StateMismatch if it would not, or if that cannot be told.
        """
        known = {name: digest for spec in _specs(stored.layout) for name, digest in digests(spec)}
        changed = [zone for zone in self.zones if known.get(zone.name, zone.digest) != zone.digest]
        for zone in changed:
            _check_zone(zone, stored)
        if self.cut is not None and stored.layout.get(_CUT) == _short(renewed(self.cut, known)):
            stored.layout[_CUT] = self.layout[_CUT]
        for zone in changed:
            _LOG.warning("the time zone data of %s have changed; windows to come go by the new ones", zone.name)
            for name in _ZONED:
                stored.layout[name] = renewed(stored.layout.get(name), {zone.name: zone.digest})


def _specs(layout: Mapping[str, Any]) -> list[Any]:
    """What of a layout has the digests of zones."""
    return [layout.get(name) for name in _ZONED]


def _check_zone(zone: Zone, stored: Header) -> None:
    """Raise StateMismatch unless what is there of a zone whose data have changed would be the same by the new ones."""
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


def fingerprint_of(
    shape: Shape,
    contents: Sequence[str],
    columns: Sequence[Sequence[str | None]],
    buckets: str,
    time: str = "event",
    time_column: str | None = None,
) -> Fingerprint:
    """The fingerprint of a query: what pages hold of each result, and the columns it is bound to, None the event time.

    `buckets` is a text that says how keys are spread over them, `time` one that says what windows go by, and
    `time_column` the column of event time, if there is one.
    """
    cut, zones = _cut(shape.slicing).spec(), zones_of(_cut(shape.slicing).sequences)
    named = {} if time_column is None else {_TIME_COLUMN: renumbered(time_column)}
    members = [_spelled(family) for family in _members(shape.slicing)]
    keys = [str(key) for key in shape.keys]
    partials = [[str(each) for each in kernel.fields] for kernel in shape.kernels]
    results = [
        {"columns": _texts(bound), "version": _version(kernel.aggregate), "partial": partial}
        for bound, kernel, partial in zip(columns, shape.kernels, partials, strict=True)
    ]
    return Fingerprint(
        {"keys": keys, "results": results, "buckets": buckets},
        {
            _CUT: _short(cut),
            "families": [_short(family.spec()) for family in members],
            "content": contents[0] if len(set(contents)) == 1 else ", ".join(contents),
            "time": time,
            **named,
        },
        {
            "windows": "; ".join(_family(_short(family.spec())) for family in members),
            "keys": ", ".join(keys),
            "partials": "; ".join(f"{', '.join(p)}: {held}" for p, held in zip(partials, contents, strict=True)),
            "buckets": buckets,
        },
        zones,
        cut if zones and _short(cut) != cut else None,
    )


def _version(aggregate: Aggregate) -> str:
    """The version that was given; else what `combine` says that its partials are of, as those of the catalogue do."""
    stored_as = getattr(aggregate.combine, "stored_as", None)
    return aggregate.version if stored_as is None else f"{stored_as} {aggregate.version}"


def _members(family: Family) -> tuple[Family, ...]:
    """The families of a set as they would be alone, or the one there is."""
    return family.members if isinstance(family, Several) else (family,)


def _cut(family: Family) -> Cut:
    return _spelled(family).cut


def _spelled(family: Family) -> Family:
    """A family with a spec: that of hopping windows, if these are given by their arithmetic alone."""
    if isinstance(family, Slicing) and not isinstance(family, Even):
        return Even(family.size, family.advance, family.offset)
    return family


def _short(spec: list[Any]) -> list[Any]:
    """A spec, or, of one that lists many instants, its kind and a digest."""
    text = json.dumps(spec, separators=(",", ":"))
    return spec if len(text) <= LONG else [spec[0], "digest", hashlib.sha256(text.encode()).hexdigest()[:32]]


def compare(stored: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise StateMismatch that names every difference between a checkpoint's query and this one."""
    different = [
        f"{name}: checkpoint `{stored.get(name)}`, query `{wanted.get(name)}`"
        for name in sorted({*stored, *wanted})
        if stored.get(name) != wanted.get(name)
    ]
    if different:
        raise StateMismatch(
            "the checkpoint was written by a query of another shape; its state cannot be read as this one's. "
            f"Different: {'; '.join(different)}. Start with a new checkpoint, or change the query back."
        )


def _flat(identity: Mapping[str, Any]) -> dict[str, str]:
    """An identity as names and values that a message can show."""
    found = {name: _shown(value) for name, value in identity.items() if name != "results"}
    for number, result in enumerate(identity.get("results", ()), 1):
        # Older checkpoints have the variables of lambdas as a process happened to number them.
        texts = {**result, "columns": _texts(result["columns"])}
        found |= {f"{name} of result {number}": _shown(value) for name, value in texts.items()}
    return found


def _texts(columns: Sequence[str | None]) -> list[str | None]:
    return [None if column is None else renumbered(column) for column in columns]


def _laid(layout: Mapping[str, Any]) -> dict[str, str]:
    """A layout likewise. The stripe is not the query's, but that of the pages; a cut goes without saying."""
    found = {name: _shown(value) for name, value in layout.items() if name not in ("stripe", "families", "cut")}
    families = [_family(spec) for spec in layout.get("families", ())]
    if families:
        found["windows"] = "; ".join(families)
    if "cut" in layout and layout["cut"] != _usual_cut(layout.get("families", ())):
        found["cut"] = _shown(layout["cut"])
    return found


def _family(spec: Sequence[Any]) -> str:
    return Hopping(*spec[1:]).stored if spec[0] == "hopping" else json.dumps(spec)


def _usual_cut(families: Sequence[Sequence[Any]]) -> Any:
    """The cut of one family of hopping windows."""
    return Even(*families[0][1:]).cut.spec() if len(families) == 1 and families[0][0] == "hopping" else None


def _shown(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str | None) for item in value):
        return ", ".join("event time" if item is None else item for item in value)
    return value if isinstance(value, str) else json.dumps(value)


def _older(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """What is compared of a fingerprint of formats 4 to 6; of the trees, only which of them were eager."""
    found = {name: fingerprint[name] for name in ("windows", "keys", "partials", "buckets")}
    found["partials"] = _TREE.sub(lambda each: f": {WINDOWS if each[1] == _EAGER else PARTIALS}", found["partials"])
    return found
