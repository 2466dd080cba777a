"""Emission: when results go out, of which windows, and what a row says. One value, and a table of what there is."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.errors import InvalidType, InvalidValue, check_flag, excerpt
from slicing.windows.time.durations import Duration, microseconds, show


@dataclass(frozen=True)
class Every:
    """At every multiple of so many microseconds, by the clock of the trigger."""

    microseconds: int


@dataclass(frozen=True)
class Records:
    """When so many more records of a key have come."""

    count: int


When = str | Every | Records

CLOSE, CORRECT, UPDATE = "close", "close and correct", "update"
ALL, TOUCHED, NEWEST, CHANGED = "all", "touched", "newest", "changed"
RESULT, WITH_OLD, ONLY_NEW, WITH_DRAINED = "result", "result and old", "only new", "result and drained"

TABLE: dict[tuple[str | type, str, str], str] = {
    (CLOSE, ALL, RESULT): "every window once, when it closes",
    (CORRECT, ALL, RESULT): "every window at its end, again whenever late records came, until grace is over",
    (CORRECT, ALL, WITH_OLD): "as corrections, with the result that each one replaces",
    (CORRECT, ALL, ONLY_NEW): "every window at its end, then what late records alone make",
    (UPDATE, TOUCHED, RESULT): "in every micro-batch the open windows that got a record",
    (UPDATE, NEWEST, RESULT): "in every micro-batch the newest window of each key that got a record",
    (CLOSE, CHANGED, RESULT): "closed windows whose result differs from the one before",
    (CLOSE, CHANGED, WITH_DRAINED): "closed windows whose result differs from the one before, empty ones included",
    (Every, TOUCHED, RESULT): "at every tick the open windows that got a record since, then each when it closes",
    (Records, TOUCHED, RESULT): "the open windows of a key after so many records, then each when it closes",
}
"""The combinations that exist, by (when, which, what), and what goes out."""

KINDS = ("early", "update", "final", "correction", "drained", "merged")
"""Why a row goes out, as the column `emission` names it."""


@dataclass(frozen=True)
class Emission:
    """When results go out, which windows, and what a row says; made by the functions of this module only.

    Printing shows the call that makes it. Raises InvalidValue for a combination that is not in the table.
    """

    when: When
    which: str
    what: str

    def __post_init__(self) -> None:
        if self._kind not in TABLE:
            raise InvalidValue(
                f"there is no emission of when={self.when!r}, which={self.which!r}, what={self.what!r}. "
                "Make it with on_close, on_update, on_change or early."
            )

    @property
    def _kind(self) -> tuple[str | type, str, str]:
        when = self.when if isinstance(self.when, str) else type(self.when)
        return when, self.which, self.what

    @property
    def meaning(self) -> str:
        """What goes out, in one line."""
        return TABLE[self._kind]

    @property
    def once(self) -> bool:
        """Whether it is plain `on_close()`: a row for each window, no column more."""
        return self._kind == (CLOSE, ALL, RESULT)

    @property
    def corrects(self) -> bool:
        """Whether windows go out at their end and stay open for late records until grace is over."""
        return self.when == CORRECT

    @property
    def has_trees(self) -> bool:
        """Whether all windows go out as they close, from the trees."""
        return self.when != UPDATE and self.which != CHANGED

    def __repr__(self) -> str:
        if isinstance(self.when, Every):
            return f"early(every={show(self.when.microseconds)!r})"
        if isinstance(self.when, Records):
            return f"early(records={self.when.count})"
        if self.when == UPDATE:
            return "on_update(latest_only=True)" if self.which == NEWEST else "on_update()"
        if self.which == CHANGED:
            return "on_change(drained=True)" if self.what == WITH_DRAINED else "on_change()"
        if self.when == CORRECT:
            option = {RESULT: "", WITH_OLD: ", old=True", ONLY_NEW: ", discarding=True"}[self.what]
            return f"on_close(corrections=True{option})"
        return "on_close()"


def on_close(corrections: bool = False, old: bool = False, discarding: bool = False) -> Emission:
    """Every window once, when it closes: at the watermark `end + grace`. This is the default.

    With `corrections` it goes out at `end` and again, corrected, in each micro-batch in which records came for it,
    until the watermark is at `end + grace`: the result of all its records, or with `old` beside it the one that this
    replaces, or with `discarding` the result of the new records only. Raises InvalidValue for `old` or `discarding`
    without `corrections`, and for both.

    >>> print(on_close(corrections=True, old=True))
    on_close(corrections=True, old=True)
    """
    check_flag(corrections, "`corrections` says whether windows go out again for late records")
    check_flag(old, "`old` says whether rows have beside them what they replace")
    check_flag(discarding, "`discarding` says whether a correction is of the new records only")
    if old and discarding:
        raise InvalidValue(
            "`old` and `discarding` exclude each other: with `discarding` a row replaces nothing. Choose one."
        )
    if (old or discarding) and not corrections:
        name = "old" if old else "discarding"
        raise InvalidValue(f"`{name}` is about corrections; write on_close(corrections=True, {name}=True).")
    if not corrections:
        return Emission(CLOSE, ALL, RESULT)
    return Emission(CORRECT, ALL, WITH_OLD if old else ONLY_NEW if discarding else RESULT)


def on_update(latest_only: bool = False) -> Emission:
    """In every micro-batch each open window that got a record in it, with its result so far; nothing more at its close.

    The rows are those of Spark's update mode. With `latest_only` a key that got records has at most one row: of the
    first open window that holds its newest record ("the last hour, as of now"), if that window got one.

    >>> print(on_update())
    on_update()
    """
    check_flag(latest_only, "`latest_only` says whether only the newest window of a key goes out")
    return Emission(UPDATE, NEWEST if latest_only else TOUCHED, RESULT)


def on_change(drained: bool = False) -> Emission:
    """A closed window goes out only if its result is not that of the window before it, for its key.

    A row holds from its window on until the next row of the key, or until a window of the key is empty: the first
    window with records after that goes out whatever its result. With `drained` the first empty window goes out too,
    with the empty result, so that every end is said. Results are compared after `lower`: null equals null, NaN equals
    NaN, floats by their bits.

    >>> print(on_change(drained=True))
    on_change(drained=True)
    """
    check_flag(drained, "`drained` says whether the first empty window goes out")
    return Emission(CLOSE, CHANGED, WITH_DRAINED if drained else RESULT)


def early(every: Duration | None = None, records: int | None = None) -> Emission:
    """Results so far before a window closes, then the final one when it does.

    Either at every multiple of `every` by the clock of the trigger, of the windows that got a record since the tick
    before; or, of a key's windows that got a record, in the first micro-batch in which `records` more of the key have
    come. Raises InvalidValue unless exactly one is given and positive.

    >>> print(early(every="10 seconds"))
    early(every='10 seconds')
    """
    if (every is None) == (records is None):
        raise InvalidValue(
            '`early` takes either `every` or `records`: early(every="10 seconds") or early(records=100).'
        )
    if every is not None:
        length = microseconds(every, "every")
        if length < 1000 or length % 1000:
            raise InvalidValue(f"`every` must be whole milliseconds, at least one; got {excerpt(every)}.")
        return Emission(Every(length), TOUCHED, RESULT)
    if not isinstance(records, int) or isinstance(records, bool):
        raise InvalidType(f"`records` must be a whole number; got {excerpt(records)}.")
    if records < 1:
        raise InvalidValue(
            f"`records` must be positive; got {excerpt(records)}. For every micro-batch use on_update()."
        )
    return Emission(Records(records), TOUCHED, RESULT)


ON_CLOSE = on_close()
