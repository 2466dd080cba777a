"""The two strategies: what the first stage ships, and what is done with it behind the shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slicing.assembly import EAGER, Windows, assemble
from slicing.blocks import Block, Shape, decode, fold
from slicing.eager import EagerBucket, Records, all_windows, decode_records
from slicing.emission import Emission
from slicing.pages import Store
from slicing.spark.preaggregate import PreAggregate, Ship
from slicing.state import Bucket


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

    def bucket(self, grace: int, fingerprint: dict[str, str], store: Store, emission: Emission) -> Bucket:
        """The state of a bucket on a stream."""
        return Bucket(self.shape, self.trees, grace, fingerprint, store, emission)

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

    def bucket(self, grace: int, fingerprint: dict[str, str], store: Store, emission: Emission) -> EagerBucket:
        """The state of a bucket on a stream."""
        return EagerBucket(self.shape, self.arguments, grace, fingerprint, store, emission)

    def all_windows(self, shipped: Sequence[Records]) -> Iterator[Windows]:
        """All windows of a bucket of bounded input."""
        return all_windows(self.shape, self.arguments, shipped)


def strategy(shape: Shape, trees: tuple[str, ...], arguments: tuple[tuple[int, ...], ...]) -> Sliced | Eager:
    """The strategy for these trees."""
    return (Eager if EAGER in trees else Sliced)(shape, trees, arguments)
