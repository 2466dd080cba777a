"""`on_change()`: closed windows whose result is not that of the window before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.trigger import CHANGED, FINAL, Engine, Firing, Trigger


@dataclass(frozen=True)
class OnChange(Trigger):
    """A row holds until the next row of its key; with `drained` the first empty window is emitted too."""

    drained: bool = False

    asks = frozenset({CHANGED})

    @property
    def tombstones(self) -> bool:  # type: ignore[override]
        """Whether empty windows fire."""
        return self.drained

    @property
    def meaning(self) -> str:  # type: ignore[override]
        """What is emitted, in one line."""
        more = ", empty ones included" if self.drained else ""
        return f"closed windows whose result differs from the one before{more}"

    def on_close(self, engine: Engine) -> Iterator[Firing]:
        """The windows that close with another result."""
        yield FINAL, engine.changed(self.drained).results()

    def __repr__(self) -> str:
        return "on_change(drained=True)" if self.drained else "on_change()"
