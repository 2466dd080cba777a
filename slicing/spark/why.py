"""Explains one result of a running or stopped query by its slices, read from the checkpoint as by a lookup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.engines.looking import Look, Pieces
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.explain import Why, why_of
from slicing.spark import checkpoint
from slicing.spark.checkpoint import State
from slicing.spark.lookup import LookupRequest, check, keys_of, session_of, shown_by
from slicing.spark.query import Query
from slicing.stages.looking import header_of
from slicing.stages.support import STARTS
from slicing.windows.time.durations import show_instant
from slicing.windows.time.instants import microseconds_of

MOST_NAMED = 5
"""The maximum number of window ends in an error message."""


@dataclass(frozen=True)
class Question:
    """A window whose slices are wanted: the key as given, and start and end in microseconds; the end may be None."""

    request: LookupRequest
    key: tuple[Any, ...]
    start: int
    end: int | None

    def answered(self, state: State) -> Why:
        """Return the slices of the window in the state of a micro-batch. Raises InvalidValue, StateMismatch."""
        pages, texts, _ = self.request.found(state)
        function = self.request.function(texts)
        function.check()
        found = [(pieces, *_edges(pieces)) for pieces in function.pieces(pages)]
        pieces, start, end = self._one(found, function.known_from())
        watermark = max((header_of(label, text).watermark for label, text in texts.items()), default=0)
        key = {key.name: value for key, value in zip(self.request.query.keys, self.key, strict=True)}
        closed = bool(function.closes and watermark) and end <= watermark - function.grace
        return why_of(pieces, Why(state.path, state.batch, watermark or None, key, start, end, closed))

    def _one(self, found: list[tuple[Pieces, int, int]], known: int | None) -> tuple[Pieces, int, int]:
        """The matching window. Raises InvalidValue if there is none, or more than one."""
        ends = sorted({end for _, _, end in found})
        chosen = [each for each in found if self.end in (None, each[2])]
        if len(chosen) == 1:
            return chosen[0]
        windows, at = self.request.shown.window, show_instant(self.start)
        if len(ends) > 1 or chosen:
            named = ", ".join(map(show_instant, ends[:MOST_NAMED])) + (", ..." if len(ends) > MOST_NAMED else "")
            raise InvalidValue(
                f"{len(found)} windows of {windows} start at {at}; they end at {named}. Say which one by `end`, or ask "
                "for one kind of windows by `windows`."
            )
        if found:
            raise InvalidValue(
                f"the window of {windows} that starts at {at} ends at {show_instant(ends[0])}; got "
                f"end={show_instant(self.end or 0)}. Leave `end` out."
            )
        since = "" if known is None else f", and all records are known from {show_instant(known)} on"
        raise InvalidValue(
            f"no window of {windows} that the state has starts at {at}{since}. Ask for the start of a window, as "
            "`lookup` shows it."
        )


def _edges(pieces: Pieces) -> tuple[int, int]:
    family, window = pieces.shape.family, np.array([pieces.window])
    return int(family.window_start(window)[0]), int(family.window_end(window)[0])


def why(
    query: Query,
    other: Query | None,
    path: str,
    *,
    key: Any,
    start: Any,
    end: Any,
    batch: int | None,
    operator: int | None,
) -> Why:
    """Return the slices that one window of one key is made of; see `Definition.why`.

    Raises InvalidValue, InvalidType, StateMismatch.
    """
    over = check(query, other, {STARTS: start}, call="why")
    query.support.check_why(query.trees) if other is None else other.support.check_why(query.trees)
    spark = session_of(query, "why")
    given = _key(query, key)
    names = keys_of(spark, query, [given]) if query.keys else pa.table({"k0": pa.array([True])})
    at = microseconds_of(start, "`start`")
    look = Look(keys=names, starts=(at, at), other=over)
    of = shown_by(query if other is None else other, query.shape, over)
    question = Question(
        LookupRequest(query, of, look), given, at, None if end is None else microseconds_of(end, "`end`")
    )
    return checkpoint.of_one_batch(lambda at: checkpoint.state(spark, path, at, operator), question.answered, batch)


def _key(query: Query, given: Any) -> tuple[Any, ...]:
    if not query.keys:
        if given is not None and given != ():
            raise InvalidValue(
                f"`key` is asked of a query with keys; this one has none, got {excerpt(given)}. Say None."
            )
        return ()
    if hasattr(type(given), "sparkSession") or isinstance(given, list):
        names = ", ".join(key.name for key in query.keys)
        raise InvalidType(f"`key` is one key, a value or a tuple of {names}; got {excerpt(given)}.")
    return given if isinstance(given, tuple) else (given,)
