"""Adapt the header of a checkpoint to a changed query. Stored pages are not rewritten; they are read differently.

::

    slices       | 0 | 1 | 2 | 3 | 4 | 5 |              5 is the newest slice when the query changes
                         ^ the first slice of the oldest open window: earlier slices may lack records, unless slices
                           are retained
    added windows        [ the first ones that are emitted, unless they have ended before
    added results                         [ the first windows in which they are not null
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from slicing.state.format.changes import (
    REMOVED,
    changes,
    code_changes,
    exchanged,
    matches,
    placed,
    windows_of,
)
from slicing.state.format.coverage import Coverage, Edges, coverage_of
from slicing.state.format.fingerprint import ALLOW, CUT, PARTIALS, Fingerprint, mismatch
from slicing.state.format.header import SAME, FamilyState, Header, Result
from slicing.state.format.list_names import EARLY, INSTANTS, PENDING, SESSIONS, WINDOW, parse
from slicing.windows.families.family import Family
from slicing.windows.families.several import Several
from slicing.windows.specs import from_spec
from slicing.windows.time.cut import Cut, refines
from slicing.windows.time.edges import BEFORE
from slicing.windows.time.slices import FOREVER
from slicing.windows.time.zones import Zone

_LOG = logging.getLogger("slicing")


def opened(wanted: Fingerprint, stored: Header) -> Header:
    """Return the stored header for a query: unchanged if it fits, else adapted if `.adapt("allow")` is set.

    Raises StateMismatch with every difference and the possible remedies.
    """
    head = _opened(wanted, stored)
    for result, filtered in zip(head.current, wanted.filtered, strict=bool(wanted.filtered)):
        result.filtered = filtered
    if any(wanted.codes):
        for change in code_changes(head, wanted):
            _LOG.warning("%s: %s -> %s: %s", change.what, change.stored, change.wanted, change.effect)
        for result, code in zip(head.current, wanted.codes, strict=True):
            result.code = code
    return head


def _opened(wanted: Fingerprint, stored: Header) -> Header:
    different = wanted.differences(stored) or exchanged(stored, wanted)
    if not different:
        return stored
    if wanted.family is None:
        raise mismatch(different)
    found = changes(stored, wanted)
    goes_on = wanted.adapt == ALLOW if found else REMOVED not in wanted.fixed
    if goes_on and all(change.allowed for change in found):
        for change in found:
            _LOG.info("%s: %s -> %s: %s", change.what, change.stored or "-", change.wanted or "-", change.effect)
        return adapted(stored, wanted)
    raise mismatch([*map(str, found)] or different, goes_on=bool(found) and found.allowed)


def over_stored(stored: Header, wanted: Fingerprint, family: Family) -> Family:
    """Return the windows of a query over the cut of its checkpoint, which may have more edges than the windows need."""
    if not stored.shipped:
        return family
    cut = from_spec(stored.layout[CUT], wanted.zones, wanted.cut_of.sequences)
    if isinstance(family, Several):
        return Several(family.members, cut)
    return wanted.members[0].over(cut)


def adapted(stored: Header, wanted: Fingerprint) -> Header:
    """Change a stored header to the results and the windows of a query, and return it. All changes must be allowed."""
    windows = windows_of(stored, wanted)
    places = placed(stored, wanted)
    frontier = _frontier(stored, windows.held, wanted.zones)
    if None in places or len(places) < len(stored.families):
        _keep_entered(stored, windows.held)
        _forget_closed(stored, windows.held)
    _recut(stored, wanted, frontier)
    coverage = coverage_of(stored, windows.held)
    begin = _begin(stored, coverage, frontier)
    kept = [coverage.edges[place] for place in places if place is not None]
    if wanted.retain:  # else the next close removes what was retained
        stored.retained_since = coverage.start(coverage.stored)
    stored.families = [
        stored.families[place] if place is not None else _added(coverage, kept, family, begin, spec, number)
        for place, family, spec, number in zip(
            places, windows.wanted, wanted.layout["families"], _ids(stored, places), strict=True
        )
    ]
    _change_results(stored, wanted, frontier)
    stored.nonce = ""  # the bucket caches are those of the query before
    return stored


# Windows.


def _frontier(stored: Header, held: Sequence[Family], zones: Sequence[Zone]) -> int | None:
    """Return the instant (microseconds) from which on windows that begin hold no stored record; None without records.

    For sessions and sliding windows it follows from the ends of their pages. If all results are eager, the newest slice
    is not known: the instant is then the start of the window after the last stored one, the earliest of all families.
    """
    if stored.newest is not None:
        return _end_of(stored, held[0], stored.newest, zones)
    of_records = [found for name, found in stored.lists.items() if parse(name).of in (INSTANTS, SESSIONS)]
    ends = [entry[2] for found in of_records for entry in found]
    if ends:
        return int(held[0].slice_start(max(ends)))
    last: dict[int, int] = {}
    for name in map(parse, stored.lists):
        if name.of == WINDOW:
            last[name.family] = max(last.get(name.family, -FOREVER), int(name.which))
    pairs = zip(stored.families, held, strict=True)
    return min((int(own.window_start(last[state.id] + 1)) for state, own in pairs if state.id in last), default=None)


def _end_of(stored: Header, family: Family, index: int, zones: Sequence[Zone]) -> int:
    """Return the first instant (microseconds) after all records of a slice.

    If the query has fewer edges than the stored cut, its records lie in the stored slice that begins with their slice,
    so the end of the query's own slice counts.
    """
    if not stored.shipped:
        return int(family.slice_start(index + 1))
    cut: Cut = from_spec(stored.shipped, zones)
    return int(cut.slice_start(cut.slice_at(int(family.slice_start(index))) + 1))


def _recut(stored: Header, wanted: Fingerprint, frontier: int | None) -> None:
    """Store the cut of the query, and the instant from which on slices have all of its edges."""
    own, zones = wanted.cut_of, wanted.zones
    if stored.shipped and frontier is not None:
        before: Cut = from_spec(stored.shipped, zones, own.sequences)
        if not all(any(refines(held, edges) for held in before.sequences) for edges in own.sequences):
            stored.cut_since = frontier
    stored.shipped = [] if wanted.layout[CUT] == stored.layout[CUT] else wanted.layout[CUT]


def _begin(stored: Header, coverage: Coverage, frontier: int | None) -> int:
    """Return the instant (microseconds) from which on windows that begin hold all their records.

    Earlier records may have been refused or removed. Wide rows have windows that accept records but lack slices.
    Eager results have no slices, so their added windows begin after all records.
    """
    begin = coverage.start(max(coverage.since, coverage.accepted))
    is_eager = any(result.content != PARTIALS for result in stored.current)
    return max(begin, frontier) if is_eager and frontier is not None else begin


def _added(
    coverage: Coverage, kept: Sequence[Edges], family: Family, begin: int, spec: list[Any], number: int
) -> FamilyState:
    """Return the family progress of added windows; the first one begins at `begin` or later.

    Windows that have ended already are skipped when the bucket is opened.
    """
    after = int(family.last_window(family.slice_at(max(begin - 1, BEFORE)))) + 1
    first = coverage.first_whole(family, after, kept)
    merged = int(family.first_slice(first)) if coverage.is_merged else None
    return FamilyState(first, first, first, None, id=number, spec=spec, added=True, merged=merged)


def _ids(stored: Header, places: Sequence[int | None]) -> list[int]:
    """Return the ids of the families of a query. New families get ids larger than all stored ones."""
    following = 1 + max(family.id for family in stored.families)
    found = []
    for place in places:
        found.append(following if place is None else stored.families[place].id)
        following += place is None
    return found


def _keep_entered(stored: Header, held: Sequence[Family]) -> None:
    """Store the end of the slices that have entered: it follows from families that the query may have removed."""
    entered = [int(own.entered(state.next_to_fire)) for state, own in zip(stored.families, held, strict=True)]
    stored.entered = max([*entered, *([] if stored.entered is None else [stored.entered])])


def _forget_closed(stored: Header, held: Sequence[Family]) -> None:
    """Let the pages of the dirty set begin with the first open window: earlier records wait in no added window."""
    first = min(int(own.first_slice(state.next_to_fire)) for state, own in zip(stored.families, held, strict=True))
    for entry in stored.lists.get(f"{EARLY} {PENDING}", ()):
        entry[1] = max(entry[1], first)


# Results.


def _change_results(stored: Header, wanted: Fingerprint, frontier: int | None) -> None:
    """Begin a new generation of pages, unless the query has the same results in the same order."""
    found = matches(stored, wanted)
    following = 1 + max((result.id for result in stored.results), default=0)
    ids = []
    for match in found:
        ids.append(following if match.same is None else match.same)
        following += match.same is None
    sides = stored.identity.get("results", []), wanted.identity["results"]
    held, query = ([each["partial"] for each in side] for side in sides)
    if ids == stored.generations[stored.generation] and held == query:
        return
    by_id = {result.id: result for result in stored.results}
    for number, match, result in zip(ids, found, wanted.results, strict=True):
        if match.same is None:
            stored.results.append(_new(number, result, match.sources, by_id, frontier))
    stored.generations[stored.generation + 1] = ids
    _share(stored, wanted, ids)
    _prune(stored)
    for family in stored.families:
        family.trees = []  # the cached nodes have the results of the query before


def _new(
    number: int,
    result: Result,
    sources: Sequence[tuple[int, int] | None],
    by_id: dict[int, Result],
    frontier: int | None,
) -> Result:
    """Return the header entry of a result that is not stored, or is stored with other fields."""
    since = [frontier if source is None else _since(by_id[source[0]], source[1]) for source in sources]
    origin = [None if source is None else [*source] for source in sources]
    filtered = result.filtered
    return Result(
        number, result.columns, result.version, result.fields, result.content, since, origin, filtered=filtered
    )


def _since(result: Result, place: int) -> int | None:
    return result.since[place] if result.since else None


def _share(stored: Header, wanted: Fingerprint, ids: Sequence[int]) -> None:
    """Store which fields are shared between results in the new generation, by the ids of the results.

    If a kept result shares other fields than in earlier generations of pages, it is replaced by a new result whose
    fields originate from it.
    """
    by_id = {result.id: result for result in stored.results}
    for place, (number, result) in enumerate(zip(ids, wanted.results, strict=True)):
        names = [each.partition(SAME) for each in result.partial]
        partial = [f"{name}{same}{ids[int(other) - 1]}" if same else name for name, same, other in names]
        held = by_id[number]
        if held.partial == partial:
            continue
        if any(number in of for generation, of in stored.generations.items() if generation != stored.generation):
            origin: list[list[int] | None] = [[number, field] for field in range(len(partial))]
            held = replace(held, id=1 + max(by_id), partial=partial, since=[*held.since], origin=origin, code="")
            by_id[held.id] = held
            stored.results.append(held)
            stored.generations[stored.generation][place] = held.id
        else:
            held.partial = partial


def _prune(stored: Header) -> None:
    """Remove generations without pages, and results that no remaining generation has or reads from."""
    used = {entry[4] for entry in (*stored.fresh, *stored.late)} | {stored.generation}
    used |= {entry[4] for entries in stored.lists.values() for entry in entries}
    for group in stored.slice_groups.values():
        used |= {entry[4] for entry in group.loose} | {run[4] for run in group.runs()}
    stored.generations = {number: ids for number, ids in stored.generations.items() if number in used}
    kept = {number for ids in stored.generations.values() for number in ids}
    by_id, waiting = {result.id: result for result in stored.results}, list(kept)
    while waiting:
        for source in by_id[waiting.pop()].origin:
            if source is not None and source[0] not in kept:
                kept.add(source[0])
                waiting.append(source[0])
    stored.results = [result for result in stored.results if result.id in kept]
