"""The differences between a checkpoint and a query, and the effect of each one if the query continues on it.

The state does not store the names of results. A stored result and a wanted result are the same if they have the same
columns, version and fields. If results share fields, a result may find all of its fields in another result; it is then
read from the pages of that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from slicing.aggregates.code_digest import are_different
from slicing.errors import StateMismatch
from slicing.state.format.buckets import Buckets
from slicing.state.format.fingerprint import CUT, PARTIALS, Fingerprint, families_of, flat
from slicing.state.format.header import Header, Result
from slicing.state.format.list_names import ENDED
from slicing.state.format.result_texts import result_text, texts
from slicing.windows.families.family import Family
from slicing.windows.families.several import Several
from slicing.windows.specs import Given, cut_text, edges_text, from_spec, short
from slicing.windows.time.cut import Cut, refines

COUNT = "n"
"""The field that holds the number of values in every aggregate of the catalogue; any of them can provide it."""
OTHER_COUNTS = ("combinators.count_if",)
"""The versions whose field of that name counts something else."""
_BY_RECORDS = ("counting", "session", "sliding")
"""The specs of windows whose states have no slices."""
WINDOWS, ADDED, REMOVED, LACKING, ENDS = "windows", "added", "removed", "lacking", "ends"
"""The reasons of a query to refuse a checkpoint, by name: changed windows, added results, removed results, wide rows in
which windows lack records, sessions that records have ended."""
_ADDED, _REMOVED = " added", " removed"
"""The ends of the kinds of changes that only one side has."""
NEW = "Start with a new checkpoint"
ANOTHER_FIELD = "Give the field another name, so that it begins anew, or start with a new checkpoint."
WHEN_WHOLE = "Continue with on_close() and the results as they were until the columns of all windows have values."
ENDING = "Continue with early(when=..., ends=True), or start with a new checkpoint."
"""The remedies of differences that only a start refuses; see `refused_at_start`."""

_GOES_ON = {
    "keys": f"refused: state is by key. {NEW}.",
    "buckets": "refused: keys are spread over them. Say `{buckets}`, with any number of shuffle partitions. With "
    "another number, start a new checkpoint from its slices: `.warm(partials=definition.lookup_partials(...))`.",
    "time": f"refused: slices are cut by it. {NEW}.",
    "states": f"refused: what functions remember has these fields. {NEW}, or change them back.",
    "time column": f"refused: slices are cut by it. {NEW}, or change the column back.",
}


@dataclass(frozen=True)
class Change:
    """One difference: its kind, both values as text, its effect on the query, and whether the query may continue."""

    what: str
    stored: str
    wanted: str
    effect: str
    allowed: bool

    def __str__(self) -> str:
        """Return the change as one sentence."""
        if self.what.endswith(_ADDED):
            return f"{self.wanted} is new: {self.effect}"
        if self.what.endswith(_REMOVED):
            return f"{self.stored} is gone: {self.effect}"
        sides = f"`{self.stored}` in the checkpoint, `{self.wanted}` in the query" if self.wanted else self.stored
        return f"{self.what}: {sides}: {self.effect}"


class Changes(tuple[Change, ...]):
    """A tuple of differences that prints as a table."""

    __slots__ = ()

    @property
    def allowed(self) -> bool:
        """Whether the query can continue with all of them by `.adapt("allow")`."""
        return all(change.allowed for change in self)

    def __repr__(self) -> str:
        if not self:
            return "No differences: the query continues from the checkpoint."
        from slicing.drawing import lines

        head = ("what", "stored", "wanted", "effect", "allowed")
        rows = [
            head,
            *((c.what, c.stored or "-", c.wanted or "-", c.effect, "yes" if c.allowed else "no") for c in self),
        ]
        return "\n".join(lines(rows, ruled=True))


Source = tuple[int, int]
"""A stored field: the id of its result, and its index in the partial."""


@dataclass(frozen=True)
class Match:
    """The stored data of a wanted result.

    `same` is the id of the equal stored result, None if there is none. `sources` has the stored field that each field
    is read from, None if it is not stored.
    """

    same: int | None
    sources: tuple[Source | None, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all fields are stored."""
        return None not in self.sources


