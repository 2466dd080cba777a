"""The fluent interface: `group_by(df, *keys).window(...).aggregate(...)`; values all the way, checked early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from slicing.aggregates.aggregate import Aggregate, Bound, Struct
from slicing.assembly.choice import EAGER, TREES
from slicing.emission.emission import ON_CLOSE, Emission
from slicing.emission.lateness import COUNTS, LATE_OUTPUTS
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.windows.clock import ProcessingTime
from slicing.windows.durations import Duration, microseconds
from slicing.windows.sets import windows_of_call
from slicing.windows.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from slicing.explain.plan import Plan
    from slicing.spark.query import Query

Time: TypeAlias = str | ProcessingTime | None
"""What tells the time of records: a column, the clock, or, where windows never close, nothing."""
_FUNCTIONS = ("init", "agg", "combine", "invert")


def group_by(df: DataFrame, *keys: str) -> Grouped:
    """Group a DataFrame, streaming or bounded, by 0 to n key columns given by name.

    Keys are columns of atomic types and structs of them. Null is a group of its own, as in Spark.
    Raises InvalidType for keys that are not names.
    """
    for key in keys:
        if not isinstance(key, str):
            raise InvalidType(f"keys are names of columns; got {excerpt(key)}. Compute it first with `withColumn`.")
    return Grouped(df, keys)


@dataclass(frozen=True)
class Grouped:
    """A DataFrame and its keys; `window` is next."""

    df: DataFrame
    keys: tuple[str, ...]

    def window(self, *windows: Window | Time, time: Time = None, long: bool = False, **named: Window) -> Windowed:
        """Cut time into windows, given by a timestamp column, or if input is bounded by a timestamp_ntz column too.

        Several windows share slices, one query and one state. Without names each has rows of its own, told apart by
        `window`. By name, `.window(short=..., day=..., time="ts")`, they share a row for each key and `window_end`,
        with a column `<result>_<name>` for each, null where the window is empty; they must end together. With
        `long=True` they have rows of their own and a column `windows` with the name.

        `unbounded()`, `session(...)`, `sliding(...)` and `counting(...)` share no slices and stand alone. On a stream
        `time` may be `processing_time()`; `unbounded()` and `counting(...)` need none. Raises InvalidType,
        InvalidValue.
        """
        if time is None and windows and isinstance(windows[-1], (str, ProcessingTime)):
            *windows, time = windows  # type: ignore[assignment]
        if not isinstance(long, bool):
            raise InvalidType(
                f"`long` says whether windows with names have rows of their own, True or False; got {excerpt(long)}. "
                "Call that window something else."
            )
        found = windows_of_call(windows, named, long)
        if not (isinstance(time, (str, ProcessingTime)) or (time is None and not found.by_time)):
            raise InvalidType(f"`time` is the name of a column, or processing_time(); got {excerpt(time)}.")
        return Windowed(self.df, self.keys, found, time)


@dataclass(frozen=True)
class Windowed:
    """Keys, windows and options; every method returns a new value."""

    df: DataFrame
    keys: tuple[str, ...]
    windows: Window
    time: Time
    grace_us: int = 0
    bucket_count: int | None = None
    tree: str = "auto"
    late_output: str = COUNTS
    emission: Emission = ON_CLOSE

    def emit(self, emission: Emission) -> Windowed:
        """Choose when results go out: `on_close()`, as without this, `on_update()`, `on_change()` or `early(...)`.

        No effect on bounded input, where every window has one row. May change on a live checkpoint, except to or from
        `early(every=...)`, whose timers go by another clock. Raises InvalidType.
        """
        if not isinstance(emission, Emission):
            raise InvalidType(
                f"`emit` takes what on_close, on_update, on_change or early return; got {excerpt(emission)}. "
                "Write for example `.emit(on_update())`."
            )
        return replace(self, emission=emission)

    def grace(self, duration: Duration) -> Windowed:
        """Wait `duration` longer after a window's end, for late records; the same as so much more watermark delay.

        With `on_close(corrections=True)` windows go out at their end all the same, and are corrected for so long.
        No effect on bounded input. Raises InvalidValue for a negative duration.
        """
        length = microseconds(duration, "grace")
        if length < 0:
            raise InvalidValue(f"`grace` must not be negative; got {excerpt(duration)}.")
        return replace(self, grace_us=length)

    def buckets(self, count: int) -> Windowed:
        """Keep state in `count` buckets instead of one per shuffle partition; fixed for the life of a checkpoint."""
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InvalidValue(f"`buckets` must be a positive integer; got {excerpt(count)}.")
        return replace(self, bucket_count=count)

    def assemble(self, tree: str) -> Windowed:
        """Choose the tree: "auto" (for each aggregate the best), "two_layer", "three_layer" or "recompute".

        "eager" folds every record into every window that covers it, as other engines do: to measure against. For one
        aggregate say `Aggregate(..., eager=True)`, which goes before a tree that is chosen here.
        """
        if tree not in ("auto", *TREES, EAGER):
            raise InvalidValue(f"`assemble` takes auto, {', '.join((*TREES, EAGER))}; got {excerpt(tree)}.")
        return replace(self, tree=tree)

    def late(self, output: str) -> Windowed:
        """Choose what becomes of records that come late: "counts" (the default), "partials" or "records".

        "partials": what was refused goes out too, as one row per slice and key of a micro-batch; nothing more is stored
        or shuffled. "records": the records themselves as well; every record is then shuffled, whoever is late. Rows are
        told apart by a column `late`, which `slicing.results`, `late_partials` and `late_records` split by. No effect
        on bounded input, where nothing is late. Raises InvalidValue.
        """
        if output not in LATE_OUTPUTS:
            raise InvalidValue(f"`late` takes {', '.join(LATE_OUTPUTS)}; got {excerpt(output)}.")
        return replace(self, late_output=output)

    def aggregate(self, *functions: Callable[..., Any], **arguments: Any) -> DataFrame:
        """The results of all windows, with columns keys, `window` and one per result.

        Either results by name, `aggregate(orders=C.count(), mean=Mean.on("amount"))`, or the functions of one
        aggregate, `aggregate(init, agg, combine, invert, value="amount", ...)`, with the keywords of `Aggregate`,
        `value` (one column or several) and `name` (of the result, "value" if left out).
        """
        from slicing.spark.build import build

        return build(self._query(functions, arguments), self.bucket_count)

    def plan(self, *functions: Callable[..., Any], **arguments: Any) -> Plan:
        """What `aggregate` with these arguments would do, as a value."""
        from slicing.spark.build import plan

        return plan(self._query(functions, arguments), self.bucket_count)

    def _query(self, functions: tuple[Any, ...], arguments: dict[str, Any]) -> Query:
        from slicing.spark.resolve import resolve

        results = named(functions, arguments)
        options = self.tree, self.grace_us, self.emission, self.late_output
        return resolve(self.df, self.keys, self.windows, self.time, results, *options)

    def explain(self, *functions: Callable[..., Any], **arguments: Any) -> None:
        """Print what `aggregate` with these arguments would do; nothing is run."""
        print(self.plan(*functions, **arguments))


def named(functions: tuple[Any, ...], arguments: dict[str, Any]) -> dict[str, Bound | Struct]:
    """Bound aggregates by the names of their results, from either form of call."""
    if functions and isinstance(functions[0], (Aggregate, Bound, Struct)):
        raise InvalidType("results need names: write `aggregate(name=...)`, for example `aggregate(orders=C.count())`.")
    if functions or any(name in arguments and not isinstance(arguments[name], (Bound, Struct)) for name in _FUNCTIONS):
        return _one_aggregate(functions, dict(arguments))
    if not arguments:
        raise InvalidValue("`aggregate` needs at least one result, for example `aggregate(orders=C.count())`.")
    return {name: _bound(name, value) for name, value in arguments.items()}


def _bound(name: str, value: Any) -> Bound | Struct:
    if isinstance(value, Aggregate):
        return value.on()
    if not isinstance(value, (Bound, Struct)):
        raise InvalidType(
            f"result `{name}` must be a combinator or an `Aggregate(...).on(column)`; got {excerpt(value)}. "
            "The functions of one aggregate are passed by position or as init=, agg=, combine=, invert=."
        )
    return value


def _one_aggregate(functions: tuple[Any, ...], arguments: dict[str, Any]) -> dict[str, Bound | Struct]:
    mixed = [name for name, value in arguments.items() if isinstance(value, (Bound, Aggregate, Struct))]
    if mixed:
        raise InvalidValue(
            f"the functions of one aggregate and results by name (`{mixed[0]}`) cannot be mixed in one call. "
            "Make the functions an `Aggregate(...)` and name it too."
        )
    value = arguments.pop("value", ())
    name = arguments.pop("name", "value")
    columns = (value,) if isinstance(value, str) else tuple(value)
    try:
        aggregate = Aggregate(*functions, **arguments)
    except TypeError as error:
        if isinstance(error, InvalidType):
            raise
        raise InvalidType(
            f"`aggregate` takes init, agg, combine, invert, lower and the options of Aggregate: {error}."
        ) from None
    return {name: Bound(aggregate, columns, name)}
