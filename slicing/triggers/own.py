"""`.emit(MyTrigger(...))`: the adapter that runs a user's trigger, with its state and its checks.

The state of a pair is stored as a row, like the memory of the conditions of `early`. The header has the name of the
trigger and the fields of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import FLOATS, INTEGERS, Field, parse_fields
from slicing.content.block import show_key
from slicing.content.memory import Remembered, kernel_of
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, SlicingError, check_flag, excerpt, raised
from slicing.triggers.candidates import Candidates, Extents
from slicing.triggers.trigger import (
    CLOSING,
    FINAL,
    PAIRS,
    PURGED,
    UNMERGED,
    WATERMARK,
    Engine,
    Firing,
    MicroBatchTime,
    Trigger,
    passed_watermark,
)
from slicing.triggers.user_trigger import FIRE, FIRE_AND_PURGE, PURGE, OpenWindows
from slicing.triggers.user_trigger import Trigger as UserTrigger
from slicing.windows.time.durations import show_instant
from slicing.windows.time.slices import FOREVER

_PURGED, _FIRED = Field("_purged", "bigint"), Field("_fired", "bigint")
_KINDS = (*INTEGERS, *FLOATS, "boolean")
_HOOKS = ("on_records", "on_time", "on_clock")
_CLEAR = "clear"
_TRIED = 3
"""The number of windows of the dry run of a trigger when the query is built."""


@dataclass(frozen=True)
class StateColumns:
    """The state of some pairs: an array for each field."""

    fields: Sequence[Array]


def _columns(*fields: Array) -> StateColumns:
    return StateColumns(fields)


@dataclass(frozen=True)
class Own(Trigger):
    """A `Trigger` that calls the hooks of a user's trigger."""

    of: UserTrigger

    reads_clock = True

    @property
    def name(self) -> str:
        """Return the class name, which messages and checkpoints use."""
        return type(self.of).__name__

    def has(self, hook: str) -> bool:
        """Whether the user's trigger implements a hook."""
        return getattr(type(self.of), hook) is not getattr(UserTrigger, hook)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Return the fields of the state."""
        return parse_fields(self.of.state) if self.of.state else ()

    @property
    def asks_closing(self) -> bool:
        """Whether `on_time` is asked about the windows that close, too: those with records that no firing has had."""
        return self.has("on_time") and not self.of.final

    @cached_property
    def counts(self) -> tuple[Field, ...]:
        """Return the record counts that are stored: of purged records, and at the last firing or purge."""
        return (_PURGED,) * self.of.purges + (_FIRED,) * self.asks_closing

    @cached_property
    def stored_fields(self) -> tuple[Field, ...]:
        """Return the stored fields: those of the state, and record counts."""
        return (*self.fields, *self.counts)

    @property
    def stored(self) -> list[str]:
        """Return the name and the stored fields for the header; empty without a state."""
        return [self.name, *map(str, self.stored_fields)] if self.stored_fields else []

    @cached_property
    def remembered(self) -> Remembered | None:
        """Return the kind of memory of pairs, None without a state."""
        return remembered(self.stored_fields, self._merged) if self.stored_fields else None

    @property
    def asks(self) -> frozenset[str]:  # type: ignore[override]
        """Ask for open pairs, and for everything that the hooks and the state need."""
        asked = {CLOSING: self.of.final, WATERMARK: self.has("on_time"), PURGED: self.of.purges}
        asked[UNMERGED] = bool(self.fields) and not self.has("on_merge")
        return frozenset({PAIRS} | {question for question, is_asked in asked.items() if is_asked})

    @property
    def by_clock(self) -> bool:  # type: ignore[override]
        """Whether it implements `on_clock`."""
        return self.has("on_clock")

    @property
    def meaning(self) -> str:  # type: ignore[override]
        """Return which windows fire, and the cost, in one line."""
        asked = {
            "on_records": "those with new records",
            "on_time": f"all when the watermark moves{' or closes them' * self.asks_closing}",
            "on_clock": "all in every micro-batch",
        }
        which = ", ".join(of for hook, of in asked.items() if self.has(hook))
        state = f"; a row of {', '.join(map(str, self.fields))} per (window, key)" if self.fields else ""
        then = "; then each at its close" * self.of.final + "; looks at what closes" * self.has(_CLEAR)
        return f"the open windows that it chooses of {which}{state}{then}"

    def on_records(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Without `final`, fire the windows that are about to close and that the hooks choose.

        `on_records` is asked for new records. `on_time` is asked because the watermark may have passed the time at
        which a window would have fired, and its end and its grace, in one micro-batch.
        """
        if not self.of.final:
            yield from self._closing(engine, {"on_records", "on_time"}, at)

    def on_close(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the windows that close, if `final`."""
        if self.of.final:
            yield FINAL, engine.closing().results()
            yield from self._closing(engine, set(), at)

    def _closing(self, engine: Engine, hooks: set[str], at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the windows that hooks choose out of those that close, then call the hook `clear`."""
        if not (self.has(_CLEAR) or any(map(self.has, hooks))):
            return
        for some in engine.closing_pairs(self.remembered, everything=self.has(_CLEAR) or self.asks_closing):
            state, purged, fired = self._state_of(some)
            held = some.held - purged
            actions = self._actions(some, held, state, hooks, at)
            if hooks:
                yield "early", some.panes(_fires(actions, held) & (some.held > fired)).results()
            if self.has(_CLEAR) and len(some):
                windows = self._windows(some.extents(), held, some.held - some.before, state, np.arange(len(some)))
                self._asked(_CLEAR, windows, at, partial(_shown, some.extents()))

    def _state_of(self, some: Candidates) -> tuple[list[Array], Array, Array]:
        """Return the fields of the state of some pairs as copies, and their counts `_PURGED` and `_FIRED`.

        A session that lost records to another one has fired with at most those that it still has.
        """
        stored = [field.copy() for field in some.memory.fields] if self.stored_fields else []
        own, none = len(self.fields), np.zeros_like(some.held)
        counts = dict(zip(self.counts, stored[own:], strict=True))
        return stored[:own], counts.get(_PURGED, none), np.minimum(counts.get(_FIRED, none), some.before)

    def on_history(self, engine: Engine, at: MicroBatchTime) -> None:
        """Count the records of a loaded history. The hooks are not called."""
        engine.pairs(self.remembered, False)

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the open windows that the hooks choose."""
        hooks = {"on_records"} | ({"on_clock"} if self.has("on_clock") else set())
        if self.has("on_time"):
            hooks |= {"on_time"} if engine.head.tick != passed_watermark(at.watermark) else set()
            engine.head.tick = passed_watermark(at.watermark)
        pairs = engine.pairs(self.remembered, False)
        for some in pairs.candidates(everything=len(hooks) > 1):
            yield "early", some.panes(self._chosen(some, hooks, at)).results()

    def _chosen(self, some: Candidates, hooks: set[str], at: MicroBatchTime) -> Array:
        """Return which pairs fire: `bool[n]`. Their new state is stored."""
        state, purged, fired = self._state_of(some)
        held = some.held - purged
        actions = self._actions(some, held, state, {*hooks, _CLEAR}, at)
        fires, drops = _fires(actions, held), (actions & PURGE) > 0
        left = some.purge(drops) if self.of.purges else some.held
        counts = {_PURGED: np.where(drops, left, purged), _FIRED: np.where(fires | drops, left, fired)}
        if self.stored_fields:
            some.remember(StateColumns([*state, *(counts[field] for field in self.counts)]))
        return fires

    def _actions(
        self, some: Candidates, held: Array, state: Sequence[Array], hooks: set[str], at: MicroBatchTime
    ) -> Array:
        """Return the actions that hooks choose for pairs with `held` records: `int64[n]`. Changes `state` in place."""
        came, extents = some.held - some.before, some.extents()
        actions = np.zeros(len(some), dtype=np.int64)
        for hook in (*_HOOKS, _CLEAR):
            rows = self._rows_of(hook, came, actions)
            if not (self.has(hook) and hook in hooks and len(rows)):
                continue
            windows = self._windows(extents, held, came, state, rows)
            actions[rows] |= self._asked(hook, windows, at, lambda at_: _shown(extents, rows[at_]))  # noqa: B023
            for field, values in zip(state, windows.state.values(), strict=True):
                field[rows] = values
        return actions

    @staticmethod
    def _rows_of(hook: str, came: Array, actions: Array) -> Array:
        """Return the positions of the pairs that a hook is asked about, given the actions so far: `int64[n]`."""
        if hook == _CLEAR:
            return np.flatnonzero(actions & PURGE)
        return np.flatnonzero(came > 0) if hook == "on_records" else np.arange(len(came))

    def _windows(self, extents: Extents, held: Array, came: Array, state: Sequence[Array], rows: Array) -> OpenWindows:
        fields = {field.name: values[rows] for field, values in zip(self.fields, state, strict=True)}
        return OpenWindows(extents.start[rows], extents.end[rows], held[rows], came[rows], fields)

    def _asked(self, hook: str, windows: OpenWindows, at: MicroBatchTime, place: Callable[[int], str]) -> Array:
        """Return the actions of a hook. Raises FunctionFailed with the key and the window of the first failing pair."""
        try:
            return self._checked(hook, windows, getattr(self.of, hook)(windows, at))
        except _OfPair as error:
            raise FunctionFailed(f"{error} It is {place(error.pair)}.") from None
        except Exception as error:
            alone = self._first_failing(hook, windows, at)
            which = place(alone) if alone is not None else f"{len(windows)} windows, the first of {place(0)}"
            said = str(error) if isinstance(error, SlicingError) else f"`{self.name}.{hook}` raised {raised(error)}."
            raise FunctionFailed(f"{said} It was asked about {which}.") from error

    def _first_failing(self, hook: str, windows: OpenWindows, at: MicroBatchTime) -> int | None:
        """Return the first pair for which the hook fails if it is called with this pair alone; None if there is none.

        The state is the one that the failed call has left.
        """
        for pair in range(len(windows)):
            alone = windows.take(np.array([pair]))
            try:
                self._checked(hook, alone, getattr(self.of, hook)(alone, at))
            except Exception:
                return pair
        return None

    def _checked(self, hook: str, windows: OpenWindows, found: Any) -> Array:
        """Return the value of a hook as an action for each pair: `int64[n]`. The value of `clear` is ignored.

        Raises InvalidType, InvalidValue or `_OfPair`.
        """
        actions, count = np.zeros(len(windows), np.int64) if hook == _CLEAR else np.asarray(found), len(windows)
        if actions.dtype == np.object_ or not np.issubdtype(actions.dtype, np.integer):
            raise InvalidType(
                f"`{self.name}.{hook}` returns CONTINUE, FIRE, PURGE or FIRE_AND_PURGE for each window, as integers; "
                f"got {excerpt(found)}. Write for example np.where(windows.records > 9, self.FIRE, self.CONTINUE)."
            )
        if actions.shape != (count,):
            raise InvalidValue(
                f"`{self.name}.{hook}` returns an action for each of {count} windows; got an array of {actions.shape}."
            )
        wrong = (actions < 0) | (actions > FIRE_AND_PURGE)
        if wrong.any():
            pair = int(np.argmax(wrong))
            raise _OfPair(f"`{self.name}.{hook}` returned {actions[pair]}, which is no action.", pair)
        if (actions & PURGE).any() and not self.of.purges:
            pair = int(np.argmax(actions & PURGE > 0))
            raise _OfPair(
                f"`{self.name}.{hook}` returned PURGE, which drops the records of a window, and the class does not "
                "say so. Give it `purges = True`: windows are then checked, and stored, for that.",
                pair,
            )
        return actions.astype(np.int64)

    def _merged(self, parts: Sequence[Array], starts: Array) -> list[Array]:
        """Return the state of merged sessions from the states of their parts."""
        counts, own = np.diff(np.append(starts, len(parts[0]))), len(self.fields)
        merged = self._merged_fields(parts[:own], starts, counts) if own else []
        return [*merged, *(np.add.reduceat(part, starts) for part in parts[own:])]

    def _merged_fields(self, parts: Sequence[Array], starts: Array, counts: Array) -> list[Array]:
        merged, several = [field[starts] for field in parts], np.flatnonzero(counts > 1)
        if len(several):
            of_several = np.repeat(counts > 1, counts)
            named = {field.name: part[of_several] for field, part in zip(self.fields, parts, strict=True)}
            firsts = np.cumsum(counts[several]) - counts[several]
            for field, values in zip(merged, self._of_merge(named, firsts), strict=True):
                field[several] = values
        return merged

    def _of_merge(self, parts: Mapping[str, Array], starts: Array) -> list[Array]:
        empty = np.zeros(len(starts), dtype=np.int64)
        windows = OpenWindows(empty, empty, empty, empty, {name: part[starts] for name, part in parts.items()})
        try:
            found = self.of.on_merge(parts, starts)
            for name in parts:
                windows[name] = found[name]
        except Exception as error:
            raise FunctionFailed(
                f"`{self.name}.on_merge` returns each field of `state` for {len(starts)} merged sessions; "
                f"{raised(error)}."
            ) from error
        return list(windows.state.values())

    def check(self) -> None:
        """Check the trigger, and dry-run its hooks on windows without a state. Raises InvalidType, InvalidValue."""
        check_flag(self.of.final, "`final` says whether windows fire when they close, too")
        if not any(map(self.has, _HOOKS)):
            raise InvalidValue(f"`{self.name}` implements no hook. Give it one of {', '.join(_HOOKS)}.")
        for field in self.fields:
            if field.kind not in _KINDS:
                raise InvalidType(
                    f"`{self.name}.state` has `{field}`; fields are numbers and booleans: {', '.join(_KINDS)}."
                )
        if len({field.name for field in self.fields}) < len(self.fields):
            raise InvalidValue(f"`{self.name}.state` names a field twice: {excerpt(self.of.state)}. Rename one.")
        none = self.remembered.of_none(_TRIED)[: len(self.fields)] if self.remembered else []
        ones, times = np.ones(_TRIED, np.int64), np.arange(_TRIED) * 60_000_000
        names = Extents(times, times + 60_000_000, ones, None)
        for hook in filter(self.has, (*_HOOKS, _CLEAR)):
            windows = self._windows(names, ones, ones, none, np.arange(_TRIED))
            self._tried(hook, lambda: self._checked(hook, windows, getattr(self.of, hook)(windows, _NOW)))  # noqa: B023
        check_flag(self.of.purges, "`purges` says whether the trigger may drop the records of windows")
        if self.fields and self.has("on_merge"):
            self._tried("on_merge", lambda: self._merged_fields(none, np.array([0]), np.array([_TRIED])))

    def _tried(self, hook: str, call: Callable[[], object]) -> None:
        try:
            call()
        except (InvalidType, InvalidValue):
            raise
        except Exception as error:
            said = str(error) if isinstance(error, SlicingError | _OfPair) else f"`{self.name}.{hook}` raised "
            raised_ = "" if isinstance(error, SlicingError | _OfPair) else f"{raised(error)}."
            raise InvalidValue(f"{said}{raised_} It was tried with {_TRIED} windows of a record each.") from error

    def __repr__(self) -> str:
        return repr(self.of)


_NOW = MicroBatchTime(60_000_000, 60_000_000)


class _OfPair(Exception):
    """An error that concerns a single pair."""

    def __init__(self, text: str, pair: int):
        super().__init__(text)
        self.pair = pair


def remembered(fields: Sequence[Field], merged: Callable[[Sequence[Array], Array], Sequence[Array]]) -> Remembered:
    """Return the kind of memory for a state with these fields: 0 and False for new pairs, combined by `merged`."""
    nothing = tuple(False if field.kind == "boolean" else 0.0 if field.kind in FLOATS else 0 for field in fields)
    return Remembered("state", kernel_of(fields, nothing), nothing, _columns, merged)


def _fires(actions: Array, held: Array) -> Array:
    """Return which pairs fire: `bool[n]`. A pair without records does not."""
    fires: Array = ((actions & FIRE) > 0) & (held > 0)
    return fires


def _shown(extents: Extents, pair: int) -> str:
    key = show_key(extents.names, extents.keys[pair])
    start, end = int(extents.start[pair]), int(extents.end[pair])
    return key if end >= FOREVER else f"{key} in window [{show_instant(start)}, {show_instant(end)})"


def emission_of(given: Trigger | UserTrigger) -> Trigger:
    """Return the argument of `.emit(...)` as a `Trigger` of this package. Raises InvalidType and InvalidValue."""
    return own(given) if isinstance(given, UserTrigger) else given


def own(trigger: UserTrigger) -> Own:
    """Return the adapter of a user's trigger after a dry run. Raises InvalidType and InvalidValue if it cannot run."""
    made = Own(trigger)
    made.check()
    return made
