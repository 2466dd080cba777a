"""The explanation of a result: the slices of one window of one key, as a value that prints as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Partials
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.results import is_single
from slicing.content.block import Block, Shape
from slicing.drawing import lines, table
from slicing.engines.looking import Pieces
from slicing.errors import shortened
from slicing.windows.time.durations import show_instant

MOST_SHOWN = 100
"""The maximum number of slices in the table."""
_COUNTED_ELSEWHERE = (
    "late records that a slice no longer accepted are in no state: the counter `late` of the query has them"
)


@dataclass(frozen=True)
class WindowSlice:
    """A slice of a window that holds records of the key; instants are in microseconds since 1970.

    `late` counts those of its `records` that arrived after the slice had been read for the first closing window, as far
    as they are stored separately. `accepts` says whether new records are still added. `partials` has the partial of
    each result, `so_far` the results of this slice and all slices before it.
    """

    start: int
    end: int
    records: int
    late: int
    accepts: bool
    partials: Mapping[str, Any]
    so_far: Mapping[str, Any]


@dataclass(frozen=True)
class TreeNode:
    """A named node of the tree that combines a window, with its number of records; `stored`: in the state."""

    tree: str
    name: str
    start: int
    end: int
    records: int
    stored: bool


@dataclass(frozen=True)
class Why:
    """The result of `Definition.why`: the slices of one window of one key, after one micro-batch.

    `watermark` is in microseconds, None before the first one; `closed` says whether it has closed the window.
    """

    checkpoint: str
    micro_batch: int
    watermark: int | None
    key: Mapping[str, Any]
    start: int
    end: int
    closed: bool
    slices: tuple[WindowSlice, ...] = ()
    nodes: tuple[TreeNode, ...] = ()

    @property
    def records(self) -> int:
        """The number of records in the window."""
        return sum(each.records for each in self.slices)

    @property
    def late(self) -> int:
        """The number of records that arrived after their slice was read, as far as that is stored."""
        return sum(each.late for each in self.slices)

    @property
    def results(self) -> Mapping[str, Any]:
        """The results of the window by name; empty without records."""
        return self.slices[-1].so_far if self.slices else {}

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The facts about the window, as pairs of name and text."""
        watermark = "none" if self.watermark is None else show_instant(self.watermark)
        found = [
            ("checkpoint", self.checkpoint),
            ("micro-batch", f"{self.micro_batch}, watermark {watermark}"),
            ("key", ", ".join(f"{name} {value!r}" for name, value in self.key.items())),
            (
                "window",
                f"[{show_instant(self.start)}, {show_instant(self.end)}), {'closed' if self.closed else 'open'}",
            ),
            ("records", f"{self.records:,} in {len(self.slices):,} slices, {self.late:,} of them late"),
            *((name, _shown(value)) for name, value in self.results.items()),
            ("not here", _COUNTED_ELSEWHERE),
        ]
        return [(name, text) for name, text in found if text]

    def __str__(self) -> str:
        tables = (line for head, rows in self._tables() for line in ("", *lines([head, *rows], right=True)))
        return "\n".join([*lines(self.facts), *tables, *self._more()])

    def _tables(self) -> list[tuple[Sequence[str], Sequence[Sequence[str]]]]:
        found: list[tuple[Sequence[str], Sequence[Sequence[str]]]] = []
        if self.slices:
            found.append((self._head, [self._row(each) for each in self.slices[:MOST_SHOWN]]))
        if self.nodes:
            nodes = [
                (*_span(each), f"{each.records:,}", each.tree, each.name, "yes" if each.stored else "no")
                for each in self.nodes
            ]
            found.append((("from", "to", "records", "tree", "node", "stored"), nodes))
        return found

    @property
    def _head(self) -> tuple[str, ...]:
        names = self.slices[0].partials
        columns = [column for name in names for column in (f"{name}, partial", f"{name}, so far")]
        return ("from", "to", "records", "late", "accepts", *columns)

    def _row(self, each: WindowSlice) -> tuple[str, ...]:
        values = [_shown(of[name]) for name in each.partials for of in (each.partials, each.so_far)]
        return (*_span(each), f"{each.records:,}", f"{each.late:,}", "yes" if each.accepts else "no", *values)

    def _more(self) -> list[str]:
        left = len(self.slices) - MOST_SHOWN
        return [f"and {left} later slices"] if left > 0 else []

    def _repr_html_(self) -> str:
        tables = "".join(table(head, rows) for head, rows in self._tables())
        return f"{table(('why', ''), self.facts)}{tables}{''.join(f'<p>{escape(line)}</p>' for line in self._more())}"


