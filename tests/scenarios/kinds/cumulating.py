"""Cumulating windows: `[k * size, k * size + i * step)` for i = 1 .. size / step."""

from slicing.windows.window import cumulating

from ..kind import CONTENTS, MS, Numbered, Place


class Cumulating(Numbered):
    """Windows of a period that end at each step."""

    @classmethod
    def of(cls, size, step, offset=0):
        window = cumulating(f"{size} milliseconds", f"{step} milliseconds", offset=f"{offset} milliseconds")
        return cls(window, step=step * MS, reach=size * MS, spec=(size * MS, step * MS, offset * MS))

    def edges(self, number):
        size, step, offset = self.spec
        period, index = divmod(number, size // step)
        start = offset + period * size
        return Place(start, start + (index + 1) * step)

    def near(self, time):
        size, step, offset = self.spec
        period = (time - offset) // size
        return range(period * (size // step), (period + 1) * (size // step))


KINDS = {
    "cumulating": lambda rng: Cumulating.of(6, 2).over(*CONTENTS),
    "cumulating, long": lambda rng: Cumulating.of(60, 1, 30),
}
