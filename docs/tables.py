"""Generate the tables of docs/combinators.md, state.md, triggers.md and windows.md: `python -m docs.tables`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import combinators
from combinators._common import ATOMIC, CARRIED, NUMBERS
from combinators.catalogue import CATALOGUE, COMPOSED, MORE, Entry, sample_kinds, samples
from docs import compatibility
from slicing.aggregates.aggregate import EVENT_TIME
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import EAGER
from slicing.errors import InvalidType, InvalidValue
from slicing.stages.support_of import support_of
from slicing.state.format import changes
from slicing.triggers.emission import ON_CLOSE, early
from slicing.triggers.trigger import Trigger
from slicing.windows.assigned import assigned_by
from slicing.windows.counting import counting
from slicing.windows.families.even import Even
from slicing.windows.session import session
from slicing.windows.sets import windows_of_call
from slicing.windows.sliding import sliding
from slicing.windows.unbounded import unbounded
from slicing.windows.window import Window, by_edges, cumulating, hopping, tumbling

PAGE, TRIGGERS, WINDOWS, STATE = (
    Path(__file__).with_name(f"{name}.md") for name in ("combinators", "triggers", "windows", "state")
)
_OF_COLUMNS = ("column", "x", "y", "by", "price", "volume")
HEAD = ("call", "result", "input types", "without records, if not null")
_WORDS = {
    frozenset(ATOMIC): "any",
    frozenset(NUMBERS): "numbers",
    frozenset(CARRIED): "any, also nested",
    frozenset(NUMBERS) - {"decimal(p,s)"} | {"date", "timestamp", "timestamp_ntz"}: "integers, floats, dates, times",
}
KINDS: dict[str, Window] = {
    "tumbling": tumbling("1 hour"),
    "hopping": hopping("1 hour", advance="1 minute"),
    "cumulating": cumulating("1 day", step="1 hour"),
    "in a zone": tumbling("1 day", zone="Europe/Berlin"),
    "by edges": by_edges([0, 10], [5, 20]),
    "several": windows_of_call((hopping("1 hour", advance="1 minute"), tumbling("7 minutes")), {}, False),
    "wide rows": windows_of_call((), {"a": tumbling("1 hour"), "b": hopping("1 day", advance="1 hour")}, False),
    "sessions": session("30 minutes"),
    "sliding": sliding("10 minutes"),
    "sliding, several lengths": sliding(ten="10 minutes", hour="1 hour", right=False),
    "unbounded": unbounded(),
    "counting": counting(100),
}
EARLY = {
    "`records`, by window": early(records=3, per="window"),
    "`records`, by key": early(records=3, per="key"),
    "`every`": early(every="10 seconds"),
    '`every`, `by="event"`': early(every="10 seconds", by="event"),
    "`after`": early(after="10 seconds"),
    '`after`, `by="event"`': early(after="10 seconds", by="event"),
    "`when`": early(when="is_last"),
    "`ends=True`": early(when="is_last", ends=True),
    "`delta`": early(delta=("speed", 5.0)),
    "`on_time=True`": early(on_time=True, late=True),
    "several": early(records=3, every="10 seconds", after="5 seconds"),
    "`final=False`": early(after="10 seconds", final=False),
    "`purge=True`": early(after="10 seconds", purge=True),
}
_FAMILY = Even(100_000_000, 1_000_000)


def around(time: int) -> list[tuple[int, int]]:
    """An example of a function that assigns windows."""
    return [(time - 60_000_000, time + 60_000_000)]


def written(page: str) -> str:
    """The page with its tables generated again; each table is between two comments that name it."""
    for name, entries in (("catalogue", CATALOGUE), ("more", MORE)):
        page = _between(page, name, _table(HEAD, map(_row, entries)))
    return _between(page, "composed", _table(HEAD[:2], map(_composed, COMPOSED)))


def written_triggers(page: str) -> str:
    """The page of triggers with its table generated again, from what each kind of windows declares."""
    kinds = KINDS | {"assigned": assigned_by(around).sessions}
    found = {kind: [_refusal(window, trigger) for trigger in EARLY.values()] for kind, window in kinds.items()}
    return _between(page, "early", _answers(("", *EARLY), found))


def written_windows(page: str) -> str:
    """The page of windows with "what goes with what" generated again, from the outcome of building each query."""
    (head, *rows), below = compatibility.table()
    return _between(page, "what goes with what", f"{_table(head, iter(rows))}\n\n{below}")


def written_state(page: str) -> str:
    """The page of state with "what can be asked of which windows" generated again, from what each kind declares."""
    found = {kind: [*_of_state(window, ("recompute",)).values()] for kind, window in KINDS.items()}
    found["with results that do not combine"] = [*_of_state(KINDS["hopping"], (EAGER,)).values()]
    head = ("", *_of_state(KINDS["hopping"], ("recompute",)))
    return _between(page, "what can be asked", _answers(head, found))


def _answers(head: Sequence[str], found: dict[str, list[str]]) -> str:
    """Return the table of what kinds of windows support, with the reasons why not below; equal kinds share a row."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for kind, refusals in found.items():
        kinds.setdefault(tuple(refusals), []).append(kind)
    reasons = list(dict.fromkeys(reason for refusals in kinds for reason in refusals if reason))
    rows = (
        (", ".join(alike), *(f"no ({reasons.index(reason) + 1})" if reason else "yes" for reason in refusals))
        for refusals, alike in kinds.items()
    )
    below = "\n".join(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))
    return f"{_table(head, rows)}\n\n{below}"


