"""Where a live change lets windows and results begin: what the state names, if the raw records allow it.

::

    records        *  * **  |  *          a change; a record before the watermark may have been refused
    open windows      [=====|===)
    added windows     [=====|=====)       the first one begins with the oldest open window, or later
    added result            |  [===)      null in windows that hold a record of before

Between what is sound and what is promised the state has a choice only where slices are merged, retained, or not there.
"""

from slicing.windows.time.cut import refines
from slicing.windows.time.slices import FOREVER

from .kind import PARTIALS, Place


def begun(made, before):
    """Return the first of each of the windows that are added, and since when windows have each result.

    `before` has the values of the scenario before the change, which its state is still of.
    """
    head, since = _opened(made)
    old = Old(made, before)
    first = {}
    for state, part in zip(head.families, made.kind.parts, strict=True):
        if repr(part.window) not in old.windows:
            window, own = max(state.next_to_fire, state.retained_from), part.window.family
            first[repr(part.window)] = place = Place(int(own.window_start(window)), int(own.window_end(window)))
            old.check_first(part, place)
    held = dict(zip(zip(before["names"], before["eager"], strict=True), before["since"], strict=True))
    for at, result in enumerate(zip(made.names, made.eager, strict=True)):
        if result in held:
            assert since[at] == held[result], "a result stays as it is"
        else:
            old.check_since(since[at])
    made.fine = old.fine
    made.merged = old.merged
    return first, list(since[: len(made.names)])


def _opened(made):
    """Return the header of the state as the changed query finds it, and since when windows have its results."""
    with made.store.counting_nothing():
        bucket = made.bucket()
        return bucket.head, bucket.coverage.results


class Old:
    """What the records say of the query before a change."""

    def __init__(self, made, before):
        self.made, self.call, self.retain = made, made.call, before["retain"]
        self.windows = {repr(part.window) for part in before["kind"].parts}
        self.is_eager = before["content"] != PARTIALS
        times = [record.time for held in self.call.accepted().values() for record in held]
        self.newest = max(times, default=None)
        self.open = [_first_accepting(each) for each in self.call.parts] if before["kind"].timed else []
        self.open = [place for place in self.open if place is not None]
        self.fine, self.merged = before["fine"], before["merged"]
        if self.newest is not None and self.open and not has_edges_of(before["kind"], made.kind):
            self.fine = self.frontier
        if any("tail" in each for each in self.windows):
            self.merged = max([self.merged, *(place.end for place in self.open)])

    @property
    def frontier(self):
        """The latest of the instants after the newest record at which windows begin."""
        after = (part.kind.first_from(self.newest + 1, self.newest + 1) for part in self.call.parts)
        return max((place.start for place in after if place is not None), default=FOREVER)

    def check_first(self, part, place):
        """Assert that added windows begin early enough, and that they hold no record that was refused."""
        made, begin = self.made, min((each.start for each in self.open), default=-FOREVER)
        passed = 1000 * self.call.watermark - made.trigger.wait(made.grace)
        assert not part.closed(place, passed), "windows that have ended are not emitted"
        if not self.retain:
            assert place.start >= begin, "records before it may have been refused"
        by_end = int(part.window.family.closed_right)  # then a record at the start of a window is not in it
        assert place.start > max(self.call.refused, default=-FOREVER) - by_end
        if part.window.wide or made.kind.window.wide:
            passed = max([passed, *(each.gone for each in self.call.parts if repr(each.kind.window) in self.windows)])
        frontier = [self.frontier] if self.is_eager and self.newest is not None else []
        latest = max([begin, self.fine, self.merged, *frontier])
        wanted = part.first_from(latest, max(passed, made.warm)) if latest < FOREVER else None
        assert wanted is None or place <= wanted, (place, wanted)

    def check_since(self, since):
        """Assert that windows have an added result if they hold no earlier record, and only then."""
        if self.newest is None:
            return
        held = set()
        for part in self.call.parts:
            for key, place in part.pairs(lambda place, part=part: part.accepts(place) or not part.has_fired(place)):
                of_records = part.kind.keeps and not part.kind.grows  # windows that come later may begin at their times
                held |= {each.time for each in part.windows[key][place]} if of_records else {place.start}
        assert not held or since > max(held), (since, max(held))
        if since is not None and self.open:
            assert min(since, FOREVER) <= self.frontier, (since, self.frontier)


def has_edges_of(kind, other):
    """Whether slices of a kind have all edges of those of another kind."""
    held, wanted = (each.window.family.cut.sequences for each in (kind, other))
    return all(any(refines(edges, each) for edges in held) for each in wanted)


def lack(parts):
    """Whether there is a row, of windows of all parts, that is before the first one of a part that was added."""
    ends = []
    for each in parts:
        first = each.first or Place(-FOREVER, -FOREVER)
        found = each.kind.first_from(first.start, max(first.end - 1, each.gone))
        ends += [found.end] if found is not None else []
    return len({*ends}) > 1


def _first_accepting(expected):
    """The oldest window that accepts records."""
    first = expected.first or Place(-FOREVER, -FOREVER)
    return expected.kind.first_from(first.start, max(expected.refusing, first.end - 1))
