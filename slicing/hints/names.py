"""Names that do not exist here: attributes, columns and keywords, with the name that was meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from slicing.errors import InvalidValue, NoSuchMethod, shortened

_RENAMED = {
    "advance": ("slide", "slide_duration", "slideDuration", "hop", "every", "by"),
    "step": ("slide", "every"),
    "size": ("window_duration", "windowDuration", "duration", "length", "width", "period"),
    "offset": ("start_time", "startTime", "origin"),
    "zone": ("tz", "timezone", "time_zone", "timeZone"),
    "gap": ("gap_duration", "gapDuration", "timeout", "inactivity"),
    "longest": ("max", "max_length", "max_duration", "maxDuration"),
    "time": ("on", "ts", "timestamp", "time_column", "timeColumn"),
    "percentage": ("q", "quantile", "probability"),
    "where": ("filter", "condition"),
    "ignore_nulls": ("ignorenulls", "ignoreNulls"),
}
"""Keywords here, each with those of other libraries for it."""

_VALUES = 'Windows are values: `.window(hopping("1 hour", advance="1 minute"), time="ts")`.'
SAID = {
    **{("window", name): _VALUES for ours in ("size", "advance") for name in (ours, *_RENAMED[ours])},
    ("window", "watermark"): 'The watermark comes first: `group_by(df.withWatermark("ts", "10 minutes"))`.',
}
"""The remedies of calls with free keywords, by the call and a keyword of other libraries."""
_FREE = {"window": ("time", "long"), "features_at": ("inclusive", "closed", "zone", "known", "time", "spine_time")}
"""The keywords of calls with free keywords."""


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

    >>> no_keyword("window", "on"), no_keyword("window", "tme"), no_keyword("features_at", "inclsive")
    ('Did you mean `time`?', 'Did you mean `time`?', 'Did you mean `inclusive`?')
    """
    ours = [each for each in keywords_for(name) if each in _FREE[call]]
    return SAID.get((call, name)) or did_you_mean(ours[0] if ours else name, _FREE[call])


def keywords_for(name: str) -> list[str]:
    """Return the keywords here for one of other libraries."""
    return [ours for ours, foreign in _RENAMED.items() if name in foreign]