def why_of(pieces: Pieces, known: Why) -> Why:
    """Return `known` with the slices and the nodes of the window added."""
    shape, rows = pieces.shape, pieces.rows
    family = shape.family
    starts, ends = family.slice_start(rows.index), family.slice_start(rows.index + 1)
    partials, so_far = _by_result(shape, rows, pieces.window)
    slices = tuple(
        WindowSlice(
            int(starts[at]),
            int(ends[at]),
            int(rows.records[at]),
            int(pieces.late[at]),
            bool(pieces.accepts[at]),
            {name: values[at] for name, values in partials.items()},
            {name: values[at] for name, values in so_far.items()},
        )
        for at in range(len(rows))
    )
    nodes = tuple(
        TreeNode(
            tree,
            node.name,
            int(family.slice_start(node.first)),
            int(family.slice_start(node.end)),
            int(rows.records[(rows.index >= node.first) & (rows.index < node.end)].sum()),
            (tree, node.name) in pieces.stored,
        )
        for tree, node in pieces.nodes
    )
    return replace(known, slices=slices, nodes=nodes)


def _by_result(shape: Shape, rows: Block, window: int) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The partials of each slice, and the results so far, by result name; results that keep records are left out."""
    partials, so_far, start = {}, {}, int(shape.family.window_start(window))
    for at, kernel in enumerate(shape.kernels[: len(shape.kernels) - shape.marks]):
        if kernel.aggregate.keeps_records:
            continue
        dictionary, since = rows.dictionaries[at], shape.since[at] if shape.since else None
        partials[kernel.label] = _partials(kernel, kernel.to_arrow(rows.partials[at], dictionary))
        running = _running(kernel, rows.partials[at])
        found = _results(kernel, kernel.results_to_arrow(running, dictionary)) if len(rows) else []
        so_far[kernel.label] = found if since is None or start >= since else [None] * len(rows)
    return partials, so_far


def _running(kernel: Kernel, partials: Partials) -> Partials:
    """The partial of each row combined with all partials before it, older ones first."""
    count = len(partials[0])
    found = [[column[:1] for column in partials]] if count else []
    for at in range(1, count):
        found.append(list(kernel.combine(found[-1], [column[at : at + 1] for column in partials])))
    return [np.concatenate(parts) for parts in zip(*found, strict=True)] if found else partials


def _partials(kernel: Kernel, arrays: Sequence[pa.Array]) -> list[Any]:
    is_plain = len(kernel.fields) == 1 and not isinstance(kernel.aggregate.init(), tuple)
    return _values(arrays, [field.name for field in kernel.fields], is_plain)


def _results(kernel: Kernel, arrays: Sequence[pa.Array]) -> list[Any]:
    return _values(arrays, [field.name for field in kernel.results], is_single(kernel))


def _values(arrays: Sequence[pa.Array], names: Sequence[str], single: bool) -> list[Any]:
    return list(arrays[0].to_pylist()) if single else _structs(names, arrays)


def _structs(names: Sequence[str], arrays: Sequence[pa.Array]) -> list[Any]:
    rows = zip(*(array.to_pylist() for array in arrays), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _shown(value: Any) -> str:
    """A value as the text of a cell, shortened."""
    if isinstance(value, dict):
        return " ".join(f"{name}={_shown(each)}" for name, each in value.items())
    if isinstance(value, bytes | bytearray):
        return f"{len(value)} bytes"
    if isinstance(value, list):
        return f"{len(value)} values"
    return "null" if value is None else shortened(str(value))


def _span(each: WindowSlice | TreeNode) -> tuple[str, str]:
    return show_instant(each.start), show_instant(each.end)
