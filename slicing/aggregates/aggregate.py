"""`Aggregate`: up to five functions on partials, and what follows from them. No Spark, no state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from slicing.aggregates.fields import Field, check_partial, infer_fields, is_exact, parse_fields, parse_results
from slicing.aggregates.migration_hints import is_column, refusal, text_of, written
from slicing.errors import InvalidType, InvalidValue, excerpt

EVENT_TIME = "\0event time"
"""Stands for the event time, in int64 microseconds, among the columns that an aggregate is bound to."""

Input: TypeAlias = Any
"""The input of an aggregate: the name of a column, or a Column of Spark, whose text identifies it in the state."""

Condition: TypeAlias = Any
"""The condition on records of an aggregate: a column of booleans by name or as a Column of Spark; None for all."""

View: TypeAlias = Literal["values", "ranks", "limbs"]
VIEWS: tuple[View, ...] = ("values", "ranks", "limbs")


@dataclass(frozen=True)
class Fieldwise:
    """Combine (or invert) partials field by field, each with a binary numpy ufunc.

    It is called like any other function of two partials with `columns=True`. Because the ufuncs are known, slices are
    reduced and accumulated inside numpy, without a Python call per step. `then` puts what they give into another form
    of the same partial, in arrays of its own; the windows of a running total are added up without it.
    """

    ufuncs: tuple[np.ufunc, ...]
    then: Callable[[Any], Any] | None = None

    def __call__(self, a: Any, b: Any) -> Any:
        if len(self.ufuncs) == 1:
            return self.formed(self.ufuncs[0](a, b))
        return self.formed(tuple(ufunc(x, y) for ufunc, x, y in zip(self.ufuncs, a, b, strict=True)))

    def formed(self, partial: Any) -> Any:
        """Return the ufuncs' partial in the form of `then`."""
        return partial if self.then is None else self.then(partial)


@dataclass(frozen=True)
class Gathered:
    """An `agg` with `columns=True` that makes one partial of many records at once.

    For partials that are large beside a record. `gather(starts, *values)` returns the partials of runs of records, run
    g being the records from `starts[g]` up to the next start. Called as `agg` is, each record is a run of its own.
    """

    gather: Callable[..., Any]

    def __call__(self, _acc: Any, *values: Any) -> Any:
        leaves = [leaf for value in values for leaf in (value if isinstance(value, tuple) else (value,))]
        shape = leaves[0].shape
        flat = [tuple(v.ravel() for v in value) if isinstance(value, tuple) else value.ravel() for value in values]
        made = self.gather(np.arange(leaves[0].size), *flat)
        return tuple(part.reshape(shape) for part in made) if isinstance(made, tuple) else made.reshape(shape)


@dataclass(frozen=True)
class Growth:
    """The size of a partial of many things: `bytes` for each `thing`, of which there are at most `most`, if known.

    With `text` the text of each comes besides.
    """

    bytes: int
    thing: str
    most: int | None = None
    text: bool = False


def fieldwise(*ufuncs: np.ufunc, then: Callable[[Any], Any] | None = None) -> Fieldwise:
    """Return a function of two partials that applies these ufuncs, one for each field of the partial, in order.

    Fields are numpy arrays of equal shape. `then` brings the result into another form of the same partial.

    >>> fieldwise(np.add, np.maximum)((np.array([1]), np.array([5])), (np.array([2]), np.array([3])))
    (array([3]), array([5]))
    """
    return Fieldwise(ufuncs, then)


