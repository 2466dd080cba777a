"""Tumbling and hopping windows: `[offset + i * advance, offset + i * advance + size)` for every integer i."""

from slicing.windows.window import Hopping

from ..kind import CONTENTS, MS, Numbered, Place


class Even(Numbered):
    """Windows of one length, one every advance."""

    takes_trees = True

    @classmethod
    def of(cls, size, advance, offset=0, begin=0):
        window = Hopping(size * MS, advance * MS, offset * MS)
        return cls(window, begin, advance * MS, size * MS)

    def other(self, rng):
        return over_edges(rng, self.window.advance // MS, self.window.offset // MS)

    def edges(self, number):
        start = self.window.offset + number * self.window.advance
        return Place(start, start + self.window.size)

    def near(self, time):
        first, last = ((time - back - self.window.offset) // self.window.advance for back in (self.window.size, 0))
        return range(first - 1, last + 2)


def over_edges(rng, distance, offset):
    """Any windows whose edges are some of those that are so far apart, in milliseconds."""
    size, advance = distance * rng.randrange(1, 12), distance * rng.choice([1, 1, 2, 3])
    return Even.of(size, advance, (offset + distance * rng.randrange(3)) % advance)


def some(rng):
    """Any windows: overlapping ones, few or many for a record, with and without gaps."""
    size = rng.randrange(1, rng.choice([40, 40, 80]))
    divisors = [each for each in range(1, size + 1) if size % each == 0]
    advance = rng.choice([rng.randrange(1, 50), rng.randrange(1, 5), rng.choice(divisors)])
    return Even.of(size, advance, rng.randrange(-100, 100) % advance, rng.choice([0, -100 * MS, 10**7 * MS]))


KINDS = {
    "tumbling": lambda rng: Even.of(7, 7, begin=-30 * MS),
    "hopping": lambda rng: Even.of(12, 1),
    "hopping, not a multiple": lambda rng: Even.of(10, 3, 1),
    "hopping, gaps": lambda rng: Even.of(4, 10).over(*CONTENTS),
    "hopping, any": lambda rng: some(rng).over(*CONTENTS),
}
