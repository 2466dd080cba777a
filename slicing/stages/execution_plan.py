"""The execution plans: each defines the first stage before the shuffle, and the buckets after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np

from slicing.aggregates.fields import Field
from slicing.aggregates.sharing import Sharing, sharing
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.codec import decode
from slicing.content.folding import fold, regroup
from slicing.content.records import Records, decode_records, fold_records
from slicing.engines.bounded import all_frames, frames_of_records
from slicing.engines.bucket import OpenBucket
from slicing.engines.eager.bucket import EagerBucket, all_windows, in_memory
from slicing.engines.eager.window_pages import WindowPages
from slicing.engines.mixed import MixedBucket, Split
from slicing.engines.recut import recut
from slicing.engines.shared import FieldGroups, shared_fields
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.profiling import DECODE, of_stage
from slicing.stages.preaggregate import PreAggregate, ShuffleRecords
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import Store
from slicing.triggers.lateness import RefusedRows, is_late
from slicing.triggers.trigger import Trigger
from slicing.windows.families.family import Family

Arguments: TypeAlias = tuple[tuple[int, ...], ...]
"""For each kernel the positions of its columns among those of the records, -1 for their time."""
Shipped: TypeAlias = Mapping[Any, Iterable[bytes | None]]
"""The columns of the shuffled rows of a first stage, by name."""


@dataclass(frozen=True)
class Aggregation:
    """The aggregation of a query: `shape` has the kernels and the families, `trees` a tree for each family and kernel.

    `may_be_late` says whether records may be late, and `values` are their columns without the keys. `ends` says whether
    the trigger lets records end their sessions, and `fires_short` whether it fires count windows that bounded input
    ends before they are full, `empty` how long it fires windows without records.
    """

    shape: Shape
    trees: tuple[str, ...]
    arguments: Arguments
    may_be_late: bool = True
    values: tuple[Field, ...] = ()
    ends: bool = False
    fires_short: bool = False
    empty: int = 0

    @property
    def common(self) -> tuple[Shape, tuple[str, ...], Arguments]:
        """Return the arguments that all plans share."""
        return self.shape, self.trees, self.arguments


@dataclass(frozen=True)
class _Plan:
    """The results of a plan whose stored fields are separate; `wide` says whether all families are in one row."""

    shape: Shape
    trees: tuple[str, ...]
    arguments: Arguments
    wide: bool = False

    @property
    def sharing(self) -> Sharing | None:
        """Return how results share fields, None if no result does."""
        return None

    @property
    def shipping(self) -> Shape:
        """Return the shape of the shuffled blocks or records."""
        return self.shape


@dataclass(frozen=True)
class Sliced(_Plan):
    """The plan that shuffles partials of slices, and assembles windows from them.

    If it `shares`, results that have fields in common are stored as groups of fields. Windows and late partials have
    the fields of each result all the same.
    """

    shares: bool = field(default=False, kw_only=True)
    empty: int = field(default=0, kw_only=True)

    @cached_property
    def grouped(self) -> FieldGroups | None:
        """Return the results and their shared fields, None if each result has fields of its own."""
        if not self.shares:
            return None
        found = sharing(self.shape.kernels, self.trees, self.arguments)
        return FieldGroups(self.shape, self.trees, found) if found.is_any else None

    @property
    def sharing(self) -> Sharing | None:
        """Return how results share fields, None if no result does."""
        return None if self.grouped is None else self.grouped.sharing

    @cached_property
    def stored(self) -> Self:
        """Return the plan of the stored fields: of groups of fields, if results share some."""
        if (grouped := self.grouped) is None:
            return self
        arguments = grouped.sharing.select(self.arguments)
        return replace(self, shape=grouped.stored, trees=grouped.stored_trees, arguments=arguments, shares=False)

    @property
    def shipping(self) -> Shape:
        """Return the shape of the shuffled blocks or records."""
        return self.stored.shape

    def first_stage(self, labels: tuple[int, ...], with_records: bool = False) -> PreAggregate:
        """Return the function for `mapInArrow` before the shuffle; with `with_records` it also shuffles the records."""
        return PreAggregate(self.stored.shape, self.stored.arguments, labels, with_records)

    @of_stage(DECODE)
    def shipped(self, rows: Shipped) -> list[Block]:
        """Return the shuffled blocks or records, from the columns of the first stage's rows."""
        return [self.decode(data) for data in _filled(rows, "block")]

    def decode(self, data: bytes) -> Block:
        """Decode a shuffled block."""
        return decode(self.shipping, data)

    def bucket(self, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger) -> OpenBucket:
        """Open the state of a bucket on a stream."""

        def opened(plan: Sliced) -> Callable[[Fingerprint], OpenBucket]:
            return lambda fingerprint: plan.opened(grace, fingerprint, store, trigger)

        if self.grouped is None:
            return opened(self)(fingerprint)
        return shared_fields(self.grouped, fingerprint, opened(self.stored), opened(self))

    def opened(self, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger) -> OpenBucket:
        """Open the state of a bucket in which each result has fields of its own."""
        engine = SlicedBucket(self.shape, self.trees, grace, fingerprint, store, trigger, self.wide)
        return recut(engine, self.shape, engine.shape)

    def late_partials(self, refused: RefusedRows[Block]) -> Block:
        """Return the partials that a bucket refused."""
        return refused.rows

    def late_records(self, family: Family, refused: RefusedRows[Block], encoded: Iterable[bytes]) -> Iterator[Records]:
        """Yield the records of refused slices, from the records that were shuffled together with the blocks."""
        for data in encoded:
            records = decode_records(self.shape, data)
            yield records.take(np.flatnonzero(is_late(family, records.index, refused.first_accepting)))

    def all_windows(self, shipped: Iterable[Block]) -> Iterator[Windows]:
        """Yield all windows of a bucket of bounded input."""
        return map(self.of_results, self.stored.assembled(shipped))

    def assembled(self, shipped: Iterable[Block]) -> Iterator[Windows]:
        """Yield all windows of a bucket of bounded input, with the stored fields."""
        if self.shape.keeps_records:
            return frames_of_records(self.shape, self.trees, shipped)
        return all_frames(self.shape, self.trees, fold(self.shape, list(shipped)), self.wide, empty=self.empty)

    def of_results(self, windows: Windows) -> Windows:
        """Return windows of stored fields as windows with the partials of each result."""
        return windows if self.grouped is None else self.grouped.windows(windows)


