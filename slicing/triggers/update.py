"""`on_update()`: fire the open windows with new records in every micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.trigger import TOUCHED, Engine, Firing, Trigger


@dataclass(frozen=True)
class OnUpdate(Trigger):
    """Fires open windows with new records in each micro-batch. A window does not fire again when it closes."""

    asks = frozenset({TOUCHED})
    meaning = "in every micro-batch the open windows that got a record"

    def on_records(self, engine: Engine) -> Iterator[Firing]:
        """Fire the open windows that hold a new record."""
        yield "update", engine.touched().results()

    def __repr__(self) -> str:
        return "on_update()"
