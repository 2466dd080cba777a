"""A definition: keys, windows, options and results as one value, from which everything that can be asked is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from slicing.aggregates.aggregate import Bound, Struct
from slicing.aggregates.migration_hints import OF_DEFINED
from slicing.errors import InvalidType, InvalidValue, NoSuchMethod, check_flag
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import COUNTS
from slicing.windows.sets import windows_of_call

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from slicing.explain.plan import Plan
    from slicing.explain.why import Why
    from slicing.grouping import Windowed
    from slicing.process.function import Then
    from slicing.spark.declared import Declared
    from slicing.spark.query import Query
    from slicing.spark.resolution import Call
    from slicing.spark.warm import History
    from slicing.state.format.changes import Changes
    from slicing.windows.time.durations import Duration
    from slicing.windows.window import Window


Instant = datetime | str
Overlap = Literal["drop", "keep"]
_NO_FRAME = (
    "this definition has no DataFrame yet. Give it one: `df.transform(definition)` makes its windows, "
    "`definition.on(df)` is the same definition with a DataFrame, to be explained for example."
)


@dataclass(frozen=True)
class Definition:
    """Windows and their results, of a DataFrame or of DataFrames to come; what `Windowed.define` returns.

    A frozen value that builds nothing until asked. It is a function of DataFrames: `events.transform(hourly)` gives the
    windows of `events`, whether it is bounded or a stream. What types of columns decide is checked when it is given a
    DataFrame, everything else when it is defined.
    """

    windowed: Windowed
    results: tuple[tuple[str, Bound | Struct], ...]
    then: Then | None = None
    declared: Declared | None = None
    history: History | None = None
    _query: Query | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        from slicing.spark.resolve import check_defined, resolve

        call = self._call()
        if call.frame is None and self.declared is None:
            return check_defined(call)
        object.__setattr__(self, "_query", resolve(call))
        if self.history is not None:
            from slicing.spark.warm import check

            self.query().window_columns.check_call("warm")
            check(self.query(), call, self.history)

    def _call(self) -> Call:
        from slicing.spark.resolution import Call

        of = self.windowed
        return Call(
            frame=of.df,
            keys=of.keys,
            window=of.windows,
            time=of.time,
            named=dict(self.results),
            tree=of.tree,
            grace=of.grace_us,
            trigger=of.emission,
            late=of.late_output,
            adapt=of.adaptation,
            retain=of.retain_us,
            declared=self.declared,
            then=self.then,
            idle=of.idle_us,
        )

    def __repr__(self) -> str:
        made = f"{self.windowed!r}.define({', '.join(f'{name}={result!r}' for name, result in self.results)})"
        made = made if self.declared is None else f"{made}.declare({self.declared})"
        return made if self.history is None else f"{made}.{self.history}"

    def __getattr__(self, name: str) -> Any:
        raise no_method("a definition", name, OF_DEFINED)

    def __call__(self, df: DataFrame) -> DataFrame:
        """The windows of a DataFrame, so that `df.transform(definition)` makes them; the same as `on(df).dataframe()`.

        Raises InvalidType and InvalidValue.
        """
        return self.on(df).dataframe()

    def on(self, df: DataFrame) -> Definition:
        """Return this definition with `df` as its DataFrame, in place of the one that it may have.

        Raises InvalidType for what is no DataFrame and for columns of other types, InvalidValue.
        """
        check_frame(df, "on", "definition.on(df)")
        return replace(self, windowed=replace(self.windowed, df=df))

    def declare(
        self,
        schema: str | StructType,
        *,
        streaming: bool = False,
        watermark: Duration | None = None,
        partitions: int = 200,
    ) -> Definition:
        """Return this definition for DataFrames with declared columns, so that a query is built without asking Spark.

        For query functions of declarative pipelines, in which Spark answers no questions. `schema` is DDL,
        "user string, ts timestamp", or a StructType, with the columns that the windows need; a record of another type
        is an error. `streaming` says whether the DataFrames are streams. The `watermark` of a stream is declared with
        it, as the delay after which records are late, and is set by the definition: leave `withWatermark` out.
        `partitions` is what `spark.sql.shuffle.partitions` is set to; another number costs time, and no row.

        Keys, time and arguments of results are then declared columns, or fields of structs by their paths. Everything
        is checked now. Raises InvalidType and InvalidValue.
        """
        from slicing.spark.declared import declare

        of = self.windowed
        return replace(self, declared=declare(schema, streaming, watermark, partitions, of.windows, of.time))

    def warm(
        self,
        history: DataFrame | None = None,
        *,
        until: Instant,
        overlap: Overlap = "drop",
        partials: DataFrame | None = None,
    ) -> Definition:
        """Return this definition for a stream that starts with the state of its history, in a new checkpoint.

        `history` is a bounded DataFrame with the columns of the stream; its records before `until` count. The first
        micro-batch loads what open windows need of it; a query that is started again does not read it. Windows that end
        at or before `until` are never emitted, those that end after it are whole. Records of the stream before `until`
        are dropped, and counted as `before_warm`; with overlap="keep" they are counted in, where the stream was cut by
        offsets and not by time. In place of records, `partials` is a table as `partials()` makes it.

        `until` is a datetime, in UTC if it has no zone, or text in ISO form. Raises InvalidType and InvalidValue.
        """
        from slicing.spark.warm import history_of

        if history is not None and partials is not None:
            raise InvalidValue("`warm` takes a history of records, or of `partials`; got both. Leave one out.")
        if partials is None:
            check_frame(history, "warm", "definition.warm(df, until=...)")
        else:
            check_frame(partials, "warm", "definition.warm(partials=df, until=...)")
        return replace(self, history=history_of(history, partials, until, overlap))

    def check_warm(
        self, history: DataFrame, stream_sample: DataFrame, *, until: Instant, overlap: Overlap = "drop"
    ) -> int:
        """Return how many rows a warm start and a cold replay have in common, of a history and a sample of the stream.

        `stream_sample` is a bounded DataFrame of records that come after the history. Both starts are run here as they
        would run on a stream, and compared by the rows of windows that end after `until`. Raises InvalidValue if any
        row differs, and what `warm` raises.
        """
        from slicing.spark.build import spread
        from slicing.spark.check_warm import check

        start = self.warm(history, until=until, overlap=overlap)
        assert start.history is not None, "it was just given"
        check_frame(stream_sample, "check_warm", "definition.check_warm(history, df, until=...)")
        self._check_remembers_nothing("check_warm")
        labels, buckets = spread(self.query(), self.windowed.spread)
        return check(self.query(), self._call(), start.history, stream_sample, labels, buckets)

    def partials(self) -> DataFrame:
        """Return a DataFrame of the partials of slices: the keys, `slice`, `records`, and a column for each result.

        On a stream each slice of each key is a row once, when it closes, which is when a window of that length would; a
        record that comes later is late. A partial is a value, or a struct of its fields, before `lower`. Raises
        InvalidValue for windows that share no slices, and for eager or ordered results; InvalidType without a
        DataFrame.
        """
        from slicing.spark.build import build
        from slicing.spark.partials import of_slices, query_of

        if self.windowed.df is None:
            raise InvalidType(_NO_FRAME)
        return of_slices(build(query_of(self._call()), self.windowed.spread))

    def from_partials(self, table: DataFrame) -> DataFrame:
        """Return the windows of a bounded table of partials that `partials()` made, with the same keys and results.

        The rows equal those of the records that the partials were made of. The windows may be others than those that
        the table was written for, if their edges are edges of its slices. Raises InvalidType, InvalidValue.
        """
        from slicing.spark import partials
        from slicing.spark.build import build

        check_frame(table, "from_partials", "definition.from_partials(df)")
        query, found = self.query(), partials.PartialsTable(table, self._paths())
        found.check(query)
        bounded = replace(query, frame=table, streaming=False)
        return build(bounded, self.windowed.spread, of_bounded=partial(partials.build, found))

    def _paths(self) -> tuple[str, ...]:
        from slicing.spark.resolution import flat_results

        return tuple(flat_results(dict(self.results)))

    def dataframe(self) -> DataFrame:
        """Return the DataFrame of the windows' results, as `Windowed.aggregate`.

        Raises InvalidType without a DataFrame.
        """
        from slicing.spark.build import build

        if self.windowed.df is None:
            raise InvalidType(_NO_FRAME)
        if self.history is None:
            return build(self.query(), self.windowed.spread)
        from slicing.spark import warm

        return build(self.query(), self.windowed.spread, partial(warm.build, self._call(), self.history))

    def lookup(
        self,
        checkpoint: str,
        *,
        keys: DataFrame | Iterable[Any] | None = None,
        starts: tuple[int | datetime | None, int | datetime | None] | None = None,
        windows: Window | Sequence[Window] | Mapping[str, Window] | None = None,
        batch: int | None = None,
        latest: bool = False,
        incomplete: bool = False,
        operator: int | None = None,
    ) -> DataFrame:
        """Return a bounded DataFrame of windows that are looked up in the checkpoint of a stream, which may be running.

        The columns are those of bounded input, then `as_of`, the micro-batch and its watermark, and `closed`, whether
        that watermark has closed the window. All is read now, of one committed micro-batch: `batch`, by default the
        last; if the query removes it meanwhile, once more of the one that is the last then. Triggers have no say.

        `keys` are values, tuples where there are several key columns, or a DataFrame of these. `starts` are the first
        and the last instant at which windows may start, both included; None leaves an end open. `latest=True` gives of
        each key the first window that holds its newest record. `windows` are others than those of the definition, whose
        edges are edges of the stored slices; by name they make one wide row. A window of which slices have been removed
        is left out; with `incomplete=True` it is there, and `known_from` says from when on its records are. `operator`
        is the number of the stateful operator, where the query has several windowed aggregations.

        Cost: Spark reads the state of all partitions; with few keys those of their partitions, where these have a
        snapshot. That takes seconds, and does not slow the query. Raises InvalidValue, InvalidType, StateMismatch.
        """
        from slicing.spark.lookup import lookup

        for name, given in (("latest", latest), ("incomplete", incomplete)):
            check_flag(given, f"`{name}` says what is looked up")
        query, other = self._asked("lookup", windows)
        return lookup(
            query,
            other,
            checkpoint,
            self.windowed.spread,
            keys=keys,
            starts=starts,
            batch=batch,
            latest=latest,
            incomplete=incomplete,
            operator=operator,
        )

    def why(
        self,
        checkpoint: str,
        key: Any,
        start: int | datetime,
        *,
        end: int | datetime | None = None,
        windows: Window | Sequence[Window] | None = None,
        batch: int | None = None,
        operator: int | None = None,
    ) -> Why:
        """Show of what a result in the checkpoint of a stream is made: a value that prints as a table.

        It has the slices of one window of one key: the records in each, how many of these came late, whether the slice
        still accepts records, its partials, the results so far, and the nodes of trees that the window is combined of.
        Late records that were not accepted are not in the state. `key` is a value, or a tuple where there are several
        key columns, None without any. `start` is the start of the window, and `end` its end, where several start
        there. `windows`, `batch` and `operator` are as those of `lookup`.

        Cost: that of a lookup of one key. Raises InvalidValue, InvalidType, StateMismatch.
        """
        from slicing.spark.why import why

        query, other = self._asked("why", windows)
        return why(
            query,
            other,
            checkpoint,
            self.windowed.spread,
            key=key,
            start=start,
            end=end,
            batch=batch,
            operator=operator,
        )

    def _asked(
        self, call: str, windows: Window | Sequence[Window] | Mapping[str, Window] | None
    ) -> tuple[Query, Query | None]:
        """The query whose state a call asks, and that of other windows. Raises InvalidValue where it has no meaning."""
        self._check_remembers_nothing(call)
        query = self.query()
        query.window_columns.check_call(call)
        if windows is None:
            return query, None
        query.support.check_lookup(query.trees, ["windows"])
        return query, self._with(windows).query()

    def _check_remembers_nothing(self, call: str) -> None:
        """Refuse calls that would change what a function of records remembers."""
        query = self.query()
        if query.remembers is not None and query.then is None:
            raise InvalidValue(
                f"`{call}` would call the function of `process` out of turn, and it remembers keys or windows. Let a "
                "function without `key_state` and `window_state` (and without evictors after it) read the records."
            )

    def _with(self, windows: Window | Sequence[Window] | Mapping[str, Window]) -> Definition:
        """The same results in other windows."""
        named = windows if isinstance(windows, Mapping) else {}
        plain = [] if named else windows if isinstance(windows, list | tuple) else [windows]
        found = windows_of_call(plain, named, long=False)
        windowed = replace(
            self.windowed, windows=found, emission=ON_CLOSE, late_output=COUNTS, tree="auto", retain_us=0
        )
        return replace(self, windowed=windowed)

    def plan(self) -> Plan:
        """Return the plan of `dataframe` as a value.

        Nothing is run. Raises InvalidType without a DataFrame or schema.
        """
        from slicing.spark.build import plan

        return plan(self.query(), self.windowed.spread)

    def changes(self, checkpoint: str) -> Changes:
        """List what differs between a checkpoint and this definition of a stream, before it is started on it.

        Each change says what is stored and wanted, what it means, and whether `.adapt("allow")` goes on with it. The
        list prints as a table, and is empty where nothing differs. The checkpoint may be that of a running query. Cost:
        Spark reads the header of each bucket. Raises InvalidValue, InvalidType, StateMismatch.
        """
        from slicing.spark.build import changes

        if self.windowed.df is None:
            raise InvalidType(_NO_FRAME)
        return changes(self.query(), self.windowed.spread, checkpoint)

    def explain(self) -> None:
        """Print the plan of `dataframe`. Nothing is run. Raises InvalidType without a DataFrame or its schema."""
        if self.windowed.windows.cost:
            print(self.windowed.windows.cost)
        print(self.plan())

    def query(self) -> Query:
        """Return the resolved query, with every column found. Raises InvalidType without a DataFrame or its schema."""
        if self._query is None:
            raise InvalidType(_NO_FRAME)
        return self._query


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame of Spark. By its type: its attributes may be asked of a server."""
    return hasattr(type(value), "isStreaming") and hasattr(type(value), "sparkSession")


def check_frame(df: Any, call: str, form: str) -> None:
    """Raise InvalidType for what is no DataFrame of Spark; `form` is how `call` is written."""
    if is_frame(df):
        from slicing.spark.versions import OLDEST, check_release

        return check_release("windows need", OLDEST)
    kind = f"{type(df).__module__.partition('.')[0]}.{type(df).__name__}"
    remedy = f"Give the DataFrame itself: `{form}`."
    if hasattr(df, "columns") and hasattr(df, "dtypes"):
        remedy = f"Make one of it: `{form.replace('(df', '(spark.createDataFrame(df)')}`."
    elif df is None:
        remedy = "`show`, `start` and the like return none."
    raise InvalidType(f"`{call}` takes a DataFrame of Spark; got {kind}. {remedy}")


def no_method(what: str, name: str, known: Mapping[str, str]) -> AttributeError:
    """The error of a method that does not exist; with a remedy for names that others give."""
    if name.startswith("_") or name not in known:
        return AttributeError(f"{what} has no `{name}`")
    return NoSuchMethod(f"{what} has no `{name}`. {known[name]}")
