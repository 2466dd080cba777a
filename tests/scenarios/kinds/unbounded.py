"""One window for each key, which never closes."""

from slicing.windows.time.edges import AFTER, BEFORE
from slicing.windows.unbounded import unbounded

from ..kind import Kind, Place


class Unbounded(Kind):
    """All records of a key since it began."""

    keeps = True
    late_details = False

    def definition(self, records):
        return {Place(BEFORE, AFTER): list(records)} if records else {}

    def closed(self, place, until):
        return False


KINDS = {
    "unbounded": lambda rng: Unbounded(unbounded()),
    "unbounded, with a ttl": lambda rng: Unbounded(unbounded("20 milliseconds")),
}
