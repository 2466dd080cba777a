"""The number of buckets of a checkpoint, and the number of shuffle partitions that its labels are spread over.

Labels of buckets are chosen so that Spark's shuffle spreads the buckets evenly over partitions. In checkpoints from
before version 0.3 they are even over the number of shuffle partitions at that time. In all others they are even over
every divisor of the number of buckets.
"""

from __future__ import annotations

from dataclasses import dataclass

from slicing.state.format.labels import labels

_OVER, _END = " over ", " shuffle partitions"


@dataclass(frozen=True)
class Buckets:
    """A number of buckets. Their labels are even over `over` partitions, or, if it is None, over each divisor."""

    count: int
    over: int | None = None

    def __str__(self) -> str:
        """Return the arguments of the call of the builder that sets these buckets."""
        return f"{self.count}" if self.over is None else f"{self.count}, over={self.over}"

    @property
    def even_over(self) -> int:
        """Return the number of partitions that labels are chosen for."""
        return self.over or self.count

    @property
    def labels(self) -> tuple[int, ...]:
        """Return the labels of these buckets, in the order of their numbers."""
        return labels(self.count, self.even_over)

    @property
    def text(self) -> str:
        """Return the text of these buckets in a fingerprint.

        `over` is left out if it makes no difference: if it equals the number of buckets, or there is a single bucket.
        """
        alike = self.count == 1 or self.even_over == self.count
        return str(self.count) if alike else f"{self.count}{_OVER}{self.over}{_END}"

    @classmethod
    def of(cls, text: str) -> Buckets:
        """Return the buckets of a text of a fingerprint, also of an earlier version.

        >>> Buckets.of("8 over 8 shuffle partitions").text, Buckets.of("64 over 8 shuffle partitions").text
        ('8', '64 over 8 shuffle partitions')
        """
        count, _, over = text.removesuffix(_END).partition(_OVER)
        found = cls(int(count), int(over) if over else None)
        return cls(found.count) if found.text == count else found

    @classmethod
    def is_one(cls, text: str) -> bool:
        """Whether a text of a fingerprint describes buckets."""
        return all(part.isdecimal() for part in text.removesuffix(_END).split(_OVER))


@dataclass(frozen=True)
class BucketName:
    """The name of a bucket in messages: its number, from 0 as `.buckets(n)` counts. It is found when it is shown.

    `buckets` is the text of a fingerprint; if it does not describe buckets, the label takes the place of the number.

    >>> str(BucketName(2, "2")), str(BucketName(7, ""))
    ('bucket 1', 'bucket 7')
    """

    label: int
    buckets: str

    @property
    def number(self) -> int:
        """Return the number of the bucket."""
        known = Buckets.of(self.buckets).labels if Buckets.is_one(self.buckets) else ()
        return known.index(self.label) if self.label in known else self.label

    def __str__(self) -> str:
        return f"bucket {self.number}"


def canonical(text: str) -> str:
    """Return a text of a fingerprint as this version writes it. Other texts are returned unchanged."""
    return Buckets.of(text).text if Buckets.is_one(text) else text
