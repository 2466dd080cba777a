"""Dry run: call a user's functions on a few values while the query is built, to refuse functions that cannot work."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.fields import arrow_type, check_partial, decimal_of
from slicing.aggregates.kernel import Kernel, locating
from slicing.aggregates.rows import RowsKernel
from slicing.aggregates.spill import spilling
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, RowFailure, SlicingError, excerpt
from slicing.laws.checks import broken_law, near
from slicing.laws.properties import elementwise
from slicing.laws.values import difference

_DAY = dt.date(2024, 2, 29)
_NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
_SAMPLES: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False, True),
    "float": (1.5, 2.0, 3.25),
    "double": (1.5, 2.0, 3.25),
    "string": ("1", "a", ""),
    "binary": (b"1", b"a", b""),
    "date": (_DAY, dt.date(1969, 12, 31), _DAY),
    "timestamp": (_NOON, dt.datetime(1969, 12, 31, tzinfo=dt.UTC), _NOON),
    "timestamp_ntz": (_NOON.replace(tzinfo=None), dt.datetime(1969, 12, 31), _NOON.replace(tzinfo=None)),
}


_NUMBERS = (2, 0, -3, 2, 5, -1)
_FIRST = _DAY - dt.timedelta(days=30_000)
_LAWS: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False, True, True, False, True),
    "float": tuple(0.75 * number for number in _NUMBERS),
    "double": tuple(0.75 * number for number in _NUMBERS),
    "string": ("b", "", "-3", "b", "é", "10"),
    "binary": (b"b", b"", b"-3", b"b", b"\xff", b"10"),
    "date": tuple(_FIRST + dt.timedelta(days=number) for number in _NUMBERS),
    "timestamp": tuple(_NOON + dt.timedelta(days=20_000 * number) for number in _NUMBERS),
}
_LAWS["timestamp_ntz"] = tuple(time.replace(tzinfo=None) for time in _LAWS["timestamp"])
"""Samples by kind for `slicing.laws.checks`, which describes the six samples; other kinds use numbers."""
_REMEDIES = {
    "identity": "Let `init()` be the partial that changes no other: 0 for a sum, infinity for a minimum.",
    "singleton": "Let `agg` do with a record what `combine` does with the partial of that record alone.",
    "associativity": "Keep in the partial what `combine` needs, such as a count beside a mean; "
    "or leave `combine` out, the strategy is then eager.",
    "commutativity": "Say `ordered=True` if order is meant to matter.",
    "inversion": "Correct `invert`, or leave it out: windows are then assembled by `combine` alone.",
}


def dry_run(kernel: Kernel, kinds: Sequence[str], nullable: Sequence[bool] = ()) -> None:
    """Run every function of a kernel on samples of these kinds of values; `nullable` columns may have nulls.

    Raises InvalidType for a collection as partial, for a wrong number of arguments, for a result of a wrong shape or
    type, for a null in a partial, and for a function with `columns=True` whose results differ from those for single
    values. Raises InvalidValue for functions that violate a law, unless the aggregate is approximate or has
    `laws=False`, and for those that raise for a null that they may get or for the partial of no values. A function
    that raises on a sample is accepted: the real values may be different.
    """
    check_partial(kernel.aggregate.init())
    _check_arity(kernel, len(kinds))
    with spilling():
        _run_all(kernel, kinds)
        _check_nulls(kernel, kinds, nullable)


def why_no_result(kernel: Kernel) -> str:
    """Return why the result of no values cannot be made, "" if it can."""
    try:
        kernel.results_to_arrow(kernel.spread(1), kernel.no_dictionary)
    except (SlicingError, RowFailure) as error:
        return str(getattr(error, "cause", error))
    return ""


def _check_nulls(kernel: Kernel, kinds: Sequence[str], nullable: Sequence[bool]) -> None:
    """Refuse an `agg` that raises for a null, and a `lower` that raises for the partial of a window without values."""
    aggregate = kernel.aggregate
    if aggregate.nulls and any(nullable) and (cause := _why_nulls_fail(kernel, kinds, nullable)):
        raise InvalidValue(
            f"`agg` of `{kernel.label}` must take a null as None, as `nulls=True` says; it raised {cause}. "
            "Handle None there, or leave `nulls=True` out: records with a null are then not passed to it."
        )
    without = aggregate.filtered or (any(nullable) and not aggregate.nulls)
    if without and (cause := why_no_result(kernel)):
        raise InvalidValue(
            f"`lower` of `{kernel.label}` must take `init()`, the partial of a window in which no record has a value; "
            f"it raised {cause}. Let it return None there, for example `lower=lambda a: a[1] / a[0] if a[0] else None`."
        )


def _why_nulls_fail(kernel: Kernel, kinds: Sequence[str], nullable: Sequence[bool]) -> str:
    """Return why `agg` fails for a null in all nullable columns, or in one of them; "" if it takes them.

    An `agg` that fails for the values beside the nulls, too, may take the real ones.
    """
    one = [_samples(kind)[:1] for kind in kinds]
    alone = [[number == at for number in range(len(kinds))] for at, is_nullable in enumerate(nullable) if is_nullable]
    for missing in [list(nullable), *alone]:
        nulls = [(None,) if is_null else value for is_null, value in zip(missing, one, strict=True)]
        cause = _why_not_folded(kernel, _arrays(nulls, kinds))
        if cause and (all(missing) or not _why_not_folded(kernel, _arrays(one, kinds))):
            return cause
    return ""


def _why_not_folded(kernel: Kernel, arrays: Sequence[pa.Array]) -> str:
    try:
        kernel.fold(kernel.values(arrays)[0], np.array([0]), 1)
    except (FunctionFailed, RowFailure) as error:
        return str(getattr(error, "cause", error))
    return ""


def _run_all(kernel: Kernel, kinds: Sequence[str]) -> None:
    samples = [_samples(kind) for kind in kinds]
    _run_quietly(kernel, _arrays(samples, kinds))
    if kernel.aggregate.nulls and kinds:
        _run_quietly(kernel, _arrays([(*values, None) for values in samples], kinds))
    found = None
    with suppress(Exception):
        found = elementwise(kernel.aggregate, list(zip(*samples, strict=True)), kinds=kinds)
    if found is not None:
        raise InvalidType(
            f"the functions of `{kernel.label}` do not work on columns: {found}\n"
            "With `columns=True` each cell of a result must come from the same cells of the arguments only. Write them "
            "so, or leave `columns=True` out."
        )
    if kernel.aggregate.agg_many is not None:
        _check_many(kernel, _arrays(samples, kinds))
    if kernel.aggregate.columns is None:
        from slicing import tracing

        tracing.verify(kernel, kinds, _samples)
    if kernel.aggregate.combine is not None and kernel.aggregate.laws and not kernel.aggregate.approximate:
        _check_laws(kernel, kinds)


def _run_quietly(kernel: Kernel, arrays: Sequence[pa.Array]) -> None:
    with suppress(FunctionFailed), locating(lambda _: "a value that it was tried on"):
        _run(kernel, arrays)


def _run(kernel: Kernel, arrays: Sequence[pa.Array]) -> None:
    values, dictionary = kernel.values(arrays)
    partials = kernel.fold(values, np.array([0, 1]), len(arrays[0]) if arrays else 3)
    kernel.to_arrow(partials, dictionary)
    if kernel.aggregate.combine is not None:
        both = kernel.combine(partials, partials)
        kernel.to_arrow(both, dictionary)
        if kernel.aggregate.invert is not None:
            kernel.to_arrow(kernel.invert(both, partials), dictionary)
    kernel.results_to_arrow(partials, dictionary)


def _check_many(kernel: Kernel, arrays: Sequence[pa.Array]) -> None:
    """Refuse an `agg_many` whose result differs from calling `agg` for one sample after another."""
    count = len(arrays[0]) if arrays else 3
    rows = RowsKernel(kernel.label, replace(kernel.aggregate, columns=False))
    single = RowsKernel(kernel.label, replace(kernel.aggregate, columns=False, agg_many=None))
    values, _ = rows.values(arrays)
    try:
        found, wanted = (each.to_arrow(each.fold(values, np.array([0]), count), None) for each in (rows, single))
    except (FunctionFailed, RowFailure):
        return  # it raises on samples; it may still work on real values
    made, other = (tuple(array.to_pylist()[0] for array in fields) for fields in (found, wanted))
    if not all(near(x, y, field.kind) for x, y, field in zip(made, other, kernel.fields, strict=True)):
        raise InvalidValue(
            f"`agg_many` of `{kernel.label}` must make of records what `agg` makes of them one after another; "
            f"got {excerpt(made)}, and {excerpt(other)} by `agg`{_place(made, other)}. Correct one of them, or leave "
            "`agg_many` out."
        )


def _place(made: tuple[Any, ...], other: tuple[Any, ...]) -> str:
    return f"; they differ at {place}" if (place := difference(made, other)) else ""


def _check_laws(kernel: Kernel, kinds: Sequence[str]) -> None:
    columns = [_law_samples(kind) for kind in kinds]
    # Each column is rotated by its number, otherwise columns of one kind would always be equal.
    turned = [values[at % 6 :] + values[: at % 6] for at, values in enumerate(columns)]
    arrays = _arrays([(*values, None) for values in turned] if kernel.aggregate.nulls else turned, kinds)
    found = broken_law(kernel, arrays)
    if found is None and kernel.aggregate.columns is None:
        from slicing import tracing

        found = tracing.verify_law(kernel, lambda form: broken_law(form, arrays))
    if found is not None:
        raise InvalidValue(
            f"`{kernel.label}` cannot be computed from slices: {found}\n"
            f"{_REMEDIES[found.law]} `laws=False` takes them as they are."
        )


def _arrays(samples: Sequence[Sequence[Any]], kinds: Sequence[str]) -> list[pa.Array]:
    return [pa.array(values, arrow_type(kind)) for values, kind in zip(samples, kinds, strict=True)]


def _samples(kind: str) -> tuple[Any, ...]:
    return _decimals((1, 2, 3), kind) or _SAMPLES.get(kind, (1, 2, 3))


def _law_samples(kind: str) -> tuple[Any, ...]:
    return _decimals(_NUMBERS, kind) or _LAWS.get(kind, _NUMBERS)


def _decimals(numbers: Sequence[int], kind: str) -> tuple[Decimal, ...]:
    """Return numbers as decimals of this kind, as ones if they fit, else in its last digit; empty for other kinds."""
    decimal = decimal_of(kind)
    if decimal is None:
        return ()
    precision, scale = decimal
    return tuple(Decimal(number).scaleb(-scale if scale >= precision else 0) for number in numbers)


def _check_arity(kernel: Kernel, values: int) -> None:
    wanted = {"init": 0, "agg": 1 + values, "combine": 2, "invert": 2, "lower": 1, "agg_many": 2}
    for name, count in wanted.items():
        function = getattr(kernel.aggregate, name)
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            continue  # None, or a builtin without a signature
        try:
            signature.bind(*range(count))
        except TypeError:
            given = f"{count} partial(s)"
            given = {"agg": "acc" + ", value" * values, "agg_many": "acc, values"}.get(name, given)
            raise InvalidType(
                f"`{name}` of `{kernel.label}` must take {count} argument(s) ({given}); its signature is {signature}. "
                "The arguments after the first are the columns that the aggregate is bound to."
            ) from None
