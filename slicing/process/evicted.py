"""Aggregates over the records that evictors leave: records are stored, and aggregated when the window fires.

::

    records of a window    3 1 4 1 5 9 2        stored as for a function of records
    keep_last(3)                   5 9 2        applied when the window fires
    sum                              16         then computed, again for each firing
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import EVENT_TIME, Bound, Struct, Tried
from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.kernels import kernel
from slicing.aggregates.record_file import Records
from slicing.aggregates.records import KeptRecords
from slicing.aggregates.results import Nesting, is_single, named_results, nesting_of
from slicing.content.folding import fold_arrays
from slicing.content.sizes import runs
from slicing.errors import InvalidType, InvalidValue, RowFailure, excerpt
from slicing.process.call import check_after, check_evictors
from slicing.process.context import Context, Firing
from slicing.process.evictors import Evictor
from slicing.process.function import Process
from slicing.process.remembered import FunctionStates
from slicing.process.states import EVICTED, NO_STATES
from slicing.windows.clock import ProcessingTime
from slicing.windows.window import Window

FOLDED = 1 << 20
"""The number of records that are folded at once."""


@dataclass(frozen=True, kw_only=True)
class Evicted(Process):
    """Aggregates of the records of a window: `kernels`, the positions of their columns, and the nesting of results.

    Position -1 is the time of records. There is one row for each window, even if no record is left.
    """

    kernels: tuple[Kernel, ...] = ()
    places: tuple[tuple[int, ...], ...] = ()
    nesting: Nesting = ()
    name: str = "aggregate"
    remedy: str = (
        "Take shorter windows; leave records out by `where=`, or without an evictor, which keeps partials instead; or "
        "use `process` with `batches=True`."
    )

    def rows(
        self,
        records: Records,
        first: Array,
        end: Array,
        firings: Iterable[Firing],
        context: Context,
        remembered: FunctionStates | None = None,
    ) -> tuple[Array, list[pa.Array]]:
        """Evict and fold the records of windows; window i has records `first[i]` up to `end[i]`. Raises RowFailure."""
        assert isinstance(records, pa.StructArray), "windows in files are given part by part"
        left = list(self._left(records, first.tolist(), end.tolist(), firings, context, remembered))
        counts = np.array([len(places) for places in left], dtype=np.int64)
        found = [self._folded(records, left[low:high], low) for low, high in runs(counts, FOLDED) if high > low]
        columns = zip(*(each.flatten() for each in found), strict=True)
        return np.arange(len(left)), [pa.concat_arrays(list(column)) for column in columns] or self._no_rows()

    def _no_rows(self) -> list[pa.Array]:
        return [pa.array([], arrow_type(each.kind)) for each in self.returns]

    def _left(
        self,
        records: pa.StructArray,
        low: list[int],
        high: list[int],
        firings: Iterable[Firing],
        context: Context,
        remembered: FunctionStates | None,
    ) -> Iterator[Array]:
        """Yield the positions of the records that are left in each window, in order: `int64[n]`."""
        table, times = self._table(records), self._times(records)
        for number, firing in enumerate(firings):
            own = context if remembered is None else remembered.context(firing, context)
            some = table.slice(low[number], high[number] - low[number])
            try:
                _, places = self.left(some, times[low[number] : high[number]], firing.window, own)
            except Exception as error:
                raise self._failure(error, number) from error
            if remembered is not None:
                remembered.note(firing, own)
            yield low[number] + places

    def _folded(self, records: pa.StructArray, left: Sequence[Array], number: int) -> pa.StructArray:
        """Return the results of windows, those of `init()` without a record. `number` is that of the first window."""
        counts = np.array([len(places) for places in left], dtype=np.int64)
        held, before = np.flatnonzero(counts), np.cumsum(counts) - counts
        rows, chosen = np.arange(int(counts.sum())), pa.array(np.concatenate(left))
        arrays: list[pa.Array] = []
        for each, places in zip(self.kernels, self.places, strict=True):
            partials, dictionary = each.spread(len(left)), each.no_dictionary
            if len(held):
                columns = [self._column(records, place).take(chosen) for place in places]
                try:
                    folded, dictionary = fold_arrays(each, columns, rows, before[held])
                except RowFailure as failure:
                    at = int(np.searchsorted(before, failure.index, side="right")) - 1
                    raise failure.at(number + at) from failure.__cause__
                for column, own in zip(partials, folded, strict=True):
                    column[held] = own
            try:
                arrays += each.results_to_arrow(partials, dictionary)
            except RowFailure as failure:
                raise failure.at(number + failure.index) from failure.__cause__
        return named_results(self.kernels, arrays, self.nesting)

    def _column(self, records: pa.StructArray, place: int) -> pa.Array:
        return pa.array(self._times(records)) if place < 0 else records.field(place)


@dataclass(frozen=True, repr=False)
class EvictedResults(Bound):
    """Results over the records that evictors leave, as one aggregate that stores records.

    `results` has the results as the user gave them.
    """

    results: Mapping[str, Bound | Struct] = field(kw_only=True)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its output columns."""
        return tuple(self.results)

    def tried(self, kernel: Kernel, kinds: Sequence[str], nullable: Sequence[bool]) -> Iterator[Tried]:
        """Yield the kernels and columns of its results, which `kernel` folds from the records it stores."""
        call = kernel.aggregate.call  # type: ignore[attr-defined]  # an aggregate that keeps records has it
        for (_, bound), own, places in zip(leaves(self.results), call.kernels, call.places, strict=True):
            columns = places[: len(bound.columns)]  # the rest is the condition
            types = ["bigint" if at < 0 else kinds[at] for at in columns]
            yield from bound.tried(own, types, [at >= 0 and nullable[at] for at in columns])

    def __repr__(self) -> str:
        return ", ".join(f"{name}={result!r}" for name, result in self.results.items())


