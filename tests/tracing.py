"""What the tests of tracing share: the same records by rows and traced, compared to the bit, failures included."""

import math
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.rows import RowsKernel
from slicing.errors import RowFailure
from slicing.tracing.formulas import TYPES
from slicing.tracing.kernel import TracedKernel

INTEGERS = (0, 1, -1, 2, -3, 7, 63, 64, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, -(2**62), 2**63 - 1, -(2**63))
RESERVED = (0x7FFC_5E1F_0000_0000, 0x7FFC_5E1F_0000_0001)
FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 3.0, 1e16, 2.0**53, -1e300, 5e-324, math.inf, -math.inf, math.nan, 0.5, 2.5, 1e19)


def exact(value):
    """A value with its type, so that 1, 1.0 and True differ, as do zeros by sign; all NaN are one."""
    if isinstance(value, tuple):
        return tuple(map(exact, value))
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value.hex())
    return (type(value).__name__, value)


def drawn(choice: random.Random, kind, calm=False):
    """A value of a kind: an edge as often as not, unless it is to be calm."""
    edge = not calm and choice.random() < 0.4
    if kind == "boolean":
        return choice.random() < 0.5
    if kind == "bigint":
        return choice.choice((*INTEGERS, *RESERVED)) if edge else choice.randint(-100, 100)
    if kind == "double":
        return (
            choice.choice(FLOATS) if edge else choice.choice((choice.uniform(-100, 100), float(choice.randint(-9, 9))))
        )
    raise ValueError(kind)


def both(aggregate: Aggregate):
    """The kernel of rows and the traced one."""
    return RowsKernel("value", replace(aggregate, columns=False)), TracedKernel("value", aggregate)


def outcome(function, *arguments):
    """What a function returns, or what its failure says and where."""
    try:
        return "made", function(*arguments)
    except RowFailure as failure:
        return "failed", (failure.rule, failure.cause, failure.index)


def objects(kernel, partials):
    """Partials as Python has them."""
    return partials[0].tolist() if isinstance(kernel, RowsKernel) else kernel.cells.objects(partials)


def held(kernel, items):
    """Partials as a kernel has them."""
    if isinstance(kernel, TracedKernel):
        return kernel.cells.columns(list(items))
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return [array]


def arrays_of(columns, kinds):
    return [pa.array(column, arrow_type(kind)) for column, kind in zip(columns, kinds, strict=True)]


def folded(kernel, columns, kinds, starts, onto=None):
    values, _ = kernel.values(arrays_of(columns, kinds))
    begun = None if onto is None else held(kernel, onto)
    return objects(kernel, kernel.fold(values, np.array(starts), len(columns[0]), begun))


def float_sums(traced, kinds):
    """The fields whose floats `agg` adds up in another order than rows do."""
    agg = traced.traced_agg([TYPES.get(kind, kind) for kind in kinds])
    if agg is None or agg.steps is None:
        return ()
    types = zip(agg.steps, traced.signature.types, strict=True)
    return [at for at, (step, type_) in enumerate(types) if step.op == "add" and type_ == "float"]


def assert_same(rows, traced, what, sums=()):
    """Both made the same, or failed alike; sums of floats may differ in their last bits."""
    assert rows[0] == traced[0], (what, rows, traced)
    made = rows[1], traced[1]
    if rows[0] == "made":
        for at, pair in enumerate(zip(*made, strict=True)):
            parts = [item if isinstance(item, tuple) else (item,) for item in pair]
            for field, (x, y) in enumerate(zip(*parts, strict=True)):
                alike = field in sums and (not math.isfinite(x) or math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9))
                assert alike or exact(x) == exact(y), (what, at, field, x, y)
    else:
        assert made[0] == made[1], what
