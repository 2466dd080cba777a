"""`early(...)` with several conditions: a pair fires by the first one that is true, and all of them start anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.memory import NEVER
from slicing.triggers.by_signal import BySignal
from slicing.triggers.candidates import OF_CONDITIONS, Candidates, Memory, OpenPairs
from slicing.triggers.condition import Condition
from slicing.triggers.panes import Panes
from slicing.triggers.trigger import CLOSING, FINAL, PAIRS, Engine, Firing, MicroBatchTime, Trigger


@dataclass(frozen=True)
class Early(Trigger):
    """Open pairs of which one of `conditions` is true, if they got a record since their last firing or it may `repeat`.

    With `final` each window fires when it closes, too.
    """

    conditions: tuple[Condition, ...]
    final: bool = True
    repeat: bool = False

    @property
    def asks(self) -> frozenset[str]:  # type: ignore[override]
        """Open pairs, and those that close if they fire then."""
        own = {PAIRS, CLOSING} if self.final else {PAIRS}
        return frozenset(own).union(*(each.asks for each in self.conditions))

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals that its conditions ask for."""
        return tuple(each.signal for each in self.conditions if each.signal)

    @property
    def column(self) -> Any:
        """The column of `when`."""
        return next((each.column for each in self.conditions if isinstance(each, BySignal)), None)

    def named(self, column: str) -> Early:
        """The same with the column of `when` by name."""
        return replace(
            self, conditions=tuple(BySignal(column) if isinstance(each, BySignal) else each for each in self.conditions)
        )

    @property
    def by_clock(self) -> bool:  # type: ignore[override]
        """Whether a condition goes by the clock."""
        return any(each.interval for each in self.conditions)

    @property
    def meaning(self) -> str:  # type: ignore[override]
        """What is emitted, in one line."""
        news = "" if self.repeat else " that got a record"
        more = ", then each when it closes" if self.final else ""
        return f"the open windows{news} when {' or '.join(each.meaning for each in self.conditions)}{more}"

    @property
    def remembers(self) -> bool:
        """Whether a firing, or a record, has to be remembered of each pair."""
        return len(self.conditions) > 1 or any(each.remembers for each in self.conditions)

    def clock(self, last: int, now: int) -> int:
        """As `EarlyByClock` has it, by the longest interval."""
        longest = max(each.interval for each in self.conditions)
        return now if longest and now + longest < last else max(last, now)

    def on_close(self, engine: Engine) -> Iterator[Firing]:
        """The windows that close."""
        if self.final:
            yield FINAL, engine.closing().results()

    def on_history(self, engine: Engine, at: MicroBatchTime) -> None:
        """Count the records of a history, and let its windows wait from its load on."""
        for some in self._pairs(engine).candidates(everything=True):
            if some.memory is not None:
                some.remember(self._begun(some, at))

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """The open windows of which a condition is true."""
        pairs = self._pairs(engine)
        passed = [each.passes(engine.head, at) for each in self.conditions]
        since = pairs.since
        everything = any(passed) or any(each.wakes(since, at) for each in self.conditions)
        for some in pairs.candidates(everything):
            yield "early", self._fired(some, passed, at).results()

    def _pairs(self, engine: Engine) -> OpenPairs:
        return engine.pairs(
            OF_CONDITIONS if self.remembers else None, any(each.counts_keys for each in self.conditions)
        )

    def _fired(self, some: Candidates, passed: Sequence[bool], at: MicroBatchTime) -> Panes:
        memory = self._begun(some, at)
        news = some.held > memory.fired
        due = [self._due(*each, some, memory, at) for each in zip(self.conditions, passed, strict=True)]
        fires = np.logical_or.reduce(due) & (news | self.repeat)
        counted = memory.counted
        for each, is_due in zip(self.conditions, due, strict=True):
            counted = np.where(fires & is_due, np.maximum(counted, each.counted(some.held, memory.counted)), counted)
        if some.memory is not None:
            some.remember(
                Memory(np.where(fires, some.held, memory.fired), counted, np.where(fires | ~news, NEVER, memory.since))
            )
        for each, own in zip(self.conditions, due, strict=True):
            if each.counts_keys:
                others = np.logical_or.reduce([other for other in due if other is not own] or [np.zeros_like(own)])
                assert some.of_key is not None, "it has been asked for"
                some.count_from(each.left(some.of_key, fires & own, fires & others))
        return some.panes(fires)

    def _due(self, condition: Condition, passed: bool, some: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        return np.ones(len(some), dtype=bool) if passed else condition.due(some, memory, at)

    def _begun(self, some: Candidates, at: MicroBatchTime) -> Memory:
        """What is remembered, from now on also of the pairs that got their first record since the last firing.

        Where nothing is remembered there is one condition: of the new records alone, or a count of records, and a pair
        has fired with all multiples before.
        """
        if some.memory is None:
            (only,) = self.conditions
            return Memory(some.before, only.counted(some.before, np.zeros_like(some.before)), some.before)
        memory, now = some.memory, at.clock // 1000
        begins = next((found for each in self.conditions if (found := each.begins(some, at)) is not None), None)
        if begins is None:
            since = np.where(memory.since == NEVER, now, np.minimum(memory.since, now))
        else:
            since = np.where(memory.since == NEVER, begins, memory.since)
        return Memory(memory.fired, memory.counted, np.where(some.held > memory.fired, since, NEVER))

    def __repr__(self) -> str:
        options: dict[str, Any] = {"final": self.final, "repeat": self.repeat}
        said = [
            f"{name}={value}"
            for name, value in options.items()
            if value is not Early.__dataclass_fields__[name].default
        ]
        return f"early({', '.join([*map(repr, self.conditions), *said])})"
