"""Several windows of one call: the arguments of `window(...)` as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

from slicing.errors import CallText, InvalidType, InvalidValue, Remedy, Topic, excerpt
from slicing.windows.families.several import (
    Several,
    end_together,
    primary,
    repeats_ends,
    same_windows,
    several,
    share_windows,
)
from slicing.windows.time.instants import Instant
from slicing.windows.window import Window


@dataclass(frozen=True)
class Set(Window):
    """Windows that share slices, one query and one state. `names` identify them; None if their intervals do.

    Made by `windows_of_call`. The output has one row per window, or, if `wide`, one row per end with the results of all
    windows that end there.
    """

    members: tuple[Window, ...]
    names: tuple[str, ...] | None = None
    wide: bool = False

    @cached_property
    def family(self) -> Several:
        """The families of all windows over one cut."""
        return several([member.family for member in self.members])

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns that identify windows."""
        if self.wide:
            return ("window_end",)
        return ("window", "windows") if self.names else ("window",)

    @property
    def calls(self) -> list[str]:
        """The names, or the calls that make the windows."""
        return [*(self.names or map(repr, self.members))]

    @property
    def written(self) -> CallText:
        """The calls that make the windows, for messages."""
        return CallText(repr(self), tuple(argument for member in self.members for argument in member.written.arguments))

    def windows_of(self, instant: Instant) -> list[tuple[int, int]]:
        """Return the windows of all kinds that hold an instant, in the order of the members."""
        return [window for member in self.members for window in member.windows_of(instant)]

    @property
    def parts(self) -> tuple[Window, ...]:
        """The members of the set."""
        return self.members

    def between(self, low: int, high: int, most: int = 1000) -> list[tuple[int, int]]:
        """Return the windows of all kinds, `most` of each, in their order."""
        return [window for member in self.members for window in member.between(low, high, most)]

    def __repr__(self) -> str:
        if self.names is None:
            return ", ".join(map(repr, self.members))
        return ", ".join(f"{name}={member!r}" for name, member in zip(self.names, self.members, strict=True))


AnySet = TypeVar("AnySet", bound=Set)


def windows_of_call(given: Sequence[object], named: Mapping[str, Window], long: bool) -> Window:
    """Return one window unchanged, or several as a `Set`: named ones make wide rows, or long rows with `long`.

    Raises InvalidType for an argument that is not a window. Raises InvalidValue for no window, for both forms at once,
    for unnamed windows with the same interval, and for wide rows of windows that are not aligned.
    """
    for name, window in (*((None, each) for each in given), *named.items()):
        if not isinstance(window, Window):
            from slicing.hints import no_keyword, of_length

            remedy = (no_keyword("window", name) if name else "") or of_length(window)
            raise InvalidType(
                "`window` must be made with `hopping`, `tumbling`, `cumulating`, `session`, `sliding`, `counting`, "
                f"`unbounded`, `by_edges` or `assigned_by`; got {f'{name}=' if name else ''}{excerpt(window)}."
                f"{remedy and ' ' + remedy}"
            )
    if given and named:
        raise InvalidValue(
            f"windows are given either all by name or all without; got {len(given)} without and {', '.join(named)}. "
            "Name all of them."
        )
    if not given and not named:
        raise InvalidValue("`window` needs at least one window, for example `hopping('1 hour', advance='1 minute')`.")
    if long and not named:
        raise InvalidValue(
            '`long=True` is for windows with names: `.window(short=..., day=..., time="ts", long=True)`.'
        )
    windows = cast("Sequence[Window]", given)
    if len(windows) == 1:
        return windows[0]
    for window in (*windows, *named.values()):
        if window.alone:
            raise InvalidValue(f"{window} shares no slices with other windows, {window.alone}. Give it a call alone.")
    if len({window.family.closed_right for window in (*windows, *named.values())}) > 1:
        raise InvalidValue(
            f"windows of one call share slices, to which a record at an edge belongs by the same `closed`; got "
            f"{', '.join(map(repr, (*windows, *named.values())))}. Give them the same, or a call each."
        )
    if named:
        return _named(dict(named), long)
    found = Set(tuple(windows))
    if pair := share_windows(found.family.members):
        one, other = (windows[at] for at in pair)
        raise InvalidValue(
            one.written,
            " and ",
            other.written,
            " make windows of the same interval, whose rows could not be distinguished. ",
            Remedy(Topic.NAMES, 'Name them: `.window(a=..., b=..., time="ts", long=True)`.'),
        )
    return found


def _named(named: dict[str, Window], long: bool) -> Window:
    found = Set(tuple(named.values()), tuple(named), wide=not long)
    if long:
        return found
    if not end_together(found.family.members):
        raise InvalidValue(
            "windows of one wide row must end together: the same `advance`, `(offset + size) % advance` equal, and for "
            f"hours of a clock the same `zone=`; got {found}. Give them rows of their own with long=True."
        )
    for name, member in named.items():
        if repeats_ends(member.family):
            raise InvalidValue(
                f"`{name}` has windows that end together and start apart, and a wide row has one place for them; got "
                f"{member}. Give them rows of their own with long=True."
            )
    if primary(found.family.members) is None:
        raise InvalidValue(
            f"one of the windows of a wide row must hold all others that end with it; none does of {found}. "
            "Give them rows of their own with long=True."
        )
    return check_different(found)


def check_different(found: AnySet) -> AnySet:
    """Return windows of wide rows unchanged. Raises InvalidValue if two of them are the same."""
    if pair := same_windows(found.family.members):
        one, other = (found.calls[at] for at in pair)
        raise InvalidValue(f"`{one}` and `{other}` are the same window twice; got {found}. Leave one out.")
    return found
