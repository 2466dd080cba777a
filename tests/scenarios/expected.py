"""What has to fire, from the records of each key and the definition of their windows: the truth of all scenarios.

Records are accepted if a window is open that holds them. What a trigger says is then a question about the windows of
all accepted records: which of them are closed, which are not what they were before the micro-batch, which are not what
they would be without the records since the last firing.
"""

from collections import Counter, defaultdict
from functools import cached_property
from operator import attrgetter

from slicing.triggers.accumulation import DISCARDING
from slicing.triggers.early import Early
from slicing.triggers.trigger import CHANGED, CLOSING, FINAL, LATE, NEWEST, PAIRS, TOUCHED, WAITING
from slicing.windows.time.edges import BEFORE
from slicing.windows.time.slices import FOREVER

from .due import DUE, Conditions, kind_of
from .kind import Record, in_order, numbers


class Expected:
    """The rows of one kind of windows, micro-batch by micro-batch; times of watermarks are microseconds.

    `order(record)` is the place of a record among others of its windows, `truth(records, place)` a result of them. A
    row is the records of its window, and those of the row that it replaces, if it does.
    """

    def __init__(self, kind, trigger, grace, order, truth):
        self.kind, self.trigger, self.grace, self.order, self.truth = kind, trigger, grace, order, truth
        self.held, self.windows = defaultdict(list), {}  # by key
        self.accepted = defaultdict(list)  # by key all records that were, whether or not they still matter
        self.watermark, self.passed, self.now, self.last = 0, 0, 0, {}  # `passed` is the watermark before
        # Windows that end by these times have fired when they closed, and accept no record any more.
        self.gone, self.refusing = -trigger.wait(grace), -grace
        self.first = None  # of windows that a live change has added, the first one
        self.waiting = defaultdict(set)
        self.emitted = defaultdict(dict)  # by key, of windows that have fired the numbers of the records that they had
        self.compared = {}  # by key, the window that the next one is compared with, and its records
        self.forgotten, self.seen = set(), Counter()  # keys that were idle; how often what has been
        self.before = {}  # the windows when the micro-batch begins
        self.dropped = set()  # of firings that purge, as `mark` has them

    # --- lateness ---

    def accepts(self, place):
        """Whether a window accepts records."""
        return not self.closed(place, self.refusing)

    def closed(self, place, until):
        """Whether a window has ended by a time, or ends before the first one that there is."""
        is_before = self.first is not None and (place.start < self.first.start or place.end < self.first.end)
        return is_before or self.kind.closed(place, until)

    def step(self, records, watermark, now, verdicts):
        """The rows of a micro-batch that are not early; `verdicts` gets (record, open windows, all windows) of each."""
        self.now = self.trigger.clock(1000 * self.now, 1000 * now) // 1000
        self.forget_idle()
        before, self.new = self.windows, set()
        self.before = before
        self.accept([record._replace(order=self.order(record)) for record in records], verdicts)
        self.windows = before | {key: self.extended(before.get(key, {}), key) for key in self.with_new()}
        rows = dict(self.on_records(before))
        self.passed, self.watermark = self.watermark, max(self.watermark, watermark)
        self.fired, self.refused = self.gone, self.refusing
        self.gone = max(self.gone, self.watermark - self.trigger.wait(self.grace))
        rows |= self.on_close(before)
        self.refusing = max(self.refusing, self.watermark - self.grace)
        self.wait()
        return rows

    def load(self, records, until):
        """Take the records of a history: windows that end by a time have fired with it, and are never emitted."""
        self.new, self.refusing = set(), BEFORE  # as in bounded input, times before 1970 are ordinary
        self.accept([record._replace(order=self.order(record)) for record in records], [])
        self.windows = {key: self.of(held) for key, held in self.held.items()}
        self.fired, self.refused, self.gone, self.refusing = BEFORE, BEFORE, until, until
        unseen = self.on_close({})
        self.wait()
        self.finish(dict(unseen), ())

    def finish(self, rows, fires, drops=()):
        """Add early firings of some windows and what all firings take back; forget what matters no longer.

        `fires` and `drops` are windows of keys, (key, place); of those in `drops` all records are dropped.
        """
        rows |= [row(self.windows[key], self.early_kind(place), key, place) for key, place in fires]
        rows = self.left(rows) if self.trigger.purges else rows
        self.dropped |= {self.mark(key, place, r) for key, place in drops for r in self.windows[key][place]}
        if not self.trigger.purges:
            self.retract(rows)
        self.settle()
        return rows

    def early_kind(self, place):
        held = self.kind.window.family.closed_right  # a microsecond, if the end is in the window
        return kind_of(self.trigger, place, self.passed - held, self.watermark - held)

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

    # --- pairs; a trigger asks for each itself ---

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
        return self.closed(place, self.refused)

    def came(self):
        """The new records; those whose windows all close with the same micro-batch count for their keys too."""
        return [record for held in self.held.values() for record in held if record.number in self.new]

    def was_there(self, key):
        """Whether a key had records for open windows before this micro-batch."""
        windows, was_open = self.windows[key], lambda place: not self.was_closed(place)
        return any(r.number not in self.new and self.kind.waits(r, windows, was_open) for r in self.held[key])

    def of(self, records):
        return self.kind.definition(in_order(records))

    def with_new(self):
        """The keys that have accepted a record in this micro-batch."""
        return {key for key, held in self.held.items() if held and held[-1].number in self.new}

    def extended(self, windows, key):
        """The windows of a key with the records that are new."""
        return self.kind.extended(windows, [r for r in self.held[key] if r.number in self.new], self.held[key])

    def accept(self, records, verdicts):
        waiting = sorted(records, key=lambda record: record.time) if not self.kind.separate else records
        again, together = True, self.together(records) if self.kind.splits and not self.kind.separate else None
        while again:
            again = False
            for record in waiting:
                if self.is_accepted(record) if together is None else record.number in together - self.new:
                    self.held[record.key].append(record)
                    self.accepted[record.key].append(record)
                    self.new.add(record.number)
                    again = not self.kind.separate
            waiting = [record for record in waiting if record.number not in self.new]
        for record in records if self.kind.window.by_time else ():
            is_new = record.number in self.new
            others = self.kind.around(self.held[record.key], record) if is_new and not self.kind.separate else [record]
            places = self.kind.holding_of(record, others)
            verdicts.append((record, sorted(filter(self.accepts, places), key=attrgetter("end", "start")), places))
        came = {record.key for record in records}
        self.last |= dict.fromkeys(came, self.now)
        self.seen["begun anew"] += len(came & self.forgotten)
        self.forgotten -= came

    def together(self, records):
        """The numbers of the records of open windows, if all records are accepted."""
        keys = {record.key for record in records}
        windows = [self.of([*self.held[key], *(each for each in records if each.key == key)]) for key in keys]
        return {n for each in windows for place, held in each.items() if self.accepts(place) for n in numbers(held)}

    def is_accepted(self, record):
        if not self.kind.window.by_time:
            return True
        kind = self.kind.accepting
        others = [] if kind.separate else kind.around(self.held[record.key], record)
        found = kind.holding_of(record, [*others, record])
        return record.number not in self.new and any(map(self.accepts, found))

    # --- triggers ---

    def on_records(self, before):
        asks = self.trigger.asks
        if TOUCHED in asks or NEWEST in asks:
            for key, windows in self.windows.items():
                touched = [p for p in self.touched(before, key) if self.accepts(p)]
                if touched and TOUCHED not in asks:
                    newest = self.newest(key)
                    touched = [place for place in touched if place == newest]
                yield from (row(windows, "update", key, place) for place in touched)

    def touched(self, before, key):
        """The windows that hold a new record, or are there because of one."""
        old, windows = before.get(key, {}), self.windows[key]
        new = {p: held for p, held in windows.items() if held is not old.get(p)} if windows is not old else {}
        return [p for p, held in new.items() if p not in old or numbers(held) != numbers(old[p])]

    def newest(self, key):
        """The first open window that holds the newest record of a key, or is there because of it."""
        windows = self.windows[key]
        known = self.held[key] if self.kind.keeps else [r for held in windows.values() for r in held]
        newest = max(known, key=lambda r: r.time)
        holding = (p for p, held in windows.items() if newest in held or self.kind.makes(newest, p))
        return min(filter(self.accepts, holding), default=None)

    def on_close(self, before):
        asks, rows = self.trigger.asks, {}
        if CHANGED in asks:
            return self.changes()
        if self.trigger.empty:
            rows |= {(FINAL, *pair): ([], None) for pair in self.following()}
        for key, windows in self.windows.items():
            for place in windows if CLOSING in asks and any(map(self.has_fired, first_to_end(windows))) else ():
                if self.has_fired(place) and not (self.had_fired(place) and self.is_known(key, place)):
                    rows |= [row(windows, FINAL, key, place)]
            for place in self.touched(before, key) if LATE in asks else ():
                if self.had_fired(place) and self.accepts(place) and (FINAL, key, place) not in rows:
                    rows |= [self.correction(key, place, before.get(key, {}).get(place, []))]
        return rows

    def following(self):
        """The windows without records that fire, window by window from the first record of each key on."""
        for key, records in self.accepted.items():
            held = [sorted(self.kind.holding(record.time)) for record in records]
            ends = [places[0].end for places in held if places]
            place = min((places[0] for places in held if places), default=None)
            while place is not None and self.has_fired(place) and place.end <= max(ends) + self.trigger.empty:
                is_new = place not in self.windows.get(key, {}) and not self.had_fired(place)
                if is_new and any(end <= place.end <= end + self.trigger.empty for end in ends):
                    yield key, place
                place = self.kind.next(place)

    def has_fired(self, place):
        """Whether a window has fired when it closed, or does so now."""
        return self.closed(place, self.gone)

    def had_fired(self, place):
        """Whether it has before this micro-batch."""
        return self.closed(place, self.fired)

    def is_known(self, key, place):
        """Whether a window has fired that a watermark before has let fire: if it is new, it is another one."""
        return not self.kind.grows or place in self.emitted[key]

    def correction(self, key, place, old):
        name, (held, _) = row(self.windows[key], "correction", key, place)
        if self.trigger.accumulation is DISCARDING and old:
            held = [record for record in held if record.number in self.new]
        return name, (held, (old or None) if self.trigger.accumulation.retracts else None)

    def changes(self):
        """Window by window: those with another result than the one before."""
        rows = {}
        for key in {*self.windows, *self.compared}:
            windows = self.windows.get(key, {})
            tried = {*windows, *(self.kind.next(place) for place in windows)}
            tried |= {self.kind.next(place) for place, _ in [self.compared[key]]} if key in self.compared else set()
            for place in sorted(place for place in tried if place is not None):
                if not self.has_fired(place) or self.had_fired(place):
                    continue
                held, (last, before) = windows.get(place, ()), self.compared.pop(key, (None, ()))
                is_same = bool(before) and bool(held) and self.truth(held, place) == self.truth(before, last)
                if held:
                    self.compared[key] = place, held
                    self.seen["unchanged"] += is_same
                    if not is_same:
                        rows |= [row(windows, FINAL, key, place)]
                elif before and self.trigger.tombstones:
                    rows["drained", key, place] = [], None
        return rows

    def change(self, trigger):
        """Another trigger from the next micro-batch on: what has fired has, and a record that waits does so no longer.

        A window that has fired accepts no record, unless the trigger corrects it.
        """
        asks, before = trigger.asks, self.trigger.asks
        self.trigger = trigger
        if not trigger.fires_late:
            self.refusing = max(self.refusing, self.gone)
        if trigger.fires_once:  # what has gone out is not remembered, as nothing takes its place
            self.emitted.clear()
        if WAITING not in asks & before:
            self.waiting.clear()
        if CHANGED in asks - before:
            self.compared = dict(self.still_compared())
        if self.kind.grows:  # later records do not merge with those that accept none any more
            self.settle()

    def like(self, kind, grace):
        """Other windows of the same call."""
        return Expected(kind, self.trigger, grace, self.order, self.truth)

    def add(self, first, watermark):
        """Begin with a window, beside others that have accepted the same records."""
        self.first, self.watermark = first, watermark
        self.gone = self.refusing = max(self.gone, watermark - self.trigger.wait(self.grace))
        self.fired, self.refused = self.gone, self.refusing
        self.held = defaultdict(list, {key: [*held] for key, held in self.accepted.items()})
        self.windows = {key: self.of(held) for key, held in self.held.items()}
        self.settle()

    def still_compared(self):
        """Of each key the last window of all that have fired, if its records are known: see `settle`."""
        for key in {*self.compared, *self.windows}:
            found = [self.compared[key]] if key in self.compared else []
            found += [(place, held) for place, held in self.windows.get(key, {}).items() if self.has_fired(place)]
            if found:
                last = max(found, key=lambda each: each[0])
                after = self.kind.next(last[0])
                if after is None or not self.has_fired(after):
                    yield key, last

    def wait(self):
        """Let new records wait, and forget those that wait for windows which have closed."""
        before, self.waiting = self.waiting, defaultdict(set)
        for key, windows in self.windows.items() if WAITING in self.trigger.asks else ():
            if self.kind.splits:
                self.waiting[key] = {
                    n for each in windows.items() if self.accepts(each[0]) for n in self.unseen(key, *each)
                }
                continue
            held = {r.number: r for r in self.held[key]}
            waiting = (before[key] | self.new) & held.keys()
            self.waiting[key] = {n for n in waiting if self.kind.waits(held[n], windows, self.accepts)}

    def unseen(self, key, place, held):
        """The records of a window that no firing of a window with its start had."""
        return numbers(held).difference(*(had for p, had in self.emitted[key].items() if p.start == place.start))

    def woken(self, due):
        """The open windows of some keys that are not what they would be without the records that wait."""
        for key in due & self.waiting.keys():
            waiting, self.waiting[key] = self.waiting[key], set()
            without = self.of(r for r in self.held[key] if r.number not in waiting)
            for place, some in self.windows.get(key, {}).items():
                changed = place not in without or numbers(some) != numbers(without[place])
                if self.accepts(place) and (numbers(some) & waiting if self.kind.splits else changed):
                    yield key, place

    def retract(self, rows):
        """Windows that have fired and are now part of others are taken back when those fire."""
        for _, key, place in list(rows) if self.kind.grows else ():
            held = self.windows[key][place]
            if self.kind.window.by_time:
                gone = {p for p in self.emitted[key] if p != place and self.kind.gives_way(p, place, held)}
                rows |= {("merged", key, p): (None, None) for p in gone if not self.trigger.fires_once}
                self.emitted[key] = {p: had for p, had in self.emitted[key].items() if p not in gone}
            self.emitted[key][place] = numbers(held)

    # --- what is forgotten ---

    def settle(self):
        """Forget what matters to no later micro-batch."""
        if self.kind.keeps:
            return
        for key, windows in list(self.windows.items()):
            if not self.kind.grows and all(map(self.accepts, first_to_end(windows))):
                continue
            is_open = {place: held for place, held in windows.items() if self.accepts(place)}
            self.keep_last(key, windows.keys() - is_open.keys())
            self.windows[key] = is_open
            if self.kind.grows:
                # A window that has fired and is part of an open one now is taken back when that fires.
                shown = self.emitted[key].items()
                gives_way = self.kind.gives_way
                self.emitted[key] = {p: n for p, n in shown if any(gives_way(p, *each) for each in is_open.items())}
                kept = {r.number: self.kind.settled(r, place) for place, held in is_open.items() for r in held}
                self.held[key] = list(kept.values())
            else:
                self.held[key] = [r for r in self.held[key] if self.kind.waits(r, is_open, self.accepts)]
            if not self.held[key]:
                del self.held[key]
                del self.windows[key]
        if self.kind.grows:
            self.windows = {key: self.of(held) for key, held in self.held.items()}

    def keep_last(self, key, places):
        """Keep the last of some windows that accept no record any more, if it has fired and accepted some since.

        Another trigger may compare the next window with it. One that fires and is closed at once is not known then.
        """
        last = max((place for place in places if not self.closed(place, self.refused)), default=None)
        if CHANGED not in self.trigger.asks and last is not None and self.had_fired(last):
            self.compared[key] = last, self.windows[key][last]

    def forget_idle(self):
        """Keys begin anew that have been idle; what a clock stamped that was ahead is of now."""
        ttl = self.kind.window.ttl
        self.last = {key: min(last, self.now) for key, last in self.last.items()}
        for key in [key for key, last in self.last.items() if ttl is not None and last < self.now - ttl // 1000]:
            self.forgotten.add(key)
            for each in (self.held, self.accepted, self.windows, self.waiting, self.emitted, self.last):
                each.pop(key, None)


class Call:
    """All windows of one call, of one kind or of several that share slices: what each micro-batch emits and refuses.

    `order` and `truth` are those of `Expected`; without `order` the records of a row are in the order of arrival.
    """

    def __init__(self, kind, trigger, grace=0, order=None, truth=lambda records, place: records):
        self.kind, self.watermark, self.count, self.verdicts = kind, 0, 0, []
        self.refused = []  # the times of the records that no window has accepted
        order = order or (lambda record: (record.number,))
        self.parts = [Expected(part, trigger, grace, order, truth) for part in kind.parts]
        self.trigger = trigger

    @cached_property
    def due(self):
        """What says which windows fire early, None if none do."""
        of = getattr(self.trigger, "of", self.trigger)  # a trigger of a user's own is that of one of ours
        return DUE[type(of)](of) if self.trigger.asks & {WAITING, PAIRS} else None

    def change(self, trigger, counts=True):
        """Go on under another trigger; whether it counts the records of windows that no trigger has counted."""
        due = self.__dict__.pop("due", None)
        if isinstance(due, Conditions) and due.trigger.remembers and isinstance(trigger, Early) and trigger.remembers:
            due.change(trigger)
            self.due = due
        self.trigger = trigger
        if isinstance(self.due, Conditions) and self.due is not due:
            self.due.counts = counts
        for part in self.parts:
            part.change(trigger)

    def made(self, records):
        """Records (time, key, value, ...) with their numbers, in the order of arrival."""
        made = [Record(*record[:4], number=self.count + at) for at, record in enumerate(records)]
        self.count += len(made)
        return made

    def load(self, records, until):
        """Begin with the records of a history before a time, in microseconds."""
        for each in self.parts:
            each.load([record for record in records if self.kind.is_valid(record)], until)

    def step(self, records, watermark=0, now=0):
        """The rows of a micro-batch by (kind, key, part, start, end), as in `Expected`; watermark and clock in ms."""
        self.watermark, self.verdicts, rows, found = max(self.watermark, watermark), [], {}, []
        valid = [record for record in records if self.kind.is_valid(record)]
        for each in self.parts:
            self.verdicts.append([])
            found.append(each.step(valid, 1000 * self.watermark, now, self.verdicts[-1]))
        self.refused += [record.time for record, by_all in self.late() if by_all]
        leads = [part for part, each in enumerate(self.parts) if each.kind in self.kind.leads]
        early = self.due.early([self.parts[part] for part in leads]) if self.due else [((), ())] * len(leads)
        for part, chosen in zip(leads, early, strict=True):
            rows |= self.finished(part, found[part], *chosen)
        beside = {part: self.parts[part].beside(rows) for part in {*range(len(self.parts))} - {*leads}}
        for part, of_part in beside.items():
            rows |= self.finished(part, self.alone(found[part]) | of_part, ())
        return rows

    def alone(self, rows):
        """Rows of windows that end before the first one of those that they are side by side with."""
        begin = max(
            (each.first.end for each in self.parts if each.first and each.kind in self.kind.leads), default=-FOREVER
        )
        return {name: held for name, held in rows.items() if name[-1].end < begin}

    # --- live changes ---

    def accepted(self):
        """By key the records that any of the windows has accepted, in the order of arrival."""
        every = {r.number: r for each in self.parts for held in each.accepted.values() for r in held}
        found = defaultdict(list)
        for number in sorted(every):
            found[every[number].key].append(every[number])
        return found

    def adapt(self, kind, grace, first):
        """Go on with other windows and another grace; `first` has, by what windows are, the first of those added."""
        accepted, waiting = self.accepted(), defaultdict(set)
        for each in self.parts:
            for key, marks in each.waiting.items() if each.kind in self.kind.leads else ():
                waiting[key] |= marks
        kept = {repr(each.kind.window): each for each in self.parts}
        self.kind, before = kind, self.parts[0]
        self.parts = [kept.get(repr(part.window)) or before.like(part, grace) for part in kind.parts]
        for each, part in zip(self.parts, kind.parts, strict=True):
            is_new = repr(part.window) not in kept
            each.kind, each.grace = part, grace
            each.accepted = defaultdict(list, {key: [*held] for key, held in accepted.items()})
            each.waiting = defaultdict(set, {key: {*marks} for key, marks in waiting.items()})
            if is_new:
                each.add(first[repr(part.window)], 1000 * self.watermark)
            each.new = set()
            each.wait()

    def finished(self, part, rows, *chosen):
        """The rows of one of the kinds, in a micro-batch which ends with that for it."""
        rows = self.parts[part].finish(rows, *chosen)
        return {(kind, key, part, *place): values for (kind, key, place), values in rows.items()}

    def late(self):
        """Of the last micro-batch, the records that a window has refused, and whether all windows have."""
        for each in zip(*self.verdicts, strict=True):  # of each record, what each kind says
            if any(len(is_open) < len(places) for _, is_open, places in each):
                yield each[0][0], not any(is_open for _, is_open, _ in each)


def first_to_end(places):
    """The window that closes before all others, or with them, if there is any."""
    return [min(places, key=attrgetter("end"))] if places else []


def row(windows, kind, key, place):
    """A row: its records, and those of the row that it replaces."""
    return (kind, key, place), (windows[place], None)
