"""The names of all lists of pages that a header may have, beside its fresh pages, stripes and late pages.

A name has the id of its family, unless that is 0 or the list is of no family, what the list is of, and which one of
those it is::

    two total              the total of the two-layer tree of family 0
    1 three suffix 17      a node of the three-layer tree of family 1
    early pending          what has come and has not been emitted early
    1 early memory         what a trigger remembers of pairs of family 1
    window 17              an eager window

Pages of `TREES`, `WINDOW`, `TOTALS`, `COUNTED`, `INSTANTS` and `SESSIONS` hold partials, those of `TREES` are caches.
All others are marks: rows of keys without partials. Rows of `MEMORY` and `KEYS` have three numbers behind those, rows
of `VALUES` two more, of `STATE` the fields that the header names, and those of `STATES` the fields that the layout
names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TWO_LAYER, THREE_LAYER, RUNNING, TAILED = "two", "three", "running", "tailed"
TREES = (TWO_LAYER, THREE_LAYER, RUNNING, TAILED)
"""The nodes of trees, which name them themselves."""
LATE, ROWS = "late", "rows"
"""What the nodes of a family do not hold yet of slices that have entered."""
EARLY, PENDING, COUNTS, MEMORY, KEYS, STATE, VALUES = "early", "pending", "counts", "memory", "keys", "state", "values"
"""Which slices of which keys have records that have not been emitted; how many records open slices have; what triggers
remember of open pairs, and of keys; the state of a trigger of a user's own; what is remembered with values."""
WINDOW = "window"
"""The windows of eager results, by their numbers."""
LATEST, SLICE = "newest", "slice"
"""The newest slice of each key, of eager windows of which only the newest is emitted."""
LATER, MARKED = "later", "marked "
"""The later slices of eager windows, by the number of the window; and, as a list without pages, from which one on."""
TOTALS, COUNTED, INSTANTS = "totals", "counted", "instants"
"""All rows of a window that never closes, of counted windows and of sliding ones, in one list each."""
SESSIONS, EMITTED, ENDED = "sessions", "shown", "ended"
"""The rows of open sessions, the extents of those that have been emitted, and the records that end theirs: a list
each."""

STATES, OF_KEY, OF_WINDOW = "states", "key", "window"
"""What functions remember of keys, and of windows."""

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
    **{name: name for name in (TOTALS, COUNTED, INSTANTS, SESSIONS, EMITTED, ENDED)},
}
"""What follows the name of each kind of list."""
_NAME = re.compile(r"(?:(\d+) )?(\w+) (.+)")


@dataclass(frozen=True)
class ListName:
    """A name in its parts: the id of a family, what the list is of, and which one it is."""

    family: int
    of: str
    which: str


def of_family(family: int) -> str:
    """Return how the names of the lists of a family begin, by its id.

    >>> of_family(0), of_family(2)
    ('', '2 ')
    """
    return f"{family} " if family else ""


def parse(name: str) -> ListName:
    """Return the parts of a name. Raises ValueError for one that no list has.

    >>> parse("1 three suffix 17")
    ListName(family=1, of='three', which='suffix 17')
    """
    found = _NAME.fullmatch(name)
    if found is None or not re.fullmatch(_WHICH.get(found[2], "(?!)"), found[3]):
        raise ValueError(f"no list of pages is called {name!r}")
    return ListName(int(found[1] or 0), found[2], found[3])
