"""Show the outcome of tracing an aggregate: the expressions of traced functions, the reasons for the others."""

from __future__ import annotations

from dataclasses import replace

from slicing.aggregates.aggregate import Aggregate, Bound
from slicing.aggregates.fields import kind_of
from slicing.aggregates.kernel import Kernel
from slicing.tracing.formulas import TYPES, Formula
from slicing.tracing.kernel import TracedKernel, reason

NAMES = ("agg", "combine", "invert", "lower")


def traced(aggregate: Aggregate | Bound, *kinds: str) -> str:
    """Return the numpy expressions of an aggregate's plain functions, or why they run by rows; a line for each field.

    `kinds` are the types of the values of `agg`, such as "long" or "double"; the default is "long". A field to which a
    record only adds a value is marked with the ufunc that adds many records at once: add, min, max, or, and, xor. If
    all fields are, records are reduced first; any other `agg` runs by position, which equals the order of rows.

    Where numpy would differ from Python (integers of more than 64 bits, a division by zero, too large a shift, a NaN or
    -0.0 in `min`), the Python function computes these values again. When a query is built, both forms are compared on
    160 values; if they differ, it warns and runs by rows. Changes of module constants, defaults and arguments of
    `partial` while the program runs are noticed. Sums of floats add in another order: they may differ by little,
    relative to the largest number added, and near the largest double one order may overflow.

    >>> from slicing import Aggregate, traced
    >>> mean = Aggregate(
    ...     lambda: (0, 0),
    ...     lambda acc, x: (acc[0] + 1, acc[1] + x),
    ...     lambda a, b: (a[0] + b[0], a[1] + b[1]),
    ...     lower=lambda a: a[1] / a[0] if a[0] else None,
    ...     returns="double",
    ... )
    >>> print(traced(mean.on("amount"), "long"))
    agg      f0 = acc[0] + 1  (by add)
             f1 = acc[1] + value[0]  (by add)
    combine  f0 = a[0] + b[0]  (by add)
             f1 = a[1] + b[1]  (by add)
    lower    value = np.where(a[0] != 0, a[1] / a[0], None)
    """
    if isinstance(aggregate, Bound):
        count = len(aggregate.columns)
        kinds = (*map(kind_of, kinds), *("bigint",) * (count - len(kinds)))
        aggregate = aggregate.resolve(kinds)
    else:
        kinds = tuple(map(kind_of, kinds)) or ("bigint",) * _arguments(aggregate)
    if aggregate.columns:
        return "columns=True: the functions are called with columns"
    why = reason(aggregate)
    if why:
        return f"by rows: {why}"
    return "\n".join(_lines(TracedKernel("value", replace(aggregate, columns=None)), kinds))


def by_rows(kernel: Kernel) -> str:
    """Return which functions of a kernel run by rows and why, on one line; empty if none does or `columns` is set."""
    if isinstance(kernel, TracedKernel):
        return "; ".join(f"`{name}` since {kernel.by_rows[name]}" for name in NAMES if name in kernel.by_rows)
    aggregate = kernel.aggregate
    return "" if aggregate.columns is not None else f"all, since {reason(aggregate)}"


def mode(kernel: Kernel) -> str:
    """Return how functions are called: "columns", "rows", "traced", or "traced in part"."""
    if kernel.aggregate.columns:
        return "columns"
    if not isinstance(kernel, TracedKernel) or kernel.aggregate.columns is False:
        return "rows"
    functions = [name for name in NAMES if getattr(kernel.aggregate, name) is not None]
    count = sum(name in kernel.by_rows for name in functions)
    return "traced" if count == 0 else "rows" if count == len(functions) else "traced in part"


def _arguments(aggregate: Aggregate) -> int:
    code = getattr(aggregate.agg, "__code__", None)
    return code.co_argcount - 1 - len(aggregate.agg.__defaults__ or ()) if code else 1


def _lines(kernel: TracedKernel, kinds: tuple[str, ...]) -> list[str]:
    agg = kernel.traced_agg([TYPES.get(kind, kind) for kind in kinds])
    lines: list[str] = []
    for name in NAMES:
        formula: Formula | None
        if name == "agg":
            formula, steps = (agg.formula, agg.steps) if agg else (None, None)
        else:
            formula, steps = kernel.formulas[name], kernel.joins if name == "combine" else None
        if formula is not None and getattr(kernel.aggregate, name) is not None:
            fields = kernel.results if name == "lower" else kernel.fields
            how = [""] * len(fields) if steps is None else [f"  (by {each.op})" for each in steps]
            texts = [f"{f.name} = {e}{by}" for f, e, by in zip(fields, formula.outputs, how, strict=True)]
        elif name in kernel.by_rows:
            texts = [f"by rows: {kernel.by_rows[name]}"]
        else:
            continue
        lines += [f"{head:9}{text}" for head, text in zip((name, *("",) * len(texts)), texts, strict=False)]
    return lines
