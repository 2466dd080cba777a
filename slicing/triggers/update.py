"""`on_update()`: in every micro-batch the open windows that got a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.trigger import TOUCHED, Engine, Firing, Trigger


@dataclass(frozen=True)
class OnUpdate(Trigger):
    """The results so far, in each micro-batch; nothing more when a window closes."""

    asks = frozenset({TOUCHED})
    meaning = "in every micro-batch the open windows that got a record"

    def on_records(self, engine: Engine) -> Iterator[Firing]:
        """The windows that hold a new record."""
        yield "update", engine.touched().results()

    def __repr__(self) -> str:
        return "on_update()"
