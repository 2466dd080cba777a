"""What a kind of windows says of itself: its definition, and a few flags in which kinds differ."""

from bisect import insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import count, islice
from operator import attrgetter
from typing import Any, NamedTuple

from slicing.errors import InvalidValue
from slicing.stages.support_of import support_of
from slicing.windows.window import Window

MS = 1000
"""Times and lengths are in microseconds."""
ORDER = attrgetter("order")
MANY = 10_000
"""So many windows are tried to find the first one of some."""
PARTIALS, RECORDS, MIXED = CONTENTS = ("partials", "records", "mixed")
"""What the state holds: partials, records folded into each window (eager), or both, in turns."""


class Record(NamedTuple):
    """A record of a key; `order` is its place among the others, `number` tells it from all others."""

    time: Any
    key: Any
    value: Any
    gap: Any = 0
    number: int = 0
    order: tuple = ()
    span: Any = None


def marked(record):
    """The condition of triggers that ask for one, `when`; of null it is not true."""
    return record.value is not None and record.value % 5 == 0


class Place(NamedTuple):
    """A window `[start, end)` of a key."""

    start: int
    end: int


@dataclass(eq=False)
class Kind:
    """Windows by definition. A new kind is a subclass with `definition`, and the flags in which it differs.

    Streams begin at `begin`; `step` is about the distance of two windows, `reach` the length of one. `spec` is what a
    definition needs beside the window.
    """

    window: Window
    begin: int = 0
    step: int = 2 * MS
    reach: int = 10 * MS
    spec: tuple = ()
    contents: tuple = (PARTIALS,)

    results = ("sum", "highest", "joined")  # of aggregates as `oracle.CASES` has them
    separate = True  # which windows hold a record does not depend on the other records
    grows = False  # a window with another interval is another window, and takes the place of those in it
    splits = False  # of these, a record may move the edges of several windows, and all new ones are judged together
    keeps = False  # records matter even if their windows have closed
    counts_all = True  # rows count all records of a window that is open, not the new ones alone
    is_endless = True  # there is a window after each one
    timed = False  # time alone decides on windows: one that has closed is what its records make
    gaps = (0,)  # what records bring beside their values
    takes_trees = False  # one may ask for a tree over slices
    late_details = True  # late rows say how many windows were closed, and which one was the first that accepted them

    def definition(self, records: Sequence[Record]) -> dict[Place, list[Record]]:
        """All windows of the records of one key that hold a record, with these."""
        raise NotImplementedError

    def extended(self, windows: dict[Place, list[Record]], new: Sequence[Record], records: Sequence[Record]):
        """The windows of a key after new records, which are the last of all of them."""
        return self.definition(in_order(records))

    def holding_of(self, record: Record, records: Sequence[Record]) -> list[Place]:
        """The windows that hold a record; `records` are those that decide, it is one of them."""
        return [place for place, held in self.definition(in_order(records)).items() if record.number in numbers(held)]

    def makes(self, record: Record, place: Place) -> bool:
        """Whether a window is there because of a record, even if it does not hold it."""
        return False

    def first_from(self, start: int, end: int) -> Place | None:
        """The first window that begins at an instant or later and ends after another one, None if there is none."""
        raise NotImplementedError

    def next(self, place: Place) -> Place:
        """The window after another one, for windows that follow one another whatever the records."""
        raise NotImplementedError

    def closed(self, place: Place, until: int) -> bool:
        """Whether a window has ended by a time."""
        return place.end <= until

    def waits(self, record: Record, windows: dict[Place, list[Record]], is_open) -> bool:
        """Whether a record still counts towards an early firing: as long as a window is open that holds it."""
        return any(is_open(place) for place, held in windows.items() if record in held)

    def looked_up(
        self, windows: dict[Place, list[Record]], records: Sequence[Record], accepts
    ) -> dict[Place, list[Record]]:
        """What a lookup has to give of the windows of a key, which hold all of its records: those that accept some."""
        return {place: held for place, held in windows.items() if held and accepts(place)}

    def gives_way(self, gone: Place, place: Place, held: Sequence[Record]) -> bool:
        """Whether a window that has fired is taken back when another one fires, given the records of that one."""
        return place.start <= gone.start and gone.end <= place.end

    def other(self, rng) -> "Kind | None":
        """A kind whose windows have edges of this one's slices, None if there is no such kind."""
        return None

    def is_kept(self, edge: int) -> bool:
        """Whether the slices on both sides of an edge stay apart, as long as they are stored."""
        return True

    def is_valid(self, record: Record) -> bool:
        """Whether a record can be in a window at all."""
        return record.time is not None

    def instant(self, record: Record) -> int:
        """The event time of a record, as the windows have it that hold it."""
        return record.time

    def around(self, records: Sequence[Record], record: Record) -> Sequence[Record]:
        """Those that decide which windows hold a record; all of its key, or fewer."""
        return records

    def settled(self, record: Record, place: Place) -> Record:
        """A record after its micro-batch, which may have another place among those of later ones."""
        return record

    @property
    def parts(self) -> tuple["Kind", ...]:
        """The kinds that share slices in one call."""
        return (self,)

    @property
    def leads(self) -> tuple["Kind", ...]:
        """Those of these with rows of their own; others are beside them, in the row of the same end."""
        return self.parts

    @property
    def accepting(self) -> "Kind":
        """The kind whose windows say which records are accepted."""
        return self

    def over(self, *contents) -> "Kind":
        """The same windows over other contents of the state."""
        return replace(self, contents=contents)

    def allows(self, trigger) -> bool:
        """Whether a query with this trigger is accepted."""
        try:
            support_of(self.window).check("auto", False, trigger, True)
        except InvalidValue:
            return False
        return True


