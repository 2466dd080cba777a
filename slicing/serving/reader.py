"""`Reader`: the values of keys now, from stored slices, without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, Protocol

from slicing.aggregates.aggregate import Bound, Struct
from slicing.aggregates.results import flat_results
from slicing.column_names import parts_of
from slicing.errors import InvalidType, InvalidValue, SlicingError, excerpt
from slicing.options import Asked
from slicing.serving.levels import Cover, Levels, Range, Stored, Windows
from slicing.serving.manifest import (
    NO_BATCH,
    AsOf,
    Manifest,
    Progress,
    StoredResult,
    instant_of,
    key_text,
)
from slicing.serving.sql import select
from slicing.serving.store import Found, Store
from slicing.serving.stores import store_of
from slicing.serving.values import Values, values_of
from slicing.windows.sets import windows_of_call
from slicing.windows.time.durations import Duration, microseconds, show
from slicing.windows.time.instants import Instant, microseconds_of
from slicing.windows.window import Window

CLOCK, WATERMARK = "clock", "watermark"
"""The words for the instant of an answer."""
_MOST_OTHERS = 100
"""How many windows that were never declared a reader keeps: those who ask may choose any."""


class Stale(SlicingError, RuntimeError):
    """The stored values are older than `max_age`."""


@dataclass(frozen=True)
class Answer(Mapping[str, dict[str, Any] | None]):
    """The results of a key by window: `answer["day"]["spent"]`; None for a window whose slices are not all there.

    A window is given by its name, or by the value or the text of the call that made it.

    at: the instant of the answer.
    starts: the start of each window.
    known_from: for a window that is None, the instant from which slices are there.
    age: the time since the last micro-batch was written, by the clock of the reader.
    """

    at: datetime
    as_of: AsOf
    age: timedelta
    starts: Mapping[str, datetime]
    known_from: Mapping[str, datetime | None]
    values_of: Mapping[str, dict[str, Any] | None]

    @property
    def watermark(self) -> datetime | None:
        """The watermark of the last micro-batch."""
        return self.as_of.watermark

    def __getitem__(self, window: str | Window) -> dict[str, Any] | None:
        name = repr(window) if isinstance(window, Window) else window
        if name not in self.values_of:
            there = ", ".join(self.values_of)
            raise KeyError(f'an answer has values by window, {there}; got {excerpt(name)}. Write answer[window]["n"].')
        return self.values_of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_of)

    def __len__(self) -> int:
        return len(self.values_of)


class Served(Protocol):
    """What a reader asks of a definition."""

    @property
    def windowed(self) -> Asked:
        """The keys and the windows."""

    @property
    def results(self) -> tuple[tuple[str, Bound | Struct], ...]:
        """The results by name."""


class _Known(NamedTuple):
    """Manifest and progress: their texts and what these say, with the results by them."""

    texts: tuple[str, str]
    manifest: Manifest
    values: Values
    progress: Progress
    stored: Stored


class _Read(NamedTuple):
    """What was read of keys: the instant, its windows, what is known as of then, and the partials of each range."""

    instant: int
    cover: Cover
    known: _Known
    partials: list[list[list[bytes]]]


class Reader:
    """Reads the results of a definition as of an instant, for any key, from a store that `serve_to` writes.

    `store` is a URL, "sqlite:///features.db", or a `Store`. `feature_set` is the name under which `serve_to` writes; by
    default the names of the keys. It needs neither Spark nor Java, and may be used by several threads at once. Raises
    InvalidValue for a store that is not there, an unknown feature set, and one that another definition has written.
    """

    def __init__(self, store: str | Store, definition: Served, *, feature_set: str | None = None):
        if not hasattr(definition, "results"):
            raise InvalidType(
                f"a reader has the definition that is served; got {excerpt(definition)}. Give what `.define(...)` "
                "returns."
            )
        self._store, self._definition = store_of(store), definition
        self.feature_set = feature_set or feature_set_of(definition.windowed.keys)
        self._clock: Callable[[], int] = lambda: time.time_ns() // 1000
        self._levels = Levels.of(definition.windowed.windows)
        self._windows = Windows(definition.windowed.windows, self._levels)
        self._others: dict[Any, Windows] = {}
        self._known: _Known | None = None
        self._refreshed(self._found((), ()))

    def read(
        self,
        key: Any,
        *,
        at: str | Instant = CLOCK,
        windows: Window | Sequence[Window] | Mapping[str, Window] | None = None,
        max_age: Duration | None = None,
    ) -> Answer:
        """Return the results of a key as of an instant: of the records before it, back to the start of each window.

        `key` is its value, with several key columns a tuple; a struct is a dict. `at` is "clock" for now, "watermark"
        for the watermark of the stream at the last edge of its slices, or an instant as in `warm`. A window is the last
        one that has ended by then, continued to that instant; records of the slice that holds the instant count as far
        as the stream has read them. Without records, counts are 0 and other results null.

        `windows` replaces the windows of the definition by any windows whose edges are edges of stored slices.
        `max_age` raises Stale if the last micro-batch was written earlier than that. Cost: one read of the store, and a
        combine for each slice and window. Raises InvalidType, InvalidValue and Stale.
        """
        return self.read_many((key,), at=at, windows=windows, max_age=max_age)[0]

    def read_many(
        self,
        keys: Iterable[Any],
        *,
        at: str | Instant = CLOCK,
        windows: Window | Sequence[Window] | Mapping[str, Window] | None = None,
        max_age: Duration | None = None,
    ) -> list[Answer]:
        """Return the answers of `read` for several keys, in their order, as of one instant and by one read."""
        asked, keys = self._asked(windows), list(keys)
        now = self._clock()
        read = self._read(asked, keys, now if at == CLOCK else at)
        progress = read.known.progress
        age = now - progress.written
        if max_age is not None and age > microseconds(max_age, "max_age"):
            raise Stale(
                f"values must not be older than {max_age}; those of `{self.feature_set}` are {show(age)} old. See "
                "whether the query that writes them is running, or ask for a larger `max_age`."
            )
        place = "key {!r}, window {}".format
        rows = read.known.values.of(
            read.cover, read.partials, lambda key, window: place(keys[key], asked.names[window])
        )
        answer = partial(
            Answer,
            instant_of(read.instant),
            progress.as_of,
            timedelta(microseconds=max(0, age)),
            dict(zip(asked.names, read.cover.start_instants, strict=True)),
            dict(zip(asked.names, read.cover.known_from_instants, strict=True)),
        )
        return [answer(dict(zip(asked.names, of_key, strict=True))) for of_key in rows]

    def slices(self, key: Any, window: int, at: Instant) -> list[tuple[int, int, dict[str, Any]]]:
        """Return the start, the end and the results of each slice of a window of a key.

        `window` is its number in the definition. Instants are in microseconds. Steps of tails come last.
        """
        read = self._read(self._windows, (key,), at)
        packed = [each for some in read.partials[0] for each in some]
        parts = read.cover.parts[window] or ()
        return [
            (start, self._levels.end(level, start), values)
            for level, start, values in (read.known.values.of_slices(packed) if packed else ())
            if any(each.level == level and each.low <= start < each.high for each in parts)
        ]

    def _read(self, asked: Windows, keys: Sequence[Any], at: str | Instant) -> _Read:
        """Return the rows of the windows of keys as of an instant.

        The ranges to read depend on the progress, which is known only after reading and changes once a micro-batch: if
        it has changed so that the ranges may differ, the rows are read again.
        """
        assert self._known is not None, "a reader begins with a read"
        known, before = self._known, None
        if at == WATERMARK and known.progress.watermark is None:  # there may be one by now
            known = self._refreshed(self._found((), ()))
        while before is None or not _asks_alike(before, known, at):
            instant = self._watermark(known.progress) if at == WATERMARK else microseconds_of(at, "`at`")
            cover = asked.cover(instant, known.stored)
            found = self._found([key_text(key, known.manifest.keys) for key in keys], cover.ranges)
            before, known = known, self._refreshed(found)
        return _Read(instant, cover, known, found.partials)

    def sql(self) -> str:
        """Return a query for the stored slices in the SQL of the store, with a column for each number of partials.

        It is of the definition as stored now: a live change of results needs it anew. Raises InvalidType for a store
        that has no SQL.
        """
        dialect = getattr(self._store, "dialect", None)
        if dialect is None:
            raise InvalidType(
                f"slices are read by SQL from tables, and {type(self._store).__name__} has none. Serve to SQLite or "
                "PostgreSQL."
            )
        manifest = self._refreshed(self._found((), ())).manifest
        return select(self.feature_set, manifest, dialect)

    def close(self) -> None:
        """Close what the store holds open for this thread."""
        close = getattr(self._store, "close", None)
        if close is not None:
            close()

    async def aread(self, key: Any, **options: Any) -> Answer:
        """Return the answer of `read`, from a thread of the event loop's pool."""
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(None, partial(self.read, key, **options))

    def _asked(self, windows: Any) -> Windows:
        if windows is None:
            return self._windows
        given = tuple(windows.items()) if isinstance(windows, Mapping) else windows
        given = tuple(given) if isinstance(given, list) else given
        known = self._others.get(given)
        if known is None:
            if isinstance(windows, Mapping):
                found = windows_of_call((), windows, long=True)
            else:
                found = windows_of_call(given if isinstance(given, tuple) else (given,), {}, long=False)
            if len(self._others) >= _MOST_OTHERS:
                self._others.clear()
            known = self._others[given] = Windows(found, self._levels)
        return known

    def _watermark(self, progress: Progress) -> int:
        if progress.watermark is None:
            raise InvalidValue(
                f'`at="watermark"` is the watermark of the stream, and `{self.feature_set}` has none before its second '
                'micro-batch. Read `at="clock"`, or later.'
            )
        return self._levels.around(progress.watermark)[0]

    def _found(self, keys: Sequence[str], ranges: Sequence[Range]) -> Found:
        return self._store.read(self.feature_set, keys, ranges)

    def _refreshed(self, found: Found) -> _Known:
        """Return manifest and progress of what was read. They are parsed once a micro-batch; other threads see all."""
        known = self._known
        if known is None or known.texts != (found.manifest, found.progress):
            same = known is not None and known.texts[0] == found.manifest
            manifest, values = (known.manifest, known.values) if known and same else self._checked(found.manifest)
            progress = Progress.read(found.progress)
            if progress.batch == NO_BATCH:
                raise self._not_there()
            ended = self._levels.ended(progress.passed or progress.watermark)
            stored = Stored(progress.from_each, ended, progress.added)
            known = _Known((found.manifest, found.progress), manifest, values, progress, stored)
            self._known = known
        return known

    def _checked(self, text: str) -> tuple[Manifest, Values]:
        """Return a manifest, and the results by it. Raises InvalidValue unless this definition has written it."""
        if not text:
            raise self._not_there()
        stored = Manifest.read(text)
        named = dict(self._definition.results)
        keys = _keys(self._definition.windowed.keys, stored.keys)
        own = manifest_of(self._definition, {each.path: each.kinds for each in stored.results}, keys)
        if own.digest != stored.digest:
            raise InvalidValue(
                f"a reader has the definition that has written `{self.feature_set}`, and {difference(own, stored)}. "
                "Read with that definition, or write this one under another name: `feature_set=...`."
            )
        return stored, values_of(named, stored.results)

    def _not_there(self) -> InvalidValue:
        return InvalidValue(
            f"values are read of a feature set that `serve_to` has written, and the store has no `{self.feature_set}`. "
            "Start the query that writes it, give the URL that `serve_to` has, or name another one: `feature_set=...`."
        )


