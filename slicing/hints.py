"""Turn names, keywords and numbers of arguments that do not exist here into messages with the call that was meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from slicing.errors import InvalidType, InvalidValue, NoSuchMethod, shortened

P = ParamSpec("P")
R = TypeVar("R")

_RENAMED = {
    "advance": ("slide", "slide_duration", "slideDuration", "hop", "every", "by"),
    "step": ("slide", "every"),
    "size": ("window_duration", "windowDuration", "duration", "length", "width", "period"),
    "offset": ("start_time", "startTime", "origin"),
    "zone": ("tz", "timezone", "time_zone", "timeZone"),
    "gap": ("gap_duration", "gapDuration", "timeout", "inactivity"),
    "time": ("on", "ts", "timestamp", "time_column", "timeColumn"),
    "percentage": ("q", "quantile", "probability"),
    "where": ("filter", "condition"),
    "ignore_nulls": ("ignorenulls", "ignoreNulls"),
}
"""Keywords here, each with those of other libraries for it."""

_OFFSET = "Windows are `[start, end)`; `{call}({given}, offset='1 microsecond')` makes them `(start, end]`."
_EDGES = "A row has both edges of its window: select `window.start` or `window.end`."
_NOT_NULL = "Write `{call}({0}, where=F.isnotnull({0}))`."
_NOT_OVERLAPPING = "Write `tumbling({0})`; or `hopping({0}, advance=...)`, if windows are to overlap."
_ADVANCED = "Write `hopping({0}, advance={1})`; or `sliding({0})`, if windows are to be at the times of records."
_VALUES = 'Windows are values: `.window(hopping("1 hour", advance="1 minute"), time="ts")`.'
_TOGETHER = "Write `{call}(F.to_json(F.to_variant_object(F.struct({columns}))), where={known})`."
MEANT: dict[tuple[str, int | str], str] = {
    ("hopping", 0): _NOT_OVERLAPPING,
    ("hopping", 1): _NOT_OVERLAPPING,
    ("tumbling", 2): "Write `hopping({0}, advance={1})`; or `tumbling({0}, offset={1})`, if edges are to be shifted.",
    ("tumbling", "advance"): "Write `hopping({0}, advance={1})`.",
    ("sliding", 2): _ADVANCED,
    ("sliding", "advance"): _ADVANCED,
    ("session", 2): "Write `session({0})`: a session ends where its key has no record for the gap.",
    ("group_by", "keys"): "Write `group_by(df, *{1})`.",
    **{("window", name): _VALUES for ours in ("size", "advance") for name in (ours, *_RENAMED[ours])},
    ("window", "watermark"): 'The watermark comes first: `group_by(df.withWatermark("ts", "10 minutes"))`.',
    ("features_at", "closed"): "Write `inclusive=True` to count records at the time itself too, else leave it out.",
    **{(f"C.{name}", n): _TOGETHER for name in ("count_distinct", "approx_count_distinct") for n in (2, 3, 4)},
    **{("C.count", n): "Write `{call}(where={known})`." for n in (2, 3, 4)},
    **{(call, "closed"): _OFFSET for call in ("hopping", "tumbling")},
    **{(call, "label"): _EDGES for call in ("hopping", "tumbling", "cumulating")},
    **{(call, wrong): _NOT_NULL for call in ("C.first", "C.last") for wrong in ("ignore_nulls", 2)},
}
"""The remedies of calls that do not fit: by the function, and an unknown keyword or the number of positional arguments.

