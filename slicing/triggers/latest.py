"""`on_update(latest_only=True)`: in every micro-batch the newest window of each key that got a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.trigger import NEWEST, Engine, Firing, Trigger


@dataclass(frozen=True)
class OnUpdateLatest(Trigger):
    """At most one row for each key and micro-batch: "the last hour, as of now"."""

    asks = frozenset({NEWEST})
    meaning = "in every micro-batch the newest window of each key that got a record"

    def on_records(self, engine: Engine) -> Iterator[Firing]:
        """The newest windows."""
        yield "update", engine.newest().results()

    def __repr__(self) -> str:
        return "on_update(latest_only=True)"
