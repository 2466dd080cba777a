"""What is stored besides rows: which definition wrote them, and how far it has come; both as JSON."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Context, Inexact
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from slicing.aggregates.aggregate import Aggregate, Bound
from slicing.aggregates.fields import Field, members_of
from slicing.column_names import written
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.serving.packing import FORMAT
from slicing.windows.time.instants import microseconds_of

_EPOCH_DAY = dt.date(1970, 1, 1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class StoredResult:
    """A result: its path, the columns that it reads with their kinds, and the version and the fields of its partial.

    plain: the partial is a value, not a struct.
    """

    path: str
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    version: str
    partial: tuple[str, ...]
    plain: bool = False

    @classmethod
    def of(cls, path: str, bound: Bound, kinds: Sequence[str], aggregate: Aggregate) -> StoredResult:
        """Return what is stored of a result that was resolved for columns of these kinds."""
        columns = tuple(map(written, bound.inputs))
        fields = tuple(map(str, aggregate.fields))
        plain = len(fields) == 1 and not isinstance(aggregate.init(), tuple)
        return cls(path, columns, tuple(kinds), aggregate.identity, fields, plain)


@dataclass(frozen=True)
class Manifest:
    """The definition of a feature set: keys with their kinds, results, and the levels of its slices.

    `levels` are specs: the cut of the slices, then the edges of each tail. `windows` is their call, for messages.
    """

    keys: tuple[tuple[str, str], ...]
    results: tuple[StoredResult, ...]
    levels: tuple[Any, ...]
    windows: str
    format: int = FORMAT

    @cached_property
    def digest(self) -> str:
        """The digest of everything on which the stored rows depend."""
        told = {
            "format": self.format,
            "keys": self.keys,
            "levels": self.levels,
            "results": list(map(asdict, self.results)),
        }
        return sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def text(self) -> str:
        """Return this manifest as JSON, with its digest."""
        return json.dumps({**asdict(self), "digest": self.digest}, sort_keys=True)

    @classmethod
    def read(cls, text: str) -> Manifest:
        """Return a manifest from JSON. Raises InvalidValue for a format that this version does not know."""
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise InvalidValue(
                f"packed partials have format {FORMAT} here; those of the store have {found['format']}. Install the "
                "version of the package that wrote them."
            )
        results = tuple(
            StoredResult(**{**each, **{name: tuple(each[name]) for name in ("columns", "kinds", "partial")}})
            for each in found["results"]
        )
        keys = tuple((name, kind) for name, kind in found["keys"])
        return cls(keys, results, tuple(found["levels"]), found["windows"], found["format"])


NO_BATCH = -1
"""The number of the last micro-batch of a feature set that has none yet: its first rows are being written."""


class AsOf(NamedTuple):
    """The micro-batch that was written last, its watermark, and when it was written."""

    batch: int
    watermark: dt.datetime | None
    written: dt.datetime


@dataclass(frozen=True)
class Progress:
    """How far the stream has come: it is written after the rows of a micro-batch. Instants are in microseconds.

    watermark: None before the first one. written: when the micro-batch was written, by the clock. gone: for
        each level, the instant before which rows may have been removed. known_from: the instant before which the stream
        has not read all records. epochs: the number of each checkpoint that has written, by the id of its query.
        passed: the watermark of an older checkpoint up to which steps have rows, as long as this one is behind it.
        newest: the end of the newest slice that was written. windows: the spec of each window of the stream, and the
        instant from which on it has all records if a live change has added it, else None.
    """

    epoch: int
    batch: int
    written: int
    gone: tuple[int, ...]
    watermark: int | None = None
    known_from: int | None = None
    epochs: Mapping[str, int] = field(default_factory=dict)
    passed: int | None = None
    newest: int | None = None
    windows: tuple[tuple[Any, int | None], ...] = ()

    @cached_property
    def added(self) -> dict[str, int]:
        """The windows that live changes have added, by the texts of their specs, and from when on they are whole."""
        return {spec_text(spec): since for spec, since in self.windows if since is not None}

    def is_last(self, query_id: str) -> bool:
        """Whether a query is the last one that has written, and says up to where."""
        return self.newest is not None and self.epochs.get(query_id) == max(self.epochs.values())

    @cached_property
    def from_each(self) -> tuple[int, ...]:
        """The instant of each level from which on its rows are there, and have all records."""
        return tuple(max(each, self.known_from or each) for each in self.gone)

    @cached_property
    def as_of(self) -> AsOf:
        """The micro-batch, for answers."""
        return AsOf(self.batch, instant_or_none(self.watermark), instant_of(self.written))

    def text(self) -> str:
        """Return this progress as JSON."""
        told = {name: value for name, value in asdict(self).items() if name not in _ADDED or value not in (None, ())}
        return json.dumps(told, sort_keys=True)

    @classmethod
    def read(cls, text: str) -> Progress:
        """Return the progress of JSON."""
        found = json.loads(text)
        windows = tuple((spec, since) for spec, since in found.get("windows", ()))
        return cls(**{**found, "gone": tuple(found["gone"]), "windows": windows})


_ADDED = ("passed", "newest", "windows")
"""The fields that are left out without a value: earlier versions did not write them."""


def spec_text(spec: Any) -> str:
    """Return the spec of windows as a text that may be compared."""
    return json.dumps(spec, default=str)


def instant_of(microseconds: int) -> dt.datetime:
    """Return an instant, in UTC."""
    return _EPOCH + dt.timedelta(microseconds=microseconds)


def instant_or_none(microseconds: int | None) -> dt.datetime | None:
    """Return an instant, None for None."""
    return None if microseconds is None else instant_of(microseconds)


def key_text(key: Any, kinds: Sequence[tuple[str, str]]) -> str:
    """Return the text under which the rows of a key are stored: its values as a JSON array.

    Several key columns are a tuple. A struct is a dict, or a tuple of the values of its fields, which are stored as an
    array. Raises InvalidType for another number of values, or values of other types.

    >>> key_text(("ada", 7), [("card", "string"), ("shop", "bigint")])
    '["ada",7]'
    """
    values = key if len(kinds) != 1 and isinstance(key, (tuple, list)) else (key,)
    if not kinds and key in ((), None):
        values = ()
    if len(values) != len(kinds):
        named = ", ".join(name for name, _ in kinds)
        raise InvalidType(
            f"a key has a value for each of {named or 'no column'}; got {excerpt(key)}. Give a tuple of them."
        )
    told = [_told(value, *of) for value, of in zip(values, kinds, strict=True)]
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def _told(value: Any, name: str, kind: str) -> Any:
    if value is None:
        return None
    if fields := members_of(kind):
        inner = zip(_inner(value, name, fields), fields, strict=True)
        return [_told(each, f"{name}.{field.name}", field.kind) for each, field in inner]
    try:
        found = _TOLD.get(kind.partition("(")[0], _number)(value)
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        found = None
    if found is None:
        raise InvalidType(f"key column `{name}` is {kind}; got {excerpt(value)}. Give a value of this type.")
    return found


def _inner(value: Any, name: str, fields: Sequence[Field]) -> Sequence[Any]:
    """Return the values of the fields of a struct."""
    names = [field.name for field in fields]
    if isinstance(value, Mapping) and value.keys() == {*names}:
        return [value[each] for each in names]
    if isinstance(value, (tuple, list)) and len(value) == len(names):
        return value
    raise InvalidType(
        f"key column `{name}` is a struct of {', '.join(names)}; got {excerpt(value)}. Give a dict with these fields, "
        "or a tuple of their values."
    )


def _number(value: Any) -> int | None:
    return None if isinstance(value, bool) else int(value) if int(value) == value else None


def _double(value: Any) -> str | None:
    return None if isinstance(value, (bool, str)) else repr(float(value) + 0.0)


def _of(kind: type) -> Any:
    return lambda value: value if isinstance(value, kind) else None


_DIGITS = Context(prec=38, traps=[Inexact])
"""All digits of Spark's decimals; a value with more of them is no key."""

_TOLD: dict[str, Any] = {
    "string": _of(str),
    "boolean": _of(bool),
    "double": _double,
    "float": lambda value: _double(np.float32(value)) if _double(value) else None,
    "binary": lambda value: bytes(value).hex() if isinstance(value, (bytes, bytearray)) else None,
    "date": lambda value: (value - _EPOCH_DAY).days,
    "timestamp": lambda value: microseconds_of(value, "a key"),
    "timestamp_ntz": lambda value: microseconds_of(value.replace(tzinfo=dt.UTC), "a key"),
    "decimal": lambda value: format(_DIGITS.create_decimal(value).normalize(_DIGITS), "f"),
}
