"""`early(...)`: the first true condition fires a pair, and all conditions then restart.

A single condition that needs no record counts chooses from the dirty set, and no counts are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.memory import NEVER, Remembered
from slicing.triggers.buffer import Buffer
from slicing.triggers.candidates import OF_CONDITIONS, Candidates, Memory, OpenPairs
from slicing.triggers.condition import Condition, OfColumn
from slicing.triggers.trigger import (
    CLOSING,
    EARLY,
    EARLY_KINDS,
    FINAL,
    PAIRS,
    PURGED,
    WAITING,
    Engine,
    Firing,
    MicroBatchTime,
    Trigger,
)

_NAME = "early()"
"""The stored name of the trigger. No class of a user has this name."""


@dataclass(frozen=True)
class Early(Trigger):
    """Fires the open pairs with new records for which one of `conditions` is true.

    With `repeat` pairs without new records since their last firing fire, too. With `final` each window also fires when
    it closes. With `purge` the records of a firing are dropped. A `buffer` limits the number of waiting pairs.
    """

    conditions: tuple[Condition, ...]
    final: bool = True
    repeat: bool = False
    purge: bool = False
    buffer: Buffer | None = None

    def __post_init__(self) -> None:
        for one, other in combinations(self.conditions, 2):
            one.check_besides(other)

    @property
    def asks(self) -> frozenset[str]:  # type: ignore[override]
        """Ask for open or waiting pairs, for closing ones with `final`, and for everything that the conditions ask."""
        own = {WAITING: bool(self._waits), PAIRS: not self._waits, CLOSING: self.final, PURGED: self.purge}
        asked = (question for question, is_asked in own.items() if is_asked)
        return frozenset(asked).union(*(each.asks for each in self.conditions))

    @property
    def _waits(self) -> str:
        """Return which windows fire out of the dirty set; empty if open pairs are asked for."""
        takes_more = len(self.conditions) > 1 or self.repeat or self.purge or self.buffer is not None
        return "" if takes_more or not self.final else self.conditions[0].alone

    @property
    def signals(self) -> tuple[str, ...]:
        """Return the signals that the conditions need."""
        return tuple(dict.fromkeys(signal for each in self.conditions for signal in each.signals))

    def drops(self, kind: str) -> bool:
        """Whether each firing of a kind drops the records of its window."""
        return self.purge and kind in EARLY_KINDS

    @property
    def reads(self) -> Mapping[str, Any]:
        """Return the columns of the conditions, by signal."""
        readers = (each for each in self.conditions if isinstance(each, OfColumn))
        return {signal: each.column for each in readers for signal in each.signals}

    def reading(self, named: Callable[[str, str, Any], str]) -> Early:
        """Return the same trigger, with the columns given by name."""
        conditions = (
            replace(each, column=named(each.name, each.signals[0], each.column)) if isinstance(each, OfColumn) else each
            for each in self.conditions
        )
        return replace(self, conditions=tuple(conditions))

    def check_room(self, size: int, keeps_records: bool) -> None:
        """Raise InvalidValue if its buffer has no room for a pair."""
        if self.buffer is not None:
            self.buffer.check_room(size, keeps_records)

    @property
    def by_clock(self) -> bool:  # type: ignore[override]
        """Whether a condition depends on the clock."""
        return any(each.interval for each in self.conditions)

    @property
    def fires_short(self) -> bool:  # type: ignore[override]
        """Whether a count window that bounded input ends before it is full fires: with `final`."""
        return self.final

    @property
    def reads_clock(self) -> bool:  # type: ignore[override]
        """Whether it ranks the waiting pairs of a buffer, by the clock at which they began to wait."""
        return self.buffer is not None

    @property
    def meaning(self) -> str:  # type: ignore[override]
        """Return which windows fire, and when, in one line."""
        if self._waits:
            return f"{self._waits}, then each when it closes"
        news = "" if self.repeat else " that got a record"
        more = ", and drops their records" if self.purge else ""
        more += ", then each when it closes" if self.final else ""
        more += ", or when they close" if self._reports_all else ""
        more += f"; {self.buffer.meaning}" if self.buffer is not None else ""
        return f"the open windows{news} when {' or '.join(each.meaning for each in self.conditions)}{more}"

    @property
    def remembers(self) -> bool:
        """Whether the state must have a memory of each pair, of its last firing or of its records."""
        asks_more = self.purge or self.buffer is not None or len(self.conditions) > 1
        return not self._waits and (asks_more or any(each.remembers for each in self.conditions))

    def clock(self, last: int, now: int) -> int:
        """Return the clock of a micro-batch in microseconds: it may step back only by more than the longest interval.

        A larger step means that the clock was wrong before; without it, ticks would pause for that long. After a
        smaller step the last clock is kept, or a tick would fire twice.
        """
        longest = max(each.interval for each in self.conditions)
        return now if longest and now + longest < last else max(last, now)

    @property
    def _reports_all(self) -> bool:
        """Whether a closing window fires early once more if it has records that no firing has contained."""
        return not self.final and any(each.outlasts for each in self.conditions)

    @property
    def remembered(self) -> Remembered | None:
        """Return the kind of memory of pairs, None if there is none."""
        of = next((each.memory for each in self.conditions if each.memory is not OF_CONDITIONS), OF_CONDITIONS)
        return of if self.remembers else None

    @cached_property
    def stored(self) -> list[str]:
        """Return the fields of the memory for the header, named by what they mean; empty if there is none."""
        meanings = {name: meaning for each in self.conditions for name, meaning in each.meanings.items()}
        fields = self.remembered.kernel.fields if self.remembered else ()
        return [_NAME, *(f"{meanings.get(field.name, field.name)} {field.kind}" for field in fields)] if fields else []

    def on_records(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Without `final`, fire the windows that are about to close, for their new records or their last ones.

        New records make a condition true before the watermark of their micro-batch closes the window. The last records
        are those that no firing has contained while the window waits for a condition that outlasts it.
        """
        if self.final or not (self._reports_all or any(each.by_record for each in self.conditions)):
            return
        everything = self._reports_all or any(each.without_news for each in self.conditions)
        for some in self._known(engine, engine.closing_pairs(self.remembered, everything)):
            yield from self._firings(some, self._fires_closing(some, at), at)

    def _fires_closing(self, some: Candidates, at: MicroBatchTime) -> Array:
        """Return which pairs fire out of those that are about to close: `bool[n]`."""
        memory = self._started(some, at)
        news, has_new = some.held > memory.fired, some.held > some.before
        due = [
            each.due(some, memory, at) & self._wanted(each, news if each.without_news else has_new)
            for each in self.conditions
            if each.by_record
        ]
        fires: Array = np.logical_or.reduce([np.zeros(len(some), dtype=bool), *due])
        return fires | news if self._reports_all else fires

    def on_close(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the windows that close, if `final`."""
        if self.final:
            yield FINAL, engine.closing().results()

    def on_history(self, engine: Engine, at: MicroBatchTime) -> None:
        """Store the record counts of a loaded history. Its windows wait from the time of loading on."""
        if self._waits:
            return super().on_history(engine, at)
        for some in self._pairs(engine).candidates(everything=True):
            if some.memory is not None:
                some.remember(self._started(some, at))

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the open windows for which a condition is true."""
        if self._waits:
            yield "early", self.conditions[0].of_waiting(engine.waiting, at).results()
            return
        pairs = self._pairs(engine)
        passed = [each.passes(at) for each in self.conditions]
        if self.buffer is not None:
            yield from self._bounded(self.buffer, engine, list(self._known(engine, pairs.candidates(True))), passed, at)
            return
        everything = engine.has_new_trigger or any(passed) or any(each.wakes(pairs, at) for each in self.conditions)
        for some in self._known(engine, pairs.candidates(everything)):
            yield from self._apply(self._decide(some, passed, at), at)

    def _bounded(
        self, buffer: Buffer, engine: Engine, some: Sequence[Candidates], passed: Sequence[bool], at: MicroBatchTime
    ) -> Iterator[Firing]:
        """Fire likewise, and also the oldest waiting pairs that exceed the buffer."""
        if not some:
            return
        decisions = [self._decide(each, passed, at) for each in some]
        waits, since = [each.news & ~each.fires for each in decisions], [each.memory.since for each in decisions]
        for each, others in zip(decisions, buffer.overflow(some, waits, since, engine.pair_bytes), strict=True):
            yield from self._apply(each.with_others(others), at)

    def _pairs(self, engine: Engine) -> OpenPairs:
        return engine.pairs(self.remembered, any(each.counts_keys for each in self.conditions))

    def _known(self, engine: Engine, pairs: Iterable[Candidates]) -> Iterator[Candidates]:
        """Yield pairs, of which those that another trigger did not remember are counted.

        Otherwise they would fire without a new record, a second time if that trigger fired them.
        """
        for some in pairs:
            memory = some.memory
            if memory is not None and engine.has_new_trigger:
                unknown = (memory.since == NEVER) & (memory.counted == 0) & (memory.fired == 0)
                counted = np.where(unknown, self._multiples(some.before), memory.counted)
                some = replace(some, memory=replace(memory, counted=counted))
            yield some

    def _multiples(self, held: Array) -> Array:
        """Return the count origin of pairs that have fired at every multiple of `records` so far: `int64[n]`."""
        counted: Array = np.min([each.counted(held, np.zeros_like(held)) for each in self.conditions], axis=0)
        return counted

    def _decide(self, some: Candidates, passed: Sequence[bool], at: MicroBatchTime) -> _Decision:
        memory = self._started(some, at)
        news = some.held > memory.fired
        due = [self._due(*each, some, memory, at) for each in zip(self.conditions, passed, strict=True)]
        wanted = [self._wanted(each, news | self.repeat) for each in self.conditions]
        fires = np.logical_or.reduce([is_due & some for is_due, some in zip(due, wanted, strict=True)])
        return _Decision(some, memory, news, due, fires)

    def _wanted(self, condition: Condition, news: Array) -> Array:
        """Return which pairs may fire by a condition, given those with news: after a purge others have no records."""
        wanted: Array = news | (condition.without_news and not self.purge)
        return wanted

    def _apply(self, decision: _Decision, at: MicroBatchTime) -> Iterator[Firing]:
        """Store the new memory of the pairs, and yield the firings."""
        some, memory, fires, due = decision.pairs, decision.memory, decision.fires, decision.due
        counted = np.where(fires & decision.others, some.held, memory.counted)
        for each, is_due in zip(self.conditions, due, strict=True):
            counted = np.where(fires & is_due, np.maximum(counted, each.counted(some.held, memory.counted)), counted)
        if some.memory is not None:
            left = some.purge(fires) if self.purge else some.held
            since, fired = np.where(fires | ~decision.news, NEVER, memory.since), np.where(fires, left, memory.fired)
            memory = replace(memory, fired=fired, counted=counted - (some.held - left), since=since)
            for each, own in zip(self.conditions, due, strict=True):
                memory = each.noted(some, memory, fires & own, fires & decision.besides(own))
            some.remember(memory)
        for each, own in zip(self.conditions, due, strict=True):
            if each.counts_keys:
                assert some.of_key is not None, "it has been asked for"
                some.count_from(each.left(some.of_key, fires & own, fires & decision.besides(own)))
        return self._firings(some, fires, at)

    def _firings(self, some: Candidates, fires: Array, at: MicroBatchTime) -> Iterator[Firing]:
        """Yield the pairs that fire, by the kinds that a condition tells apart."""
        kinds = next((found for each in self.conditions if (found := each.kinds(some, at)) is not None), None)
        for kind, of_kind in (kinds or {EARLY: fires}).items():
            yield kind, some.panes(fires & of_kind).results()

    def _due(self, condition: Condition, passed: bool, some: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        return np.ones(len(some), dtype=bool) if passed else condition.due(some, memory, at)

    def _started(self, some: Candidates, at: MicroBatchTime) -> Memory:
        """Return the memory of pairs, in which pairs with a first record since the last firing begin to wait.

        Without a stored memory there is a single condition. It depends only on the new records, or it counts records:
        a pair has then fired at every multiple of the count before.
        """
        if some.memory is None:
            return Memory(some.before, self._multiples(some.before), some.before)
        memory, now = self._of_what_is_left(some), at.clock // 1000
        begins = next((found for each in self.conditions if (found := each.begins(some, at)) is not None), None)
        if begins is None:
            since = np.where(memory.since == NEVER, now, np.minimum(memory.since, now))
        else:
            since = np.where(memory.since == NEVER, begins, memory.since)
        return replace(memory, since=np.where(some.held > memory.fired, since, NEVER))

    def _of_what_is_left(self, some: Candidates) -> Memory:
        """Return the memory of pairs, limited to the records they still have.

        A pair may have lost records to another one, where a record has ended its session or moved its start.
        """
        memory: Memory = some.memory
        fired, counted = (np.minimum(count, some.before) for count in (memory.fired, memory.counted))
        return replace(memory, fired=fired, counted=counted)

    def __repr__(self) -> str:
        options: dict[str, Any] = {"final": self.final, "repeat": self.repeat, "purge": self.purge}
        options["buffer"] = self.buffer
        said = [
            f"{name}={value}"
            for name, value in options.items()
            if value is not Early.__dataclass_fields__[name].default
        ]
        return f"early({', '.join([*map(repr, self.conditions), *said])})"


@dataclass(frozen=True)
class _Decision:
    """The decision about some pairs: `bool[n]` each.

    `news` says which pairs have new records, `due` for which pairs each condition is true, `fires` which pairs fire,
    and `others` which of these fire without a condition.
    """

    pairs: Candidates
    memory: Memory
    news: Array
    due: list[Array]
    fires: Array
    others: Array | bool = False

    def with_others(self, others: Array) -> _Decision:
        """Return the decision with additional pairs that fire without a condition."""
        return replace(self, fires=self.fires | others, others=others)

    def besides(self, own: Array) -> Array:
        """Return where another condition than `own` is true, or a pair fires without a condition: `bool[n]`."""
        others = [other for other in self.due if other is not own]
        found: Array = np.logical_or.reduce([*others, np.broadcast_to(self.others, own.shape)])
        return found