def _keys(own: Sequence[Any], stored: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Return the stored keys if a definition has these, its own without their kinds otherwise.

    Names may differ in case, and a path names its last part. A Column is taken for any name.
    """
    names = [parts_of(key)[-1].casefold() if isinstance(key, str) else None for key in own]
    same = len(own) == len(stored) and all(
        name in (None, known.casefold()) for name, (known, _) in zip(names, stored, strict=True)
    )
    return stored if same else [(str(key), "") for key in own]


def _asks_alike(one: _Known, other: _Known, at: str | Instant) -> bool:
    """Whether the same ranges are read by two progresses."""
    return one.stored == other.stored and (at != WATERMARK or one.progress.watermark == other.progress.watermark)


def manifest_of(definition: Served, kinds: Mapping[str, Sequence[str]], keys: Sequence[tuple[str, str]]) -> Manifest:
    """Return the manifest of a definition; `kinds` has the kinds of the columns of each result, by its path.

    Raises InvalidType and InvalidValue.
    """
    window = definition.windowed.windows
    results = [
        StoredResult.of(path, bound, kinds[path], bound.resolve(tuple(kinds[path])))
        if len(kinds.get(path, ())) == len(bound.columns) and path in kinds
        else StoredResult(path, tuple(map(str, bound.inputs)), (), "", ())
        for path, bound in flat_results(dict(definition.results)).items()
    ]
    return Manifest(tuple(keys), tuple(results), Levels.of(window).specs, repr(window))


def difference(own: Manifest, stored: Manifest) -> str:
    """Return how a definition differs from the stored one, as part of a message."""
    if own.keys != stored.keys:
        here, there = (", ".join(" ".join(key).strip() for key in of.keys) or "none" for of in (own, stored))
        return f"its keys are {here}, the stored ones {there}"
    if own.levels != stored.levels and own.windows != stored.windows:
        return f"its slices are those of {own.windows}, the stored ones those of {stored.windows}"
    ours, theirs = ({each.path: each for each in of.results} for of in (own, stored))
    for name in (*ours, *theirs):
        if ours.get(name) != theirs.get(name):
            where = "differs" if name in ours and name in theirs else f"is only {'here' if name in ours else 'there'}"
            return f"its result `{name}` {where}"
    return "the order of its results, or a time zone, differs"


def feature_set_of(keys: Sequence[Any]) -> str:
    """Return the default name of a feature set: the names of the keys, "all" without keys."""
    return "_".join(map(str, keys)) or "all"
