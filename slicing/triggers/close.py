"""`on_close()`: every window fires once, when it closes; `early(final=True)`: also when bounded input ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.trigger import CLOSING, FINAL, Engine, Firing, Trigger


@dataclass(frozen=True)
class OnClose(Trigger):
    """Fires each window once, at the watermark `end + grace`."""

    asks = frozenset({CLOSING})
    meaning = "every window once, when it closes"
    fires_once = True

    def on_close(self, engine: Engine) -> Iterator[Firing]:
        """Fire the windows that close."""
        yield FINAL, engine.closing().results()

    def __repr__(self) -> str:
        return "on_close()"


@dataclass(frozen=True)
class OnCloseAndEnd(OnClose):
    """As `OnClose`; also fires the count windows that bounded input ends before they are full."""

    fires_short = True

    def __repr__(self) -> str:
        return "early(final=True)"
