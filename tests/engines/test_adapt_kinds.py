"""Results that come and go on a live checkpoint, on every kind of windows and under every emission.

The reference is a stream that has had all results from the beginning. A chain of three changes on the same records
must emit the same windows; each result is that of the reference, or null where the window began before the result was
there. Nothing partial is emitted as if it were whole::

    reference    total most squares   ------------------------------------------------
    chain        total              | total most      | most squares       | total
    total        same                                   not there            null, then same
"""

import json
import random
from dataclasses import replace

import pytest
from golden import every_kind
from golden.every_kind import BEGIN, COMBINED, SCENARIOS, SECOND, SHARED, WINDOWS, Line, micro_batches, results_of
from golden.make import load

from slicing.stages import flat
from slicing.stages.output import flat_windows
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache
from slicing.state.format.changes import ADDED, REMOVED, changes_of
from slicing.state.format.header import Header
from slicing.triggers.trigger import KINDS, MicroBatchTime

MERGED = KINDS.index("merged")
CHANGING = [
    name
    for name, (windows, results, emission) in SCENARIOS.items()
    if results in (COMBINED, SHARED)
    and emission != "on change"
    and not WINDOWS[windows][0].wide
    and not {ADDED, REMOVED} & set(support_of(WINDOWS[windows][0]).fixed(every_kind.EMISSIONS[emission], ()))
]


class Query(Line):
    """The bucket of a scenario with some of its results, in some order, on the store of another one."""

    def __init__(self, name, chosen, store=None):
        whole = every_kind.results_of
        every_kind.results_of = lambda of: {each: whole(of)[each] for each in chosen}
        try:
            super().__init__(name)
        finally:
            every_kind.results_of = whole
        self.chosen, self.store = chosen, store or self.store
        fixed = support_of(self.window).fixed(self.emission, ())
        self.fingerprint = replace(self.fingerprint, adapt="allow", fixed=fixed)

    def rows(self, records, watermark, clock):
        """The rows of a micro-batch: what tells each from others -> results by name."""
        bucket, found = self.bucket(), {}
        bucket.accept(self.shipped(records))
        for frame in bucket.close(MicroBatchTime(watermark * 1000, clock)):
            shape = replace(self.execution_plan.shape, since=bucket.coverage.results)
            for row in flat_windows(
                shape, frame, self.emission, bucket.head.revision, self.execution_plan.wide
            ).to_pylist():
                of = {prefix: [row.pop(f"{prefix}{at}", None) for at in range(len(self.chosen))] for prefix in "ro"}
                place = json.dumps(row, sort_keys=True)
                assert place not in found
                found[place] = row[flat.START], row.get(flat.KIND), of["r"], of["o"]
        self.bucket().check()
        return found


def compare(name, seed):
    """Compare a chain of three changes with the reference; how many results were null, and not, after a change."""
    windows, results, _ = SCENARIOS[name]
    rng = random.Random(f"{name} {seed}")
    every, batches = list(results_of(results)), micro_batches(windows)
    reference, changes = Query(name, every), sorted(rng.sample(range(4, len(batches) - 6), 3))
    query = Query(name, rng.sample(every, rng.choice([1, 2])))
    since, newest, seen = dict.fromkeys(every, None), None, {"null": 0, "known": 0}
    for number, (records, watermark, clock) in enumerate([*batches, ([], BEGIN // 1000 + 10**7, 10**12)]):
        if number in changes:
            before = query.chosen
            query = Query(name, rng.sample(every, rng.choice([1, 2, 3])), query.store)
            begun = None if newest is None else _end_of(query.window.family, newest)
            since |= {each: begun for each in query.chosen if each not in before}
            if rng.random() < 0.5:
                bucket_cache._entries.clear()
        wanted, found = (each.rows(records, watermark, clock) for each in (reference, query))
        assert found.keys() == wanted.keys(), (seed, number)
        newest = max([each[0] for each in records] + [newest or 0])
        for place, (start, kind, ours, old) in found.items():
            if kind == MERGED:
                continue
            _, _, theirs, their_old = wanted[place]
            for at, each in enumerate(query.chosen):
                its = every.index(each)
                if ours[at] is None and since[each] is not None and start < since[each]:
                    seen["null"] += theirs[its] is not None
                    continue
                assert ours[at] == pytest.approx(theirs[its]), (seed, number, place, each)
                assert old[at] in (their_old[its], None)
                seen["known"] += since[each] is not None
    return seen


def _end_of(family, instant):
    """The end of the slice of an instant."""
    return int(family.slice_start(family.slice_at(instant) + 1))


FEW = [each for each in CHANGING if each.startswith(("sessions", "sliding")) and each.endswith(("close", "update"))]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("seed", "name"), [*enumerate(FEW)])
def test_a_chain_of_results_equals_a_stream_that_always_had_them(seed, name):
    compare(name, seed)


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGING)
def test_more_chains_of_results(name):
    for seed in range(100, 102):
        compare(name, seed)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["sessions, combined, on close", "sliding, combined, on close"])
def test_sessions_and_sliding_windows_have_both_windows_with_and_without_a_new_result(name):
    seen = [compare(name, seed) for seed in range(3)]
    assert sum(each["null"] for each in seen) > 0
    assert sum(each["known"] for each in seen) > 0


@pytest.mark.parametrize("name", ["sessions, combined, on update", "sliding, combined, on close"])
def test_other_windows_that_records_decide_are_refused(name):
    query = Query(name, ["total"])
    query.rows([[BEGIN, 1, 1, "a", SECOND]], 0, 0)
    other = Query("hopping, combined, on close", ["total"])
    fixed = support_of(query.window).fixed(query.emission, ())
    found = changes_of([Header.from_text(query.store.text)], replace(other.fingerprint, fixed=fixed))
    assert not found.allowed
    assert any("decided" in change.effect for change in found)


# Checkpoints that format 7 has written.

STORED = load("every7")
OLDER = [name for name in STORED["scenarios"] if name in CHANGING and SCENARIOS[name][1] == COMBINED]


@pytest.mark.parametrize("name", [each for each in OLDER if each in FEW])
def test_checkpoints_of_format_7_are_adapted(name):
    adapt_older(name)


@pytest.mark.long
@pytest.mark.parametrize("name", OLDER)
def test_all_checkpoints_of_format_7_are_adapted(name):
    adapt_older(name)


def adapt_older(name):
    """One result goes, and comes back: it is null, or that of a stream that has kept it."""
    windows, _, _ = SCENARIOS[name]
    stored, every = STORED["scenarios"][name], ["total", "most", "squares"]
    reference, query = Query(name, every), Query(name, ["squares", "total"])
    for each in (reference, query):
        each.store.text, each.store.pages = stored["header"], dict(stored["pages"])
    assert [change.what for change in changes_of([Header.from_text(stored["header"])], query.fingerprint)] == [
        "result removed"
    ]
    for number, batch in enumerate(STORED["streams"][windows][every_kind.SEEN :]):
        if number == 4:
            query = Query(name, ["most", "total"], query.store)
        wanted, found = (each.rows(*batch) for each in (reference, query))
        assert found.keys() == wanted.keys()
        for place, (_, kind, ours, _) in found.items():
            theirs = dict(zip(every, wanted[place][2], strict=True))
            for each, value in zip(query.chosen, ours, strict=True):
                assert value == theirs[each] or (each == "most" and value is None) or kind == MERGED
