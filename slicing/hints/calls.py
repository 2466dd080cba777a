"""Calls whose arguments fit no signature, with the call that was meant."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Any

from slicing.column_names import written
from slicing.errors import InvalidType, shortened
from slicing.hints.names import closest, keywords_for
from slicing.windows.time.durations import RECORDS

Kind = inspect.Parameter
_RECORDS = re.compile(rf"\s*(\d+)\s*(?:{'|'.join(RECORDS)})s?\s*", re.IGNORECASE)


class Misfit:
    """A call whose arguments may not fit the signature of its function.

    `args` are the positional arguments that fit, `extra` those after them. `kwargs` are the others by their names here,
    except `twice`, whose parameters were given before.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        prefix: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ):
        if "self" in inspect.signature(function).parameters:
            function, args = function.__get__(args[0]), args[1:]
        self.function, self.name, self.given = function, prefix + function.__name__, (args, kwargs)
        self.signature = inspect.signature(function)
        self.parameters = self.signature.parameters
        kinds = [each.kind for each in self.parameters.values()]
        most = len(args) if Kind.VAR_POSITIONAL in kinds else kinds.count(Kind.POSITIONAL_OR_KEYWORD)
        self.args, self.extra = args[:most], args[most:]
        self.kwargs: dict[str, Any] = {}
        self.twice: dict[str, Any] = {}
        for name, value in kwargs.items():
            ours = self._ours(name)
            (self.twice if ours in self.named else self.kwargs)[ours] = value

    def check(self, error: Exception) -> None:
        """Raise InvalidType unless the arguments fit, or if one of them is of another kind than was meant."""
        why = self._why(*self.given) or (str(error) if self.name in _FITTING else "")
        meant = MEANT[self.name](self) if why and self.name in MEANT else ""
        if meant or self._why(*self.given):
            got = shortened(self.text(self.name, *self.given))
            remedy = meant or self._fitting() or f"Its documentation is `help({self.name})`."
            raise InvalidType(
                f"`{self.name}` takes ({self._takes()}); got `{got}`: {why.rstrip('.')}. {remedy}"
            ) from None

    @property
    def named(self) -> dict[str, Any]:
        """The arguments by their names, without those that are more than fit."""
        return dict(zip(self.parameters, self.args, strict=False)) | self.kwargs

    @property
    def unknown(self) -> set[str]:
        """The keywords that the function does not have."""
        return {*self.kwargs} - {*self.parameters}

    @property
    def keyword_only(self) -> list[str]:
        """The names of parameters that are by keyword only."""
        return [each.name for each in self.parameters.values() if each.kind is Kind.KEYWORD_ONLY]

    def text(self, name: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> str:
        """Return a call of a function; arguments that are `_Code` are its text."""
        given = [*map(self.shown, args), *(f"{name}={self.shown(value)}" for name, value in kwargs.items())]
        return f"{name}({', '.join(given)})"

    def shown(self, value: Any) -> str:
        """Return the text of an argument."""
        return "..." if value is ... else value if isinstance(value, _Code) else shortened(written(value))

    def _why(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            return str(error)
        return ""

    def _takes(self) -> str:
        by_keyword = Kind.KEYWORD_ONLY, Kind.VAR_KEYWORD
        names = [each.name for each in self.parameters.values() if each.kind not in by_keyword]
        free = [f"**{each.name}" for each in self.parameters.values() if each.kind is Kind.VAR_KEYWORD]
        return ", ".join([*names, *(["*", *self.keyword_only] if self.keyword_only else []), *free])

    def _ours(self, name: str) -> str:
        if name in self.parameters:
            return name
        ours = keywords_for(name)
        fitting = [each for each in ours if each in self.parameters] or ours
        return fitting[0] if fitting else closest(name, self.parameters) or name

    def placed(self) -> dict[str, Any]:
        """Return the arguments that are more than fit by names of parameters that are by keyword only, if all can be.

        A text that is no duration is the zone; a second column is no condition.
        """
        free, found = [each for each in self.keyword_only if each not in {*self.kwargs, "where"}], {}
        for value in self.extra:
            if not free:
                return {}
            zone = "zone" in free and isinstance(value, str) and value.strip()[:1].isalpha()
            found[free.pop(free.index("zone") if zone else 0)] = value
        return found

    def _fitting(self) -> str:
        """The call with keywords renamed, and with names for arguments that are by keyword only; "" if none fits."""
        named = self.placed() | self.kwargs
        fits = len(named) == len(self.kwargs) + len(self.extra) and not self._why(self.args, named)
        if not fits or (self.extra and not self._is_taken(named)):
            return ""
        twice = f": `{next(iter(self.twice))}` is given twice" if self.twice else ""
        return f"Write `{self.text(self.name, self.args, named)}`{twice}."

    def _is_taken(self, named: dict[str, Any]) -> bool:
        try:
            self.function(*self.args, **named)
        except Exception:
            return False
        return True


class _Code(str):
    """The text of an argument, which is written as it is."""


def _windows(call: Misfit) -> str:
    """Return the windows of a size that were meant."""
    counts = {name: _count(value) for name, value in call.named.items()}
    if "size" in counts and {type(value) for value in counts.values()} == {int}:
        return f"Write {_form(call, 'counting', counts)} for windows of records."
    needed = [each.name for each in call.parameters.values() if each.default is each.empty and each.name != "advance"]
    named, notes = dict.fromkeys(needed, ...) | call.named, []
    if "label" in named:
        del named["label"]
        notes.append("A row has both edges of its window: select `window.start` or `window.end`.")
    if call.twice or {*named} - {*call.parameters, "advance"}:
        return ""
    placed = call.placed()
    if len(placed) < len(call.extra):
        return ""
    forms = [_form(call, call.name, named | placed)] if notes or ... in named.values() else []
    if call.name == "tumbling" and "advance" in named:
        forms = [_form(call, "hopping", named | placed)]
    elif call.name == "tumbling" and "offset" in placed:
        hops = _form(call, "hopping", named | {"advance": placed.pop("offset")} | placed)
        forms = [hops, f"{_form(call, 'tumbling', named | call.placed())}, if edges are to be shifted"]
    elif call.name == "hopping" and "advance" not in named:
        overlapping = _form(call, "hopping", {"size": named["size"], "advance": ...} | named)
        forms = [f"{overlapping}, if windows are to overlap"]
        if not {"gaps", "tail"} & {*named}:
            forms.insert(0, _form(call, "tumbling", named))
    return " ".join([f"Write {'; or '.join(forms)}.", *notes]) if forms else ""


def _count(size: Any) -> Any:
    """Return the number in "5 rows"; other sizes as they are."""
    found = _RECORDS.fullmatch(size) if isinstance(size, str) else None
    return int(found[1]) if found else size


def _form(call: Misfit, name: str, named: Mapping[str, Any]) -> str:
    rest = {each: value for each, value in named.items() if each != "size"}
    return f"`{call.text(name, [named['size']], rest)}`"


def _sliding(call: Misfit) -> str:
    """Return the windows that were meant by sliding windows with an advance."""
    named = call.named
    advance = [*call.extra, *([named.pop("advance")] if "advance" in named else [])]
    if len(advance) != 1 or {*named} - {*call.parameters}:
        return ""
    hops = _form(call, "hopping", {"size": named.get("difference", ...), "advance": advance[0]})
    rest = {name: value for name, value in named.items() if name != "difference"}
    slides = call.text("sliding", [named.get("difference", ...)], rest)
    return f"Write {hops}; or `{slides}`, if windows are to be at the times of records."


def _scale(call: Misfit) -> str:
    """Return the prediction with all its sizes."""
    needed = [name for name in call.keyword_only if call.parameters[name].default is Kind.empty]
    named = dict.fromkeys(needed, ...) | {name: call.named[name] for name in call.keyword_only if name in call.named}
    return f"Write `{call.text(call.name, (), named)}`, with the cores of all executors."


def _session(call: Misfit) -> str:
    meant = call.text("session", call.args, call.kwargs)
    known = call.extra and not call.unknown
    return f"Write `{meant}`: a session ends where its key has no record for the gap." if known else ""


def _keys(call: Misfit) -> str:
    """Return the grouping by keys that were given by name."""
    args, kwargs = call.given
    named = dict(kwargs)
    first = [named.pop("df")] if "df" in named else []
    known = all(closest(name, ("by", "keys", "on", "columns", "cols")) for name in named)
    return f"Write `{call.text('group_by', [*first, *args, *named.values()], {})}`." if named and known else ""


def _columns(call: Misfit) -> str:
    """Return the call of a function of one column for several of them: rows with a null do not count."""
    given = (*call.args, *call.extra)
    columns = [*takewhile(lambda each: isinstance(each, str) or hasattr(type(each), "isNotNull"), given)]
    free = [name for name in call.parameters if name not in ("column", "where")]
    options = dict(zip(free, given[len(columns) :], strict=False))
    fits = len(columns) + len(options) == len(given) and "column" not in call.twice
    if len(columns) < 2 or call.unknown or not fits:
        return ""
    together = [] if call.name == "C.count" else [_Code(call.text("F.struct", columns, {}))]
    named = options | call.kwargs | call.twice
    return f"Write `{call.text(call.name, together, named | {'where': _known(call, columns)})}`."


def _known(call: Misfit, columns: Iterable[Any]) -> _Code:
    """Return the condition that no column is null, and the one that was given."""
    where = call.kwargs.get("where")
    shown = f"F.col({where!r})" if isinstance(where, str) else call.shown(where)
    parts = [*(call.text("F.isnotnull", [each], {}) for each in columns), *([] if where is None else [shown])]
    return _Code(" & ".join(parts))


def _ends(call: Misfit) -> str:
    """Return the first or last value with the flag of Spark's `last(column, ignoreNulls)` by its name, or several."""
    if len(call.extra) != 1 or not isinstance(call.extra[0], int) or {*call.kwargs} - {*call.parameters}:
        return ""
    if not isinstance(call.extra[0], bool):
        return f"Write `{call.text(f'{call.name}_n', (*call.args, *call.extra), call.kwargs)}`."
    return f"Write `{call.text(call.name, call.args, call.kwargs | {'ignore_nulls': call.extra[0]})}`."


MEANT: dict[str, Callable[[Misfit], str]] = {
    **dict.fromkeys(("hopping", "tumbling", "cumulating"), _windows),
    "sliding": _sliding,
    "session": _session,
    "at": _scale,
    "group_by": _keys,
    **dict.fromkeys(("C.count", "C.count_distinct", "C.approx_count_distinct"), _columns),
    **dict.fromkeys(("C.first", "C.last"), _ends),
}
"""What returns the remedy of a call whose arguments do not fit, "" if it knows none, by the function."""
_FITTING = ("C.approx_count_distinct", "hopping", "sliding", "tumbling")
"""Functions whose arguments may fit and yet be meant for other parameters."""
