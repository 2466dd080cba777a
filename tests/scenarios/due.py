"""What fires early, from raw records: which keys, or which windows of keys, and whose records are dropped then.

There is a class for each trigger that fires early. It remembers of records what it needs, and knows nothing of slices.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from slicing.content.signals import NUMBER
from slicing.triggers.by_delay import ByDelay, ByEventDelay
from slicing.triggers.by_delta import ByDelta
from slicing.triggers.by_end import ByEnd
from slicing.triggers.by_interval import CLOCK, ByInterval
from slicing.triggers.by_records import ByRecords, ByRecordsOfKey, ByWaitingRecords
from slicing.triggers.by_signal import BySignal
from slicing.triggers.early import Early
from slicing.triggers.trigger import WAITING

from .kind import Place, Record, marked


class Due:
    """Of keys whose open windows fire together."""

    def __init__(self, trigger):
        self.trigger, self.tick = trigger, None

    def early(self, parts):
        """Of each part, the windows (key, place) that fire, and those whose records are dropped."""
        keys = self.keys(parts)
        return [(list(part.woken(keys)), ()) for part in parts]

    def keys(self, parts):
        """Those of all kinds of a call together: a record waits once, however many kinds it is in."""
        waiting = defaultdict(set)
        for part in parts:
            for key, held in part.waiting.items():
                waiting[key] |= held
        return {key for key, held in waiting.items() if held and self.is_due(len(held), parts[0].now)}

    def is_due(self, count, now):
        return count >= self.trigger.conditions[0].count


class Ticks(Due):
    """All of them when the clock has ticked since the micro-batch before."""

    def keys(self, parts):
        tick, last = 1000 * parts[0].now // self.trigger.conditions[0].microseconds, self.tick
        self.tick, self.ticks = tick, last is not None and tick > last
        return super().keys(parts)

    def is_due(self, count, now):
        return self.ticks


class Pair(NamedTuple):
    """A window of a key; `part` is its place among the kinds of a call that have rows of their own."""

    part: int
    key: Any
    place: Place


class MicroBatch(NamedTuple):
    """A micro-batch: its clock in milliseconds, its watermark, and the keys of the records that it brings, by number.

    `passed` is the watermark of the micro-batch before.

    `there` are the keys that had records for open windows before, `instant` the time of a record as its windows see it.
    """

    now: int
    watermark: int
    new: dict[int, Any]
    there: set
    instant: Callable = lambda record: record.time
    passed: int = 0


class Pairs(Due):
    """Of windows of keys; the trigger is asked about each."""

    merges = False  # windows merge, so that what is known of a record is known in any window

    def early(self, parts):
        self.parts, self.merges = parts, parts[0].kind.grows
        pairs = {Pair(at, *pair): held for at, part in enumerate(parts) for pair, held in part.open().items()}
        new = {r.number: r.key for part in parts for r in part.came()}
        there = {key for part in parts for key in part.windows if part.was_there(key)}
        kind = parts[0].kind
        batch = MicroBatch(parts[0].now, parts[0].watermark, new, there, kind.instant, parts[0].passed)
        found = self.chosen(pairs, batch)
        return [tuple([pair[1:] for pair in some if pair.part == at] for some in found) for at in range(len(parts))]

    def chosen(self, pairs, batch):
        """Of open windows, with their records, those that fire, and those whose records are dropped."""
        raise NotImplementedError

    def left(self, pair, held):
        """The records of a window that no firing has dropped."""
        part = self.parts[pair.part]
        return [record for record in held if part.mark(*pair[1:], record) not in part.dropped]

    def mark(self, pair, record):
        """What tells a record in a window from all others."""
        return record.number if self.merges else (pair, record.number)


@dataclass
class Known:
    """What is known of a record in a window: the clock at which it came, and what has become of it since."""

    came: int | None  # None if another trigger did not tell: then the clock of its first micro-batch
    fired: bool = False  # whether a firing had it
    counted: bool = False  # whether it has been counted for a firing
    since: int | None = None  # from which event time on the window waits
    is_older: bool = False  # whether another trigger knew it by another time


class Window(NamedTuple):
    """A window of a key, its records in the order in which they came, and what is known of each."""

    pair: Pair
    records: Sequence[Record]
    known: Sequence[Known]

    @property
    def fresh(self):
        """The records that no firing had."""
        return [each for each in zip(self.records, self.known, strict=True) if not each[1].fired]


TRUE = {}
"""By type of condition: whether it is true of a window in a micro-batch."""


def true_of(condition):
    """Put the decorated method of `Conditions` in `TRUE`."""
    return lambda method: TRUE.setdefault(condition, method)


class Conditions(Pairs):
    """Of `early(...)`: the first condition that is true lets a window fire, and all of them begin anew."""

    def __init__(self, trigger):
        super().__init__(trigger)
        self.known = {}  # of records in windows
        self.compared, self.newest = {}, {}  # by pair, the value that others are compared with, and the newest one
        self.before, self.there = set(), set()  # the open pairs of the micro-batch before, and of this one
        self.of_key, self.last = Counter(), None  # records of each key since counting began; the last micro-batch
        self.begins, self.counts = True, True  # whether this is the first micro-batch, and counts older records

    def change(self, trigger):
        """Go on under other conditions that know firings, too: what is of another time or column begins anew."""
        before, self.trigger = self.trigger, trigger
        for known in self.known.values() if waits_by_event(before) != waits_by_event(trigger) else ():
            known.came, known.since, known.is_older = None, None, True
        if before.reads.get(NUMBER) != trigger.reads.get(NUMBER):
            self.compared, self.newest = {}, {}

    def early(self, parts):
        """Windows that close without a final firing fire by their new records, or if they would wait for longer."""
        found = super().early(parts)
        if self.trigger.final:
            return found
        last = [
            [pair for pair, held in part.closing().items() if self.is_last(self.window(Pair(at, *pair), held))]
            for at, part in enumerate(parts)
        ]
        return [(fires + more, drops) for (fires, drops), more in zip(found, last, strict=True)]

    def is_last(self, window):
        """Whether a window that closes fires before that."""
        conditions = self.trigger.conditions
        due = [self.is_true(each, window) for each in conditions if each.by_record]
        return any(due) or (any(each.outlasts for each in conditions) and bool(window.fresh))

    def chosen(self, pairs, batch):
        self.batch, self.before, self.there, self.begins = batch, self.there, {*pairs}, self.last is None
        self.of_key = Counter({key: count for key, count in self.of_key.items() if key in batch.there})
        self.of_key.update(batch.new.values())
        self.has_passed = any(self.passes(each) for each in self.trigger.conditions if isinstance(each, ByInterval))
        windows = [self.window(pair, held) for pair, held in pairs.items()]
        due = {each.pair: [one for one in self.trigger.conditions if self.is_true(one, each)] for each in windows}
        fires = [each for each in windows if due[each.pair] and (each.fresh or self.fires_again(due[each.pair]))]
        fires += self.crowded([each for each in windows if each.fresh and not due[each.pair]])
        self.fire(fires, due)
        self.last = batch
        found = {each.pair for each in fires}
        return found, found if self.trigger.purge else ()

    def window(self, pair, held):
        records = sorted(held, key=lambda record: record.number)
        known = [self.known.setdefault(self.mark(pair, record), Known(self.batch.now)) for record in records]
        for each in known:
            each.came = self.batch.now if each.came is None else each.came
        window = Window(pair, records, known)
        if self.begins:
            self.begin(window)
        return window

    def begin(self, window):
        """Begin with a window of which another trigger has counted no record: it has fired at the last multiple."""
        there = self.merges or window.pair.place in self.parts[window.pair.part].before.get(window.pair.key, ())
        both = zip(window.records, window.known, strict=True)
        older = [each for record, each in both if there and record.number not in self.batch.new]
        counts = [each.count for each in self.trigger.conditions if isinstance(each, ByRecords)]
        for at, each in enumerate(older):
            each.is_older, each.fired = True, not self.counts
            each.counted = not self.counts or any(at < len(older) // count * count for count in counts)

    def fires_again(self, due):
        """Whether a window fires without a record that no firing had."""
        return self.trigger.repeat or (any(isinstance(each, ByEnd) for each in due) and not self.trigger.purge)

    # --- conditions ---

    def is_true(self, condition, window):
        return TRUE[type(condition)](self, condition, window)

    def passes(self, condition):
        """Whether a multiple has passed; by event time once the watermark is behind it."""
        if condition.by == CLOCK:
            last, now = (1000 * (each or self.batch).now for each in (self.last, self.batch))
        else:
            last, now = (max(0, watermark - 1) for watermark in (self.batch.passed, self.batch.watermark))
        return now // condition.microseconds > last // condition.microseconds

    @true_of(ByRecords)
    def by_records(self, condition, window):
        return sum(not each.counted for each in window.known) >= condition.count

    @true_of(ByRecordsOfKey)
    def by_records_of_key(self, condition, window):
        return self.of_key[window.pair.key] >= condition.count

    @true_of(ByInterval)
    def by_interval(self, condition, window):
        return self.has_passed

    @true_of(ByDelay)
    def by_delay(self, condition, window):
        return any(1000 * (self.batch.now - each.came) >= condition.microseconds for _, each in window.fresh)

    @true_of(ByEventDelay)
    def by_event_delay(self, condition, window):
        """The first records of all are those of the micro-batch in which the window began to wait.

        A window that waits by the clock does so from the watermark of the change on, if it has no new record then.
        """
        since = min([each.since for _, each in window.fresh if each.since is not None], default=None)
        if since is None:
            new = [self.batch.instant(record) for record, known in window.fresh if not known.is_older]
            since = min(new, default=self.batch.watermark if window.fresh else None)
        for _, each in window.fresh:
            each.since = since
        return since is not None and since + condition.microseconds <= self.batch.watermark

    @true_of(BySignal)
    def by_signal(self, condition, window):
        return any(record.number in self.batch.new and marked(record) for record in window.records)

    @true_of(ByDelta)
    def by_delta(self, condition, window):
        """Whether a new value is far from that of the last firing, which is the last one that is; null is left out."""
        found = False
        for record in window.records:
            if record.number in self.batch.new and record.value is not None:
                self.newest[window.pair] = record.value
                far = abs(record.value - self.compared.setdefault(window.pair, record.value)) > condition.threshold
                self.compared[window.pair] = record.value if far else self.compared[window.pair]
                found |= far
        return found

    @true_of(ByEnd)
    def by_end(self, condition, window):
        """Whether a window ends now, or has ended before and has a new record, which then is late.

        It may also be there because of a late record that it does not hold, as sessions are whose start or end such a
        record has moved. A window that a live change has added after its end fires with the records of before when it
        closes, or with the next one.
        """
        kind = self.parts[window.pair.part].kind
        end = window.pair.place.end + kind.window.family.closed_right
        ends = self.batch.passed < end <= self.batch.watermark
        is_new = window.pair not in self.before and (kind.grows or not (kind.separate and window.records))
        is_late = is_new or any(record.number in self.batch.new for record, _ in window.fresh)
        return ends or (condition.late and end <= self.batch.passed and is_late)

    # --- firings ---

    def crowded(self, waiting):
        """The oldest of the windows that wait for which there is no room; equally old ones by window, then by key."""
        if self.trigger.buffer is None:
            return []

        def age(window):
            since = [each.came if each.since is None else each.since for _, each in window.fresh]
            return min(since), window.pair.place, window.pair.key is None, window.pair.key or 0, window.pair.part

        return sorted(waiting, key=age)[: max(0, len(waiting) - self.trigger.buffer.records)]

    def fire(self, windows, due):
        """Let all conditions begin anew; what is left of a count continues if it alone was true."""
        left = defaultdict(list)
        for each in windows:
            types = {type(one) for one in due[each.pair]}
            if ByDelta in map(type, self.trigger.conditions) and types != {ByDelta}:
                self.compared |= {pair: value for pair, value in self.newest.items() if pair == each.pair}
            self.count(each, types)
            left[each.pair.key].append(types)
            for known in each.known:
                known.fired = True
        for condition in self.trigger.conditions:
            for key, types in left.items() if isinstance(condition, ByRecordsOfKey) else ():
                alone = all(each == {ByRecordsOfKey} for each in types)
                self.of_key[key] = self.of_key[key] % condition.count if alone else 0

    def count(self, window, types):
        """Count the records of a window that fires."""
        uncounted = [each for each in window.known if not each.counted]
        if types == {ByRecords}:
            (condition,) = (each for each in self.trigger.conditions if isinstance(each, ByRecords))
            uncounted = uncounted[: len(uncounted) - len(uncounted) % condition.count]
        for each in uncounted:
            each.counted = True


def waits_by_event(trigger):
    return any(isinstance(each, ByEventDelay) for each in trigger.conditions)


OF_WAITING = {ByWaitingRecords: Due, ByInterval: Ticks}
"""By type of the only condition, which chooses from what waits."""


def early(trigger):
    return (OF_WAITING[type(trigger.conditions[0])] if WAITING in trigger.asks else Conditions)(trigger)


def kind_of(trigger, place, passed, watermark):
    """What an early firing is called: by the time at which it is, if the trigger goes by the ends of windows."""
    if not any(isinstance(each, ByEnd) for each in getattr(trigger, "conditions", ())):
        return "early"
    return "late" if place.end <= passed else "on_time" if place.end <= watermark else "early"


DUE = {Early: early}
"""By type of trigger. A trigger of one's own that fires early has an entry of its own."""
