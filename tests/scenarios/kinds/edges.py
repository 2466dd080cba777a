"""Windows of one's own: window i is `[starts(i), ends(i))`."""

from slicing.windows.families.stepped import Stepped
from slicing.windows.time.edges import Every
from slicing.windows.window import Timed, by_edges

from ..kind import CONTENTS, MS, Numbered, Place


class Between(Numbered):
    """Windows between edges that a function of their number gives."""

    def edges(self, number):
        return self.spec[0](number)

    def near(self, time):
        return self.spec[1](time)


class Listed(Between):
    """Windows between so many edges."""

    is_endless = False


def listed(starts, ends):
    """Windows between two lists, some of them equal, some with gaps between them."""
    places = [Place(start * MS, end * MS) for start, end in zip(starts, ends, strict=True)]
    window = by_edges([start for start, _ in places], [end for _, end in places])
    edges = (lambda number: places[number] if 0 <= number < len(places) else None), lambda _: range(len(places))
    return Listed(window, step=3 * MS, reach=30 * MS, spec=edges)


def regular(advance, length):
    """Windows by arithmetic of one's own."""
    window = by_edges(Every(advance * MS), Every(advance * MS, length * MS))
    edges = (
        lambda number: Place(number * advance * MS, number * advance * MS + length * MS),
        lambda time: range((time - length * MS) // (advance * MS) - 1, time // (advance * MS) + 2),
    )
    return Between(window, step=advance * MS // 2, reach=length * MS, spec=edges)


def stepped(step, length, shift):
    """Windows of so many slices of 2 ms, as those by a wall clock are, which may leave gaps."""
    window = Timed(Stepped(Every(2 * MS), step, length, shift), f"stepped({step}, {length}, {shift})")
    edges = (
        lambda number: Place((number * step + shift) * 2 * MS, (number * step + shift + length) * 2 * MS),
        lambda time: range((time // (2 * MS) - length - shift) // step - 1, time // (2 * MS) // step + 2),
    )
    return Between(window, step=2 * step * MS, reach=2 * length * MS, spec=edges)


KINDS = {
    "in steps": lambda rng: stepped(2, 5, 1),
    "in steps, gaps": lambda rng: stepped(3, 2, 0),
    "by lists": lambda rng: listed([0, 10, 25, 25, 60, 75, 90], [8, 30, 40, 41, 90, 90, 200]).over(*CONTENTS),
    "by edges": lambda rng: regular(7, 17),
}