class Numbered(Kind):
    """Windows that time alone decides, one after another: a subclass gives the edges of each."""

    counts_all = False
    timed = True

    @cached_property
    def numbers(self) -> dict[Place, int]:
        """The numbers of the windows that hold an instant which has been asked for."""
        return {}

    def edges(self, number: int) -> Place | None:
        """The window of a number, None where there is none."""
        raise NotImplementedError

    def near(self, time: int) -> range:
        """The numbers of all windows that may hold an instant."""
        raise NotImplementedError

    def holding(self, time: int) -> dict[Place, int]:
        """The windows that hold an instant, each tried, and their numbers."""
        return _holding(self, time)

    def definition(self, records):
        found = defaultdict(list)
        for record in records:
            for place in self.holding(record.time):
                found[place].append(record)
        return dict(found)

    def holding_of(self, record, records):
        return list(self.holding(record.time))

    def extended(self, windows, new, records):
        """A record changes no window but those that hold it."""
        found = {}
        for place, held in self.definition(new).items():
            found[place] = list(windows.get(place, ()))
            for record in held:
                insort(found[place], record, key=ORDER)
        return windows | found

    def waits(self, record, windows, is_open):
        """The last window that holds a record is the last to close, or one of the last."""
        return any(map(is_open, reversed(self.holding(record.time))))

    def first_from(self, start, end):
        found = (_edges(self, number) for number in count(self.near(max(start, end)).start))
        places = (place for place in islice(found, MANY) if place is not None)
        return next((place for place in places if place.start >= start and place.end > end), None)

    def next(self, place):
        number = self.holding(place.start)[place] + 1
        while self.edges(number) == place:
            number += 1
        return self.edges(number)


def numbers(records: Sequence[Record]) -> set[int]:
    return {record.number for record in records}


def in_order(records: Sequence[Record]) -> list[Record]:
    return sorted(records, key=ORDER)


@cache
def _edges(kind, number):
    return kind.edges(number)


@cache
def _holding(kind, time):
    found = {}
    for number in kind.near(time):
        place = _edges(kind, number)
        if place is not None and place.start <= time < place.end:
            found[place] = number
    kind.numbers.update(found)
    return found