@dataclass(frozen=True)
class _OverRecords(_Plan):
    """A plan whose buckets refuse late records, not partials."""

    def late_partials(self, refused: RefusedRows[list[Records]]) -> Block:
        """Return the partials of the records that a bucket refused, of all aggregates. They are computed here."""
        return fold_records(self.shape, refused.rows, self.arguments)

    def late_records(
        self, family: Family, refused: RefusedRows[list[Records]], encoded: Iterable[bytes]
    ) -> Iterator[Records]:
        """Return the records that a bucket refused; if records accompany blocks, it has found them among these."""
        return iter(refused.rows)


@dataclass(frozen=True)
class Eager(_OverRecords):
    """The plan that shuffles records, and folds each into every window that holds it."""

    def first_stage(self, labels: tuple[int, ...], with_records: bool = False) -> ShuffleRecords:
        """Return the function for `mapInArrow` before the shuffle, which shuffles records in any case."""
        return ShuffleRecords(self.shape, labels)

    @of_stage(DECODE)
    def shipped(self, rows: Shipped) -> list[Records]:
        """Return the shuffled blocks or records, from the columns of the first stage's rows."""
        return [self.decode(data) for data in _filled(rows, "block")]

    def decode(self, data: bytes) -> Records:
        """Decode shuffled records."""
        return decode_records(self.shape, data)

    def bucket(self, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger) -> OpenBucket:
        """Open the state of a bucket on a stream."""
        engine = EagerBucket(self.shape, self.arguments, grace, fingerprint, store, trigger, self.wide)
        return recut(engine, self.shape, engine.shape)

    def all_windows(self, shipped: Iterable[Records]) -> Iterator[Windows]:
        """Yield all windows of a bucket of bounded input."""
        return all_windows(self.shape, self.arguments, list(shipped), self.wide)


@dataclass(frozen=True)
class Mixed(_OverRecords):
    """The plan that shuffles partials of slices for some aggregates, together with records for eager ones."""

    @property
    def sliced(self) -> Sliced:
        """Return the plan of the aggregates that are assembled from slices."""
        return Sliced(*self._some(self._split.sliced), self.wide)

    @property
    def shipping(self) -> Shape:
        """Return the shape of the shuffled blocks; the shape of the records has the same slices."""
        return self.sliced.shape

    def first_stage(self, labels: tuple[int, ...], with_records: bool = False) -> PreAggregate:
        """Return the function for `mapInArrow` before the shuffle, which shuffles records in any case."""
        return self.sliced.first_stage(labels, with_records=True)

    @of_stage(DECODE)
    def shipped(self, rows: Shipped) -> list[Block | Records]:
        """Return the shuffled blocks or records, from the columns of the first stage's rows."""
        records = [decode_records(self.shape, data) for data in _filled(rows, "records")]
        return [*self.sliced.shipped(rows), *records]

    def bucket(self, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger) -> OpenBucket:
        """Open the state of a bucket on a stream."""
        engine = MixedBucket(self.shape, self.trees, self.arguments, grace, fingerprint, store, trigger, self.wide)
        return recut(engine, self.shape, engine.shape)

    def all_windows(self, shipped: Iterable[Block | Records]) -> Iterator[Windows]:
        """Yield all windows of a bucket of bounded input."""
        shipped = list(shipped)
        frames = self.sliced.all_windows([each for each in shipped if isinstance(each, Block)])
        shape, _, arguments = self._some(self._split.eager)
        records = [each for each in shipped if isinstance(each, Records)]
        pages = [in_memory(shape.over(family), arguments, records) for family in shape.family.families]
        return (self._join(frame, pages) for frame in frames)

    def _join(self, frame: Windows, pages: Sequence[WindowPages]) -> Windows:
        others = [each for number, each in enumerate(pages) if number != frame.family]
        aligned = tuple(map(self._split.joined, frame.aligned, others))
        return replace(self._split.joined(frame, pages[frame.family]), aligned=aligned)

    @property
    def _split(self) -> Split:
        return Split(self.trees[: len(self.shape.kernels)])

    def _some(self, chosen: Sequence[int]) -> tuple[Shape, tuple[str, ...], Arguments]:
        count, arguments = len(self.shape.kernels), tuple(self.arguments[i] for i in chosen)
        trees = tuple(tree for at, tree in enumerate(self.trees) if at % count in chosen)
        return self.shape.select(chosen), trees, arguments


ExecutionPlan: TypeAlias = Sliced | Eager | Mixed


def not_before(shape: Shape, shipped: Block | Records, time: int) -> Block | Records:
    """Return shuffled rows with records of earlier slices moved to the slice of `time` (microseconds)."""
    moved = replace(shipped, index=np.maximum(shipped.index, shape.family.slice_of_record(time)))
    return regroup(shape, moved) if isinstance(moved, Block) else moved


def _filled(rows: Shipped, column: str) -> Iterator[bytes]:
    return (data for data in rows[column] if data is not None)
