"""What has to fire, from the records of each key and the definition of their windows: the truth of all scenarios.

Records are accepted if a window is open that holds them. What a trigger says is then a question about the windows of
all accepted records: which of them are closed, which are not what they were before the micro-batch, which are not what
they would be without the records since the last firing.
"""

from collections import Counter, defaultdict
from functools import cached_property

from slicing.triggers.accumulation import DISCARDING
from slicing.triggers.trigger import CHANGED, CLOSING, FINAL, LATE, NEWEST, PAIRS, TOUCHED, WAITING

from .due import DUE
from .kind import Record


class Expected:
    """The rows of one kind of windows, micro-batch by micro-batch; times of watermarks are microseconds.

    `order(record)` is the place of a record among others of its windows, `truth(records)` a result of them. A row is
    the records of its window, and those of the row that it replaces, if it does.
    """

    def __init__(self, kind, trigger, grace, order, truth):
        self.kind, self.trigger, self.grace, self.order, self.truth = kind, trigger, grace, order, truth
        self.held, self.windows = defaultdict(list), {}  # by key
        self.watermark, self.now, self.last = 0, 0, {}
        self.waiting, self.emitted, self.result = defaultdict(set), defaultdict(set), {}
        self.forgotten, self.seen = set(), Counter()  # keys that were idle; how often what has been
        self.before, self.last_watermark = {}, 0  # windows and watermark when the micro-batch begins
        self.dropped = set()  # of firings that purge, as `mark` has them

    # --- lateness ---

    def accepts(self, place):
        """Whether a window accepts records."""
        return not self.kind.closed(place, self.watermark, self.grace)

    def fired(self, place, watermark):
        """Whether a watermark has let a window fire that fires when it closes."""
        return self.kind.closed(place, watermark, self.trigger.wait(self.grace))

    def step(self, records, watermark, now, verdicts):
        """The rows of a micro-batch that are not early; `verdicts` gets (record, open windows, all windows) of each."""
        self.now = self.trigger.clock(1000 * self.now, 1000 * now) // 1000
        self.forget_idle()
        before, self.new = self.windows, set()
        self.before, self.last_watermark = before, self.watermark
        self.accept([record._replace(order=self.order(record)) for record in records], verdicts)
        self.windows = {key: self.of(held) for key, held in self.held.items()}
        rows = dict(self.on_records(before))
        last, self.watermark = self.watermark, max(self.watermark, watermark)
        rows |= self.on_close(before, last)
        self.wait()
        return rows

    def finish(self, rows, fires, drops=()):
        """Add early firings of some windows and what all firings take back; forget what matters no longer.

        `fires` and `drops` are windows of keys, (key, place); of those in `drops` all records are dropped.
        """
        rows |= [row(self.windows[key], "early", key, place) for key, place in fires]
        rows = self.left(rows) if self.trigger.purges else rows
        self.dropped |= {self.mark(key, place, r) for key, place in drops for r in self.windows[key][place]}
        if not self.trigger.purges:
            self.retract(rows)
        self.settle()
        return rows

    def beside(self, rows):
        """The windows that are in rows of others, which end with them, as rows of their own."""
        found = {}
        for kind, key, end in {(kind, key, end) for kind, key, *_, end in rows}:
            for place in (place for place in self.windows.get(key, {}) if place.end == end):
                old = self.before.get(key, {}).get(place, [])
                is_again = kind == "correction"
                name, shown = self.correction(key, place, old) if is_again else row(self.windows[key], kind, key, place)
                found |= {name: shown} if shown[0] else {}
        return found

    def mark(self, key, place, record):
        """What tells a record in a window from all others; windows that merge have their records in common."""
        return record.number if self.kind.grows else (key, place, record.number)

    def left(self, rows):
        """Rows without the records that have been dropped; a row without any other is none."""
        kept = {at: [r for r in held if self.mark(*at[1:], r) not in self.dropped] for at, (held, _) in rows.items()}
        return {at: (held, None) for at, held in kept.items() if held}

    # --- pairs, of which a trigger asks for each itself ---

    def open(self):
        """The records of each open window, by (key, place)."""
        return self.pairs(self.accepts)

    def closing(self):
        """The records of each window that the watermark of this micro-batch closes."""
        return self.pairs(lambda place: not self.accepts(place) and not self.was_closed(place))

    def pairs(self, chosen):
        every = ((key, *window) for key, windows in self.windows.items() for window in windows.items())
        return {(key, place): held for key, place, held in every if chosen(place)}

    def was_closed(self, place):
        """Whether the watermark of the micro-batch before has closed a window."""
        return self.kind.closed(place, self.last_watermark, self.grace)

    def came(self):
        """The new records that count for their keys."""
        for key, windows in self.windows.items():
            for record in self.held[key]:
                counts = self.kind.counts_closing or self.kind.waits(record, windows, self.accepts)
                if record.number in self.new and counts:
                    yield record

    def was_there(self, key):
        """Whether a key had records for open windows before this micro-batch."""
        windows, was_open = self.windows[key], lambda place: not self.was_closed(place)
        return any(r.number not in self.new and self.kind.waits(r, windows, was_open) for r in self.held[key])

    def of(self, records):
        return self.kind.definition(sorted(records, key=lambda record: record.order))

    def accept(self, records, verdicts):
        waiting = sorted(records, key=lambda record: record.time) if not self.kind.separate else records
        again = True
        while again:
            again = False
            for record in waiting:
                if self.is_accepted(record):
                    self.held[record.key].append(record)
                    self.new.add(record.number)
                    again = not self.kind.separate
            waiting = [record for record in waiting if record.number not in self.new]
        for record in records if self.kind.window.by_time else ():
            alone = self.kind.separate or record.number not in self.new
            held = [record] if alone else self.kind.around(self.held[record.key], record)
            places = [place for place, some in self.of(held).items() if record.number in numbers(some)]
            verdicts.append((record, sorted(place for place in places if self.accepts(place)), places))
        came = {record.key for record in records}
        self.last |= dict.fromkeys(came, self.now)
        self.seen["begun anew"] += len(came & self.forgotten)
        self.forgotten -= came

    def is_accepted(self, record):
        if not self.kind.window.by_time:
            return True
        others = [] if self.kind.separate else self.kind.around(self.held[record.key], record)
        found = self.of([*others, record])
        return record.number not in self.new and any(
            self.accepts(place) for place, held in found.items() if record.number in numbers(held)
        )

    # --- triggers ---

    def on_records(self, before):
        asks = self.trigger.asks
        if TOUCHED in asks or NEWEST in asks:
            for key, windows in self.windows.items():
                touched = [p for p in self.touched(before, key) if self.accepts(p)]
                yield from (row(windows, "update", key, p) for p in touched if TOUCHED in asks or p == self.newest(key))

    def touched(self, before, key):
        """The windows that hold a new record, or are there because of one."""
        old = before.get(key, {})
        return [p for p, held in self.windows[key].items() if numbers(held) != numbers(old.get(p, ()))]

    def newest(self, key):
        """The first open window that holds the newest record of a key."""
        newest = max((r for held in self.windows[key].values() for r in held), key=lambda r: r.time)
        return min((p for p, held in self.windows[key].items() if newest in held and self.accepts(p)), default=None)

    def on_close(self, before, last):
        asks, rows = self.trigger.asks, {}
        if CHANGED in asks:
            return self.changes(last)
        for key, windows in self.windows.items():
            for place in windows if CLOSING in asks else ():
                again = self.fired(place, last)
                if self.fired(place, self.watermark) and not (again and self.is_known(key, place)):
                    rows |= [row(windows, FINAL, key, place)]
            for place in self.touched(before, key) if LATE in asks else ():
                is_open = not self.kind.closed(place, last, self.grace)
                if self.fired(place, last) and is_open and (FINAL, key, place) not in rows:
                    rows |= [self.correction(key, place, before.get(key, {}).get(place, []))]
        return rows

    def is_known(self, key, place):
        """Whether a window has fired that a watermark before has let fire: if it is new, it is another one."""
        return not self.kind.grows or place in self.emitted[key]

    def correction(self, key, place, old):
        name, (held, _) = row(self.windows[key], "correction", key, place)
        if self.trigger.accumulation is DISCARDING and old:
            held = [record for record in held if record.number in self.new]
        return name, (held, (old or None) if self.trigger.accumulation.retracts else None)

    def changes(self, last):
        """Window by window: those with another result than the one before."""
        rows = {}
        for key in {*self.windows, *self.result}:
            windows = self.windows.get(key, {})
            tried = {*windows, *(self.kind.next(place) for place in windows)}
            tried |= {self.kind.next(place) for place, _ in [self.result[key]]} if key in self.result else set()
            for place in sorted(place for place in tried if place is not None):
                if not self.fired(place, self.watermark) or self.fired(place, last):
                    continue
                held = windows.get(place, ())
                known = self.result.pop(key, (None, None))[1]
                if held:
                    self.result[key] = place, (found := self.truth(held))
                    self.seen["unchanged"] += found == known
                    if found != known:
                        rows |= [row(windows, FINAL, key, place)]
                elif known is not None and self.trigger.tombstones:
                    rows["drained", key, place] = [], None
        return rows

    def wait(self):
        """Let new records wait, and forget those that wait for windows which have closed."""
        for key, windows in self.windows.items() if WAITING in self.trigger.asks else ():
            held = {r.number: r for r in self.held[key]}
            waiting = (self.waiting[key] | self.new) & held.keys()
            self.waiting[key] = {n for n in waiting if self.kind.waits(held[n], windows, self.accepts)}

    def woken(self, due):
        """The open windows of some keys that are not what they would be without the records that wait."""
        for key in due & self.waiting.keys():
            waiting, self.waiting[key] = self.waiting[key], set()
            without = self.of(r for r in self.held[key] if r.number not in waiting)
            for place, some in self.windows.get(key, {}).items():
                if self.accepts(place) and numbers(some) != numbers(without.get(place, ())):
                    yield key, place

    def retract(self, rows):
        """Windows that have fired and are now part of others are taken back when those fire."""
        for _, key, place in list(rows):
            if self.kind.grows and self.kind.window.by_time:
                gone = {p for p in self.emitted[key] if p != place and lies_in(p, place)}
                rows |= {("merged", key, p): (None, None) for p in gone if not self.trigger.fires_once}
                self.emitted[key] -= gone
            self.emitted[key].add(place)

    # --- what is forgotten ---

    def settle(self):
        """Forget what matters to no later micro-batch."""
        if self.kind.keeps:
            return
        for key, windows in list(self.windows.items()):
            is_open = {place: held for place, held in windows.items() if self.accepts(place)}
            self.windows[key] = is_open
            # A window that has fired and is part of an open one now is taken back when that fires.
            self.emitted[key] = {p for p in self.emitted[key] if any(lies_in(p, place) for place in is_open)}
            kept = {r.number: self.kind.settled(r, place) for place, held in is_open.items() for r in held}
            self.held[key] = list(kept.values())
            if not kept:
                del self.held[key]
                del self.windows[key]
        if self.kind.grows:
            self.windows = {key: self.of(held) for key, held in self.held.items()}

    def forget_idle(self):
        """Keys begin anew that have been idle."""
        ttl = self.kind.window.ttl
        for key in [key for key, last in self.last.items() if ttl is not None and last < self.now - ttl // 1000]:
            self.forgotten.add(key)
            for each in (self.held, self.windows, self.waiting, self.emitted, self.last):
                each.pop(key, None)


class Call:
    """All windows of one call, of one kind or of several that share slices: what each micro-batch emits and refuses.

    `order` and `truth` are those of `Expected`; without `order` the records of a row are in the order of arrival.
    """

    def __init__(self, kind, trigger, grace=0, order=None, truth=list):
        self.kind, self.watermark, self.count, self.verdicts = kind, 0, 0, []
        order = order or (lambda record: (record.number,))
        self.parts = [Expected(part, trigger, grace, order, truth) for part in kind.parts]
        self.trigger = trigger

    @cached_property
    def due(self):
        """What says which windows fire early, None if none do."""
        of = getattr(self.trigger, "of", self.trigger)  # a trigger of a user's own is that of one of ours
        return DUE[type(of)](of) if self.trigger.asks & {WAITING, PAIRS} else None

    def made(self, records):
        """Records (time, key, value, ...) with their numbers, in the order of arrival."""
        made = [Record(*record[:4], number=self.count + at) for at, record in enumerate(records)]
        self.count += len(made)
        return made

    def step(self, records, watermark=0, now=0):
        """The rows of a micro-batch by (kind, key, part, start, end), as in `Expected`; watermark and clock in ms."""
        self.watermark, self.verdicts, rows, found = max(self.watermark, watermark), [], {}, []
        valid = [record for record in records if self.kind.is_valid(record)]
        for each in self.parts:
            self.verdicts.append([])
            found.append(each.step(valid, 1000 * self.watermark, now, self.verdicts[-1]))
        leads = [part for part, each in enumerate(self.parts) if each.kind in self.kind.leads]
        early = self.due.early([self.parts[part] for part in leads]) if self.due else [((), ())] * len(leads)
        for part, chosen in zip(leads, early, strict=True):
            rows |= self.finished(part, found[part], *chosen)
        for part in {*range(len(self.parts))} - {*leads}:
            rows |= self.finished(part, self.parts[part].beside(rows), ())
        return rows

    def finished(self, part, rows, *chosen):
        """The rows of one of the kinds, in a micro-batch which ends with that for it."""
        rows = self.parts[part].finish(rows, *chosen)
        return {(kind, key, part, *place): values for (kind, key, place), values in rows.items()}

    def late(self):
        """Of the last micro-batch, the records that a window has refused, and whether all windows have."""
        for each in zip(*self.verdicts, strict=True):  # of each record, what each kind says
            if any(len(is_open) < len(places) for _, is_open, places in each):
                yield each[0][0], not any(is_open for _, is_open, _ in each)


def lies_in(one, other):
    return other.start <= one.start and one.end <= other.end


def numbers(records):
    return {record.number for record in records}


def row(windows, kind, key, place):
    """A row: its records, and those of the row that it replaces."""
    return (kind, key, place), (windows[place], None)
