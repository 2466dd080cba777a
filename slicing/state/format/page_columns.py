"""The lists and the column counts of pages, computed from the header alone, without the aggregates of the query."""

from __future__ import annotations

from collections.abc import Iterator

from slicing.state.format.header import PER_GROUP, Entry, Header
from slicing.state.format.list_names import COUNTED, INSTANTS, SESSIONS, TOTALS, WINDOW, parse

OWN = 3
"""The columns of every row: slice, step to the key, records."""
_PARTIALS, _WINDOWS = "partials", "windows"
_MARKS = {COUNTED: 2, SESSIONS: 1}
"""The number of additional columns of an engine, after the columns of the results."""


def columns_of(head: Header) -> dict[str, int]:
    """Return the number of columns of each page by its name. Pages of caches and marks are left out."""
    found = {f"p{entry[0]}": _count(head, entry[4], _PARTIALS) for entry in _of_slices(head)}
    length = head.layout.get(PER_GROUP, 0)
    for key, group in head.slice_groups.items():
        for first, _, pages, generation in group.cuts:
            columns = _count(head, generation, _PARTIALS)
            found |= {f"c{key * length + first}.{part}": columns for part in range(pages)}
    for name, entries in head.lists.items():
        of = parse(name).of
        if of == COUNTED and any(result.content == _WINDOWS for result in head.results):
            continue  # such pages hold records, whose columns are not in the header
        if of in (COUNTED, INSTANTS, SESSIONS, TOTALS, WINDOW):
            contents = (_WINDOWS,) if of == WINDOW else (_PARTIALS, _WINDOWS)
            for entry in entries:
                columns = sum(_count(head, entry[4], each) - OWN for each in contents)
                found[f"p{entry[0]}"] = OWN + columns + _MARKS.get(of, 0)
    return found


def lists_of(head: Header) -> dict[str, str]:
    """Return the name of the list of each page that is in one, by the name of the page."""
    return {f"p{entry[0]}": name for name, entries in head.lists.items() for entry in entries}


def _of_slices(head: Header) -> Iterator[Entry]:
    yield from head.fresh
    yield from head.late
    for group in head.slice_groups.values():
        yield from group.loose


def _count(head: Header, generation: int, content: str) -> int:
    return OWN + len(head.columns(generation, content))
