"""`Trigger`: the base class of users' triggers. A hook is called once for all open windows of a bucket."""

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
    """Open (key, window) pairs as a trigger sees them: arrays with an item for each pair.

    `start` and `end` are the edges of the windows in microseconds (the least and the greatest int64 in `unbounded()`).
    `records` is the record count of a pair, `came` the number of its new records in this micro-batch: all `int64[n]`.
    `windows["seen"]` reads the field `seen` of the state, `windows["seen"] = values` sets it.
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
        """Return some of the pairs, with a copy of their state."""
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
    """The base class of your own triggers: a frozen dataclass that implements one hook or more.

    A hook gets `OpenWindows`, with all pairs of a bucket that it is asked about, and the time of the micro-batch
    (`at.watermark` and `at.clock` in microseconds, in every hook). It returns an array of integers with CONTINUE, FIRE,
    PURGE or FIRE_AND_PURGE for each pair. A pair fires if at least one hook says so. Changes of the state are committed
    with the micro-batch.

    `state` names typed fields as DDL, numbers and booleans: "seen bigint, high double". They are 0 and False for a new
    pair, and are removed when its window closes. Each window also fires when it closes, unless the class sets
    `final = False`, or has a field of that name.

    PURGE drops the records of a pair; FIRE_AND_PURGE emits them first. A class that returns one of them sets
    `purges = True`. After a purge, `windows.records` counts from 0. Windows that overlap need `.assemble("eager")`.
    A pair without records does not fire.

    On a live checkpoint fields are continued by name: a new one begins at 0, and another type is refused. The state
    belongs to the name of the class, and its arguments may change. `.emit` tries the hooks with three windows, and
    refuses a trigger without a hook, and one whose hook raises or returns something else than an action per window.
    Windows refuse what they do not support: sessions a `state` without `on_merge`, `unbounded()` an `on_time`,
    `counting` all of them. In `unbounded()` without `ttl=` and without `on_clock`, `at.clock` is the clock of the
    worker, which differs when a micro-batch is repeated. Cost: a count for each (slice, key), and a row for each pair
    whose state is not 0; `on_records` reads the windows of new records, the other hooks all open windows.

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
        """Return the actions for the pairs with new records. Called in each micro-batch with new records.

        With `final = False` it is also asked, before, about the pairs with new records that the micro-batch closes.
        """
        raise NotImplementedError

    def on_time(self, windows: OpenWindows, at: MicroBatchTime) -> Any:
        """Return the actions for all open pairs. Called whenever the watermark has moved.

        With `final = False` it is also asked, before, about the pairs that the micro-batch closes. Those fire that have
        records which no firing has had.
        """
        raise NotImplementedError

    def on_clock(self, windows: OpenWindows, at: MicroBatchTime) -> Any:
        """Return the actions for all open pairs. Called in every micro-batch; some micro-batches then have no data."""
        raise NotImplementedError

    def clear(self, windows: OpenWindows, at: MicroBatchTime) -> None:
        """Handle pairs that are removed or purged, for example to count or to log them.

        In each micro-batch it is called once for all pairs whose windows close, after these have fired, and for the
        keys of `unbounded(ttl=)` that are removed. It is also called for all pairs that another hook purges, with their
        records and the state after that hook; changes of this state are stored. A repeated micro-batch calls it again.
        Parts of sessions that merge are not removed: `on_merge` takes them over.
        """
        raise NotImplementedError

    def on_merge(self, parts: Mapping[str, Array], starts: Array) -> Mapping[str, Any]:
        """Return the state of merged sessions: for each field, an item for each session.

        `parts` has the fields of their parts: session i has the items from `starts[i]` up to the next start, as in
        `np.add.reduceat(parts["seen"], starts)`. Parts whose fields are all 0 may be left out.
        """
        raise NotImplementedError