@dataclass(frozen=True)
class _Source:
    """A function that returns the aggregate for columns of given types."""

    results: Mapping[str, Bound | Struct]
    inputs: tuple[Any, ...]
    call: Evicted

    def __call__(self, *kinds: str) -> KeptRecords:
        kernels, places = [], []
        for name, bound in leaves(self.results):
            own = tuple(self._place(column) for column in bound.columns)
            aggregate = bound.resolve(tuple("bigint" if at < 0 else kinds[at] for at in own))
            kernels.append(kernel(name, aggregate))
            places.append(own if bound.condition is None else (*own, self._place(bound.condition)))
            if bound.condition is not None and kinds[places[-1][-1]] != "boolean":
                raise InvalidType(
                    f"`{bound.label}` takes a column of booleans; got {kinds[places[-1][-1]]}. "
                    "Compute one first, by `withColumn`."
                )
        nesting = nesting_of(self.results)
        own_kernels = iter(kernels)
        rows = tuple(Field(name, _kind(own_kernels, parts)) for name, parts in nesting)
        call = self.call.of_kinds(kinds)
        return replace(call, returns=rows, kernels=tuple(kernels), places=tuple(places), nesting=nesting).keeping(kinds)

    def _place(self, column: Any) -> int:
        if isinstance(column, str) and column == EVENT_TIME:
            return -1
        return next(at for at, each in enumerate(self.inputs) if _is_same(each, column))


def _unasked(*_: Any) -> None:
    raise AssertionError("results are folded, and no function makes rows of records")


def evicted(
    results: Mapping[str, Bound | Struct],
    time: Any,
    window: Window,
    evictors: tuple[Evictor, ...],
    after: tuple[Evictor, ...],
) -> EvictedResults:
    """Return results over the records that evictors leave, as one aggregate. Raises InvalidValue."""
    states = NO_STATES
    if after:
        check_after(window)
        states = replace(states, window=(Field(EVICTED, "binary"),))
    by = EVENT_TIME if isinstance(time, ProcessingTime) else time
    inputs: list[Any] = []
    asked = [column for _, bound in leaves(results) for column in bound.inputs]
    read = [column for each in (*evictors, *after) for column in each.columns]
    for column in (*([] if by is None else [by]), *asked, *read):
        if not (isinstance(column, str) and column == EVENT_TIME and column != by) and not _is_in(column, inputs):
            inputs.append(column)
    check_evictors((*evictors, *after), timed=time is not None)
    if time is None and any(isinstance(column, str) and column == EVENT_TIME for column in asked):
        raise InvalidValue('a result goes by the time of records, and there is none. Name its column: time="ts".')
    if not inputs:
        raise InvalidValue(
            "evictors keep records, and nothing of them is asked for. Aggregate a column, or name a `time`."
        )
    call = Evicted(
        function=_unasked,
        returns=(),
        window=window,
        states=states,
        columns=tuple((each, at) for at, each in enumerate(inputs) if isinstance(each, str) and each != EVENT_TIME),
        time=None if by is None else 0,
        evictors=evictors,
        after=after,
    )
    source = _Source(dict(results), tuple(inputs), call)
    return EvictedResults(source, tuple(inputs), label="aggregate", results=dict(results))


def leaves(results: Mapping[str, Bound | Struct], within: str = "") -> Iterator[tuple[str, Bound]]:
    """Yield the results with their names; the results inside structs are yielded one by one."""
    for name, result in results.items():
        if isinstance(result, Struct):
            yield from leaves(result.results, f"{within}{name}.")
        else:
            yield within + name, result


def _kind(kernels: Iterator[Kernel], parts: Nesting | None) -> str:
    """Return the type of a result as DDL; that of a struct is made of the types of its parts."""
    if parts is not None:
        for name, _ in parts:
            _check_name(name)
        return f"struct<{','.join(f'{name}:{_kind(kernels, own)}' for name, own in parts)}>"
    each = next(kernels)
    if is_single(each):
        return each.results[0].kind
    return f"struct<{','.join(f'{one.name}:{one.kind}' for one in each.results)}>"


def _check_name(name: str) -> None:
    """Raise InvalidValue for the name of a field of a struct with a character that separates fields in types."""
    if wrong := [each for each in name if each in ",:<>()"]:
        raise InvalidValue(
            f"with `.evict` the name of a field of a struct must not contain `{wrong[0]}`; got {excerpt(name)}. "
            "Rename it."
        )


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, str) and isinstance(other, str) and one == other)


def _is_in(column: Any, columns: Sequence[Any]) -> bool:
    return any(_is_same(each, column) for each in columns)