def _key(result: Result) -> tuple[Any, ...]:
    return tuple(texts(result.columns)), result.version, tuple(result.fields), result.content


def matches(stored: Header, wanted: Fingerprint) -> list[Match]:
    """Return the stored data of each wanted result. Each stored result equals at most one wanted result."""
    found = []
    for result, shares, same in zip(wanted.results, wanted.shares, _same_results(stored, wanted), strict=True):
        if same is not None:
            found.append(Match(same, tuple((same, place) for place in range(len(result.fields)))))
        else:
            found.append(Match(None, tuple(_source(stored, result, field, shares) for field in result.fields)))
    return found


def _same_results(stored: Header, wanted: Fingerprint) -> list[int | None]:
    """Return the id of the stored result that equals each wanted result, None if there is none.

    Of several results with the same columns and fields, those with the same code belong together.
    """
    return _paired(stored, wanted, _same_code, _same_fields)[0]


def _paired(
    stored: Header, wanted: Fingerprint, *rules: Callable[[Result, Result], bool]
) -> tuple[list[int | None], list[Result]]:
    """Pair stored and wanted results by one rule after the other.

    Return the id of the stored result for each wanted one, None without one, and the stored results that are left.
    """
    free = list(stored.current)
    found: list[int | None] = [None] * len(wanted.results)
    for is_equal in rules:
        for place, result in enumerate(wanted.results):
            held = next((each for each in free if found[place] is None and is_equal(each, result)), None)
            if held is not None:
                found[place] = held.id
                free.remove(held)
    return found, free


def _same_fields(held: Result, result: Result) -> bool:
    return _key(held) == _key(result) and held.may_be(result.filtered)


def _same_code(held: Result, result: Result) -> bool:
    return bool(result.code) and held.code == result.code and _same_fields(held, result)


def exchanged(stored: Header, wanted: Fingerprint) -> list[str]:
    """Return the difference, as text, if results that only their code tells apart have changed places."""
    if not any(wanted.codes) or _same_results(stored, wanted) == stored.generations[stored.generation]:
        return []
    return ["results: functions of the same columns and fields are in another order"]


def _source(stored: Header, wanted: Result, field: str, shares: bool) -> Source | None:
    """Return the stored field that a wanted field can be read from, None if there is none.

    Only results that share fields have one: a field name then means the same in all results of a version.
    """
    for result in stored.current if shares else ():
        alike = texts(result.columns) == texts(wanted.columns) and result.content == wanted.content
        counts = _counts(result, field) and _counts(wanted, field)
        counts = counts and _library(result.version) == _library(wanted.version)
        same = result.version == wanted.version or counts
        if alike and result.may_be(wanted.filtered) and same and field in result.fields:
            return result.id, result.fields.index(field)
    return None


def _counts(result: Result, field: str) -> bool:
    """Return whether a field of a result is the number of values."""
    return field.partition(" ")[0] == COUNT and result.version not in OTHER_COUNTS


def _library(version: str) -> str:
    """Return the first part of a version: `combinators` for aggregates of the catalogue."""
    return version.partition(".")[0]


def changes(stored: Header, wanted: Fingerprint) -> Changes:
    """Return all differences that matter. Another order of results or windows is no difference."""
    parts = _of_identity, _of_content, _of_cut, _of_windows, _of_results
    return Changes(change for part in parts for change in part(stored, wanted))


def changes_of(stored: Iterable[Header], wanted: Fingerprint) -> Changes:
    """Return the differences of several buckets, each once.

    Buckets may differ: the header of a bucket without new records may be from an older version of the query. Raises
    StateMismatch if the time zone data of the stored slices have changed.
    """
    found: dict[Change, None] = {}
    for header in stored:
        if wanted.differences(header) or exchanged(header, wanted):
            found |= dict.fromkeys(changes(header, wanted))
        found |= dict.fromkeys(refused_at_start(header, wanted))
        found |= dict.fromkeys(code_changes(header, wanted))
    return Changes(found)


