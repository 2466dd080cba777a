"""`.emit(MyTrigger(...))`: a user's trigger among the others, with its state and its checks.

What it keeps of a pair is a row, as the conditions of `early` do; the header has its name and its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import FLOATS, INTEGERS, Field, parse_fields
from slicing.content.block import show_key
from slicing.content.memory import Remembered, kernel_of
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, SlicingError, check_flag, excerpt, raised
from slicing.triggers.candidates import Candidates, Extents
from slicing.triggers.trigger import (
    APART,
    CLOSING,
    FINAL,
    PAIRS,
    PURGED,
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

_PURGED = Field("_purged", "bigint")
_KINDS = (*INTEGERS, *FLOATS, "boolean")
_HOOKS = ("on_records", "on_time", "on_clock")
_CLEAR = "clear"
_TRIED = 3
"""A trigger is tried with so many windows when the query is built."""


@dataclass(frozen=True)
class StateColumns:
    """The state of some pairs: an array for each field."""

    fields: Sequence[Array]


def _columns(*fields: Array) -> StateColumns:
    return StateColumns(fields)


@dataclass(frozen=True)
class Own(Trigger):
    """The trigger of a user, asked by its hooks."""

    of: UserTrigger

    @property
    def name(self) -> str:
        """The name that messages and checkpoints know it by."""
        return type(self.of).__name__

    def has(self, hook: str) -> bool:
        """Whether it implements a hook."""
        return getattr(type(self.of), hook) is not getattr(UserTrigger, hook)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields of its state."""
        return parse_fields(self.of.state) if self.of.state else ()

    @cached_property
    def stored_fields(self) -> tuple[Field, ...]:
        """The fields of its state, and how many records a pair held when they were dropped."""
        return (*self.fields, _PURGED) if self.of.purges else self.fields

    @property
    def stored(self) -> list[str]:
        """Its name and the fields that are stored, as the header has them."""
        return [self.name, *map(str, self.stored_fields)] if self.stored_fields else []

    @cached_property
    def remembered(self) -> Remembered | None:
        """What is stored of pairs, None without a state."""
        return remembered(self.stored_fields, self._merged) if self.stored_fields else None

    @property
    def asks(self) -> frozenset[str]:  # type: ignore[override]
        """Open pairs, and what its hooks and its state need."""
        asked = {CLOSING: self.of.final, WATERMARK: self.has("on_time"), PURGED: self.of.purges}
        asked[APART] = bool(self.fields) and not self.has("on_merge")
        return frozenset({PAIRS} | {question for question, is_asked in asked.items() if is_asked})

    @property
    def by_clock(self) -> bool:  # type: ignore[override]
        """Whether it is asked by the clock."""
        return self.has("on_clock")

    @property
    def meaning(self) -> str:  # type: ignore[override]
        """What is emitted and what it costs, in one line."""
        asked = {
            "on_records": "those with new records",
            "on_time": "all when the watermark moves",
            "on_clock": "all in every micro-batch",
        }
        which = ", ".join(of for hook, of in asked.items() if self.has(hook))
        state = f"; a row of {', '.join(map(str, self.fields))} per (window, key)" if self.fields else ""
        then = "; then each at its close" * self.of.final + "; looks at what closes" * self.has(_CLEAR)
        return f"the open windows that it chooses of {which}{state}{then}"

    def on_close(self, engine: Engine) -> Iterator[Firing]:
        """The windows that close, then what the trigger does when they are forgotten."""
        if self.of.final:
            yield FINAL, engine.closing().results()
        if self.has(_CLEAR):
            at = MicroBatchTime(engine.head.watermark, engine.head.clock)
            for some in engine.closing_pairs(self.remembered):
                if len(some):
                    self._cleared(some, at)

    def _cleared(self, some: Candidates, at: MicroBatchTime) -> None:
        """Tell the trigger about pairs that are forgotten."""
        state, purged = self._state_of(some)
        extents, rows = some.extents(), np.arange(len(some))
        windows = self._windows(extents, some.held - purged, some.held - some.before, state, rows)
        self._asked(_CLEAR, windows, at, lambda pair: _shown(extents, pair))

    def _state_of(self, some: Candidates) -> tuple[list[Array], Array]:
        """The fields of the state of some pairs, which may be set, and how many records these have lost."""
        state = [field.copy() for field in some.memory.fields] if self.stored_fields else []
        return state, state.pop() if self.of.purges else np.zeros_like(some.held)

    def on_history(self, engine: Engine, at: MicroBatchTime) -> None:
        """Count the records of a history; it is not asked about them."""
        engine.pairs(self.remembered, False)

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """The open windows that it chooses."""
        hooks = {"on_records"} | ({"on_clock"} if self.has("on_clock") else set())
        if self.has("on_time"):
            hooks |= {"on_time"} if engine.head.tick != passed_watermark(at.watermark) else set()
            engine.head.tick = passed_watermark(at.watermark)
        pairs = engine.pairs(self.remembered, False)
        for some in pairs.candidates(everything=len(hooks) > 1):
            yield "early", some.panes(self._chosen(some, hooks, at)).results()

    def _chosen(self, some: Candidates, hooks: set[str], at: MicroBatchTime) -> Array:
        """Which pairs fire: `bool[n]`; what is to be remembered of them is noted."""
        came, extents = some.held - some.before, some.extents()
        state, purged = self._state_of(some)
        held = some.held - purged
        actions = np.zeros(len(some), dtype=np.int64)
        for hook in (*_HOOKS, _CLEAR):
            rows = self._rows_of(hook, came, actions)
            if not (self.has(hook) and (hook in hooks or hook == _CLEAR) and len(rows)):
                continue
            windows = self._windows(extents, held, came, state, rows)
            actions[rows] |= self._asked(hook, windows, at, lambda at_: _shown(extents, rows[at_]))  # noqa: B023
            for field, values in zip(state, windows.state.values(), strict=True):
                field[rows] = values
        if self.of.purges:
            drops = (actions & PURGE) > 0
            state.append(np.where(drops, some.purge(drops), purged))
        if some.memory is not None:
            some.remember(StateColumns(state) if self.stored_fields else some.memory)
        return ((actions & FIRE) > 0) & (held > 0)

    @staticmethod
    def _rows_of(hook: str, came: Array, actions: Array) -> Array:
        """The pairs that a hook is asked about, by the actions of those before it: `int64[n]`."""
        if hook == _CLEAR:
            return np.flatnonzero(actions & PURGE)
        return np.flatnonzero(came > 0) if hook == "on_records" else np.arange(len(came))

    def _windows(self, extents: Extents, held: Array, came: Array, state: Sequence[Array], rows: Array) -> OpenWindows:
        fields = {field.name: values[rows] for field, values in zip(self.fields, state, strict=True)}
        return OpenWindows(extents.start[rows], extents.end[rows], held[rows], came[rows], fields)

    def _asked(self, hook: str, windows: OpenWindows, at: MicroBatchTime, place: Callable[[int], str]) -> Array:
        """What a hook returns. Raises FunctionFailed with the key and the window of the first pair at fault."""
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
        """The first pair that fails alone; state as the hook has left it."""
        for pair in range(len(windows)):
            alone = windows.take(np.array([pair]))
            try:
                self._checked(hook, alone, getattr(self.of, hook)(alone, at))
            except Exception:
                return pair
        return None

    def _checked(self, hook: str, windows: OpenWindows, found: Any) -> Array:
        """What a hook has returned, as an action for each pair; `clear` decides nothing."""
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
        """The state of sessions, from those of their parts."""
        counts = np.diff(np.append(starts, len(parts[0])))
        if self.of.purges:
            *parts, purged = parts
            return [*(self._merged_fields(parts, starts, counts) if parts else []), np.add.reduceat(purged, starts)]
        return self._merged_fields(parts, starts, counts)

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
        """Try the trigger with some windows that nothing is stored of. Raises InvalidType, InvalidValue."""
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
    """A pair is at fault."""

    def __init__(self, text: str, pair: int):
        super().__init__(text)
        self.pair = pair


def remembered(fields: Sequence[Field], merged: Callable[[Sequence[Array], Array], Sequence[Array]]) -> Remembered:
    """What is stored of pairs for fields of numbers and booleans."""
    nothing = tuple(False if field.kind == "boolean" else 0.0 if field.kind in FLOATS else 0 for field in fields)
    return Remembered("state", kernel_of(fields, nothing), nothing, _columns, merged)


def _shown(extents: Extents, pair: int) -> str:
    key = show_key(extents.names, extents.keys[pair])
    start, end = int(extents.start[pair]), int(extents.end[pair])
    return key if end >= FOREVER else f"{key} in window [{show_instant(start)}, {show_instant(end)})"


def emission_of(given: Trigger | UserTrigger) -> Trigger:
    """What `.emit(...)` is given, a user's trigger among the others. Raises InvalidType and InvalidValue."""
    return own(given) if isinstance(given, UserTrigger) else given


def own(trigger: UserTrigger) -> Own:
    """A user's trigger among the others, tried. Raises InvalidType and InvalidValue for one that cannot run."""
    made = Own(trigger)
    made.check()
    return made