`{0}` and `{1}` are the values that were given, `{call}` is the function, `{given}` its arguments that fit. `{columns}`
are the positional arguments, and `{known}` is whether none of them is null.
"""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question about the known name that is closest to an unknown one; "" if none is close.

    >>> did_you_mean("countDistinct", ["count", "count_distinct"]), did_you_mean("x", ["count"])
    ('Did you mean `count_distinct`?', '')
    """
    found = closest(name, known)
    return f"Did you mean `{found}`?" if found else ""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is closest to an unknown one, in any case and with any underscores."""
    folded = {_folded(each): each for each in known}
    found = get_close_matches(_folded(name), folded, n=1, cutoff=0.7)
    return folded[found[0]] if found else None


def _folded(name: str) -> str:
    return name.casefold().replace("_", "")


def no_name(what: str, name: str, meant: Mapping[str, str], known: Iterable[str]) -> AttributeError:
    """Return the error for a missing attribute: `meant` has remedies for names of other libraries."""
    if name.startswith("_"):
        return AttributeError(f"{what} has no `{name}`")
    remedy = meant.get(name) or did_you_mean(name, known)
    return NoSuchMethod(f"{what} has no `{name}`. {remedy}") if remedy else AttributeError(f"{what} has no `{name}`")


def no_column(what: str, name: str, known: Sequence[str], more: str = "") -> InvalidValue:
    """Return the error for a missing column; `more` is added as a further remedy."""
    remedies = " ".join(filter(None, (did_you_mean(name, known), more)))
    return InvalidValue(
        f"{what} `{shortened(name)}` does not exist; the columns are {', '.join(known)}.{remedies and ' ' + remedies}"
    )


def no_keyword(call: str, name: str) -> str:
    """Return the remedy for a keyword that a call with free keywords does not know; "" if it could be any name.

    >>> no_keyword("window", "on"), no_keyword("window", "tme")
    ('Did you mean `time`?', 'Did you mean `time`?')
    """
    ours = _renamed(name) or [each for each in ("time", "long") if closest(name, [each])]
    return MEANT.get((call, name), f"Did you mean `{ours[0]}`?" if ours else "")


def _renamed(name: str) -> list[str]:
    """Return the keywords here for one of other libraries."""
    return [ours for ours, foreign in _RENAMED.items() if name in foreign]


def hinted(function: Callable[P, R], prefix: str = "", shown: Callable[[Any], str] = repr) -> Callable[P, R]:
    """Return a function that raises InvalidType with the call that was meant if its arguments fit no signature.

    `prefix` goes before its name in messages, and `shown` returns the text of an argument.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            _Misfit(function, prefix, shown, args, kwargs).check()
            raise

    return call


class _Misfit:
    """A call whose arguments may not fit the signature of its function."""

    def __init__(
        self,
        function: Callable[..., Any],
        prefix: str,
        shown: Callable[[Any], str],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ):
        self.name, self.shown = prefix + function.__name__, shown
        self.signature = inspect.signature(function)
        self.parameters = self.signature.parameters
        self.args, self.kwargs = args, kwargs

    def check(self) -> None:
        """Raise InvalidType unless the arguments fit."""
        if why := self._why(self.args, self.kwargs):
            got = self._written(self.args, self.kwargs)
            raise InvalidType(f"`{self.name}` takes ({self._takes()}); got `{got}`: {why}. {self._remedy()}") from None

    def _why(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            return str(error)
        return ""

    def _takes(self) -> str:
        names = [each.name for each in self.parameters.values() if each.kind is not each.KEYWORD_ONLY]
        only = self._keyword_only
        return ", ".join([*names, *(["*", *only] if only else [])])

    @property
    def _keyword_only(self) -> list[str]:
        return [each.name for each in self.parameters.values() if each.kind is each.KEYWORD_ONLY]

    def _written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return f"{self.name}({self._arguments(args, kwargs)})"

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        given = [*map(self.shown, args), *(f"{name}={self.shown(value)}" for name, value in kwargs.items())]
        return shortened(", ".join(given))

    def _remedy(self) -> str:
        kwargs = {self._ours(name): value for name, value in self.kwargs.items()}
        fitting = self._fitting(kwargs)
        if fitting and [*kwargs] != [*self.kwargs]:
            return fitting
        return self._meant(kwargs) or fitting or f"Its documentation is `help({self.name})`."

    def _meant(self, kwargs: dict[str, Any]) -> str:
        taken = {each.name for each in self.parameters.values() if each.kind is not each.VAR_POSITIONAL}
        wrong: list[int | str] = [name for name in kwargs if name not in taken] or [len(self.args)]
        known = next((MEANT[self.name, each] for each in wrong if (self.name, each) in MEANT), "")
        values = [*map(self.shown, (*self.args, *kwargs.values())), "...", "..."]
        fit = {name: value for name, value in kwargs.items() if name in taken}
        not_null = " & ".join(f"F.isnotnull({self.shown(each)})" for each in self.args)
        given = {"given": self._arguments(self.args, fit), "columns": self._arguments(self.args, {}), "known": not_null}
        return known.format(*values, call=self.name, **given)

    def _ours(self, name: str) -> str:
        if name in self.parameters:
            return name
        renamed = _renamed(name)
        fitting = [ours for ours in renamed if ours in self.parameters] or renamed
        return fitting[0] if fitting else closest(name, self.parameters) or name

    def _fitting(self, kwargs: dict[str, Any]) -> str:
        """The call with keywords renamed, and with names for arguments that are by keyword only; "" if none fits."""
        most = sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in self.parameters.values())
        named = dict(zip(self._keyword_only, self.args[most:], strict=False)) | kwargs
        fits = not self._why(self.args[:most], named)
        return f"Write `{self._written(self.args[:most], named)}`." if fits else ""
