"""Lengths of sliding windows that are added and removed on a live checkpoint, against the accepted records."""

import random

import pytest
from adapting import SECOND, Query, stream
from oracle import seeds

from slicing import hopping, on_update, session, sliding
from slicing.errors import StateMismatch
from slicing.state import bucket_cache
from slicing.state.format.changes import changes_of
from slicing.state.format.header import Header
from slicing.state.store import MemoryStore

BEFORE_ALL = -(1 << 60)


class Lengths(Query):
    """A query with a count of the records of each length, in seconds."""

    def __init__(self, lengths, *given, unit="1 microsecond", **options):
        named = {f"s{length}": f"{length} seconds" for length in lengths}
        self.lengths = lengths
        super().__init__([sliding(**named, unit=unit, right=False)], ["rows"], *given, **options)
        self.members = self.windows.members

    def rows(self, store, records, watermark):
        """By key and time, the count of each length."""
        return {
            (key, end - 1): dict(zip(self.lengths, counts.values(), strict=True))
            for end, key, counts in self.wide_step(store, records, watermark)
        }


class Model:
    """Which records are accepted, and from which time on the windows of each length hold all of theirs."""

    def __init__(self, lengths):
        self.since = dict.fromkeys(lengths, BEFORE_ALL)
        self.accepted, self.watermark, self.fired = [], 0, 0

    def first(self, grace):
        """The first time whose windows are open."""
        return self.fired - grace

    def change(self, lengths, grace):
        """Lengths that are added begin where no record was refused."""
        begin = min(max(since + length * SECOND, self.first(grace)) for length, since in self.since.items())
        self.since = {length: self.since.get(length, begin) for length in lengths}

    def accept(self, records, grace):
        first, left = self.first(grace), list(records)
        self.accepted += [each for each in left if each[0] >= first]
        ends = [each for each in self.accepted if each[0] >= first]
        for record in (each for each in left if each[0] < first):
            starts = [end[0] - max(self.since) * SECOND for end in ends if end[1] == record[1]]
            self.accepted += [record] if any(start <= record[0] for start in starts) else []

    def close(self, watermark, grace):
        before, self.watermark = self.first(grace), max(self.watermark, watermark)
        self.fired = max(self.fired, self.watermark)
        found = {}
        for time, key in {(each[0], each[1]) for each in self.accepted if before <= each[0] < self.first(grace)}:
            starts = {length: time - length * SECOND for length in self.since}
            held = [each[0] for each in self.accepted if each[1] == key and each[0] <= time]
            row = {
                length: sum(each >= starts[length] for each in held) if starts[length] >= since else None
                for length, since in self.since.items()
            }
            found |= {(key, time): row} if any(value is not None for value in row.values()) else {}
        return found


def chain(seed, changes=4, batches=40):
    """How many rows, and how many of their columns were null."""
    rng = random.Random(seed)
    grace = rng.choice([0, 0, 3 * SECOND])
    lengths = rng.sample([0, 1, 4, 9, 20], 2)
    store, model, query, seen = MemoryStore(), Model(lengths), Lengths(lengths, grace=grace), [0, 0]
    at = set(rng.sample(range(4, batches), changes))
    for number, (records, watermark) in enumerate(stream(rng, batches)):
        if number in at:
            kept = rng.sample(lengths, rng.choice([0, 1, 2, 2])) if len(lengths) > 1 else lengths
            lengths = list(dict.fromkeys([*kept, *rng.sample([0, 1, 4, 9, 20], rng.choice([1, 2]))]))
            rng.shuffle(lengths)
            query = Lengths(lengths, grace=grace)
            model.change(lengths, grace)
            if rng.random() < 0.5:
                bucket_cache._entries.clear()
        model.accept(records, grace)
        found, wanted = query.rows(store, records, watermark), model.close(watermark, grace)
        assert found == wanted, (seed, number)
        seen[0] += len(found)
        seen[1] += sum(value is None for row in found.values() for value in row.values())
    return seen


@pytest.mark.parametrize("seed", seeds(12, 200))
def test_chains_of_lengths_equal_the_records(seed):
    rows, _ = chain(seed)
    assert rows > 10


def test_some_columns_are_null_until_their_length_is_whole():
    assert sum(chain(seed)[1] for seed in range(6)) > 10


def at(second):
    return int(second * SECOND), 1, 1, "a"


def test_an_added_length_is_null_until_its_windows_hold_all_records():
    store, query = MemoryStore(), Lengths([2])
    for second in range(10, 14):
        query.rows(store, [at(second)], (second - 1) * SECOND)
    query, found = Lengths([2, 5]), {}
    for second in range(14, 24):
        found |= query.rows(store, [at(second)], (second - 1) * SECOND)
    counts = {time // SECOND: row for (_, time), row in found.items()}
    assert all(row[2] == 3 for row in counts.values())
    assert [row[5] for row in counts.values()] == [None] * 5 + [6] * (len(counts) - 5)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (Lengths([2, 4], on_update()), "fires wide rows early"),
        (Lengths([2, 4], unit="1 second"), "times are floored to 1 second, which is not the unit of the checkpoint"),
        (Query([hopping("5 seconds", "1 second")], ["rows"]), "windows that records decide keep no slices"),
        (Query([session("5 seconds")], ["rows"]), "which records are one session is decided"),
        (Query([sliding("2 seconds", right=False)], ["rows"]), "which records are late is decided"),
    ],
)
def test_what_would_lose_records_is_refused(query, words):
    store = MemoryStore()
    Lengths([2, 3]).rows(store, [at(10)], 9 * SECOND)
    found = changes_of([Header.from_text(store.text)], query.fingerprint)
    assert not found.allowed
    assert words in str(found)
    with pytest.raises(StateMismatch, match=words):
        query.bucket(store)


def test_slices_are_not_taken_for_times():
    """A checkpoint of hopping windows, whose slices are as long as a unit."""
    store = MemoryStore()
    Query([hopping("5 seconds", "1 second")], ["rows"]).step(store, [at(10)], 9 * SECOND)
    with pytest.raises(StateMismatch, match="windows that records decide keep no slices"):
        Lengths([2], unit="1 second").bucket(store)
