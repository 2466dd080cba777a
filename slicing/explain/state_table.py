"""The content of a checkpoint as a value that prints as a table; `describe` returns it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import TypeVar

from slicing.drawing import lines, table
from slicing.state.format.header import PER_GROUP, SAME, Header, covered
from slicing.state.format.list_names import COUNTS, KEYS, MEMORY, PENDING, STATE, VALUES
from slicing.state.format.result_texts import result_text
from slicing.windows.specs import cut_text, windows_text
from slicing.windows.time.durations import show_instant

Place = TypeVar("Place")
MOST_SHOWN = 10
"""The maximum number of buckets, and of keys, in the table, largest first."""
_COLUMNS = ("bucket", "keys", "slices", "pages", "bytes")
_OF_KEYS = ("largest keys", "bucket", "slices", "records", "bytes")
_OF_TRIGGERS = {
    PENDING: "records since the last firing",
    COUNTS: "record counts by slice",
    KEYS: "record counts by key",
    MEMORY: "memory of conditions by window",
    VALUES: "memory of conditions by window, with values",
    STATE: "fields of the trigger by window",
}
"""The content of the lists of a trigger's state."""


@dataclass(frozen=True)
class BucketState:
    """A bucket: the numbers of distinct keys, of slices that its pages span, of pages, and of stored bytes.

    `label` is the value that Spark's shuffle has for it, and `number` counts from 0 as `.buckets(n)` does; None if the
    number of buckets is not known.
    """

    label: int
    keys: int
    slices: int
    pages: int
    bytes: int
    number: int | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The numbers as text, for a table."""
        return str(self.label if self.number is None else self.number), *(
            f"{number:,}" for number in (self.keys, self.slices, self.pages, self.bytes)
        )


@dataclass(frozen=True)
class KeyState:
    """The state of a key, named by its text: the distinct slices with its records, these records, and bytes.

    The bytes are the share of the key's rows in the bytes of their pages. A merged slice counts as one, and so does a
    window without slices; of sessions, each stored part with a start of its own counts.
    """

    bucket: int
    key: str
    slices: int
    records: int
    bytes: int

    @property
    def cells(self) -> tuple[str, ...]:
        """The key and its numbers as text, for a table."""
        return self.key, str(self.bucket), *(f"{number:,}" for number in (self.slices, self.records, self.bytes))


@dataclass(frozen=True)
class TriggerState:
    """A part of the trigger's state: its content in words, and its pages and bytes in all buckets together."""

    content: str
    pages: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.content}: {self.pages:,} pages, {self.bytes:,} bytes"


def trigger_state_of(lists: Iterable[tuple[str, int, int]]) -> tuple[TriggerState, ...]:
    """Return the state of the trigger from the names of its lists in buckets, each with its pages and bytes."""
    pages, sizes = Counter[str](), Counter[str]()
    for name, count, size in lists:
        pages[name] += count
        sizes[name] += size
    return tuple(TriggerState(text, pages[name], sizes[name]) for name, text in _OF_TRIGGERS.items() if pages[name])


def largest_of(keys: Mapping[Place, KeyState]) -> dict[Place, KeyState]:
    """Return the ten keys with most bytes, largest first, by their places, which may be anything."""
    order = sorted(keys.items(), key=lambda item: (-item[1].bytes, item[1].bucket, item[1].key))
    return dict(order[:MOST_SHOWN])


