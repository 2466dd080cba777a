"""Stored slices as SQL reads them: a query that has a column for each number in a packed partial.

Numbers are decoded in SQL, so they are stored once. What is no number stays in `partial`, as `packing` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from slicing.aggregates.fields import FLOATS, INTEGERS
from slicing.serving.manifest import Manifest
from slicing.serving.packing import Packing

_MANTISSA = {"float": 23, "double": 52}
_COLUMNS = "key, level, slice_start, slice_end, records"


class Dialect(NamedTuple):
    """How a database reads the byte of `partial` at an offset, and writes what is no finite number."""

    byte: str
    infinity: str
    nan: str


def select(feature_set: str, manifest: Manifest, dialect: Dialect) -> str:
    """Return a query for the stored slices of a feature set, with a column for each number of their partials."""
    named = list(_named(manifest))
    layout: Any = Packing(tuple(kind for _, kind in named)).row.fields
    inner, outer = [_COLUMNS, "partial"], [_COLUMNS]
    for at, (name, kind) in enumerate(named):
        if kind in (*INTEGERS, *FLOATS):
            dtype, first = layout[f"f{at}"][:2]
            inner.append(f"{_integer(first, dtype.itemsize, dialect.byte)} AS f{at}")
            quoted = name.replace('"', '""')
            outer.append(f'{f"f{at}" if kind in INTEGERS else _float(f"f{at}", kind, dialect)} AS "{quoted}"')
    of = feature_set.replace("'", "''")
    rows = f"SELECT {', '.join(inner)} FROM slices WHERE feature_set = '{of}'"
    return f"SELECT {', '.join((*outer, 'partial'))} FROM ({rows}) AS packed"


def _named(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the name and the kind of each field; the only field of a result has the name of the result."""
    for result in manifest.results:
        for field in result.partial:
            name, _, kind = field.partition(" ")
            yield result.path if len(result.partial) == 1 else f"{result.path}.{name}", kind


def _integer(first: int, width: int, byte: str) -> str:
    """The signed integer of some bytes, the lowest one first: it is shifted up, and back with its sign."""
    parts = (f"({byte.format(at=first + at)} << {8 * at})" for at in range(width))
    spare = 64 - 8 * width
    return f"((({' | '.join(parts)}) << {spare}) >> {spare})"


def _float(bits: str, kind: str, dialect: Dialect) -> str:
    """The floating point number of its bits: sign, exponent and mantissa, by IEEE 754."""
    size = _MANTISSA[kind]
    most = 2 ** (63 - size if kind == "double" else 31 - size) - 1
    exponent, mantissa = f"(({bits} >> {size}) & {most})", f"({bits} & {2**size - 1})"
    sign = f"CAST(CASE WHEN {bits} < 0 THEN -1 ELSE 1 END AS double precision)"
    whole = f"CAST({mantissa} + CASE WHEN {exponent} = 0 THEN 0 ELSE {2**size} END AS double precision)"
    power = f"{exponent} + CASE WHEN {exponent} = 0 THEN 1 ELSE 0 END - {most // 2 + size}"
    return (
        f"CASE WHEN {exponent} = {most} AND {mantissa} = 0 THEN {sign} * {dialect.infinity} "
        f"WHEN {exponent} = {most} THEN {dialect.nan} "
        f"ELSE {sign} * {whole} * pow(CAST(2 AS double precision), {power}) END"
    )
