"""The fluent interface `group_by(df, *keys).window(...).aggregate(...)`: immutable values, checked early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, overload

from slicing.aggregates.aggregate import Aggregate, Bound, Input, Struct
from slicing.assembly.choice import EAGER, TREES
from slicing.column_names import columns_in, is_column, is_window
from slicing.definition import Definition, check_frame, is_frame
from slicing.errors import InvalidType, InvalidValue, check_flag, excerpt
from slicing.options import Asked, Options, grouping_text
from slicing.state.format.buckets import Buckets
from slicing.state.format.fingerprint import ADAPTS
from slicing.triggers.emission import Emission
from slicing.triggers.lateness import LATE_OUTPUTS
from slicing.triggers.own import emission_of
from slicing.triggers.user_trigger import Trigger as UserTrigger
from slicing.windows.clock import ProcessingTime
from slicing.windows.lookback import Frame, Lookbacks, lookbacks
from slicing.windows.sets import windows_of_call
from slicing.windows.time.closed import Closed
from slicing.windows.time.durations import Duration, microseconds
from slicing.windows.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from slicing.explain import FeaturesPlan, Plan
    from slicing.process.call import ProcessOptions
    from slicing.process.evictors import Evictor
    from slicing.process.function import Then
    from slicing.spark.features import FeatureQuery
    from slicing.spark.query import Query

Time: TypeAlias = Any
"""The time of records: a column, by name or as a Spark Column, or `processing_time()`; None where windows never close
by time."""
Tree: TypeAlias = Literal["auto", "two_layer", "three_layer", "recompute", "eager"]
Adapt: TypeAlias = Literal["refuse", "allow"]
Output: TypeAlias = Literal["counts", "partials", "records"]
_FUNCTIONS = ("init", "agg", "combine", "invert")
_STATES = ("key_state", "window_state", "clear", "key_ttl")
_KEYS = "names of columns, or Columns of Spark"


@overload
def group_by(df: DataFrame, *keys: Input | Sequence[Input]) -> Grouped: ...


@overload
def group_by(*keys: Input | Sequence[Input]) -> Grouped: ...


def group_by(df: Any = None, *keys: Input | Sequence[Input]) -> Grouped:
    """Group a DataFrame, streaming or bounded, by 0 to n key columns, given by name or as Spark Columns.

    Keys are columns of atomic types and structs of them, fields of structs by their path ("address.city"), or computed
    from a record: `F.to_date("ts")`. A list of keys is the same as the keys. Null is a separate group, as in Spark.
    Without a DataFrame, `group_by("user")` defines windows for later DataFrames:
    `events.transform(group_by("user").window(...).define(...))`. Nothing is run. Raises InvalidType if `df` is no Spark
    DataFrame, and for other keys.

    >>> from slicing import tumbling
    >>> group_by("user", "city").window(tumbling("1 day"), time="ts")
    group_by('user', 'city').window(tumbling('1 day'), time='ts')
    """
    if isinstance(df, (str, list, tuple)) or (not is_frame(df) and is_column(df)):
        df, keys = None, (df, *keys)
    if df is not None:
        check_frame(df, "group_by", "group_by(df, *keys)")
    flat = [key for given in keys for key in (given if isinstance(given, (list, tuple)) else (given,))]
    for key in flat:
        if is_frame(key):
            raise InvalidType(f"a DataFrame is no key; it comes first: `group_by(df, *keys)`. Keys are {_KEYS}.")
        if not isinstance(key, str) and not is_column(key):
            raise InvalidType(f"keys are {_KEYS}; got {excerpt(key)}.")
        if is_window(key):
            raise InvalidType(
                "windows are no keys here: `group_by(df, *keys).window(hopping(size, advance), time=...)`; "
                f"got {excerpt(key)}."
            )
    return Grouped(df, tuple(flat))


@dataclass(frozen=True)
class Grouped:
    """The keys and, optionally, the DataFrame of a grouping; call `window` next."""

    df: DataFrame | None
    keys: tuple[Input, ...]

    def __repr__(self) -> str:
        return grouping_text(self.df, self.keys)

    def __getattr__(self, name: str) -> Any:
        from slicing.hints import OF_GROUPED, no_name

        raise no_name("a grouping without windows", name, OF_GROUPED, dir(type(self)))

    def window(self, *windows: Window | Time, time: Time = None, long: bool = False, **named: Window) -> Windowed:
        """Assign each record to windows, by its time: a timestamp column, on bounded input also a timestamp_ntz column.

        Several windows share slices, one query and one state. Without names, each has its own rows, which `window`
        distinguishes. With names, `.window(short=..., day=..., time="ts")`, they share a row per key and `window_end`,
        with a column `<result>_<name>` for each, null if the window is empty; they must end together. With `long=True`,
        named windows have their own rows, with the name in a column `windows`. Without it, windows that could have the
        same interval are refused: all of lists are compared, of other kinds samples of the years 1970 to 2370. Slices
        are cut at the edges of all windows, or made equal if these are at most twice as many. A record that is late for
        two windows has a late row for each, named in `late.windows`, and is counted once: as `late` if no window
        accepted it.

        `unbounded()`, `session(...)`, `sliding(...)`, `counting(...)` and `assigned_by(...)` share no slices, so each
        must be the only window of a call. On a stream, `time` may be `processing_time()`; `unbounded()` and
        `counting(...)` need no time. Raises InvalidType for other values than windows and times, InvalidValue for
        windows that cannot be combined.

        >>> from slicing import hopping, tumbling
        >>> group_by("user").window(short=tumbling("1 minute"), day=hopping("1 day", "1 minute"), time="ts")
        group_by('user').window(short=tumbling('1 minute'), day=hopping('1 day', advance='1 minute'), time='ts')
        """
        _check_no_sparks_window(windows)
        if time is None and windows and _is_time(windows[-1]):
            *windows, time = windows  # type: ignore[assignment]
        if not isinstance(long, bool):
            raise InvalidType(
                f"`long` says whether windows with names have rows of their own, True or False; got {excerpt(long)}. "
                "Call that window something else."
            )
        found = windows_of_call(windows, named, long)
        if not (_is_time(time) or (time is None and not found.by_time)):
            raise InvalidType(
                f"`time` is the name of a column, or processing_time(); got {excerpt(time)}. "
                'Say which column has the time of a record: `.window(..., time="ts")`.'
            )
        return Windowed(self.df, self.keys, found, time)

    def features_at(
        self,
        spine: DataFrame,
        length: Duration | Frame | None = None,
        /,
        *,
        time: Input,
        spine_time: Input | None = None,
        inclusive: bool = False,
        closed: Closed | None = None,
        zone: str | None = None,
        known: Input | None = None,
        **lengths: Duration | Frame,
    ) -> FeaturesAt:
        """Aggregate, for each row of `spine`, the records of its key just before its time: a point-in-time join.

        It makes training sets: each row uses only records that were known at its time.

        `spine` has the key columns, a time column, and any other columns. `spine_time` is needed if the time column has
        another name than in the records. Each row gets the results of the records of its key in `[t - length, t)`,
        exact to the microsecond. `closed` says which ends belong to it: "left", the default, "right" `(t - length, t]`,
        "both", which is also `inclusive=True`, or "none". `frame("-3 days", "-1 day")` instead of a length is another
        time before, around or after the row. With `zone` lengths of days, weeks, months, quarters or years begin at the
        same time of the day by its wall clock, in a month without that day on its last day; a time that the clock skips
        is the first instant after the gap, one that it shows twice the earlier instant, and clock units elapse. `known`
        names a column with the instant at which a record became known: it counts from then on, and never if that is
        null. With names, `features_at(spine, hour="1 hour", day="1 day", time="ts")`, each length has a column
        `<result>_<name>`. Keys have the same names and types on both sides. Null keys match null; without a record, or
        without a time, results are null, counts too. Bounded input only. Raises InvalidType without DataFrames and for
        other times, InvalidValue for lengths that are not positive. Cost: see `FeaturesAt.aggregate`.
        """
        if self.df is None:
            raise InvalidType(
                "`features_at` needs the DataFrame of the records, and this grouping has none. "
                "Write `group_by(df, *keys).features_at(...)`."
            )
        for name, column in (("time", time), ("spine_time", spine_time), ("known", known)):
            if not (isinstance(column, str) or is_column(column) or (column is None and name != "time")):
                raise InvalidType(f"`{name}` is the name of a column; got {excerpt(column)}.")
        found = lookbacks(length, lengths, inclusive, closed, zone)
        if known is not None:
            found = replace(found, known=str(known))
        return FeaturesAt(self.df, self.keys, spine, found, time, time if spine_time is None else spine_time, known)


def _is_time(value: Any) -> bool:
    return isinstance(value, (str, ProcessingTime)) or (is_column(value) and not is_window(value))


@dataclass(frozen=True, repr=False)
class Windowed(Asked):
    """The keys, windows and options of a windowed aggregation; every method returns a new value."""

    def __getattr__(self, name: str) -> Any:
        from slicing.hints import OF_WINDOWED, no_name

        raise no_name("a windowed grouping", name, OF_WINDOWED, dir(type(self)))

    def emit(self, emission: Emission | UserTrigger) -> Windowed:
        """Choose when windows fire: `on_close()` (the default), `on_update()`, `on_change()` or `early(...)`.

        It also takes a user-defined `Trigger`, which is tested in this call. On bounded input each window fires once,
        whatever the trigger; the last count window of a key, if it is not full, fires only with `early(...)` without
        `final=False`. Eager aggregates support every trigger; in a call with others, slices decide which windows fire,
        and `on_change()` compares all results. The trigger may change on a live checkpoint, except to or from those
        whose timers use processing time: `every` and `after` without `by="event"`, and a `Trigger` with `on_clock`.
        Raises InvalidType for other values than triggers; a trigger that the windows do not support is refused when the
        query is built.

        >>> from slicing import on_update, tumbling
        >>> group_by("user").window(tumbling("1 day"), time="ts").emit(on_update())
        group_by('user').window(tumbling('1 day'), time='ts').emit(on_update())
        """
        emission = emission_of(emission)
        if not isinstance(emission, Emission):
            raise InvalidType(
                f"`emit` takes what on_close, on_update, on_change or early return, or a Trigger; got "
                f"{excerpt(emission)}. Write for example `.emit(on_update())`."
            )
        return self._with(trigger=emission)

    def grace(self, duration: Duration) -> Windowed:
        """Close windows `duration` after their end instead of at their end, by the watermark.

        Records that arrive until then count. The rows are those of a watermark delay that is longer by `duration`. With
        `on_close(corrections=True)`, windows still fire at their end, and again for delayed records until they close.
        Cost: slices stay in the state for the duration. No effect on bounded input. Raises InvalidValue for a negative
        duration, InvalidType for a number without a unit.

        >>> from slicing import tumbling
        >>> group_by("user").window(tumbling("1 day"), time="ts").grace("2 hours")
        group_by('user').window(tumbling('1 day'), time='ts').grace('2 hours')
        """
        length = microseconds(duration, "grace")
        if length < 0:
            raise InvalidValue(
                f"`grace` must not be negative; got {excerpt(duration)}. Say for how long records may be later than "
                'the watermark allows, for example `.grace("1 hour")`, or leave it out.'
            )
        return self._with(grace=length)

    def retain(self, duration: Duration) -> Windowed:
        """Keep slices until the watermark is `duration` past them, even if no window needs them any more.

        Lookups then find windows that have closed, and longer windows than those of the query. Results do not change. A
        record that was late for all windows is in no retained slice. Windows that are added on a live checkpoint start
        at the oldest retained slice, or after the newest slice with a refused record; a warm start loads retained
        slices, too. It may change on a live checkpoint, but removed slices do not come back. Cost: the state of these
        slices, see `explain`. No effect on bounded input. Raises InvalidType for a number, InvalidValue for a negative
        duration, and, with the results, for windows whose state has no slices and for those with a tail.

        >>> from slicing import hopping
        >>> group_by("user").window(hopping("1 hour", "1 minute"), time="ts").retain("1 day")
        group_by('user').window(hopping('1 hour', advance='1 minute'), time='ts').retain('1 day')
        """
        length = microseconds(duration, "retain")
        if length < 0:
            raise InvalidValue(
                f"`retain` must not be negative; got {excerpt(duration)}. Say for how long slices are to stay after "
                'the watermark has passed them, for example `.retain("1 day")`, or leave it out.'
            )
        return self._with(retain=length)

    def idle(self, after: Duration) -> Windowed:
        """Advance the watermark by the clock if no record has arrived for `after`, so that idle windows close.

        The watermark advances from its value when a bucket last received input, or when the stream's watermark last
        moved. So each window closes when it would close if records continued in real time. A record that arrives after
        its window has closed this way is late, and is counted as late. When records come again, or the stream's
        watermark moves, the bucket waits until the stream has caught up. Records of other buckets do not count. A
        replay runs at another speed and returns other rows. Off by default.

        Spark then runs micro-batches without data forever; a query cannot switch it on or off on its checkpoint. No
        effect on bounded input. Raises InvalidValue for less than a second, InvalidType for a number.

        >>> from slicing import tumbling
        >>> group_by("user").window(tumbling("1 day"), time="ts").idle("1 minute")
        group_by('user').window(tumbling('1 day'), time='ts').idle('1 minute')
        """
        length = microseconds(after, "after")
        if length < 1_000_000 or length % 1000:
            raise InvalidValue(f"`after` must be at least 1 second, in whole milliseconds; got {excerpt(after)}.")
        return self._with(idle=length)

    def buckets(self, count: int, *, over: int | None = None) -> Windowed:
        """Split keys by hash into `count` buckets of state, instead of one for each shuffle partition.

        A checkpoint keeps its number of buckets, and may move to any number of shuffle partitions. The buckets are
        spread evenly if the number of partitions divides `count`. Cost: per bucket and micro-batch, a header and its
        pages are read and written; all keys of a bucket are processed together. `over` is only for checkpoints of
        version 0.2 and older with different numbers of buckets and shuffle partitions: it is that number of shuffle
        partitions. Raises InvalidValue unless the numbers are positive ints.

        >>> from slicing import tumbling
        >>> group_by("user").window(tumbling("1 day"), time="ts").buckets(16)
        group_by('user').window(tumbling('1 day'), time='ts').buckets(16)
        """
        _check_positive("buckets", count)
        if over is not None:
            _check_positive("over", over)
        return self._with(buckets=Buckets(count, over))

    def assemble(self, tree: Tree) -> Windowed:
        """Choose how windows are combined from slices: "auto", "two_layer", "three_layer" or "recompute".

        "auto" chooses the best tree for each aggregate. Combines per window of n slices: 2 with "two_layer", which
        needs `invert`; 4 on average with "three_layer"; n - 1 with "recompute". "eager" has no slices: it folds every
        record into all R windows that contain it, as other engines do, and is meant for comparisons. `Aggregate(...,
        eager=True)` is the same for one aggregate and takes precedence. Raises InvalidValue for another tree.

        >>> from slicing import hopping
        >>> group_by("user").window(hopping("1 hour", "1 minute"), time="ts").assemble("three_layer")
        group_by('user').window(hopping('1 hour', advance='1 minute'), time='ts').assemble('three_layer')
        """
        if tree not in ("auto", *TREES, EAGER):
            raise InvalidValue(f"`assemble` takes auto, {', '.join((*TREES, EAGER))}; got {excerpt(tree)}.")
        return self._with(tree=tree)

    def late(self, output: Output) -> Windowed:
        """Choose the output for late records: "counts" (the default), "partials" or "records".

        "counts" only counts them, in the metric `late`. "partials" also emits a row for each slice and key of a
        micro-batch with late records; nothing more is stored or shuffled. "records" also emits the late records
        themselves; then every record is shuffled, late or not. The column `late` is null in results; `slicing.results`,
        `late_partials` and `late_records` split the rows by it. It may change on a live checkpoint, and the columns of
        the output with it. No effect on bounded input, where no record is late. Raises InvalidValue for another output.

        >>> from slicing import tumbling
        >>> group_by("user").window(tumbling("1 day"), time="ts").late("partials")
        group_by('user').window(tumbling('1 day'), time='ts').late('partials')
        """
        if output not in LATE_OUTPUTS:
            raise InvalidValue(f"`late` takes {', '.join(LATE_OUTPUTS)}; got {excerpt(output)}.")
        return self._with(late=output)

    def evict(self, *evictors: Evictor | Callable[..., Any], after: bool = False) -> Windowed:
        """Remove records of a window before it is aggregated or processed, by one evictor after another.

        An evictor is `keep_last(n)`, `keep_newest(duration)`, `within_delta(column, threshold)`, or a function
        `(records, window, context)` that returns a boolean for each record, true to keep it. The stored records do not
        change: other windows hold them too, and each firing evicts from all records of its window.

        With `aggregate`, records are stored instead of partials and folded at each firing, so a combinator that needs
        no evictor is always cheaper: `where=`, `C.last_n`, `C.ewma`, `counting(...)`. A function as evictor gets the
        columns that results and evictors name. A window from which all records are evicted has the results of no
        records. With `after=True`, which only `unbounded()` supports, the records are left out of later firings, like
        Flink's evictors after the function. Records that evictors before the function leave out are then removed
        permanently too. Raises InvalidType, InvalidValue.

        >>> from slicing import keep_last, tumbling
        >>> group_by("user").window(tumbling("1 day"), time="ts").evict(keep_last(3))
        group_by('user').window(tumbling('1 day'), time='ts').evict(keep_last(3))
        """
        from slicing.process.evictors import evictor

        check_flag(after, "`after` says whether records are evicted after the function")
        if after:
            return self._with(evictors_after=(*self.options.evictors_after, *map(evictor, evictors)))
        return self._with(evictors=(*self.options.evictors, *map(evictor, evictors)))

    def process(self, function: Callable[..., Any], **options: Unpack[ProcessOptions]) -> DataFrame:
        """Call a function with all records of each window that fires, and return the rows that it makes.

        `function(key, window, records, context)` gets a tuple of the key's values (a struct key gives several items:
        False if the struct is null, then its fields), the window (`window.start`, `window.end`; None in `unbounded()`),
        a `pyarrow.Table` of `columns`, and the reason of the firing (`context.kind`, `.watermark`, `.clock`; the times
        are None on bounded input). It returns rows of the types that `returns` names as DDL: a list of
        tuples or dicts, a `pyarrow.Table`, or a pandas DataFrame; None and an empty list are no rows. The output has
        the key columns, `window`, and the columns of `returns`.

        returns: types of the rows as DDL, "n long, top double".
        columns: names of the columns of the records that the function gets.
        batches: with True, `records` is an iterator of tables of at most 65,536 rows and about 4 MiB, which together
            are the records of a window in the same order. For windows that do not fit into memory: of more than 56 MiB
            they go through a temporary file, where time decides them, and in `unbounded()` on bounded input. Evictors
            then read the window once before.
        window_bytes: the maximum memory for the records of a window without `batches`, by default 64 MiB.
        key_state, window_state: typed fields as DDL, "n long", that the function reads and sets as attributes of
            `context.key_state` and `context.window_state`; they are None at first. Stored with the micro-batch.
        clear: `clear(key, window, context)` is called before the state of a window is cleared: when the window has
            closed, its records are purged, or `ttl=` forgets its key: then in the first micro-batch after that which
            opens the bucket of the key, before the functions.
        key_ttl: the state of a key is removed if no window of the key ends within this time after its last one, by
            default within the length of a window. In `unbounded()` and in count windows the `ttl=` of the windows
            forgets keys, by their last record. A window later than that starts with None. A removed row leaves the
            store when more than half of the rows are such.

        Records are in the order of their time, those of one time in arrival order; in count windows and in
        `unbounded()`, in arrival order. Each record is stored once, however many windows hold it. Cost of a window: its
        records are found without a copy, and one call. `on_close(corrections=True, discarding=True)` calls the function
        with the new records only; triggers that compare or keep results are refused. Raises InvalidType, InvalidValue;
        when it runs, FunctionFailed with key and window if the function raises, and TooLarge for a window that takes
        more than `window_bytes`.
        """
        return self._processing("process", function, options).dataframe()

    def define_process(self, function: Callable[..., Any], **options: Unpack[ProcessOptions]) -> Definition:
        """Return the windows with a function of their records as a `Definition`, which builds nothing until asked.

        The arguments are those of `process`. It is for later DataFrames, and for `explain()`, `plan()` and `changes()`.
        Raises InvalidType, InvalidValue.

        >>> from slicing import tumbling
        >>> days = group_by("user").window(tumbling("1 day"), time="ts")
        >>> days.define_process(lambda key, window, records, context: [(len(records),)], returns="n long")
        group_by('user').window(tumbling('1 day'), time='ts').define(process=process('ts'))
        """
        return self._processing("define", function, options)

    def _processing(self, call: str, function: Any, options: ProcessOptions) -> Definition:
        from slicing.process.call import of_options

        asked = self.options
        made = of_options(function, options, self.time, self.windows, asked.evictors, asked.evictors_after)
        return self._definition(call, {"process": made})

    def adapt(self, checkpoints: Adapt) -> Windowed:
        """Choose whether a stream continues on a checkpoint of other windows or results: "refuse" (default) or "allow".

        With "allow" the stream continues. New windows are emitted from the first one on whose records are all in the
        state, new results are null in windows that began before the change, and state that is not needed any more is
        removed. Other keys, time or buckets, and windows with finer edges, are refused in any case. Without a
        difference there is no effect, so it may be left out after the first micro-batch; `definition.changes` lists the
        differences beforehand. Slices stay as fine as they were: a change from minutes to hours and back has windows of
        minutes that begin after all records of the hourly query. `on_change()` emits a row for each key with records in
        the first added window. No effect on bounded input. Raises InvalidValue for another choice.

        >>> from slicing import tumbling
        >>> group_by("user").window(tumbling("1 day"), time="ts").adapt("allow")
        group_by('user').window(tumbling('1 day'), time='ts').adapt('allow')
        """
        if checkpoints not in ADAPTS:
            raise InvalidValue(
                f'`adapt` takes "refuse" or "allow"; got {excerpt(checkpoints)}. Write .adapt("allow") to continue '
                "from a checkpoint of other windows or results."
            )
        return self._with(adapt=checkpoints)

    def define(self, *functions: Callable[..., Any], **arguments: Any) -> Definition:
        """Return the windows with these results as a `Definition`: a value that builds nothing until asked.

        The arguments are those of `aggregate`. Without a DataFrame, as in `group_by("user")`, the types of columns are
        checked when it gets one; everything else is checked now. Raises InvalidType, InvalidValue.

        >>> import combinators as C
        >>> from slicing import tumbling
        >>> group_by("user").window(tumbling("1 day"), time="ts").define(orders=C.count(), spent=C.sum("amount"))
        group_by('user').window(tumbling('1 day'), time='ts').define(orders=C.count(), spent=C.sum('amount'))
        """
        return self._defined("define", functions, arguments)

    def aggregate(self, *functions: Callable[..., Any], **arguments: Any) -> DataFrame:
        """Return a DataFrame of the windows' results: the keys, `window`, and a column for each result.

        Give results by name, `aggregate(orders=C.count(), mean=Mean.on("amount"))`, or the functions of one aggregate,
        `aggregate(init, agg, combine, invert, value="amount", ...)`. The latter takes the keywords of `Aggregate`,
        `value` (one column or several) and `name` (of the result, by default "value"). The call is the same as
        `define(...).dataframe()`. Nothing is run.

        With `then=function` and `returns=`, a function of a window's results makes its rows, as `process` does from
        records: `function(key, window, results, context)` gets the results as a dict by name, structs as dicts.
        `key_state`, `window_state`, `clear` and `key_ttl` are as in `process`.

        Cost: a record is folded into one partial per key and slice before the shuffle; a window of n slices costs 2
        combines with `invert`, 4 on average without. Raises InvalidType without a DataFrame and for columns of other
        types, InvalidValue for combinations that are refused.
        """
        return self._defined("aggregate", functions, arguments).dataframe()

    def plan(self, *functions: Callable[..., Any], **arguments: Any) -> Plan:
        """Return the plan of `aggregate` with these arguments as a value: trees, state and predicted cost.

        Nothing is run. Raises the errors of `aggregate`.
        """
        return self._defined("plan", functions, arguments).plan()

    def explain(self, *functions: Callable[..., Any], **arguments: Any) -> None:
        """Print the plan of `aggregate` with these arguments. Nothing is run. Raises the errors of `aggregate`."""
        self._defined("explain", functions, arguments).explain()

    def _with(self, **options: Any) -> Windowed:
        return replace(self, options=replace(self.options, **options))

    def _query(self, functions: tuple[Any, ...], arguments: dict[str, Any]) -> Query:
        return self._defined("aggregate", functions, arguments).query()

    def _defined(self, call: str, functions: tuple[Any, ...], arguments: dict[str, Any]) -> Definition:
        function, arguments = self._then(arguments)
        if function is not None and functions:
            raise InvalidValue(
                "`then` gets results by their names, and the functions of one aggregate have none. Make them an "
                "`Aggregate(...)` and name it."
            )
        results = named(functions, arguments, "define" if call == "define" else "aggregate")
        if self.options.evictors or self.options.evictors_after:
            return self._definition(call, {"results": self._evicted(results, function)})
        return self._definition(call, results, function)

    def _evicted(self, results: dict[str, Bound | Struct], function: Then | None) -> Bound:
        """The results as a single one, which keeps the records of windows. Raises InvalidValue with `then`."""
        from slicing.process.evicted import evicted

        if function is not None:
            raise InvalidValue(
                "`then` gets the results of partials, and `evict` leaves records out of them. Use `process`, whose "
                "function gets the records that are left."
            )
        return evicted(results, self.time, self.windows, self.options.evictors, self.options.evictors_after)

    def _then(self, arguments: dict[str, Any]) -> tuple[Then | None, dict[str, Any]]:
        """The function given as `then`, and the other arguments. An aggregate named `then` is a result instead."""
        if isinstance(arguments.get("then"), (Aggregate, Bound, Struct)) or "then" not in arguments:
            return None, arguments
        from slicing.process.call import then
        from slicing.process.states import declared

        key_state, window_state, clear, key_ttl = (arguments.get(name) for name in _STATES)
        states = declared(key_state, window_state, clear, key_ttl, self.windows)
        own = ("then", "returns", *_STATES)
        found = then(arguments["then"], arguments.get("returns"), self.windows, states)
        return found, {name: value for name, value in arguments.items() if name not in own}

    def _definition(self, call: str, results: dict[str, Bound | Struct], function: Then | None = None) -> Definition:
        if self.df is None and call != "define":
            raise InvalidType(
                f"`{call}` needs a DataFrame, and this grouping has none. Write `group_by(df, *keys)` (`show`, `start` "
                "and the like return no DataFrame); or `.define(...)` for DataFrames to come."
            )
        return Definition(self, tuple(results.items()), function)


@dataclass(frozen=True)
class FeaturesAt:
    """The records, keys and spine rows of a feature query; every method returns a new value."""

    df: DataFrame
    keys: tuple[Input, ...]
    spine: DataFrame
    lookbacks: Lookbacks
    time: Input
    spine_time: Input
    known: Input | None = None
    spread: Buckets | None = None

    def buckets(self, count: int) -> FeaturesAt:
        """Split keys by hash into `count` buckets, instead of one for each shuffle partition.

        Each bucket is held in memory as a whole, one after another. Raises InvalidValue unless it is a positive int.
        """
        _check_positive("buckets", count)
        return replace(self, spread=Buckets(count))

    def aggregate(self, *functions: Callable[..., Any], **arguments: Any) -> DataFrame:
        """Return the rows of the spine, each with its results; the arguments are those of `Windowed.aggregate`.

        The rows have no order. Raises InvalidType, InvalidValue. Cost: one shuffle of the spine's rows and of one
        partial per key and time of the records. Per spine row and length, at most 2 log2(m) combines, m being the
        number of times with records in it, and none for results that are added and subtracted exactly. With `known`
        there are partials per key, time and instant of knowledge, log2(m) combines for each of them, and 2 log2(m) at
        most per spine row, for all results.
        """
        from slicing.spark.build import build_features

        return build_features(self._asked(functions, arguments))

    def plan(self, *functions: Callable[..., Any], **arguments: Any) -> FeaturesPlan:
        """Return the plan of `aggregate` with these arguments as a value. Nothing is run. Raises what it raises."""
        from slicing.spark.build import plan_features

        return plan_features(self._asked(functions, arguments))

    def explain(self, *functions: Callable[..., Any], **arguments: Any) -> None:
        """Print the plan of `aggregate` with these arguments. Nothing is run. Raises the errors of `aggregate`."""
        print(self.plan(*functions, **arguments))

    def _asked(self, functions: tuple[Any, ...], arguments: dict[str, Any]) -> FeatureQuery:
        from slicing.spark.features import resolve_features

        results = named(functions, arguments)
        asked = Asked(self.df, self.keys, self.lookbacks, self.time, Options(buckets=self.spread))
        return resolve_features(asked, self.spine, self.spine_time, results, known=self.known)


def _check_no_sparks_window(given: Sequence[Any]) -> None:
    if not given or isinstance(given[0], Window):
        return
    from slicing.hints import sparks_window

    if meant := sparks_window(given):
        raise InvalidType(
            "`window` takes windows as values, and the time after them; got the arguments of Spark's `window`. "
            f"Write `.window({meant})`."
        )


def _check_positive(name: str, count: int) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InvalidValue(
            f"`{name}` must be a positive integer; got {excerpt(count)}. Say for example `.buckets(16)`."
        )


def named(functions: tuple[Any, ...], arguments: dict[str, Any], call: str = "aggregate") -> dict[str, Bound | Struct]:
    """Return bound aggregates by result name, from either form of call. Raises InvalidType, InvalidValue."""
    if functions and isinstance(functions[0], (Aggregate, Bound, Struct)):
        raise InvalidType(f"results need names: write `{call}(name=...)`, for example `{call}(orders=C.count())`.")
    if functions and (not callable(functions[0]) or _is_sparks(functions[0])):
        from slicing.hints import remedy

        raise InvalidType(f"`{call}` takes no {excerpt(functions[0])}. {remedy(functions[0])}")
    if functions or any(name in arguments and not isinstance(arguments[name], (Bound, Struct)) for name in _FUNCTIONS):
        return _one_aggregate(functions, dict(arguments), call)
    if not arguments:
        raise InvalidValue(f"`{call}` needs at least one result, for example `{call}(orders=C.count())`.")
    return {name: _bound(name, value) for name, value in arguments.items()}


def _bound(name: str, value: Any) -> Bound | Struct:
    if isinstance(value, Aggregate):
        return value.on()
    if not isinstance(value, (Bound, Struct)):
        from slicing.hints import refusal

        raise InvalidType(refusal(f"result `{name}`", value))
    return value


def _is_sparks(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] in ("pyspark", "combinators")


def _one_aggregate(functions: tuple[Any, ...], arguments: dict[str, Any], call: str) -> dict[str, Bound | Struct]:
    mixed = [name for name, value in arguments.items() if isinstance(value, (Bound, Aggregate, Struct))]
    if mixed:
        raise InvalidValue(
            f"the functions of one aggregate and results by name (`{mixed[0]}`) cannot be mixed in one call. "
            "Make the functions an `Aggregate(...)` and name it too."
        )
    value = arguments.pop("value", ())
    name = arguments.pop("name", "value")
    columns = columns_in(value)
    try:
        aggregate = Aggregate(*functions, **arguments)
    except TypeError as error:
        if isinstance(error, InvalidType):
            raise
        raise InvalidType(
            f"`{call}` takes init, agg, combine, invert, lower and the options of Aggregate: {error}."
        ) from None
    return {name: Bound(aggregate, columns, name)}
