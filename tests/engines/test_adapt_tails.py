"""Chains of live changes in which windows with a tail come and go: rows and lookups against the raw records.

A micro-batch tells which records it stores. What a row or a lookup shows is the number of stored records between its
edges, whatever windows there were when they came.
"""

import random
from collections import Counter
from copy import deepcopy
from itertools import pairwise

import pytest
from adapting import SECOND, Query
from oracle import seeds
from test_stored_slices import looked_up, of_table

from slicing import hopping
from slicing.engines.looking import Look, Other
from slicing.engines.sliced import merging
from slicing.errors import InvalidValue
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache
from slicing.state.store import MemoryStore
from slicing.triggers.trigger import MicroBatchTime

TAILS = [(20, 1, 5), (12, 1, 4), (18, 2, 6)]
PLAIN = [(8, 2, 0), (12, 4, 0), (3, 1, 0), (10, 10, 0), (60, 60, 0)]
OTHERS = [(4, 2, 0), (16, 4, 0), (20, 10, 0), (9, 1, 3)]
"""Windows by size, advance and tail, in seconds. The last ones are looked up, and not declared."""


def window_of(size, advance, tail):
    """The call that makes windows."""
    return hopping(f"{size} seconds", f"{advance} seconds", tail=f"{tail} seconds" if tail else None)