@dataclass(frozen=True)
class Aggregate:
    """Up to five functions: how records become a partial, how partials join, and what a window shows of one.

    `init()` is the partial of no records, `agg(acc, *values)` adds a record, `combine(a, b)` joins two partials where a
    is the older, `invert(ab, a)` takes the older part away exactly, `lower(a)` makes the result. Without `combine` the
    aggregate is eager: every record is folded into every window that covers it.

    partial: types of a partial's fields as DDL; inferred from `init()` if left out.
    returns: type of the result as DDL; needed with `lower`, else the result is the partial.
    columns: True if the functions work on numpy arrays of equal shape, one per field and per value; None, the default,
        if they are for single rows and may run as columns where that gives exactly the same, which `slicing.traced`
        shows; False if they are called row by row whatever they are.
    ordered: `combine` is associative but not commutative.
    nulls: `agg` is called for records with a null value too.
    eager: fold every record into every window that covers it, also with `combine`; without, also into more than 100.
    filtered: a column of booleans comes after the values of `agg`, which is only called for records in which it is
        true; `Bound.where` says so.
    meanings: what each field of a partial is, as texts: results of the same columns and condition whose fields are all
        among another's keep none of their own. Empty, the default, shares nothing.
    agg_many: `agg` of many records of a slice and key in one call: `agg_many(acc, values)`, with an iterable of values,
        or of tuples if there are several columns. It is called where `agg` cannot be traced.
    growth: how long a partial becomes whose binary field holds many things, for `explain`.
    view: how functions with `columns=True` see fields and values that numpy has no type for: "values" as Python
        objects; "ranks" as int64 ranks in a sorted dictionary (for functions that only compare and select; dates and
        timestamps as int64 days and microseconds); "limbs" decimals as four int64 arrays of 32 bits, lowest first.
    version: what partials mean, as a text of your own that checkpoints keep, since functions cannot be compared. Say
        another one when partials come to mean something else: a checkpoint of the one before is then refused.
    laws: the laws of `slicing.laws` are tried on a few values when a query is built; False trusts you.
    approximate: `combine` is associative and commutative only within the bound of a sketch on its error. It cannot be
        inverted then, and laws of it are not tried when a query is built.

    Raises InvalidType when a function is missing or not callable, InvalidValue when options exclude each other.
    """

    init: Callable[[], Any]
    agg: Callable[..., Any]
    combine: Callable[[Any, Any], Any] | None = None
    invert: Callable[[Any, Any], Any] | None = None
    lower: Callable[[Any], Any] | None = None
    _: KW_ONLY
    partial: str | None = None
    returns: str | None = None
    columns: bool | None = None
    ordered: bool = False
    nulls: bool = False
    view: View = "values"
    laws: bool = True
    eager: bool = False
    version: str = "1"
    filtered: bool = False
    approximate: bool = False
    meanings: tuple[str, ...] = ()
    growth: Growth | None = None
    agg_many: Callable[[Any, Iterable[Any]], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("init", "agg", "combine", "invert", "lower", "agg_many"):
            function = getattr(self, name)
            optional = name not in ("init", "agg")
            if not (callable(function) or (optional and function is None)):
                raise InvalidType(f"`{name}` must be a function; got {excerpt(function)}.")
        if self.invert is not None and self.combine is None:
            raise InvalidValue("`invert` needs `combine`: a window is assembled from slices before one is taken away.")
        if self.columns and self.agg_many is not None:
            raise InvalidValue(
                "`agg_many` is for functions of single rows; with `columns=True`, `agg` has many records. "
                "Leave out one of them."
            )
        if self.columns and self.combine is None:
            raise InvalidValue(
                "`columns=True` needs `combine`: `agg` makes a partial of every record, which are then joined."
            )
        if self.invert is not None and self.ordered:
            raise InvalidValue("`invert` needs a commutative `combine`; `ordered=True` says it is not. Leave out one.")
        if self.invert is not None and self.approximate:
            raise InvalidValue(
                "`invert` must be exact, and `approximate=True` says that `combine` is not: what is taken away is not "
                "what was put in. Leave out one."
            )
        if self.lower is not None and self.returns is None:
            raise InvalidValue('`returns` is needed with `lower`: the type of the result as DDL, for example "double".')
        if self.view not in VIEWS:
            raise InvalidValue(f"`view` must be one of {', '.join(VIEWS)}; got {excerpt(self.view)}.")
        if not isinstance(self.version, str):
            raise InvalidType(f'`version` must be a text, for example "2"; got {excerpt(self.version)}.')
        self._check_invert_exact()

    def _check_invert_exact(self) -> None:
        inexact = [str(field) for field in self.fields if not is_exact(field.kind)]
        if self.invert is not None and inexact:
            raise InvalidValue(
                f"`invert` must be exact, and subtracting floats is not: partial field(s) {', '.join(inexact)}. "
                "Leave `invert` out (windows are then assembled by `combine` alone) or keep integers or decimals."
            )

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of a partial, from `partial` or from the value of `init()`."""
        value = self.init()
        if self.partial is None:
            check_partial(value)
            return infer_fields(value)
        fields = parse_fields(self.partial)
        count = len(value) if isinstance(value, tuple) else 1
        if count != len(fields):
            raise InvalidValue(
                "`partial` must have one field for each item of `init()`; "
                f"got {excerpt(self.partial)} and {excerpt(value)}."
            )
        return fields

    @property
    def results(self) -> tuple[Field, ...]:
        """The fields of the result: those of `returns`, else those of the partial."""
        return parse_results(self.returns) if self.returns is not None else self.fields

    @property
    def keeps_records(self) -> bool:
        """Whether its partials hold the records themselves, of which a window needs no nodes."""
        return False

    def on(self, *columns: Input) -> Bound:
        """Bind this aggregate to columns: their values become the arguments of `agg` after the first.

        Each is a column's name, or a Column of Spark such as `F.col("amount") * 2`. Raises InvalidType for others.

        >>> Aggregate(lambda: 0, lambda total, x: total + x, lambda a, b: a + b).on("amount").columns
        ('amount',)
        """
        return Bound(self, columns)

    def __repr__(self) -> str:
        given = [written(f) for f in (self.init, self.agg, self.combine, self.invert, self.lower)]
        while given[-1] == "None":
            given.pop()
        options = [each for each in dataclasses.fields(self) if each.kw_only]
        said = [(each.name, getattr(self, each.name)) for each in options if getattr(self, each.name) != each.default]
        return f"Aggregate({', '.join([*given, *(f'{name}={written(value)}' for name, value in said)])})"


@dataclass(frozen=True)
class Bound:
    """An aggregate bound to columns; what `aggregate(name=...)` takes and what every combinator returns.

    `source` is an Aggregate, or a function from the kinds of the columns to one, for combinators whose partial depends
    on the type of what they aggregate. `label` is how messages and `explain` call it. `condition` is a column of
    booleans: only records in which it is true are aggregated. `unlimited` says, for a message, what its partials hold
    without end if no `limit` is given: on a stream that is refused. `own`: the functions are in part a user's, which
    are tried when a query is built. `call` is what made it, as it prints.
    """

    source: Aggregate | Callable[..., Aggregate]
    columns: tuple[Input, ...] = ()
    label: str = "aggregate"
    condition: Condition = None
    unlimited: str = ""
    own: bool = False
    call: str = field(default="", compare=False)

    nested: ClassVar[bool] = False  # whether its columns may be arrays and structs

    def __post_init__(self) -> None:
        for column in self.columns:
            if is_column(column):  # a label that was made of it shows what Spark adds to its text
                object.__setattr__(self, "label", self.label.replace(str(column), text_of(column)))
            elif not isinstance(column, str):
                raise InvalidType(
                    f"what is aggregated are columns, by name or as `F.col(...)`; got {excerpt(column)}. "
                    "For a constant write `F.lit(...)`."
                )

    def __repr__(self) -> str:
        if self.call:
            return self.call
        own = f"{self.source!r}.on" if isinstance(self.source, Aggregate) else self.label.partition("(")[0]
        condition = "" if self.condition is None else f".where({written(self.condition)})"
        return f"{own}({', '.join(map(written, self.columns))}){condition}"

    def where(self, condition: Condition) -> Bound:
        """Restrict the aggregate to records in which the boolean column `condition` is true.

        Spark's `FILTER (WHERE ...)`. A column's name, or a Column of Spark, whose text is then part of what the
        state of a stream depends on. Null is not true. None is no condition. The records that are left out still make a
        window.

        >>> Aggregate(lambda: 0, lambda n: n + 1).on().where("paid").inputs
        ('paid',)
        """
        if condition is None:
            return self
        if not isinstance(condition, str) and not is_column(condition):
            raise InvalidType(
                f"`where` takes the name of a column of booleans, or a Column; got {excerpt(condition)}. "
                'Write for example `where="paid"` or `where=F.col("amount") > 0`.'
            )
        if self.condition is not None:
            raise InvalidValue(f"`{self.label}` has a condition. Combine both into one, with `&`.")
        call = self.call and f"{self.call}.where({written(condition)})"
        return replace(self, condition=condition, label=f"{self.label} where {condition}", call=call)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the output that it makes in place of one with the name of the result; none here."""
        return ()

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The columns that it reads: those of the values, then the condition."""
        return self.columns if self.condition is None else (*self.columns, self.condition)

    def resolve(self, kinds: tuple[str, ...]) -> Aggregate:
        """The aggregate for columns of these kinds. Raises InvalidType when it has no meaning for them."""
        aggregate = self.source if isinstance(self.source, Aggregate) else self.source(*kinds)
        return aggregate if self.condition is None else replace(aggregate, filtered=True)

    def tried(self, kernel: Any, kinds: Sequence[str]) -> Iterator[tuple[Any, Sequence[str]]]:
        """Yield the kernels whose functions are tried when a query is built, with the kinds of their columns.

        `kernel` is that of this result, for `columns` of these kinds. It is tried if a user wrote functions of it.
        """
        if isinstance(self.source, Aggregate) or self.own:
            yield kernel, kinds


@dataclass(frozen=True)
class Struct:
    """Several results as one struct; each keeps its own partial and tree. Raises InvalidType for what is no result.

    `call` is what made it, as it prints; without, it prints as `C.struct` of its parts.
    """

    results: Mapping[str, Bound | Struct]
    call: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.results:
            raise InvalidValue('a struct needs at least one result, for example `C.struct(low=C.min("x"))`.')
        for name, value in self.results.items():
            if not isinstance(value, (Bound, Struct)):
                raise InvalidType(refusal(f"field `{name}` of a struct", value))

    def where(self, condition: Condition) -> Struct:
        """This, each result of the records in which the condition is true, as `Bound.where`; None is no condition."""
        call = self.call and f"{self.call}.where({written(condition)})" if condition is not None else self.call
        return Struct({name: result.where(condition) for name, result in self.results.items()}, call)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The columns that its results read."""
        return tuple(column for result in self.results.values() for column in result.inputs)

    def __repr__(self) -> str:
        return self.call or f"C.struct({', '.join(f'{name}={result!r}' for name, result in self.results.items())})"
