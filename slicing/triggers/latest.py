"""`on_update(latest_only=True)`: fire the latest window of each key with new records in every micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.trigger import NEWEST, Engine, Firing, Trigger


@dataclass(frozen=True)
class OnUpdateLatest(Trigger):
    """Fires at most one window per key and micro-batch: "the last hour, as of now"."""

    asks = frozenset({NEWEST})
    meaning = "in every micro-batch the newest window of each key that got a record"

    def on_records(self, engine: Engine) -> Iterator[Firing]:
        """Fire the latest windows."""
        yield "update", engine.newest().results()

    def __repr__(self) -> str:
        return "on_update(latest_only=True)"