def _of_state(window: Window, trees: tuple[str, ...]) -> dict[str, str]:
    """What can be asked of the state of a kind of windows, each with the reason why not, empty if it can."""
    support = support_of(window)
    lookups, fixed = support.cannot_look_up(trees), support.fixed(ON_CLOSE, trees)
    partials = (
        f"a window shares no slices, {window.alone}"
        if window.alone
        else support.cannot_say_why(trees) * (EAGER in trees)
    )
    of_state = {
        "`lookup`": "",
        "by `starts`": lookups.get("starts", ""),
        "`latest`": lookups.get("latest", ""),
        "other windows": lookups.get("windows", ""),
        "`at`": lookups.get("at", partials if window.alone else ""),
        "`why`": support.cannot_say_why(trees),
        "`retain`": support.cannot_retain(trees),
        "windows changed live": fixed.get(changes.WINDOWS, ""),
        "results added live": fixed.get(changes.ADDED, ""),
        "`warm`": "",
        "`partials`": partials,
    }
    return {name: _reason(text) for name, text in of_state.items()}


def _reason(text: str) -> str:
    """A reason as a sentence; those that windows declare follow their name."""
    text = text.removeprefix("refused: ").rstrip(".")
    starts = text.startswith(("keeps", "has", "is", "leaves", "merges"))
    return f"{'The state ' if starts else ''}{text if starts else text[:1].upper() + text[1:]}." if text else ""


def _refusal(window: Window, trigger: Trigger) -> str:
    """Why a kind of windows refuses a trigger, empty if it does not."""
    try:
        support_of(window).check("auto", False, trigger, True)
    except InvalidValue as error:
        return f"It {str(error).removeprefix(str(trigger)).strip()}"
    return ""


def _between(page: str, name: str, text: str) -> str:
    begin, end = f"<!-- table {name} -->", f"<!-- end of {name} -->"
    found = re.compile(f"{begin}.*?{end}", re.DOTALL)
    assert len(found.findall(page)) == 1, f"the page has {begin} and {end} once"
    return found.sub(lambda _: f"{begin}\n{text}\n{end}", page)


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _row(entry: Entry) -> Sequence[str]:
    return (
        ", ".join(f"`{name}`" for name in (_call(entry.name, entry.function), *entry.aliases)),
        _what(entry.function),
        _columns(entry),
        _of_nothing(entry),
    )


def _composed(name: str) -> Sequence[str]:
    return f"`{_call(name, getattr(combinators, name))}`", _what(getattr(combinators, name))


def _call(name: str, function: Any) -> str:
    """The call with the defaults of its options; all take `where`, which is omitted."""
    if name == "struct":
        return "struct(a=..., b=...)"
    parameters = inspect.signature(function).parameters.values()
    return f"{name}({', '.join(_shown(each) for each in parameters if each.name not in ('where', 'overflow'))})"


def _shown(parameter: inspect.Parameter) -> str:
    if parameter.name not in _OF_COLUMNS:
        return parameter.name + ("" if parameter.default is parameter.empty else f"={parameter.default!r}")
    return '"x"' if parameter.name == "column" else f'"{parameter.name}"'


def _what(function: Any) -> str:
    """The first sentence of its documentation."""
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split()).replace("|", "\\|")


def _columns(entry: Entry) -> str:
    first = _WORDS.get(frozenset(entry.kinds), ", ".join(entry.kinds))
    if not entry.others:
        return first
    second = frozenset(kind for kind in ATOMIC if _takes(entry, kind))
    words = _WORDS.get(second, ", ".join(sorted(second)))
    return first if words == first else f"{first}; {words}"


def _takes(entry: Entry, second: str) -> bool:
    kind = second.replace("(p,s)", "(10,2)")
    try:
        entry.of("x", "y").resolve((sample_kinds(entry)[0], kind))
    except InvalidType:
        return False
    return True


def _of_nothing(entry: Entry) -> str:
    """The result without records, if it is not null, and whether one record has null, too."""
    kind, bound = sample_kinds(entry)[0], entry.of("x", "y")
    each = kernel(entry.name, entry.resolved(kind))
    nothing = _first(each.results_to_arrow(each.spread(1), each.no_dictionary))
    kinds = (kind, "bigint" if EVENT_TIME in bound.columns else "double")[: len(bound.columns)]
    record = [pa.array([next(filter(None, samples(of)))], arrow_type(of)) for of in kinds]
    values, dictionary = each.values(record)
    one = _first(each.results_to_arrow(each.fold(values, np.array([0]), 1), dictionary))
    if nothing is None:
        return "null for one record, too" if one is None else ""
    return ("zeros" if nothing else "empty") if isinstance(nothing, list) else str(nothing)


def _first(arrays: Sequence[pa.Array]) -> Any:
    return arrays[0].to_pylist()[0]


if __name__ == "__main__":
    pages = ((PAGE, written), (TRIGGERS, written_triggers), (WINDOWS, written_windows), (STATE, written_state))
    for path, renew in pages:
        path.write_text(renew(path.read_text(encoding="utf-8")), encoding="utf-8")
