"""A definition: keys, windows, options and results as one value, which builds, explains and looks up windows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from slicing.aggregates.aggregate import Bound, Input, Struct
from slicing.errors import InvalidType, InvalidValue, check_flag
from slicing.options import Reach
from slicing.windows.as_of import as_of
from slicing.windows.sets import windows_of_call

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from slicing.drafts.call import Call
    from slicing.explain import Plan, Why
    from slicing.options import Asked
    from slicing.process.function import Then
    from slicing.spark.declared import Declared
    from slicing.spark.features import FeatureQuery
    from slicing.spark.query import Query
    from slicing.spark.warm import History
    from slicing.state.format.changes import Changes
    from slicing.windows.time.durations import Duration
    from slicing.windows.time.instants import Instant
    from slicing.windows.window import Window


Overlap = Literal["drop", "keep"]
_NO_FRAME = (
    "this definition has no DataFrame yet. Give it one: `df.transform(definition)` makes its windows, "
    "`definition.on(df)` is the same definition with a DataFrame, to be explained for example."
)


@dataclass(frozen=True)
class Definition:
    """Windows and their results, with or without a DataFrame; `Windowed.define` returns it.

    It is a frozen value that builds nothing until asked. It is also a function of DataFrames:
    `events.transform(hourly)` returns the windows of `events`, bounded or a stream. Everything is checked when it is
    defined, except what depends on the types of columns, which is checked when it gets a DataFrame.
    """

    windowed: Asked
    results: tuple[tuple[str, Bound | Struct], ...]
    then: Then | None = None
    declared: Declared | None = None
    history: History | None = None
    _query: Query | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        call = self._call()
        if call.frame is None and self.declared is None:
            from slicing.drafts.rules import check_defined

            return check_defined(call, _is_case_sensitive)
        from slicing.spark.rules import resolve

        object.__setattr__(self, "_query", resolve(call))
        if self.history is not None:
            from slicing.spark.warm import check

            self.query().window_columns.check_call("warm")
            check(self.query(), call, self.history)

    def _call(self) -> Call:
        from slicing.drafts.call import Call

        of = self.windowed
        return Call(
            frame=of.df,
            keys=of.keys,
            window=of.windows,
            time=of.time,
            named=dict(self.results),
            options=of.options,
            declared=self.declared,
            then=self.then,
        )

    def __repr__(self) -> str:
        made = f"{self.windowed!r}.define({', '.join(f'{name}={result!r}' for name, result in self.results)})"
        made = made if self.declared is None else f"{made}.declare({self.declared})"
        return made if self.history is None else f"{made}.{self.history}"

    def __getattr__(self, name: str) -> Any:
        from slicing.hints import OF_DEFINED, no_name

        raise no_name("a definition", name, OF_DEFINED, dir(type(self)))

    def __call__(self, df: DataFrame) -> DataFrame:
        """Return the windows of a DataFrame, as `on(df).dataframe()`; for `df.transform(definition)`.

        Raises InvalidType and InvalidValue.
        """
        return self.on(df).dataframe()

    def on(self, df: DataFrame) -> Definition:
        """Return this definition with `df` as its DataFrame, in place of any other one.

        Raises InvalidType for other values than a DataFrame and for columns of unsupported types, and InvalidValue.
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

        It is for query functions of declarative pipelines, in which Spark cannot answer questions about a DataFrame.
        `schema` is DDL, "user string, ts timestamp", or a StructType, with the columns that the windows need; a record
        with other types is an error. `streaming` says whether the DataFrames are streams. `watermark` is the delay
        after which records of a stream are late; the definition sets the watermark, so leave `withWatermark` out.
        `partitions` is the value of `spark.sql.shuffle.partitions`; another number costs time, but does not change the
        rows.

        Keys, time and arguments of results are then declared columns, or fields of structs by their paths. Everything
        is checked at once. Raises InvalidType and InvalidValue.
        """
        from slicing.spark.declared import declare

        of = self.windowed
        return replace(self, declared=declare(schema, streaming, watermark, partitions, of.windows, of.time))

    def warm(
        self,
        history: DataFrame | None = None,
        *,
        until: Instant | None = None,
        overlap: Overlap = "drop",
        partials: DataFrame | None = None,
    ) -> Definition:
        """Return this definition for a stream that starts with the state of its history, in a new checkpoint.

        `history` is a bounded DataFrame with the columns of the stream; only its records before `until` count. The
        first micro-batch loads what open windows need of it and what `retain` keeps; a restarted query does not read it
        again. Windows that end at or before `until` are never emitted; those that end after it are complete. Records of
        the stream before `until` are dropped and counted as `before_warm`. With overlap="keep" they are added instead,
        for a stream that continues by offsets and not by time. In place of records, `partials` takes a table that
        `partials()` has made, or `lookup_partials` has found; open windows that begin before its `known_from` are
        refused. Windows that the history filled have not fired yet: `early` fires them at its next firing (`records=k`
        counts from the last multiple of k), `on_update` with their next record of the stream. A session of the history
        is not retracted. A checkpoint that was started without this history is refused.

        `until` is an instant: a datetime or ISO text, with a zone, or microseconds since 1970. Leave it out for a table
        that `lookup_partials` has found, if the stream continues at the offsets where that checkpoint was left: nothing
        of the table and of the stream is dropped, and the windows that had closed there are not emitted again. Cost of
        this call: for such a table, one job that reads its column `as_of`. Raises InvalidType and InvalidValue.
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

        `stream_sample` is a bounded DataFrame of records that follow the history. Both starts run here as they would
        run on a stream; the rows of windows that end after `until` are compared. Raises InvalidValue if any row
        differs, and the errors of `warm`.
        """
        from slicing.spark.build import spread
        from slicing.spark.check_warm import check

        start = self.warm(history, until=until, overlap=overlap)
        assert start.history is not None, "it was just given"
        check_frame(stream_sample, "check_warm", "definition.check_warm(history, df, until=...)")
        self._check_remembers_nothing("check_warm")
        labels, buckets = spread(self.query())
        return check(self.query(), self._call(), start.history, stream_sample, labels, buckets)

    def partials(self) -> DataFrame:
        """Return a DataFrame of the partials of slices: the keys, `slice`, `records`, and a column for each result.

        On a stream, each slice of each key is emitted once, when a window with the same end would close; records that
        arrive after that are late. A partial is the value before `lower`, or a struct of its fields. A function given
        as `then` is not called: it runs when windows are made of the table. Raises InvalidValue for windows that share
        no slices, for eager or ordered results and for functions of records; InvalidType without a DataFrame.
        """
        from slicing.spark.build import build
        from slicing.spark.partials import of_slices, query_of

        if self.windowed.df is None:
            raise InvalidType(_NO_FRAME)
        return of_slices(build(query_of(self._call())))

    def from_partials(self, table: DataFrame) -> DataFrame:
        """Return the windows of a bounded table of partials that `partials()` made, with the same keys and results.

        The rows equal those made of the records themselves. Other windows than those of the written table are possible
        if their edges are edges of its slices. Slices have no records of gaps (`gaps=True`, `by_edges`), and do not
        tell: other windows must lie between the same gaps. Of a table that `lookup_partials` has found, windows are
        left out that begin before its first slice; in wide rows their columns are null. Raises InvalidType,
        InvalidValue.
        """
        from slicing.spark import partials
        from slicing.spark.as_of import as_of
        from slicing.spark.build import build

        check_frame(table, "from_partials", "definition.from_partials(df)")
        query = self.query()
        given = partials.PartialsTable(table, partials.paths_of(dict(self.results)))
        given.check(query)
        looked_up = as_of(table)
        found = replace(given, known_from=looked_up.known_from if looked_up else None)
        bounded = replace(query, frame=table, streaming=False)
        return build(bounded, of_bounded=partial(partials.build, found))

    def at(
        self,
        spine: DataFrame,
        history: DataFrame,
        *,
        spine_time: Input | None = None,
        inclusive: bool = False,
        known: Input | None = None,
    ) -> DataFrame:
        """Return the rows of `spine`, each with the results of its key as of its time, from the records of `history`.

        It makes training sets of the values that a `Reader` returns at these instants, and a stream when a window ends:
        each window is the last one that has ended by the time of the row, continued to that time. It holds the records
        before the time, with `inclusive=True` also those at the time. Without records, counts are 0 and other results
        null; without a time, all are null. The column `start` has the start of the window. Named windows have columns
        `<result>_<name>`, and a struct `starts` by name, as the `starts` of an `Answer`. `known` names a column with
        the instant at which a record became known: it counts from then on, and never if that is null.

        `spine` has the key columns and a time column, which is called `spine_time` there, by default as in the records.
        Bounded input only. Grace, trigger and `then` have no effect. Raises InvalidType and InvalidValue. Cost: that of
        `features_at`.
        """
        from slicing.spark.build import build_features

        check_frame(history, "at", "definition.at(spine, df)")
        return build_features(self._as_of(spine, history, spine_time, inclusive, known))

    def _as_of(
        self, spine: DataFrame, history: DataFrame, time: Input | None, inclusive: bool, known: Input | None = None
    ) -> FeatureQuery:
        """The query of `at`."""
        from slicing.spark.features import resolve_features

        check_flag(inclusive, "`inclusive` says whether records at the instant itself count")
        of = self.windowed
        windows = replace(as_of(of.windows, inclusive), known="" if known is None else str(known))
        asked = replace(of, df=history, windows=windows, options=of.options.reaching(Reach.KEYS))
        return resolve_features(asked, spine, of.time if time is None else time, dict(self.results), True, known)

    def serve(self, events: DataFrame) -> DataFrame:
        """Return the slices of a stream that got new records, in each micro-batch, each with its whole partial.

        The columns are the keys, `slice`, `level`, `records` and a column for each result, as in `partials()`. Level 0
        has the slices of all windows; each tail has a level of its own, with a row for each step of it that has ended.
        Write them with `serve_to`, in update mode; `slicing.serving.Reader` then returns the windows of a key as of any
        instant. After `warm(df, until=...)`, the first micro-batch also has the slices of the history. A function given
        as `then` and the trigger have no effect. Keys that are structs, `warm(partials=...)` and Spark Connect are
        refused.
        Cost: the state is that of the windows, with the slices of the current step of each tail one by one.
        Raises InvalidType, InvalidValue, and MissingRequirement on Spark Connect.
        """
        check_frame(events, "serve", "definition.serve(df)")
        from slicing.spark.serving import serve

        if self.history is not None and self.history.of_partials:
            raise InvalidValue(
                f"`serve` emits the slices of a history of records; got {self.history}. Give the records: "
                "`warm(df, until=...)`, or read them as part of the stream."
            )
        return serve(self.on(events)._call(), self.history)

    def check_serving(
        self, spine: DataFrame, history: DataFrame, *, spine_time: str | None = None, instants: int = 8
    ) -> int:
        """Return how many rows of `at(spine, history)` a stream that serves these records answers with the same values.

        `history` is read as a stream into a temporary store in SQLite, in the order of event time, cut at `instants`
        different times of the spine, drawn at random. At each of them the rows of the spine are read and compared:
        floats within 1e-9, all else exactly. What it cannot check: late records, records that arrive in another order,
        and another store. A table does not say when its records came, which decides what is late. The temporary folder
        must be seen by Spark's workers. Raises InvalidValue, with key, instant, values and slices, for the first
        row that differs, and the errors of `at` and `serve`.
        """
        from slicing.spark.check_serving import check

        check_frame(history, "check_serving", "definition.check_serving(spine, df)")
        return check(self, spine, history, spine_time, instants)

    def dataframe(self) -> DataFrame:
        """Return the DataFrame of the windows' results, as `Windowed.aggregate`.

        Raises InvalidType without a DataFrame, MissingRequirement if Spark lacks what streams need.
        """
        from slicing.spark.build import build

        if self.windowed.df is None:
            raise InvalidType(_NO_FRAME)
        if self.history is None:
            return build(self.query())
        from slicing.spark import warm

        return build(self.query(), partial(warm.build, self._call(), self.history))

    def lookup(
        self,
        checkpoint: str,
        *,
        keys: DataFrame | Iterable[Any] | None = None,
        at: Instant | Literal["watermark"] | None = None,
        starts: tuple[Instant | None, Instant | None] | None = None,
        windows: Window | Sequence[Window] | Mapping[str, Window] | None = None,
        batch: int | None = None,
        latest: bool = False,
        incomplete: bool = False,
        operator: int | None = None,
    ) -> DataFrame:
        """Return a bounded DataFrame of windows that are looked up in the checkpoint of a stream, which may be running.

        The columns are those of bounded input, then `as_of`, the micro-batch and its watermark (with `idle` that of the
        bucket of the key), and `closed`, whether that watermark has closed the window. Everything is read during this
        call, from one committed micro-batch: `batch`, by default the last one. If the query removes the last one
        meanwhile, the lookup is repeated once with the one that is then the last; a `batch` that it removes meanwhile
        is an error. Triggers have no effect.

        `keys` are values, tuples if there are several key columns, or a DataFrame of these columns. `starts` are the
        first and the last instant at which windows may start, as in `warm`, both included; None means no limit.
        `latest=True` returns, for each key, the first window that holds its newest record. `windows` replaces the
        windows of the definition; their edges must be edges of stored slices, and by name they form one wide row. A
        window is left out if some of its slices have been removed; with `incomplete=True` it is included, and
        `known_from` is the time from which its records are known. With `keys`, `starts` or `latest=True` there is
        `known_from` as well, and a named window that is not whole has a row of nulls. `operator` is the number of the
        stateful operator, if the query has several windowed aggregations.

        With `at` there is one row for each key, with the windows as of an instant, as in `definition.at` and by a
        `Reader`, and with their starts. "watermark" is the watermark, at the last edge of slices. A key in `keys`
        without records has counts of 0. Results are null if slices of the window are gone, or merged across `at`;
        `known_from` is then the instant from which on records are known. `retain` keeps slices longer.

        `keys` and `starts` name the newest 1,000 windows of each key that are not whole, also of keys without records;
        `starts=(None, last)` names none, and `starts` without `keys` those of keys with records in a slice of theirs.
        `latest=True`, and `keys` alone, name the first window that may hold the newest record of a key without a whole
        window. Sessions, `sliding`, `counting` and results that do not combine have no rows for closed windows. A
        record that was late for all of its windows is in no lookup, and one that was late for some is in all that its
        slice is part of.

        Cost: Spark reads the state of all partitions, or for up to 10 keys only their partitions, if these have a
        snapshot (written every `spark.sql.streaming.stateStore.minDeltasForSnapshot` micro-batches).
        This takes about a second and does not slow the query down. Raises InvalidValue, InvalidType, StateMismatch, and
        MissingRequirement without a Spark session.
        """
        from slicing.spark.lookup import lookup
        from slicing.spark.lookup_as_of import lookup_as_of

        for name, given in (("latest", latest), ("incomplete", incomplete)):
            check_flag(given, f"`{name}` says what is looked up")
        query, other = self._asked("lookup", windows)
        if at is not None:
            refused = {"starts": starts, "latest": latest, "incomplete": incomplete}
            return lookup_as_of(
                query, other, checkpoint, at, keys=keys, refused=refused, batch=batch, operator=operator
            )
        return lookup(
            query,
            other,
            checkpoint,
            keys=keys,
            starts=starts,
            batch=batch,
            latest=latest,
            incomplete=incomplete,
            operator=operator,
        )

    def lookup_partials(
        self,
        checkpoint: str,
        *,
        keys: DataFrame | Iterable[Any] | None = None,
        batch: int | None = None,
        operator: int | None = None,
    ) -> DataFrame:
        """Return a bounded DataFrame of the partials of slices in the checkpoint of a stream, which may be running.

        The columns are those of `partials()`, then `as_of`: the micro-batch that was read, its watermark, `until` and
        `known_from`. Windows that end by `until` have closed there: it is the watermark less the grace of this
        definition, null if none has closed. Lateness in a query that starts from the table begins at `until`. With
        `idle` it may differ from key to key, and `warm` then refuses the table unless it is given `until`. From
        `known_from` on the state has all slices; it is null if none has been removed. Slices may be open, closed or
        retained; they begin and end where stored slices do, so slices that `tail=` has merged are as long as a tail,
        and after finer windows were removed the slices are those of the other windows. A slice that lacks records is
        left out, or those of a result if the result was added later. `warm(partials=...)` and `from_partials` take the
        table. Slices do not tell that a window closed without a late record which the next one holds; so after
        `warm(partials=...)`, `on_change` does not emit this change.

        `keys`, `batch` and `operator` are as in `lookup`. Cost: that of a lookup; the rows are as many as partials in
        the state. Raises InvalidValue for the windows and results that `partials` refuses; also InvalidType and
        StateMismatch.
        """
        from slicing.spark.lookup_partials import CALL, lookup_partials
        from slicing.spark.partials import query_of

        query, _ = self._asked(CALL, None)
        return lookup_partials(
            query,
            query_of(self._call()),
            checkpoint,
            keys=keys,
            batch=batch,
            operator=operator,
        )

    def why(
        self,
        checkpoint: str,
        key: Any,
        start: Instant,
        *,
        end: Instant | None = None,
        windows: Window | Sequence[Window] | None = None,
        batch: int | None = None,
        operator: int | None = None,
    ) -> Why:
        """Show the slices that make up a result in the checkpoint of a stream, as a value that prints as a table.

        It has the slices of one window of one key: the records in each, how many of these were late, whether the slice
        still accepts records, its partials, the results so far, and the nodes of trees that are combined. Late records
        that were not accepted are not in the state. `key` is a value, a tuple if there are several key columns, None
        without key columns. `start` is the start of the window, an instant as in `warm`, and `end` its end,
        needed if several windows have this start. `windows`, `batch` and `operator` are as in `lookup`.

        Cost: that of a lookup of one key. Raises InvalidValue, InvalidType, StateMismatch.
        """
        from slicing.spark.why import why

        query, other = self._asked("why", windows)
        return why(
            query,
            other,
            checkpoint,
            key=key,
            start=start,
            end=end,
            batch=batch,
            operator=operator,
        )

    def _asked(
        self, call: str, windows: Window | Sequence[Window] | Mapping[str, Window] | None
    ) -> tuple[Query, Query | None]:
        """The query whose state is read, and the query of other windows, if given. Raises InvalidValue."""
        self._check_remembers_nothing(call)
        query = self.query()
        query.window_columns.check_call(call)
        if windows is None:
            return query, None
        query.support.check_lookup(query.trees, ["windows"])
        return query, self._with(windows).query()

    def _check_remembers_nothing(self, call: str) -> None:
        """Raise InvalidValue if this call would change the states of a function of records."""
        query = self.query()
        if query.remembers is not None and query.then is None:
            raise InvalidValue(
                f"`{call}` would call the function of `process` out of turn, and it remembers keys or windows. Let a "
                "function without `key_state` and `window_state` (and without evictors after it) read the records."
            )

    def _with(self, windows: Window | Sequence[Window] | Mapping[str, Window]) -> Definition:
        """The definition of the same results in other windows."""
        named = windows if isinstance(windows, Mapping) else {}
        plain = [] if named else windows if isinstance(windows, list | tuple) else [windows]
        found = windows_of_call(plain, named, long=False)
        options = self.windowed.options.reaching(Reach.STREAM)
        return replace(self, windowed=replace(self.windowed, windows=found, options=options))

    def plan(self, spine: DataFrame | None = None, *, spine_time: Input | None = None) -> Plan:
        """Return the plan of `dataframe` as a value, or that of `at` if its `spine` is given.

        Nothing is run. Raises InvalidType without a DataFrame or schema, and the errors of `at`.
        """
        from slicing.spark.build import plan, plan_features

        if spine is None:
            return plan(self.query())
        if self.windowed.df is None:
            raise InvalidType(_NO_FRAME)
        return plan_features(self._as_of(spine, self.windowed.df, spine_time, inclusive=False))

    def changes(self, checkpoint: str, *, operator: int | None = None) -> Changes:
        """List the differences between a checkpoint and this definition of a stream, before it is started on it.

        Each change names the stored and the wanted value, what it means, and whether `.adapt("allow")` accepts it. The
        list prints as a table, and is empty if nothing differs. Changed code of your own functions is listed, and never
        refused, if both sides run the same minor version of Python. The query of the checkpoint may be running.
        `operator` is the number of the stateful operator, if the query has several windowed aggregations. Cost: Spark
        reads the header of each bucket. Raises InvalidValue, InvalidType, StateMismatch.
        """
        from slicing.spark.build import changes

        if self.windowed.df is None:
            raise InvalidType(_NO_FRAME)
        return changes(self.query(), checkpoint, operator)

    def explain(self, spine: DataFrame | None = None, *, spine_time: Input | None = None) -> None:
        """Print the plan of `dataframe`, or that of `at` if its `spine` is given. Nothing is run.

        Raises InvalidType without a DataFrame or its schema, and the errors of `at`.
        """
        if self.windowed.windows.cost and spine is None:
            print(self.windowed.windows.cost)
        print(self.plan(spine, spine_time=spine_time))

    def query(self) -> Query:
        """Return the resolved query, with all columns found. Raises InvalidType without a DataFrame or its schema."""
        if self._query is None:
            raise InvalidType(_NO_FRAME)
        return self._query


def _is_case_sensitive() -> bool:
    """Whether names that differ in case are different names in the active session; a reader has none."""
    if "pyspark.sql" not in sys.modules:
        return False
    from slicing.spark.names import is_active_case_sensitive

    return is_active_case_sensitive()


def is_frame(value: Any) -> bool:
    """Whether a value is a Spark DataFrame. Only its type is examined: reading an attribute may ask a server."""
    return hasattr(type(value), "isStreaming") and hasattr(type(value), "sparkSession")


def check_frame(df: Any, call: str, form: str) -> None:
    """Raise InvalidType unless `df` is a Spark DataFrame; `form` is the correct way to write `call`."""
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
