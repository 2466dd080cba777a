"""The states of functions, by key and by window, in memory during a micro-batch or on bounded input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from slicing.errors import FunctionFailed, raised
from slicing.process.context import Context, Firing, Span
from slicing.process.states import Row, State, States

OfKey: TypeAlias = tuple[int, tuple[Any, ...]]
"""The number of a family, and the values of a key."""
OfWindow: TypeAlias = tuple[int, tuple[Any, ...], int]
"""The number of a family, the values of a key, and the number of a window."""


class KeyRow(NamedTuple):
    """The state of a key, and the latest `Firing.at` of its firings, in microseconds."""

    values: Row
    at: int


class WindowRow(NamedTuple):
    """The state of a window, `Firing.at` (its end, or the clock of its last firing), and the window."""

    values: Row
    at: int
    window: Span | None


@dataclass
class FunctionStates:
    """The states of keys and windows. `read` loads the stored states before the first function is called."""

    states: States
    read: Callable[[FunctionStates], None] = lambda _: None

    def __post_init__(self) -> None:
        self.is_read = False
        self.keys: dict[OfKey, KeyRow] = {}
        self.windows: dict[OfWindow, WindowRow] = {}
        self.set_keys: set[OfKey] = set()  # set in this micro-batch
        self.set_windows: set[OfWindow] = set()  # set in this micro-batch
        self.gone_keys: set[OfKey] = set()  # cleared, while their stored rows still have a state
        self.gone_windows: set[OfWindow] = set()  # the same for windows
        self._stored: set[OfKey | OfWindow] = set()

    def fill(self) -> None:
        """Load the stored states, once."""
        if not self.is_read:
            self.is_read = True
            self.read(self)

    def load(self, keys: Mapping[OfKey, KeyRow], windows: Mapping[OfWindow, WindowRow]) -> None:
        """Take the states that are stored. Rows without a value are of states that have been cleared."""
        self.keys = {place: row for place, row in keys.items() if not _is_nothing(row.values)}
        self.windows = {place: row for place, row in windows.items() if not _is_nothing(row.values)}
        self._stored = {*self.keys, *self.windows}

    def context(self, firing: Firing, context: Context) -> Context:
        """Return the context of a firing with its states."""
        key = window = None
        if self.states.key:
            row = self.keys.get(_of_key(firing))
            key = State(self.states.key, row.values if row and self._is_known(row, firing) else None)
        if self.states.window:
            found = self.windows.get(_of_window(firing))
            window = State(self.states.window, found.values if found else None)
        return replace(context, key_state=key, window_state=window)

    def _is_known(self, row: KeyRow, firing: Firing) -> bool:
        ttl = self.states.key_ttl
        return ttl is None or firing.at - row.at <= ttl

    def note(self, firing: Firing, context: Context) -> None:
        """Store the states as a function has left them. Raises InvalidType for a value of another type."""
        if context.key_state is not None:
            self._note_key(firing, context.key_state)
        if context.window_state is not None:
            values, place = context.window_state.values(self.states.window, "window_state"), _of_window(firing)
            if values is not None or place in self.windows:
                nothing = (None,) * len(self.states.window)
                self.windows[place] = WindowRow(values or nothing, firing.at, firing.window)
                self.set_windows.add(place)

    def _note_key(self, firing: Firing, state: State) -> None:
        values, place = state.values(self.states.key, "key_state"), _of_key(firing)
        row = self.keys.get(place)
        if values is None and row is None:
            return
        at = max(row.at, firing.at) if row and self._is_known(row, firing) else firing.at
        self.keys[place] = KeyRow(values or (None,) * len(self.states.key), at)
        self.set_keys.add(place)

    def clear(self, closed: Callable[[WindowRow], bool], context: Context) -> None:
        """Call the user's `clear` for windows that have closed, then remove their states. Raises FunctionFailed."""
        gone = [place for place, row in self.windows.items() if closed(row)]
        for place in sorted(gone, key=lambda place: (place[0], self.windows[place].at, place[2])):
            self._clear(place, context)
            del self.windows[place]

    def clear_of(self, firings: Iterable[Firing], context: Context) -> None:
        """Call the user's `clear` for windows whose records were purged, then remove their states."""
        for place in map(_of_window, firings):
            if place in self.windows:
                self._clear(place, context)
                self._remove_windows([place])

    def expire(self, expired: Callable[[int], bool]) -> None:
        """Remove the states whose latest firing was at an instant that has expired, without a call of `clear`."""
        self._remove_windows([place for place, row in self.windows.items() if expired(row.at)])
        self._remove_keys([place for place, row in self.keys.items() if expired(row.at)])

    def forget(self, keys: Set[tuple[Any, ...]], context: Context) -> None:
        """Call the user's `clear` for the windows of keys, then remove the states of these keys and windows."""
        windows = [place for place in self.windows if place[1] in keys]
        for place in sorted(windows, key=lambda place: (place[0], self.windows[place].at, place[2])):
            self._clear(place, context)
        self._remove_windows(windows)
        self._remove_keys([place for place in self.keys if place[1] in keys])

    def _remove_windows(self, places: Iterable[OfWindow]) -> None:
        for place in places:
            del self.windows[place]
            if place in self._stored:
                self.gone_windows.add(place)

    def _remove_keys(self, places: Iterable[OfKey]) -> None:
        for place in places:
            del self.keys[place]
            if place in self._stored:
                self.gone_keys.add(place)

    def _clear(self, place: OfWindow, context: Context) -> None:
        function, row = self.states.clear, self.windows[place]
        if function is None or _is_nothing(row.values):
            return
        family, key, number = place
        firing = Firing(key, row.window, number, family, row.at)
        own = self.context(firing, context)
        try:
            function(key, row.window, own)
            if own.key_state is not None:
                self._note_key(firing, own.key_state)
        except Exception as error:
            where = f" in window [{row.window.start.isoformat()}, {row.window.end.isoformat()})" if row.window else ""
            raise FunctionFailed(
                f"`clear` raised; got {raised(error)} for key {key}{where}. Correct the function and start again: the "
                "micro-batch is repeated."
            ) from error

    def forget_keys(self, before: Callable[[KeyRow], bool]) -> None:
        """Remove the states of expired keys (`before` is true), and states whose fields are all None."""
        gone = [place for place, row in self.keys.items() if before(row) or _is_nothing(row.values)]
        for place in gone:
            if _is_nothing(self.keys.pop(place).values) and place in self._stored:
                self.gone_keys.add(place)

    def of_family(self, family: int) -> tuple[Iterator[OfKey], Iterator[OfWindow]]:
        """Return the keys and the windows of a family that have a state."""
        return (at for at in self.keys if at[0] == family), (at for at in self.windows if at[0] == family)


def _is_nothing(values: Row) -> bool:
    return all(value is None for value in values)


def _of_key(firing: Firing) -> OfKey:
    return firing.family, same_key(firing.key)


def _of_window(firing: Firing) -> OfWindow:
    return firing.family, same_key(firing.key), firing.number


class _NaN(float):
    """A NaN that equals itself, as NaN in a key does in Spark."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and other != other

    def __hash__(self) -> int:
        return 0


_NAN = _NaN("nan")


def same_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a key, with NaN replaced by one that equals itself."""
    if any(value != value for value in key):
        return tuple(_NAN if value != value else value for value in key)
    return key
