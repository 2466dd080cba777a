"""Partials of slices as a table: writing it, assembling windows from it, and starting a stream from it.

::

    partials()        user | slice            | records | spent
                      bob  | 12:00 .. 12:05   |       2 | {high, low, n}
    from_partials     any windows whose edges are edges of these slices
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slicing.aggregates.aggregate import Aggregate, Bound, Struct
from slicing.aggregates.fields import width_of
from slicing.aggregates.kernel import Kernel
from slicing.aggregates.record_count import RECORD_COUNT
from slicing.assembly.choice import EAGER
from slicing.drafts.call import Call
from slicing.errors import InvalidType, InvalidValue
from slicing.options import Options
from slicing.spark.as_of import instant
from slicing.spark.bounded import assembled
from slicing.spark.columns import quoted
from slicing.spark.query import Query
from slicing.spark.rules import resolve
from slicing.stages import flat
from slicing.stages.execution_plan import ExecutionPlan
from slicing.stages.of_partials import OfPartials
from slicing.windows.families.slices_of import SlicesOf
from slicing.windows.window import Timed, Window

Path: TypeAlias = tuple[str, ...]
SLICE, RECORDS = "slice", "records"
"""The columns that a table of partials adds to its keys and results."""


def query_of(call: Call, window: Window | None = None, options: Options | None = None) -> Query:
    """Return the query whose windows are the slices of a call's windows, and whose results are its partials.

    The arguments are those of `call_of`. Raises InvalidValue for windows without shared slices, and for results that
    have no partials of slices.
    """
    return resolved(call_of(call, window, options))


def call_of(call: Call, window: Window | None = None, options: Options | None = None) -> Call:
    """Return the call whose windows are the slices of a call's windows, and whose results are its partials.

    `window` are other windows in place of the slices, and `options` other ones than those of results at close.

    A function of results (`then`) is left out, as `lower` is: it runs when windows are made of the table. Raises
    InvalidValue for windows without shared slices, and for results that have no partials of slices.
    """
    _check_windows(call.window)
    _check_results(call.named)
    named = {RECORDS: Bound(RECORD_COUNT, label=RECORDS), **_partials(call.named)}
    slices = window or Timed(SlicesOf(call.window.family), f"slices of {call.window}")
    return replace(call, window=slices, named=named, options=options or call.options.at_close, then=None)


def resolved(call: Call) -> Query:
    """Return the query of a call for partials. Raises InvalidType and InvalidValue."""
    query = resolve(call)
    _check_query(query)
    for key in query.keys:
        if key.name.casefold() == SLICE:
            raise InvalidValue(f"a table of partials has a column `{SLICE}` of its own. Rename the key.")
    return query


def of_slices(windows: DataFrame) -> DataFrame:
    """Return windows that are slices, with the column `window` renamed to `slice`."""
    return windows.withColumnRenamed("window", SLICE)


def _check_windows(window: Window) -> None:
    if window.alone:
        raise InvalidValue(
            f"partials are of slices that windows share, and {window} shares none, {window.alone}. "
            "Use windows that time decides."
        )
    if window.family.closed_right:
        raise InvalidValue(
            f"slices of a table hold their start and not their end, and windows closed on the right the other way "
            f"round; got {window}. Leave `closed` out."
        )


def _check_results(named: Mapping[str, Bound | Struct]) -> None:
    for name, result in named.items():
        if name.casefold() in (SLICE, RECORDS):
            raise InvalidValue(f"a table of partials has a column `{name}` of its own. Rename the result.")
        if isinstance(result, Bound) and result.names:
            raise InvalidValue(
                "partials are of results, and this definition keeps the records of windows. Write the records to a "
                "table themselves, or aggregate them without `process` and `evict`."
            )


def _check_query(query: Query) -> None:
    if query.ntz:
        raise InvalidType(
            f'slices of a table are timestamps, and `{query.time}` is timestamp_ntz. Cast it: `.cast("timestamp")`.'
        )
    eager = [each for each in query.shape.kernels if each.aggregate.combine is None]
    if eager or EAGER in query.trees:
        (label, *_) = [each.label for each in eager or query.shape.kernels]
        raise InvalidValue(
            f"partials are combined, and `{label}` is eager. Give it a `combine`, and leave `.assemble` out."
        )
    for each in query.shape.kernels:
        if each.aggregate.ordered:
            raise InvalidValue(
                f"the partials of a table are combined in any order, and `{each.label}` is `ordered`. Leave it out."
            )


def _partials(named: Mapping[str, Bound | Struct]) -> dict[str, Bound | Struct]:
    """The results without `lower`, so that each result is its partial."""
    return {
        name: Struct(_partials(each.results)) if isinstance(each, Struct) else replace(each, source=_own(each.source))
        for name, each in named.items()
    }


def _own(source: Aggregate | Callable[..., Aggregate]) -> Aggregate | Callable[..., Aggregate]:
    if isinstance(source, Aggregate):
        return replace(source, lower=None, returns=None)
    return lambda *kinds: replace(source(*kinds), lower=None, returns=None)


@dataclass(frozen=True)
class PartialsTable:
    """A table of partials.

    results: the paths of the results of the query that reads it, see `paths_of`.
    known_from: the microsecond before which slices may be missing; None if none is.
    """

    frame: DataFrame
    results: tuple[Path, ...]
    known_from: int | None = None

    def check(self, query: Query) -> None:
        """Raise InvalidType or InvalidValue unless the table has the partials of this query."""
        _check_windows(query.window)
        _check_query(query)
        if self.frame.isStreaming:
            raise InvalidType(
                "`from_partials` takes a bounded DataFrame; got a stream. Read the table by `spark.read`."
            )
        there = self.frame.columns
        for name in (*(key.name for key in query.keys), SLICE, RECORDS, *(path[0] for path in self.results)):
            if name not in there:
                raise InvalidValue(
                    f"a table of partials has a column `{name}`, and this one has {', '.join(there)}. Write it by "
                    "`definition.partials()`, of the same keys and results."
                )
        self._check_types(query)

    def _check_types(self, query: Query) -> None:
        edges = f"struct<start:{query.time_kind},end:{query.time_kind}>"
        wanted = [(key.name, quoted(key.name), key.type.simpleString()) for key in query.keys]
        wanted += [(SLICE, quoted(SLICE), edges), (RECORDS, quoted(RECORDS), "bigint")]
        wanted += [(name, column, _kind(kernel)) for name, column, kernel in self._columns(query)]
        for name, column, kind in wanted:
            found = self.frame.select(column).schema.fields[0].dataType.simpleString()
            if found != kind:
                raise InvalidType(
                    f"column `{name}` of the partials is {found}, and those of this query are {kind}. "
                    "Write them by `definition.partials()`, of the same keys and results."
                )

    def _columns(self, query: Query) -> Iterator[tuple[str, Column, Kernel]]:
        """The name, column and kernel of each result."""
        return zip(map(".".join, self.results), map(_at, self.results), query.shape.kernels, strict=True)

    def rows(self, query: Query) -> DataFrame:
        """Return the rows for the first stage: start and end, leaves of the key, record count, fields of partials."""
        leaves = [column for key in query.keys for column in replace(key, source=key.name).leaves()]
        fields = [
            column if _is_plain(kernel) else column.getField(field.name)
            for _, column, kernel in self._stored(query)
            for field in kernel.fields
        ]
        edges = [
            F.unix_micros(F.col(SLICE).getField(at)).alias(name) for at, name in (("start", "time"), ("end", "stop"))
        ]
        keys = [leaf.alias(name) for name, leaf in flat.numbered(flat.KEY, leaves or [F.lit(True)]).items()]
        values = [field.alias(name) for name, field in flat.numbered(flat.VALUE, fields).items()]
        return self.frame.select(*edges, *keys, F.col(RECORDS), *values)

    def _stored(self, query: Query) -> Iterator[tuple[str, Column, Kernel]]:
        """The results whose fields are stored: of results that share fields, only one."""
        found, sharing = tuple(self._columns(query)), query.execution_plan.sharing
        yield from found if sharing is None else sharing.select(found)

    def stage(
        self,
        execution_plan: ExecutionPlan,
        labels: tuple[int, ...],
        until: int | None = None,
        first: tuple[int, ...] | None = None,
    ) -> OfPartials:
        """Return the first stage that reads the rows of the table, see `OfPartials`."""
        return OfPartials(execution_plan.shipping, (), labels, until=until, first=first)


def _is_plain(kernel: Kernel) -> bool:
    """Whether the partial is a single value instead of a struct."""
    return len(kernel.fields) == 1 and not isinstance(kernel.aggregate.init(), tuple)


def _kind(kernel: Kernel) -> str:
    """The type of a column of partials, as Spark prints it."""
    kinds = ["binary" if width_of(field.kind) else field.kind for field in kernel.fields]
    named = (f"{field.name}:{kind}" for field, kind in zip(kernel.fields, kinds, strict=True))
    return kinds[0] if _is_plain(kernel) else f"struct<{','.join(named)}>"


def paths_of(named: Mapping[str, Bound | Struct]) -> tuple[Path, ...]:
    """Return the path of each result, in the order of the kernels: its column, then the fields of structs in it."""
    return tuple(
        (name, *inner)
        for name, result in named.items()
        for inner in (paths_of(result.results) if isinstance(result, Struct) else [()])
    )


def _at(path: Path) -> Column:
    first, *rest = path
    column = quoted(first)
    for each in rest:
        column = column.getField(each)
    return column


def build(table: PartialsTable, query: Query, labels: tuple[int, ...]) -> DataFrame:
    """Return the windows of a query from a table of partials, as a bounded DataFrame."""
    known = table.known_from
    if known is None:
        return assembled(query, table.rows(query), table.stage(query.execution_plan, labels))
    shape = query.shape
    first = tuple(int(family.last_window(family.slice_at(known - 1))) + 1 for family in shape.family.families)
    stage = table.stage(query.execution_plan, labels, first=first)
    if not query.window.wide:
        return assembled(query, table.rows(query), stage, begins_from=known)
    # A row has several windows; those that begin earlier are null.
    since = replace(query, shape=replace(shape, since=(known,) * len(shape.kernels)))
    return assembled(since, table.rows(query), stage).where(F.col("window_end") > instant(known))
