"""A user's functions tried on a few values while the query is built, so that what cannot work is refused then."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from slicing import laws
from slicing.errors import FunctionFailed, InvalidType
from slicing.kernel import Kernel, RowFailure
from slicing.kinds import arrow_type, decimal_of

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


def trial(kernel: Kernel, kinds: Sequence[str]) -> None:
    """Run every function of a kernel on samples of these kinds of values.

    Raises InvalidType for a wrong number of arguments, a wrong shape or type of what comes back, and for a function
    with `columns=True` that disagrees with itself on single values. A function that raises on a sample proves nothing
    about the values it is meant for; it is left to the query.
    """
    _check_arity(kernel, len(kinds))
    samples = [_samples(kind) for kind in kinds]
    with suppress(FunctionFailed, RowFailure):
        _run(kernel, [pa.array(values, arrow_type(kind)) for values, kind in zip(samples, kinds, strict=True)])
    found = None
    with suppress(Exception):
        found = laws.elementwise(kernel.aggregate, list(zip(*samples, strict=True)), kinds=kinds)
    if found is not None:
        raise InvalidType(
            f"the functions of `{kernel.label}` do not work on columns: {found}\n"
            "With `columns=True` each cell of a result must come from the same cells of the arguments only. Write them "
            "so, or leave `columns=True` out."
        )


def _run(kernel: Kernel, arrays: Sequence[pa.Array]) -> None:
    values, dictionary = kernel.values(arrays)
    partials = kernel.fold(values, np.array([0, 1]), 3)
    kernel.to_arrow(partials, dictionary)
    if kernel.aggregate.combine is not None:
        both = kernel.combine(partials, partials)
        kernel.to_arrow(both, dictionary)
        if kernel.aggregate.invert is not None:
            kernel.to_arrow(kernel.invert(both, partials), dictionary)
    kernel.results_to_arrow(partials, dictionary)


def _samples(kind: str) -> tuple[Any, ...]:
    return (Decimal(1), Decimal(2), Decimal(3)) if decimal_of(kind) else _SAMPLES.get(kind, (1, 2, 3))


def _check_arity(kernel: Kernel, values: int) -> None:
    wanted = {"init": 0, "agg": 1 + values, "combine": 2, "invert": 2, "lower": 1}
    for name, count in wanted.items():
        function = getattr(kernel.aggregate, name)
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            continue  # None, or a builtin that does not tell
        try:
            signature.bind(*range(count))
        except TypeError:
            given = "acc" + ", value" * values if name == "agg" else f"{count} partial(s)"
            raise InvalidType(
                f"`{name}` of `{kernel.label}` must take {count} argument(s) ({given}); its signature is {signature}. "
                "The arguments after the first are the columns that the aggregate is bound to."
            ) from None
