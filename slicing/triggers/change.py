"""`on_change()`: fire closed windows whose result differs from that of the previous window of the key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.trigger import CHANGED, FINAL, Engine, Firing, MicroBatchTime, Trigger


@dataclass(frozen=True)
class OnChange(Trigger):
    """Fires closed windows with a changed result; with `drained` also the first empty window.

    A row holds until the next row of its key.
    """

    drained: bool = False

    asks = frozenset({CHANGED})

    @property
    def tombstones(self) -> bool:  # type: ignore[override]
        """Whether empty windows fire."""
        return self.drained

    @property
    def meaning(self) -> str:  # type: ignore[override]
        """Return which windows fire, and when, in one line."""
        more = ", empty ones included" if self.drained else ""
        return f"closed windows whose result differs from the one before{more}"

    def on_close(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the closing windows whose result differs from the previous one."""
        yield FINAL, engine.changed(self.drained).results()

    def __repr__(self) -> str:
        return "on_change(drained=True)" if self.drained else "on_change()"