def code_changes(stored: Header, wanted: Fingerprint) -> list[Change]:
    """Return the results whose user functions have changed their code. Such a change is reported, but always allowed.

    The meaning of a function cannot be compared: the user declares it by `version`.
    """
    held, found = {result.id: result.code for result in stored.current}, []
    for result, name, match in zip(wanted.results, wanted.names, matches(stored, wanted), strict=True):
        code = "" if match.same is None else held[match.same]
        if are_different(code, result.code):
            effect = (
                "continues: stored slices were made by the previous code. If partials mean something else now, give "
                "the aggregate another `version=`"
            )
            found.append(Change("function changed", code, f"{name}: {result.code}", effect, True))
    return found


def refused_at_start(stored: Header, wanted: Fingerprint) -> list[Change]:
    """Return the differences that engines refuse when they open a bucket, by the same rules.

    They are not about the shape of the state, but about its progress: what the trigger and the eager results of the
    query need is not there.
    """
    return [*_of_trigger(stored, wanted), *_of_wide_rows(stored, wanted), *_of_ended(stored, wanted)]


def changed_fields(stored: Sequence[str], wanted: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return the fields of a trigger's state that have another type: the name, the stored and the wanted type.

    Both sides have the name of the trigger, then its fields. The state of a trigger of another name is not taken over.
    """
    if [*stored[:1]] != [*wanted[:1]]:
        return []
    held, query = (
        {name: kind for name, _, kind in (field.rpartition(" ") for field in side[1:])} for side in (stored, wanted)
    )
    return [(name, held[name], kind) for name, kind in query.items() if held.get(name, kind) != kind]


def _of_trigger(stored: Header, wanted: Fingerprint) -> list[Change]:
    effect = f"refused: the values in the state have the type of before. {ANOTHER_FIELD}"
    return [
        Change("trigger state", f"{wanted.trigger[0]}: {name} {held}", f"{name} {kind}", effect, False)
        for name, held, kind in changed_fields(stored.trigger, wanted.trigger)
    ]


def _of_wide_rows(stored: Header, wanted: Fingerprint) -> list[Change]:
    why = wanted.fixed.get(LACKING)
    if not why:
        return []
    families = [stored.families[place] for place in placed(stored, wanted) if place is not None]
    effect = f"refused: {why}. {WHEN_WHOLE}"
    return [
        Change("wide rows", f"{wanted.windows_said(family.spec)} without all records", "", effect, False)
        for family in families
        if family.lacks
    ]


def cannot_end(trigger: object) -> str:
    """Return why a trigger that ends no sessions cannot continue with sessions that records have ended."""
    return f"{trigger} does not keep them apart"


def has_ended_sessions(stored: Header) -> bool:
    """Whether records have ended sessions of a checkpoint."""
    return f"{ENDED} {ENDED}" in stored.lists


def _of_ended(stored: Header, wanted: Fingerprint) -> list[Change]:
    why = wanted.fixed.get(ENDS)
    if not why or not has_ended_sessions(stored):
        return []
    return [Change("trigger", "records have ended sessions", "", f"refused: {why}. {ENDING}", False)]


def _of_identity(stored: Header, wanted: Fingerprint) -> list[Change]:
    held, query = flat(stored, wanted)
    return [
        Change(name, held.get(name, "none"), query.get(name, "none"), effect.format(buckets=_as_option(stored)), False)
        for name, effect in _GOES_ON.items()
        if held.get(name) != query.get(name)
    ]


def _as_option(stored: Header) -> str:
    """Return the call of the builder that sets the buckets of a checkpoint."""
    return f".buckets({Buckets.of(stored.buckets) if Buckets.is_one(stored.buckets) else 'n'})"


def _of_content(stored: Header, wanted: Fingerprint) -> list[Change]:
    """Compare whether the state has slices. If all results are eager, it has pages of windows only."""
    held, query = ("slices" if _has_slices(side) else "pages of windows" for side in (stored.current, wanted.results))
    effect = f"refused: what is kept of records would be missing in windows that are open. {NEW}."
    return [Change("content", held, query, effect, False)] if held != query else []


def _has_slices(results: Sequence[Result]) -> bool:
    return any(result.content == PARTIALS for result in results)


# Windows.


@dataclass(frozen=True)
class Windows:
    """The cut of a checkpoint, its families, and the families of the query over that cut."""

    cut: Cut
    held: tuple[Family, ...]
    wanted: tuple[Family, ...]


def windows_of(stored: Header, wanted: Fingerprint) -> Windows:
    """Return both sides over the stored cut.

    Raises StateMismatch if the stored cut cannot be rebuilt, or lacks an edge that the query needs.
    """
    cut = _stored_cut(stored, wanted)
    if why := _inside(cut, wanted.cut_of):
        raise StateMismatch(why)
    families = families_of(stored, wanted.zones, _given(wanted))
    return Windows(cut, families, tuple(each.over(cut) for each in wanted.members))


def _given(wanted: Fingerprint) -> list[Given]:
    return [wanted.cut_of, *wanted.cut_of.sequences, *wanted.members]


def _stored_cut(stored: Header, wanted: Fingerprint) -> Cut:
    """Return the cut of a checkpoint. Raises StateMismatch if it cannot be rebuilt."""
    own, spec = wanted.cut_of, stored.layout[CUT]
    found: Cut = own if short(own.spec()) == spec else from_spec(spec, wanted.zones, _given(wanted))
    return found


def _inside(stored: Cut, wanted: Cut) -> str:
    """Return why a cut with edges inside stored slices is refused; "" if it has none."""
    finer = [edges for edges in wanted.sequences if not any(refines(held, edges) for held in stored.sequences)]
    edges = ", and ".join(edges_text(each.spec()) for each in finer)
    return f"refused: it has edges inside stored slices, {edges}. {NEW}, or leave it out." if edges else ""


def _of_cut(stored: Header, wanted: Fingerprint) -> list[Change]:
    if (stored.shipped or stored.layout[CUT]) == wanted.layout[CUT]:
        return []
    try:
        windows_of(stored, wanted)
    except StateMismatch as reason:
        added = [member for place, member in zip(placed(stored, wanted), wanted.members, strict=True) if place is None]
        if any(_finer(stored, wanted, member) for member in added):
            return []  # these windows say so
        return [Change("slices", cut_text(stored.layout[CUT]), cut_text(wanted.layout[CUT]), str(reason), False)]
    return []


def placed(stored: Header, wanted: Fingerprint) -> list[int | None]:
    """Return for each family of a query the position of the stored family with the same windows, None if it is new."""
    free = {place: family.spec for place, family in enumerate(stored.families)}
    found = []
    for spec in wanted.layout["families"]:
        same = next((place for place, held in free.items() if held == spec), None)
        found.append(same)
        free.pop(same, None)  # type: ignore[arg-type]
    return found


def _of_windows(stored: Header, wanted: Fingerprint) -> list[Change]:
    places, specs = placed(stored, wanted), wanted.layout["families"]
    if stored.layout.get("time") != wanted.layout.get("time"):
        return []
    fixed = wanted.fixed.get(WINDOWS, "") or _kept_otherwise(stored, wanted)
    found = []
    for place, spec, member in zip(places, specs, wanted.members, strict=True):
        if place is None:
            refused = fixed or _finer(stored, wanted, member) or _gaps(stored, wanted) or _ends(stored, wanted)
            effect = "emitted from the first window on that holds all its records"
            found.append(Change("windows added", "", wanted.windows_said(spec), refused or effect, not refused))
    for place, family in enumerate(stored.families):
        if place not in places:
            effect = fixed or "no longer emitted, also those that are open"
            found.append(Change("windows removed", wanted.windows_said(family.spec), "", effect, not fixed))
    return found


def _kept_otherwise(stored: Header, wanted: Fingerprint) -> str:
    """Return why windows of another engine are refused; "" if both sides keep records in the same way."""
    held, query = (
        {spec[0] if spec[0] in _BY_RECORDS else "" for spec in specs}
        for specs in ([family.spec for family in stored.families], wanted.layout["families"])
    )
    return "" if held == query else f"refused: windows that records decide keep no slices, and others do. {NEW}."


def _finer(stored: Header, wanted: Fingerprint, member: Family) -> str:
    """Return why windows with edges inside stored slices cannot be added; "" if they have none."""
    try:
        return _inside(_stored_cut(stored, wanted), member.cut)
    except StateMismatch:
        return ""  # the difference of the slices reports this reason


def _ends(stored: Header, wanted: Fingerprint) -> str:
    """Return why windows with the other `closed` are refused: records at edges are in other slices. Else empty."""
    held = _held(stored, wanted)
    if not held or held[0].closed_right == wanted.members[0].closed_right:
        return ""
    return f"refused: `closed` decides in which slices records at edges are. {NEW}, or leave it as it was."


def _held(stored: Header, wanted: Fingerprint) -> tuple[Family, ...]:
    """Return the stored families; none if their cut cannot be used, which the difference of the cut reports."""
    try:
        return windows_of(stored, wanted).held
    except StateMismatch:
        return ()


def _gaps(stored: Header, wanted: Fingerprint) -> str:
    """Return why no windows can be added: records in gaps between the stored windows were not kept. Else empty."""
    held = _held(stored, wanted)
    if not held:
        return ""
    lossy = held[0].has_gaps if len(held) == 1 else Several(held, held[0].cut).has_gaps
    return f"refused: the stored windows have gaps, whose records were not kept. {NEW}." if lossy else ""


# Results.


def _of_results(stored: Header, wanted: Fingerprint) -> list[Change]:
    found, twice = [], _ambiguous(stored, wanted)
    known = matches(stored, wanted)
    for place, (result, match) in enumerate(zip(wanted.results, known, strict=True)):
        if not match.is_whole:
            refused = twice or wanted.fixed.get(ADDED, "")
            effect = "null in windows that began before the change"
            found.append(Change("result added", "", wanted.said(result, place), refused or effect, not refused))
    used = {source for match in known for source in match.sources if source}
    for result in stored.current:
        # The number of values is a field of other results too, so its use alone does not keep a result.
        places = range(len(result.fields))
        own = [place for place in places if not _counts(result, result.fields[place])] or places
        if not used & {(result.id, place) for place in own}:
            refused = twice or wanted.fixed.get(REMOVED, "")
            effect = "its fields leave the state as pages are rewritten"
            found.append(Change("result removed", result_text(result), "", refused or effect, not refused))
    return found + _of_order(stored, wanted)


def _of_order(stored: Header, wanted: Fingerprint) -> list[Change]:
    """Compare the order of results where the state depends on it, so that no result can be removed from it."""
    why, held = wanted.fixed.get(REMOVED), stored.generations[stored.generation]
    found = _same_results(stored, wanted)
    if not why or found == held or set(found) != set(held):
        return []
    before = [wanted.names[found.index(number)] for number in held]
    return [Change("results reordered", ", ".join(before), ", ".join(wanted.names), why, False)]


def _ambiguous(stored: Header, wanted: Fingerprint) -> str:
    """Return why results cannot be matched, or an empty text.

    They cannot if several results have the same columns and fields, their code does not tell which is which, and their
    number has changed.
    """
    known, free = _paired(stored, wanted, _same_code)
    pairs = zip(wanted.results, wanted.shares, known, strict=True)
    own = [_key(result) for result, shares, same in pairs if not shares and same is None]
    held, query = Counter(map(_key, free)), Counter(own)
    if any(held[key] and held[key] != count and max(held[key], count) > 1 for key, count in query.items()):
        return (
            "refused: several results have these columns and fields, and it cannot be told which of them is stored. "
            "Give each its own `version=` on a new checkpoint."
        )
    return ""
