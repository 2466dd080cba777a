"""`early(records=)`: fire after every `records` new records of a key, and when the window closes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicing.triggers.trigger import CLOSING, FINAL, PER_KEY, WAITING, Engine, Firing, MicroBatchTime, Trigger


@dataclass(frozen=True)
class EarlyByCount(Trigger):
    """Fires the open windows with new records of every key that has `count` records since the last firing."""

    count: int

    asks = frozenset({CLOSING, WAITING, PER_KEY})
    meaning = "the open windows of a key after so many records, then each when it closes"
    fires_short = True

    def on_close(self, engine: Engine) -> Iterator[Firing]:
        """Fire the windows that close."""
        yield FINAL, engine.closing().results()

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the windows of keys with enough records."""
        yield "early", engine.waiting.ready(self._enough).results()

    def _enough(self, waiting: Any) -> Any:
        counts = np.bincount(waiting.keys, weights=waiting.records, minlength=len(waiting.names))
        return (counts >= self.count)[waiting.keys]

    def __repr__(self) -> str:
        return f"early(records={self.count})"
