"""Count windows: after each `advance` records of a key, its last `size` ones."""

from slicing.windows.counting import counting

from ..kind import PARTIALS, RECORDS, Kind, Place


class Counting(Kind):
    """Windows that end at each multiple of the advance, by the number of records."""

    grows = keeps = True
    late_details = False

    def definition(self, records):
        size, advance = self.window.size, self.window.advance
        ends = range(advance, len(records) + 1, advance)
        return {Place(max(1, end - size + 1), end + 1): list(records[max(0, end - size) : end]) for end in ends}

    def looked_up(self, windows, records, accepts):
        """The windows that are not full, with the records that they have so far."""
        size, advance = self.window.size, self.window.advance
        ends = range(len(records) // advance * advance + advance, len(records) + size, advance)
        found = {Place(max(1, end - size + 1), len(records) + 1): records[max(0, end - size) :] for end in ends}
        return {place: held for place, held in found.items() if held}

    def closed(self, place, until):
        """A window is full when its last record comes."""
        return True


def some(rng):
    """Windows of one record, of all, or of any number."""
    size, advance = rng.choice([(1, 1), (40, 10), (size := rng.randrange(1, 30), rng.randrange(1, size + 1))])
    return Counting(counting(size, advance))


KINDS = {
    "counting": lambda rng: Counting(counting(5)).over(PARTIALS, RECORDS),
    "counting, overlapping": lambda rng: Counting(counting(7, 3)),
    "counting, of each": lambda rng: Counting(counting(10, 1)),
    "counting, with a ttl": lambda rng: Counting(counting(6, 4, ttl="20 milliseconds")).over(PARTIALS, RECORDS),
    "counting, any": lambda rng: some(rng).over(PARTIALS, RECORDS),
}
