"""`Trigger`: a trigger of a user's own, which is asked about all open windows of a bucket at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.triggers.trigger import MicroBatchTime

CONTINUE, FIRE, PURGE = 0, 1, 2
FIRE_AND_PURGE = FIRE | PURGE


class OpenWindows:
    """Open pairs of key and window, as a trigger sees them: arrays of one length, an item for each pair.

    `start` and `end` are those of the windows, in microseconds (the least and the greatest int64 in `unbounded()`).
    `records` is how many records a pair holds, `came` how many of these came in this micro-batch: all `int64[n]`.
    `windows["seen"]` is the field `seen` of the state, `windows["seen"] = values` sets it.
    """

    def __init__(self, start: Array, end: Array, records: Array, came: Array, state: Mapping[str, Array]):
        self.start, self.end, self.records, self.came = start, end, records, came
        self.state = dict(state)

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, name: str) -> Array:
        return self.state[self._known(name)]

    def __setitem__(self, name: str, values: Any) -> None:
        """Set a field of the state, to a value for each pair or to one for all. Raises InvalidType, InvalidValue."""
        old, new = self.state[self._known(name)], np.asarray(values)
        if new.shape not in ((), old.shape):
            raise InvalidValue(f"`{name}` takes a value for each of {len(self)} pairs; got an array of {new.shape}.")
        if not np.can_cast(new.dtype, old.dtype, "same_kind"):
            raise InvalidType(f"`{name}` is {old.dtype}; got {new.dtype}. Convert the values, or change `state`.")
        self.state[name] = np.broadcast_to(new, old.shape).astype(old.dtype)

    def take(self, pairs: Array) -> OpenWindows:
        """Some of the pairs, with a state of their own."""
        of_pairs = (self.start[pairs], self.end[pairs], self.records[pairs], self.came[pairs])
        return OpenWindows(*of_pairs, {name: values[pairs] for name, values in self.state.items()})

    def _known(self, name: str) -> str:
        if name not in self.state:
            raise InvalidValue(
                f"there is no field {excerpt(name)} in `state`, which has {', '.join(self.state) or 'none'}."
            )
        return name


@dataclass(frozen=True)
class Trigger:
    """The base of triggers of one's own: a frozen dataclass that implements one hook or more.

    Hooks get `OpenWindows`, all pairs of a bucket that they are asked about, and the time of the micro-batch
    (`at.watermark` and `at.clock` in microseconds). They return for each pair CONTINUE, FIRE, PURGE or FIRE_AND_PURGE,
    as an array of integers; a pair fires if one of them says so. What a hook sets of the state is kept, and committed
    with the micro-batch.

    `state` names typed fields as DDL, numbers and booleans: "seen bigint, high double". They are 0 and False for a pair
    that is new, and are forgotten when its window closes. Each window fires when it closes, too, unless the class says
    `final = False`, or has a field of that name.

    PURGE drops the records of a pair, FIRE_AND_PURGE those that fire: a class that returns them says `purges = True`.
    `windows.records` then begins at 0. Windows that overlap need `.assemble("eager")` for it.

    >>> @dataclass(frozen=True)
    ... class EveryNth(Trigger):
    ...     n: int
    ...     state = "seen bigint"
    ...     def on_records(self, windows, at):
    ...         seen = windows["seen"] + windows.came
    ...         windows["seen"] = seen % self.n
    ...         return np.where(seen >= self.n, self.FIRE, self.CONTINUE)
    >>> EveryNth(3)
    EveryNth(n=3)
    """

    CONTINUE: ClassVar[int] = CONTINUE
    FIRE: ClassVar[int] = FIRE
    PURGE: ClassVar[int] = PURGE
    FIRE_AND_PURGE: ClassVar[int] = FIRE_AND_PURGE

    state: ClassVar[str] = ""
    final = True  # not annotated: a subclass may have a field of that name, after its own
    purges: ClassVar[bool] = False

    def on_records(self, windows: OpenWindows, at: MicroBatchTime) -> Any:
        """Return what to do with the pairs that got records in this micro-batch, asked in each one that brings some."""
        raise NotImplementedError

    def on_time(self, windows: OpenWindows, at: MicroBatchTime) -> Any:
        """Return what to do with all open pairs, asked whenever the watermark has moved."""
        raise NotImplementedError

    def on_clock(self, windows: OpenWindows, at: MicroBatchTime) -> Any:
        """Return what to do with all open pairs, asked in every micro-batch; the query then runs some without data."""
        raise NotImplementedError

    def clear(self, windows: OpenWindows, at: MicroBatchTime) -> None:
        """Look at pairs that are forgotten, or whose records are dropped, for example to count or to log them.

        Called once in a micro-batch about all pairs whose windows close, after these have fired, and about the keys of
        `unbounded(ttl=)` that are forgotten; and about all pairs that another hook purges, with the records and the
        state that it has left. What it sets of the state of the latter is kept. A repeated micro-batch calls it again.
        Parts of sessions that merge are not forgotten: `on_merge` takes them over.
        """
        raise NotImplementedError

    def on_merge(self, parts: Mapping[str, Array], starts: Array) -> Mapping[str, Any]:
        """Return the state of sessions that have merged, an item for each.

        `parts` has the fields of their parts, those of session i from `starts[i]` up to the next start, as
        `np.add.reduceat(parts["seen"], starts)` takes them. Parts whose fields are all 0 may be left out.
        """
        raise NotImplementedError