@dataclass(frozen=True)
class StateTable:
    """The result of `describe`: a checkpoint after one micro-batch, with its buckets and its damage.

    `formats` has the numbers of the formats of its headers: more than one if some buckets have no new records since an
    update. `watermark` is in microseconds, None before the first one. `results` has the kind, the input columns and the
    partial of each result, whose name is not stored. `windows` are the calls that make them, and `cut` is the slices.
    `largest_keys` has at most ten keys, the largest first. `trigger` names triggers of your own and `early()`, with the
    fields that they store for each window; `trigger_state` has the state of any trigger, and is empty if it needs none.
    """

    checkpoint: str
    micro_batch: int
    watermark: int | None
    buckets: tuple[BucketState, ...]
    keys: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    cut: str = ""
    spread: str = ""
    damage: tuple[str, ...] = ()
    largest_keys: tuple[KeyState, ...] = ()
    formats: tuple[int, ...] = ()
    trigger: tuple[str, ...] = ()
    trigger_state: tuple[TriggerState, ...] = ()

    @property
    def skew(self) -> float:
        """The bytes of the largest bucket divided by the average of all buckets; 1.0 for empty state."""
        sizes = [bucket.bytes for bucket in self.buckets]
        return max(sizes) * len(sizes) / sum(sizes) if sum(sizes) else 1.0

    @property
    def largest(self) -> tuple[BucketState, ...]:
        """The buckets, those with most bytes first."""
        return tuple(sorted(self.buckets, key=lambda bucket: (-bucket.bytes, bucket.label)))

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The facts about all buckets together, as pairs of name and text."""
        total = [f"{sum(getattr(each, name) for each in self.buckets):,} {name}" for name in ("keys", "pages", "bytes")]
        found = [
            ("checkpoint", self.checkpoint),
            ("format", " and ".join(map(str, self.formats))),
            ("micro-batch", str(self.micro_batch)),
            ("watermark", "none" if self.watermark is None else show_instant(self.watermark)),
            ("keys", ", ".join(self.keys)),
            *(("result", result) for result in self.results),
            *(("windows", windows) for windows in self.windows),
            ("slices", self.cut),
            *(("trigger", trigger) for trigger in self.trigger),
            *(("trigger state", str(part)) for part in self.trigger_state),
            ("buckets", self.spread),
            ("in all", ", ".join(total)),
            ("skew", f"{self.skew:.2f} (bytes of the largest bucket, by the average)"),
            *(("damaged", each) for each in self.damage),
        ]
        return [(name, text) for name, text in found if text]

    def __str__(self) -> str:
        buckets = lines([_COLUMNS, *self._rows()], right=True)
        return "\n".join([*lines(self.facts), "", *buckets, *self._more(), *self._keys()])

    def _keys(self) -> list[str]:
        rows = [each.cells for each in self.largest_keys]
        return ["", *lines([_OF_KEYS, *rows], right=True)] if rows else []

    def _rows(self) -> list[tuple[str, ...]]:
        return [bucket.cells for bucket in self.largest[:MOST_SHOWN]]

    def _more(self) -> list[str]:
        left = len(self.buckets) - MOST_SHOWN
        return [f"and {left} smaller ones"] if left > 0 else []

    def _repr_html_(self) -> str:
        more = "".join(f"<p>{escape(line)}</p>" for line in self._more())
        keys = table(_OF_KEYS, [each.cells for each in self.largest_keys]) if self.largest_keys else ""
        return f"{table(('state', ''), self.facts)}{table(_COLUMNS, self._rows())}{more}{keys}"


def facts_of(head: Header) -> dict[str, object]:
    """Return what the header of one bucket says about all buckets: keys, results, windows and slices."""
    results = []
    for result in head.current:
        fields = [_field(head, each) for each in result.partial]
        results.append(f"{result_text(result)}: {', '.join(fields)}")
    return {
        "keys": tuple(head.keys),
        "results": tuple(results),
        "windows": tuple(windows_text(family.spec) for family in head.families if family.spec),
        "cut": cut_text(head.layout["cut"]) if "cut" in head.layout else "",
    }


def triggers_of(heads: Iterable[Header]) -> tuple[str, ...]:
    """Return the triggers that the headers of buckets name, users' own and `early()`, each with its stored fields."""
    named = (head.trigger for head in heads if head.trigger)
    return tuple(dict.fromkeys(f"{name} with {', '.join(fields)}" for name, *fields in named))


def _field(head: Header, field: str) -> str:
    """The name and type of a field; if another result stores it, that result too."""
    name, shared, other = field.partition(SAME)
    return (
        f"{name} stored with {result_text(next(each for each in head.results if each.id == int(other)))}"
        if shared
        else name
    )


def slices_of(head: Header) -> int:
    """Return the number of slices that the pages of a bucket span."""
    return covered(head.spans()) if PER_GROUP in head.layout and len(head.spans()) else 0
