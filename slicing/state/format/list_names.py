"""The names of all lists of pages in a header, except fresh pages, slice groups and late pages.

A name has three parts: the id of the family (left out if it is 0, or if the list belongs to no family), the kind of
the list, and the name of the list within its kind::

    two total              the total of the two-layer tree of family 0
    1 three suffix 17      a node of the three-layer tree of family 1
    early pending          the records since the last early firing
    1 early memory         the memory of a trigger for the pairs of family 1
    window 17              an eager window

Pages of `TREES`, `WINDOW`, `TOTALS`, `COUNTED`, `INSTANTS` and `SESSIONS` hold partials; those of `TREES` are caches.
All other pages hold marks: rows of keys without partials. Some marks have additional columns: rows of `MEMORY` and
`KEYS` three numbers, rows of `VALUES` two more than these, rows of `STATE` the fields in the header, and rows of
`STATES` the fields in the layout.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TWO_LAYER, THREE_LAYER, RUNNING, TAILED = "two", "three", "running", "tailed"
TREES = (TWO_LAYER, THREE_LAYER, RUNNING, TAILED)
"""The kinds of the nodes of trees. Each tree chooses the names of its nodes."""
LATE, ROWS = "late", "rows"
"""Late rows of entered slices that the nodes of a family do not hold yet."""
EARLY, PENDING, COUNTS, MEMORY, KEYS, STATE, VALUES = "early", "pending", "counts", "memory", "keys", "state", "values"
"""Lists of early triggers: the slices of keys with records that have not been emitted; the record counts of open
slices; the memory of conditions for open pairs, and for keys; the state of a user's trigger; the memory of conditions
together with values."""
WINDOW = "window"
"""The windows of eager results, by window number."""
LATEST, SLICE = "newest", "slice"
"""The newest slice of each key, for eager windows if only the latest window is emitted."""
LATER, MARKED = "later", "marked "
"""The later slices of eager windows, by window number; and a list without pages whose name has the first such number.
"""
TOTALS, COUNTED, INSTANTS = "totals", "counted", "instants"
"""One list each: all rows of an unbounded window, of count windows, and of sliding windows."""
RECENT = "recent"
"""The slices with records that windows without records may follow."""
SESSIONS, EMITTED, ENDED = "sessions", "shown", "ended"
"""One list each: the rows of open sessions, the extents of emitted sessions, and the records that end sessions."""

STATES, OF_KEY, OF_WINDOW = "states", "key", "window"
"""The states of functions, by key and by window."""

_NODE = r"total|whole|late wholes|run|start|between|(suffix|stripe|rest) -?\d+|late (suffix|between)"
_WHICH = {
    **dict.fromkeys(TREES, _NODE),
    LATE: ROWS,
    EARLY: rf"{PENDING}|{COUNTS}|{MEMORY}|{KEYS}|{STATE}|{VALUES}",
    WINDOW: r"-?\d+",
    LATEST: SLICE,
    LATER: r"-?\d+",
    MARKED.strip(): r"-?\d+",
    STATES: rf"{OF_KEY}|{OF_WINDOW}",
    **{name: name for name in (RECENT, TOTALS, COUNTED, INSTANTS, SESSIONS, EMITTED, ENDED)},
}
"""The pattern of the name within each kind of list."""
_NAME = re.compile(r"(?:(\d+) )?(\w+) (.+)")


@dataclass(frozen=True)
class ListName:
    """The parts of a name: the id of the family, the kind of the list, and its name within the kind."""

    family: int
    of: str
    which: str


def of_family(family: int) -> str:
    """Return the prefix of the names of the lists of a family, by its id.

    >>> of_family(0), of_family(2)
    ('', '2 ')
    """
    return f"{family} " if family else ""


def parse(name: str) -> ListName:
    """Return the parts of a name. Raises ValueError if no list can have the name.

    >>> parse("1 three suffix 17")
    ListName(family=1, of='three', which='suffix 17')
    """
    found = _NAME.fullmatch(name)
    if found is None or not re.fullmatch(_WHICH.get(found[2], "(?!)"), found[3]):
        raise ValueError(f"no list of pages is called {name!r}")
    return ListName(int(found[1] or 0), found[2], found[3])