def spans(spec, time):
    """The windows of an instant, in seconds, by the definition: they end at multiples of the advance."""
    size, advance, tail = spec
    second = time // SECOND
    for end in range((second // advance + 1) * advance, second + size + tail + 1, advance):
        start = (end - size) // tail * tail if tail else end - size
        if start <= second:
            yield start, end


class Chain:
    """A bucket whose windows change, and the stored records by second and key.

    `due` has for each of the windows the start from which on they must be there, and the end up to which they had
    ended when they were added. From `fine` on, slices have the edges of all windows.
    """

    def __init__(self, specs):
        self.store, self.stored, self.watermark, self.fine = MemoryStore(), Counter(), 0, 0
        self.seen, self.found = Counter(), set()
        self.ask(specs, 0)
        self.due = dict.fromkeys(specs, (0, 0))

    def ask(self, specs, retain):
        """Take another query; slices are retained only without a tail."""
        has_tail = any(tail for *_, tail in specs)
        self.specs = specs
        self.query = Query([window_of(*each) for each in specs], ["rows"], retain=0 if has_tail else retain * SECOND)

    def change(self, specs, retain):
        """Go on with other windows: they are due once they begin with the oldest open ones, after merged slices."""
        begin, old = min(map(self.first_open, self.specs)), self.edges(self.specs)
        self.ask(specs, retain)
        if not self.edges(specs) <= old:
            self.fine = 1 + 12 + max(second for second, _ in self.stored)
        begin = max(begin, self.fine, self.watermark + 2)  # a tail ends with the first open window at the latest
        self.due = {each: self.due.get(each, (begin, self.watermark)) for each in specs}

    def first_open(self, spec):
        """The start of the first open window."""
        start, passed = self.due[spec]
        open_ones = (span for at in range(200) for span in spans(spec, at * SECOND))
        return min(span[0] for span in open_ones if span[0] >= start and span[1] > max(passed, self.watermark))

    @staticmethod
    def edges(specs):
        """The seconds of a minute at which windows begin and end."""
        return {edge % 60 for each in specs for at in range(60) for span in spans(each, at * SECOND) for edge in span}

    def step(self, records, watermark):
        """Feed records, then a watermark, and compare the rows that go out."""
        closed, before = self.watermark, deepcopy(self.store)
        rows, late = self.take(records, max(closed, watermark))
        if late not in (0, len(records)):  # which of them are stored is told one by one
            self.store = before
            for each in records:
                assert self.take([each], closed)[0] == []
            rows, _ = self.take([], max(closed, watermark))
        self.watermark = max(closed, watermark)
        for start, end, key, results in rows:
            assert results["rows"] == self.count(start, end, key), (start, end, key)
        found = {(start // SECOND, end // SECOND, key) for start, end, key, _ in rows}
        for spec, place in self.due_windows():
            if max(closed, self.due[spec][1]) < place[1] <= self.watermark:
                assert place in found, (spec, place)
        self.found |= {place[:2] for place in found}
        self.seen["rows"] += len(rows)

    def take(self, records, watermark):
        """Feed a micro-batch, and note its records if all are stored; return the rows, and how many are refused."""
        rows, late = self.query.step(self.store, [(*each, 1, "a") for each in records], watermark * SECOND)
        if not late:
            self.stored.update((time // SECOND, key) for time, key in records)
        return rows, late

    def due_windows(self):
        """Yield the windows that must be there, as they hold records: (start, end, key)."""
        for spec in self.specs:
            for second, key in self.stored:
                found = spans(spec, second * SECOND)
                yield from ((spec, (*span, key)) for span in found if span[0] >= self.due[spec][0])

    def count(self, start, end, key):
        """How many records of a key are stored between two instants."""
        return sum(self.stored[second, key] for second in range(start // SECOND, end // SECOND))

    def looks(self):
        """Compare lookups of the windows of the query, and of others."""
        every = self.look(Look())
        for place, (count, _) in every.items():
            assert count == self.count(*place), place
        for spec, (start, end, key) in self.due_windows():
            if end > self.watermark and start >= self.fine:
                assert (start * SECOND, end * SECOND, key) in every, (spec, start, end)
        assert self.look(Look(latest=True)).items() <= every.items()
        for place, (count, known) in self.look(Look(incomplete=True)).items():
            start, end, key = place
            assert self.count(max(start, known), end, key) <= count <= self.count(*place), (place, known)
            assert place in every or known > start
        for other in OTHERS:
            if self.edges([other]) <= self.edges(self.specs):
                for place, (count, _) in self.look(Look(), other).items():
                    assert count == self.count(*place), (other, place)
                    self.seen["other windows"] += 1
        self.seen["windows"] += len(every)

    def look(self, asked, other=None):
        """Windows by (start, end, key): how many records, and since when they are known."""
        bucket = self.query.bucket(self.store)
        families = getattr(bucket, "engine", bucket).shape.family.families
        if other is not None:
            families = (window_of(*other).family.over(families[0].cut),)
            asked = Look(other=Other(families))
        found = {}
        for frame in bucket.look(asked):
            own = families[frame.family]
            starts, keys = own.window_start(frame.windows), frame.names["k0"].to_pylist()
            rows = zip(
                starts, frame.ends_by(own), frame.keys, frame.records, bucket.coverage.known_since(starts), strict=True
            )
            for start, end, key, count, known in rows:
                found[int(start), int(end), keys[key]] = int(count), int(known)
        return found

    def partials(self):
        """Compare the stored slices: each has all of its records, and together they have all from the first on."""
        found = looked_up(self.query, self.store).to_pylist()
        for row in found:
            assert row["r0"] == self.count(row["start"], row["stop"], row["k0"]), row
            assert row["start"] >= row["known"]
        if found:
            stored = [n for (second, _), n in self.stored.items() if second * SECOND >= found[0]["known"]]
            assert sum(row["r0"] for row in found) == sum(stored)
        for key in (1, 2):
            of_key = sorted((row["start"], row["stop"]) for row in found if row["k0"] == key)
            assert all(one[1] <= other[0] for one, other in pairwise(of_key))
        self.seen["slices"] += len(found)

    def goes_on(self):
        """Start another bucket from the stored slices, and compare its rows of windows that begin with them.

        Refused are slices that were merged before windows came that need their parts.
        """
        found, store, until = looked_up(self.query, self.store), MemoryStore(), self.watermark * SECOND
        if not len(found):
            return
        plan, support = self.query.execution_plan, support_of(self.query.windows)
        first = tuple(support.first_window(each, until, self.query.emission) for each in plan.shape.family.families)
        try:
            shipped = of_table(self.query, found, first)
        except InvalidValue as refusal:
            if "is cut at" in str(refusal):
                return
            raise
        self.query.bucket(store).load(shipped, MicroBatchTime(until, 0))
        for start, end, key, results in self.query.step(store, [], 1000 * SECOND)[0]:
            assert end > until
            if start >= found["known"][0].as_py():
                assert results["rows"] == self.count(start, end, key), (start, end, key)
                self.seen["warm"] += 1


def run(seed, batches=45, changes=5):
    """A chain of changes on a random stream, compared after each micro-batch; how much was seen of what."""
    rng = random.Random(seed)
    chain = Chain([rng.choice(TAILS[:2]), *rng.sample(PLAIN, rng.choice([0, 1]))])
    at = set(rng.sample(range(12, batches), changes))
    for number in range(batches):
        if number in at:
            specs = rng.sample(TAILS, rng.choice([0, 0, 1, 1, 2])) + rng.sample(PLAIN, rng.choice([0, 1, 2]))
            if specs and sorted(specs) != sorted(chain.specs):
                chain.change(specs, rng.choice([0, 30, 60]))
        if rng.random() < 0.3:
            bucket_cache._entries.clear()
        now = 40 + number
        times = [now * SECOND + rng.randrange(SECOND) for _ in range(rng.choice([0, 1, 1, 2]))]
        times += [(now - rng.randrange(30)) * SECOND for _ in range(rng.choice([0, 0, 1]))]
        chain.step([(time, rng.choice([1, 2])) for time in times], now - rng.choice([0, 0, 1, 3]))
        if chain.store.text is not None:
            chain.looks()
            chain.partials()
    chain.goes_on()
    return chain.seen


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(3, 60))
def test_chains_of_tails_that_come_and_go_equal_the_records(seed, monkeypatch):
    monkeypatch.setattr(merging, "AT_ONCE", [8, 2, 1][seed % 3])
    seen = run(seed)
    assert min(seen["rows"], seen["windows"], seen["other windows"], seen["slices"]) > 10


def dense(specs, until, chain=None):
    """Feed a record of each second from 30 on, with the watermark at its beginning."""
    chain = chain or Chain(specs)
    for second in range(max(30, chain.watermark + 1), until):
        chain.step([(second * SECOND, 1)], second)
    return chain


REMOVED = {
    "the last tail": [[(20, 1, 5)], [(8, 2, 0)]],
    "the last tail beside others": [[(20, 1, 5)], [(20, 1, 5), (8, 2, 0)], [(8, 2, 0)]],
    "one of several": [[(20, 1, 5), (28, 1, 7), (40, 1, 0)], [(28, 1, 7), (40, 1, 0)]],
    "a tail for another one": [[(20, 1, 5)], [(12, 1, 4)], [(12, 4, 0)]],
}


@pytest.mark.parametrize("windows", REMOVED)
def test_a_removed_tail_leaves_slices_of_which_lookups_know_where_they_end(windows):
    first, *others = REMOVED[windows]
    chain = dense(first, 58)
    for windows in others:
        chain.change(windows, 30)
        dense((), chain.watermark + 3, chain)
    for second in range(60, 100):
        if second % 5 == 0:
            chain.looks()
            chain.partials()
            chain.goes_on()
        chain.step([(second * SECOND, 1), ((second - 13) * SECOND, 1)], second)
    assert min(chain.seen.values()) > 10


def test_windows_that_are_added_wait_for_no_window_that_begins_later():
    """A window of 100 seconds begins at 100; up to 60 slices are merged, those of the tail that ends there."""
    chain = dense([(20, 1, 5)], 60)
    chain.change([(20, 1, 5), (100, 100, 0)], 0)
    dense((), 65, chain)
    chain.change([(20, 1, 5), (100, 100, 0), (8, 2, 0)], 0)
    assert chain.due[8, 2, 0] == (66, 64)
    dense((), 90, chain)
    assert min(start for start, end in chain.found if end - start == 8) == 60
