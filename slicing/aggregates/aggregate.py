"""`Aggregate`: up to five functions on partials, with their types and options. No Spark, no state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from slicing.aggregates.fields import (
    Field,
    check_partial,
    infer_fields,
    is_exact,
    kind_of,
    parse_fields,
    parse_results,
    result_kind_of,
)
from slicing.column_names import is_column, text_of, written
from slicing.errors import InvalidType, InvalidValue, excerpt

EVENT_TIME = "\0event time"
"""The name that stands for the event time, in int64 microseconds, among the columns of an aggregate."""

Input: TypeAlias = Any
"""The input of an aggregate: the name of a column, or a Spark Column, whose text identifies it in the state."""

Tried: TypeAlias = tuple[Any, Sequence[str], Sequence[bool]]
"""A kernel for the dry run, the kinds of its columns, and whether there may be nulls in each."""

Condition: TypeAlias = Any
"""The condition on records: the name of a boolean column, or a Spark Column; None for all records."""

View: TypeAlias = Literal["values", "ranks", "limbs"]
VIEWS: tuple[View, ...] = ("values", "ranks", "limbs")


@dataclass(frozen=True)
class Fieldwise:
    """Combine (or invert) partials field by field, each with a binary numpy ufunc.

    It is called like any other function of two partials with `columns=True`. Because the ufuncs are known, slices are
    reduced and accumulated inside numpy, without a Python call per step. `then` converts the result of the ufuncs to
    another form of the same partial, in new arrays. Windows of a running total are added without it.
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

    For partials that are large compared with a record. `gather(starts, *values)` returns the partials of runs of
    records; run g has the records from `starts[g]` up to the next start. If it is called like `agg`, each record is a
    run of its own.
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
    """The size of a partial that holds many things: `bytes` per `thing`; at most `most` things, if known.

    With `text`, the text of each thing is added to its size.
    """

    bytes: int
    thing: str
    most: int | None = None
    text: bool = False


def fieldwise(*ufuncs: np.ufunc, then: Callable[[Any], Any] | None = None) -> Fieldwise:
    """Return a function of two partials that applies these ufuncs, one for each field of the partial, in order.

    Fields are numpy arrays of equal shape. `then` converts the result to another form of the same partial, such as
    carries between the limbs of a sum; of a cumulative sum only `lower` sees that form.

    >>> import numpy as np
    >>> fieldwise(np.add, np.maximum)((np.array([1]), np.array([5])), (np.array([2]), np.array([3])))
    (array([3]), array([5]))
    """
    return Fieldwise(ufuncs, then)


