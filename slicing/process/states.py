"""The state of a function: typed fields per key and per window, which the function reads and sets by its context.

::

    window of key a    12:00 - 12:10    12:10 - 12:20    13:00 - 13:10        ends more than `key_ttl` after the last
    key_state.n        None -> 1        1 -> 2           None -> 1            window: the key's state is reset
    window_state       None -> ..       None -> ..       None -> ..           removed when its window has closed
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slicing.aggregates.fields import Field, arrow_type, parse_results
from slicing.errors import InvalidType, InvalidValue, check_takes, excerpt
from slicing.process.values import fits, typed
from slicing.windows.time.durations import microseconds
from slicing.windows.window import Window

Row = tuple[Any, ...]
"""The values of the fields of a state."""


@dataclass(frozen=True)
class States:
    """The declared fields of both states. `key_ttl` is in microseconds of event time, None if keys do not expire by it.

    `clear` is called with key, window and context before the state of a window is removed.
    """

    key: tuple[Field, ...] = ()
    window: tuple[Field, ...] = ()
    clear: Callable[..., Any] | None = None
    key_ttl: int | None = None

    def __bool__(self) -> bool:
        return bool(self.key or self.window)

    @property
    def text(self) -> str:
        """Return the fields as text for the checkpoint; empty if there are none."""
        sides = (("key", self.key), ("window", self.window))
        return "; ".join(f"{of}: {', '.join(map(str, fields))}" for of, fields in sides if fields)


NO_STATES = States()
EVICTED = "_evicted"
"""The field of a window's state with a bit for each of its records, in order: whether it is evicted for good."""


class State:
    """The fields of a key's or a window's state as attributes: `context.key_state.n = 1`. They are None until set."""

    def __init__(self, fields: Sequence[Field], values: Row | None):
        names = [field.name for field in fields]
        vars(self)["_values"] = dict(zip(names, values or [None] * len(names), strict=True))

    def __getattr__(self, name: str) -> Any:
        values = vars(self).get("_values", {})
        if name not in values:
            raise AttributeError(f"the state has no field `{name}`; it has {', '.join(values)}")
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)
        vars(self)["_values"][name] = value

    def __repr__(self) -> str:
        return f"State({', '.join(f'{name}={value!r}' for name, value in vars(self)['_values'].items())})"

    def values(self, fields: Sequence[Field], what: str) -> Row | None:
        """Return the values in the types of the fields, None if no field is set.

        Raises InvalidType for a value of another type.
        """
        found = vars(self)["_values"].values()
        if all(value is None for value in found):
            return None
        return tuple(_value(value, field, what) for value, field in zip(found, fields, strict=True))


def _value(value: Any, field: Field, what: str) -> Any:
    type_ = arrow_type(field.kind)
    if value is None or (type(value) is int and type_ == pa.int64() and -(1 << 63) <= value < 1 << 63):
        return value
    if not fits(value, type_):
        raise InvalidType(f"`{what}` holds `{field}`; got {excerpt(value)}")
    return typed([value], type_)[0].as_py()


def declared(key_state: Any, window_state: Any, clear: Any, key_ttl: Any, window: Window) -> States:
    """Return the states that a call declares. Raises InvalidType and InvalidValue."""
    key, own = _fields(key_state, "key_state"), _fields(window_state, "window_state")
    if (key or own) and window.own_keys:
        raise InvalidValue(
            f"a function remembers keys and windows that time decides, and {window} are as a function assigns them. "
            "Leave `key_state` and `window_state` out, or keep what is remembered in the rows."
        )
    if clear is not None and not callable(clear):
        raise InvalidType(f"`clear` takes a function `(key, window, context)`; got {excerpt(clear)}.")
    if clear is not None and not own:
        raise InvalidValue(
            '`clear` is called before the state of a window is cleared, and there is none. Add window_state="...".'
        )
    if clear is not None:
        check_takes(clear, "`clear`", "key", "window", "context")
    if own and window.merges:
        raise InvalidValue(
            f"`window_state` is of one window, and those of {window} merge with others that have another state. "
            "Keep it by `key_state`, or compute it of the records when the window fires."
        )
    if key_ttl is not None and not (key and window.closes and not window.counts):
        why = "there is no `key_state`" if not key else f"time closes no window of {window}, whose `ttl=` forgets keys"
        raise InvalidValue(f"`key_ttl` says when the state of a key is forgotten by event time, and {why}. Omit it.")
    return States(key, own, clear, _ttl(key_ttl, window) if key else None)


def _ttl(given: Any, window: Window) -> int | None:
    if not window.closes or window.counts:
        return None
    if given is not None:
        found = microseconds(given, "key_ttl")
        if found <= 0:
            raise InvalidValue(f"`key_ttl` must be positive; got {excerpt(given)}.")
        return found
    sizes = [family.fixed_size for family in window.family.families]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or window.merges:
        raise InvalidValue(
            f"windows of {window} differ in length, so `key_state` needs `key_ttl`: it is forgotten when no window of "
            'the key ends so long after its last one. Say for example key_ttl="7 days".'
        )
    return max(known)


def _fields(given: Any, name: str) -> tuple[Field, ...]:
    if given is None:
        return ()
    if not isinstance(given, str):
        raise InvalidType(f'`{name}` is typed fields as DDL, for example "n long"; got {excerpt(given)}.')
    found = parse_results(given)
    names = [field.name for field in found]
    taken = [each for each in names if each.startswith("_") or hasattr(State, each) or names.count(each) > 1]
    if taken:
        raise InvalidValue(f"a field of `{name}` cannot be called `{taken[0]}`, or it is there twice. Rename it.")
    return found
