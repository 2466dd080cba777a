"""The two strategies: what the first stage ships, and what is done with it behind the shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slicing.assembly import EAGER, Windows, assemble
from slicing.blocks import Block, Shape, decode, fold
from slicing.eager import EagerBucket, Records, decode_records
from slicing.spark.preaggregate import PreAggregate, Ship
from slicing.state import FOREVER, Bucket, Store


@dataclass(frozen=True)
class Sliced:
    """Partials of slices are shipped, windows are assembled from them."""

    shape: Shape
    trees: tuple[str, ...]
    arguments: tuple[tuple[int, ...], ...]

    def first_stage(self, labels: tuple[int, ...]) -> PreAggregate:
        """The function for `mapInArrow` before the shuffle."""
        return PreAggregate(self.shape, self.arguments, labels)

    def decode(self, data: bytes) -> Block:
        """What the first stage shipped."""
        return decode(self.shape, data)

    def bucket(self, grace: int, fingerprint: dict[str, str], store: Store) -> Bucket:
        """The state of a bucket on a stream."""
        return Bucket(self.shape, self.trees, grace, fingerprint, store)

    def all_windows(self, shipped: Sequence[Block]) -> Iterator[Windows]:
        """All windows of a bucket of bounded input."""
        return assemble(self.shape, self.trees, fold(self.shape, shipped))


@dataclass(frozen=True)
class Eager:
    """Records are shipped and folded into every window that covers them."""

    shape: Shape
    trees: tuple[str, ...]
    arguments: tuple[tuple[int, ...], ...]

    def first_stage(self, labels: tuple[int, ...]) -> Ship:
        """The function for `mapInArrow` before the shuffle."""
        return Ship(self.shape, labels)

    def decode(self, data: bytes) -> Records:
        """What the first stage shipped."""
        return decode_records(self.shape, data)

    def bucket(self, grace: int, fingerprint: dict[str, str], store: Store) -> EagerBucket:
        """The state of a bucket on a stream."""
        return EagerBucket(self.shape, self.arguments, grace, fingerprint, store)

    def all_windows(self, shipped: Sequence[Records]) -> Iterator[Windows]:
        """All windows of a bucket of bounded input."""
        bucket = self.bucket(0, {}, MemoryStore())
        bucket.head.done = -FOREVER
        bucket.add(shipped)
        return bucket.drain(FOREVER)


class MemoryStore:
    """State that lives as long as the object; `slicing.state.Store`."""

    def __init__(self) -> None:
        self._header: str | None = None
        self.pages: dict[str, str] = {}

    def header(self) -> str | None:
        """The header, None before it was written."""
        return self._header

    def put_header(self, text: str) -> None:
        """Write the header."""
        self._header = text

    def get(self, page: str) -> str:
        """Read a page."""
        return self.pages[page]

    def put(self, page: str, text: str) -> None:
        """Write a page."""
        self.pages[page] = text

    def remove(self, page: str) -> None:
        """Remove a page."""
        del self.pages[page]


def strategy(shape: Shape, trees: tuple[str, ...], arguments: tuple[tuple[int, ...], ...]) -> Sliced | Eager:
    """The strategy for these trees."""
    return (Eager if EAGER in trees else Sliced)(shape, trees, arguments)