@dataclass(frozen=True)
class Aggregate:
    """Up to five functions that make partials from records, combine partials, and make the result of a window.

    `init()` returns the partial of no records. `agg(acc, *values)` adds a record. `combine(a, b)` merges two partials;
    a is the older one. `invert(ab, a)` removes the older part exactly; without records, the partial of a window is
    `init()` again. `lower(a)` returns the result. Without `combine` the aggregate is eager: every record is folded into
    every window that contains it.

    partial: types of a partial's fields as DDL; inferred from `init()` by default. A field `binary(n)` always has n
        bytes; numpy sees one element `V{n}`, which `.view(...)` reads as numbers. A field is None only if `init()`
        returns None for it.
    returns: type of the result as DDL; needed with `lower`. Without `lower` the result is the partial: a column, or a
        struct with a field for each item. Arrays and structs are possible: with `columns=True` the cell of an array of
        structs is a tuple of arrays, one for each field.
    columns: True if the functions take numpy arrays of equal shape, one per field and per value. None, the default, if
        they take single rows; they may then run on columns where that gives exactly the same, see `slicing.traced`.
        False if they must always be called row by row. With True `agg` gets `init()` in every cell, and `combine`
        merges neighbours in order; it may get cells of `init()` for keys without records. With `nulls` values are
        masked arrays, and partials must not be masked. A mask of `lower` means null.
    ordered: `combine` is associative but not commutative. Records of a slice come by micro-batch, input partition and
        position; a record out of order rebuilds the tree.
    nulls: `agg` is also called for records with a null value.
    eager: use the eager plan also with `combine`, and also with more than 100 windows per record.
    filtered: a boolean column follows the values of `agg`; `agg` is called only for records in which it is true. Set by
        `Bound.where`.
    meanings: the meaning of each field of a partial, as texts. A result whose fields are all among the fields of
        another result of the same columns and condition keeps none of its own. Empty, the default, shares nothing.
    agg_many: `agg` of many records of a slice and key in one call: `agg_many(acc, values)`, with an iterable of values,
        or of tuples if there are several columns. It is called where `agg` cannot be traced.
    growth: the size of a partial whose binary field holds many things, for `explain`.
    partials_of_runs: the partials of runs of partials without combining neighbours, where that is quicker. It is called
        with the partials of rows by key and time, the first row of each run, and the row after its last. It returns the
        partial of each run, the same bits as by `combine`, or None if neighbours should be combined.
    results_of_runs: the results of runs of partials without combining them, for `features_at`. It is called with the
        partials of rows by key and time, and returns a function of two arrays: the first row of each run, and the row
        after its last. That returns the result of each run, never null, or None if runs must be combined.
    view: the form of fields and values without a numpy type in functions with `columns=True`. "values": Python objects.
        "ranks": int64 ranks in a sorted dictionary, for functions that only compare and select, within one call; -1 is
        below and 2^63 - 1 above all, and both are null in the output. Dates and timestamps are int64 days and
        microseconds. "limbs": decimals as four int64 arrays of 32 bits, lowest first; arrays, maps
        and structs as bytes in their order.
    version: the meaning of partials, as a text of your own. Checkpoints keep it, since functions cannot be compared.
        Change it when the meaning of partials changes: a checkpoint with another version is then refused.
    laws: check the laws of `slicing.laws` on a few values when a query is built; False trusts you. Floats may differ by
        1e-9 of the largest value, `float` by 1e-5; an exception for a value proves nothing. At most 200 calls and 20 ms
        of processor time. A live checkpoint allows another value of it, and of `approximate`.
    approximate: `combine` is associative and commutative only within the error bound of a sketch. The aggregate cannot
        be inverted then, and its laws are not checked when a query is built.

    Raises InvalidType if a function is missing or not callable, InvalidValue if options exclude each other.
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
    partials_of_runs: Callable[..., Any] | None = None
    results_of_runs: Callable[..., Callable[[Any, Any], Any]] | None = None

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
        fields = parse_fields(self.partial, result_kind_of if self.view == "ranks" else kind_of)
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
    def identity(self) -> str:
        """The meaning of partials as it is stored: `version`, after the name under which `combine` stores them, if any.

        Aggregates of the catalogue have such a name.
        """
        stored_as = getattr(self.combine, "stored_as", None)
        return self.version if stored_as is None else f"{stored_as} {self.version}"

    @property
    def keeps_records(self) -> bool:
        """Whether partials hold the records themselves; windows then need no tree nodes."""
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
    """An aggregate bound to columns; `aggregate(name=...)` takes it, and every combinator returns one.

    `source` is an Aggregate, or a function from the kinds of the columns to one, for combinators whose partial depends
    on the type of the input. `label` is its name in messages and in `explain`. `condition` is a boolean column: only
    records in which it is true are aggregated. `unlimited` is the part of a message that names the contents that grow
    without limit if no `limit` is given; this is refused on a stream. `own`: some of the functions are a user's, so
    they are in the dry run. `nested`: its columns may be arrays, maps and structs. `call` is the text of the call that
    made it.
    """

    source: Aggregate | Callable[..., Aggregate]
    columns: tuple[Input, ...] = ()
    label: str = "aggregate"
    condition: Condition = None
    unlimited: str = ""
    own: bool = False
    nested: bool = False
    call: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for column in self.columns:
            if is_column(column):  # a label made from the column contains the text that Spark adds to it
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

        This is Spark's `FILTER (WHERE ...)`. `condition` is a column's name, or a Spark Column, whose text then
        identifies it in the state of a stream. Null counts as false. None is no condition. Excluded records still make
        a window.

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
        """The output columns that replace a single column with the name of the result; none here."""
        return ()

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The columns that it reads: the value columns, then the condition."""
        return self.columns if self.condition is None else (*self.columns, self.condition)

    def resolve(self, kinds: tuple[str, ...]) -> Aggregate:
        """Return the aggregate for columns of these kinds. Raises InvalidType if it is undefined for them."""
        aggregate = self.source if isinstance(self.source, Aggregate) else self.source(*kinds)
        return aggregate if self.condition is None else replace(aggregate, filtered=True)

    def tried(self, kernel: Any, kinds: Sequence[str], nullable: Sequence[bool]) -> Iterator[Tried]:
        """Yield the kernels that the dry run checks when a query is built, with their columns.

        `kernel` is the kernel of this result, for `columns` of these kinds, in which there may be nulls. It is checked
        if a user wrote any of its functions.
        """
        if isinstance(self.source, Aggregate) or self.own:
            yield kernel, kinds, nullable


@dataclass(frozen=True)
class Struct:
    """Several results as one struct; each keeps its own partial and tree. Raises InvalidType for an invalid result.

    `call` is the text of the call that made it; by default, `C.struct` of its parts.
    """

    results: Mapping[str, Bound | Struct]
    call: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.results:
            raise InvalidValue('a struct needs at least one result, for example `C.struct(low=C.min("x"))`.')
        for name, value in self.results.items():
            if not isinstance(value, (Bound, Struct)):
                from slicing.hints import refusal

                raise InvalidType(refusal(f"field `{name}` of a struct", value))

    def where(self, condition: Condition) -> Struct:
        """Return the struct with the condition on each result, as `Bound.where`; None is no condition."""
        call = self.call and f"{self.call}.where({written(condition)})" if condition is not None else self.call
        return Struct({name: result.where(condition) for name, result in self.results.items()}, call)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The columns that its results read."""
        return tuple(column for result in self.results.values() for column in result.inputs)

    def __repr__(self) -> str:
        return self.call or f"C.struct({', '.join(f'{name}={result!r}' for name, result in self.results.items())})"
