"""How keys are spread over buckets, as state says it: by the number of buckets alone.

Labels of buckets are chosen so that they lie evenly in Spark's shuffle. Those of a checkpoint from before version 0.3
are even over the number of partitions that there was then; all others are even over each divisor of their own number.
"""

from __future__ import annotations

from dataclasses import dataclass

_OVER, _END = " over ", " shuffle partitions"


@dataclass(frozen=True)
class Buckets:
    """A number of buckets; `over` is how many partitions their labels are even over, None for all divisors."""

    count: int
    over: int | None = None

    def __str__(self) -> str:
        """How an option says it."""
        return f".buckets({self.count})" if self.over is None else f".buckets({self.count}, over={self.over})"

    @property
    def even_over(self) -> int:
        """The number of partitions that labels are chosen for."""
        return self.over or self.count

    @property
    def text(self) -> str:
        """How a fingerprint says it: labels are the same for as many partitions as buckets, and where there is one."""
        alike = self.count == 1 or self.even_over == self.count
        return str(self.count) if alike else f"{self.count}{_OVER}{self.over}{_END}"

    @classmethod
    def of(cls, text: str) -> Buckets:
        """Return what a fingerprint says, also one of an earlier version.

        >>> Buckets.of("8 over 8 shuffle partitions").text, Buckets.of("64 over 8 shuffle partitions").text
        ('8', '64 over 8 shuffle partitions')
        """
        count, _, over = text.removesuffix(_END).partition(_OVER)
        found = cls(int(count), int(over) if over else None)
        return cls(found.count) if found.text == count else found

    @classmethod
    def is_one(cls, text: str) -> bool:
        """Whether a text is that of a fingerprint."""
        return all(part.isdecimal() for part in text.removesuffix(_END).split(_OVER))


def canonical(text: str) -> str:
    """Return a text of a fingerprint as this version writes it; what is none stays."""
    return Buckets.of(text).text if Buckets.is_one(text) else text
