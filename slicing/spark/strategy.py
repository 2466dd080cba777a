"""The two strategies: what the first stage ships, and what is done with it behind the shuffle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slicing.assembly import EAGER, Windows, assemble
from slicing.blocks import Block, Shape, decode, fold
from slicing.eager import EagerBucket, Records, all_windows, decode_records, fold_records
from slicing.emission import Emission
from slicing.lateness import Late, is_late
from slicing.pages import Store
from slicing.spark.preaggregate import PreAggregate, Ship
from slicing.state import Bucket


@dataclass(frozen=True)
class Sliced:
    """Partials of slices are shipped, windows are assembled from them."""

    shape: Shape
    trees: tuple[str, ...]
    arguments: tuple[tuple[int, ...], ...]

    def first_stage(self, labels: tuple[int, ...], beside: bool = False) -> PreAggregate:
        """The function for `mapInArrow` before the shuffle; with `beside` it ships the records too."""
        return PreAggregate(self.shape, self.arguments, labels, beside)

    def decode(self, data: bytes) -> Block:
        """What the first stage shipped."""
        return decode(self.shape, data)

    def bucket(self, grace: int, fingerprint: dict[str, str], store: Store, emission: Emission) -> Bucket:
        """The state of a bucket on a stream."""
        return Bucket(self.shape, self.trees, grace, fingerprint, store, emission)

    def late_partials(self, late: Late[Block]) -> Block:
        """The partials that a bucket refused."""
        return late.rows

    def late_records(self, late: Late[Block], beside: Iterable[bytes]) -> Iterator[Records]:
        """The records of refused slices, of those that were shipped beside the blocks."""
        for data in beside:
            records = decode_records(self.shape, data)
            yield records.take(np.flatnonzero(is_late(self.shape.slicing, records.slices, late.taking)))

    def all_windows(self, shipped: Sequence[Block]) -> Iterator[Windows]:
        """All windows of a bucket of bounded input."""
        return assemble(self.shape, self.trees, fold(self.shape, shipped))


@dataclass(frozen=True)
class Eager:
    """Records are shipped and folded into every window that covers them."""

    shape: Shape
    trees: tuple[str, ...]
    arguments: tuple[tuple[int, ...], ...]

    def first_stage(self, labels: tuple[int, ...], beside: bool = False) -> Ship:
        """The function for `mapInArrow` before the shuffle, which ships records anyway."""
        return Ship(self.shape, labels)

    def decode(self, data: bytes) -> Records:
        """What the first stage shipped."""
        return decode_records(self.shape, data)

    def bucket(self, grace: int, fingerprint: dict[str, str], store: Store, emission: Emission) -> EagerBucket:
        """The state of a bucket on a stream."""
        return EagerBucket(self.shape, self.arguments, grace, fingerprint, store, emission)

    def late_partials(self, late: Late[list[Records]]) -> Block:
        """The partials that a bucket refused, which nobody has made yet."""
        return fold_records(self.shape, late.rows, self.arguments)

    def late_records(self, late: Late[list[Records]], beside: Iterable[bytes]) -> Iterator[Records]:
        """The records that a bucket refused; none come beside others."""
        return iter(late.rows)

    def all_windows(self, shipped: Sequence[Records]) -> Iterator[Windows]:
        """All windows of a bucket of bounded input."""
        return all_windows(self.shape, self.arguments, shipped)


def strategy(shape: Shape, trees: tuple[str, ...], arguments: tuple[tuple[int, ...], ...]) -> Sliced | Eager:
    """The strategy for these trees."""
    return (Eager if EAGER in trees else Sliced)(shape, trees, arguments)
