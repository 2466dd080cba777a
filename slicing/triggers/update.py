"""`on_update()`: fire the open windows with new records in every micro-batch, or the latest one of each key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.trigger import NEWEST, TOUCHED, Engine, Firing, MicroBatchTime, Trigger


@dataclass(frozen=True)
class OnUpdate(Trigger):
    """Fires open windows with new records in each micro-batch. A window does not fire again when it closes."""

    asks = frozenset({TOUCHED})
    meaning = "in every micro-batch the open windows that got a record"

    def on_records(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the open windows that hold a new record."""
        yield "update", engine.touched().results()

    def __repr__(self) -> str:
        return "on_update()"


@dataclass(frozen=True)
class OnUpdateLatest(Trigger):
    """Fires at most one window per key and micro-batch: "the last hour, as of now"."""

    asks = frozenset({NEWEST})
    meaning = "in every micro-batch the newest window of each key that got a record"

    def on_records(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the latest windows."""
        yield "update", engine.newest().results()

    def __repr__(self) -> str:
        return "on_update(latest_only=True)"
