"""The results of windows from packed partials: decode, combine, lower, on columns of one key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Bound, Struct
from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.arrow import cast
from slicing.aggregates.columns import ColumnsKernel
from slicing.aggregates.fields import arrow_type, numpy_type
from slicing.aggregates.kernel import Kernel, locating
from slicing.aggregates.kernels import kernel
from slicing.aggregates.results import Nesting, flat_results, is_single, nesting_of, of_nothing
from slicing.serving.levels import Cover
from slicing.serving.manifest import StoredResult
from slicing.serving.packing import Packing, Unpacked

_NUMBERS = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double")


class Result:
    """One result: its kernel, and the positions of its fields in packed partials."""

    def __init__(self, of: Kernel, first: int):
        self.kernel, self.first = of, first
        self.direct = _is_direct(of)
        self.plain = all(field.kind in _NUMBERS for field in of.results)
        self.single = is_single(of)
        self.names = [field.name for field in of.results]
        self.empty = self._of_nothing()

    def partials(self, rows: Unpacked, chosen: Array) -> tuple[Partials, pa.Array | None]:
        """Return the partials of chosen rows, and their dictionary."""
        fields = range(self.first, self.first + len(self.kernel.fields))
        if self.direct:
            return [rows.numbers(at)[chosen] for at in fields], None
        taken = pa.array(chosen)
        return self.kernel.from_arrow([rows.column(at).take(taken) for at in fields])

    def of_windows(self, rows: Unpacked, chosen: Array, begins: Array) -> list[Any]:
        """Return the result of windows, whose rows are `chosen[begins[i]]` up to the next one."""
        partials, dictionary = self.partials(rows, chosen)
        return self._lowered(*self.kernel.joined(partials, dictionary, begins))

    def _lowered(self, partials: Partials, dictionary: pa.Array | None) -> list[Any]:
        if self.plain and dictionary is None:
            columns = [column.tolist() for column in self.kernel.lower(partials)]
        else:
            columns = [each.to_pylist() for each in self._typed(self.kernel.results_to_arrow(partials, dictionary))]
        return self._told(columns)

    def _typed(self, arrays: Sequence[pa.Array]) -> Iterator[pa.Array]:
        """Yield the fields of results in the types of their kinds."""
        for array, field in zip(arrays, self.kernel.results, strict=True):
            yield cast(array, arrow_type(field.kind))

    def _told(self, columns: Sequence[list[Any]]) -> list[Any]:
        """Return results from the values of their fields; a result of several fields is a dict."""
        if self.single:
            return columns[0]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _of_nothing(self) -> Any:
        """The result without records."""
        return self._told([each.to_pylist() for each in self._typed(of_nothing(self.kernel))])[0]


def _is_direct(of: Kernel) -> bool:
    """Whether fields are stored as the kernel has them in memory."""
    return (
        isinstance(of, ColumnsKernel)
        and not any(of.ranked)
        and all(dtype == numpy_type(each.kind) for dtype, each in zip(of.dtypes, of.fields, strict=True))
        and all(dtype != np.object_ for dtype in of.dtypes)
    )


@dataclass(frozen=True)
class Values:
    """All results of a definition, from packed partials."""

    results: tuple[Result, ...]
    packing: Packing
    nesting: Nesting

    def nothing(self) -> dict[str, Any]:
        """Return the results without records."""
        return _nested(self.nesting, iter([each.empty for each in self.results]))

    def of_slices(self, packed: Sequence[bytes]) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Yield the level, the start and the results of each packed partial."""
        rows, each = self.packing.unpack(packed), np.arange(len(packed))
        columns = zip(*(result.of_windows(rows, each, each) for result in self.results), strict=True)
        heads = zip(rows.rows["level"].tolist(), rows.starts.tolist(), columns, strict=True)
        return ((level, start, _nested(self.nesting, iter(values))) for level, start, values in heads)

    def of(
        self, cover: Cover, found: Sequence[Sequence[Sequence[bytes]]], place: Callable[[int, int], str]
    ) -> list[list[dict[str, Any] | None]]:
        """Return for each key the results of each window of a cover; None for a window whose rows are not all there.

        `found` has for each key the packed partials of each range. `place(key, window)` names a window in errors.
        """
        width = len(cover.starts)
        packed = [each for of_key in found for some in of_key for each in some]
        rows = self.packing.unpack(packed) if packed else None
        runs = _runs(cover, found, rows.starts) if rows is not None else []
        held = [window for window, run in enumerate(runs) if run]
        out: list[dict[str, Any] | None] = [None] * (len(found) * width)
        if rows is not None and held:
            chosen = np.concatenate([np.arange(low, high) for window in held for low, high in runs[window]])
            lengths = [sum(high - low for low, high in runs[window]) for window in held]
            begins = np.cumsum([0, *lengths[:-1]])
            with locating(lambda index: place(*divmod(held[int(np.searchsorted(begins, index, "right")) - 1], width))):
                columns = [each.of_windows(rows, chosen, begins) for each in self.results]
            for number, window in enumerate(held):
                out[window] = _nested(self.nesting, iter([column[number] for column in columns]))
        for window, values in enumerate(out):
            if values is None and cover.parts[window % width] is not None:
                out[window] = self.nothing()
        return [out[low : low + width] for low in range(0, len(out), width)]


def _runs(cover: Cover, found: Sequence[Sequence[Sequence[bytes]]], starts: Array) -> list[list[tuple[int, int]]]:
    """Return for each window of each key, one key after another, the runs of rows that it is made of."""
    runs: list[list[tuple[int, int]]] = []
    first = 0
    for of_key in found:
        own: list[list[tuple[int, int]]] = [[] for _ in cover.starts]
        for some, bounds, owners in zip(of_key, cover.bounds, cover.owners, strict=True):
            at = (np.searchsorted(starts[first : first + len(some)], bounds) + first).tolist()
            for number, window in enumerate(owners):
                low, high = at[2 * number], at[2 * number + 1]
                if low < high:
                    own[window].append((low, high))
            first += len(some)
        runs += own
    return runs


def _nested(nesting: Nesting, values: Iterator[Any]) -> dict[str, Any]:
    return {name: _nested(parts, values) if parts else next(values) for name, parts in nesting}


def values_of(named: Mapping[str, Bound | Struct], stored: Sequence[StoredResult]) -> Values:
    """Return the results of a definition for the columns of a stored one, which has the same results."""
    results: list[Result] = []
    kinds: list[str] = []
    for (name, bound), known in zip(flat_results(named).items(), stored, strict=True):
        made = kernel(name, bound.resolve(known.kinds))
        results.append(Result(made, len(kinds)))
        kinds += [field.kind for field in made.fields]
    return Values(tuple(results), Packing(tuple(kinds)), nesting_of(named))
